internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Builds one SELECT: that of the request, or of a subquery over a to-many relationship. Tables are joined as key paths need
/// them, each only once.
final class SelectBuilder {
    let context: CompilationContext
    /// The object at which key paths start.
    let start: TableReference
    /// The FROM clause.
    private(set) var tables: SQLFragment
    /// The correlation of a subquery: this column of its first table holds the outer object's primary key.
    let link: (column: SQLFragment, owner: TableReference)?
    /// The builder of the request, if this is a subquery: key paths start there.
    private let outermost: SelectBuilder?
    /// The objects bound to subquery variables.
    private(set) var variables: [String: TableReference] = [:]
    /// The aliases of joined rows by the SQL of their primary key.
    private var joinedRows: [SQLFragment: SQLFragment] = [:]

    /// An object in SQL: its primary key, and its row, if already joined.
    struct TableReference {
        /// The primary key.
        let key: SQLFragment
        /// The store number of its entity, if available.
        var entityNumber: SQLFragment?
        /// The alias of its row, if joined.
        var row: SQLFragment?
        /// The object's entity, or an ancestor of it.
        let entity: ResolvedEntity
        /// Whether it may be NULL.
        let isOptional: Bool

        /// An object whose row is joined.
        init(row: SQLFragment, of entity: ResolvedEntity) {
            key = "\(row).Z_PK"
            entityNumber = "\(row).Z_ENT"
            self.row = row
            self.entity = entity
            isOptional = false
        }

        /// An object referenced by a foreign key.
        init(
            key: SQLFragment, entityNumber: SQLFragment?, entity: ResolvedEntity, isOptional: Bool
        ) {
            self.key = key
            self.entityNumber = entityNumber
            self.entity = entity
            self.isOptional = isOptional
        }
    }

    /// A builder for the request itself.
    init(entity: ResolvedEntity, in context: CompilationContext) {
        self.context = context
        let alias = context.newAlias()
        start = TableReference(row: alias, of: entity)
        link = nil
        outermost = nil
        tables = "\(name: context.schema.entities[entity.number - 1].tableName) \(alias)"
    }

    /// A builder for a subquery over a to-many relationship of an object of the outer builder.
    init(toMany step: QueryKeyPath.Step, of owner: TableReference, in outer: SelectBuilder) {
        context = outer.context
        outermost = outer.root
        variables = outer.variables
        let place = ToManyMapping(step, of: owner, in: context)
        start = place.element
        tables = place.table
        link = (place.ownerColumn, owner)
    }

    /// The builder of the request.
    var root: SelectBuilder { outermost ?? self }

    /// Runs a closure with a subquery variable bound to an object.
    func withVariable<Result>(
        _ name: String, _ place: TableReference, _ body: () throws -> Result
    ) rethrows -> Result {
        let hidden = variables.updateValue(place, forKey: name)
        defer { variables[name] = hidden }
        return try body()
    }

    /// The `Z_ENT` condition for a table shared with other entities.
    var entityTest: FetchCondition {
        let includesSubentities = context.query.request.includesSubentities
        guard let row = start.row,
            let numbers = context.schema.entities[start.entity.number - 1].entityTest(
                includingSubentities: includesSubentities)
        else { return .always }
        if numbers.count == 1 { return FetchCondition("\(row).Z_ENT = \(numbers[0])") }
        let list = numbers.map { SQLFragment(sql: String($0)) }.joined(by: ", ")
        return FetchCondition("\(row).Z_ENT IN (\(list))")
    }

    // MARK: - Joins

    /// The alias of an object's row, joined if necessary.
    func row(of place: TableReference) -> SQLFragment {
        if let row = place.row { return row }
        if let row = joinedRows[place.key] { return row }
        let alias = context.newAlias()
        let table = context.schema.entity(place.entity).tableName
        let kind: SQLFragment = place.isOptional ? "LEFT JOIN" : "JOIN"
        tables = "\(tables) \(kind) \(name: table) \(alias) ON \(alias).Z_PK = \(place.key)"
        joinedRows[place.key] = alias
        return alias
    }

