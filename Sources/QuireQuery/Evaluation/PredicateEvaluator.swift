import Foundation
package import QuireModel
internal import QuireSystem

/// Evaluates predicates on an object in memory.
package struct PredicateEvaluator {
    /// The object; `nil` for expressions that are the same for every object.
    let subject: (any QuerySubject)?
    /// The bindings of enclosing subquery variables.
    var variables: [String: QueryValue] = [:]

    /// The value of an expression.
    package enum Operand {
        case one(QueryValue)
        /// A literal collection.
        case list([AttributeValue])
        /// The values at a key path through a to-many relationship.
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
        if comparison.hasSortedConstants, case .collection(let constants) = comparison.right {
            let options = comparison.options
            switch (comparison.modifier, left) {
            case (.direct, .one(let value)):
                return isAmong(constants, value.attributeValue, options)
            case (.any, _): return elements(of: left).contains { isAmong(constants, $0, options) }
            case (.all, _): return elements(of: left).allSatisfy { isAmong(constants, $0, options) }
            case (.direct, _): break
            }
        }
        let right = try operand(comparison.right)
        switch comparison.modifier {
        case .direct: return try holdsDirectly(comparison, left, right)
        case .any: return try elements(of: left).contains { try test(comparison, $0, right) }
        case .all: return try elements(of: left).allSatisfy { try test(comparison, $0, right) }
        }
    }

    /// Whether a value is among sorted constants.
    private func isAmong(
        _ constants: [QueryExpression], _ value: AttributeValue, _ options: QueryComparison.Options
    ) -> Bool {
        var (start, end) = (0, constants.count)
        while start < end {
            let middle = (start + end) / 2
            guard case .constant(let constant) = constants[middle],
                let order = order(value, constant, options)
            else { return false }
            if order == 0 { return true }
            if order < 0 { end = middle } else { start = middle + 1 }
        }
        return false
    }

    /// The values that `ANY` and `ALL` quantify over.
    func elements(of operand: Operand) -> [AttributeValue] {
        if case .list(let values) = operand { return values }
        return members(of: operand).map(\.attributeValue)
    }

    /// The elements, with objects as such.
    private func members(of operand: Operand) -> [QueryValue] {
        switch operand {
        case .many(let values): values
        case .list(let values): values.map { .value($0) }
        case .one(let value): ValueOrder.isMissing(value.attributeValue) ? [] : [value]
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
            // CONTAINS of texts might mean a substring; of objects it is unambiguous.
            guard values.allSatisfy(\.attributeValue.isObject) else { break }
            return values.contains { isEqual($0.attributeValue, value.attributeValue, []) }
        case (.list(let values), .contains, .one(let value)):
            return values.contains { isEqual($0, value.attributeValue, comparison.options) }
        case (.one(let value), _, _):
            return try test(comparison, value.attributeValue, right)
        case (.list, _, _):
            throw QuireError(
                .invalidQuery, "A collection is allowed only on the right of IN and BETWEEN.")
        default: break
        }
        throw Self.needsModifier(comparison.left)
    }

    static func needsModifier(_ expression: QueryExpression) -> QuireError {
        QuireError(
            .invalidQuery,
            "“\(expression)” can have several values; write ANY, ALL or NONE before it.")
    }

    // MARK: - Comparisons

    /// Compares a single value on the left.
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
                    .invalidQuery, "A collection is allowed only on the right of IN and BETWEEN.")
            }
        case .many:
            throw Self.needsModifier(comparison.right)
        }
    }

    /// Compares two values.
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
    /// The value for comparison: an object's identifier.
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
    /// Whether a subject satisfies the condition, as a fetch of its entity would; see `evaluate(with:)` of objects.
    package func isSatisfied(by subject: some QuerySubject) throws -> Bool {
        try PredicateEvaluator(subject: subject).holds(
            ResolutionCache.predicate(self, for: subject))
    }
}

// MARK: - Expressions

