import Foundation
import Quire
internal import QuireSQLite

extension DocumentTemplate {
    /// Creates a template from a document: its model, its objects as of the last save, and its additional content.
    ///
    /// The template is written completely, or not at all. It does not include versions, history, drafts, keys or the state of
    /// synchronization. Transient attributes are omitted; derived attributes are computed again in each new document.
    ///
    /// ```swift
    /// try DocumentTemplate.make(from: "Library.quire", name: "My Library")
    /// let document = ManagedDocument(path: "New.quire")
    /// try await document.create(from: .named("My Library"))
    /// ```
    ///
    /// - Parameters:
    ///   - document: The path of a document package, which other processes may have open. A protected one must be unlocked.
    ///   - name: The name of the new template.
    ///   - summary: A one-line description; `nil` for one with the document's name.
    ///   - folder: The folder of the new template, which is created if missing; `nil` for ``userFolder``.
    ///   - allowsUnprotectedCopy: Whether to create a template from a protected document. Templates are not protected.
    /// - Complexity: O(*n*) in the size of the document. One object at a time is in memory.
    /// - Throws: ``QuireError`` with code `invalidValue` if the name is not valid, `alreadyExists` if another template has it,
    ///   `protectionUnavailable` if the document is protected and no unprotected copy is allowed,
    ///   `unsupported` if a seed cannot express a value or would be too large, `invalidFormat` if the document is damaged, or
    ///   errors of reading and writing.
    @discardableResult
    public static func make(
        from document: String, name: String, summary: String? = nil, in folder: String? = nil,
        allowsUnprotectedCopy: Bool = false
    ) throws -> DocumentTemplate {
        try checkName(name)
        let folder = FileSystem.absolute(folder ?? userFolder)
        let path = FileSystem.path(folder, name)
        let known = try folder == FileSystem.absolute(userFolder) ? searched() : []
        if known.contains(where: { $0.name == name }) || FileSystem.exists(path) {
            throw nameIsTaken(name, path)
        }
        try DocumentPackage.checkOutside(path)
        let package = try DocumentPackage.open(at: document, readOnly: true)
        defer { try? package.close() }
        if let protection = package.store.protection?.fileProtection, protection != .none,
            !allowsUnprotectedCopy
        {
            throw QuireError(
                .protectionUnavailable,
                "“\(document)” is protected (\(protection.rawValue)), but templates are not: anyone who can read the template could read the objects. Allow an unprotected copy, or create the template from another document.",
                file: document)
        }
        try FileSystem.makeFolder(folder, withIntermediates: true)
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        do {
            try sibling.building {
                let description = summary ?? "Created from \(FileSystem.name(of: document))."
                try TemplateWriter(folder: sibling.path, package: package)
                    .write(description: description)
                try sibling.setFinalPermissions(of: nil)
                try FileSystem.synchronizeTree(sibling.path)
                try sibling.publish()
            }
        } catch let error as QuireError
            where error.code == .alreadyExists && FileSystem.exists(path)
        {
            // Another process has created it meanwhile.
            throw nameIsTaken(name, path)
        }
        return try DocumentTemplate(contentsOf: path)
    }

    private static func checkName(_ name: String) throws {
        let problem =
            PortableNames.problem(with: name)
            ?? (name.contains("/") ? "contains a slash" : nil)
            ?? (name.hasPrefix(".") ? "begins with a full stop" : nil)
        guard let problem else { return }
        throw QuireError(
            .invalidValue, "“\(name)” cannot be the name of a template: it \(problem).", file: name)
    }

    private static func nameIsTaken(_ name: String, _ path: String) -> QuireError {
        QuireError(
            .alreadyExists,
            "A template “\(name)” already exists; choose another name, or remove its folder first.",
            file: path)
    }
}

// MARK: - Files

/// Writes the files of a template.
private struct TemplateWriter {
    /// The folder, which is empty.
    let folder: String
    let package: DocumentPackage

