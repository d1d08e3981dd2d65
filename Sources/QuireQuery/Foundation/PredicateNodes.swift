import Foundation
internal import QuireModel

extension PredicateExpressions.Conjunction: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let parts = [try translation.condition(of: lhs), try translation.condition(of: rhs)]
        return .condition(PredicateTranslation.all(parts))
    }
}

extension PredicateExpressions.Disjunction: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let parts = [try translation.condition(of: lhs), try translation.condition(of: rhs)]
        return .condition(PredicateTranslation.any(parts))
    }
}

extension PredicateExpressions.Negation: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let condition = try translation.condition(of: wrapped)
        return .condition(PredicateTranslation.not(condition))
    }
}

extension PredicateExpressions.Conditional: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let test = try translation.condition(of: test)
        guard Output.self == Bool.self || Output.self == Bool?.self else {
            return .value(
                .conditional(
                    test, try translation.value(of: trueBranch),
                    try translation.value(of: falseBranch)))
        }
        let first = try translation.truth(of: trueBranch)
        let second = try translation.truth(of: falseBranch)
        func either(_ first: QueryPredicate, _ second: QueryPredicate) -> QueryPredicate {
            if first == second { return first }
            return PredicateTranslation.any([
                PredicateTranslation.all([test, first]),
                PredicateTranslation.all([PredicateTranslation.not(test), second]),
            ])
        }
        return .truth(
            PredicateTruth(
                exists: either(first.exists, second.exists),
                holds: either(first.holds, second.holds)))
    }
}

// MARK: - Types

extension PredicateTranslation {
    /// The operand of a cast, if it already has the type; queries cannot test an object's class.
    fileprivate mutating func cast<Input: PredicateExpression, Desired>(
        _ input: Input, to desired: Desired.Type, in node: some PredicateExpression
    ) throws -> PredicateTerm {
        guard Input.Output.self is Desired.Type else {
            throw Self.unsupported(
                node,
                "only Foundation can test whether a \(Input.Output.self) is a \(Desired.self)")
        }
        return try term(of: input)
    }
}

extension PredicateExpressions.ForceCast: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.cast(input, to: Desired.self, in: self)
    }
}

extension PredicateExpressions.ConditionalCast: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.cast(input, to: Desired.self, in: self)
    }
}

extension PredicateExpressions.TypeCheck: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        _ = try translation.cast(input, to: Desired.self, in: self)
        return .condition(.constant(true))
    }
}

// MARK: - Comparisons

// MARK: - Equality

extension PredicateExpressions.Equal: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .condition(try translation.equality(of: lhs, and: rhs, in: self))
    }
}

extension PredicateExpressions.NotEqual: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let equality = try translation.equality(of: lhs, and: rhs, in: self)
        return .condition(PredicateTranslation.not(equality))
    }
}

extension PredicateTranslation {
    /// Equality of two nodes.
    fileprivate mutating func equality<Left: PredicateExpression, Right: PredicateExpression>(
        of left: Left, and right: Right, in node: some PredicateExpression
    ) throws -> QueryPredicate where Left.Output == Right.Output {
        guard !Self.isList(Left.Output.self) else {
            throw Self.unsupported(node, "collections cannot be compared as a whole")
        }
        switch (try term(of: left), try term(of: right)) {
        case (.value(let left), .value(let right)):
            return try Self.compare(left, .equal, right)
        case (.truth(let left), .truth(let right)):
            return try Self.equality(of: left, and: right)
        case (.truth(let truth), .value(let value)), (.value(let value), .truth(let truth)):
            return try Self.equality(of: truth, and: value)
        case (.order(let left, let right, let options), .value(.constant(.integer(let order)))),
            (.value(.constant(.integer(let order))), .order(let left, let right, let options)):
            let sign: QueryComparison.Operator =
                order < 0 ? .less : order == 0 ? .equal : .greater
            return try Self.compare(left, sign, right, options)
        default:
            throw Self.unsupported(node)
        }
    }

    private static func equality(
        of left: PredicateTruth, and right: PredicateTruth
    ) throws -> QueryPredicate {
        guard left.exists == .constant(true), right.exists == .constant(true) else {
            return try compare(value(of: left), .equal, value(of: right))
        }
        return any([all([left.holds, right.holds]), all([not(left.holds), not(right.holds)])])
    }

    private static func equality(
        of truth: PredicateTruth, and value: QueryExpression
    ) throws -> QueryPredicate {
        switch value {
        case .constant(.boolean(true)): demanding(truth.exists, for: truth.holds)
        case .constant(.boolean(false)): demanding(truth.exists, for: not(truth.holds))
        case .constant(.null): not(truth.exists)
        default: try compare(Self.value(of: truth), .equal, value)
        }
    }

