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
        let left = try path(comparison.left)
        if let left, left.isToMany { return try toManyCondition(comparison, left) }
        return try FetchComparison(
            left: operand(comparison.left, at: left), comparison,
            right: operand(comparison.right), scope: self
        ).condition()
    }

    // MARK: - To-many

    /// `ANY`: there is an object that satisfies the comparison. `ALL`: there is none that does not.
    private func toManyCondition(
        _ comparison: QueryComparison, _ path: QueryKeyPath
    ) throws -> FetchCondition {
        let right = try operand(comparison.right)
        var owner = start
        var steps = path.steps[...]
        while let step = steps.first, !step.isToMany {
            owner = try follow(step, from: owner)
            steps = steps.dropFirst()
        }
        guard let first = steps.first else { return .never }
        let inner = FetchScope(toMany: first, of: owner, in: context)
        let left = try inner.operand(path, behind: steps.dropFirst(), from: inner.start)
        let test = try FetchComparison(left: left, comparison, right: right, scope: inner)
            .condition()
        if comparison.modifier == .all { return !inner.exists(!test) }
        return comparison.isSelective ? inner.isAmong(test) : inner.exists(test)
    }

    /// Whether a subquery's objects that belong to the outer one include some that satisfy a condition.
    private func exists(_ test: FetchCondition) -> FetchCondition {
        guard let link, !test.isNever else { return .never }
        let condition = FetchCondition("\(link.column) = \(link.owner.key)").and(test)
        return FetchCondition("EXISTS (SELECT 1 FROM \(tables) WHERE \(condition.fragment))")
    }

    /// The same, said the other way round: whether the outer object is among the owners of those that satisfy it.
    /// So SQLite can begin with them where they are few.
    private func isAmong(_ test: FetchCondition) -> FetchCondition {
        guard let link, !test.isNever else { return .never }
        return FetchCondition(
            "\(link.owner.key) IN (SELECT \(link.column) FROM \(tables) WHERE \(test.fragment))",
            canBeNull: true)
    }

    // MARK: - Operands

    private func path(_ expression: QueryExpression) throws -> QueryKeyPath? {
        switch expression {
        case .evaluatedObject: return QueryKeyPath(of: context.query.entity)
        case .keyPath(let keys):
            return try context.query.keyPaths.first { $0.keys == keys }
                ?? QueryKeyPath(keys, from: context.query.entity, in: context.query.layout)
        case .constant, .variable, .collection, .function, .cast, .subquery, .conditional, .path:
            return nil
        }
    }

    private func operand(
        _ expression: QueryExpression, at path: QueryKeyPath? = nil
    ) throws -> FetchComparison.Operand {
        if let path = try path ?? self.path(expression) {
            return try operand(path, behind: path.steps[...], from: start)
        }
        switch expression {
        case .constant(let value): return .constant(value)
        case .collection(let elements): return .list(try elements.map { try operand($0) })
        case .variable(let name):
            throw QuireError(.invalidQuery, "No value is given for the variable $\(name).")
        case .keyPath, .evaluatedObject, .function, .cast, .subquery, .conditional, .path:
            throw QuireError(.invalidQuery, "“\(expression)” is no value of \(start.entity.name).")
        }
    }

    private func operand(
        _ path: QueryKeyPath, behind steps: ArraySlice<QueryKeyPath.Step>,
        from place: ObjectPlace
    ) throws -> FetchComparison.Operand {
        var place = place
        for step in steps { place = try follow(step, from: place) }
        switch path.end {
        case .object: return .object(place)
        case .slot(let slot): return .value(try value(of: slot, at: place), path.kind)
        }
    }

    // MARK: - Order

    /// The order stage: what follows `ORDER BY`. Equal objects come by primary key.
    func order(_ orderings: [SortOrdering]) throws -> SQLFragment {
        var parts: [SQLFragment] = []
        for ordering in orderings {
            let direction: SQLFragment = ordering.ascending ? "" : " DESC"
            guard let path = try path(ordering.expression) else { continue }
            switch try operand(path, behind: path.steps[...], from: start) {
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
        case (.in, .collection): true
        default: false
        }
    }
}
