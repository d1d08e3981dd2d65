import Foundation
internal import QuireModel

// MARK: - Membership

extension PredicateExpressions.SequenceContains: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard !(LHS.Output.self is any StringProtocol.Type) else {
            throw PredicateTranslation.unsupported(self, "ask for a text, not for a character")
        }
        let element = try translation.value(of: element)
        switch try translation.term(of: sequence) {
        case .value(.constant): throw PredicateTranslation.unsupported(self)
        case .value(let collection):
            return .truth(
                PredicateTruth(
                    holds: try PredicateTranslation.compare(element, .in, collection)))
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
        switch try translation.term(of: sequence) {
        case .value(.constant): throw PredicateTranslation.unsupported(self)
        case .value(.collection(let elements)):
            let tests = try elements.map { element in
                translation.bind(variable, to: .value(element))
                return try translation.condition(of: test)
            }
            return .truth(PredicateTruth(holds: PredicateTranslation.any(tests)))
        case .value(let collection):
            let name = translation.bindElement(variable)
            return .truth(
                PredicateTranslation.existence(
                    of: collection, name, try translation.condition(of: test)))
        case .elements(let elements):
            translation.bind(variable, to: .value(.variable(elements.variable)))
            let test = try translation.condition(of: test)
            return .truth(
                PredicateTranslation.existence(
                    of: elements.collection, elements.variable,
                    PredicateTranslation.all([elements.condition, test])))
        default: throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateExpressions.SequenceAllSatisfy: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        switch try translation.term(of: sequence) {
        case .value(.constant): throw PredicateTranslation.unsupported(self)
        case .value(.collection(let elements)):
            let tests = try elements.map { element in
                translation.bind(variable, to: .value(element))
                return try translation.condition(of: test)
            }
            return .truth(PredicateTruth(holds: PredicateTranslation.all(tests)))
        case .value(let collection):
            let name = translation.bindElement(variable)
            let test = try translation.condition(of: test)
            if let every = PredicateTranslation.quantified(.all, collection, name, test) {
                return .truth(PredicateTruth(holds: every))
            }
            return .truth(
                PredicateTranslation.existence(
                    of: collection, name, PredicateTranslation.not(test), isFound: false))
        case .elements(let elements):
            translation.bind(variable, to: .value(.variable(elements.variable)))
            let test = try translation.condition(of: test)
            return .truth(
                PredicateTranslation.existence(
                    of: elements.collection, elements.variable,
                    PredicateTranslation.all([
                        elements.condition, PredicateTranslation.not(test),
                    ]), isFound: false))
        default: throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateTranslation {
    /// That there are elements of a to-many relationship for which a condition holds, or that there are none.
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

    /// A condition on the elements of a to-many relationship with `ANY` or `ALL`, if it is one comparison of an
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

// MARK: - Least and greatest

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
