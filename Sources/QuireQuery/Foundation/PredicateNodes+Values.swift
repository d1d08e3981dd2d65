public import Foundation
internal import QuireModel

extension PredicateTranslation {
    fileprivate mutating func function(
        _ function: QueryFunction, _ left: some PredicateExpression,
        _ right: some PredicateExpression
    ) throws -> PredicateTerm {
        .value(.function(function, [try value(of: left), try value(of: right)]))
    }
}

extension PredicateExpressions.Arithmetic: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        switch op {
        case .add: try translation.function(.add, lhs, rhs)
        case .subtract: try translation.function(.subtract, lhs, rhs)
        case .multiply: try translation.function(.multiply, lhs, rhs)
        @unknown default: throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateExpressions.IntDivision: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.function(.divide, lhs, rhs)
    }
}

extension PredicateExpressions.FloatDivision: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.function(.divide, lhs, rhs)
    }
}

extension PredicateExpressions.IntRemainder: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.function(.modulus, lhs, rhs)
    }
}

extension PredicateExpressions.UnaryMinus: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let value = try translation.value(of: wrapped)
        return .value(.function(.subtract, [.constant(.integer(0)), value]))
    }
}

// MARK: - Texts

extension PredicateTranslation {
    /// A comparison of texts.
    fileprivate mutating func texts<Left: PredicateExpression>(
        _ left: Left, _ comparisonOperator: QueryComparison.Operator,
        _ right: some PredicateExpression, _ options: QueryComparison.Options = [],
        in node: some PredicateExpression
    ) throws -> PredicateTerm {
        guard Left.Output.self is any StringProtocol.Type else { throw Self.unsupported(node) }
        let left = try value(of: left)
        let right = try value(of: right)
        return .condition(try Self.compare(left, comparisonOperator, right, options))
    }
}

extension PredicateExpressions.CollectionContainsCollection: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.texts(base, .contains, other, in: self)
    }
}

extension PredicateExpressions.SequenceStartsWith: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.texts(base, .beginsWith, prefix, in: self)
    }
}

extension PredicateExpressions.StringContainsRegex: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard
            let regex = regex as? PredicateExpressions.Value<PredicateExpressions.PredicateRegex>
        else { throw PredicateTranslation.unsupported(self) }
        let text = try translation.value(of: subject)
        // MATCHES applies to the whole text.
        let pattern = "(?s:.*)(?:\(regex.value.stringRepresentation))(?s:.*)"
        return .condition(
            try PredicateTranslation.compare(
                text, .matches, .constant(.string(pattern))))
    }
}

extension PredicateExpressions.StringLocalizedStandardContains: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.texts(root, .contains, other, Self.options, in: self)
    }
}

extension PredicateExpressions.StringCaseInsensitiveCompare: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .order(
            try translation.value(of: root), try translation.value(of: other), .caseInsensitive)
    }
}

// MARK: - Expressions of texts

// Foundation's macro generates calls of these for `localizedStandardContains` and `caseInsensitiveCompare`, but Foundation
// has them on Apple's systems only. Both have the semantics of our queries here, whatever the system's language.

extension PredicateExpressions {
    /// `a.localizedStandardContains(b)` in a predicate: a text search that ignores case and diacritics; `CONTAINS[cd]`.
    public struct StringLocalizedStandardContains<
        Root: PredicateExpression, Other: PredicateExpression
    >: PredicateExpression where Root.Output: StringProtocol, Other.Output: StringProtocol {
        /// A Boolean.
        public typealias Output = Bool
        static var options: QueryComparison.Options { [.caseInsensitive, .diacriticInsensitive] }

        /// The text to search.
        public let root: Root
        /// The text to search for.
        public let other: Other

        /// Creates a node with two operands.
        public init(root: Root, other: Other) {
            self.root = root
            self.other = other
        }

        /// Whether the text contains the other one.
        public func evaluate(_ bindings: PredicateBindings) throws -> Bool {
            try PredicateEvaluator(subject: nil).holds(
                .comparison(
                    QueryComparison(
                        .constant(.string(String(try root.evaluate(bindings)))), .contains,
                        .constant(.string(String(try other.evaluate(bindings)))),
                        options: Self.options)))
        }
    }

    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// `a.localizedStandardContains(b)` in a predicate.
    @_disfavoredOverload
    public static func build_localizedStandardContains<Root, Other>(
        _ root: Root, _ other: Other
    ) -> StringLocalizedStandardContains<Root, Other> {
        StringLocalizedStandardContains(root: root, other: other)
    }

