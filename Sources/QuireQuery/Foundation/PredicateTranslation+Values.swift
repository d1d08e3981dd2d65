import Foundation
internal import QuireModel

// Variables, key paths, and captured values.

extension PredicateExpressions.Variable: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        try translation.meaning(of: self)
    }
}

extension PredicateExpressions.NilLiteral: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        .value(.constant(.null))
    }
}

extension PredicateExpressions.Value: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        guard let term = translation.captured(value) else {
            throw PredicateTranslation.unsupported(
                self, "\(Output.self) is not an attribute type")
        }
        return term
    }
}

// MARK: - Key paths

extension PredicateExpressions.KeyPath: TranslatableNode {
    func term(in translation: inout PredicateTranslation) throws -> PredicateTerm {
        let root = try translation.term(of: root)
        if let kind { return try part(kind, of: root) }
        switch (root, keyPath as AnyKeyPath) {
        case (.value(let value), \String.utf16): return .units(value)
        case (.units(let value), \String.UTF16View.count):
            return .value(.function(.length, [value]))
        case (.value(let value), \Date.timeIntervalSinceReferenceDate):
            return .value(.cast(value, .number))
        case (.value(let value), _):
            guard let names = translation.vocabulary.names(keyPath) else { break }
            return .value(value.appending(names))
        default: break
        }
        throw PredicateTranslation.unsupported(
            keyPath.debugDescription,
            "it is not a property of \(Root.Output.self) that is marked @Attribute or @Relationship"
        )
    }

    /// The properties that Foundation has for every collection.
    private func part(
        _ kind: CommonKeyPathKind, of root: PredicateTerm
    ) throws -> PredicateTerm {
        if Root.Output.self is any StringProtocol.Type {
            guard case .value(let text) = root, case .collectionIsEmpty = kind else {
                throw PredicateTranslation.unsupported(
                    self, "stores count UTF-16 units, not characters; use utf16.count")
            }
            return .condition(
                try PredicateTranslation.compare(text, .equal, .constant(.string(""))))
        }
        guard let collection = root.collection else { throw PredicateTranslation.unsupported(self) }
        switch kind {
        case .collectionCount: return .value(.function(.count, [collection]))
        case .collectionIsEmpty:
            return .condition(
                try PredicateTranslation.compare(
                    .function(.count, [collection]), .equal, .constant(.integer(0))))
        case .collectionFirst: return .value(.function(.first, [collection]))
        case .bidirectionalCollectionLast: return .value(.function(.last, [collection]))
        @unknown default: throw PredicateTranslation.unsupported(self)
        }
    }
}

extension PredicateTerm {
    /// The collection as an expression, if it is supported.
    var collection: QueryExpression? {
        switch self {
        case .value(let value): value
        case .elements(let elements): elements.expression
        default: nil
        }
    }
}

extension QueryExpression {
    /// The expression extended by further keys.
    func appending(_ keys: [String]) -> QueryExpression {
        // In a query an object's identifier is equivalent to the object.
        let keys = keys.last == QueryKeyPath.objectKey ? keys.dropLast() : keys
        if keys.isEmpty { return self }
        return switch self {
        case .evaluatedObject: .keyPath(keys)
        case .keyPath(let beginning): .keyPath(beginning + keys)
        case .variable(let name): .variable(name + "." + keys.joined(separator: "."))
        case .path(let inner, let beginning): .path(inner, beginning + keys)
        default: .path(self, keys)
        }
    }
}

// MARK: - Captured values

extension PredicateTranslation {
    /// The term for a captured value; `nil` if attributes cannot have its type.
    func captured(_ value: Any) -> PredicateTerm? {
        if let optional = value as? any CapturedOptional {
            guard let wrapped = optional.captured else { return .value(.constant(.null)) }
            return captured(wrapped)
        }
        if let range = value as? any CapturedRange {
            let bounds = range.bounds
            let lower = bounds.lower.flatMap { constant($0) }
            let upper = bounds.upper.flatMap { constant($0) }
            guard (lower == nil) == (bounds.lower == nil), (upper == nil) == (bounds.upper == nil)
            else { return nil }
            return .range(lower: lower, upper: upper, includesUpper: bounds.includesUpper)
        }
        return constant(value).map { .value($0) }
    }

    private func constant(_ value: Any) -> QueryExpression? {
        if let value = vocabulary.value(value) { return .constant(value) }
        if let argument = value as? any QueryArgument { return argument.queryExpression }
        if let optional = value as? any CapturedOptional {
            return optional.captured.map { constant($0) } ?? .constant(.null)
        }
        if let raw = value as? any RawRepresentable { return constant(raw.rawValue) }
        guard let list = value as? any CapturedList else { return nil }
        var elements: [QueryExpression] = []
        for element in list.capturedElements {
            guard let constant = constant(element) else { return nil }
            elements.append(constant)
        }
        return .collection(elements)
    }
}

/// An optional value of any type.
protocol CapturedOptional {
    static var wrappedType: Any.Type { get }
    var captured: Any? { get }
}

extension Optional: CapturedOptional {
    static var wrappedType: Any.Type { Wrapped.self }
    var captured: Any? { self }
}

/// Several values of any type.
protocol CapturedList {
    var capturedElements: [Any] { get }
}

extension Array: CapturedList {
    var capturedElements: [Any] { map { $0 } }
}

extension Set: CapturedList {
    var capturedElements: [Any] { map { $0 } }
}

/// A range of values of any type.
private protocol CapturedRange {
    var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) { get }
}

extension Range: CapturedRange {
    fileprivate var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) {
        (lowerBound, upperBound, false)
    }
}

extension ClosedRange: CapturedRange {
    fileprivate var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) {
        (lowerBound, upperBound, true)
    }
}

extension PartialRangeFrom: CapturedRange {
    fileprivate var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) {
        (lowerBound, nil, false)
    }
}

extension PartialRangeUpTo: CapturedRange {
    fileprivate var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) {
        (nil, upperBound, false)
    }
}

extension PartialRangeThrough: CapturedRange {
    fileprivate var bounds: (lower: Any?, upper: Any?, includesUpper: Bool) {
        (nil, upperBound, true)
    }
}