    /// The destination of a relationship; a to-many relationship is joined.
    func follow(_ step: QueryKeyPath.Step, from place: TableReference) throws -> TableReference {
        if step.isToMany {
            let toMany = ToManyMapping(step, of: place, in: context)
            tables = "\(tables) JOIN \(toMany.table) ON \(toMany.ownerColumn) = \(place.key)"
            return toMany.element
        }
        let (column, row) = try column(step.source.relationships[step.index].slot, of: place)
        return TableReference(
            key: "\(row).\(name: column.name)",
            entityNumber: column.entityColumn.map { "\(row).\(name: $0)" },
            entity: step.destination, isOptional: true)
    }

    /// The value of a slot of an object.
    func value(of slot: Int, at place: TableReference) throws -> SQLFragment {
        let (column, row) = try column(slot, of: place)
        return "\(row).\(name: column.name)"
    }

    /// The store number of an object's entity.
    func entityNumber(of place: TableReference) -> SQLFragment {
        place.entityNumber ?? "\(row(of: place)).Z_ENT"
    }

    /// The name of an object's entity; NULL if there is no object.
    func entityName(of place: TableReference) -> SQLFragment {
        let cases = place.entity.subtree.map { number -> SQLFragment in
            let entity = context.schema.layout.entity(number: number)
            let storeNumber = context.schema.entity(entity).storeNumber
            return "WHEN \(storeNumber) THEN \(bind: .string(entity.name))"
        }
        return "CASE \(entityNumber(of: place)) \(cases.joined(by: " ")) END"
    }

    private func column(
        _ slot: Int?, of place: TableReference
    ) throws -> (column: SQLSlotColumn, row: SQLFragment) {
        guard let slot,
            let column = context.schema.entities[place.entity.number - 1].columns[slot]
        else {
            let name = slot.map { place.entity.slots[$0].name } ?? "?"
            throw QuireError(
                .invalidQuery, "The store has no column for “\(name)” of \(place.entity.name).",
                entity: place.entity.name, property: name)
        }
        return (column, row(of: place))
    }
}

/// The table that maps an owner to the objects of a to-many relationship.
private struct ToManyMapping {
    /// The table and its alias.
    let table: SQLFragment
    /// The column with the owner's primary key.
    let ownerColumn: SQLFragment
    /// The destination object.
    let element: SelectBuilder.TableReference

    init(
        _ step: QueryKeyPath.Step, of owner: SelectBuilder.TableReference,
        in context: CompilationContext
    ) {
        let alias = context.newAlias()
        switch context.schema.toMany(step.relationship, of: owner.entity) {
        case .foreignKey(let place):
            table = "\(name: place.tableName) \(alias)"
            ownerColumn = "\(alias).\(name: place.column)"
            element = SelectBuilder.TableReference(row: alias, of: step.destination)
        case .nowhere(let tableName):
            table = "\(name: tableName) \(alias)"
            ownerColumn = "0"  // No object has this key.
            element = SelectBuilder.TableReference(row: alias, of: step.destination)
        case .join(let join):
            table = "\(name: join.tableName) \(alias)"
            ownerColumn = "\(alias).\(name: join.sourceColumn)"
            element = SelectBuilder.TableReference(
                key: "\(alias).\(name: join.targetColumn)", entityNumber: nil,
                entity: step.destination, isOptional: false)
        }
    }
}

// MARK: - Columns

/// The position of a dictionary request's column in the statement.
struct SQLDictionaryColumn: Sendable {
    let form: ResultColumnType
    let index: Int32
    /// The column with the entity number of an object, if its entity has sub-entities.
    let entityIndex: Int32?
}

extension SelectBuilder {
    /// The column stage: the SELECT list of a dictionary request.
    ///
    /// - Throws: ``UntranslatableExpression`` if a column has no SQL equivalent.
    func columns(
        _ columns: [ResolvedDictionaryQuery.Column]
    ) throws -> (list: [SQLFragment], places: [SQLDictionaryColumn]) {
        var list: [SQLFragment] = []
        var places: [SQLDictionaryColumn] = []
        for column in columns {
            let operand = try operand(column.expression)
            if operand.isList { throw UntranslatableExpression(column.expression) }
            let index = Int32(list.count)
            list.append(operand.plain)
            guard case .object(let place) = operand, place.entity.hasSubentities else {
                places.append(.init(form: column.form, index: index, entityIndex: nil))
                continue
            }
            list.append(entityNumber(of: place))
            places.append(.init(form: column.form, index: index, entityIndex: index + 1))
        }
        return (list, places)
    }

