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
        if let refusal { throw refusal }
        isParent = true
        guard isRelay else { return takeOver(changes) }
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
        let readAtOnce = realizeFaults(for: changes.updated)
        defer { withExtendedLifetime(readAtOnce) {} }
        var updated: [(ObjectChange, ManagedObject)] = []
        updated.reserveCapacity(changes.updated.count)
        for change in changes.updated {
            let wasFault = object(with: change.objectID).isFault
            guard let object = objectToUpdate(change) else { continue }
            if wasFault && object.chunk === change.base?.chunk { adoptOrders(change, object) }
            applyToMany(change, to: object)
            updated.append((change, object))
        }
        for (change, object) in updated { applyValues(change, to: object) }
        for deletion in changes.deleted { delete(deletion) }
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

    /// Reads the objects whose versions the child does not know, with one request instead of one for each: those
    /// that were saved through this context, and that nobody has held here since. Gives them, to be held.
    private func realizeFaults(for changes: [ObjectChange]) -> [ManagedObject] {
        var faults: [ManagedObject] = []
        for change in changes where change.writesRow || logsChanges {
            if let base = change.base,
                base.version > 0 || parent != nil
                    || versionsForChildren[change.objectID.bits] != nil
            {
                continue
            }
            let object = object(with: change.objectID)
            if object.isFault { faults.append(object) }
        }
        // What cannot be read now is asked for again, object by object, and says why.
        if faults.count > 1 { try? realizeFaults(of: faults) }
        return faults
    }

    /// The object of a change, with its version known; `nil` if it is gone.
    private func objectToUpdate(_ change: ObjectChange) -> ManagedObject? {
        let object = object(with: change.objectID)
        guard object.state.contains(.live) else { return nil }
        if let base = change.base {
            if base.version > 0 {
                object.adopt(base)
            } else if object.isFault {
                if parent != nil {
                    object.adopt(base)
                } else if let version = versionsForChildren[object.objectID.bits] {
                    object.adopt(base)
                    object.version = UInt32(truncatingIfNeeded: version)
                }
            }
        }
        if change.writesRow || logsChanges { object.realize() }
        return object.state.contains(.live) && !object.isInaccessible ? object : nil
    }

    private func applyValues(_ change: ObjectChange, to object: ManagedObject) {
        for slot in change.values.indices where change.changedSlots.contains(slot) {
            if object.entity.storages[slot] == .reference {
                applyReference(change.values[slot], at: slot, to: object)
            } else {
                object.write(change.values[slot], at: slot)
            }
        }
        track(object)
    }

    private func applyReference(_ value: AttributeValue, at slot: Int, to object: ManagedObject) {
        var value = value
        if case .objectID(let id) = value, isDeletedHere(id) { value = .null }
        var new: ManagedObjectID?
        if case .objectID(let id) = value { new = id }
        if let old = object.objectID(at: slot), old != new,
            let index = object.entity.slots[slot].relationshipIndex,
            let inverse = layout.inverse(of: object.entity.relationships[index])
        {
            leave(object, old, inverse, wasSaved: object.edits?.changed.contains(slot) != true)
        }
        object.write(value, at: slot)
    }

    /// Takes an object out of the relationship of one that it led to, if it is still in there. `wasSaved` tells
    /// whether the parent has it that way.
    func leave(
        _ object: ManagedObject, _ old: ManagedObjectID, _ inverse: EntityLayout.Relationship,
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

    /// Takes over the saved order of relationships that the child has changed, as it has seen them.
    private func adoptOrders(_ change: ObjectChange, _ object: ManagedObject) {
        for toMany in change.toManyChanges {
            guard let order = toMany.previousOrder,
                let index = change.entity.relationships[toMany.relationshipIndex].toManyIndex
            else { continue }
            let edits = object.editsForRelationships()
            if edits.toMany[index].members == nil { edits.toMany[index].load(order) }
        }
    }

    private func isDeletedHere(_ id: ManagedObjectID) -> Bool {
        identityMap.find(id.bits).map { !$0.state.contains(.live) } ?? false
    }

    private func delete(_ deletion: ObjectDeletion) {
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
        let known = versionsForChildren[deletion.objectID.bits]
        if let version = deletion.version ?? known.map({ UInt32(truncatingIfNeeded: $0) }), wasFault
        {
            object.version = version
            object.state.insert(.realized)
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
    ) -> [(EntityLayout.Relationship, EntityLayout.Relationship, ManagedObject)] {
        guard let edits = object.edits else { return [] }
        var found: [(EntityLayout.Relationship, EntityLayout.Relationship, ManagedObject)] = []
        for relationship in object.entity.relationships {
            guard let inverse = layout.inverse(of: relationship) else { continue }
            var ids: [ManagedObjectID] = []
            if let slot = relationship.slot {
                if edits.changed.contains(slot), let id = object.objectID(at: slot) { ids = [id] }
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
