internal import OrderedCollections

/// Takes over what a child saves, as one change of this context that its undo manager can take back.
///
/// The child has kept both sides of relationships in step, as it saw them. What another child has saved in the
/// meantime, or was changed here, may not fit that. Then what comes last counts, property by property, except
/// that what is deleted stays deleted; and the sides are brought in step again:
///
/// - An object that is deleted here takes no changes, and nothing can lead to it.
/// - An object that a to-one relationship leads to no longer, because another comes in its place, is left on both
///   sides.
/// - What the context alone has related to an object that the child deletes is treated by the delete rules.
///
/// - Complexity: O(*n*) in what the child changed. Objects are read only for their versions, where the child does
///   not know them.
extension ManagedObjectContext {
    package func apply(_ changes: ChangeSet) throws {
        checkQueue()
        if let saveBlock { throw saveBlock }
        isParent = true
        guard isWriteBehindParent else { return takeOver(changes) }
        processPendingChanges()
        takeOver(changes)
        savedByChild = objects(asSavedIn: changes)
        processPendingChanges()
        savedByChild = []
    }

    /// The objects of a change set that are here as the child has them: not those that refer to objects which are
    /// deleted here.
    private func objects(asSavedIn changes: ChangeSet) -> Set<UInt64> {
        var objects = Set(changes.deleted.map(\.objectID.bits))
        for change in changes.inserted + changes.updated {
            let refersToDeleted =
                change.entity.identifierSlots.contains {
                    guard case .objectID(let id) = change.values[$0] else { return false }
                    return change.changedSlots.contains($0) && isDeletedHere(id)
                } || change.toManyChanges.contains { $0.added.contains(where: isDeletedHere) }
            if !refersToDeleted { objects.insert(change.objectID.bits) }
        }
        return objects
    }

    /// Makes changes that were made to other objects of the same identifiers, in another context or at another time.
    func takeOver(_ changes: ChangeSet) {
        takeOver(changes, outdated: staleRows(of: changes))
    }

    /// `outdated` are those of the objects that others have saved or changed since they were read.
    func takeOver(_ changes: ChangeSet, outdated: Set<UInt64>) {
        var changes = changes
        for index in changes.updated.indices {
            let change = changes.updated[index]
            if let values = change.savedValues {
                changes.updated[index].base = values.packed(
                    as: change, layout: layout, store: storeIdentity)
            }
        }
        // All new objects are there before anything leads to them.
        let inserted = changes.inserted.map(insert)
        for (change, object) in zip(changes.inserted, inserted) {
            for slot in object.entity.identifierSlots {
                if case .objectID(let id) = change.values[slot], isDeletedHere(id) {
                    object.write(.null, at: slot)
                }
            }
            applyToMany(change, to: object)
        }
        let readAtOnce = realizeFaults(for: changes.updated, outdated)
        defer { withExtendedLifetime(readAtOnce) {} }
        var updated: [(ObjectChange, ManagedObject)] = []
        var seen: [(ObjectChange, ManagedObject)] = []
        updated.reserveCapacity(changes.updated.count)
        for change in changes.updated {
            guard let object = objectToUpdate(change, outdated, child: changes.child) else {
                continue
            }
            if object.edits?.child == changes.child && changes.child != 0 {
                seen.append((change, object))
            }
            applyToMany(change, to: object)
            updated.append((change, object))
        }
        let deleted = Set(changes.deleted.lazy.map(\.objectID.bits))
        for (change, object) in updated { applyValues(change, to: object, deleted) }
        for deletion in changes.deleted { delete(deletion, outdated) }
        for (change, object) in seen { noteSeen(change, object, by: changes.child) }
        for (change, object) in zip(changes.inserted, inserted) {
            noteSeen(change, object, by: changes.child)
        }
        pendingRecords.merge(changes.records) { _, new in new }
        if layout.hasSubclasses { awakeObjects(inserted, updated.map(\.1)) }
    }

    private func awakeObjects(_ inserted: [ManagedObject], _ updated: [ManagedObject]) {
        for object in inserted where object.state.contains(.hasHooks) { object.didArrive() }
        for object in updated { object.didChange(by: .refresh) }
    }

    private func insert(_ change: ObjectChange) -> ManagedObject {
        let object: ManagedObject
        if let found = identityMap.find(change.objectID.bits) {
            // Deleted here too, not saved yet, and brought back by the child's undo.
            object = found
        } else {
            object = instance(change.objectID, change.entity, state: [])
            register(object, for: change.objectID.bits)
        }
        object.state.insert(.realized)
        setLive(true, object)
        if object.edits != nil && logsChanges {
            for slot in change.values.indices where change.entity.slots[slot].isStored {
                object.write(change.values[slot], at: slot)
            }
        } else {
            let edits = object.editsForWriting()
            edits.values = change.values
            for slot in change.entity.slots where !slot.isStored {
                edits.values[slot.index] = change.entity.defaultValues[slot.index]
            }
            edits.own = SlotMask(first: change.values.count)
            edits.changed = edits.own
        }
        track(object)
        return object
    }

