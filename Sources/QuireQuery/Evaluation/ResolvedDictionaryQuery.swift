package import QuireModel
internal import QuireSystem

/// A dictionary request checked against the model, like ``ResolvedQuery`` for objects: column names are replaced by their
/// expressions, and every value is constant within a group.
package struct ResolvedDictionaryQuery: Sendable {
    /// A column.
    package struct Column: Sendable {
        package let name: String
        package let expression: QueryExpression
        package let form: ResultColumnType
    }

    /// The query for the objects, without an order.
    package private(set) var query: ResolvedQuery
    /// The columns, at least one.
    package let columns: [Column]
    /// The grouping expressions.
    package let groups: [QueryExpression]
    /// The HAVING condition.
    package let having: QueryPredicate?
    /// The order of the dictionaries.
    package let orderings: [SortOrdering]
    /// The aggregates over a group's objects.
    package let aggregates: Set<QueryExpression>

    /// Whether dictionaries are computed from groups of objects.
    package var isGrouped: Bool { !groups.isEmpty || !aggregates.isEmpty }
    /// Whether duplicate dictionaries are removed.
    package var isDistinct: Bool { query.request.returnsDistinctResults }

    /// Checks a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    package init(_ request: FetchSpecification, in layout: ResolvedModel, store: StoreIdentity?)
        throws
    {
        let entity = try layout.requireEntity(named: request.entityName)
        var checked = request
        var resolver = PredicateResolver(
            entity: entity, layout: layout, store: store, allowsTransient: false)
        checked.predicate = try request.predicate.map { try resolver.resolve($0) }
        if request.excludesOnly(store) { checked.predicate = .constant(false) }
        checked.sortOrderings = []

        let written = try Self.columns(of: request, entity)
        var names: [String: QueryExpression] = [:]
        for column in written {
            guard names.updateValue(column.expression, forKey: column.name) == nil else {
                throw QuireError(
                    .invalidQuery,
                    "Two columns are named “\(column.name)”; rename one of them.",
                    entity: entity.name, property: column.name)
            }
        }
        // A property takes precedence over a column of the same name, except in the order.
        let properties = Set(entity.properties.keys)
        groups = try request.propertiesToGroupBy.map {
            try resolver.group($0.expression.replacingColumns(names, hidden: properties))
        }
        resolver.allowsGrouping = true
        columns = try written.map { try resolver.column($0) }
        having = try request.havingPredicate.map { predicate in
            try resolver.resolve(
                predicate.mappingExpressions { $0.replacingColumns(names, hidden: properties) })
        }
        orderings = try request.sortOrderings.map {
            try resolver.resolve($0, columns: names)
        }
        aggregates = resolver.groupAggregates
        query = ResolvedQuery(
            resolved: checked, of: entity, in: layout, keyPaths: resolver.keyPaths,
            isRandom: resolver.isRandom)
        try checkGroups()
        try checkDistinctOrder()
    }

    /// The same query restricted to some of the objects.
    package func about(_ predicate: QueryPredicate) -> ResolvedDictionaryQuery {
        var result = self
        var request = query.request
        request.predicate = predicate
        result.query = ResolvedQuery(
            resolved: request, of: query.entity, in: query.layout, keyPaths: query.keyPaths,
            isRandom: query.isRandom)
        return result
    }

    private static func columns(
        of request: FetchSpecification, _ entity: ResolvedEntity
    ) throws -> [ExpressionDescription] {
        if !request.propertiesToFetch.isEmpty { return request.propertiesToFetch }
        if !request.propertiesToGroupBy.isEmpty { return request.propertiesToGroupBy }
        let attributes = entity.slots.filter { $0.attribute != nil && $0.isStored }
        guard !attributes.isEmpty else {
            throw QuireError(
                .invalidQuery,
                "\(entity.name) has no attributes that a dictionary can contain; specify the properties to fetch.",
                entity: entity.name)
        }
        return attributes.map { ExpressionDescription($0.name) }
    }

    // MARK: - Checks

    private func checkGroups() throws {
        if having != nil, groups.isEmpty {
            throw QuireError(
                .invalidQuery,
                "A request can have a havingPredicate only if it groups objects; move the condition to its "
                    + "predicate, or specify the properties to group by.",
                entity: query.entity.name)
        }
        guard isGrouped else { return }
        for column in columns where !isOfGroup(column.expression) {
            throw ungrouped("The column “\(column.name)”", column.expression)
        }
        for ordering in orderings {
            let expression = try ordering.expression
            if !isOfGroup(expression) { throw ungrouped("The sort order", expression) }
        }
        let isOfGroups = having?.allExpressions(isOfGroup) ?? true
        if !isOfGroups {
            throw QuireError(
                .invalidQuery,
                "The havingPredicate “\(having?.format ?? "")” uses values that differ within a group; use only "
                    + "grouped columns and aggregates.",
                entity: query.entity.name)
        }
    }

    private func ungrouped(_ what: String, _ expression: QueryExpression) -> QuireError {
        QuireError(
            .invalidQuery,
            "\(what) uses “\(expression)”, which differs within a group; group by it, or compute one value "
                + "from it, such as max(\(expression)).",
            entity: query.entity.name, property: expression.description)
    }

    /// Whether an expression is constant within a group.
    private func isOfGroup(_ expression: QueryExpression) -> Bool {
        if groups.contains(expression) || aggregates.contains(expression) { return true }
        switch expression {
        case .constant, .variable: return true
        case .evaluatedObject: return false
        case .keyPath(let keys):
            // An expression of an object that is constant within the group makes its values constant too.
            return groups.contains { group in
                if case .keyPath(let start) = group {
                    keys.starts(with: start)
                } else {
                    group == .evaluatedObject
                }
            }
        case .collection(let elements): return elements.allSatisfy(isOfGroup)
        case .function(.random, _): return false
        case .function(_, let arguments): return arguments.allSatisfy(isOfGroup)
        case .cast(let inner, _), .path(let inner, _): return isOfGroup(inner)
        case .subquery(let collection, _, let condition):
            return isOfGroup(collection) && condition.allExpressions(isOfGroup)
        case .conditional(let condition, let first, let second):
            return condition.allExpressions(isOfGroup) && isOfGroup(first) && isOfGroup(second)
        }
    }

    private func checkDistinctOrder() throws {
        guard isDistinct else { return }
        for ordering in orderings {
            let expression = try ordering.expression
            if columns.contains(where: { $0.expression == expression }) { continue }
            throw QuireError(
                .invalidQuery,
                "Distinct dictionaries cannot be sorted by “\(ordering.keyPath)”, which is not one of their columns.",
                entity: query.entity.name, property: ordering.keyPath)
        }
    }
}

