package import Foundation
package import QuireModel
internal import QuireSystem

/// A translatable node of Foundation's predicates.
protocol TranslatableNode {
    /// The term of the node.
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm
}

/// Translates one of Foundation's predicates, node by node.
///
/// The condition has the results of Foundation's own evaluation, except as listed in `DEVIATIONS.md`. Foundation handles
/// optional values in three places only, and so does this: comparisons for equality, where nil equals nil, as in ours;
/// `flatMap` and `?`, whose result is missing if the operand is; and `??`, which tests for that. Our comparisons are false
/// for missing values, so an explicit not-null condition is seldom needed; ``demanding(_:for:)`` omits redundant ones, so
/// that stores can use their indexes.
package struct PredicateTranslation {
    /// The property names and value conversions of the objects' classes.
    package struct Vocabulary {
        /// The model's property names for a single-step key path.
        package let names: (AnyKeyPath) -> [String]?
        /// Converts a value of a program's type to an attribute value.
        package let value: (Any) -> AttributeValue?

        package init(
            names: @escaping (AnyKeyPath) -> [String]?, value: @escaping (Any) -> AttributeValue?
        ) {
            self.names = names
            self.value = value
        }
    }

    let vocabulary: Vocabulary
    private var meanings: [PredicateExpressions.VariableID: PredicateTerm] = [:]
    private var elementCount = 0

    private init(_ vocabulary: Vocabulary) { self.vocabulary = vocabulary }

    /// The equivalent condition of a predicate.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a node has no translation.
    package static func condition<Object>(
        of predicate: Predicate<Object>, _ vocabulary: Vocabulary
    ) throws -> QueryPredicate {
        var translation = PredicateTranslation(vocabulary)
        translation.bind(predicate.variable, to: .value(.evaluatedObject))
        return try translation.condition(of: predicate.expression)
    }

    // MARK: - Variables

    /// Binds a variable from here on.
    mutating func bind<Value>(
        _ variable: PredicateExpressions.Variable<Value>, to term: PredicateTerm
    ) {
        meanings[variable.key] = term
    }

    /// The binding of a variable.
    func meaning<Value>(
        of variable: PredicateExpressions.Variable<Value>
    ) throws -> PredicateTerm {
        guard let meaning = meanings[variable.key] else { throw Self.unsupported(variable) }
        return meaning
    }

    /// Binds a variable to each element of a collection.
    ///
    /// - Returns: The variable's name in the query.
    mutating func bindElement<Value>(_ variable: PredicateExpressions.Variable<Value>) -> String {
        elementCount += 1
        let name = elementCount == 1 ? "item" : "item\(elementCount)"
        bind(variable, to: .value(.variable(name)))
        return name
    }

    // MARK: - Nodes

    /// The term of a node.
    mutating func term(of node: some PredicateExpression) throws -> PredicateTerm {
        // A node without variables is a constant.
        if let value = try? node.evaluate(PredicateBindings()), let term = captured(value) {
            return term
        }
        guard let translatable = node as? any TranslatableNode else {
            throw Self.unsupported(node)
        }
        return try translatable.term(in: &self)
    }

    /// Translates a node to a truth value.
    mutating func truth<Node: PredicateExpression>(of node: Node) throws -> PredicateTruth {
        switch try term(of: node) {
        case .truth(let truth): return truth
        case .value(.constant(.null)):
            return PredicateTruth(exists: .constant(false), holds: .constant(false))
        case .value(.constant(.boolean(let value))): return PredicateTruth(holds: .constant(value))
        case .value(let value):
            let isOptional = Node.Output.self is any CapturedOptional.Type
            return PredicateTruth(
                exists: isOptional ? Self.present(value) : .constant(true),
                holds: try Self.compare(value, .equal, .constant(.boolean(true))))
        default: throw Self.unsupported(node)
        }
    }

    /// Translates a Boolean node to a condition.
    mutating func condition(of node: some PredicateExpression) throws -> QueryPredicate {
        let truth = try truth(of: node)
        return Self.demanding(truth.exists, for: truth.holds)
    }

    /// Translates a node to a value.
    mutating func value(of node: some PredicateExpression) throws -> QueryExpression {
        switch try term(of: node) {
        case .value(let value): value
        case .truth(let truth): Self.value(of: truth)
        default: throw Self.unsupported(node)
        }
    }

    /// Converts a truth value to a value.
    static func value(of truth: PredicateTruth) -> QueryExpression {
        let value = QueryExpression.conditional(
            truth.holds, .constant(.boolean(true)), .constant(.boolean(false)))
        if case .constant(true) = truth.exists { return value }
        return .conditional(truth.exists, value, .constant(.null))
    }

    // MARK: - Errors

    /// The maximum length of a quoted node in an error.
    private static let maximumQuotation = 200

    /// The error for a node without a translation, quoting it.
    static func unsupported(_ node: Any, _ reason: String = "") -> QuireError {
        var quotation =
            node is any CustomStringConvertible ? String(describing: node) : "\(type(of: node))"
        if quotation.count > maximumQuotation {
            quotation = quotation.prefix(maximumQuotation) + "…"
        }
        return QuireError(
            .unsupported,
            "A query cannot express “\(quotation)”\(reason.isEmpty ? "" : ": \(reason)").")
    }
}

