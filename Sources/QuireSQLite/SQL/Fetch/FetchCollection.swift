internal import QuireQuery
internal import QuireSystem

/// What an expression that gives any number of values leads to, as a subquery.
struct FetchCollection {
    /// The tables of the subquery.
    let scope: SelectBuilder
    /// One of the values.
    var element: FetchComparison.Operand
    /// What the values must satisfy.
    var condition = FetchCondition.always
    /// Whether equal values count once.
    var isDistinct = false

    /// Whether one of the values satisfies a condition.
    func contains(_ test: FetchCondition) -> FetchCondition {
        guard let condition = belonging(test) else { return .never }
        return FetchCondition("EXISTS (SELECT 1 FROM \(scope.tables) WHERE \(condition.fragment))")
    }

    /// The same, said the other way round where that is possible: whether the outer object is among the owners of
    /// those that satisfy it. So SQLite can begin with them where they are few.
    func containsOneOfFew(_ test: FetchCondition) -> FetchCondition {
        guard let link = scope.link, !test.isNever, condition.isAlways else {
            return contains(test)
        }
        return FetchCondition(
            "\(link.owner.key) IN (SELECT \(link.column) FROM \(scope.tables) WHERE \(test.fragment))",
            canBeNull: true)
    }

    /// What a function computes of the values.
    ///
    /// - Parameter areSmallIntegers: Whether the values are integers of which SQLite's own functions give the same.
    func aggregate(_ function: QueryFunction, areSmallIntegers: Bool) -> SQLFragment {
        let value: SQLFragment = isDistinct ? "DISTINCT \(element.plain)" : element.plain
        let result: SQLFragment =
            switch function {
            case .count: "count(\(value))"
            case .minimum: "min(\(value))"
            case .maximum: "max(\(value))"
            case .sum where areSmallIntegers: "ifnull(sum(\(value)), 0)"
            case .average where areSmallIntegers: "avg(\(value))"
            default: "\(SQLFragment(sql: function.sqlName))(\(value))"
            }
        let condition = belonging(.always) ?? .never
        return "(SELECT \(result) FROM \(scope.tables) WHERE \(condition.fragment))"
    }

    /// The values that belong to the outer object and satisfy a condition besides; `nil` if none can.
    private func belonging(_ test: FetchCondition) -> FetchCondition? {
        let condition = condition.and(test)
        guard let link = scope.link, !condition.isNever else { return nil }
        return FetchCondition("\(link.column) = \(link.owner.key)").and(condition)
    }
}

extension SelectBuilder {
    /// The values of an expression that gives any number of them.
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

    /// The values at a key path through a to-many relationship.
    private func collection(
        _ path: QueryKeyPath, from start: ObjectPlace
    ) throws -> FetchCollection {
        var owner = start
        var steps = path.steps[...]
        while let step = steps.first, !step.isToMany {
            owner = try follow(step, from: owner)
            steps = steps.dropFirst()
        }
        guard let first = steps.first else {
            throw QuireError(.invalidQuery, "“\(path.text)” leads to one value at most.")
        }
        let inner = SelectBuilder(toMany: first, of: owner, in: self)
        return FetchCollection(
            scope: inner,
            element: try inner.operand(path, behind: steps.dropFirst(), from: inner.start))
    }

    /// Whether an expression gives any number of values.
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

/// An expression that SQL cannot say; it is evaluated in memory.
struct UntranslatableExpression: Error {
    let expression: QueryExpression

    init(_ expression: QueryExpression) { self.expression = expression }
}
