import Foundation
internal import QuireModel
internal import QuireSystem

extension PredicateResolver {
    // MARK: - Comparisons

    /// Gives constants the type of what they are compared with, and checks that the kinds of values and the operator
    /// go together.
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
                "“\(left.expression)” holds \(leftKind.noun) and “\(right.expression)” \(rightKind.noun)"
            )
        }
    }

    /// Checks that values can be compared as it is asked.
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
                "\(PredicatePrinter.word(for: comparison.operator)) compares texts, but "
                    + "“\(expression)” holds \(kind.noun)")
        }
        if comparison.operator.isOrder, type.kind == .object {
            throw invalid(comparison, "objects have no order; “\(expression)” holds an object")
        }
    }

    func unsupportedExternal(_ path: QueryKeyPath) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path.text)” of \(entity.name) may be kept in files outside the store; a query can only "
                + "ask whether it is nil.",
            subject: .init(entity: entity.name, property: path.text))
    }

    // MARK: - Order

    /// Checks an ordering, in which names of columns stand for what they hold.
    mutating func resolve(
        _ ordering: SortOrdering, columns: [String: QueryExpression] = [:]
    ) throws -> SortOrdering {
        func invalid(_ problem: String) -> QuireError {
            QuireError(
                .invalidQuery, "Objects cannot be sorted by “\(ordering.keyPath)”: \(problem).",
                subject: .init(entity: entity.name, property: ordering.keyPath))
        }
        let side = try side(ordering.expression.replacingColumns(columns))
        var options = ordering.options
        if let type = side.type {
            if type.kind == .object, side.expression != .evaluatedObject {
                throw invalid(
                    type.isMany
                        ? "it leads to any number of values"
                        : "it leads to an object; name one of its attributes")
            }
            if type.isExternalCapable, let path = type.origin { throw unsupportedExternal(path) }
            if type.kind != .text { options = [] }
        }
        if side.isSeveral { throw invalid("it leads to any number of values") }
        return SortOrdering(side.expression, ascending: ordering.ascending, options: options)
    }

    // MARK: - Constants

    /// A constant with the type of what it is compared with: texts are read as dates, UUIDs, numbers …
    private func coerce(
        _ value: AttributeValue, to expression: QueryExpression, _ type: ExpressionType
    ) throws -> AttributeValue {
        guard let kind = ValueKind(of: value) else { return .null }
        guard let wanted = type.kind else { return value }
        func mismatch(_ underlying: (any Error)? = nil) -> QuireError {
            QuireError(
                .invalidQuery,
                "“\(expression)” of \(entity.name) holds \(wanted.noun); "
                    + "\(PredicatePrinter.text(of: value)) is none.",
                subject: .init(entity: entity.name, property: type.origin?.text),
                underlying: underlying)
        }
        if wanted == kind, kind == .text { return value.text.map { .string($0) } ?? value }
        if wanted.isComparable(with: kind) { return value }
        guard let text = value.text else { throw mismatch() }
        if wanted == .object { return .objectID(try objectID(text)) }
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

    /// The object that a URI or `Entity/p12` names.
    private func objectID(_ text: String) throws -> ManagedObjectID {
        guard let store else {
            throw QuireError(.invalidQuery, "“\(text)” names an object, which only a store knows.")
        }
        return try ManagedObjectID(parsing: text, in: layout, store: store)
    }
}

extension ValueKind {
    /// What reads a text as a value of this kind.
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
    /// Whether it asks which value is greater.
    fileprivate var isOrder: Bool {
        switch self {
        case .less, .lessOrEqual, .greater, .greaterOrEqual, .between: true
        default: false
        }
    }
}
