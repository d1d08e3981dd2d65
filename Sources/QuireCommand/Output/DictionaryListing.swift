import Quire

/// Computed rows as `fetch` prints them.
struct DictionaryListing {
    let rows: FetchedDictionaries
    let unreadable: UnreadableValues

    /// Prints an array with a row per line.
    func printJSON(_ output: Output) throws {
        try output.printList { element in
            for row in rows {
                var members: [String: JSONValue] = [:]
                for (name, value) in zip(row.names, row.values) {
                    members[name] = shown(value).json
                }
                try element(.object(members))
            }
        }
    }

    /// Prints a table with a line per row.
    func printTable(_ output: Output) throws {
        if rows.isEmpty {
            try output.print("No rows.")
            return
        }
        var table = TableOutput(
            rows.names.indices.map { (rows.names[$0], isNumber($0) ? .right : .left) }, to: output)
        for row in rows { try table.add(row.values.map { shown($0).text }) }
        try table.finish()
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
    private func isNumber(_ column: Int) -> Bool {
        var hasNumber = false
        for row in rows {
            let value = row.values[row.values.startIndex + column]
            if value.isNull { continue }
            guard PropertyValue(value).isNumber else { return false }
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
