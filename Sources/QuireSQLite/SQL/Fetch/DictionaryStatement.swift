internal import QuireModel
internal import QuireQuery

/// A SELECT statement that makes the dictionaries of a request, with the values bound to its question marks.
struct DictionaryStatement: Sendable {
    /// The text.
    let sql: String
    /// The values: integers, floating-point numbers, texts, bytes or null.
    let bindings: [AttributeValue]
    /// What its columns are.
    let columns: [SQLDictionaryColumn]
}

extension DictionaryStatement {
    /// Compiles a request whose condition SQL can say, in the stages of ``FetchStatement`` and a few more.
    ///
    /// - Throws: ``UntranslatableExpression`` if SQL cannot say a column, a group, what groups satisfy or the order, or
    ///   ``QuireError``.
    init(_ query: ResolvedDictionaryQuery, schema: SQLSchema, store: StoreIdentity) throws {
        let entity = query.query.entity
        let context = FetchContext(query: query.query, schema: schema, store: store)
        let scope = FetchScope(entity: entity, in: context)
        let predicate = query.query.predicate
        let condition = try scope.entityTest.and(scope.boxCondition(predicate))
            .and(scope.condition(predicate))
        let (list, places) = try scope.columns(query.columns)
        let groups = try scope.groups(query.groups)
        let having = try query.having.map { try scope.condition($0) } ?? .always
        let rest = query.isDistinct ? list : query.isGrouped ? groups : [scope.start.key]
        let order = try scope.order(query.orderings, then: rest)

        var text: SQLFragment = query.isDistinct ? "SELECT DISTINCT " : "SELECT "
        text.append(list.joined(by: ", "))
        text.append(" FROM ")
        text.append(scope.tables)
        if !condition.isAlways {
            text.append(" WHERE ")
            text.append(condition.fragment)
        }
        if !groups.isEmpty {
            text.append(" GROUP BY ")
            text.append(groups.joined(by: ", "))
        }
        if !having.isAlways {
            text.append(" HAVING ")
            text.append(having.fragment)
        }
        if let order {
            text.append(" ORDER BY ")
            text.append(order)
        }
        if let limit = FetchContext.limit(of: query.query.request) {
            text.append(" LIMIT ")
            text.append(limit)
        }
        try text.checkBindingCount(of: entity)
        sql = text.sql
        bindings = text.bindings
        columns = places
    }
}
