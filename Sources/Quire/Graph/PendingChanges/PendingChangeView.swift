internal import Foundation
internal import OrderedCollections

/// What a parent's children read while their changes wait to be saved: these, laid over the rows of the coordinator. Any thread
/// may use it, and none waits for another.
///
/// The changes were taken first, and rows are read then. Changes that are saved in between are seen in both, and are equal.
final class PendingChangeView: Sendable {
    let changes: PendingChangeSet
    let generation: Int
    /// Whether a save of some of the changes runs, so that the store may have them at any moment.
    let isBeingSaved: Bool
    let coordinator: PersistentStoreCoordinator
    let matches: PendingMatches

    init(
        changes: PendingChangeSet, matches: PendingMatches, generation: Int, isBeingSaved: Bool,
        coordinator: PersistentStoreCoordinator
    ) {
        self.changes = changes
        self.matches = matches
        self.generation = generation
        self.isBeingSaved = isBeingSaved
        self.coordinator = coordinator
    }

    // MARK: Requests

    func rows(matching request: FetchRequest) throws -> RowSet {
        if changes.changes.isEmpty { return try coordinator.rows(matching: request) }
        if request.includesPendingChanges { return try overlay(for: request).rows() }
        return try replacingRows(in: coordinator.rows(matching: request))
    }

