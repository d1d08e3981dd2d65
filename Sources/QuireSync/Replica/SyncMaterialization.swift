internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore

/// Writes the rows that follow from changed records.
///
/// Rows are a function of all records, so a change of one object may change others' rows: of those that refer to it, that share
/// its unique values, that require it. The steps:
///
/// 1. Find the objects whose rows may change.
/// 2. Give identifiers to those that get a row.
/// 3. Compare each row with the values that it is to have.
/// 4. Add the other sides of changed relationships, and orders.
/// 5. Save, without validation: what is not valid by itself has no row.
final class SyncMaterialization {
    private let tables: SyncTables
    private let values: SyncValues
    private var model: SyncModel { tables.model }
    private var store: SQLiteStore { tables.store }
    private var changes = ChangeSet()
    private var updates: [ManagedObjectID: ObjectChange] = [:]
    private var insertions: [ManagedObjectID: ObjectChange] = [:]
    private var members: [ManagedObjectID: [Int: Members]] = [:]
    private var deleted: Set<ManagedObjectID> = []
    /// The number of objects that have been hidden.
    private(set) var hiddenCount = 0

    /// The objects that come into a relationship and go out of it.
    private struct Members {
        var added: [ManagedObjectID] = []
        var removed: [ManagedObjectID] = []
        /// Whether its order must be looked at.
        var isMoved = false
    }

    /// The author of the saves, in the store's history.
    static let author = "QuireSync"

    init(_ tables: SyncTables, blobs: [Data: Data]) {
        self.tables = tables
        values = SyncValues(tables, tables.model, blobs: blobs)
    }

    /// - Returns: The objects whose rows have changed.
    func run(_ touched: Set<SyncIdentifier>) throws -> ObjectIDChanges {
        let affected = try affectedObjects(by: touched)
        for abandoned in tables.abandonedRows { try deleteRow(abandoned.row) }
        var shown: [SyncIdentifier] = []
        let listed = try tables.listedHiddenObjects()
        for id in affected.sorted() {
            guard let object = try tables.object(id) else { continue }
            if try values.visibility.isVisible(id) {
                shown.append(id)
            } else if let objectID = object.objectID {
                try hide(object, objectID)
            }
            let isHidden = try values.visibility.obstacle(of: id) != nil
            if isHidden == listed.contains(id) { continue }
            if isHidden {
                try tables.listHidden(object.record)
                hiddenCount += 1
            } else {
                try tables.removeHidden(id)
            }
        }
        try identify(shown)
        for id in shown { try write(id) }
        try writeOrders()
        return try save()
    }

    // MARK: - Affected objects

    private func affectedObjects(by touched: Set<SyncIdentifier>) throws -> Set<SyncIdentifier> {
        var affected: Set<SyncIdentifier> = []
        var pending = Array(touched)
        // An object that is hidden or shown because of one value hides or shows others by its other values, and so on.
        for value in tables.changedUniqueValues {
            guard let holder = try tables.objects(withUniqueValue: value).first else { continue }
            for id in try values.visibility.competitors(of: holder) {
                pending.append(id)
                pending += try tables.referrers(of: id)
            }
        }
        for id in touched
        where !tables.changedUniqueValues.isEmpty || tables.changedExistences.contains(id) {
            pending += try tables.referrers(of: id)
        }
        for (id, objectID) in tables.abandonedRows {
            pending.append(id)
            pending += try tables.referrers(of: id)
            if let entity = model[store.layout.entity(number: objectID.entityNumber)] {
                for slot in entity.slots {
                    guard let partner = try partner(at: slot, of: objectID, entity) else {
                        continue
                    }
                    pending.append(partner)
                    pending += try values.claimants(of: partner)
                }
            }
        }
        while let id = pending.popLast() {
            guard affected.insert(id).inserted, let object = try tables.object(id) else { continue }
            // It has what a hidden object was linked with.
            pending.append(try values.visibility.survivor(of: id))
            let isVisible = try values.visibility.isVisible(id)
            if isVisible != (object.objectID != nil) { pending += try tables.referrers(of: id) }
            guard let entity = model.entity(named: object.record.entity) else { continue }
            try addPartners(of: object, entity, to: &pending)
        }
        return affected
    }

    /// Adds the objects at the other ends of one-to-one relationships, and those that refer to them.
    private func addPartners(
        of object: SyncTables.Object, _ entity: SyncModel.Entity,
        to pending: inout [SyncIdentifier]
    ) throws {
        for slot in entity.slots {
            guard model.isOneToOne(slot, of: entity) else { continue }
            var partners: [SyncIdentifier] = []
            if case .reference(let id)? = object.record[.property(entity.name(of: slot))]?.value {
                partners.append(try values.visibility.survivor(of: id))
            }
            if let objectID = object.objectID,
                let old = try partner(at: slot, of: objectID, entity)
            {
                partners.append(old)
            }
            for partner in partners {
                pending.append(partner)
                pending += try values.claimants(of: partner)
            }
        }
    }

