public import QuireModel
internal import QuireSystem

extension QueryPredicate {
    /// The predicate with constants in the place of its `$VARIABLES`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if there is no value for one of them.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryPredicate {
        try mappingExpressions { try $0.substituting(variables: variables) }
    }

    /// The predicate with other expressions in its comparisons.
    package func mappingExpressions(
        _ transform: (QueryExpression) throws -> QueryExpression
    ) rethrows -> QueryPredicate {
        switch self {
        case .constant: return self
        case .comparison(var comparison):
            comparison.left = try transform(comparison.left)
            comparison.right = try transform(comparison.right)
            return .comparison(comparison)
        case .and(let parts): return .and(try parts.map { try $0.mappingExpressions(transform) })
        case .or(let parts): return .or(try parts.map { try $0.mappingExpressions(transform) })
        case .not(let inner): return .not(try inner.mappingExpressions(transform))
        }
    }
}

extension QueryExpression {
    /// The expression with constants in the place of its `$VARIABLES`, other than those of its subqueries.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if there is no value for one of them.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryExpression {
        try replacingVariables { name in
            guard let value = variables[name] else {
                throw QuireError(.invalidQuery, "No value is given for the variable $\(name).")
            }
            return .constant(value)
        }
    }

    /// The expression with others in the place of its `$VARIABLES`, other than those of its subqueries.
    package func replacingVariables(
        _ bound: Set<String> = [], _ replacement: (String) throws -> QueryExpression
    ) rethrows -> QueryExpression {
        switch self {
        case .variable(let name):
            let first = name.prefix { $0 != "." }
            return bound.contains(String(first)) ? self : try replacement(name)
        case .subquery(let collection, let variable, let condition):
            return .subquery(
                try collection.replacingVariables(bound, replacement), variable: variable,
                try condition.mappingExpressions {
                    try $0.replacingVariables(bound.union([variable]), replacement)
                })
        default:
            return try mappingParts {
                try $0.replacingVariables(bound, replacement)
            } _: { condition in
                try condition.mappingExpressions { try $0.replacingVariables(bound, replacement) }
            }
        }
    }
}
