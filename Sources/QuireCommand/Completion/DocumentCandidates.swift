import ArgumentParser
import Foundation
import Quire
import QuireDocuments

extension CommandCompletion {
    /// The most objects, or other things in a document, that are listed.
    private static let mostListed = 50
    /// The most identifiers of objects that are looked at.
    private static let mostExamined = 10_000

    /// The words that may replace the one at the cursor.
    ///
    /// - Parameter document: The open document of the session, or that of ``documentPath``. Without it, or if it cannot be read,
    ///   nothing in it is a candidate.
    @MainActor
    func candidates(in document: DocumentSession?) -> [Candidate] {
        // Of `--format=js` a candidate for the value is typed after the option.
        let start = String(current.dropLast(value.count))
        var found = words
        for var candidate in (try? valueCandidates(in: document)) ?? [] {
            candidate.text = start + candidate.text
            found.append(candidate)
        }
        var known: Set<String> = []
        return found.compactMap { candidate in
            // Names in a document can hold anything, which a terminal would obey or a shell take for several words.
            let isPlain =
                candidate.text.utf8.count < 1000
                && !candidate.text.unicodeScalars.contains(where: TerminalText.isObeyed)
            guard isPlain, candidate.text.hasPrefix(current), known.insert(candidate.text).inserted
            else { return nil }
            var candidate = candidate
            candidate.summary = String(TerminalText.line(candidate.summary).prefix(200))
            return candidate
        }
    }

    /// The words that may replace the one at the cursor of a command line, whose document is opened for reading if needed.
    @MainActor
    func candidates() async -> [Candidate] {
        let document = try? await openedDocument()
        let result = candidates(in: document)
        try? await document?.close()
        return result
    }

    @MainActor
    private func openedDocument() async throws -> DocumentSession? {
        guard isInDocument, let path = documentPath else { return nil }
        let keys = ["--key-file", "--keybag"].flatMap { name in
            value(ofOption: name).map { [name, $0] } ?? []
        }
        let unlock = try UnlockOptions.parse(keys)
        if let domain = try UnlockOptions.domain(at: path) {
            try unlock.unlock(domain, of: path, asks: false)
        }
        return try await DocumentSession.open(
            path, modelPath: value(ofOption: "--model"), access: .read,
            waiting: WaitOption.parse(["--wait", "0"]), reportsWaiting: false, unlock: unlock)
    }

    /// Whether the candidates depend on what is in the document.
    private var isInDocument: Bool {
        switch values {
        case .entities, .entitiesOrProperties, .objects, .objectsOrEntities, .assignments,
            .objectsOrAssignments, .keys,
            .binaryAttributes, .columnMappings, .fetchRequests, .contentFiles:
            true
        case .nothing, .files, .folders, .list, .commands, .documentTemplates, .classTemplates,
            .keySlots, .versions, .versionsOrFiles, .modelVersions:
            false
        }
    }

    @MainActor
    private func valueCandidates(in document: DocumentSession?) throws -> [Candidate] {
        let path = document?.path ?? documentPath
        switch values {
        case .nothing, .files, .folders: return []
        case .list(let list): return list.map { Candidate(text: $0) }
        case .commands: return explainedCommands
        case .documentTemplates:
            return try DocumentTemplate.all().map { Candidate(text: $0.name, summary: $0.summary) }
        case .classTemplates:
            return ClassTemplate.builtIn.map { Candidate(text: $0.title, summary: $0.summary) }
        case .modelVersions:
            let names = try path.flatMap { try ModelSource.versions(at: $0) }?.names ?? []
            return names.map { Candidate(text: $0) }
        case .keySlots:
            let slots = try path.flatMap { try UnlockOptions.domain(at: $0) }?.slots ?? []
            return slots.map { Candidate(text: $0.id.uuidString, summary: $0.label) }
        case .versions, .versionsOrFiles:
            return try path.map { try Self.versions(of: $0) } ?? []
        default: return try document.map { try candidatesInside($0) } ?? []
        }
    }

