import Foundation
internal import QuireModel
internal import QuireSystem

extension PredicateResolver {
    // MARK: - Sides

    /// Checks an expression and normalizes it.
    mutating func side(_ expression: QueryExpression) throws -> Side {
        switch expression {
        case .constant(.objectID(let id)) where id.isTemporaryID:
            namesTemporaryIDs = true
            return .constant(.objectID(id.current))
        case .constant(let value):
            return .constant(ValueOrder.isMissing(value) ? .null : try value.loaded())
        case .evaluatedObject:
            return .path(QueryKeyPath(of: entity))
        case .keyPath(let keys):
            if let length = try lengthOfText(at: keys) { return length }
            return .path(try keyPath(keys))
        case .variable(let name): return try variable(name)
        case .collection(let elements):
            return .collection(try elements.map { try side($0) })
        case .function(let function, let arguments):
            return try self.function(function, arguments, as: expression)
        case .cast(let inner, let type): return try cast(inner, type, as: expression)
        case .subquery(let collection, let variable, let condition):
            return try subquery(collection, variable, condition)
        case .conditional(let condition, let first, let second):
            return try conditional(condition, first, second, as: expression)
        case .path(let inner, let keys):
            guard case .value(let inner, let type) = try side(inner) else {
                throw invalid(expression, "“\(inner)” is not an object")
            }
            return try following(keys, from: inner, type)
        }
    }

    /// `name.length`, as on Foundation's strings, is `length(name)`.
    private mutating func lengthOfText(at keys: [String]) throws -> Side? {
        guard keys.count > 1, keys.last == "length",
            let text = try? QueryKeyPath(Array(keys.dropLast()), from: entity, in: layout),
            text.kind == .text
        else { return nil }
        let expression = QueryExpression.function(.length, [.keyPath(Array(keys.dropLast()))])
        return try side(expression)
    }

    private mutating func variable(_ name: String) throws -> Side {
        let keys = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard let origin = variables[keys[0]] else {
            throw QuireError(.invalidQuery, "The variable $\(name) has no value.")
        }
        let element = ExpressionType(at: origin, isMany: false)
        return try following(Array(keys.dropFirst()), from: .variable(keys[0]), element)
    }

    /// The values at a key path of an expression's objects.
    private mutating func following(
        _ keys: [String], from inner: QueryExpression, _ type: ExpressionType
    ) throws -> Side {
        guard !keys.isEmpty else { return .value(inner, type) }
        guard let origin = type.origin, type.kind == .object else {
            throw invalid(
                .path(inner, keys), "“\(inner)” is not an object, so “\(keys[0])” cannot follow it")
        }
        let path = try keyPath(origin.keys + keys)
        let rest = Array(path.keys.dropFirst(origin.keys.count))
        let steps = path.steps.dropFirst(origin.steps.count)
        let result = ExpressionType(
            at: path, isMany: type.isMany || steps.contains(where: \.isToMany))
        if rest.isEmpty { return .value(inner, result) }
        switch inner {
        case .keyPath, .evaluatedObject: return .path(path)
        case .path(let start, let first): return .value(.path(start, first + rest), result)
        default: return .value(.path(inner, rest), result)
        }
    }

    // MARK: - Functions

