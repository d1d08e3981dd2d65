package import Foundation
package import QuireModel
internal import QuireSystem

/// A node of Foundation's predicates that can be translated.
protocol TranslatableNode {
    /// What the node means.
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm
}

/// Translates one of Foundation's predicates, node by node.
///
/// Our conditions agree with what Foundation finds when it evaluates the predicate itself, except where
/// `DEVIATIONS.md` says otherwise. Foundation knows optional values in three places only, and so does this:
/// comparisons for equality, where nil equals nil, as ours do; `flatMap` and `?`, whose outcome is missing if what
/// they are applied to is; and `??`, which asks whether it is. Our comparisons are false for missing values, so it
/// seldom takes a condition of its own to say that a value must be there; ``demanding(_:for:)`` leaves out those that
/// are not needed, which lets stores use their indexes.
package struct PredicateTranslation {
    /// What the objects' classes know.
    package struct Vocabulary {
        /// The model's names of the properties that a key path of one step leads through.
        package let names: (AnyKeyPath) -> [String]?
        /// A value of a program's own type as an attribute keeps it.
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

    /// The condition that says what a predicate says.
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

    /// Says what a variable stands for from here on.
    mutating func bind<Value>(
        _ variable: PredicateExpressions.Variable<Value>, to term: PredicateTerm
    ) {
        meanings[variable.key] = term
    }

    /// What a variable stands for.
    func meaning<Value>(
        of variable: PredicateExpressions.Variable<Value>
    ) throws -> PredicateTerm {
        guard let meaning = meanings[variable.key] else { throw Self.unsupported(variable) }
        return meaning
    }

    /// Makes a variable stand for each element of a collection.
    ///
    /// - Returns: The variable's name in our tree.
    mutating func bindElement<Value>(_ variable: PredicateExpressions.Variable<Value>) -> String {
        elementCount += 1
        let name = elementCount == 1 ? "item" : "item\(elementCount)"
        bind(variable, to: .value(.variable(name)))
        return name
    }

    // MARK: - Nodes

    /// What a node means.
    mutating func term(of node: some PredicateExpression) throws -> PredicateTerm {
        // What depends on no variable is a constant.
        if let value = try? node.evaluate(PredicateBindings()), let term = captured(value) {
            return term
        }
        guard let translatable = node as? any TranslatableNode else {
            throw Self.unsupported(node)
        }
        return try translatable.term(in: &self)
    }

    /// A node as a truth value.
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

    /// A node that is true or false as a condition.
    mutating func condition(of node: some PredicateExpression) throws -> QueryPredicate {
        let truth = try truth(of: node)
        return Self.demanding(truth.exists, for: truth.holds)
    }

    /// A node as a value.
    mutating func value(of node: some PredicateExpression) throws -> QueryExpression {
        switch try term(of: node) {
        case .value(let value): value
        case .truth(let truth): Self.value(of: truth)
        default: throw Self.unsupported(node)
        }
    }

    /// A truth value as a value.
    static func value(of truth: PredicateTruth) -> QueryExpression {
        let value = QueryExpression.conditional(
            truth.holds, .constant(.boolean(true)), .constant(.boolean(false)))
        if case .constant(true) = truth.exists { return value }
        return .conditional(truth.exists, value, .constant(.null))
    }

    // MARK: - Errors

    /// The longest quotation of a node in an error.
    private static let greatestQuotation = 200

    /// Says that a node has no translation, and quotes it.
    static func unsupported(_ node: Any, _ reason: String = "") -> QuireError {
        var quotation =
            node is any CustomStringConvertible ? String(describing: node) : "\(type(of: node))"
        if quotation.count > greatestQuotation {
            quotation = quotation.prefix(greatestQuotation) + "…"
        }
        return QuireError(
            .unsupported,
            "A query cannot say “\(quotation)”\(reason.isEmpty ? "" : ": \(reason)").")
    }
}