    func write(description: String) throws {
        try write(description + "\n", to: "Description.txt")
        try writeModel()
        try writeAdditionalContent()
        let context = QueueConfinedContext(
            coordinator: PersistentStoreCoordinator(store: package.store))
        try context.performAndWait { try writeSeed(of: $0) }
    }

    private func write(_ text: String, to name: String) throws {
        try OpenFile.open(FileSystem.path(folder, name), for: .creating).write(Data(text.utf8))
    }

    private func writeModel() throws {
        let versions = FileSystem.path(folder, "Model.xcdatamodeld")
        try FileSystem.makeFolder(versions)
        try package.store.layout.model.write(to: FileSystem.path(versions, "Model.xcdatamodel"))
    }

    private func writeAdditionalContent() throws {
        for (path, _) in try package.additionalContent() {
            let place = FileSystem.path(FileSystem.path(folder, "AdditionalContent"), path)
            guard let file = try package.additionalContentFile(at: path) else {
                throw QuireError.noContent(path, in: package.layout.path)
            }
            try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
            try OpenFile.open(place, for: .creating).write(file.readAll())
        }
    }

    private func writeSeed(of context: ManagedObjectContext) throws {
        let file = try OpenFile.open(FileSystem.path(folder, "Seed.json"), for: .creating)
        var seed = SeedWriter(document: package.layout.path, context: context) {
            try file.write(Data($0.utf8))
        }
        try seed.writeObjects()
    }
}

/// Writes the objects of a store as a seed, one object a line, in the format that ``DumpReader`` reads.
///
/// Each value is parsed back from its text and compared; a value that a seed cannot express is an error.
private struct SeedWriter {
    /// The name of the document for errors.
    let document: String
    let context: ManagedObjectContext
    let write: (String) throws -> Void

    private let encoder: JSONEncoder
    private var byteCount = 0
    /// The identifiers of the objects in the seed.
    private var written: Set<String> = []
    /// The identifiers of related objects, each with a property that refers to it.
    private var related: [String: String] = [:]
    /// A seed is read into memory when a document is created.
    private static let maximumByteCount = 256 << 20

    init(
        document: String, context: ManagedObjectContext, write: @escaping (String) throws -> Void
    ) {
        self.document = document
        self.context = context
        self.write = write
        encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
    }

    mutating func writeObjects() throws {
        // All objects are read as of one commit, even if other processes save meanwhile.
        try context.setQueryGeneration(from: .current)
        try add("{\n  \"format\": \"quire-dump/1\",\n  \"entities\": {")
        var separator = "\n"
        for entity in context.layout.entities.sorted(by: { $0.name < $1.name })
        where !entity.isAbstract {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            request.fetchBatchSize = 128
            let objects = try context.fetch(request)
            if objects.isEmpty { continue }
            try add("\(separator)    \(quoted(entity.name)): [")
            for (index, object) in objects.enumerated() {
                try add((index == 0 ? "\n      " : ",\n      ") + members(of: object))
            }
            try add("\n    ]")
            separator = ",\n"
        }
        try add((separator == "\n" ? "" : "\n  ") + "}\n}\n")
        for (id, place) in related.sorted(by: { $0.key < $1.key }) where !written.contains(id) {
            throw QuireError(
                .invalidFormat,
                "\(place) in “\(document)” refers to \(id), which does not exist; “quire repair” removes such references.",
                file: document)
        }
    }

    private mutating func add(_ text: String) throws {
        byteCount += text.utf8.count
        if byteCount > Self.maximumByteCount {
            throw QuireError(
                .unsupported,
                "“\(document)” is too large for a template: its objects need more than \(Self.maximumByteCount >> 20) MB as text. Create the template from a copy with fewer objects.",
                file: document)
        }
        try write(text)
    }

    // MARK: - Objects