    private mutating func function(
        _ function: QueryFunction, _ arguments: [QueryExpression], as expression: QueryExpression
    ) throws -> Side {
        guard arguments.count == function.argumentCount else {
            throw invalid(
                expression,
                "\(function.rawValue) requires \(function.argumentCount) arguments, not \(arguments.count)"
            )
        }
        if function == .now {
            dependsOnTime = true
            return .constant(.date(now))
        }
        if let distinct = try distinctOfGroup(function, arguments) { return distinct }
        let sides = try arguments.map { try side($0) }
        for side in sides {
            if let type = side.type, type.isExternalCapable, let path = type.origin {
                throw unsupportedExternal(path)
            }
        }
        let kinds = sides.map { kind(of: $0) }
        guard function.takes(kinds) else {
            let found = kinds.compactMap { $0?.noun }.joined(separator: " and ")
            throw invalid(expression, "it cannot be computed from \(found)")
        }
        let resolved = QueryExpression.function(function, sides.map(\.expression))
        var type = ExpressionType(function.kind(of: kinds))
        switch function {
        case _ where function.isAggregate:
            type.isGrouped = try checkAggregate(expression, sides[0])
            if type.isGrouped { groupAggregates.insert(resolved) }
            if [.minimum, .maximum, .mode].contains(function) {
                type.origin = sides[0].type?.origin
            }
        case .distinct where allowsGrouping && !sides[0].isSeveral:
            // An aggregate of a group's objects, as in count(distinct(year)).
            type.origin = sides[0].type?.origin
        case .distinct, .union, .intersection, .difference:
            for side in sides where !side.isSeveral {
                throw invalid(expression, "“\(side.expression)” is a single value")
            }
            type.isMany = true
            type.origin = sides[0].type?.origin
            if sides.allSatisfy(\.expression.isConstant) {
                let values = try PredicateEvaluator(subject: nil).values(of: resolved)
                return .collection(values.map { .constant($0) })
            }
        case .element, .first, .last:
            guard sides[0].isSeveral else {
                throw invalid(expression, "“\(sides[0].expression)” is a single value")
            }
            type.origin = sides[0].type?.origin
        default:
            for side in sides where side.isSeveral {
                throw invalid(
                    expression, "“\(side.expression)” can have several values")
            }
            type.isGrouped = sides.contains { $0.type?.isGrouped ?? false }
            if function == .noIndex { type.origin = sides[0].type?.origin }
        }
        let isRandomNumber = function == .random || function == .randomBelow
        if isRandomNumber { isRandom = true }
        guard !isRandomNumber, sides.allSatisfy(\.expression.isConstant) else {
            return .value(resolved, type)
        }
        return .constant(try PredicateEvaluator(subject: nil).value(of: resolved))
    }

    /// The aggregate form of `count(distinct(name))` in a group; `nil` for other expressions.
    private mutating func distinctOfGroup(
        _ function: QueryFunction, _ arguments: [QueryExpression]
    ) throws -> Side? {
        guard allowsGrouping, function.isAggregate,
            case .function(.distinct, let inner)? = arguments.first, inner.count == 1
        else { return nil }
        let single = try side(inner[0])
        if single.isSeveral { return nil }
        let known = groupAggregates
        guard let type = try side(.function(function, inner)).type else { return nil }
        groupAggregates = known
        let resolved = QueryExpression.function(
            function, [.function(.distinct, [single.expression])])
        groupAggregates.insert(resolved)
        return .value(resolved, type)
    }

    /// Whether an aggregate is computed over a group's objects; an error if it has no values.
    private func checkAggregate(_ expression: QueryExpression, _ argument: Side) throws -> Bool {
        guard case .value(_, let type) = argument, !type.isMany else { return false }
        guard allowsGrouping else {
            throw invalid(
                expression,
                "“\(argument.expression)” has one value in each object; use a key path through a to-many "
                    + "relationship")
        }
        guard !type.isGrouped else {
            throw invalid(expression, "“\(argument.expression)” is already one value of a group")
        }
        return true
    }

    // MARK: - Casts, subqueries, conditions

    private mutating func cast(
        _ inner: QueryExpression, _ cast: QueryCast, as expression: QueryExpression
    ) throws -> Side {
        let inner = try side(inner)
        if inner.isSeveral {
            throw invalid(expression, "“\(inner.expression)” can have several values")
        }
        guard case .value(let value, let type) = inner else {
            return .constant(
                try PredicateEvaluator(subject: nil).value(of: .cast(inner.expression, cast)))
        }
        if type.isExternalCapable, let path = type.origin { throw unsupportedExternal(path) }
        if cast == .objectID && type.kind != .object || cast != .objectID && type.kind == .object {
            throw invalid(expression, "its values cannot be converted to \(cast.rawValue)")
        }
        var result = ExpressionType(cast.kind, isGrouped: type.isGrouped)
        if cast == .objectID { result.origin = type.origin }
        return .value(.cast(value, cast), result)
    }

    private mutating func subquery(
        _ collection: QueryExpression, _ variable: String, _ condition: QueryPredicate
    ) throws -> Side {
        guard case .value(let inner, let type) = try side(collection), type.isMany,
            type.kind == .object, let origin = type.origin
        else {
            throw invalid(
                collection, "SUBQUERY needs a key path through a to-many relationship, to objects")
        }
        let hidden = variables.updateValue(origin, forKey: variable)
        defer { variables[variable] = hidden }
        let condition = try resolve(condition)
        return .value(.subquery(inner, variable: variable, condition), type)
    }

