import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Inserts, changes and deletes objects of every entity of a store through change sets, keeping both sides of all
/// relationships, and checks the tables afterwards.
struct SQLiteCorpusEditor {
    let store: SQLiteStore
    private var random = SeededRandom(seed: 42)
    private var serial: Int64 = 0
    /// New objects by entity number: two of each that is not abstract.
    private var new: [Int: [ManagedObjectID]] = [:]
    /// The greatest keys that the books must show, by root entity's name.
    private(set) var maximumKeys: [String: String] = [:]
    private var deleted: Set<ManagedObjectID> = []

    init(store: SQLiteStore) { self.store = store }

    private var layout: ResolvedModel { store.layout }

    // MARK: - Inserting

    mutating func insertRows() throws {
        for entity in layout.entities where !entity.isAbstract {
            let ids = try store.reserveObjectIDs(for: entity, count: 2, durably: false)
            new[entity.number] = ids
            maximumKeys[layout.entity(number: entity.rootNumber).name] = "\(ids[1].primaryKey)"
        }
        var changes: [ManagedObjectID: ObjectChange] = [:]
        for (number, ids) in new {
            let entity = layout.entity(number: number)
            for id in ids {
                var values = ContiguousArray<AttributeValue>(
                    repeating: .null, count: entity.slots.count)
                for slot in entity.slots where slot.isStored && slot.attribute != nil {
                    values[slot.index] = value(for: slot)
                }
                changes[id] = ObjectChange(
                    objectID: id, entity: entity, version: 0, values: values,
                    changedSlots: SlotMask(first: entity.slots.count))
            }
        }
        for entity in layout.entities where !entity.isAbstract {
            for relationship in entity.relationships where hasPlace(relationship, of: entity) {
                try connect(entity, relationship, in: &changes)
            }
        }
        var set = ChangeSet()
        set.inserted = changes.values.sorted { $0.objectID.bits < $1.objectID.bits }
        try store.save(set)
    }

