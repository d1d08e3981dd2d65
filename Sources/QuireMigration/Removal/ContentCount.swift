import Foundation
package import QuireModel
internal import QuireQuery
internal import QuireSQLite
package import QuireStore

/// The number of objects of an entity, of the values of some attributes, and of the references of some relationships.
package struct ContentCount: Equatable {
    var objects = 0
    /// By the positions of the attributes that were asked about.
    var values: [Int]
    /// By the positions of the relationships that were asked about.
    var references: [Int]
}

/// A relationship whose references are counted.
package struct CountedRelationship {
    let relationship: EntityLayout.Relationship
    /// The numbers of the entities whose objects count as members.
    let members: Set<Int>
}

/// Counts what a store, or one in the making, holds.
package protocol ContentCounter {
    /// Counts the objects of an entity, without those of its sub-entities, and what they have.
    ///
    /// Null and decimal numbers that are not a number are no values; foreign keys of missing objects are no references.
    func count(
        of entity: EntityLayout, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount
}

extension AttributeValue {
    /// Whether the value counts as one: Core Data reads a decimal number that is not a number as null.
    var isValue: Bool {
        if case .decimal(let number) = self { return !number.isNaN }
        return !isNull
    }
}

/// Counts in the tables of a store, as a connection sees them.
struct SQLContentCounter: ContentCounter {
    let connection: SQLiteConnection
    let schema: SQLSchema

    func count(
        of entity: EntityLayout, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount {
        let place = schema.entity(entity)
        var result = ContentCount(
            values: slots.map { _ in 0 }, references: relationships.map { _ in 0 })
        if place.storeNumber == 0 { return result }
        let values = slots.map { slot -> SQLFragment in
            guard let column = place.columns[slot] else { return "0" }
            return entity.slots[slot].storage == .decimal
                ? "count(CASE WHEN \(name: column.name) <> 'NaN' THEN 1 END)"
                : "count(\(name: column.name))"
        }
        let numbers = try connection.counts(
            "SELECT \((["count(*)"] + values).joined(by: ", ")) FROM \(name: place.tableName) WHERE Z_ENT = \(place.storeNumber)"
        )
        result.objects = numbers[0]
        result.values = Array(numbers.dropFirst())
        for (index, counted) in relationships.enumerated() {
            if let query = references(of: counted, place) {
                result.references[index] = try connection.counts(query)[0]
            }
        }
        return result
    }

    private func references(of counted: CountedRelationship, _ place: SQLEntity) -> SQLFragment? {
        let relationship = counted.relationship
        let target = schema.entity(schema.layout.destination(of: relationship)).tableName
        let numbers = counted.members.map { schema.entity(number: $0).storeNumber }.sorted()
        let isMember =
            "m.Z_ENT IN (\(numbers.map { "\($0)" as SQLFragment }.joined(by: ", ")))" as SQLFragment
        let from = "SELECT count(*) FROM \(name: place.tableName) o" as SQLFragment
        let isOwner = "o.Z_ENT = \(place.storeNumber) AND \(isMember)" as SQLFragment
        if let slot = relationship.slot {
            guard let column = place.columns[slot] else { return nil }
            return
                "\(from) JOIN \(name: target) m ON m.Z_PK = o.\(name: column.name) WHERE \(isOwner)"
        }
        switch place.toMany[relationship.index] {
        case .foreignKey(let key)?:
            return
                "\(from) JOIN \(name: key.tableName) m ON m.\(name: key.column) = o.Z_PK WHERE \(isOwner)"
        case .join(let join)?:
            return
                "\(from) JOIN \(name: join.tableName) j ON j.\(name: join.sourceColumn) = o.Z_PK JOIN \(name: target) m ON m.Z_PK = j.\(name: join.targetColumn) WHERE \(isOwner)"
        case .nowhere?, nil: return nil
        }
    }
}

/// Counts by reading the rows of a store of any kind.
struct RowContentCounter: ContentCounter {
    let store: any PersistentStore

    func count(
        of entity: EntityLayout, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount {
        var result = ContentCount(
            values: slots.map { _ in 0 }, references: relationships.map { _ in 0 })
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        let ids = try store.objectIDs(matching: request)
        result.objects = ids.count
        try ids.forEachBatch { batch in
            let rows = try store.rows(for: batch)
            for (index, slot) in slots.enumerated() {
                result.values[index] += try rows.reduce(0) {
                    try $0 + ($1.heldValue(at: slot).isValue ? 1 : 0)
                }
            }
            for (index, counted) in relationships.enumerated() {
                result.references[index] += try references(of: counted, batch, rows)
            }
        }
        return result
    }

    private func references(
        of counted: CountedRelationship, _ ids: [ManagedObjectID], _ rows: RowSet
    ) throws -> Int {
        var members: [ManagedObjectID]
        if let slot = counted.relationship.slot {
            members = try rows.compactMap {
                guard case .objectID(let id) = try $0.value(at: slot) else { return nil }
                return id
            }
        } else {
            members = try store.relatedObjects(of: ids, through: counted.relationship).members
                .map { ManagedObjectID(bits: $0, store: store.identity) }
        }
        members.removeAll { !counted.members.contains($0.entityNumber) }
        let present = Set(try store.rows(for: Array(Set(members))).map(\.objectID))
        return members.count { present.contains($0) }
    }
}

extension PersistentStore {
    /// Calls a closure with what counts in the store.
    package func counting<Result>(_ body: (any ContentCounter) throws -> Result) throws -> Result {
        guard let store = self as? SQLiteStore else {
            return try body(RowContentCounter(store: self))
        }
        return try store.read {
            try body(SQLContentCounter(connection: $0, schema: store.schema))
        }
    }
}

extension SQLiteConnection {
    /// The numbers in the only row of a query.
    func counts(_ query: SQLFragment) throws -> [Int] {
        try withStatement(query.sql) { statement in
            try statement.bind(query.bindings)
            guard try statement.step() else { return [0] }
            return (0..<statement.columnCount).map { Int(statement.integer(Int32($0))) }
        }
    }
}
