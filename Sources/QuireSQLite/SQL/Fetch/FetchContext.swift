internal import QuireModel
internal import QuireQuery

/// What the stages of compiling one request share.
final class FetchContext {
    let query: ResolvedQuery
    let schema: SQLSchema
    let store: StoreIdentity
    private var aliasCount = 0

    init(query: ResolvedQuery, schema: SQLSchema, store: StoreIdentity) {
        self.query = query
        self.schema = schema
        self.store = store
    }

    /// A name for one more table: t0, t1 …
    func newAlias() -> SQLFragment {
        defer { aliasCount += 1 }
        return "t\(aliasCount)"
    }

    /// Whether SQL can say a condition.
    func canSay(_ predicate: QueryPredicate) throws -> Bool {
        do {
            let trial = FetchContext(query: query, schema: schema, store: store)
            _ = try FetchScope(entity: query.entity, in: trial).condition(predicate)
            return true
        } catch is UntranslatableExpression {
            return false
        }
    }

    /// Whether SQL can say the request's order.
    func canSort() throws -> Bool {
        let isPlain = try query.request.sortOrderings.allSatisfy { try $0.expression.isPlain }
        if isPlain { return true }
        do {
            let trial = FetchContext(query: query, schema: schema, store: store)
            _ = try FetchScope(entity: query.entity, in: trial).order(query.request.sortOrderings)
            return true
        } catch is UntranslatableExpression {
            return false
        }
    }

    /// What follows `LIMIT`; `nil` if the request has no bounds.
    static func limit(of request: FetchRequest) -> SQLFragment? {
        let limit = max(request.fetchLimit, 0)
        let offset = max(request.fetchOffset, 0)
        if limit == 0, offset == 0 { return nil }
        let bound: SQLFragment =
            limit == 0 ? "-1" : "\(bind: .integer(Int64(limit)))"
        return offset == 0 ? bound : "\(bound) OFFSET \(bind: .integer(Int64(offset)))"
    }
}