    private mutating func conditional(
        _ condition: QueryPredicate, _ first: QueryExpression, _ second: QueryExpression,
        as expression: QueryExpression
    ) throws -> Side {
        let condition = try resolve(condition)
        let sides = [try side(first), try side(second)]
        if case .constant(let truth) = condition { return truth ? sides[0] : sides[1] }
        for side in sides {
            if side.isSeveral {
                throw invalid(expression, "“\(side.expression)” can have several values")
            }
            if let type = side.type, type.isExternalCapable, let path = type.origin {
                throw unsupportedExternal(path)
            }
        }
        let kinds = sides.map { kind(of: $0) }
        if let first = kinds[0], let second = kinds[1], !first.isComparable(with: second) {
            throw invalid(expression, "it gives \(first.noun) or \(second.noun)")
        }
        var type = ExpressionType(
            kinds[0] ?? kinds[1], isGrouped: sides.contains { $0.type?.isGrouped ?? false })
        if type.kind == .object { type.origin = sides.compactMap(\.type?.origin).first }
        // If one branch is a decimal number, the other is converted to one: arithmetic must not depend on which is taken.
        let forms = try sides.map { try form(of: $0.expression) }
        let values = zip(sides, forms).map { side, form in
            let isCast = form != .decimal && form.isNumeric && kind(of: side) == .number
            return forms.contains(.decimal) && isCast
                ? QueryExpression.cast(side.expression, .decimal) : side.expression
        }
        return .value(.conditional(condition, values[0], values[1]), type)
    }

    /// The kind of a side's values, or of the first non-missing one.
    func kind(of side: Side) -> ValueKind? {
        switch side {
        case .constant(let value): ValueKind(of: value)
        case .value(_, let type): type.kind
        case .collection(let elements): elements.lazy.compactMap { kind(of: $0) }.first
        }
    }

    private func invalid(_ expression: QueryExpression, _ problem: String) -> QuireError {
        QuireError(
            .invalidQuery, "“\(expression)” is not valid: \(problem).", entity: entity.name)
    }
}

// MARK: - Types

extension PredicateResolver {
    // MARK: - Comparisons

    /// Types constants by the other operand, and checks that the value kinds and the operator are compatible.
    func typed(
        _ comparison: QueryComparison, _ left: Side, _ right: Side
    ) throws -> (Side, Side) {
        try checkValue(left, comparison, other: right)
        try checkValue(right, comparison, other: left)
        switch (left, right) {
        case (.value(let expression, let type), .constant(let value)):
            return (left, .constant(try coerce(value, to: expression, type)))
        case (.constant(let value), .value(let expression, let type)):
            return (.constant(try coerce(value, to: expression, type)), right)
        case (.value(let expression, let type), .collection(let elements)):
            let typed = try elements.map { element -> Side in
                if case .constant(let value) = element {
                    return .constant(try coerce(value, to: expression, type))
                }
                if element.isSeveral { throw severalOnTheRight(element, comparison) }
                if let type = element.type, type.isExternalCapable, let path = type.origin {
                    throw unsupportedExternal(path)
                }
                try checkKinds(comparison, left, element)
                return element
            }
            return (left, .collection(typed))
        case (.value, .value):
            try checkKinds(comparison, left, right)
            return (left, right)
        default:
            return (left, right)
        }
    }

    private func checkKinds(_ comparison: QueryComparison, _ left: Side, _ right: Side) throws {
        guard let leftKind = kind(of: left), let rightKind = kind(of: right) else { return }
        guard leftKind.isComparable(with: rightKind) else {
            throw invalid(
                comparison,
                "“\(left.expression)” is \(leftKind.noun), but “\(right.expression)” is \(rightKind.noun)"
            )
        }
    }

    /// Checks that the values support the comparison.
    private func checkValue(_ side: Side, _ comparison: QueryComparison, other: Side) throws {
        guard case .value(let expression, let type) = side else { return }
        if type.isExternalCapable, let path = type.origin {
            if case .constant(.null) = other,
                comparison.operator == .equal || comparison.operator == .notEqual
            {
                return
            }
            throw unsupportedExternal(path)
        }
        if comparison.isTextual(other: other), let kind = type.kind, kind != .text, kind != .any {
            throw invalid(
                comparison,
                "\(PredicatePrinter.word(for: comparison.operator)) compares text, but "
                    + "“\(expression)” is \(kind.noun)")
        }
        if comparison.operator.isOrder, type.kind == .object {
            throw invalid(comparison, "objects have no order; “\(expression)” is an object")
        }
    }