    /// The versions of a document, by their names or else their identifiers.
    private static func versions(of path: String) throws -> [Candidate] {
        let versions = try DocumentPackage.versions(at: path)
        let listed = versions.prefix(mostListed).map {
            Candidate(text: $0.name ?? $0.id, summary: PrintedDate.text($0.date))
        }
        return listed
            + (versions.isEmpty ? [] : [Candidate(text: "latest", summary: "The last version.")])
    }

    // MARK: - In the document

    @MainActor
    private func candidatesInside(_ document: DocumentSession) throws -> [Candidate] {
        let layout = document.layout
        switch values {
        case .entities:
            // Of an abstract entity there can be no objects.
            let isNew = ["insert", "import"].contains(path.last)
            return layout.entities.filter { !isNew || !$0.isAbstract }.map {
                Candidate(text: $0.name)
            }
        case .entitiesOrProperties:
            guard let mark = value.firstIndex(of: ".") else {
                return layout.entities.flatMap {
                    [
                        Candidate(text: $0.name),
                        Candidate(text: $0.name + ".", isUnfinished: true),
                    ]
                }
            }
            let entity = layout.entity(named: String(value[..<mark]))
            return entity?.propertyNames.map { Candidate(text: String(value[...mark]) + $0) } ?? []
        case .objects: return try objects(value, in: document)
        case .objectsOrEntities:
            let entities =
                value.contains("/") ? [] : layout.entities.map { Candidate(text: $0.name) }
            return try entities + objects(value, in: document)
        case .objectsOrAssignments:
            if value.contains("=") { return try assignments(in: document) }
            let hasSubject = given.contains {
                Self.values(of: $0.argument, after: path) == .objectsOrAssignments
                    && subject(of: $0.value) != nil
            }
            let entities =
                value.contains("/") || hasSubject
                ? [] : layout.entities.map { Candidate(text: $0.name) }
            let isWithoutSubject = !hasSubject && value(ofOption: "--where") == nil
            return try entities
                + (isWithoutSubject || !value.isEmpty ? objects(value, in: document) : [])
                + (isWithoutSubject ? [] : assignments(in: document))
        case .assignments: return try assignments(in: document)
        case .columnMappings:
            guard let mark = value.firstIndex(of: "=") else { return [] }
            return keys(from: value.index(after: mark), in: layout)
        case .keys:
            let start = value.lastIndex { !ExpressionList.isKeyPath(String($0)) }
            return keys(from: start.map { value.index(after: $0) } ?? value.startIndex, in: layout)
        case .binaryAttributes:
            return (entity(in: layout)?.slots ?? []).filter { $0.attribute?.type == .binary }
                .map { Candidate(text: $0.name) }
        case .fetchRequests:
            return layout.model.fetchRequestTemplates.map { Candidate(text: $0.name) }
        case .contentFiles:
            return try document.additionalContentFiles().prefix(1000).map {
                Candidate(text: $0.path)
            }
        default: return []
        }
    }

    /// The name of the entity that a word names, by itself or before the key of an object; `nil` if it is an assignment.
    private func subject(of word: String) -> String? {
        if Assignment.isOne(word) { return nil }
        let parts = word.split(separator: "/", omittingEmptySubsequences: false)
        return String(parts.count > 1 ? parts[parts.count - 2] : parts[0])
    }

    /// The entity that was given before the cursor, by its name or by an object.
    private func entity(in layout: ResolvedModel) -> ResolvedEntity? {
        let names = given.compactMap { argument, value -> String? in
            switch Self.values(of: argument, after: path) {
            case .entities, .objects, .objectsOrEntities, .objectsOrAssignments: subject(of: value)
            default: nil
            }
        }
        return names.lazy.compactMap { layout.entity(named: $0) }.first
    }

    // MARK: - Objects

