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
    /// number, token, date and texts of a transaction with constants, and combinations of these.
    mutating func narrow(
        to selection: inout PersistentHistorySelection, store uuid: String,
        _ tables: SQLiteHistoryTables
    ) throws {
        guard let (predicate, path) = try selection.predicate(forStore: uuid) else { return }
        var columns: [[String]: SQLFragment] = [:]
        for (keys, column) in [
            (["number", "transactionNumber", "token"], "t.Z_PK"),
            (["date", "timestamp"], "t.ZTIMESTAMP"), (["author"], tables.text("ZAUTHOR")),
            (["contextName"], tables.text("ZCONTEXTNAME")),
            (["processName", "processID"], tables.text("ZPROCESSID")),
            (["bundleID"], tables.text("ZBUNDLEID")),
        ] as [([String], SQLFragment)] {
            for key in keys { columns[path + [key]] = column }
        }
        // Changes have it themselves.
        columns[["transactionNumber"]] = "t.Z_PK"
        let conjuncts = if case .and(let parts) = predicate { parts } else { [predicate] }
        for conjunct in conjuncts {
            guard let part = Self.condition(conjunct, columns, depth: 0),
                condition.bindings.count + part.bindings.count <= Self.maximumBindings
            else { continue }
            condition.append(" AND \(part)")
        }
    }

    // SQLite limits parameters, the depth of expressions, and that of parentheses: https://sqlite.org/limits.html. What exceeds these is
    // left to the evaluation of the predicate.
    private static let maximumBindings = 500
    private static let maximumDepth = 20

    /// SQL that is 1 where a predicate holds and 0 where not; `nil` if there is none.
    private static func condition(
        _ predicate: QueryPredicate, _ columns: [[String]: SQLFragment], depth: Int
    ) -> SQLFragment? {
        if depth > maximumDepth { return nil }
        func combined(_ parts: [QueryPredicate], _ separator: SQLFragment) -> SQLFragment? {
            let conditions = parts.compactMap { condition($0, columns, depth: depth + 1) }
            guard !parts.isEmpty, conditions.count == parts.count else { return nil }
            return "(\(conditions.joined(by: separator)))"
        }
        switch predicate {
        case .and(let parts): return combined(parts, " AND ")
        case .or(let parts): return combined(parts, " OR ")
        case .not(let inner):
            return condition(inner, columns, depth: depth + 1).map { "NOT (\($0))" }
        case .comparison(let comparison): return condition(comparison, columns)
        case .constant: return nil
        }
    }

    private static func condition(
        _ comparison: QueryComparison, _ columns: [[String]: SQLFragment]
    ) -> SQLFragment? {
        guard case .keyPath(let path) = comparison.left, comparison.modifier == .direct,
            comparison.options.isEmpty, let column = columns[path]
        else { return nil }
        if comparison.operator == .in, case .collection(let elements) = comparison.right {
            let constants = elements.compactMap {
                if case .constant(let value) = $0 { value } else { nil }
            }
            // SQL's `IN` does not find a missing value.
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