    /// Which objects, faults here, the child shows older than what was saved or changed since, here or above.
    private func staleRows(of changes: ChangeSet) -> Set<UInt64> {
        var rows: [KnownRowVersion] = []
        func add(_ id: ManagedObjectID, _ version: UInt32) {
            if identityMap.find(id.bits)?.state.contains(.realized) == true { return }
            rows.append(KnownRowVersion(bits: id.bits, version: version))
        }
        for change in changes.updated {
            if let version = change.baseVersion { add(change.objectID, version) }
        }
        for deletion in changes.deleted {
            if let version = deletion.version { add(deletion.objectID, version) }
        }
        return outdated(rows, by: changes.child)
    }

    /// Those of the rows that a child shows which are older than what this context, or one above it, has saved or
    /// changed since. What others save to the store is found out by the save.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64> {
        var outdated: Set<UInt64> = []
        var others: [KnownRowVersion] = []
        for row in rows {
            let isOutdated: Bool
            if let object = identityMap.find(row.bits), object.state.contains(.tracked),
                hasOwnValues(object)
            {
                isOutdated = row.version > 0 || child == 0 || object.edits?.child != child
            } else {
                isOutdated = row.isOutdated(savedVersion(of: row.bits), for: child)
            }
            if isOutdated {
                outdated.insert(row.bits)
            } else if parent != nil {
                others.append(row)
            }
        }
        if !others.isEmpty { outdated.formUnion(source.outdated(others, by: number)) }
        return outdated
    }

    /// Reads the objects that the child does not know as they are by now, with one request instead of one for each. Gives
    /// them, to be held.
    private func realizeFaults(
        for changes: [ObjectChange], _ outdated: Set<UInt64>
    ) -> [ManagedObject] {
        var faults: [ManagedObject] = []
        for change in changes where change.writesRow || logsChanges {
            if change.base != nil && !outdated.contains(change.objectID.bits) { continue }
            let object = object(with: change.objectID)
            if object.isFault { faults.append(object) }
        }
        // What cannot be read now is asked for again, object by object, and says why.
        if faults.count > 1 { try? realizeFaults(of: faults) }
        return faults
    }

    /// The object of a change, with its version known; `nil` if it is gone.
    private func objectToUpdate(
        _ change: ObjectChange, _ outdated: Set<UInt64>, child: UInt32
    ) -> ManagedObject? {
        let object = object(with: change.objectID)
        guard object.state.contains(.live) else { return nil }
        if let base = change.base {
            if outdated.contains(object.objectID.bits) {
                if change.writesRow || logsChanges { object.realize() }
                adoptIfInConflict(base, object)
            } else if object.isFault {
                adopt(base, object, child: child)
                adoptOrders(change, object, child: child)
            }
        }
        if change.writesRow || logsChanges { object.realize() }
        return object.state.contains(.live) && !object.isInaccessible ? object : nil
    }

    /// Takes over what the child has seen, so that it need not be read.
    private func adopt(_ base: ObjectSnapshot, _ object: ManagedObject, child: UInt32) {
        object.adopt(base)
        if base.version == 0, let known = savedVersion(of: object.objectID.bits)?.known {
            object.version = known
        }
        object.editsForWriting().child = child
    }

    /// Takes over what the child has seen although it is older, if others have saved since what was saved here: that is
    /// a conflict, which the save to the store must find.
    private func adoptIfInConflict(_ base: ObjectSnapshot, _ object: ManagedObject) {
        guard let known = savedVersion(of: object.objectID.bits)?.known,
            object.state.isSuperset(of: [.live, .realized]), !object.isInaccessible,
            !hasOwnValues(object), known < object.version
        else { return }
        object.state.remove(.realized)
        object.adopt(base)
        object.version = known
    }

    /// Notes that a child has seen all values of an object that it has saved, unless they are others here.
    private func noteSeen(_ change: ObjectChange, _ object: ManagedObject, by child: UInt32) {
        guard let edits = object.edits, child != 0 else { return }
        for slot in object.entity.identifierSlots where change.changedSlots.contains(slot) {
            if !object.valueWithoutLoading(at: slot).isSame(as: change.values[slot]) { return }
        }
        edits.child = child
    }

    private func applyValues(
        _ change: ObjectChange, to object: ManagedObject, _ deleted: Set<UInt64>
    ) {
        for slot in change.values.indices where change.changedSlots.contains(slot) {
            if object.entity.storages[slot] == .reference {
                applyReference(change.values[slot], at: slot, to: object, deleted)
            } else {
                object.write(change.values[slot], at: slot)
            }
        }
        track(object)
    }

    /// `deleted` are the objects that the child has deleted.
    private func applyReference(
        _ value: AttributeValue, at slot: Int, to object: ManagedObject, _ deleted: Set<UInt64>
    ) {
        var value = value
        if case .objectID(let id) = value, isDeletedHere(id) { value = .null }
        var new: ManagedObjectID?
        if case .objectID(let id) = value { new = id }
        if let old = object.reference(at: slot), old != new,
            let index = object.entity.slots[slot].relationshipIndex,
            let inverse = layout.inverse(of: object.entity.relationships[index])
        {
            // Where the child has not seen it nothing of the child's is about, and the object may not be here.
            let held = deleted.contains(old.bits) ? nil : self.object(with: old)
            leave(object, old, inverse, wasSaved: object.edits?.changed.contains(slot) != true)
            withExtendedLifetime(held) {}
        }
        object.write(value, at: slot)
    }

    /// Takes an object out of the relationship of one that it led to, if it is still in there. `wasSaved` tells
    /// whether the parent has it that way.
    func leave(
        _ object: ManagedObject, _ old: ManagedObjectID, _ inverse: ResolvedEntity.Relationship,
        wasSaved: Bool
    ) {
        guard let other = identityMap.find(old.bits), other.state.contains(.live) else { return }
        if let toMany = inverse.toManyIndex {
            let state = other.toManyState(toMany)
            let isThere =
                state.members?.contains(object.objectID)
                ?? (wasSaved || state.added.contains(object.objectID))
            if !isThere { return }
        }
        detach(object, from: other, inverse)
    }

    private func applyToMany(_ change: ObjectChange, to object: ManagedObject) {
        for toMany in change.toManyChanges {
            let relationship = change.entity.relationships[toMany.relationshipIndex]
            for id in toMany.removed { removeMember(id, from: object, relationship) }
            if !object.state.contains(.persisted) { _ = object.members(of: relationship) }
            for id in toMany.added where !isDeletedHere(id) {
                insertMember(id, into: object, relationship)
            }
            if let order = toMany.order {
                // What only this context has in there comes last.
                let present = object.members(of: relationship)
                let wanted = OrderedSet(order.filter(present.contains)).union(present)
                reorder(object, relationship, wanted)
            }
        }
    }

    /// Takes over the saved order of relationships that the child has changed, as it has seen them. What has come in or
    /// gone out since is another matter: it changes no version.
    private func adoptOrders(_ change: ObjectChange, _ object: ManagedObject, child: UInt32) {
        let saved = savedVersion(of: object.objectID.bits)
        let isKnown = parent == nil && saved?.isSeen(by: child) != false
        for toMany in change.toManyChanges {
            let relationship = change.entity.relationships[toMany.relationshipIndex]
            guard let order = toMany.previousOrder, let index = relationship.toManyIndex,
                object.toManyState(index).members == nil
            else { continue }
            var contents = OrderedSet(order)
            if !isKnown {
                guard
                    let rows = try? source.relatedRows(of: object.objectID, through: relationship)
                else { continue }
                let present = OrderedSet(rows.indices.map { rows.objectID(at: $0) })
                contents = OrderedSet(order.filter(present.contains)).union(present)
            }
            object.load(contents, as: relationship, index)
        }
    }

    private func isDeletedHere(_ id: ManagedObjectID) -> Bool {
        identityMap.find(id.bits).map { !$0.state.contains(.live) } ?? false
    }

    private func delete(_ deletion: ObjectDeletion, _ outdated: Set<UInt64>) {
        let object = object(with: deletion.objectID)
        guard object.state.contains(.live) else { return }
        let wasFault = object.isFault
        if logsChanges {
            // Undo brings back all of it, also after a save.
            object.realize()
            for relationship in object.entity.relationships where relationship.slot == nil {
                _ = object.members(of: relationship)
            }
        }
        if wasFault {
            var version = deletion.version
            if version == nil || outdated.contains(deletion.objectID.bits) {
                version = savedVersion(of: deletion.objectID.bits)?.known
            }
            if let version {
                object.version = version
                object.state.insert(.realized)
            } else if deletion.version != nil
                || savedVersion(of: deletion.objectID.bits)?.isDeleted == true
            {
                object.realize()
            }
            guard object.state.contains(.live), !object.isInaccessible else { return }
        }
        let held = unsavedReferences(to: object)
        setLive(false, object)
        for (relationship, inverse, other) in held {
            detach(object, from: other, inverse)
            if relationship.description.deleteRule == .cascade { delete(other) }
        }
    }

    /// The objects that only unsaved changes of this context relate to an object, with the relationship that leads
    /// to them and the one that leads back.
    func unsavedReferences(
        to object: ManagedObject
    ) -> [(ResolvedEntity.Relationship, ResolvedEntity.Relationship, ManagedObject)] {
        guard let edits = object.edits else { return [] }
        var found: [(ResolvedEntity.Relationship, ResolvedEntity.Relationship, ManagedObject)] = []
        for relationship in object.entity.relationships {
            guard let inverse = layout.inverse(of: relationship) else { continue }
            var ids: [ManagedObjectID] = []
            if let slot = relationship.slot {
                if edits.changed.contains(slot), let id = object.reference(at: slot) { ids = [id] }
            } else if let toMany = relationship.toManyIndex {
                ids = object.toManyState(toMany).added.elements
            }
            for id in ids {
                if let other = identityMap.find(id.bits), other.state.contains(.live) {
                    found.append((relationship, inverse, other))
                }
            }
        }
        return found
    }
}