    /// The objects whose identifiers begin with a text, or the entities if it names none yet.
    @MainActor
    private func objects(_ text: String, in document: DocumentSession) throws -> [Candidate] {
        guard text.contains("/") else {
            return document.layout.entities.filter { !$0.isAbstract }
                .map { Candidate(text: $0.name + "/", summary: "An object.", isUnfinished: true) }
        }
        guard let entity = subject(of: text).flatMap({ document.layout.entity(named: $0) }) else {
            return []
        }
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        request.fetchLimit = Self.mostExamined
        let ids = try document.context.fetchObjectIDs(request)
        let label = entity.slots.filter { $0.attribute?.type == .string && $0.isStored }
        let named = label.first { ["title", "name"].contains($0.name) } ?? label.first
        return ids.lazy.filter { $0.shortDescription.hasPrefix(text) }.prefix(Self.mostListed).map {
            id in
            let object = named.flatMap { _ in try? document.context.existingObject(with: id) }
            let value = named.flatMap { try? object?.attributeValue(forKey: $0.name) }
            guard case .string(let summary)? = value else {
                return Candidate(text: id.shortDescription)
            }
            return Candidate(text: id.shortDescription, summary: summary)
        }
    }

    // MARK: - Keys

    /// The entities whose keys may come: that which was given, or all.
    private func subjects(in layout: ResolvedModel) -> [ResolvedEntity] {
        entity(in: layout).map { [$0] } ?? layout.entities
    }

    /// Assignments to the keys of the entity, or the values of the key that was typed.
    @MainActor
    private func assignments(in document: DocumentSession) throws -> [Candidate] {
        let layout = document.layout
        if let assignment = try? Assignment(value) {
            return try subjects(in: layout).flatMap {
                try values(of: assignment, in: $0, of: document)
            }
        }
        let known = Set(given.compactMap { try? Assignment($0.value).key })
        return subjects(in: layout).flatMap { entity in
            entity.propertyNames.flatMap { name -> [Candidate] in
                let type: String
                switch entity.properties[name] {
                case .attribute(let slot): type = entity.slots[slot].attribute?.type.textName ?? ""
                case .relationship(let index):
                    type = layout.destination(of: entity.relationships[index]).name
                case .composite:
                    return entity.elementNames(of: name).map {
                        Candidate(text: $0 + "=", isUnfinished: true)
                    }
                case .fetched, nil: return []
                }
                return [Candidate(text: name + "=", summary: type, isUnfinished: true)]
            }
        }.filter { !known.contains(String($0.text.dropLast())) }
    }

    /// The values of an assignment that can be listed: of Boolean attributes and of relationships.
    @MainActor
    private func values(
        of assignment: Assignment, in entity: ResolvedEntity, of document: DocumentSession
    ) throws -> [Candidate] {
        let start = assignment.key + "="
        switch entity.properties[assignment.key] {
        case .attribute(let slot) where entity.slots[slot].attribute?.type == .boolean:
            return ["true", "false"].map { Candidate(text: start + $0) }
        case .relationship(let index):
            let destination = document.layout.destination(of: entity.relationships[index])
            let last = assignment.text.lastIndex(of: ",").map { assignment.text.index(after: $0) }
            let text = String(assignment.text[(last ?? assignment.text.startIndex)...])
            let before = start + assignment.text.dropLast(text.count)
            return try objects(text, in: document).filter { candidate in
                let name = subject(of: candidate.text).flatMap { document.layout.entity(named: $0) }
                return name.map { destination.subtree.contains($0.number) } ?? false
            }.map {
                Candidate(
                    text: before + $0.text, summary: $0.summary, isUnfinished: $0.isUnfinished)
            }
        default: return []
        }
    }

    /// Key paths that continue the one that begins at an index of the value.
    private func keys(from start: String.Index, in layout: ResolvedModel) -> [Candidate] {
        let before = String(value[..<start])
        var steps = value[start...].split(separator: ".", omittingEmptySubsequences: false).map(
            String.init)
        _ = steps.popLast()
        var entities = subjects(in: layout)
        for step in steps {
            entities = entities.compactMap { $0.relationship(named: step).map(layout.destination) }
        }
        let path = steps.map { $0 + "." }.joined()
        return entities.flatMap { entity in
            entity.propertyNames.flatMap { name -> [Candidate] in
                let candidate = Candidate(text: before + path + name)
                guard case .relationship? = entity.properties[name] else { return [candidate] }
                return [candidate, Candidate(text: candidate.text + ".", isUnfinished: true)]
            }
        }
    }
}