    /// `a.caseInsensitiveCompare(b)` in a predicate: the order of two texts, ignoring case as `[c]` does.
    ///
    /// Compare it with a constant: `let same = ComparisonResult.orderedSame`.
    public struct StringCaseInsensitiveCompare<
        Root: PredicateExpression, Other: PredicateExpression
    >: PredicateExpression where Root.Output: StringProtocol, Other.Output: StringProtocol {
        /// An order.
        public typealias Output = ComparisonResult

        /// The text on the left.
        public let root: Root
        /// The text on the right.
        public let other: Other

        /// Creates a node with two operands.
        public init(root: Root, other: Other) {
            self.root = root
            self.other = other
        }

        /// The comparison result of the texts.
        public func evaluate(_ bindings: PredicateBindings) throws -> ComparisonResult {
            let order = ValueOrder.compareBytes(
                TextFolding.fold(String(try root.evaluate(bindings)), .caseInsensitive),
                TextFolding.fold(String(try other.evaluate(bindings)), .caseInsensitive))
            return order < 0 ? .orderedAscending : order == 0 ? .orderedSame : .orderedDescending
        }
    }

    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// `a.caseInsensitiveCompare(b)` in a predicate.
    @_disfavoredOverload
    public static func build_caseInsensitiveCompare<Root, Other>(
        _ root: Root, _ other: Other
    ) -> StringCaseInsensitiveCompare<Root, Other> {
        StringCaseInsensitiveCompare(root: root, other: other)
    }
}

// Requirements of the standard predicate type.

extension PredicateExpressions.StringLocalizedStandardContains: Sendable
where Root: Sendable, Other: Sendable {}
extension PredicateExpressions.StringLocalizedStandardContains: Codable
where Root: Codable, Other: Codable {}
extension PredicateExpressions.StringLocalizedStandardContains: StandardPredicateExpression
where Root: StandardPredicateExpression, Other: StandardPredicateExpression {}
extension PredicateExpressions.StringCaseInsensitiveCompare: Sendable
where Root: Sendable, Other: Sendable {}
extension PredicateExpressions.StringCaseInsensitiveCompare: Codable
where Root: Codable, Other: Codable {}
extension PredicateExpressions.StringCaseInsensitiveCompare: StandardPredicateExpression
where Root: StandardPredicateExpression, Other: StandardPredicateExpression {}

// MARK: - Collections

// MARK: - Membership

extension PredicateExpressions.SequenceContains: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard !(LHS.Output.self is any StringProtocol.Type) else {
            throw PredicateTranslation.unsupported(self, "use a string, not a character")
        }
        let element = try translation.value(of: element)
        switch try translation.term(of: sequence) {
        case .value(.constant): throw PredicateTranslation.unsupported(self)
        case .value(let collection):
            return .condition(try PredicateTranslation.compare(element, .in, collection))
        case .elements(let elements):
            let isElement = try PredicateTranslation.compare(
                .variable(elements.variable), .equal, element)
            return .truth(
                PredicateTranslation.existence(
                    of: elements.collection, elements.variable,
                    PredicateTranslation.all([elements.condition, isElement])))
        default: throw PredicateTranslation.unsupported(self)
        }
    }
}

// MARK: - Conditions on elements