extension PredicateResolver {
    /// Checks a column.
    fileprivate mutating func column(
        _ column: ExpressionDescription
    ) throws -> ResolvedDictionaryQuery.Column {
        let expression = try single(column.expression, "The column “\(column.name)”")
        var form = try form(of: expression)
        if let type = column.resultType, type != .undefined, !form.isObject(type) {
            guard let wanted = ResultColumnType(type, of: kind(of: try side(expression))) else {
                throw QuireError(
                    .invalidQuery,
                    "The column “\(column.name)” cannot have values of type \(type): “\(expression)” has values of another type.",
                    entity: entity.name, property: column.name)
            }
            if form != .externalCapable { form = wanted }
        }
        return .init(name: column.name, expression: expression, form: form)
    }

    /// Checks a grouping expression.
    fileprivate mutating func group(_ expression: QueryExpression) throws -> QueryExpression {
        let group = try single(expression, "A group")
        if case .constant = group {
            throw QuireError(
                .invalidQuery,
                "Objects cannot be grouped by “\(group)”, which is the same for all objects.",
                entity: entity.name)
        }
        return group
    }

    /// Checks that an expression is single-valued.
    private mutating func single(
        _ expression: QueryExpression, _ what: String
    ) throws -> QueryExpression {
        let side = try side(expression)
        guard !side.isSeveral else {
            throw QuireError(
                .invalidQuery,
                "\(what) uses “\(expression)”, which can have several values; compute one value from them, such "
                    + "as count(\(expression)).",
                entity: entity.name, property: expression.description)
        }
        return side.expression
    }
}

extension ResultColumnType {
    fileprivate func isObject(_ type: AttributeType) -> Bool {
        if case .object = self { type == .objectID } else { false }
    }
}