    /// The group stage: the GROUP BY clause.
    func groups(_ expressions: [QueryExpression]) throws -> [SQLFragment] {
        try expressions.map { expression in
            let operand = try operand(expression)
            if operand.isList { throw UntranslatableExpression(expression) }
            return operand.plain
        }
    }

    /// The order stage of a dictionary request: the ORDER BY clause, if any. Ties are ordered by `rest`.
    func order(_ orderings: [SortOrdering], then rest: [SQLFragment]) throws -> SQLFragment? {
        var parts = try orderings.compactMap { try term(of: $0)?.sql }
        // An integer literal would be taken for a column number.
        parts += rest.filter { $0.sql != "?" }
        return parts.isEmpty ? nil : parts.joined(by: ", ")
    }

    /// The term of an ordering, and whether it is the key of an object; `nil` if it is equal for all rows.
    private func term(of ordering: SortOrdering) throws -> (sql: SQLFragment, isKey: Bool)? {
        let direction: SQLFragment = ordering.ascending ? "" : " DESC"
        return switch try operand(ordering.expression) {
        case .value(let value, _):
            ("\(FetchComparison.folded(value, ordering.options))\(direction)", false)
        case .object(let place): ("\(place.key)\(direction)", true)
        case .constant, .list: nil
        }
    }
}

// MARK: - Predicates

extension SelectBuilder {
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

    /// `ANY`: EXISTS an object that satisfies the comparison. `ALL`: NOT EXISTS one that does not.
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

    /// The order stage: the ORDER BY clause. Ties are ordered by primary key.
    func order(_ orderings: [SortOrdering]) throws -> SQLFragment {
        var parts: [SQLFragment] = []
        for ordering in orderings {
            guard let term = try term(of: ordering) else { continue }
            parts.append(term.sql)
            // Primary keys are unique, so further terms do not matter.
            if term.isKey { return parts.joined(by: ", ") }
        }
        return (parts + ["\(start.key)"]).joined(by: ", ")
    }
}

extension QueryComparison {
    /// Whether, judging by its form, few objects satisfy it, and it does not depend on the outer object.
    fileprivate var isSelective: Bool {
        switch (`operator`, right) {
        case (.equal, .constant(let value)): !ValueOrder.isMissing(value)
        case (.in, .collection(let elements)): elements.allSatisfy(\.isConstant)
        default: false
        }
    }
}

// MARK: - The context

/// The state shared by the stages of compiling one request.
final class CompilationContext {
    let query: ResolvedQuery
    let schema: SQLSchema
    let store: StoreIdentity
    private var aliasCount = 0

    init(query: ResolvedQuery, schema: SQLSchema, store: StoreIdentity) {
        self.query = query
        self.schema = schema
        self.store = store
    }

    /// A new table alias: t0, t1 …
    func newAlias() -> SQLFragment {
        defer { aliasCount += 1 }
        return "t\(aliasCount)"
    }

    /// Whether a predicate can be translated to SQL.
    func isTranslatable(_ predicate: QueryPredicate) throws -> Bool {
        do {
            let trial = CompilationContext(query: query, schema: schema, store: store)
            _ = try SelectBuilder(entity: query.entity, in: trial).condition(predicate)
            return true
        } catch is UntranslatableExpression {
            return false
        }
    }

    /// Whether the request's order can be translated to SQL.
    func canSort() throws -> Bool {
        let isPlain = try query.request.sortOrderings.allSatisfy { try $0.expression.isPlain }
        if isPlain { return true }
        do {
            let trial = CompilationContext(query: query, schema: schema, store: store)
            _ = try SelectBuilder(entity: query.entity, in: trial).order(
                query.request.sortOrderings)
            return true
        } catch is UntranslatableExpression {
            return false
        }
    }

    /// The LIMIT clause; `nil` if the request has no bounds.
    static func limit(of request: FetchSpecification) -> SQLFragment? {
        let limit = max(request.fetchLimit, 0)
        let offset = max(request.fetchOffset, 0)
        if limit == 0, offset == 0 { return nil }
        let bound: SQLFragment =
            limit == 0 ? "-1" : "\(bind: .integer(Int64(limit)))"
        return offset == 0 ? bound : "\(bound) OFFSET \(bind: .integer(Int64(offset)))"
    }
}