extension PredicateExpressions.Filter: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        switch try translation.term(of: sequence) {
        case .value(.collection), .value(.constant): throw PredicateTranslation.unsupported(self)
        case .value(let collection):
            let name = translation.bindElement(variable)
            return .elements(
                PredicateElements(
                    collection: collection, variable: name,
                    condition: try translation.condition(of: filter)))
        case .elements(let elements):
            translation.bind(variable, to: .value(.variable(elements.variable)))
            return .elements(
                PredicateElements(
                    collection: elements.collection, variable: elements.variable,
                    condition: PredicateTranslation.all([
                        elements.condition, try translation.condition(of: filter),
                    ])))
        default: throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateExpressions.SequenceContainsWhere: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.test(test, of: variable, in: sequence, byAll: false, self)
    }
}

extension PredicateExpressions.SequenceAllSatisfy: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.test(test, of: variable, in: sequence, byAll: true, self)
    }
}

extension PredicateTranslation {
    /// Whether one element of a collection satisfies a test, or, with `isByAll`, none fails it.
    fileprivate mutating func test<Element>(
        _ test: some PredicateExpression, of variable: PredicateExpressions.Variable<Element>,
        in sequence: some PredicateExpression, byAll isByAll: Bool, _ node: Any
    ) throws -> PredicateTerm {
        switch try term(of: sequence) {
        case .value(.constant): throw Self.unsupported(node)
        case .value(.collection(let elements)):
            let tests = try elements.map { element in
                bind(variable, to: .value(element))
                return try condition(of: test)
            }
            return .condition(isByAll ? Self.all(tests) : Self.any(tests))
        case .value(let collection):
            let name = bindElement(variable)
            let test = try condition(of: test)
            if isByAll, let every = Self.quantified(.all, collection, name, test) {
                return .condition(every)
            }
            return .truth(
                Self.existence(
                    of: collection, name, isByAll ? Self.not(test) : test, isFound: !isByAll))
        case .elements(let elements):
            bind(variable, to: .value(.variable(elements.variable)))
            let test = try condition(of: test)
            return .truth(
                Self.existence(
                    of: elements.collection, elements.variable,
                    Self.all([elements.condition, isByAll ? Self.not(test) : test]),
                    isFound: !isByAll))
        default: throw Self.unsupported(node)
        }
    }
}

extension PredicateTranslation {
    /// An EXISTS or NOT EXISTS condition on the elements of a to-many relationship.
    fileprivate static func existence(
        of collection: QueryExpression, _ variable: String, _ condition: QueryPredicate,
        isFound: Bool = true
    ) -> PredicateTruth {
        if isFound, let found = quantified(.any, collection, variable, condition) {
            return PredicateTruth(holds: found)
        }
        let count = QueryExpression.function(
            .count, [.subquery(collection, variable: variable, condition)])
        return PredicateTruth(
            holds: .comparison(
                QueryComparison(count, isFound ? .greater : .equal, .constant(.integer(0)))))
    }

    /// The condition on the elements of a to-many relationship with `ANY` or `ALL`, if it is a single comparison of an
    /// element with a constant.
    fileprivate static func quantified(
        _ modifier: QueryComparison.Modifier, _ collection: QueryExpression, _ variable: String,
        _ condition: QueryPredicate
    ) -> QueryPredicate? {
        guard case .comparison(var comparison) = condition,
            comparison.modifier == .direct || comparison.modifier == modifier,
            case .variable(let name) = comparison.left, comparison.right.isConstant,
            name == variable || name.hasPrefix(variable + ".")
        else { return nil }
        let keys = name.split(separator: ".").dropFirst().map(String.init)
        comparison.left = collection.appending(keys)
        comparison.modifier = modifier
        return .comparison(comparison)
    }
}

// MARK: - Minimum and maximum

extension PredicateExpressions.SequenceMinimum: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard let collection = try translation.term(of: elements).collection else {
            throw PredicateTranslation.unsupported(self)
        }
        return .value(.function(.minimum, [collection]))
    }
}

extension PredicateExpressions.SequenceMaximum: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard let collection = try translation.term(of: elements).collection else {
            throw PredicateTranslation.unsupported(self)
        }
        return .value(.function(.maximum, [collection]))
    }
}
