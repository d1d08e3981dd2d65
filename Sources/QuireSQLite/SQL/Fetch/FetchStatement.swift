internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// A SELECT statement with the values bound to its question marks.
struct FetchStatement: Sendable, Hashable {
    /// What a statement is to give.
    enum Selection: Sendable {
        /// A row for each object, of a list of columns, which are qualified with the table's alias `t0`.
        case columns(String)
        /// The primary key and the entity's number of each object.
        case identifiers
        /// One row: the number of objects.
        case count
    }

    /// The text.
    let sql: String
    /// The values: integers, floating-point numbers, texts, bytes or null.
    let bindings: [AttributeValue]
    /// What the objects must satisfy besides, which SQL cannot say. Then the statement has no limit and no offset.
    let remainder: QueryPredicate?
    /// Whether SQL cannot say the order, so that memory must put the objects in it. No limit and no offset then, either.
    var sortsInMemory = false
    /// Whether nothing is left for memory.
    var isComplete: Bool { remainder == nil && !sortsInMemory }

    /// SQLite's own bound on question marks in a statement.
    static let greatestBindingCount = 32_766
}

extension FetchStatement {
    /// Compiles a request for a store, in stages: what SQL cannot say is split off, the condition and the order take
    /// the joins they need, and the parts are put together.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` or `unsupported`.
    init(
        _ query: ResolvedQuery, selecting selection: Selection, schema: SQLSchema,
        store: StoreIdentity
    ) throws {
        let context = FetchContext(query: query, schema: schema, store: store)
        let split = try SplitPredicate(query.predicate) { try context.canSay($0) }
        let scope = FetchScope(entity: query.entity, in: context)
        let condition = try scope.entityTest.and(scope.boxCondition(split.translatable))
            .and(scope.condition(split.translatable))
        sortsInMemory = try !selection.isCount && !context.canSort()
        let order =
            selection.isCount
            ? nil : try scope.order(sortsInMemory ? [] : query.request.sortOrderings)
        remainder = split.remainder
        let isComplete = remainder == nil && !sortsInMemory
        let limit = isComplete ? FetchContext.limit(of: query.request) : nil

        var text: SQLFragment = "SELECT "
        text.sql.reserveCapacity(256)
        text.append(selection.list(of: schema.entity(query.entity), isBounded: limit != nil))
        text.append(" FROM ")
        text.append(scope.tables)
        if !condition.isAlways {
            text.append(" WHERE ")
            text.append(condition.fragment)
        }
        if let order {
            text.append(" ORDER BY ")
            text.append(order)
        }
        if let limit {
            text.append(" LIMIT ")
            text.append(limit)
            if selection.isCount { text = "SELECT count(*) FROM (\(text))" }
        }
        try text.checkBindingCount(of: query.entity)
        sql = text.sql
        bindings = text.bindings
    }
}

extension FetchStatement.Selection {
    fileprivate var isCount: Bool { if case .count = self { true } else { false } }

    fileprivate func list(of entity: SQLEntity, isBounded: Bool) -> SQLFragment {
        switch self {
        case .columns(let list): SQLFragment(sql: list)
        // Where all rows are of one entity its number is a constant: then an index can have all that is asked for.
        case .identifiers:
            entity.entityTest(includingSubentities: false) == nil
                ? SQLFragment(sql: "t0.Z_PK, \(entity.storeNumber)") : "t0.Z_PK, t0.Z_ENT"
        // With bounds, the rows within them are counted, whatever they hold.
        case .count: isBounded ? "1" : "count(*)"
        }
    }
}

extension SQLFragment {
    /// Throws if SQLite would not take so many values.
    func checkBindingCount(of entity: EntityLayout) throws {
        guard bindings.count > FetchStatement.greatestBindingCount else { return }
        throw QuireError(
            .unsupported,
            "The request has \(bindings.count) values, more than the "
                + "\(FetchStatement.greatestBindingCount) that SQLite takes; split it.",
            subject: .init(entity: entity.name))
    }
}
