import Foundation
internal import QuireModel
internal import QuireQuery

/// Writes the predicate of a partial index as SQL, as far as it compares attributes with constants.
///
/// An index has no parameters, so constants become literals; `ZFAVORITE = 1`, `ZCOL IS NOT NULL`, `ZKIND <> 4 OR ZYEAR > 1900`.
/// A comparison with NULL is not true in SQL, so `kind != 4` leaves out objects without a kind, as Core Data's index does:
/// SQLite uses an index only where its condition follows from that of the query.
struct SQLPartialIndex {
    let entity: EntityLayout
    let schema: SQLSchema

    /// The condition; `nil` if the predicate says something else. Then all objects are indexed, which finds the same.
    func condition(_ format: String) -> String? {
        guard let predicate = try? QueryPredicate(format: format) else { return nil }
        return condition(predicate)
    }

    private func condition(_ predicate: QueryPredicate) -> String? {
        switch predicate {
        case .comparison(let comparison): return condition(comparison)
        case .and(let parts): return condition(parts, joinedBy: " AND ")
        case .or(let parts): return condition(parts, joinedBy: " OR ")
        case .not, .constant: return nil
        }
    }

    private func condition(_ parts: [QueryPredicate], joinedBy operation: String) -> String? {
        var conditions: [String] = []
        for part in parts {
            guard let condition = condition(part) else { return nil }
            switch part {
            case .and, .or: conditions.append("(\(condition))")
            case .comparison, .not, .constant: conditions.append(condition)
            }
        }
        return conditions.isEmpty ? nil : conditions.joined(separator: operation)
    }

    private func condition(_ comparison: QueryComparison) -> String? {
        guard comparison.modifier == .direct, comparison.options == [],
            case .keyPath(let keys) = comparison.left,
            case .constant(let constant) = comparison.right,
            case .attribute(let slot)? = entity.properties[keys.joined(separator: ".")],
            let column = schema.entity(entity).columns[slot].map({ SQLName.quoted($0.name) })
        else { return nil }
        if constant.isNull {
            switch comparison.operator {
            case .equal: return "\(column) IS NULL"
            case .notEqual: return "\(column) IS NOT NULL"
            default: return nil
            }
        }
        guard let literal = literal(constant, for: entity.slots[slot]) else { return nil }
        switch comparison.operator {
        case .equal: return "\(column) = \(literal)"
        case .notEqual: return "\(column) <> \(literal)"
        case .less: return "\(column) < \(literal)"
        case .lessOrEqual: return "\(column) <= \(literal)"
        case .greater: return "\(column) > \(literal)"
        case .greaterOrEqual: return "\(column) >= \(literal)"
        default: return nil
        }
    }

    private func literal(_ value: AttributeValue, for slot: EntityLayout.Slot) -> String? {
        switch (slot.storage, value) {
        case (.integer, .integer(let integer)), (.boolean, .integer(let integer)): String(integer)
        case (.boolean, .boolean(let boolean)): boolean ? "1" : "0"
        case (.double, .integer(let integer)): String(integer)
        case (.double, .double(let double)): double.isFinite ? String(double) : nil
        case (.string, .string(let text)): text.contains("\0") ? nil : SQLName.literal(text)
        default: nil
        }
    }
}
