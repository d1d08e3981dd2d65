import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire show PATH ID…`
struct ShowVerb: DocumentVerb {
    static let name = "show"
    static let abstract =
        "Shows objects with all their properties, and the objects that refer to them."
    static let discussion = """
        Texts are printed in full, binary values as their size, and related objects with a text that \
        identifies them: their name or title, or else their first text. “Referred to by” lists the objects \
        that have the object in a relationship, including relationships without an inverse. At most 20 \
        objects of a relationship are listed. With --json, binary values and the object's relationships are \
        printed in full.

        EXAMPLES:
          quire show Library.quire Book/p7
          quire show Library.quire Author/p1 Author/p2 --json
        """

    @Argument(help: ArgumentHelp("Objects, by their identifiers or URIs.", valueName: "ID"))
    var ids: [String]

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let objects = try document.objects(named: ids).map { object in
            ObjectDetails(object: object, document: document)
        }
        return Reply { output in
            if output.json {
                return try output.printList { element in
                    for object in objects { try element(object.json()) }
                }
            }
            for (index, object) in objects.enumerated() {
                if index > 0 { try output.print("") }
                try object.print(output)
            }
        }
    }
}

// MARK: - Printing

/// An object as `show` prints it: every property, and the objects that refer to it.
@MainActor
struct ObjectDetails {
    let object: ManagedObject
    let document: DocumentSession

    /// The greatest number of objects of a relationship that are printed.
    private static let shownCount = 20
    /// The greatest number of characters of the text that names an object.
    private static let labelLength = 60

    // MARK: - Text

    /// Prints a line for each property and for each relationship of others; texts of several lines take more.
    func print(_ output: Output) throws {
        try output.print(object.objectID.shortDescription, .bold)
        try print(
            values().map { path, value in (path.name, text(of: value)) }, output)
        let references = try references()
        if references.isEmpty { return }
        try output.print("Referred to by", .bold)
        try print(
            references.map { reference in
                (
                    "\(reference.entity).\(reference.relationship)",
                    list(reference.ids[...], count: reference.count)
                )
            }, output)
    }

    private func print(_ lines: [(name: String, text: String)], _ output: Output) throws {
        let width = lines.map(\.name.count).max() ?? 0
        for (name, text) in lines {
            var rest = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)[
                ...]
            let first = rest.removeFirst()
            let gap = String(repeating: " ", count: width - name.count + 2)
            try output.print("  \(name)" + (first.isEmpty ? "" : gap + first))
            for line in rest {
                let margin = String(repeating: " ", count: width + 4)
                try output.print(line.isEmpty ? "" : margin + line)
            }
        }
    }

    private func text(of value: PrintedValue) -> String {
        switch value {
        case .attribute(.binary(let data), _):
            "<\(data.count) bytes\(Self.type(of: data).map { ", \($0)" } ?? "")>"
        case .attribute(.string(""), _): "\"\""
        case .object(let id?): named(id)
        case .objects(let ids): list(ids.prefix(Self.shownCount), count: ids.count)
        default: value.text
        }
    }

    /// The type of bytes that begin as files of that type do.
    private static func type(of data: Data) -> String? {
        if let picture = PictureType(ofFirstBytes: data.prefix(16)) { return picture.rawValue }
        if data.starts(with: Data("%PDF-".utf8)) { return "application/pdf" }
        return data.starts(with: Data("bplist".utf8)) ? "property list" : nil
    }

    private func list(_ ids: ArraySlice<ManagedObjectID>, count: Int) -> String {
        let names = ids.map(named).joined(separator: ", ")
        return count > ids.count ? "\(names), and \(count - ids.count) more" : names
    }

    /// An identifier with the text that names its object: Author/p1 “Jane Austen”.
    private func named(_ id: ManagedObjectID) -> String {
        // The object may be missing.
        guard let object = try? document.context.existingObject(with: id),
            let attribute = ObjectLabel.attribute(of: object.resolvedEntity),
            case .string(let text)? = try? object.attributeValue(forKey: attribute.name),
            let line = text.split(whereSeparator: \.isNewline).first
        else { return id.shortDescription }
        let isCut = line.count > Self.labelLength
        let label = isCut ? line.prefix(Self.labelLength - 1) + "…" : line
        return "\(id.shortDescription) “\(label)”"
    }

    // MARK: - JSON

    func json() throws -> JSONValue {
        var properties: [String: JSONValue] = [:]
        for (path, value) in try values() { properties[path.name] = value.json }
        return .object([
            "id": .string(object.objectID.uriRepresentation),
            "entity": .string(object.resolvedEntity.name),
            "properties": .object(properties),
            "referredToBy": .array(
                try references().map { reference in
                    .object([
                        "entity": .string(reference.entity),
                        "relationship": .string(reference.relationship),
                        "count": .integer(Int64(reference.count)),
                        "ids": .array(reference.ids.map { .string($0.uriRepresentation) }),
                    ])
                }),
        ])
    }

    // MARK: - Properties

    private func values() throws -> [(PropertyPath, PrintedValue)] {
        try PropertyPath.all(of: object.resolvedEntity, in: document.layout).map { path in
            (path, try path.value(of: object, noting: document.unreadable))
        }
    }

    /// The objects that have the object in a relationship.
    private struct Reference {
        /// The entity that declares the relationship.
        let entity: String
        let relationship: String
        let count: Int
        /// The first of them.
        let ids: [ManagedObjectID]
    }

    private func references() throws -> [Reference] {
        let number = object.resolvedEntity.number
        var found: [Reference] = []
        for owner in document.layout.entities {
            for relationship in owner.relationships
            where relationship.ownerNumber == owner.number && !relationship.description.isTransient
                && document.layout.destination(of: relationship).subtree.contains(number)
            {
                if let reference = try reference(from: owner, through: relationship) {
                    found.append(reference)
                }
            }
        }
        return found.sorted { ($0.entity, $0.relationship) < ($1.entity, $1.relationship) }
    }

    private func reference(
        from owner: ResolvedEntity, through relationship: ResolvedEntity.Relationship
    ) throws -> Reference? {
        var request = FetchRequest<ManagedObject>(owner.name)
        request.predicate = .comparison(
            QueryComparison(
                .key(relationship.name), .equal, .constant(.objectID(object.objectID)),
                modifier: relationship.isToMany ? .any : .direct))
        request.fetchLimit = Self.shownCount
        let ids = try document.context.fetch(request).map(\.objectID)
        if ids.isEmpty { return nil }
        var count = ids.count
        if count == Self.shownCount {
            request.fetchLimit = 0
            count = try document.context.count(for: request)
        }
        return Reference(
            entity: owner.name, relationship: relationship.name, count: count, ids: ids)
    }
}