    func count(matching request: FetchRequest) throws -> Int {
        if changes.changes.isEmpty { return try coordinator.count(matching: request) }
        if request.includesPendingChanges {
            var request = request
            if isBeingSaved {
                // Correcting a number takes a second look at the store, which may be another by then.
                request.sortOrderings = []
                return try overlay(for: request).identifiers().count
            }
            request.resultType = .count
            return try overlay(for: request).count()
        }
        if !changes.hasDeletions { return try coordinator.count(matching: request) }
        return try objectIDs(matching: request).count
    }

    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        if changes.changes.isEmpty { return try coordinator.objectIDs(matching: request) }
        if request.includesPendingChanges {
            return ObjectIDList(
                bits: try overlay(for: request).identifiers(), store: coordinator.storeIdentity)
        }
        let found = try coordinator.objectIDs(matching: request)
        return ObjectIDList(bits: found.bits.filter { !isDeleted($0) }, store: found.store)
    }

    private func overlay(for request: FetchRequest) throws -> PendingChangeOverlay<PendingObjects> {
        let layer = PendingObjects(view: self)
        return try PendingChangeOverlay(of: layer.changedObjects(), in: layer, request: request)
    }

    // MARK: Rows

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        if let position = changes.position(of: objectID.bits) {
            if changes.changes[position].kind == .deleted { return nil }
            if changes.changes[position].hasValues {
                return try rowSet(ofChangesAt: [position]).first
            }
        }
        return try coordinator.row(for: objectID, maximumAge: maximumAge)
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        var own: [Int] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let position = changes.position(of: id.bits) else {
                others.append(id)
                continue
            }
            if changes.changes[position].kind == .deleted { continue }
            if changes.changes[position].hasValues {
                own.append(position)
            } else {
                others.append(id)
            }
        }
        if own.isEmpty { return try coordinator.rows(for: others, maximumAge: maximumAge) }
        let packed = try rowSet(ofChangesAt: own)
        if others.isEmpty { return packed }
        return try coordinator.rows(for: others, maximumAge: maximumAge).appending(packed)
    }

    /// The rows that changed objects with values would have.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a row would be larger than rows can be.
    func rowSet(ofChangesAt positions: some Collection<Int>) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: coordinator.layout, store: coordinator.storeIdentity,
            externalData: HeldExternalData(), expectedRows: positions.count)
        builder.reserveCapacity(positions.count)
        for position in positions {
            let entity = changes.changes[position].change.entity
            // With the parent's save the object will be of another version.
            builder.beginRow(
                changes.changes[position].change.objectID.bits, entity: entity, version: 0)
            for slot in entity.slots where slot.isStored {
                let value = try changes.value(ofChangeAt: position, slot: slot.index)
                try builder.setHeld(value, at: slot)
            }
            builder.endRow()
        }
        return builder.finish()
    }

    private func isDeleted(_ bits: UInt64) -> Bool { changes[bits]?.kind == .deleted }

    /// Puts the rows with values that are not saved in the place of those found, without deleted ones.
    private func replacingRows(in found: RowSet) throws -> RowSet {
        var own: [Int] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(found.count)
        for position in found.indices {
            guard let change = changes.position(of: found.identifierBits(at: position)) else {
                picks.append(.own(position))
                continue
            }
            if changes.changes[change].kind == .deleted { continue }
            if changes.changes[change].hasValues {
                picks.append(.other(own.count))
                own.append(change)
            } else {
                picks.append(.own(position))
            }
        }
        if own.isEmpty && picks.count == found.count { return found }
        return try found.arranged(picks, with: rowSet(ofChangesAt: own))
    }

    // MARK: Relationships

    /// The rows of the objects in a relationship, in its order.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        let change = changes[objectID.bits]
        if changes.changes.isEmpty {
            return try coordinator.relatedRows(of: objectID, through: relationship)
        }
        switch change?.kind {
        case .deleted: return try rowSet(ofChangesAt: [])
        case .inserted:
            return try rows(of: members([], change, relationship), among: rowSet(ofChangesAt: []))
        default: break
        }
        let saved = try coordinator.relatedRows(of: objectID, through: relationship)
        let ids = saved.indices.map { saved.objectID(at: $0) }
        return try rows(of: members(ids, change, relationship), among: saved)
    }

    /// What a relationship leads to.
    private func members(
        _ saved: [ManagedObjectID], _ change: PendingChange?,
        _ relationship: EntityLayout.Relationship
    ) -> [ManagedObjectID] {
        var members = saved
        let toMany = change?.change.toManyChanges.first { toMany in
            change?.entity.relationships[toMany.relationshipIndex].toManyIndex
                == relationship.toManyIndex
        }
        if let toMany {
            let removed = Set(toMany.removed)
            members.removeAll(where: removed.contains)
            let present = Set(members)
            members += toMany.added.filter { !present.contains($0) }
            if let order = toMany.order {
                let present = OrderedSet(members)
                members = OrderedSet(order.filter(present.contains)).union(present).elements
            }
        }
        members.removeAll { isDeleted($0.bits) }
        return members
    }

    private func rows(of members: [ManagedObjectID], among saved: RowSet) throws -> RowSet {
        var positions: [UInt64: RowSet.Pick] = [:]
        for position in saved.indices {
            let bits = saved.identifierBits(at: position)
            if changes[bits]?.hasValues != true { positions[bits] = .own(position) }
        }
        let others = try rows(
            for: members.filter { positions[$0.bits] == nil }, maximumAge: -1)
        if others.isEmpty, members.elementsEqual(saved.indices.map(saved.objectID)) { return saved }
        for position in others.indices {
            positions[others.identifierBits(at: position)] = .other(position)
        }
        return saved.arranged(members.compactMap { positions[$0.bits] }, with: others)
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: EntityLayout.Relationship
    ) throws -> RelatedObjects {
        if changes.changes.isEmpty || relationship.toManyIndex == nil {
            return try coordinator.relatedObjects(of: objectIDs, through: relationship)
        }
        var changed: [ManagedObjectID] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let change = changes[id.bits] else {
                others.append(id)
                continue
            }
            switch change.kind {
            case .deleted: break
            case .inserted: changed.append(id)
            default:
                if change.change.toManyChanges.isEmpty {
                    others.append(id)
                } else {
                    changed.append(id)
                }
            }
        }
        var related = try coordinator.relatedObjects(of: others, through: relationship)
        // Those are not as the children see them.
        related.rows = related.rows.map { rows in
            rows.filtered { changes[$0].map { $0.kind != .deleted && !$0.hasValues } ?? true }
        }
        for id in changed {
            let rows = try relatedRows(of: id, through: relationship)
            related.append(rows.indices.map { rows.objectID(at: $0) }, of: id)
        }
        related.removeMembers(where: isDeleted)
        return related
    }
}