    /// Whether the store keeps the relationship; the index names a slightly older model for one of the stores.
    private func hasPlace(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> Bool {
        guard relationship.isToMany, !relationship.description.isTransient else { return true }
        if case .nowhere = store.schema.toMany(relationship, of: entity) { return false }
        return true
    }

    /// Leads the first new object of an entity to one of the destination and back, if both ends are free.
    private func connect(
        _ entity: ResolvedEntity, _ relationship: ResolvedEntity.Relationship,
        in changes: inout [ManagedObjectID: ObjectChange]
    ) throws {
        let destination = layout.destination(of: relationship)
        // The last entity below, so that polymorphic columns matter.
        guard !relationship.description.isTransient,
            let number = destination.subtree.last(where: { new[$0] != nil }),
            let source = new[entity.number]?.first, let target = new[number]?.last,
            source != target
        else { return }
        let inverse = layout.inverse(of: relationship)
        guard try isFree(relationship, of: source, for: target, changes),
            try inverse.map({ try isFree($0, of: target, for: source, changes) }) ?? true
        else { return }
        set(relationship, of: source, to: target, in: &changes)
        if let inverse { set(inverse, of: target, to: source, in: &changes) }
    }

    private func isFree(
        _ relationship: ResolvedEntity.Relationship, of id: ManagedObjectID,
        for other: ManagedObjectID,
        _ changes: [ManagedObjectID: ObjectChange]
    ) throws -> Bool {
        let change = try #require(changes[id])
        if let slot = relationship.slot { return change.values[slot].isNull }
        return !change.toManyChanges.contains {
            $0.relationshipIndex == relationship.index && $0.added.contains(other)
        }
    }

    private func set(
        _ relationship: ResolvedEntity.Relationship, of id: ManagedObjectID,
        to other: ManagedObjectID,
        in changes: inout [ManagedObjectID: ObjectChange]
    ) {
        if let slot = relationship.slot {
            changes[id]?.values[slot] = .objectID(other)
        } else if let index = changes[id]?.toManyChanges.firstIndex(where: {
            $0.relationshipIndex == relationship.index
        }) {
            changes[id]?.toManyChanges[index].added.append(other)
        } else {
            changes[id]?.toManyChanges.append(
                ToManyChange(relationshipIndex: relationship.index, added: [other], removed: []))
        }
    }

    private mutating func value(for slot: ResolvedEntity.Slot) -> AttributeValue {
        serial += 1
        switch slot.storage {
        case .integer: return .integer(serial + 1_000_000)
        case .double: return .double(Double(serial) + 0.25)
        case .boolean: return .boolean(serial % 2 == 0)
        case .decimal: return .decimal(Decimal(serial) / 100)
        case .string: return .string("new \(serial) ✓")
        case .date: return .date(Date(timeIntervalSinceReferenceDate: Double(serial) * 1000 + 0.5))
        case .binary: return .binary(Data("bytes \(serial)".utf8))
        case .uuid: return .uuid(UUID())
        case .uri: return .uri(URL(fileURLWithPath: "/new/\(serial)"))
        case .reference, .transient: return .null
        }
    }

    // MARK: - Changing

    /// Changes every attribute of the second new object and of one old object of each entity.
    mutating func changeRows() throws {
        var set = ChangeSet()
        for entity in layout.entities where !entity.isAbstract {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            let rows = try store.rows(matching: request.specification)
            for row in [rows.first, rows.last].compactMap({ $0 }) {
                if set.updated.contains(where: { $0.objectID == row.objectID }) { continue }
                var change = ObjectChange(
                    objectID: row.objectID, entity: entity, version: row.version,
                    values: ContiguousArray(repeating: .null, count: entity.slots.count),
                    changedSlots: SlotMask())
                for slot in entity.slots where slot.isStored && slot.attribute != nil {
                    change.values[slot.index] = value(for: slot)
                    change.changedSlots.insert(slot.index)
                }
                if !change.changedSlots.isEmpty { set.updated.append(change) }
            }
        }
        try store.save(set)
        for change in set.updated {
            let row = try #require(try store.row(for: change.objectID))
            #expect(row.version == change.version + 1)
            for slot in change.entity.slots where change.changedSlots.contains(slot.index) {
                let value = try row.value(at: slot.index)
                #expect(value == change.values[slot.index], "\(change.entity.name).\(slot.name)")
            }
        }
    }

    // MARK: - Deleting

    /// Deletes the first new object of each entity, cutting what leads to it.
    mutating func deleteRows() throws {
        var set = ChangeSet()
        for entity in layout.entities where !entity.isAbstract {
            guard let id = new[entity.number]?.first, let row = try store.row(for: id),
                try !isReferredTo(id)
            else { continue }
            set.deleted.append(ObjectDeletion(objectID: id, version: row.version))
            deleted.insert(id)
        }
        for entity in layout.entities where !entity.isAbstract {
            guard let id = new[entity.number]?.last, let row = try store.row(for: id) else {
                continue
            }
            var change = ObjectChange(
                objectID: id, entity: entity, version: row.version,
                values: ContiguousArray(repeating: .null, count: entity.slots.count),
                changedSlots: SlotMask())
            for relationship in entity.relationships {
                if let slot = relationship.slot {
                    if case .objectID(let target) = try row.value(at: slot),
                        deleted.contains(target)
                    {
                        change.changedSlots.insert(slot)
                    }
                } else {
                    let gone = try store.relatedRows(of: id, through: relationship).map(\.objectID)
                        .filter(deleted.contains)
                    if gone.isEmpty { continue }
                    change.toManyChanges.append(
                        ToManyChange(
                            relationshipIndex: relationship.index, added: [], removed: gone))
                }
            }
            set.updated.append(change)
        }
        try store.save(set)
    }

    /// Whether rows of the store's own lead to a new object: one store has some that led to objects which were not
    /// there, until these got their keys.
    private func isReferredTo(_ id: ManagedObjectID) throws -> Bool {
        let new = Set(self.new.values.joined())
        for relationship in layout.entity(number: id.entityNumber).relationships
        where relationship.isToMany && layout.inverse(of: relationship)?.slot != nil {
            // Some of these rows are of another model's entities.
            guard let rows = try? store.relatedRows(of: id, through: relationship),
                rows.allSatisfy({ new.contains($0.objectID) })
            else { return true }
        }
        return false
    }

    // MARK: - Checking

    /// Checks with plain SQL that the tables are as the format wants them.
    func checkRows(path: String) throws {
        func query(_ sql: String) throws -> [[String]] {
            try SQLiteTestStore.query(sql, path: path)
        }
        for id in deleted {
            let table = SQLName.quoted(store.schema.entity(number: id.entityNumber).tableName)
            #expect(try query("SELECT 1 FROM \(table) WHERE Z_PK = \(id.primaryKey)").isEmpty)
        }
        for entity in layout.entities {
            let place = store.schema.entity(entity)
            let table = SQLName.quoted(place.tableName)
            #expect(try query("SELECT 1 FROM \(table) WHERE Z_OPT IS NULL OR Z_OPT < 1").isEmpty)
            for slot in entity.slots {
                guard let column = place.columns[slot.index], let index = slot.relationshipIndex
                else {
                    continue
                }
                let destination = store.schema.entity(
                    layout.destination(of: entity.relationships[index]))
                let name = SQLName.quoted(column.name)
                if let entityColumn = column.entityColumn {
                    // The target's entity is what its row says.
                    let wrong = try query(
                        "SELECT a.Z_PK FROM \(table) a JOIN \(SQLName.quoted(destination.tableName)) b "
                            + "ON b.Z_PK = a.\(name) WHERE a.\(entityColumn) IS NOT b.Z_ENT")
                    #expect(wrong.isEmpty, "\(entity.name).\(slot.name)")
                }
                if let order = column.orderColumn {
                    let wrong = try query(
                        "SELECT Z_PK FROM \(table) WHERE (\(name) IS NULL) <> (\(order) IS NULL)")
                    #expect(wrong.isEmpty, "\(entity.name).\(slot.name)")
                    let same = try query(
                        "SELECT 1 FROM \(table) WHERE \(name) IS NOT NULL GROUP BY \(name), \(order) HAVING count(*) > 1"
                    )
                    #expect(same.isEmpty, "\(entity.name).\(slot.name)")
                }
                // Nothing leads to a deleted object.
                for id in deleted
                where layout.entity(number: id.entityNumber).rootNumber
                    == layout.destination(of: entity.relationships[index]).rootNumber
                {
                    let dangling = try query(
                        "SELECT Z_PK FROM \(table) WHERE \(name) = \(id.primaryKey) AND Z_ENT IN "
                            + "(\(place.subtreeStoreNumbers.map(String.init).joined(separator: ", ")))"
                    )
                    #expect(
                        dangling.isEmpty, "\(entity.name).\(slot.name) → \(id.shortDescription)")
                }
            }
        }
        for join in store.schema.joinTables {
            for (column, side) in [
                (join.firstColumn, join.namingSide), (join.secondColumn, join.otherSide),
            ] {
                // Some stores had dangling pairs before.
                let root = layout.entity(number: side.entityNumber).rootNumber
                let keys = deleted.filter {
                    layout.entity(number: $0.entityNumber).rootNumber == root
                }
                .map { "\($0.primaryKey)" }.joined(separator: ", ")
                let dangling = try query("SELECT 1 FROM \(join.name) WHERE \(column) IN (\(keys))")
                #expect(dangling.isEmpty, "\(join.name).\(column)")
            }
            for order in [join.firstOrderColumn, join.secondOrderColumn].compactMap({ $0 }) {
                #expect(try query("SELECT 1 FROM \(join.name) WHERE \(order) IS NULL").isEmpty)
            }
        }
    }
}
