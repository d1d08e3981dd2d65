internal import QuireQuery
internal import QuireSystem

/// A multi-valued expression, as a subquery.
struct FetchCollection {
    /// The tables of the subquery.
    let scope: SelectBuilder
    /// The element of the collection.
    var element: FetchComparison.Operand
    /// The condition on the elements.
    var condition = FetchCondition.always
    /// Whether duplicates are removed.
    var isDistinct = false

    /// Whether an element satisfies a condition (EXISTS).
    func contains(_ test: FetchCondition) -> FetchCondition {
        guard let condition = belonging(test) else { return .never }
        return FetchCondition("EXISTS (SELECT 1 FROM \(scope.tables) WHERE \(condition.fragment))")
    }

    /// ``contains(_:)`` as an IN subquery where possible: the outer object is among the owners of matching elements. SQLite
    /// can start with these if they are few.
    func containsOneOfFew(_ test: FetchCondition) -> FetchCondition {
        guard let link = scope.link, !test.isNever, condition.isAlways else {
            return contains(test)
        }
        return FetchCondition(
            "\(link.owner.key) IN (SELECT \(link.column) FROM \(scope.tables) WHERE \(test.fragment))",
            canBeNull: true)
    }

    /// The aggregate of the values.
    ///
    /// - Parameters:
    ///   - areSmallIntegers: Whether the values are integers for which SQLite's own aggregates give the same result.
    ///   - areDecimal: Whether they are decimal numbers.
    func aggregate(
        _ function: QueryFunction, areSmallIntegers: Bool, areDecimal: Bool
    ) -> SQLFragment {
        let value: SQLFragment = isDistinct ? "DISTINCT \(element.plain)" : element.plain
        let result: SQLFragment =
            switch function {
            case .count: "count(\(value))"
            case .minimum: "min(\(value))"
            case .maximum: "max(\(value))"
            case _ where areDecimal && function.isDecimalArithmetic:
                "\(SQLFragment(sql: function.decimalSQLName))(\(value))"
            case .sum where areSmallIntegers: "ifnull(sum(\(value)), 0)"
            case .average where areSmallIntegers: "avg(\(value))"
            default: "\(SQLFragment(sql: function.sqlName))(\(value))"
            }
        let condition = belonging(.always) ?? .never
        return "(SELECT \(result) FROM \(scope.tables) WHERE \(condition.fragment))"
    }

    /// The elements of the outer object that satisfy a condition; `nil` if none can.
    private func belonging(_ test: FetchCondition) -> FetchCondition? {
        let condition = condition.and(test)
        guard let link = scope.link, !condition.isNever else { return nil }
        return FetchCondition("\(link.column) = \(link.owner.key)").and(condition)
    }
}

extension SelectBuilder {
    /// The collection of a multi-valued expression.
    func collection(_ expression: QueryExpression) throws -> FetchCollection {
        switch expression {
        case .keyPath(let keys):
            return try root.collection(try path(keys), from: root.start)
        case .path(.variable(let name), let keys):
            let place = try place(ofVariable: name)
            return try collection(
                QueryKeyPath(keys, from: place.entity, in: context.query.layout), from: place)
        case .path(let inner, let keys):
            var collection = try collection(inner)
            guard case .object(let place) = collection.element else {
                throw UntranslatableExpression(expression)
            }
            let path = try QueryKeyPath(keys, from: place.entity, in: context.query.layout)
            collection.element = try collection.scope.operand(
                path, behind: path.steps[...], from: place)
            return collection
        case .subquery(let inner, let variable, let predicate):
            var collection = try collection(inner)
            guard case .object(let place) = collection.element else {
                throw UntranslatableExpression(expression)
            }
            let condition = try collection.scope.withVariable(variable, place) {
                try collection.scope.condition(predicate)
            }
            collection.condition = collection.condition.and(condition)
            return collection
        case .function(.distinct, let arguments):
            var collection = try collection(arguments[0])
            collection.isDistinct = true
            return collection
        case .function(.noIndex, let arguments):
            return try collection(arguments[0])
        default: throw UntranslatableExpression(expression)
        }
    }

    /// The collection at a key path through a to-many relationship.
    private func collection(
        _ path: QueryKeyPath, from start: TableReference
    ) throws -> FetchCollection {
        var owner = start
        var steps = path.steps[...]
        while let step = steps.first, !step.isToMany {
            owner = try follow(step, from: owner)
            steps = steps.dropFirst()
        }
        guard let first = steps.first else {
            throw QuireError(.invalidQuery, "“\(path.text)” has at most one value.")
        }
        let inner = SelectBuilder(toMany: first, of: owner, in: self)
        return FetchCollection(
            scope: inner,
            element: try inner.operand(path, behind: steps.dropFirst(), from: inner.start))
    }

    /// Whether an expression is multi-valued.
    func isMany(_ expression: QueryExpression) throws -> Bool {
        switch expression {
        case .keyPath(let keys): return try path(keys).isToMany
        case .path(.variable(let name), let keys):
            let place = try place(ofVariable: name)
            return try QueryKeyPath(keys, from: place.entity, in: context.query.layout).isToMany
        case .path, .subquery, .collection, .function(.union, _), .function(.intersection, _),
            .function(.difference, _):
            return true
        case .function(.distinct, let arguments), .function(.noIndex, let arguments):
            return try isMany(arguments[0])
        default: return false
        }
    }
}

/// An expression without SQL equivalent; it is evaluated in memory.
struct UntranslatableExpression: Error {
    let expression: QueryExpression

    init(_ expression: QueryExpression) { self.expression = expression }
}
