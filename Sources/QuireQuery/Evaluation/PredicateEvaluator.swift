import Foundation
package import QuireModel
internal import QuireSystem

/// Tests predicates on an object in memory.
package struct PredicateEvaluator {
    /// The object; `nil` for what is the same for every object.
    let subject: (any QuerySubject)?
    /// What the variables of the subqueries around stand for.
    var variables: [String: QueryValue] = [:]

    /// What an expression stands for.
    enum Operand {
        case one(QueryValue)
        /// A collection that is written out.
        case list([AttributeValue])
        /// What a key path through a to-many relationship leads to.
        case many([QueryValue])
    }

    package init(subject: (any QuerySubject)?) { self.subject = subject }

    // MARK: - Predicates

    package func holds(_ predicate: QueryPredicate) throws -> Bool {
        switch predicate {
        case .constant(let value): value
        case .comparison(let comparison): try holds(comparison)
        case .and(let parts): try parts.allSatisfy { try holds($0) }
        case .or(let parts): try parts.contains { try holds($0) }
        case .not(let inner): try !holds(inner)
        }
    }

    private func holds(_ comparison: QueryComparison) throws -> Bool {
        let left = try operand(comparison.left)
        let right = try operand(comparison.right)
        switch comparison.modifier {
        case .direct: return try holdsDirectly(comparison, left, right)
        case .any: return try elements(of: left).contains { try test(comparison, $0, right) }
        case .all: return try elements(of: left).allSatisfy { try test(comparison, $0, right) }
        }
    }

    /// What `ANY` and `ALL` range over.
    func elements(of operand: Operand) -> [AttributeValue] {
        switch operand {
        case .many(let values): values.map(\.attributeValue)
        case .list(let values): values
        case .one(let value):
            ValueOrder.isMissing(value.attributeValue) ? [] : [value.attributeValue]
        }
    }

    private func holdsDirectly(
        _ comparison: QueryComparison, _ left: Operand, _ right: Operand
    ) throws -> Bool {
        switch (left, comparison.operator, right) {
        case (.one(let value), .in, .many(let values)):
            return values.contains {
                isEqual($0.attributeValue, value.attributeValue, comparison.options)
            }
        case (.many(let values), .contains, .one(let value)):
            // Texts might be meant to contain it; of objects there is no doubt.
            guard values.allSatisfy(\.attributeValue.isObject) else { break }
            return values.contains { isEqual($0.attributeValue, value.attributeValue, []) }
        case (.list(let values), .contains, .one(let value)):
            return values.contains { isEqual($0, value.attributeValue, comparison.options) }
        case (.one(let value), _, _):
            return try test(comparison, value.attributeValue, right)
        case (.list, _, _):
            throw QuireError(
                .invalidQuery, "A collection can stand only on the right of IN and BETWEEN.")
        default: break
        }
        throw Self.needsModifier(comparison.left)
    }

    static func needsModifier(_ expression: QueryExpression) -> QuireError {
        QuireError(
            .invalidQuery,
            "“\(expression)” leads to any number of values; write ANY, ALL or NONE before it.")
    }

    // MARK: - Comparisons

    /// Compares one value on the left.
    private func test(
        _ comparison: QueryComparison, _ left: AttributeValue, _ right: Operand
    ) throws -> Bool {
        switch right {
        case .one(let right):
            return try test(left, comparison.operator, right.attributeValue, comparison.options)
        case .list(let values):
            switch comparison.operator {
            case .in: return values.contains { isEqual(left, $0, comparison.options) }
            case .between where values.count == 2:
                return try test(left, .greaterOrEqual, values[0], comparison.options)
                    && test(left, .lessOrEqual, values[1], comparison.options)
            default:
                throw QuireError(
                    .invalidQuery, "A collection can stand only on the right of IN and BETWEEN.")
            }
        case .many:
            throw Self.needsModifier(comparison.right)
        }
    }

    /// Compares one value with another.
    func test(
        _ left: AttributeValue, _ comparisonOperator: QueryComparison.Operator,
        _ right: AttributeValue, _ options: QueryComparison.Options
    ) throws -> Bool {
        switch comparisonOperator {
        case .equal: return isEqual(left, right, options)
        case .notEqual: return !isEqual(left, right, options)
        case .less: return order(left, right, options).map { $0 < 0 } ?? false
        case .lessOrEqual: return order(left, right, options).map { $0 <= 0 } ?? false
        case .greater: return order(left, right, options).map { $0 > 0 } ?? false
        case .greaterOrEqual: return order(left, right, options).map { $0 >= 0 } ?? false
        case .matchesText:
            guard let left = left.text, let right = right.text else { return false }
            return try TextFunctions.matchesText(query: right, text: left)
        case .beginsWith, .endsWith, .contains, .like, .matches:
            guard let left = left.text, let right = right.text else { return false }
            return try testText(left, comparisonOperator, right, options)
        case .in:
            guard let left = left.text, let right = right.text else { return false }
            return try testText(right, .contains, left, options)
        case .between: return false
        }
    }

    private func isEqual(
        _ left: AttributeValue, _ right: AttributeValue, _ options: QueryComparison.Options
    ) -> Bool {
        let leftIsMissing = ValueOrder.isMissing(left)
        if leftIsMissing || ValueOrder.isMissing(right) {
            return leftIsMissing && ValueOrder.isMissing(right)
        }
        if case .objectID(let left) = left, case .objectID(let right) = right {
            return left == right
        }
        return order(left, right, options) == 0
    }

    private func order(
        _ left: AttributeValue, _ right: AttributeValue, _ options: QueryComparison.Options
    ) -> Int? {
        if !options.isEmpty, let left = left.text, let right = right.text {
            return ValueOrder.compareBytes(
                TextFolding.fold(left, options), TextFolding.fold(right, options))
        }
        return ValueOrder.compare(left, right)
    }

    private func testText(
        _ left: String, _ comparisonOperator: QueryComparison.Operator, _ right: String,
        _ options: QueryComparison.Options
    ) throws -> Bool {
        switch comparisonOperator {
        case .like: return TextFunctions.like(right, left, options)
        case .matches: return try TextFunctions.matches(right, left, options)
        default:
            var text = TextFolding.fold(left, options)
            var part = TextFolding.fold(right, options)
            return text.withUTF8 { text in
                part.withUTF8 { part in
                    switch comparisonOperator {
                    case .beginsWith: text.starts(with: part)
                    case .endsWith: text.reversed().starts(with: part.reversed())
                    default: Self.contains(text, part)
                    }
                }
            }
        }
    }

    private static func contains(
        _ text: UnsafeBufferPointer<UInt8>, _ part: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let first = part.first else { return true }
        guard part.count <= text.count else { return false }
        for start in 0...(text.count - part.count)
        where text[start] == first && text[start..<(start + part.count)].elementsEqual(part) {
            return true
        }
        return false
    }
}

