internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// The transactions that a request reads: a condition on the row `t` of `ATRANSACTION`.
///
/// It holds for every transaction that the request selects, and may hold for others: ``PersistentHistorySelection`` evaluates the
/// whole predicate on what is read.
struct SQLiteHistoryRange {
    private(set) var condition: SQLFragment
    /// The number that the transactions come after; `nil` if a time says so, and 0 for all.
    let number: Int64?

    init(_ request: PersistentHistoryChangeRequest, number: Int64) {
        if case .date(let date) = request.place {
            self.number = nil
            condition = "t.ZTIMESTAMP > \(bind: .date(date))"
        } else {
            self.number = number
            condition = "t.Z_PK > \(bind: .integer(number))"
        }
    }

    /// Leaves out transactions that do not satisfy those parts of a selection's predicate that SQL can evaluate: comparisons of
    /// number, token, date and texts of a transaction with constants, and what is made of these.
    mutating func narrow(
        to selection: inout PersistentHistorySelection, store uuid: String,
        _ tables: SQLiteHistoryTables
    ) throws {
        guard let (predicate, keys) = try selection.predicate(forStore: uuid) else { return }
        let conjuncts = if case .and(let parts) = predicate { parts } else { [predicate] }
        for conjunct in conjuncts {
            if let part = Self.condition(conjunct, keys, tables) {
                condition.append(" AND \(part)")
            }
        }
    }

    /// SQL that is 1 where a predicate holds and 0 where not; `nil` if there is none.
    private static func condition(
        _ predicate: QueryPredicate, _ keys: [String: String], _ tables: SQLiteHistoryTables
    ) -> SQLFragment? {
        func combined(_ parts: [QueryPredicate], _ separator: SQLFragment) -> SQLFragment? {
            let conditions = parts.compactMap { condition($0, keys, tables) }
            guard !parts.isEmpty, conditions.count == parts.count else { return nil }
            return "(\(conditions.joined(by: separator)))"
        }
        switch predicate {
        case .and(let parts): return combined(parts, " AND ")
        case .or(let parts): return combined(parts, " OR ")
        case .not(let inner): return condition(inner, keys, tables).map { "NOT (\($0))" }
        case .comparison(let comparison): return condition(comparison, keys, tables)
        case .constant: return nil
        }
    }

    private static func condition(
        _ comparison: QueryComparison, _ keys: [String: String], _ tables: SQLiteHistoryTables
    ) -> SQLFragment? {
        guard case .keyPath(let path) = comparison.left, comparison.modifier == .direct,
            comparison.options.isEmpty, let key = keys[path.joined(separator: ".")]
        else { return nil }
        let column: SQLFragment
        switch key {
        case "number": column = "t.Z_PK"
        case "date": column = "t.ZTIMESTAMP"
        case "author": column = tables.text("ZAUTHOR")
        case "contextName": column = tables.text("ZCONTEXTNAME")
        case "processName": column = tables.text("ZPROCESSID")
        case "bundleID": column = tables.text("ZBUNDLEID")
        default: return nil
        }
        if comparison.operator == .in, case .collection(let elements) = comparison.right {
            let constants = elements.compactMap {
                if case .constant(let value) = $0 { value } else { nil }
            }
            // A comparison with a missing value is false, unless both are: so `IN` never finds it.
            guard constants.count == elements.count, !constants.isEmpty,
                constants.allSatisfy({ !$0.stored.isNull })
            else { return nil }
            let list = constants.map { "\(bind: $0)" as SQLFragment }.joined(by: ", ")
            return "coalesce(\(column) IN (\(list)), 0)"
        }
        guard case .constant(let value) = comparison.right else { return nil }
        switch comparison.operator {
        case .equal: return "\(column) IS \(bind: value)"
        case .notEqual: return "\(column) IS NOT \(bind: value)"
        case .less: return "coalesce(\(column) < \(bind: value), 0)"
        case .lessOrEqual: return "coalesce(\(column) <= \(bind: value), 0)"
        case .greater: return "coalesce(\(column) > \(bind: value), 0)"
        case .greaterOrEqual: return "coalesce(\(column) >= \(bind: value), 0)"
        default: return nil
        }
    }
}
