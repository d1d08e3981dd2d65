import Foundation
internal import QuireModel

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
            translation.bind(variable, to: .truth(PredicateTruth(holds: truth.holds)))
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
            // No comparison with a missing text says how it stands.
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
    /// A value, or another one if it is missing.
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
    // Foundation fails where there is no value; a query takes it for what it is, missing.
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let term = try translation.term(of: inner)
        guard case .truth(let truth) = term else { return term }
        return .truth(
            PredicateTruth(holds: PredicateTranslation.demanding(truth.exists, for: truth.holds)))
    }
}