// MARK: - Terms

/// The translation of a node of Foundation's predicates.
enum PredicateTerm {
    /// A value, which may be missing; also a whole to-many relationship or list.
    case value(QueryExpression)
    /// A Boolean.
    case truth(PredicateTruth)
    /// A filtered to-many relationship.
    case elements(PredicateElements)
    /// A range of values; `nil` for no bound.
    case range(lower: QueryExpression?, upper: QueryExpression?, includesUpper: Bool)
    /// The comparison of two texts, as a `ComparisonResult`.
    case order(QueryExpression, QueryExpression, QueryComparison.Options)
    /// The UTF-16 units of a text.
    case units(QueryExpression)

    /// A truth value that is never missing.
    static func condition(_ predicate: QueryPredicate) -> PredicateTerm {
        .truth(PredicateTruth(holds: predicate))
    }
}

/// A truth value that may be missing, like an optional `Bool`.
struct PredicateTruth {
    /// Whether it is present.
    var exists: QueryPredicate = .constant(true)
    /// Whether it is true, if present.
    var holds: QueryPredicate
}

/// The elements of a to-many relationship that satisfy a condition.
struct PredicateElements {
    let collection: QueryExpression
    /// The element variable in the condition.
    let variable: String
    let condition: QueryPredicate

    /// The elements as an expression.
    var expression: QueryExpression { .subquery(collection, variable: variable, condition) }
}

// MARK: - Conditions

extension PredicateTranslation {
    // MARK: - Logic

    /// The conjunction of conditions, without those that are always true.
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

    /// The disjunction of conditions, without those that are always false.
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

    /// The negation of a condition.
    static func not(_ predicate: QueryPredicate) -> QueryPredicate {
        switch predicate {
        case .constant(let value): return .constant(!value)
        case .not(let inner): return inner
        case .comparison(var comparison) where comparison.modifier == .direct:
            // Only these two operators are negations of each other for missing values.
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

    /// Compares two values; constants are folded.
    static func compare(
        _ left: QueryExpression, _ comparisonOperator: QueryComparison.Operator,
        _ right: QueryExpression, _ options: QueryComparison.Options = []
    ) throws -> QueryPredicate {
        if left.isConstant, !right.isConstant, let flipped = comparisonOperator.flipped {
            return try compare(right, flipped, left, options)
        }
        // One comparison for each outcome, so that an index on the operand can be used.
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

    /// A not-null condition.
    static func present(_ value: QueryExpression) -> QueryPredicate {
        switch value {
        case .constant(let constant): .constant(!ValueOrder.isMissing(constant))
        case .evaluatedObject, .collection, .function(.count, _): .constant(true)
        case .variable(let name) where !name.contains("."): .constant(true)
        default: .comparison(QueryComparison(value, .notEqual, .constant(.null)))
        }
    }

    // MARK: - Missing values

    /// The conjunction of a condition and not-null demands, omitting those that the condition implies.
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

    /// Whether a condition is provably false if an expression is missing.
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

    /// Whether an expression is provably missing if another one is.
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

    /// Whether it is provably not missing, including all elements of a list.
    fileprivate var isPresent: Bool {
        switch self {
        case .constant(let value): !ValueOrder.isMissing(value)
        case .collection(let elements): elements.allSatisfy(\.isPresent)
        default: false
        }
    }
}
