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

    /// Prints an array with an object per line, each read when it is its turn.
    func printJSON(_ output: Output) throws {
        var attributes: [String: [PropertyPath]] = [:]
        try output.printList { element in
            try document.forEach(of: objects) { object in
                let entity = object.resolvedEntity
                let paths: [PropertyPath]
                if let given = self.paths ?? attributes[entity.name] {
                    paths = given
                } else {
                    paths = try PropertyPath.attributes(of: entity, in: document.layout)
                    attributes[entity.name] = paths
                }
                var members = try ObjectRecord.members(
                    of: object, paths, noting: document.unreadable)
                members["entity"] = .string(entity.name)
                try element(.object(members))
            }
        }
    }

    /// Prints a table with a row per object, each read when it is its turn.
    func printTable(_ output: Output) throws {
        if objects.isEmpty {
            try output.print("No objects.")
            return
        }
        let paths =
            try self.paths ?? PropertyPath.attributes(of: entity, in: document.layout)
        var table = TableOutput(
            [("id", .left)] + paths.map { ($0.name, $0.isNumber ? .right : .left) }, to: output)
        try document.forEach(of: objects) { object in
            try table.add(
                [object.objectID.shortDescription]
                    + paths.map { try $0.value(of: object, noting: document.unreadable).text })
        }
        try table.finish()
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
            members[JSONValue.key(ofProperty: path.name)] = try path.value(
                of: object, noting: unreadable
            ).json
        }
        members["id"] = .string(object.objectID.uriRepresentation)
        return members
    }
}

extension Output {
    /// Prints an array of JSON objects one by one.
    func printList(
        indentation: Int = 0, ending: String = "\n",
        _ body: ((JSONValue) throws -> Void) throws -> Void
    ) throws {
        let lineEnd = compact ? "" : "\n" + String(repeating: " ", count: indentation)
        var isFirst = true
        try print(raw: "[")
        try body { element in
            let separator = isFirst ? "" : compact ? ", " : ","
            try print(raw: separator + lineEnd + (compact ? "" : "  "))
            try print(raw: element)
            isFirst = false
        }
        try print(raw: (isFirst ? "" : lineEnd) + "]" + ending)
    }
}

// MARK: - Dictionaries

/// Computed rows as `fetch` prints them, each when it is read.
struct DictionaryListing {
    let rows: DictionaryStream
    let unreadable: UnreadableValues

    /// Prints an array with a row per line.
    func printJSON(_ output: Output) throws {
        try output.printList { element in
            try rows.forEach { values in
                var members: [String: JSONValue] = [:]
                for (name, value) in zip(rows.names, values) {
                    members[name] = shown(value).json
                }
                try element(.object(members))
            }
        }
    }

    /// Prints a table with a line per row.
    func printTable(_ output: Output) throws {
        var first: [[PrintedValue]] = []
        var table: TableOutput?
        try rows.forEach { values in
            let values = values.map(shown)
            if table != nil {
                try table?.add(values.map(\.text))
                return
            }
            first.append(values)
            if first.count == TableOutput.firstRowCount {
                table = try self.table(of: first, to: output)
                first = []
            }
        }
        if table == nil && first.isEmpty { return try output.print("No rows.") }
        if table == nil { table = try self.table(of: first, to: output) }
        try table?.finish()
    }

    /// A table that has the first rows. They decide about the sides of columns.
    private func table(of first: [[PrintedValue]], to output: Output) throws -> TableOutput {
        var table = TableOutput(
            rows.names.enumerated().map { column, name in
                (name, Self.isNumber(first.lazy.map { $0[column] }) ? .right : .left)
            }, to: output)
        for row in first { try table.add(row.map(\.text)) }
        return table
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

    /// Whether a column holds numbers and nothing else.
    private static func isNumber(_ column: some Sequence<PrintedValue>) -> Bool {
        var hasNumber = false
        for value in column {
            if case .attribute(.null, _) = value { continue }
            guard value.isNumber else { return false }
            hasNumber = true
        }
        return hasNumber
    }
}

extension PrintedValue {
    /// A value that tells its type itself.
    init(_ value: AttributeValue) {
        switch value {
        case .null, .composite: self = .attribute(value, .undefined)
        case .integer: self = .attribute(value, .integer64)
        case .double: self = .attribute(value, .double)
        case .boolean: self = .attribute(value, .boolean)
        case .decimal: self = .attribute(value, .decimal)
        case .string: self = .attribute(value, .string)
        case .date: self = .attribute(value, .date)
        case .binary, .external: self = .attribute(value, .binary)
        case .uuid: self = .attribute(value, .uuid)
        case .uri: self = .attribute(value, .uri)
        case .objectID(let id): self = .object(id)
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

    /// The longest list of identifiers in a sentence.
    private static let shownCount = 10

    init(_ participle: String, _ ids: @escaping @MainActor () -> [ManagedObjectID]) {
        self.participle = participle
        self.ids = ids
    }

    /// Prints the answer.
    func print(_ output: Output) throws {
        let ids = ids()
        let names = ids.prefix(Self.shownCount).map(\.shortDescription).joined(separator: ", ")
        let rest = ids.count > Self.shownCount ? " and \(ids.count - Self.shownCount) more" : ""
        let counted = ids.count == 1 ? "" : "\(ids.count) objects: "
        let objects = ids.isEmpty ? "no objects" : counted + names + rest
        try output.printResult(levels: 0, ["\(participle) \(objects)."]) {
            .object(["ids": .array(ids.map { .string($0.uriRepresentation) })])
        }
    }
}
