internal import QuireModel
public import QuireQuery
internal import QuireStore

/// What is done for a request, without doing it.
extension SQLiteStore {
    /// The statement of a request, and SQLite's plan for it.
    public func explain(_ request: FetchRequest) throws -> FetchExplanation {
        switch request.resultType {
        case .objects:
            let entity = try layout.requireEntity(named: request.entityName)
            return try explain(request, selecting: .columns(selection(of: entity).list))
        case .objectIDs: return try explain(request, selecting: .identifiers)
        case .count: return try explain(request, selecting: .count)
        case .dictionaries: return try explainDictionaries(request)
        }
    }

    private func explain(
        _ request: FetchRequest, selecting selection: FetchStatement.Selection,
        computesInMemory: Bool = false
    ) throws -> FetchExplanation {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let statement = try FetchStatement(
            query, selecting: selection, schema: schema, store: identity)
        return FetchExplanation(
            sql: statement.sql, bindings: statement.bindings, inMemory: statement.remainder,
            sortsInMemory: statement.sortsInMemory, computesInMemory: computesInMemory,
            plan: try plan(of: statement.sql, statement.bindings))
    }

    private func explainDictionaries(_ request: FetchRequest) throws -> FetchExplanation {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        do {
            let context = FetchContext(query: query.query, schema: schema, store: identity)
            let split = try SplitPredicate(query.query.predicate) { try context.canSay($0) }
            let statement = try DictionaryStatement(
                query.about(split.translatable), schema: schema, store: identity)
            return FetchExplanation(
                sql: statement.sql, bindings: statement.bindings, inMemory: split.remainder,
                sortsInMemory: false, computesInMemory: false,
                plan: try plan(of: statement.sql, statement.bindings))
        } catch is UntranslatableExpression {
            return try explain(
                request.forObjects, selecting: .columns(selection(of: query.query.entity).list),
                computesInMemory: true)
        }
    }

    private func plan(
        of sql: String, _ bindings: [AttributeValue]
    ) throws -> [FetchExplanation.Step] {
        // Each step with its number and that of the step it is part of.
        let steps = try read { connection in
            try connection.withStatement("EXPLAIN QUERY PLAN " + sql) { statement in
                try statement.bind(bindings)
                var steps: [(id: Int64, parent: Int64, detail: String)] = []
                while try statement.step() {
                    steps.append(
                        (statement.integer(0), statement.integer(1), statement.text(3)))
                }
                return steps
            }
        }
        func children(of parent: Int64) -> [FetchExplanation.Step] {
            steps.filter { $0.parent == parent && $0.id != parent }.map {
                FetchExplanation.Step(detail: $0.detail, children: children(of: $0.id))
            }
        }
        return children(of: 0)
    }
}
