import Foundation

extension PredicateResolver {
    // MARK: - Comparisons

    /// Gives constants the type of the key path that they are compared with, and checks that the kinds of
    /// values and the operator go together.
    func typed(
        _ comparison: QueryComparison, _ left: Side, _ right: Side
    ) throws -> (Side, Side) {
        try checkPath(left, comparison, other: right)
        try checkPath(right, comparison, other: left)
        switch (left, right) {
        case (.path(let path), .constant(let value)):
            return (left, .constant(try coerce(value, to: path, comparison)))
        case (.constant(let value), .path(let path)):
            return (.constant(try coerce(value, to: path, comparison)), right)
        case (.path(let path), .collection(let elements)):
            let typed = try elements.map { element -> QueryExpression in
                guard case .constant(let value) = element else {
                    if case .keyPath(let keys) = element,
                        let other = keyPaths.first(where: { $0.keys == keys })
                    {
                        try checkKinds(comparison, path, other)
                    }
                    return element
                }
                return .constant(try coerce(value, to: path, comparison))
            }
            return (left, .collection(typed))
        case (.path(let path), .path(let other)):
            try checkKinds(comparison, path, other)
            return (left, right)
        default:
            return (left, right)
        }
    }

    private func checkKinds(
        _ comparison: QueryComparison, _ left: QueryKeyPath, _ right: QueryKeyPath
    ) throws {
        guard left.kind.isComparable(with: right.kind) else {
            throw invalid(
                comparison,
                "“\(left.text)” holds \(left.kind.noun) and “\(right.text)” \(right.kind.noun)")
        }
    }

    /// Checks that the values of a key path can be compared as it is asked.
    private func checkPath(_ side: Side, _ comparison: QueryComparison, other: Side) throws {
        guard case .path(let path) = side else { return }
        if path.isExternalCapable {
            if case .constant(.null) = other,
                comparison.operator == .equal || comparison.operator == .notEqual
            {
                return
            }
            throw unsupportedExternal(path)
        }
        if comparison.isTextual(other: other), path.kind != .text, path.kind != .any {
            throw invalid(
                comparison,
                "\(PredicatePrinter.word(for: comparison.operator)) compares texts, but "
                    + "“\(path.text)” holds \(path.kind.noun)")
        }
        if comparison.operator.isOrder, path.kind == .object {
            throw invalid(comparison, "objects have no order; “\(path.text)” holds an object")
        }
    }

    private func unsupportedExternal(_ path: QueryKeyPath) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path.text)” of \(entity.name) may be kept in files outside the store; a query can only "
                + "ask whether it is nil.",
            subject: .init(entity: entity.name, property: path.text))
    }

    // MARK: - Order

    /// Checks an ordering.
    mutating func resolve(_ ordering: SortOrdering) throws -> SortOrdering {
        var ordering = ordering
        guard case .path(let path) = try side(ordering.expression) else { return ordering }
        func invalid(_ problem: String) -> QuireError {
            QuireError(
                .invalidQuery, "Objects cannot be sorted by “\(ordering.keyPath)”: \(problem).",
                subject: .init(entity: entity.name, property: ordering.keyPath))
        }
        if path.isToMany { throw invalid("it leads to any number of values") }
        if case .object = path.end, !path.steps.isEmpty {
            throw invalid("it leads to an object; name one of its attributes")
        }
        if path.isExternalCapable { throw unsupportedExternal(path) }
        ordering.keyPath = path.text
        if path.kind != .text { ordering.options = [] }
        return ordering
    }

    // MARK: - Constants

    /// A constant with the type of what it is compared with: texts are read as dates, UUIDs, numbers …
    private func coerce(
        _ value: AttributeValue, to path: QueryKeyPath, _ comparison: QueryComparison
    ) throws -> AttributeValue {
        guard let kind = ValueKind(of: value) else { return .null }
        func mismatch(_ underlying: (any Error)? = nil) -> QuireError {
            QuireError(
                .invalidQuery,
                "“\(path.text)” of \(entity.name) holds \(path.kind.noun); "
                    + "\(PredicatePrinter.text(of: value)) is none.",
                subject: .init(entity: entity.name, property: path.text), underlying: underlying)
        }
        if path.kind == kind, kind == .text { return value.text.map { .string($0) } ?? value }
        if path.kind.isComparable(with: kind) { return value }
        guard let text = value.text else { throw mismatch() }
        guard let slot = path.slot else { return .objectID(try objectID(text)) }
        guard let type = slot.attribute?.type else { throw mismatch() }
        do {
            return try AttributeValue(parsing: text, as: type)
        } catch {
            throw mismatch(error)
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

extension QueryKeyPath {
    /// Whether its values may be kept in files outside the store.
    fileprivate var isExternalCapable: Bool {
        if case .slot(let index) = end { destination.slots[index].isExternalCapable } else { false }
    }
}

extension QueryComparison {
    /// Whether both sides must be texts.
    fileprivate func isTextual(other: PredicateResolver.Side) -> Bool {
        switch `operator` {
        case .beginsWith, .endsWith, .contains, .like, .matches: true
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
