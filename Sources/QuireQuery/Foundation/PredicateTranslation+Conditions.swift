internal import QuireModel

extension PredicateTranslation {
    // MARK: - Logic

    /// All of several conditions, without those that are always true.
    static func all(_ parts: [QueryPredicate]) -> QueryPredicate {
        var found: [QueryPredicate] = []
        for part in parts {
            switch part {
            case .constant(true): continue
            case .constant(false): return part
            case .and(let inner): found += inner
            default: found.append(part)
            }
        }
        return found.isEmpty ? .constant(true) : found.count == 1 ? found[0] : .and(found)
    }

    /// At least one of several conditions, without those that are always false.
    static func any(_ parts: [QueryPredicate]) -> QueryPredicate {
        var found: [QueryPredicate] = []
        for part in parts {
            switch part {
            case .constant(false): continue
            case .constant(true): return part
            case .or(let inner): found += inner
            default: found.append(part)
            }
        }
        return found.isEmpty ? .constant(false) : found.count == 1 ? found[0] : .or(found)
    }

    /// The contrary of a condition.
    static func not(_ predicate: QueryPredicate) -> QueryPredicate {
        switch predicate {
        case .constant(let value): return .constant(!value)
        case .not(let inner): return inner
        case .comparison(var comparison) where comparison.modifier == .direct:
            // Only these two are the contrary of each other when values are missing.
            switch comparison.operator {
            case .equal: comparison.operator = .notEqual
            case .notEqual: comparison.operator = .equal
            default: return .not(predicate)
            }
            return .comparison(comparison)
        default: return .not(predicate)
        }
    }

    // MARK: - Comparisons

    /// Compares two values, and already if both are constants.
    static func compare(
        _ left: QueryExpression, _ comparisonOperator: QueryComparison.Operator,
        _ right: QueryExpression, _ options: QueryComparison.Options = []
    ) throws -> QueryPredicate {
        if left.isConstant, !right.isConstant, let flipped = comparisonOperator.flipped {
            return try compare(right, flipped, left, options)
        }
        // One comparison for each outcome, so that an index on what is compared can be used.
        if case .conditional(let test, let first, let second) = left, right.isConstant {
            return any([
                demanding(test, for: try compare(first, comparisonOperator, right, options)),
                all([not(test), try compare(second, comparisonOperator, right, options)]),
            ])
        }
        let comparison = QueryPredicate.comparison(
            QueryComparison(left, comparisonOperator, right, options: options))
        guard left.isConstant, right.isConstant, !left.isList else { return comparison }
        return .constant(try PredicateEvaluator(subject: nil).holds(comparison))
    }

    /// That there is a value.
    static func present(_ value: QueryExpression) -> QueryPredicate {
        switch value {
        case .constant(let constant): .constant(!ValueOrder.isMissing(constant))
        case .evaluatedObject, .collection, .function(.count, _): .constant(true)
        case .variable(let name) where !name.contains("."): .constant(true)
        default: .comparison(QueryComparison(value, .notEqual, .constant(.null)))
        }
    }

    // MARK: - Missing values

    /// That a condition holds and another one, too, which is left out as far as the first one implies that there
    /// are the values it asks for.
    static func demanding(
        _ demand: QueryPredicate, for predicate: QueryPredicate
    ) -> QueryPredicate {
        let demands = if case .and(let parts) = demand { parts } else { [demand] }
        let needed = demands.filter { demand in
            guard case .comparison(let comparison) = demand, comparison.operator == .notEqual,
                comparison.right == .constant(.null)
            else { return true }
            return !isFalse(predicate, withoutValueOf: comparison.left)
        }
        return all(needed + [predicate])
    }

    /// Whether a condition is known to be false if there is no value of an expression.
    private static func isFalse(
        _ predicate: QueryPredicate, withoutValueOf expression: QueryExpression
    ) -> Bool {
        switch predicate {
        case .constant(let value): return !value
        case .and(let parts):
            return parts.contains { isFalse($0, withoutValueOf: expression) }
        case .or(let parts):
            return parts.allSatisfy { isFalse($0, withoutValueOf: expression) }
        case .not: return false
        case .comparison(let comparison):
            let left = isMissing(comparison.left, withoutValueOf: expression)
            let right = isMissing(comparison.right, withoutValueOf: expression)
            guard left || right, comparison.modifier != .all else { return false }
            switch comparison.operator {
            case .equal: return (left ? comparison.right : comparison.left).isPresent
            case .notEqual: return left && comparison.right == .constant(.null)
            case .in: return left && comparison.right.isPresent
            default: return true
            }
        }
    }

    /// Whether an expression is known to have no value if another one has none.
    static func isMissing(
        _ value: QueryExpression, withoutValueOf expression: QueryExpression
    ) -> Bool {
        if value == expression { return true }
        switch (value, expression) {
        case (.keyPath(let keys), .keyPath(let beginning)): return keys.starts(with: beginning)
        case (.variable(let name), .variable(let beginning)):
            return name.hasPrefix(beginning + ".")
        case (.function(let function, let arguments), _):
            switch function {
            case .add, .subtract, .multiply, .divide, .modulus, .length:
                return arguments.contains { isMissing($0, withoutValueOf: expression) }
            default: return false
            }
        case (.cast(let inner, _), _), (.path(let inner, _), _):
            return isMissing(inner, withoutValueOf: expression)
        default: return false
        }
    }
}

extension QueryExpression {
    /// Whether it is a list.
    fileprivate var isList: Bool { if case .collection = self { true } else { false } }

    /// Whether it is known to have a value, and all its elements if it is a list.
    fileprivate var isPresent: Bool {
        switch self {
        case .constant(let value): !ValueOrder.isMissing(value)
        case .collection(let elements): elements.allSatisfy(\.isPresent)
        default: false
        }
    }
}
