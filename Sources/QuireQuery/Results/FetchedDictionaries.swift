public import QuireModel

/// What a request for dictionaries has found: values by the names of columns, in the request's order.
///
/// ```swift
/// var request = FetchRequest("Book")
/// request.propertiesToGroupBy = ["author.name"]
/// request.propertiesToFetch = ["author.name", try ExpressionDescription("n", format: "count(title)")]
/// for row in try context.fetchDictionaries(request) { print(row["author.name"], row["n"]) }
/// ```
///
/// It is a value that nothing ties to a context, so it may go to any queue.
public struct FetchedDictionaries: RandomAccessCollection, Sendable, Hashable {
    /// The names of the columns.
    public let names: [String]
    /// The values, dictionary by dictionary.
    let values: ContiguousArray<AttributeValue>

    package init(names: [String], values: ContiguousArray<AttributeValue>) {
        self.names = names
        self.values = values
    }

    /// The first position: 0.
    public var startIndex: Int { 0 }
    /// The number of dictionaries.
    public var endIndex: Int { names.isEmpty ? 0 : values.count / names.count }

    /// The dictionary at a position.
    public subscript(position: Int) -> FetchedDictionary {
        precondition(indices.contains(position), "There is no dictionary at \(position).")
        let start = position * names.count
        return FetchedDictionary(names: names, values: values[start..<(start + names.count)])
    }
}

/// One dictionary of ``FetchedDictionaries``.
public struct FetchedDictionary: Sendable, Hashable {
    /// The names of the columns.
    public let names: [String]
    /// The values, in the order of the names.
    public let values: ArraySlice<AttributeValue>

    init(names: [String], values: ContiguousArray<AttributeValue>.SubSequence) {
        self.names = names
        self.values = ArraySlice(values)
    }

    /// The value of a column.
    ///
    /// Stops the program with a sentence if there is no such column.
    public subscript(name: String) -> AttributeValue {
        guard let index = names.firstIndex(of: name) else {
            preconditionFailure(
                "“\(name)” was not fetched; the columns are: \(names.joined(separator: ", ")).")
        }
        return values[values.startIndex + index]
    }

    /// The values by name.
    public var dictionary: [String: AttributeValue] {
        Dictionary(uniqueKeysWithValues: zip(names, values))
    }
}
