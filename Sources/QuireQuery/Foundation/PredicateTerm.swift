/// What a node of one of Foundation's predicates means.
enum PredicateTerm {
    /// A value, maybe a missing one; a to-many relationship or a list as a whole, too.
    case value(QueryExpression)
    /// A truth value.
    case truth(PredicateTruth)
    /// Some of the elements of a to-many relationship.
    case elements(PredicateElements)
    /// A range of values. A bound that is `nil` is none.
    case range(lower: QueryExpression?, upper: QueryExpression?, includesUpper: Bool)
    /// How two texts compare, as a `ComparisonResult`.
    case order(QueryExpression, QueryExpression, QueryComparison.Options)
    /// The UTF-16 units of a text.
    case units(QueryExpression)
}

/// A truth value that may be missing, as an optional `Bool` may.
struct PredicateTruth {
    /// Whether there is one.
    var exists: QueryPredicate = .constant(true)
    /// Whether it is true, if there is one.
    var holds: QueryPredicate
}

/// The elements of a to-many relationship for which a condition holds.
struct PredicateElements {
    let collection: QueryExpression
    /// What stands for each in the condition.
    let variable: String
    let condition: QueryPredicate

    /// The elements as an expression.
    var expression: QueryExpression { .subquery(collection, variable: variable, condition) }
}
