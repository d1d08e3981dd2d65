import Quire
import QuireDocuments
import QuireStore

/// Objects as `fetch` prints them.
@MainActor
struct ObjectListing {
    let objects: FetchedObjects<ManagedObject>
    let entity: ResolvedEntity
    /// The columns, or `nil` for every attribute of each object's own entity.
    let paths: [PropertyPath]?
    let document: DocumentSession

    /// Prints the objects, each read when it is its turn.
    func print(_ output: Output) throws {
        let paths = try paths ?? PropertyPath.attributes(of: entity, in: document.layout)
        let shown: [TextTable.Column] = paths.map { ($0.name, $0.isNumber ? .right : .left) }
        let names = try memberNames
        var rows = RowOutput(
            [("id", .left)] + shown, members: names, ifEmpty: "No objects.", to: output)
        var known: [Int: Columns] = [:]
        func columns(of object: ManagedObject) throws -> Columns {
            let entity = object.resolvedEntity
            if let columns = known[entity.number] { return columns }
            let paths = try self.paths ?? PropertyPath.attributes(of: entity, in: document.layout)
            let columns = Columns(entity: entity, paths: paths, names: names)
            known[entity.number] = columns
            return columns
        }
        try document.forEach(of: objects) { object in
            try rows.add(
                [object.objectID.shortDescription]
                    + paths.map { try $0.value(of: object, noting: document.unreadable).text },
                .object(columns(of: object).members(of: object, noting: document.unreadable)),
                fields: columns(of: object).fields(of: object, noting: document.unreadable))
        }
        try rows.finish()
    }

    /// The columns of CSV: also attributes of sub-entities, so that importing it gives the same objects.
    private var memberNames: [String] {
        get throws {
            let layout = document.layout
            let paths =
                try self.paths
                ?? entity.subtree.flatMap {
                    try PropertyPath.attributes(of: layout.entity(number: $0), in: layout)
                }
            var known: Set<String> = []
            let names = paths.flatMap(\.elementNames).filter { known.insert($0).inserted }
            return (entity.subtree.count > 1 ? ["id", "entity"] : ["id"])
                + names.map(JSONValue.key(ofProperty:))
        }
    }

    /// The columns for the objects of an entity.
    private struct Columns {
        private enum Field {
            case id, entity, missing
            case path(PropertyPath)
        }

        private let entity: JSONValue
        private let paths: [PropertyPath]
        /// The columns of CSV; `nil` if some are elements of a composite attribute.
        private let fields: [Field]?

        init(entity: ResolvedEntity, paths: [PropertyPath], names: [String]) {
            self.entity = .string(entity.name)
            self.paths = paths
            guard paths.allSatisfy({ $0.elementNames == [$0.name] }) else {
                fields = nil
                return
            }
            fields = names.map { name in
                switch name {
                case "id": .id
                case "entity": .entity
                default: paths.first { $0.memberName == name }.map(Field.path) ?? .missing
                }
            }
        }

        /// The members for an object.
        func members(
            of object: ManagedObject, noting unreadable: UnreadableValues
        ) throws -> [String: JSONValue] {
            var members = try ObjectRecord.members(of: object, paths, noting: unreadable)
            members["entity"] = entity
            return members
        }

        /// The values of the columns of CSV for an object.
        func fields(
            of object: ManagedObject, noting unreadable: UnreadableValues
        ) throws -> [JSONValue?]? {
            try fields?.map { field in
                switch field {
                case .id: .string(object.objectID.uriRepresentation)
                case .entity: entity
                case .missing: nil
                case .path(let path): try path.value(of: object, noting: unreadable).json
                }
            }
        }
    }
}

/// An object as a JSON object.
enum ObjectRecord {
    /// The members for an object: `id` and the columns.
    ///
    /// A property that is itself called `id` or `entity` is written as `property.id`, `property.entity`, so that
    /// `id` always is the object's identifier. (No property has a dot in its name.)
    static func members(
        of object: ManagedObject, _ paths: [PropertyPath], noting unreadable: UnreadableValues
    ) throws -> [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        members.reserveCapacity(paths.count + 2)
        for path in paths {
            members[path.memberName] = try path.value(of: object, noting: unreadable).json
        }
        members["id"] = .string(object.objectID.uriRepresentation)
        return members
    }
}

// MARK: - Dictionaries

/// Computed rows as `fetch` prints them, each when it is read.
struct DictionaryListing {
    let rows: DictionaryStream
    let unreadable: UnreadableValues

    /// Prints the rows.
    func print(_ output: Output) throws {
        var rows = RowOutput(
            self.rows.names.map { ($0, nil) }, members: self.rows.names, ifEmpty: "No rows.",
            to: output)
        try self.rows.forEach { values in
            let values = values.map(shown)
            try rows.add(
                values.map(\.text),
                .object(
                    Dictionary(zip(self.rows.names, values.map(\.json))) { _, last in last }),
                fields: values.map(\.json))
        }
        try rows.finish()
    }

    /// A value as it is printed.
    private func shown(_ value: AttributeValue) -> PrintedValue {
        // One in a file that could be read would be bytes.
        guard case .external(let data) = value else { return PrintedValue(value) }
        do {
            return .attribute(.binary(try data.data()), .binary)
        } catch {
            let error = FileSystem.failure("read", data.path, thrown: error)
            unreadable.add(error)
            return .unreadable(error.message)
        }
    }
}

// MARK: - Changed objects

/// The answer of a verb that changes objects: `{"ids": […]}`, or a sentence.
@MainActor
struct ChangeReply {
    /// The change: "Inserted".
    let participle: String
    /// The identifiers, asked for after the save, which makes them permanent.
    let ids: @MainActor () -> [ManagedObjectID]

    /// Related objects that were inserted as well.
    let inserted: [ManagedObject]

    /// The longest list of identifiers in a sentence.
    private static let shownCount = 10

    init(
        _ participle: String, inserted: [ManagedObject] = [],
        _ ids: @escaping @MainActor () -> [ManagedObjectID]
    ) {
        self.participle = participle
        self.inserted = inserted
        self.ids = ids
    }

    /// Prints the answer.
    func print(_ output: Output) throws {
        let ids = ids()
        let related = inserted.map(\.objectID)
        let lines =
            (related.isEmpty ? [] : ["Inserted \(Self.text(related))."])
            + ["\(participle) \(Self.text(ids))."]
        try output.printResult(levels: 0, lines) {
            func list(_ ids: [ManagedObjectID]) -> JSONValue {
                .array(ids.map { .string($0.uriRepresentation) })
            }
            var members = ["ids": list(ids)]
            if !related.isEmpty { members["related"] = list(related) }
            return .object(members)
        }
    }

    private static func text(_ ids: [ManagedObjectID]) -> String {
        if ids.isEmpty { return "no objects" }
        let names = ids.prefix(shownCount).map(\.shortDescription).joined(separator: ", ")
        let rest = ids.count > shownCount ? " and \(ids.count - shownCount) more" : ""
        return (ids.count == 1 ? "" : "\(ids.count) objects: ") + names + rest
    }
}