extension QueryExpression {
    /// The expression's value for an object, or its values.
    ///
    /// - Throws: As ``QueryPredicate/evaluate(with:)``.
    package func operand(for subject: some QuerySubject) throws -> PredicateEvaluator.Operand {
        try PredicateEvaluator(subject: subject).operand(
            ResolutionCache.expression(self, for: subject))
    }
}

extension PredicateEvaluator {
    /// The single value of an expression.
    package func value(of expression: QueryExpression) throws -> AttributeValue {
        try single(expression).attributeValue
    }

    /// The values of a multi-valued expression.
    func values(of expression: QueryExpression) throws -> [AttributeValue] {
        elements(of: try operand(expression))
    }

    private func single(_ expression: QueryExpression) throws -> QueryValue {
        guard case .one(let value) = try operand(expression) else {
            throw QuireError(.invalidQuery, "“\(expression)” can have several values.")
        }
        return value
    }

    func operand(_ expression: QueryExpression) throws -> Operand {
        switch expression {
        case .constant(let value): return .one(.value(value))
        case .evaluatedObject: return .one(subject.map { .object($0) } ?? .value(.null))
        case .keyPath(let keys):
            guard let subject else { return .one(.value(.null)) }
            if keys.count > 1 {
                return try values(at: keys, of: [.object(subject)], isMany: false)
            }
            // Fast path for the common case, without a list.
            let found = try keys.first.map {
                try value(at: $0, of: .object(subject), isLast: true)
            }
            guard case .objects(let objects)? = found else {
                return .one(found ?? .object(subject))
            }
            return .many(objects.map { .object($0) })
        case .variable(let name): return try variable(name)
        case .collection(let elements):
            return .list(try elements.map { try value(of: $0) })
        case .function(let function, let arguments): return try operand(function, arguments)
        case .cast(let inner, let type): return .one(.value(cast(try value(of: inner), type)))
        case .subquery(let collection, let variable, let condition):
            return .many(try elements(of: collection, named: variable, satisfying: condition))
        case .conditional(let condition, let first, let second):
            return try operand(holds(condition) ? first : second)
        case .path(let inner, let keys):
            switch try operand(inner) {
            case .one(let value): return try values(at: keys, of: [value], isMany: false)
            case .many(let values): return try self.values(at: keys, of: values, isMany: true)
            case .list(let values):
                return try self.values(at: keys, of: values.map { .value($0) }, isMany: true)
            }
        }
    }

    private func variable(_ name: String) throws -> Operand {
        let keys = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard let value = variables[keys[0]] else {
            throw QuireError(.invalidQuery, "The variable $\(name) has no value.")
        }
        if keys.count == 1 { return .one(value) }
        return try values(at: Array(keys.dropFirst()), of: [value], isMany: false)
    }

    private func elements(
        of collection: QueryExpression, named variable: String,
        satisfying condition: QueryPredicate
    ) throws -> [QueryValue] {
        guard case .many(let values) = try operand(collection) else { return [] }
        var inner = self
        return try values.filter { value in
            inner.variables[variable] = value
            return try inner.holds(condition)
        }
    }

    private func cast(_ value: AttributeValue, _ type: QueryCast) -> AttributeValue {
        ValueOrder.isMissing(value) ? .null : type.value(of: value) ?? .null
    }

    // MARK: - Functions

    private func operand(
        _ function: QueryFunction, _ arguments: [QueryExpression]
    ) throws -> Operand {
        guard arguments.count == function.argumentCount else {
            throw QuireError(
                .invalidQuery,
                "\(function.rawValue) requires \(function.argumentCount) arguments, not \(arguments.count)."
            )
        }
        switch function {
        case .count, .sum, .average, .minimum, .maximum, .median, .mode, .standardDeviation:
            let values = try values(of: arguments[0])
            return .one(.value(AggregateFunctions.value(of: function, values)))
        case .distinct: return distinct(try members(of: operand(arguments[0])))
        case .union:
            return distinct(try arguments.flatMap { try members(of: operand($0)) })
        case .intersection, .difference:
            let others = try values(of: arguments[1])
            return .many(
                try members(of: operand(arguments[0])).filter { value in
                    others.contains { AggregateFunctions.isSame($0, value.attributeValue) }
                        == (function == .intersection)
                })
        case .element:
            guard case .integer(let index) = try value(of: arguments[1]).stored else {
                return .one(.value(.null))
            }
            return .one(try element(of: arguments[0]) { Int(exactly: index) ?? $0 })
        case .first: return .one(try element(of: arguments[0]) { _ in 0 })
        case .last: return .one(try element(of: arguments[0]) { $0 - 1 })
        case .noIndex: return try operand(arguments[0])
        default:
            let values = try arguments.map { try value(of: $0) }
            return .one(.value(ValueFunctions.value(of: function, values)))
        }
    }

