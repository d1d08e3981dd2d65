public import QuireModel

/// How a store finds what a request asks for: the statement, what is left for memory, and the plan of the database.
///
/// ```swift
/// let explanation = try context.explain(request)
/// print(explanation.sql)
/// for step in explanation.plan { print(step.detail) }     // SEARCH t0 USING INDEX …
/// ```
public struct FetchExplanation: Sendable, Hashable {
    /// A step of the plan.
    public struct Step: Sendable, Hashable {
        /// What is done, in the words of SQLite's `EXPLAIN QUERY PLAN`.
        public let detail: String
        /// The steps that it is made of.
        public let children: [Step]

        package init(detail: String, children: [Step]) {
            self.detail = detail
            self.children = children
        }
    }

    /// The statement, with a question mark for each value.
    public let sql: String
    /// The values that are bound to the question marks, in their order.
    public let bindings: [AttributeValue]
    /// The part of the condition that is tested in memory, because SQL cannot say it.
    public let inMemory: QueryPredicate?
    /// Whether the order is made in memory, because SQL cannot say it.
    public let sortsInMemory: Bool
    /// Whether dictionaries are made in memory of the rows that the statement finds, because SQL cannot say what they
    /// hold.
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
