internal import OrderedCollections
internal import QuireStore

/// Applies a child's save as one undoable change of this context.
///
/// The child has maintained inverses against its own view. Saves of other children and changes made here may contradict it.
/// Then the last change wins, property by property, except that deleted objects stay deleted; and inverses are repaired:
///
/// - An object deleted here takes no changes, and no relationship may refer to it.
/// - An object replaced in a to-one relationship is removed on both sides.
/// - Objects that only this context has related to an object deleted by the child are treated by the delete rules.
///
/// - Complexity: O(*n*) in the child's changes. Objects are read only for their versions, where the child does not have them.
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

    /// Applies changes made to objects of the same identifiers in another context, or recorded earlier.
    func takeOver(_ changes: ChangeSet) {
        takeOver(changes, outdated: staleRows(of: changes))
    }

    /// `outdated`: the objects saved or changed since the caller read them.
    func takeOver(_ changes: ChangeSet, outdated: Set<UInt64>) {
        // All inserted objects are registered before relationships refer to them.
        let inserted = changes.inserted.map(insert)
        for (change, object) in zip(changes.inserted, inserted) {
            for slot in object.resolvedEntity.identifierSlots {
                if case .objectID(let id) = change.values[slot], isDeletedHere(id) {
                    object.write(.null, at: slot)
                }
            }
            applyToMany(change, to: object)
        }
        let readAtOnce = realizeFaults(for: changes.updated, outdated)
        defer { withExtendedLifetime(readAtOnce) {} }
        var updated: [Update] = []
        updated.reserveCapacity(changes.updated.count)
        for change in changes.updated {
            guard let update = update(change, outdated, child: changes.child) else { continue }
            applyToMany(change, to: update.object)
            updated.append(update)
        }
        let deleted = Set(changes.deleted.lazy.map(\.objectID.bits))
        for update in updated {
            if !update.hasValues { applyValues(update.change, to: update.object, deleted) }
            track(update.object)
        }
        for deletion in changes.deleted { delete(deletion, outdated) }
        for update in updated where update.isSeen {
            noteSeen(update.change, update.object, by: changes.child)
        }
        for (change, object) in zip(changes.inserted, inserted) {
            noteSeen(change, object, by: changes.child)
        }
        pendingRecords.merge(changes.records) { _, new in new }
        childOrigin = changes.origin.completed(by: childOrigin)
        if layout.hasSubclasses { awakeObjects(inserted, updated.map(\.object)) }
    }

    private func awakeObjects(_ inserted: [ManagedObject], _ updated: [ManagedObject]) {
        for object in inserted where object.state.contains(.hasHooks) { object.didArrive() }
        for object in updated { object.didChange(by: .refresh) }
    }

    private func insert(_ change: ObjectChange) -> ManagedObject {
        let object: ManagedObject
        if let found = identityMap.find(change.objectID.bits) {
            // Deleted here too, unsaved, and reinserted by the child's undo.
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

    /// The objects, faults here, of which the child's base version is older than the last save or change, here or above.
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

    /// The child's rows that are older than the last save or change in this context or one above it. Saves of other
    /// coordinators are detected by the save to the store.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64> {
        var outdated: Set<UInt64> = []
        var others: [KnownRowVersion] = []
        writeBehindBuffer.withState { state in
            for row in rows {
                let isOutdated: Bool
                if let object = identityMap.find(row.bits), object.state.contains(.tracked),
                    hasOwnValues(object)
                {
                    isOutdated = row.version > 0 || child == 0 || object.edits?.child != child
                } else {
                    isOutdated = row.isOutdated(state.savedVersions[row.bits], for: child)
                }
                if isOutdated {
                    outdated.insert(row.bits)
                } else if parent != nil {
                    others.append(row)
                }
            }
        }
        if !others.isEmpty { outdated.formUnion(source.outdated(others, by: number)) }
        return outdated
    }

    /// Reads the objects of which the child's version is not the latest, with one request instead of one for each. Returns
    /// them, to be retained.
    private func realizeFaults(
        for changes: [ObjectChange], _ outdated: Set<UInt64>
    ) -> [ManagedObject] {
        var faults: [ManagedObject] = []
        for change in changes where change.writesRow || logsChanges {
            if change.baseVersion != nil && !outdated.contains(change.objectID.bits) { continue }
            let object = object(with: change.objectID)
            if object.isFault { faults.append(object) }
        }
        // A fault that cannot be read now is read again by itself, which reports its error.
        if faults.count > 1 { try? realizeFaults(of: faults) }
        return faults
    }

    /// An object that a child has changed.
    private struct Update {
        let change: ObjectChange
        let object: ManagedObject
        /// Whether the child has seen all values that the object had before.
        let isSeen: Bool
        /// Whether the object has the change's values already.
        let hasValues: Bool
    }

    /// The object of a change, with a base version; `nil` if it no longer exists.
    private func update(
        _ change: ObjectChange, _ outdated: Set<UInt64>, child: UInt32
    ) -> Update? {
        let object = object(with: change.objectID)
        guard object.state.contains(.live) else { return nil }
        var hasValues = false
        if change.baseVersion == nil {
            // Read below.
        } else if outdated.contains(object.objectID.bits) {
            if change.writesRow || logsChanges { object.realize() }
            adoptIfInConflict(change, object)
        } else if object.isFault, let base = base(of: change) {
            hasValues = adopt(base, of: change, object, child: child)
            adoptOrders(change, object, child: child)
        }
        if change.writesRow || logsChanges { object.realize() }
        guard object.state.contains(.live), !object.isInaccessible else { return nil }
        return Update(
            change: change, object: object,
            isSeen: child != 0 && object.edits?.child == child, hasValues: hasValues)
    }

    /// The child's snapshot of the object as it was before the change.
    private func base(of change: ObjectChange) -> ObjectSnapshot? {
        change.base
            ?? change.savedValues?.packed(as: change, layout: layout, store: storeIdentity)
    }

    /// Adopts the child's snapshot as the base, which saves a read, and its edits, if nothing else depends on their values.
    /// Returns whether it has adopted these.
    private func adopt(
        _ base: ObjectSnapshot, of change: ObjectChange, _ object: ManagedObject, child: UInt32
    ) -> Bool {
        object.adopt(base)
        if base.version == 0, let known = savedVersion(of: object.objectID.bits)?.known {
            object.version = known
        }
        let adoptsEdits =
            object.edits == nil && object.state.contains(.realized) && !logsChanges
            && object.state.isDisjoint(with: [.observed, .tracked, .inEvent])
            && change.toManyChanges.isEmpty && !change.changedSlots.isEmpty
            && !change.entity.identifierSlots.contains(where: change.changedSlots.contains)
        if adoptsEdits { object.edits = ObjectEdits(adopting: change) }
        object.editsForWriting().child = child
        return adoptsEdits
    }

    /// Adopts the child's older snapshot if another context has saved since this one: the optimistic-lock check of the save to
    /// the store must find that conflict.
    private func adoptIfInConflict(_ change: ObjectChange, _ object: ManagedObject) {
        guard let known = savedVersion(of: object.objectID.bits)?.known,
            object.state.isSuperset(of: [.live, .realized]), !object.isInaccessible,
            !hasOwnValues(object), known < object.version, let base = base(of: change)
        else { return }
        object.state.remove(.realized)
        object.adopt(base)
        object.version = known
    }

    /// Records that a child has seen all values of an object it saved, unless they differ here.
    private func noteSeen(_ change: ObjectChange, _ object: ManagedObject, by child: UInt32) {
        guard let edits = object.edits, child != 0 else { return }
        for slot in object.resolvedEntity.identifierSlots where change.changedSlots.contains(slot) {
            if !object.valueWithoutLoading(at: slot).isSame(as: change.values[slot]) { return }
        }
        edits.child = child
    }

    private func applyValues(
        _ change: ObjectChange, to object: ManagedObject, _ deleted: Set<UInt64>
    ) {
        for slot in change.values.indices where change.changedSlots.contains(slot) {
            if object.resolvedEntity.storages[slot] == .reference {
                applyReference(change.values[slot], at: slot, to: object, deleted)
            } else {
                object.write(change.values[slot], at: slot)
            }
        }
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
            let index = object.resolvedEntity.slots[slot].relationshipIndex,
            let inverse = layout.inverse(of: object.resolvedEntity.relationships[index])
        {
            // Without a saved value from the child only this context is concerned, and the object may not be registered.
            let held = deleted.contains(old.bits) ? nil : self.object(with: old)
            leave(object, old, inverse, wasSaved: object.edits?.changed.contains(slot) != true)
            withExtendedLifetime(held) {}
        }
        object.write(value, at: slot)
    }

    /// Removes an object from its former destination's relationship, if it is still a member. `wasSaved` is whether it is
    /// a member in the parent.
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
                // Members that only this context has come last.
                let present = object.members(of: relationship)
                let wanted = OrderedSet(order.filter(present.contains)).union(present)
                reorder(object, relationship, wanted)
            }
        }
    }

    /// Adopts the saved order of relationships that the child has changed, as the child has read it. Members added or removed
    /// since are merged separately: they change no version.
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
            object.load(contents.elements, as: relationship, index)
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
            for relationship in object.resolvedEntity.relationships where relationship.slot == nil {
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

    /// The objects related to an object by unsaved changes of this context only, with the relationship to them and its inverse.
    func unsavedReferences(
        to object: ManagedObject
    ) -> [(ResolvedEntity.Relationship, ResolvedEntity.Relationship, ManagedObject)] {
        guard let edits = object.edits else { return [] }
        var found: [(ResolvedEntity.Relationship, ResolvedEntity.Relationship, ManagedObject)] = []
        for relationship in object.resolvedEntity.relationships {
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
