extension QueryPredicate {
    /// The predicate with constants in the place of its `$VARIABLES`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if there is no value for one of them.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryPredicate {
        try mappingExpressions { try $0.substituting(variables: variables) }
    }

    /// The predicate with other expressions in its comparisons.
    func mappingExpressions(
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
    /// The expression with constants in the place of its `$VARIABLES`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if there is no value for one of them.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryExpression {
        switch self {
        case .constant, .keyPath, .evaluatedObject: return self
        case .variable(let name):
            guard let value = variables[name] else {
                throw QuireError(.invalidQuery, "No value is given for the variable $\(name).")
            }
            return .constant(value)
        case .collection(let elements):
            return .collection(try elements.map { try $0.substituting(variables: variables) })
        }
    }
}
