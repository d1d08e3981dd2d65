import Foundation

/// Tests predicates on an object in memory.
struct PredicateEvaluator {
    /// The object; `nil` for what is the same for every object.
    let subject: (any QuerySubject)?

    /// What an expression stands for.
    private enum Operand {
        case one(AttributeValue)
        /// A collection that is written out.
        case list([AttributeValue])
        /// What a key path through a to-many relationship leads to.
        case many([AttributeValue])
    }

    // MARK: - Predicates

    func holds(_ predicate: QueryPredicate) throws -> Bool {
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
    private func elements(of operand: Operand) -> [AttributeValue] {
        switch operand {
        case .many(let values), .list(let values): values
        case .one(let value): ValueOrder.isMissing(value) ? [] : [value]
        }
    }

    private func holdsDirectly(
        _ comparison: QueryComparison, _ left: Operand, _ right: Operand
    ) throws -> Bool {
        switch (left, comparison.operator, right) {
        case (.one(let value), .in, .many(let values)):
            return values.contains { isEqual($0, value, comparison.options) }
        case (.many(let values), .contains, .one(.objectID(let id))):
            return values.contains { isEqual($0, .objectID(id), []) }
        case (.many(let values), .contains, .one(.null)) where values.allSatisfy(\.isObject):
            return false
        case (.many, _, _):
            throw Self.needsModifier(comparison.left)
        case (.one(let value), _, _):
            return try test(comparison, value, right)
        case (.list, _, _):
            throw QuireError(
                .invalidQuery, "A collection can stand only on the right of IN and BETWEEN.")
        }
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
            return try test(left, comparison.operator, right, comparison.options)
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

    private func test(
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
        case .beginsWith, .endsWith, .contains, .like, .matches:
            guard let left = left.text, let right = right.text else { return false }
            return try testText(left, comparisonOperator, right, options)
        case .in:
            guard let left = left.text, let right = right.text else { return false }
            return try testText(right, .contains, left, options)
        case .between, .matchesText: return false
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

    // MARK: - Expressions

    /// The single value of an expression.
    func value(of expression: QueryExpression) throws -> AttributeValue {
        guard case .one(let value) = try operand(expression) else {
            throw QuireError(.invalidQuery, "“\(expression)” leads to any number of values.")
        }
        return value
    }

    private func operand(_ expression: QueryExpression) throws -> Operand {
        switch expression {
        case .constant(let value): return .one(value)
        case .evaluatedObject: return .one(subject.map { .objectID($0.objectID) } ?? .null)
        case .keyPath(let keys): return try values(at: keys)
        case .variable(let name):
            throw QuireError(.invalidQuery, "No value is given for the variable $\(name).")
        case .collection(let elements):
            return .list(
                try elements.map { element in
                    guard case .one(let value) = try operand(element) else {
                        throw QuireError(
                            .invalidQuery, "“\(element)” is no single value of a collection.")
                    }
                    return value
                })
        case .function, .cast, .subquery, .conditional, .path:
            throw QuireError(.unsupported, "Functions are not supported.")
        }
    }

    /// The values at a key path. One that is missing on the way makes the value at the end missing, but adds
    /// nothing to what a to-many relationship behind it leads to.
    private func values(at keys: [String]) throws -> Operand {
        var current = subject.map { [QueryValue.object($0)] } ?? []
        var isToMany = false
        for (index, key) in keys.enumerated() {
            var next: [QueryValue] = []
            for value in current {
                switch value {
                case .value(.null) where try leadsToMany(keys, step: index):
                    isToMany = true
                case .value(.null):
                    next.append(value)
                default:
                    let isLast = index == keys.count - 1
                    let found = try self.value(at: key, of: value, isLast: isLast)
                    if case .objects(let objects) = found {
                        isToMany = true
                        next += objects.map { .object($0) }
                    } else {
                        next.append(found)
                    }
                }
            }
            current = next
        }
        let values = current.map(\.attributeValue)
        return isToMany ? .many(values) : .one(values.first ?? .null)
    }

    /// Whether a step of a key path is a to-many relationship, where there is no object to ask for it.
    private func leadsToMany(_ keys: [String], step: Int) throws -> Bool {
        guard let subject else { return false }
        let steps = try QueryKeyPath(keys, from: subject.entity, in: subject.queryLayout).steps
        return step < steps.count && steps[step].isToMany
    }

    private func value(
        at key: String, of value: QueryValue, isLast: Bool
    ) throws -> QueryValue {
        switch value {
        case .object(let object):
            if isLast, key == QueryKeyPath.objectKey { return .value(.objectID(object.objectID)) }
            return try object.queryValue(forKey: key)
        case .value(.composite(let elements)):
            return .value(elements[key] ?? .null)
        case .value, .objects:
            throw QuireError(
                .unknownKey, "“\(key)” cannot follow an attribute in a key path.",
                subject: .init(property: key))
        }
    }
}

extension QueryValue {
    /// The value as it is compared: an object by its identifier.
    fileprivate var attributeValue: AttributeValue {
        switch self {
        case .value(let value): value
        case .object(let object): .objectID(object.objectID)
        case .objects: .null
        }
    }
}

extension AttributeValue {
    /// The text, of texts and URIs.
    var text: String? {
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
    /// Whether an object satisfies the condition.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the predicate makes no sense for the object, or
    ///   `unknownKey` if it lacks a property.
    public func evaluate(with subject: some QuerySubject) throws -> Bool {
        try PredicateEvaluator(subject: subject).holds(self)
    }
}