extension QueryValue {
    /// The value as it is compared: an object by its identifier.
    var attributeValue: AttributeValue {
        switch self {
        case .value(let value): value
        case .object(let object): .objectID(object.objectID)
        case .objects: .null
        }
    }
}

extension AttributeValue {
    /// The text, of texts and URIs.
    package var text: String? {
        switch self {
        case .string(let text): text
        case .uri(let uri): uri.absoluteString
        default: nil
        }
    }

    /// Whether it identifies an object.
    fileprivate var isObject: Bool {
        if case .objectID = self { true } else { false }
    }
}

extension QueryPredicate {
    /// Whether an object satisfies the condition: whether a fetch of objects of its entity would find it.
    ///
    /// Other than a fetch it may ask for transient attributes.
    ///
    /// - Complexity: Checking the predicate is done once for the objects of an entity, unless it asks for the time.
    /// - Throws: What a fetch throws: ``QuireError`` with code `invalidQuery` if the predicate makes no sense for the
    ///   object, `unknownKey` if it lacks a property, `unsupported`; `notFound` if the object belongs to no context any
    ///   more; or what reading the store throws.
    public func evaluate(with subject: some QuerySubject) throws -> Bool {
        try PredicateEvaluator(subject: subject).holds(
            ResolutionCache.predicate(self, for: subject))
    }
}
