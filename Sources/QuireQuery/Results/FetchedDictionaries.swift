public import QuireModel

/// The result of a request for dictionaries: values by column name, in the request's order.
///
/// ```swift
/// var request = FetchSpecification("Book")
/// request.propertiesToGroupBy = ["author.name"]
/// request.propertiesToFetch = ["author.name", try ExpressionDescription("n", format: "count(title)")]
/// for row in try context.fetchDictionaries(request) { print(row["author.name"], row["n"]) }
/// ```
///
/// It is a value independent of any context, so it may be passed to any queue.
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
        precondition(
            indices.contains(position),
            "The position \(position) is out of range; \(endIndex) dictionaries were fetched.")
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
    /// Traps if the column does not exist.
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

// MARK: - Explanations

/// A store's execution plan of a request: the statement, the parts evaluated in memory, and the database's query plan.
///
/// ```swift
/// let explanation = try context.explain(request)
/// print(explanation.sql)
/// for step in explanation.plan { print(step.detail) }     // SEARCH t0 USING INDEX …
/// ```
public struct FetchExplanation: Sendable, Hashable {
    /// A step of the plan.
    public struct Step: Sendable, Hashable {
        /// The step, as given by SQLite's `EXPLAIN QUERY PLAN`.
        public let detail: String
        /// The substeps.
        public let children: [Step]

        package init(detail: String, children: [Step]) {
            self.detail = detail
            self.children = children
        }
    }

    /// The statement, with a question mark for each value.
    public let sql: String
    /// The bound values of the statement's parameters, in order.
    public let bindings: [AttributeValue]
    /// The residual condition evaluated in memory, because SQL cannot express it.
    public let inMemory: QueryPredicate?
    /// Whether results are sorted in memory, because SQL cannot express the order.
    public let sortsInMemory: Bool
    /// Whether dictionaries are computed in memory from the statement's rows, because SQL cannot express their values.
    public let computesInMemory: Bool
    /// The plan.
    public let plan: [Step]

    package init(
        sql: String, bindings: [AttributeValue], inMemory: QueryPredicate?, sortsInMemory: Bool,
        computesInMemory: Bool, plan: [Step]
    ) {
        self.sql = sql
        self.bindings = bindings
        self.inMemory = inMemory
        self.sortsInMemory = sortsInMemory
        self.computesInMemory = computesInMemory
        self.plan = plan
    }
}
