import Foundation

extension PredicateExpressions.Conjunction: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let parts = [try translation.condition(of: lhs), try translation.condition(of: rhs)]
        return .truth(PredicateTruth(holds: PredicateTranslation.all(parts)))
    }
}

extension PredicateExpressions.Disjunction: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let parts = [try translation.condition(of: lhs), try translation.condition(of: rhs)]
        return .truth(PredicateTruth(holds: PredicateTranslation.any(parts)))
    }
}

extension PredicateExpressions.Negation: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let condition = try translation.condition(of: wrapped)
        return .truth(PredicateTruth(holds: PredicateTranslation.not(condition)))
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
    /// What is cast, if it is of the type already; what an object's class is, a query cannot ask.
    fileprivate mutating func cast<Input: PredicateExpression, Desired>(
        _ input: Input, to desired: Desired.Type, in node: some PredicateExpression
    ) throws -> PredicateTerm {
        guard Input.Output.self is Desired.Type else {
            throw Self.unsupported(
                node,
                "whether a \(Input.Output.self) is a \(Desired.self), only Foundation can find out")
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
        return .truth(PredicateTruth(holds: .constant(true)))
    }
}