    /// The object at the other end of a one-to-one relationship, by an object's row.
    private func partner(
        at slot: ResolvedEntity.Slot, of objectID: ManagedObjectID, _ entity: SyncModel.Entity
    ) throws -> SyncIdentifier? {
        guard model.isOneToOne(slot, of: entity), let row = try store.row(for: objectID),
            case .objectID(let other) = try row.value(at: slot.index)
        else { return nil }
        return try tables.object(at: other)?.record.id
    }

    // MARK: - Rows

    private func identify(_ ids: [SyncIdentifier]) throws {
        var new: [Int: [SyncIdentifier]] = [:]
        for id in ids {
            guard let object = try tables.object(id), object.objectID == nil,
                let entity = model.entity(named: object.record.entity)
            else { continue }
            new[entity.entity.number, default: []].append(id)
        }
        for (number, ids) in new.sorted(by: { $0.key < $1.key }) {
            let objectIDs = try store.reserveObjectIDs(
                for: store.layout.entity(number: number), count: ids.count, durably: false)
            for (id, objectID) in zip(ids, objectIDs) {
                guard var object = try tables.object(id) else { continue }
                object.objectID = objectID
                try tables.put(object)
                let entity = store.layout.entity(number: number)
                insertions[objectID] = ObjectChange(
                    objectID: objectID, entity: entity, version: 0, values: entity.defaultValues,
                    changedSlots: SlotMask(first: entity.slots.count))
            }
        }
    }

    private func hide(_ object: SyncTables.Object, _ objectID: ManagedObjectID) throws {
        try deleteRow(objectID)
        var object = object
        object.objectID = nil
        try tables.put(object)
    }

    private func deleteRow(_ objectID: ManagedObjectID) throws {
        if let row = try store.row(for: objectID) {
            changes.deleted.append(ObjectDeletion(objectID: objectID, version: nil))
            deleted.insert(objectID)
            for slot in row.entity.slots where slot.relationshipIndex != nil {
                if case .objectID(let target) = try row.value(at: slot.index) {
                    change(slot, of: row.entity, objectID, from: target, to: nil)
                }
            }
        }
    }

    private func write(_ id: SyncIdentifier) throws {
        guard let object = try tables.object(id), let objectID = object.objectID,
            let entity = model.entity(named: object.record.entity)
        else { return }
        let isNew = insertions[objectID] != nil
        let row = isNew ? nil : try store.row(for: objectID)
        // A row that the store has not any more, although nothing says that it was deleted.
        guard var change = insertions[objectID] ?? row.map({ ObjectChange(updating: $0) }) else {
            return
        }
        for slot in entity.slots + entity.mirroredSlots {
            let value = try values.value(of: slot, object.record, entity)
            let current = try row?.valueWithoutLoading(at: slot.index) ?? .null
            if !isNew, try value.isSame(as: current) { continue }
            let new = try attributeValue(value, of: slot, id, current)
            if !isNew, new == current { continue }
            change.values[slot.index] = new
            change.changedSlots.insert(slot.index)
            if slot.relationshipIndex != nil {
                self.change(
                    slot, of: entity.entity, objectID, from: current.objectID, to: new.objectID)
            }
        }
        if isNew {
            insertions[objectID] = change
        } else if !change.changedSlots.isEmpty {
            updates[objectID] = change
        }
        for relationship in entity.memberships {
            try writeMembers(of: relationship, object.record, objectID, isNew: isNew)
        }
        for relationship in entity.orders {
            members[objectID, default: [:]][relationship.index, default: Members()].isMoved = true
        }
    }

    /// A value to write: of a file that has not arrived, null.
    private func attributeValue(
        _ value: SyncValues.Value, of slot: ResolvedEntity.Slot, _ id: SyncIdentifier,
        _ current: AttributeValue
    ) throws -> AttributeValue {
        switch value {
        case .value(let value): return value
        case .blob(let blob):
            if let data = values.blobs[blob.digest] {
                try tables.setMissing(blob, of: id, false)
                return .binary(data)
            }
            try tables.setMissing(blob, of: id, true)
            return .null
        }
    }

    // MARK: - Relationships

