public import QuireModel
internal import QuireSystem

/// A condition on objects.
///
/// Parse one in Core Data's predicate format language with ``init(format:_:)`` or build it from its parts. Stores and memory
/// evaluate it alike:
///
/// - A comparison with a missing value is false, except that `!=` is true when exactly one side is missing and `==` when
///   both are; so a predicate is always true or false, never unknown. A key path through a missing object evaluates to a
///   missing value. NaN is a missing value.
/// - Numbers of all types compare by amount, without rounding; decimal numbers in their stored form. `YES` is 1.
/// - Texts compare by their UTF-8 bytes, so é and e with an accent differ. `[c]` applies Unicode's simple case folding,
///   `[d]` strips diacritics and composes the rest; neither is locale-dependent. URIs are texts here.
/// - Every text begins with, ends with and contains the empty text.
/// - Binary data and UUIDs compare by their bytes. Objects compare for equality only.
/// - A key path through a to-many relationship needs `ANY`, `ALL` or `NONE`, unless `IN` or `CONTAINS` tests an object's
///   membership. `ALL` is true and `ANY` false for no objects.
/// - A text compared with a date, number, UUID or object is parsed as one.
/// - `entity` and `entity.name` are the name of the object's entity.
public indirect enum QueryPredicate: Sendable, Hashable {
    /// True or false for every object: `TRUEPREDICATE`, `FALSEPREDICATE`.
    case constant(Bool)
    /// Compares two values.
    case comparison(QueryComparison)
    /// The conjunction of conditions. True if empty.
    case and([QueryPredicate])
    /// The disjunction of conditions. False if empty.
    case or([QueryPredicate])
    /// The negation of a condition.
    case not(QueryPredicate)
}

/// Compares two values.
public struct QueryComparison: Sendable, Hashable {
    /// A comparison operator.
    public enum Operator: Sendable, Hashable, CaseIterable {
        /// `==`
        case equal
        /// `!=`
        case notEqual
        /// `<`
        case less
        /// `<=`
        case lessOrEqual
        /// `>`
        case greater
        /// `>=`
        case greaterOrEqual
        /// `BEGINSWITH`: the left text begins with the right one.
        case beginsWith
        /// `ENDSWITH`: the left text ends with the right one.
        case endsWith
        /// `CONTAINS`: the left text contains the right one, or the left to-many relationship the right object.
        case contains
        /// `LIKE`: the left text matches the pattern on the right, where `?` matches any character and `*` any number of
        /// characters.
        case like
        /// `MATCHES`: the right regular expression (ICU) matches the whole left text.
        case matches
        /// `IN`: the left value is among the right ones, or the left text is a substring of the right one.
        case `in`
        /// `BETWEEN`: the left value is within the two right ones, inclusive.
        case between
        /// `MATCHES TEXT`: the words of the left text satisfy the right full-text query (an extension of Quire's).
        case matchesText
    }

    /// The quantifier of a to-many key path on the left.
    public enum Modifier: Sendable, Hashable {
        /// No quantifier.
        case direct
        /// `ANY`, `SOME`: at least one of its values satisfies the comparison.
        case any
        /// `ALL`: every value satisfies the comparison; true for no values.
        case all
    }

    /// Text comparison options.
    public struct Options: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt8
        /// Creates a set from its bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        /// `[c]`: case-insensitive.
        public static let caseInsensitive = Options(rawValue: 1)
        /// `[d]`: diacritic-insensitive.
        public static let diacriticInsensitive = Options(rawValue: 2)
        /// `[n]`: the texts are already normalized, so they compare by their bytes, regardless of other options.
        public static let normalized = Options(rawValue: 4)
        /// `[l]`: canonically equivalent texts are equal. No locale is used, so results are the same on every system.
        public static let localized = Options(rawValue: 8)
    }

    /// The value on the left.
    public var left: QueryExpression
    /// The comparison operator.
    public var `operator`: Operator
    /// The value on the right.
    public var right: QueryExpression
    /// The quantifier of a to-many key path on the left.
    public var modifier: Modifier
    /// The text comparison options.
    public var options: Options
    /// Whether the right side is a collection of constants that ``PredicateResolver`` has sorted, so that `IN` can search it.
    var hasSortedConstants = false

    /// Creates a comparison.
    public init(
        _ left: QueryExpression, _ operator: Operator, _ right: QueryExpression,
        modifier: Modifier = .direct, options: Options = []
    ) {
        self.left = left
        self.operator = `operator`
        self.right = right
        self.modifier = modifier
        self.options = options
    }
}

// MARK: - Variables

extension QueryPredicate {
    /// The predicate with its `$VARIABLES` replaced by constants.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if a variable has no value.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryPredicate {
        try mappingExpressions { try $0.substituting(variables: variables) }
    }

    /// The predicate with the expressions of its comparisons transformed.
    package func mappingExpressions(
        _ transform: (QueryExpression) throws -> QueryExpression
    ) rethrows -> QueryPredicate {
        switch self {
        case .constant: return self
        case .comparison(var comparison):
            comparison.left = try transform(comparison.left)
            comparison.right = try transform(comparison.right)
            comparison.hasSortedConstants = false
            return .comparison(comparison)
        case .and(let parts): return .and(try parts.map { try $0.mappingExpressions(transform) })
        case .or(let parts): return .or(try parts.map { try $0.mappingExpressions(transform) })
        case .not(let inner): return .not(try inner.mappingExpressions(transform))
        }
    }
}

extension QueryExpression {
    /// The expression with its `$VARIABLES`, except those of its subqueries, replaced by constants.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if a variable has no value.
    public func substituting(variables: [String: AttributeValue]) throws -> QueryExpression {
        try replacingVariables { name in
            guard let value = variables[name] else {
                throw QuireError(.invalidQuery, "The variable $\(name) has no value.")
            }
            return .constant(value)
        }
    }

    /// The expression with its `$VARIABLES`, except those of its subqueries, replaced by expressions.
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
