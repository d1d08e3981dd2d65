import Foundation
package import QuireModel
internal import QuireQuery
internal import QuireSQLite
package import QuireStore
internal import QuireSystem

/// The number of objects of an entity, of the values of some attributes, and of the references of some relationships.
package struct ContentCount: Equatable {
    var objects = 0
    /// By the indexes of the requested attributes.
    var values: [Int]
    /// By the indexes of the requested relationships.
    var references: [Int]
}

/// A relationship whose references are counted.
package struct CountedRelationship {
    let relationship: ResolvedEntity.Relationship
    /// The numbers of the entities whose objects count as members.
    let members: Set<Int>
}

/// Counts the contents of a store, possibly one under construction.
package protocol ContentCounter {
    /// Counts the objects of an entity, without those of its sub-entities, and their values and references.
    ///
    /// Null and decimal NaN do not count as values; dangling foreign keys do not count as references.
    func count(
        of entity: ResolvedEntity, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount
}

extension AttributeValue {
    /// Whether the value counts: Core Data reads a decimal NaN as null.
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
        of entity: ResolvedEntity, slots: [Int], relationships: [CountedRelationship]
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
        of entity: ResolvedEntity, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount {
        var result = ContentCount(
            values: slots.map { _ in 0 }, references: relationships.map { _ in 0 })
        let ids = try store.objectIDs(matching: FetchSpecification(only: entity.name))
        result.objects = ids.count
        try ids.forEachBatch { batch in
            let rows = try store.rows(for: batch)
            for (index, slot) in slots.enumerated() {
                result.values[index] += try rows.reduce(0) {
                    try $0 + ($1.valueWithoutLoading(at: slot).isValue ? 1 : 0)
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
    /// Calls a closure with a counter of the store's contents.
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
        try row(query.sql, query.bindings) { row in
            (0..<row.columnCount).map { Int(row.integer($0)) }
        } ?? [0]
    }
}

// MARK: - Checking a transfer

/// Compares the numbers of objects, values and references that a mapping migrates with those that arrived.
///
/// A safety net for every migration and conversion: omissions of the mapping are determined in advance
/// (``MappingOmissions``), and anything else that is missing afterwards was lost by mistake. Entities that are mapped by a
/// policy, with a predicate or by several mappings are not counted.
package struct TransferCheck {
    /// The expected counts of an entity of the new model.
    private struct Expectation {
        var objects = 0
        /// By slot.
        var values: [Int: Int] = [:]
        /// By the index of the relationship.
        var references: [Int: Int] = [:]
    }

    private let destination: ResolvedModel
    /// By the numbers of new entities.
    private var expectations: [Int: Expectation] = [:]

    /// Counts the data that a mapping migrates.
    ///
    /// - Parameters:
    ///   - source: The counter of the old store.
    ///   - mayLose: Whether a new entity's objects could lose data; others are not counted.
    package init(
        _ plan: TransferPlan, from source: any ContentCounter,
        where mayLose: (ResolvedEntity) -> Bool = { _ in true }
    ) throws {
        destination = plan.destination
        let counted = plan.transfers.filter {
            $0.mapping.entityMigrationPolicyName == nil
                && $0.mapping.sourcePredicateFormat == nil
                && plan.transfers(ofEntity: $0.source.number).count == 1
        }
        for transfer in counted
        where !transfer.source.isAbstract && mayLose(transfer.destination) {
            let values = transfer.values.enumerated().compactMap { slot, value -> (Int, Int)? in
                guard case .copy(let from, _, _) = value else { return nil }
                return (slot, from)
            }
            let relationships = transfer.relationships.sorted { $0.key < $1.key }.compactMap {
                index, expression -> (Int, CountedRelationship)? in
                let new = transfer.destination.relationships[index]
                guard let name = expression.relationshipName,
                    let old = transfer.source.relationship(named: name),
                    !old.description.isTransient, !new.description.isTransient
                else { return nil }
                let members = plan.destination.destination(of: new).subtree
                let taken = counted.filter { members.contains($0.destination.number) }
                return (
                    index,
                    CountedRelationship(relationship: old, members: Set(taken.map(\.source.number)))
                )
            }
            let count = try source.count(
                of: transfer.source, slots: values.map(\.1), relationships: relationships.map(\.1))
            var expectation = expectations[transfer.destination.number] ?? Expectation()
            expectation.objects += count.objects
            for ((slot, _), count) in zip(values, count.values) {
                expectation.values[slot, default: 0] += count
            }
            for ((index, _), count) in zip(relationships, count.references) {
                expectation.references[index, default: 0] += count
            }
            expectations[transfer.destination.number] = expectation
        }
    }

    /// Checks that all counted data has arrived.
    ///
    /// - Parameters:
    ///   - counter: The counter of the new store.
    ///   - path: The path of the old store.
    /// - Throws: ``QuireError`` with code `removalDenied`, which lists the missing data.
    package func requireAll(in counter: any ContentCounter, path: String?) throws {
        let missing = try missing(in: counter)
        if !missing.isEmpty { throw QuireError.lossDenied(missing, path: path) }
    }

    /// The objects, values and references that are missing.
    package func missing(in counter: any ContentCounter) throws -> [MigrationRemoval] {
        var missing: [MigrationRemoval] = []
        for (number, expectation) in expectations.sorted(by: { $0.key < $1.key }) {
            let entity = destination.entity(number: number)
            let slots = expectation.values.keys.sorted()
            let indexes = expectation.references.keys.sorted()
            let count = try counter.count(
                of: entity, slots: slots,
                relationships: indexes.map {
                    let relationship = entity.relationships[$0]
                    return CountedRelationship(
                        relationship: relationship,
                        members: Set(destination.destination(of: relationship).subtree))
                })
            func note(_ property: String?, _ expected: Int, _ found: Int) {
                if found >= expected { return }
                missing.append(
                    MigrationRemoval(
                        entityName: entity.name, propertyName: property, count: expected - found))
            }
            note(nil, expectation.objects, count.objects)
            for (slot, found) in zip(slots, count.values) {
                note(entity.slots[slot].name, expectation.values[slot] ?? 0, found)
            }
            for (index, found) in zip(indexes, count.references) {
                note(entity.relationships[index].name, expectation.references[index] ?? 0, found)
            }
        }
        return missing
    }
}
