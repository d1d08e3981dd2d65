import Quire

/// Objects as `fetch` prints them.
@MainActor
struct ObjectListing {
    let objects: FetchedObjects
    let entity: EntityLayout
    /// The columns, or `nil` for every attribute of each object's own entity.
    let paths: [PropertyPath]?
    let document: DocumentSession

    /// Prints an array with an object per line, each read when it is its turn.
    func printJSON(_ output: Output) throws {
        var attributes: [String: [PropertyPath]] = [:]
        try output.printList { element in
            try document.forEach(of: objects) { object in
                let entity = object.entity
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
            members[key(for: path.name)] = try path.value(of: object, noting: unreadable).json
        }
        members["id"] = .string(object.objectID.uriRepresentation)
        return members
    }

    /// The member that a property is written as.
    static func key(for name: String) -> String {
        name == "id" || name == "entity" ? "property.\(name)" : name
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
