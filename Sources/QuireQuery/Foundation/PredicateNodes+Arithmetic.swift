import Foundation
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