    private func distinct(_ values: [QueryValue]) -> Operand {
        var objects: [ManagedObjectID: any QuerySubject] = [:]
        for case .object(let object) in values { objects[object.objectID] = object }
        return .many(
            AggregateFunctions.distinct(values.map(\.attributeValue)).map { value in
                if case .objectID(let id) = value, let object = objects[id] {
                    return .object(object)
                }
                return .value(value)
            })
    }

    /// The value at an index of a collection, which may depend on its count; missing if out of bounds.
    private func element(
        of expression: QueryExpression, at position: (_ count: Int) -> Int
    ) throws -> QueryValue {
        let values: [QueryValue] =
            switch try operand(expression) {
            case .many(let values): values
            case .list(let values): values.map { .value($0) }
            case .one(let value): [value]
            }
        let position = position(values.count)
        return values.indices.contains(position) ? values[position] : .value(.null)
    }

    // MARK: - Key paths

    /// The values at a key path of other values. A missing object on the way makes the value at the end missing, but
    /// contributes nothing to a subsequent to-many relationship.
    private func values(
        at keys: [String], of start: [QueryValue], isMany: Bool
    ) throws -> Operand {
        var current = start
        var isMany = isMany
        for (index, key) in keys.enumerated() {
            let isLast = index == keys.count - 1
            var next: [QueryValue] = []
            for value in current {
                switch value {
                // A reference without an object leads nowhere.
                case .value(.null), .value(.objectID):
                    if try leadsToMany(keys, step: index, from: start) {
                        isMany = true
                    } else {
                        next.append(.value(.null))
                    }
                default:
                    let found = try self.value(at: key, of: value, isLast: isLast)
                    if case .objects(let objects) = found {
                        isMany = true
                        next += objects.map { .object($0) }
                    } else {
                        next.append(found)
                    }
                }
            }
            current = next
        }
        return isMany ? .many(current) : .one(current.first ?? .value(.null))
    }

    /// Whether a step of a key path is a to-many relationship, without an object to test.
    private func leadsToMany(
        _ keys: [String], step: Int, from start: [QueryValue]
    ) throws -> Bool {
        for case .object(let subject) in start {
            let steps = try QueryKeyPath(
                keys, from: subject.resolvedEntity, in: subject.queryLayout
            ).steps
            return step < steps.count && steps[step].isToMany
        }
        return false
    }

    private func value(
        at key: String, of value: QueryValue, isLast: Bool
    ) throws -> QueryValue {
        switch value {
        case .object(let object):
            if isLast, key == QueryKeyPath.objectKey { return value }
            if key == QueryKeyPath.entityKey, object.resolvedEntity.properties[key] == nil {
                let name = AttributeValue.string(object.resolvedEntity.name)
                return .value(isLast ? name : .composite([QueryKeyPath.nameKey: name]))
            }
            return try object.queryValue(forKey: key)
        case .value(.composite(let elements)):
            return .value(elements[key] ?? .null)
        case .value(let value) where key == "length" && value.text != nil:
            return .value(ValueFunctions.value(of: .length, [value]))
        case .value, .objects:
            throw QuireError(
                .unknownKey, "“\(key)” cannot follow an attribute in a key path.",
                subject: .init(property: key))
        }
    }
}