    private mutating func members(of object: ManagedObject) throws -> String {
        let entity = object.resolvedEntity
        let id = object.objectID.shortDescription
        written.insert(id)
        var members = ["\"id\": \(try quoted(id))"]
        for name in entity.propertyNames {
            let place = "\(id).\(name)"
            let value: String? =
                switch entity.properties[name] {
                case .attribute(let slot): try text(of: entity.slots[slot], of: object, place)
                case .composite(let slots):
                    try composite(slots.map { entity.slots[$0] }, name, of: object, place)
                case .relationship(let index):
                    try text(of: entity.relationships[index], of: object, place)
                case .fetched, nil: nil
                }
            // The member “id” is the identifier.
            let key = name == "id" ? "property.id" : name
            if let value { members.append("\(try quoted(key)): \(value)") }
        }
        if let error = context.takeFaultError() { throw error }
        return "{\(members.joined(separator: ", "))}"
    }

    /// The value of an attribute; `nil` if a new object has it by default.
    private func text(
        of slot: ResolvedEntity.Slot, of object: ManagedObject, _ place: String
    ) throws -> String? {
        guard slot.isStored, !slot.isDerived, let attribute = slot.attribute else { return nil }
        let value = try object.attributeValue(forKey: slot.name)
        if value.isNull { return attribute.defaultValue.isNull ? nil : "null" }
        if case .binary(let data) = value, [.binary, .transformable].contains(attribute.type) {
            // Base64 needs no escapes, and always decodes to the same bytes.
            return "\"\(data.base64EncodedString())\""
        }
        let text = value.text(as: attribute.type)
        guard let text, (try? AttributeValue(parsing: text, as: attribute.type)) == value else {
            throw QuireError(
                .unsupported,
                "\(place) in “\(document)” is \(value.display), which a template cannot express; change the value, or create the template from another document.",
                subject: .init(property: slot.name, file: document))
        }
        switch value {
        case .integer, .boolean: return text
        case .double(let number) where number.isFinite: return text
        default: return try quoted(text)
        }
    }

    /// The elements of a composite attribute, nested as in the model.
    private func composite(
        _ slots: [ResolvedEntity.Slot], _ name: String, of object: ManagedObject, _ place: String
    ) throws -> String? {
        var root = CompositeText()
        for slot in slots {
            guard let text = try text(of: slot, of: object, place) else { continue }
            root.set(text, at: slot.name.dropFirst(name.count + 1).split(separator: ".")[...])
        }
        return root.elements.isEmpty ? nil : try root.text(quoted)
    }

    /// The related objects; `nil` if there are none, or if the inverse relationship names this object.
    private mutating func text(
        of relationship: ResolvedEntity.Relationship, of object: ManagedObject, _ place: String
    ) throws -> String? {
        if relationship.description.isTransient { return nil }
        let inverse = context.layout.inverse(of: relationship)
        if let slot = relationship.slot {
            guard let id = object.objectID(at: slot)?.shortDescription else { return nil }
            related[id] = place
            return inverse?.isOrdered == true ? nil : try quoted(id)
        }
        if let inverse, !inverse.isToMany, !relationship.isOrdered { return nil }
        let ids = object.objectIDs(relationship.name).map(\.shortDescription)
        if ids.isEmpty { return nil }
        for id in ids { related[id] = place }
        return "[\(try ids.map(quoted).joined(separator: ", "))]"
    }

    private func quoted(_ text: String) throws -> String {
        String(decoding: try encoder.encode(text), as: UTF8.self)
    }
}

/// The elements of a composite, as JSON texts by their paths.
private struct CompositeText {
    var elements: [String: Element] = [:]

    indirect enum Element {
        case value(String)
        case composite(CompositeText)
    }

    mutating func set(_ text: String, at path: ArraySlice<Substring>) {
        guard let first = path.first.map(String.init) else { return }
        if path.count == 1 {
            elements[first] = .value(text)
            return
        }
        var inner = CompositeText()
        if case .composite(let present)? = elements[first] { inner = present }
        inner.set(text, at: path.dropFirst())
        elements[first] = .composite(inner)
    }

    func text(_ quoted: (String) throws -> String) throws -> String {
        let members = try elements.sorted { $0.key < $1.key }.map { name, element in
            switch element {
            case .value(let text): "\(try quoted(name)): \(text)"
            case .composite(let inner): "\(try quoted(name)): \(try inner.text(quoted))"
            }
        }
        return "{\(members.joined(separator: ", "))}"
    }
}
