import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore

extension MappingOmissions {
    /// Counts the data in a store.
    ///
    /// - Complexity: O(*n*) in the objects of the entities that lose something.
    func removals(in store: any PersistentStore) throws -> [MigrationRemoval] {
        if let store = store as? SQLiteStore {
            return try store.read { try self.removals($0, store.schema) }
        }
        var found = RemovalList(source: source)
        for omission in omissions {
            var request = FetchRequest(omission.entity.name)
            request.includesSubentities = false
            guard let properties = omission.properties else {
                found.add(try store.count(matching: request), of: omission.entity)
                continue
            }
            let ids = try store.objectIDs(matching: request)
            try ids.forEachBatch { batch in
                let rows = try store.rows(for: batch)
                for property in properties {
                    let count: Int
                    if case .members(let relationship) = property {
                        count = try store.relatedObjects(of: batch, through: relationship)
                            .members.count
                    } else {
                        count = try rows.reduce(0) { try $0 + (has(property, $1) ? 1 : 0) }
                    }
                    found.add(count, of: property, omission.entity)
                }
            }
        }
        return found.list
    }

    /// The triggers and tables of indexes that neither model calls for: another program has made them, or Core Data for
    /// something in its model that is not understood here. A migration makes the triggers and indexes of the new model only.
    func leftOutParts(
        _ connection: SQLiteConnection, _ schema: SQLSchema
    ) throws -> [MigrationRemoval] {
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: schema, carriesModel: false)
        return try synchronization.partsOfNeither(SQLSchema(fresh: destination)).map { part in
            let table = schema.tables.first { $0.name == part.table }
            let entity =
                table.map { source.entity(number: $0.rootNumber) }
                ?? source.entities.first { part.name.contains("_\($0.name)_") }
            return MigrationRemoval(
                entityName: entity?.name ?? part.table, propertyName: nil, count: 1,
                schemaPart: "\(part.part.rawValue) \(part.name)")
        }
    }

    private func has(_ property: Property, _ row: ObjectSnapshot) throws -> Bool {
        switch property {
        case .attribute(let slot):
            let value = try row.value(at: slot)
            return !value.isNull && value != row.entity.slots[slot].attribute?.defaultValue
        case .rounded(let slot):
            guard case .integer(let number) = try row.value(at: slot) else { return false }
            return Int64(exactly: Double(number)) != number
        case .reference(_, let slot): return try !row.value(at: slot).isNull
        case .members: return false
        }
    }

    /// Counts the data in the tables of a store, as a connection sees them; also those in columns that the old model does not
    /// know, if it is not quite the one that the store was made with. They count as values of the root entity.
    func removals(
        _ connection: SQLiteConnection, _ schema: SQLSchema
    ) throws -> [MigrationRemoval] {
        var found = RemovalList(source: source)
        for omission in omissions {
            let place = schema.entity(omission.entity)
            // One that another store keeps.
            if place.storeNumber == 0 { continue }
            var properties: [Property] = []
            var counts: [SQLFragment] = []
            for property in omission.properties ?? [] {
                if case .members(let relationship) = property {
                    let count = try connection.counts(members(of: relationship, place))[0]
                    found.add(count, of: property, omission.entity)
                } else if let test = test(property, omission.entity, place) {
                    properties.append(property)
                    counts.append("count(CASE WHEN \(test) THEN 1 END)")
                }
            }
            if omission.properties == nil { counts = ["count(*)"] }
            if counts.isEmpty { continue }
            let numbers = try connection.counts(
                "SELECT \(counts.joined(by: ", ")) FROM \(name: place.tableName) WHERE Z_ENT = \(place.storeNumber)"
            )
            if omission.properties == nil { found.add(numbers[0], of: omission.entity) }
            for (property, count) in zip(properties, numbers) {
                found.add(count, of: property, omission.entity)
            }
        }
        for (table, columns) in schema.unknownColumns {
            let counts = columns.map { "count(\(name: $0))" as SQLFragment }.joined(by: ", ")
            let numbers = try connection.counts("SELECT \(counts) FROM \(name: table.name)")
            for (column, count) in zip(columns, numbers) {
                found.add(
                    count, ofColumn: column, source.entity(number: table.rootNumber))
            }
        }
        return found.list
    }

    /// Whether a row has a value; `nil` if the store has no place for one.
    private func test(
        _ property: Property, _ entity: EntityLayout, _ place: SQLEntity
    ) -> SQLFragment? {
        switch property {
        case .attribute(let index):
            guard let column = place.columns[index] else { return nil }
            let slot = entity.slots[index]
            guard let normal = slot.attribute?.defaultValue, !normal.isNull,
                !slot.isExternalCapable
            else { return "\(name: column.name) NOT NULL" }
            return
                "\(name: column.name) NOT NULL AND \(name: column.name) IS NOT \(SQLFragment(stored: normal))"
        case .rounded(let index):
            return place.columns[index].map {
                "\(name: $0.name) <> CAST(\(name: $0.name) AS REAL)"
            }
        case .reference(_, let index):
            return place.columns[index].map { "\(name: $0.name) NOT NULL" }
        case .members: return nil
        }
    }

    private func members(
        of relationship: EntityLayout.Relationship, _ place: SQLEntity
    ) -> SQLFragment {
        let (table, column): (String, String)
        switch place.toMany[relationship.index] {
        case .foreignKey(let key)?: (table, column) = (key.tableName, key.column)
        case .join(let join)?: (table, column) = (join.tableName, join.sourceColumn)
        case .nowhere?, nil: return "SELECT 0"
        }
        return
            "SELECT count(*) FROM \(name: table) d JOIN \(name: place.tableName) o ON o.Z_PK = d.\(name: column) WHERE o.Z_ENT = \(place.storeNumber)"
    }
}

/// Removals, those of a property from the objects of several entities added up.
private struct RemovalList {
    let source: ModelLayout
    private(set) var list: [MigrationRemoval] = []

    init(source: ModelLayout) { self.source = source }

    mutating func add(_ count: Int, of entity: EntityLayout) { add(count, entity.name, nil) }

    mutating func add(
        _ count: Int, of property: MappingOmissions.Property, _ entity: EntityLayout
    ) {
        switch property {
        case .attribute(let slot), .rounded(let slot):
            add(count, owner(entity.slots[slot].ownerNumber), entity.slots[slot].name)
        case .reference(let relationship, _), .members(let relationship):
            add(count, owner(relationship.ownerNumber), relationship.name)
        }
    }

    mutating func add(_ count: Int, ofColumn column: String, _ entity: EntityLayout) {
        add(count, entity.name, column)
    }

    private func owner(_ number: Int) -> String { source.entity(number: number).name }

    private mutating func add(_ count: Int, _ entity: String, _ property: String?) {
        if count == 0 { return }
        let index = list.firstIndex { $0.entityName == entity && $0.propertyName == property }
        let before = index.map { list[$0].count } ?? 0
        let removal = MigrationRemoval(
            entityName: entity, propertyName: property, count: before + count)
        if let index { list[index] = removal } else { list.append(removal) }
    }
}