    func unsupportedExternal(_ path: QueryKeyPath) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path.text)” of \(entity.name) may be stored in external files; a query can only compare it "
                + "with nil.",
            entity: entity.name, property: path.text)
    }

    // MARK: - Order

    /// Checks an ordering, replacing column names by their expressions.
    mutating func resolve(
        _ ordering: SortOrdering, columns: [String: QueryExpression] = [:]
    ) throws -> SortOrdering {
        func invalid(_ problem: String) -> QuireError {
            QuireError(
                .invalidQuery, "Objects cannot be sorted by “\(ordering.keyPath)”: \(problem).",
                entity: entity.name, property: ordering.keyPath)
        }
        let side = try side(ordering.expression.replacingColumns(columns))
        var options = ordering.options
        if let type = side.type {
            if type.kind == .object, side.expression != .evaluatedObject {
                throw invalid(
                    type.isMany
                        ? "it can have several values"
                        : "it refers to an object; name one of its attributes")
            }
            if type.isExternalCapable, let path = type.origin { throw unsupportedExternal(path) }
            if type.kind != .text { options = [] }
        }
        if side.isSeveral { throw invalid("it can have several values") }
        return SortOrdering(side.expression, ascending: ordering.ascending, options: options)
    }

    // MARK: - Constants

    /// Converts a constant to the type of the other operand: texts are parsed as dates, UUIDs, numbers …
    private func coerce(
        _ value: AttributeValue, to expression: QueryExpression, _ type: ExpressionType
    ) throws -> AttributeValue {
        guard let kind = ValueKind(of: value) else { return .null }
        guard let wanted = type.kind else { return value }
        func mismatch(_ underlying: (any Error)? = nil) -> QuireError {
            QuireError(
                .invalidQuery,
                "“\(expression)” of \(entity.name) is \(wanted.noun); "
                    + "\(PredicatePrinter.text(of: value)) is not \(wanted.noun).",
                entity: entity.name, property: type.origin?.text, underlying: underlying)
        }
        if wanted == kind, kind == .text { return value.text.map { .string($0) } ?? value }
        if wanted.isComparable(with: kind) { return value }
        guard let text = value.text else { throw mismatch() }
        if wanted == .object {
            do { return .objectID(try objectID(text)) } catch var error as QuireError
                where error.code == .invalidValue
            {
                error.message += " To compare an attribute of it, write \(expression).ATTRIBUTE."
                throw error
            }
        }
        do {
            if let attribute = type.origin?.slot?.attribute {
                return try AttributeValue(parsing: text, as: attribute.type)
            }
            guard let read = wanted.cast?.value(of: value) else { throw mismatch() }
            return read
        } catch {
            throw (error as? QuireError)?.code == .invalidQuery ? error : mismatch(error)
        }
    }

    /// The object identified by a URI or `Entity/p12`.
    private func objectID(_ text: String) throws -> ManagedObjectID {
        guard let store else {
            throw QuireError(
                .invalidQuery, "“\(text)” identifies an object; only a query of a store can use it."
            )
        }
        return try ManagedObjectID(parsing: text, in: layout, store: store)
    }
}

extension ValueKind {
    /// The cast that parses a text as a value of this kind.
    fileprivate var cast: QueryCast? {
        switch self {
        case .number: .number
        case .date: .date
        case .uuid: .uuid
        case .bytes: .binary
        case .text, .object, .any: nil
        }
    }
}

extension QueryComparison {
    /// Whether both sides must be texts.
    fileprivate func isTextual(other: PredicateResolver.Side) -> Bool {
        switch `operator` {
        case .beginsWith, .endsWith, .contains, .like, .matches, .matchesText: true
        case .in: if case .collection = other { false } else { true }
        default: false
        }
    }
}

extension QueryComparison.Operator {
    /// Whether it is an order comparison.
    fileprivate var isOrder: Bool {
        switch self {
        case .less, .lessOrEqual, .greater, .greaterOrEqual, .between: true
        default: false
        }
    }
}
