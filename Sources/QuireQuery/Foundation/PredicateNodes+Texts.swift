import Foundation
internal import QuireModel

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
        return .truth(
            PredicateTruth(holds: try Self.compare(left, comparisonOperator, right, options)))
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
        // MATCHES takes the text as a whole.
        let pattern = "(?s:.*)(?:\(regex.value.stringRepresentation))(?s:.*)"
        return .truth(
            PredicateTruth(
                holds: try PredicateTranslation.compare(
                    text, .matches, .constant(.string(pattern)))))
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