    /// Whether a type translates to a collection.
    private static func isList(_ type: Any.Type) -> Bool {
        if let optional = type as? any CapturedOptional.Type { return isList(optional.wrappedType) }
        return type is any CapturedList.Type
    }
}

// MARK: - Order

extension PredicateExpressions.Comparison: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let sign: QueryComparison.Operator =
            switch op {
            case .lessThan: .less
            case .lessThanOrEqual: .lessOrEqual
            case .greaterThan: .greater
            case .greaterThanOrEqual: .greaterOrEqual
            @unknown default: throw PredicateTranslation.unsupported(self)
            }
        let left = try translation.value(of: lhs)
        let right = try translation.value(of: rhs)
        return .condition(try PredicateTranslation.compare(left, sign, right))
    }
}

// MARK: - Ranges

extension PredicateExpressions.Range: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .range(
            lower: try translation.value(of: lower), upper: try translation.value(of: upper),
            includesUpper: false)
    }
}

extension PredicateExpressions.ClosedRange: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .range(
            lower: try translation.value(of: lower), upper: try translation.value(of: upper),
            includesUpper: true)
    }
}

extension PredicateExpressions.RangeExpressionContains: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard case .range(let lower, let upper, let includesUpper) = try translation.term(of: range)
        else { throw PredicateTranslation.unsupported(self) }
        let element = try translation.value(of: element)
        if let lower, let upper, includesUpper {
            return .condition(
                try PredicateTranslation.compare(
                    element, .between, .collection([lower, upper])))
        }
        return .condition(
            PredicateTranslation.all([
                try lower.map {
                    try PredicateTranslation.compare(element, .greaterOrEqual, $0)
                } ?? .constant(true),
                try upper.map {
                    try PredicateTranslation.compare(
                        element, includesUpper ? .lessOrEqual : .less, $0)
                } ?? .constant(true),
            ]))
    }
}

// MARK: - Optionals

extension PredicateExpressions.OptionalFlatMap: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let term = try translation.term(of: wrapped)
        let exists: QueryPredicate
        let value: QueryExpression?
        switch term {
        case .value(let wrapped):
            (exists, value) = (PredicateTranslation.present(wrapped), wrapped)
            translation.bind(variable, to: term)
        case .truth(let truth):
            (exists, value) = (truth.exists, nil)
            translation.bind(variable, to: .condition(truth.holds))
        default:
            throw PredicateTranslation.unsupported(self)
        }
        switch try translation.term(of: transform) {
        case .truth(let truth):
            return .truth(
                PredicateTruth(
                    exists: PredicateTranslation.demanding(exists, for: truth.exists),
                    holds: truth.holds))
        case .value(let transformed):
            if let value, PredicateTranslation.isMissing(transformed, withoutValueOf: value) {
                return .value(transformed)
            }
            if exists == .constant(true) { return .value(transformed) }
            return .value(.conditional(exists, transformed, .constant(.null)))
        case .order(let left, let right, let options):
            // A comparison with a missing text has no order.
            return .order(left, right, options)
        case .elements, .range, .units:
            throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateExpressions.NilCoalesce: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        switch try translation.term(of: lhs) {
        case .value(let value):
            let replacement = try translation.value(of: rhs)
            return .value(PredicateTranslation.value(value, orElse: replacement))
        case .truth(let truth):
            let replacement = try translation.truth(of: rhs)
            let isMissing = PredicateTranslation.not(truth.exists)
            return .truth(
                PredicateTruth(
                    exists: PredicateTranslation.any([truth.exists, replacement.exists]),
                    holds: PredicateTranslation.any([
                        PredicateTranslation.demanding(truth.exists, for: truth.holds),
                        PredicateTranslation.all([isMissing, replacement.holds]),
                    ])))
        default:
            throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateTranslation {
    /// A value, or a default if it is missing.
    fileprivate static func value(
        _ value: QueryExpression, orElse replacement: QueryExpression
    ) -> QueryExpression {
        if case .conditional(let test, let inner, .constant(.null)) = value {
            return .conditional(test, Self.value(inner, orElse: replacement), replacement)
        }
        let exists = present(value)
        return exists == .constant(true) ? value : .conditional(exists, value, replacement)
    }
}

extension PredicateExpressions.ForcedUnwrap: TranslatableNode {
    // Foundation fails on a missing value; a query keeps it as missing.
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let term = try translation.term(of: inner)
        guard case .truth(let truth) = term else { return term }
        return .condition(PredicateTranslation.demanding(truth.exists, for: truth.holds))
    }
}
