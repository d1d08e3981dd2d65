internal import QuireQuery

extension FetchScope {
    /// The condition stage: one function per kind of predicate.
    func condition(_ predicate: QueryPredicate) throws -> FetchCondition {
        switch predicate {
        case .constant(let value): value ? .always : .never
        case .comparison(let comparison): try condition(comparison)
        case .and(let parts): .all(of: try parts.map { try condition($0) })
        case .or(let parts): .any(of: try parts.map { try condition($0) })
        case .not(let inner): try !condition(inner)
        }
    }

    private func condition(_ comparison: QueryComparison) throws -> FetchCondition {
        if let indexed = try fullTextCondition(comparison) { return indexed }
        guard comparison.modifier == .direct else { return try toManyCondition(comparison) }
        return try FetchComparison(
            left: operand(comparison.left), comparison, right: operand(comparison.right),
            scope: self
        ).condition()
    }

    /// `ANY`: there is an object that satisfies the comparison. `ALL`: there is none that does not.
    private func toManyCondition(_ comparison: QueryComparison) throws -> FetchCondition {
        let right = try operand(comparison.right)
        let collection = try collection(comparison.left)
        let test = try FetchComparison(
            left: collection.element, comparison, right: right, scope: collection.scope
        ).condition()
        if comparison.modifier == .all { return !collection.contains(!test) }
        return comparison.isSelective
            ? collection.containsOneOfFew(test) : collection.contains(test)
    }

    // MARK: - Order

    /// The order stage: what follows `ORDER BY`. Equal objects come by primary key.
    func order(_ orderings: [SortOrdering]) throws -> SQLFragment {
        var parts: [SQLFragment] = []
        for ordering in orderings {
            let direction: SQLFragment = ordering.ascending ? "" : " DESC"
            switch try operand(ordering.expression) {
            case .value(let value, _):
                let folded = FetchComparison.folded(value, ordering.options)
                parts.append("\(folded)\(direction)")
            case .object(let place):
                // No two objects are equal in this, so what comes behind it does not matter.
                return (parts + ["\(place.key)\(direction)"]).joined(by: ", ")
            case .constant, .list: continue
            }
        }
        return (parts + ["\(start.key)"]).joined(by: ", ")
    }
}

extension QueryComparison {
    /// Whether few objects satisfy it, as far as its form tells, and it does not depend on the outer object.
    fileprivate var isSelective: Bool {
        switch (`operator`, right) {
        case (.equal, .constant(let value)): !ValueOrder.isMissing(value)
        case (.in, .collection(let elements)): elements.allSatisfy(\.isConstant)
        default: false
        }
    }
}
