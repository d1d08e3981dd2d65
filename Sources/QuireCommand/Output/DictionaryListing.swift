import Quire

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
        var first: [[PropertyValue]] = []
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
    private func table(of first: [[PropertyValue]], to output: Output) throws -> TableOutput {
        var table = TableOutput(
            rows.names.enumerated().map { column, name in
                (name, Self.isNumber(first.lazy.map { $0[column] }) ? .right : .left)
            }, to: output)
        for row in first { try table.add(row.map(\.text)) }
        return table
    }

    /// A value as it is printed.
    private func shown(_ value: AttributeValue) -> PropertyValue {
        // One in a file that could be read would be bytes.
        guard case .external(let data) = value else { return PropertyValue(value) }
        do {
            return .attribute(.binary(try data.data()), .binary)
        } catch {
            let error = FileSystem.failure("read", data.path, thrown: error)
            unreadable.add(error)
            return .unreadable(error.message)
        }
    }

    /// Whether a column holds numbers and nothing else.
    private static func isNumber(_ column: some Sequence<PropertyValue>) -> Bool {
        var hasNumber = false
        for value in column {
            if case .attribute(.null, _) = value { continue }
            guard value.isNumber else { return false }
            hasNumber = true
        }
        return hasNumber
    }
}

extension PropertyValue {
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