    /// Records what a changed to-one relationship means for the other side.
    private func change(
        _ slot: ResolvedEntity.Slot, of entity: ResolvedEntity, _ objectID: ManagedObjectID,
        from old: ManagedObjectID?, to new: ManagedObjectID?
    ) {
        guard old != new, let index = slot.relationshipIndex,
            let inverse = model.layout.inverse(of: entity.relationships[index]), inverse.isToMany
        else { return }
        if let old {
            members[old, default: [:]][inverse.index, default: Members()].removed.append(objectID)
        }
        if let new {
            members[new, default: [:]][inverse.index, default: Members()].added.append(objectID)
        }
    }

    private func writeMembers(
        of relationship: ResolvedEntity.Relationship, _ record: SyncRecord,
        _ objectID: ManagedObjectID, isNew: Bool
    ) throws {
        var wanted: Set<ManagedObjectID> = []
        for id in try values.members(of: relationship, record) {
            if let objectID = try tables.object(id)?.objectID { wanted.insert(objectID) }
        }
        let current = isNew ? [] : Set(try relatedIDs(of: objectID, relationship))
        let added = wanted.subtracting(current).sorted { $0.bits < $1.bits }
        let removed = current.subtracting(wanted).sorted { $0.bits < $1.bits }
        if added.isEmpty, removed.isEmpty { return }
        members[objectID, default: [:]][relationship.index, default: Members()].added += added
        members[objectID, default: [:]][relationship.index, default: Members()].removed += removed
        guard let inverse = model.layout.inverse(of: relationship) else { return }
        for target in added {
            members[target, default: [:]][inverse.index, default: Members()].added.append(objectID)
        }
        for target in removed {
            members[target, default: [:]][inverse.index, default: Members()].removed
                .append(objectID)
        }
    }

    private func relatedIDs(
        of objectID: ManagedObjectID, _ relationship: ResolvedEntity.Relationship
    ) throws -> [ManagedObjectID] {
        let rows = try store.relatedRows(of: objectID, through: relationship)
        return (0..<rows.count).map { rows[$0].objectID }
    }

    private func writeOrders() throws {
        for (objectID, relationships) in members where !deleted.contains(objectID) {
            var toMany: [ToManyChange] = []
            let entity = store.layout.entity(number: objectID.entityNumber)
            for (index, found) in relationships.sorted(by: { $0.key < $1.key }) {
                let relationship = entity.relationships[index]
                var change = ToManyChange(
                    relationshipIndex: index, added: found.added, removed: found.removed)
                if relationship.isOrdered {
                    change.order = try order(of: relationship, objectID, found)
                }
                if change.added.isEmpty, change.removed.isEmpty, change.order == nil { continue }
                toMany.append(change)
            }
            if toMany.isEmpty { continue }
            if insertions[objectID] != nil {
                insertions[objectID]?.toManyChanges += toMany
                continue
            }
            guard
                var change = try updates[objectID]
                    ?? store.row(for: objectID).map({
                        ObjectChange(updating: $0)
                    })
            else { continue }
            change.toManyChanges += toMany
            updates[objectID] = change
        }
    }

    /// The order that a relationship is to have; `nil` if it has it.
    private func order(
        of relationship: ResolvedEntity.Relationship, _ objectID: ManagedObjectID, _ found: Members
    ) throws -> [ManagedObjectID]? {
        guard let record = try tables.object(at: objectID)?.record else { return nil }
        let old = insertions[objectID] == nil ? try relatedIDs(of: objectID, relationship) : []
        let removed = Set(found.removed)
        var ids: [SyncIdentifier] = []
        var objectIDs: [SyncIdentifier: ManagedObjectID] = [:]
        for member in old.filter({ !removed.contains($0) }) + found.added {
            guard let id = try tables.object(at: member)?.record.id, objectIDs[id] == nil else {
                continue
            }
            ids.append(id)
            objectIDs[id] = member
        }
        let order = values.sorted(ids, in: relationship, of: record).compactMap { objectIDs[$0] }
        return order == old ? nil : order
    }

    // MARK: - Saving

    private func save() throws -> ObjectIDChanges {
        changes.inserted = insertions.values.sorted { $0.objectID.bits < $1.objectID.bits }
        changes.updated = updates.values.sorted { $0.objectID.bits < $1.objectID.bits }
        changes.origin = TransactionOrigin(author: Self.author)
        if changes.isEmpty { return ObjectIDChanges() }
        let derived = try store.save(changes)
        var result = ObjectIDChanges()
        result.inserted = changes.inserted.map(\.objectID)
        result.updated = changes.updated.map(\.objectID) + derived
        result.deleted = changes.deleted.map(\.objectID)
        return result
    }
}

extension AttributeValue {
    fileprivate var objectID: ManagedObjectID? {
        if case .objectID(let id) = self { id } else { nil }
    }
}
