internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The tables of one SELECT: that of the request, or of a subquery about the objects of a to-many relationship.
/// Tables come in as key paths need them, each only once.
final class FetchScope {
    let context: FetchContext
    /// The object that key paths begin at.
    let start: ObjectPlace
    /// What follows `FROM`.
    private(set) var tables: SQLFragment
    /// For a subquery, what ties it to the outer object: this column of its first table holds that object's
    /// primary key.
    let link: (column: SQLFragment, owner: ObjectPlace)?
    /// The scope of the request, if this is that of a subquery: key paths begin there.
    private let outermost: FetchScope?
    /// The objects that the variables of subqueries stand for.
    private(set) var variables: [String: ObjectPlace] = [:]
    /// The aliases of joined rows by their primary key's SQL.
    private var joinedRows: [SQLFragment: SQLFragment] = [:]

    /// An object in SQL: where its primary key is found, and its row, if that is at hand.
    struct ObjectPlace {
        /// The primary key.
        let key: SQLFragment
        /// The number of its entity in the store, where that is at hand.
        var entityNumber: SQLFragment?
        /// The alias of its row, where that is at hand.
        var row: SQLFragment?
        /// What it is of: this entity or a sub-entity.
        let entity: EntityLayout
        /// Whether there may be none.
        let isOptional: Bool

        /// The place of an object whose row is at hand.
        init(row: SQLFragment, of entity: EntityLayout) {
            key = "\(row).Z_PK"
            entityNumber = "\(row).Z_ENT"
            self.row = row
            self.entity = entity
            isOptional = false
        }

        /// The place of an object that a column refers to.
        init(
            key: SQLFragment, entityNumber: SQLFragment?, entity: EntityLayout, isOptional: Bool
        ) {
            self.key = key
            self.entityNumber = entityNumber
            self.entity = entity
            self.isOptional = isOptional
        }
    }

    /// The scope of the request itself.
    init(entity: EntityLayout, in context: FetchContext) {
        self.context = context
        let alias = context.newAlias()
        start = ObjectPlace(row: alias, of: entity)
        link = nil
        outermost = nil
        tables = "\(name: context.schema.entities[entity.number - 1].tableName) \(alias)"
    }

    /// The scope of a subquery about the objects that a to-many relationship of an object leads to, which an outer
    /// scope has.
    init(toMany step: QueryKeyPath.Step, of owner: ObjectPlace, in outer: FetchScope) {
        context = outer.context
        outermost = outer.root
        variables = outer.variables
        let place = ToManyPlace(step, of: owner, in: context)
        start = place.element
        tables = place.table
        link = (place.ownerColumn, owner)
    }

    /// The scope of the request itself.
    var root: FetchScope { outermost ?? self }

    /// Does something with a variable standing for an object.
    func withVariable<Result>(
        _ name: String, _ place: ObjectPlace, _ body: () throws -> Result
    ) rethrows -> Result {
        let hidden = variables.updateValue(place, forKey: name)
        defer { variables[name] = hidden }
        return try body()
    }

    /// Restricts rows of a table that holds objects of other entities, too.
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

    /// The row of an object, joined if it is not at hand.
    func row(of place: ObjectPlace) -> SQLFragment {
        if let row = place.row { return row }
        if let row = joinedRows[place.key] { return row }
        let alias = context.newAlias()
        let table = context.schema.entity(place.entity).tableName
        let kind: SQLFragment = place.isOptional ? "LEFT JOIN" : "JOIN"
        tables = "\(tables) \(kind) \(name: table) \(alias) ON \(alias).Z_PK = \(place.key)"
        joinedRows[place.key] = alias
        return alias
    }

    /// The object that a relationship of an object leads to; one of a to-many relationship is joined.
    func follow(_ step: QueryKeyPath.Step, from place: ObjectPlace) throws -> ObjectPlace {
        if step.isToMany {
            let toMany = ToManyPlace(step, of: place, in: context)
            tables = "\(tables) JOIN \(toMany.table) ON \(toMany.ownerColumn) = \(place.key)"
            return toMany.element
        }
        let (column, row) = try column(step.source.relationships[step.index].slot, of: place)
        return ObjectPlace(
            key: "\(row).\(name: column.name)",
            entityNumber: column.entityColumn.map { "\(row).\(name: $0)" },
            entity: step.destination, isOptional: true)
    }

    /// The value of a slot of an object.
    func value(of slot: Int, at place: ObjectPlace) throws -> SQLFragment {
        let (column, row) = try column(slot, of: place)
        return "\(row).\(name: column.name)"
    }

    /// The number of an object's entity in the store.
    func entityNumber(of place: ObjectPlace) -> SQLFragment {
        place.entityNumber ?? "\(row(of: place)).Z_ENT"
    }

    /// The name of an object's entity; missing if there is no object.
    func entityName(of place: ObjectPlace) -> SQLFragment {
        let cases = place.entity.subtree.map { number -> SQLFragment in
            let entity = context.schema.layout.entity(number: number)
            let storeNumber = context.schema.entity(entity).storeNumber
            return "WHEN \(storeNumber) THEN \(bind: .string(entity.name))"
        }
        return "CASE \(entityNumber(of: place)) \(cases.joined(by: " ")) END"
    }

    private func column(
        _ slot: Int?, of place: ObjectPlace
    ) throws -> (column: SQLSlotColumn, row: SQLFragment) {
        guard let slot,
            let column = context.schema.entities[place.entity.number - 1].columns[slot]
        else {
            let name = slot.map { place.entity.slots[$0].name } ?? "?"
            throw QuireError(
                .invalidQuery, "The store has no column for “\(name)” of \(place.entity.name).",
                subject: .init(entity: place.entity.name, property: name))
        }
        return (column, row(of: place))
    }
}

/// The table in which a to-many relationship of an object finds its objects.
private struct ToManyPlace {
    /// The table and its alias.
    let table: SQLFragment
    /// The column with the owner's primary key.
    let ownerColumn: SQLFragment
    /// One of the objects.
    let element: FetchScope.ObjectPlace

    init(_ step: QueryKeyPath.Step, of owner: FetchScope.ObjectPlace, in context: FetchContext) {
        let alias = context.newAlias()
        switch context.schema.toMany(step.relationship, of: owner.entity) {
        case .foreignKey(let place):
            table = "\(name: place.tableName) \(alias)"
            ownerColumn = "\(alias).\(name: place.column)"
            element = FetchScope.ObjectPlace(row: alias, of: step.destination)
        case .nowhere(let tableName):
            table = "\(name: tableName) \(alias)"
            ownerColumn = "0"  // No object has this key.
            element = FetchScope.ObjectPlace(row: alias, of: step.destination)
        case .join(let join):
            table = "\(name: join.tableName) \(alias)"
            ownerColumn = "\(alias).\(name: join.sourceColumn)"
            element = FetchScope.ObjectPlace(
                key: "\(alias).\(name: join.targetColumn)", entityNumber: nil,
                entity: step.destination, isOptional: false)
        }
    }
}
