import Foundation
internal import QuireModel

// MARK: - Equality

extension PredicateExpressions.Equal: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .truth(PredicateTruth(holds: try translation.equality(of: lhs, and: rhs, in: self)))
    }
}

extension PredicateExpressions.NotEqual: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let equality = try translation.equality(of: lhs, and: rhs, in: self)
        return .truth(PredicateTruth(holds: PredicateTranslation.not(equality)))
    }
}

extension PredicateTranslation {
    /// That two nodes give the same.
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

    /// Whether the values of a type are collections to us.
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
        return .truth(PredicateTruth(holds: try PredicateTranslation.compare(left, sign, right)))
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
            return .truth(
                PredicateTruth(
                    holds: try PredicateTranslation.compare(
                        element, .between, .collection([lower, upper]))))
        }
        return .truth(
            PredicateTruth(
                holds: PredicateTranslation.all([
                    try lower.map {
                        try PredicateTranslation.compare(element, .greaterOrEqual, $0)
                    } ?? .constant(true),
                    try upper.map {
                        try PredicateTranslation.compare(
                            element, includesUpper ? .lessOrEqual : .less, $0)
                    } ?? .constant(true),
                ])))
    }
}
