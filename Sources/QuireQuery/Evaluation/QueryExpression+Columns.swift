package import QuireModel

extension QueryExpression {
    /// The expression with what columns hold in the place of their names, `n` or `$n`. What is computed of the objects
    /// of a group is left alone, because columns are computed after it.
    ///
    /// - Parameter hidden: Names that mean something else unless there is a `$` before them.
    func replacingColumns(
        _ columns: [String: QueryExpression], hidden: Set<String> = []
    ) -> QueryExpression {
        if columns.isEmpty { return self }
        switch self {
        case .variable(let name): return columns[name] ?? self
        case .keyPath(let keys):
            let name = keys.joined(separator: ".")
            return hidden.contains(name) ? self : columns[name] ?? self
        case .function(let function, _) where function.isAggregate: return self
        case .subquery(let collection, let variable, let condition):
            var inner = columns
            inner[variable] = nil
            return .subquery(
                collection.replacingColumns(columns, hidden: hidden), variable: variable,
                condition.mappingExpressions { $0.replacingColumns(inner, hidden: hidden) })
        default:
            return mappingParts {
                $0.replacingColumns(columns, hidden: hidden)
            } _: { condition in
                condition.mappingExpressions { $0.replacingColumns(columns, hidden: hidden) }
            }
        }
    }

    /// The expression with constants in the place of some expressions in it.
    package func replacing(_ values: [QueryExpression: AttributeValue]) -> QueryExpression {
        if let value = values[self] { return .constant(value) }
        return mappingParts {
            $0.replacing(values)
        } _: { condition in
            condition.mappingExpressions { $0.replacing(values) }
        }
    }
}

extension QueryPredicate {
    /// Whether all expressions in it satisfy a condition.
    func allExpressions(_ satisfy: (QueryExpression) -> Bool) -> Bool {
        switch self {
        case .constant: true
        case .comparison(let comparison): satisfy(comparison.left) && satisfy(comparison.right)
        case .and(let parts), .or(let parts): parts.allSatisfy { $0.allExpressions(satisfy) }
        case .not(let inner): inner.allExpressions(satisfy)
        }
    }
}
