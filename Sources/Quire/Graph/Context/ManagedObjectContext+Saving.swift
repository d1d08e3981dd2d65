internal import OrderedCollections
internal import QuireStore

extension ManagedObjectContext {
    /// Saves unsaved changes to the parent context, or else to the store.
    ///
    /// Either every change is saved or none is. If anything fails the context keeps its changes; after a conflict new
    /// objects may have permanent identifiers.
    ///
    /// If the same objects have been saved elsewhere since they were read here, or a uniqueness constraint is violated, the
    /// ``mergePolicy`` decides. A policy that resolves conflicts changes objects of this context, and its changes remain if the
    /// save then fails for another reason. The undo stack is cleared if relationships, insertions or deletions were in
    /// conflict.
    ///
    /// ```swift
    /// let book = try context.insertObject(entityName: "Book")
    /// book["title"] = "Emma"
    /// try context.save()          // book.objectID is permanent from here on
    /// ```
    ///
    /// - Complexity: O(*n*) in changed objects; one transaction. Saving to a parent writes only the
    ///   reservation of new objects' identifiers, and in a document nothing.
    /// - Throws: ``QuireError`` with code `validation`, `deleteDenied`, `mergeConflict`,
    ///   `constraintConflict`, `outOfSpace`, `readOnly`, `storeUnavailable`, or `invalidState` if the context's document is
    ///   closed, or if a method that a save calls, such as `willSave()`, saves the context itself. The error's `mergeConflicts` and `constraintConflicts` list the conflicts.
    public func save() throws { try save(evenIfUnchanged: false) { try source.save($0) } }

    /// Saves with a closure that receives the change set and returns the objects whose derived values have changed. It may be
    /// called again if the merge policy resolves a conflict.
    package func save(
        evenIfUnchanged: Bool, by write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws {
        try withPresentContent { try saveChanges(evenIfUnchanged: evenIfUnchanged, by: write) }
    }

    /// Calls methods of a program's own during a save, which must not save the context themselves.
    func forbiddingSaves<Result>(_ body: () throws -> Result) rethrows -> Result {
        let previous = forbidsSaving
        forbidsSaving = true
        defer { forbidsSaving = previous }
        return try body()
    }

    private func saveChanges(
        evenIfUnchanged: Bool, by write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws {
        if forbidsSaving {
            throw QuireError(
                .invalidState,
                "save() was called while the context is being saved, by willSave(), a validation method or a merge policy. "
                    + "Changes made there are part of the save; do not call save().")
        }
        mergePendingSaves()
        answerRetainedRowsQueries()
        processPendingChanges()
        if try flushWriteBehindBuffer(evenIfUnchanged: evenIfUnchanged, by: write) { return }
        guard isUnsaved else {
            if evenIfUnchanged { _ = try write(ChangeSet()) }
            didSave()
            return
        }
        if let saveBlock { throw saveBlock }
        announceSave()
        try callWillSave()
        try validatePendingChanges()
        var inserted = newObjects
        let derivedFor: [ManagedObjectID]
        do {
            derivedFor = try saveResolvingConflicts(
                &inserted, evenIfUnchanged: evenIfUnchanged, by: write)
        } catch {
            // New objects may have their identifiers all the same.
            notifyObservers(ContextChange(isSave: true))
            throw error
        }
        var changes = changesToSave(inserted: inserted)
        var saved = hasSaveObservers || derived != nil ? pendingObjectIDChanges : nil
        saved?.refreshed = derivedFor
        let told = objectsToTellOfSave()
        didSave()
        if let saved {
            changes.refreshed = noteDerivedValues(writtenFor: saved)
            notifySaveObservers(saved)
        }
        for object in told { object.didSave() }
        didSave(changes)
        if !changes.refreshed.isEmpty {
            didEndEvent(EventChanges(refreshed: changes.refreshed))
        }
    }

    /// Gives new objects their permanent identifiers before they are saved. The store reserves them durably: no other process
    /// uses them.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func obtainPermanentIDs(for objects: [ManagedObject]) throws {
        checkQueue()
        try assignPermanentIDs(to: objects, durably: true)
        notifyObservers(ContextChange(isSave: true))
    }

    func assignPermanentIDs(to objects: [ManagedObject], durably: Bool) throws {
        var groups: [(entity: ResolvedEntity, store: StoreIdentity?, objects: [ManagedObject])] = []
        for object in objects where object.objectID.isTemporaryID && object.context === self {
            // Most often the last group's entity again: programs insert objects kind by kind, or a few kinds.
            let store = assignedStores.isEmpty ? nil : assignedStores[object.objectID.bits]
            if let index = groups.lastIndex(where: {
                $0.entity === object.resolvedEntity && $0.store === store
            }) {
                groups[index].objects.append(object)
            } else {
                groups.append((object.resolvedEntity, store, [object]))
            }
        }
        if groups.isEmpty { return }
        // All identifiers are at hand before any object changes.
        let reserved = try groups.map {
            try source.reserveObjectIDs(
                for: $0.entity, count: $0.objects.count, durably: durably, in: $0.store)
        }
        var replaced: ContiguousArray<(temporary: UInt64, permanent: ManagedObjectID)> = []
        replaced.reserveCapacity(objects.count)
        for (group, ids) in zip(groups, reserved) {
            for (object, id) in zip(group.objects, ids) {
                let bits = object.objectID.bits
                replaced.append((bits, id))
                identityMap.insert(object, for: id.bits)
                object.objectID = id
            }
        }
        // Objects still have their entry under the temporary identifier, which finds the permanent one.
        for object in tracked where !object.resolvedEntity.relationships.isEmpty {
            object.edits?.replaceIDs(in: object.resolvedEntity.identifierSlots) {
                identityMap.find($0.bits)?.objectID ?? $0
            }
        }
        if !fetchedPropertyValues.isEmpty { replaceIDsInFetchedProperties() }
        for pair in replaced {
            identityMap.remove(pair.temporary)
            staleRows.note(pair.temporary)
        }
        undoIdentifiers.add(replaced, hasUnfinishedLog: !event.log.isEmpty)
        let pairs = replaced.map { ($0.temporary, $0.permanent.bits) }
        persistentStoreCoordinator.replacedIdentifiers.add(pairs)
        notifyObservers(ofReplacedIDs: pairs)
    }

    // MARK: Collecting

    /// The change set of a save. Without bases, an update's version is 0 if it is not the store's.
    func collectChanges(insertedCount: Int, includesBases: Bool = true) -> ChangeSet {
        var changes = ChangeSet()
        changes.inserted.reserveCapacity(insertedCount)
        changes.updated.reserveCapacity(max(tracked.count - insertedCount, 0))
        changes.records = pendingRecords
        changes.origin = ownOrigin.completed(by: childOrigin)
        if parent != nil { changes.child = number }
        for object in tracked {
            switch (object.state.contains(.live), object.state.contains(.persisted)) {
            case (true, false): changes.inserted.append(insertion(of: object))
            case (true, true):
                if let change = update(of: object, includesBase: includesBases) {
                    changes.updated.append(change)
                }
            case (false, true):
                let isKnown = !object.isFault && knowsVersion(of: object)
                changes.deleted.append(
                    ObjectDeletion(
                        objectID: object.objectID, version: isKnown ? object.version : nil))
            case (false, false): break
            }
        }
        return changes
    }

    private func insertion(of object: ManagedObject) -> ObjectChange {
        let edits = object.editsForWriting()
        var values = edits.values
        if object.chunk != nil {
            // Reinserted by undo after a saved deletion: the row's values are written again.
            for slot in values.indices where !edits.own.contains(slot) {
                values[slot] = object.valueWithoutLoading(at: slot)
            }
        }
        return ObjectChange(
            objectID: object.objectID, entity: object.resolvedEntity, version: 0, values: values,
            changedSlots: SlotMask(first: values.count),
            toManyChanges: toManyChanges(of: object, edits))
    }

    private func update(of object: ManagedObject, includesBase: Bool) -> ObjectChange? {
        object.state.remove(.rowChanges)
        guard let edits = object.edits, edits.hasChanges else { return nil }
        if includesBase, let change = edits.adopted, object.stillHas(change, edits) {
            object.state.insert(.rowChanges)
            return change
        }
        let changed = object.persistentChanges(edits)
        let toManyChanges = toManyChanges(of: object, edits)
        if changed.isEmpty && toManyChanges.isEmpty { return nil }
        var change = ObjectChange(
            objectID: object.objectID, entity: object.resolvedEntity,
            version: includesBase || knowsVersion(of: object) ? object.version : 0,
            values: edits.values, changedSlots: changed, toManyChanges: toManyChanges,
            base: includesBase && !object.state.contains(.savedHere) ? object.snapshot : nil)
        if change.writesRow { object.state.insert(.rowChanges) }
        if includesBase && parent != nil && object.state.contains(.savedHere) {
            change.savedValues = savedValues(of: object, edits)
        }
        return change
    }

    /// Whether an object's version is the store's. After a save to a parent only the root context knows the version; elsewhere
    /// it is missing or 0.
    func knowsVersion(of object: ManagedObject) -> Bool {
        parent == nil || (!object.state.contains(.savedHere) && object.version > 0)
    }

    /// The base values that a parent compares with its present ones.
    private func savedValues(of object: ManagedObject, _ edits: ObjectEdits) -> SavedValues {
        let saved = edits.committed ?? (edits.values, edits.own)
        var (values, own) = (saved.values, saved.own)
        for (slot, value) in edits.savedDerived where own.contains(slot) {
            if let value { values[slot] = value } else { own.remove(slot) }
        }
        return SavedValues(row: object.snapshot, values: values, own: own)
    }

    private func toManyChanges(of object: ManagedObject, _ edits: ObjectEdits) -> [ToManyChange] {
        var changes: [ToManyChange] = []
        for (index, state) in edits.toMany.enumerated()
        where state.hasChanges && !object.toManyRelationship(index).description.isTransient {
            var change = ToManyChange(
                relationshipIndex: object.resolvedEntity.toManyRelationships[index],
                added: state.added.elements, removed: state.removed.elements,
                order: state.needsOrder ? state.members?.elements : nil)
            if parent != nil && change.order != nil {
                change.previousOrder = state.committedOrder?.elements
            }
            changes.append(change)
        }
        return changes
    }

    // MARK: After a save

    private func didSave() {
        for object in tracked {
            staleRows.note(object.objectID.bits)
            object.announceStateChange()
            object.state.remove(.tracked)
            if object.state.contains(.live) {
                if !object.state.contains(.persisted) {
                    object.version = 1
                } else if object.state.contains(.rowChanges), object.edits?.hasChanges == true {
                    // A merge policy may have taken the changes back since they were collected.
                    object.version &+= 1
                }
                object.state.remove(.rowChanges)
                object.state.formUnion([.persisted, .savedHere])
                object.edits?.commit()
            } else {
                discard(object)
            }
        }
        if !children.isEmpty { noteVersionsForChildren() }
        tracked.removeAll()
        removeUnneededSavedVersions()
        discardInaccessibleFaults()
        if !assignedStores.isEmpty {
            assignedStores = assignedStores.filter {
                persistentStoreCoordinator.replacedIdentifiers[$0.key] == nil
            }
        }
        derived?.unsaved.clear()
        pendingRecords = [:]
        childOrigin = TransactionOrigin()
    }

    /// Records the versions of the saved objects, of which children may hold older rows.
    private func noteVersionsForChildren() {
        writeBehindBuffer.withState { state in
            for object in tracked {
                let bits = object.objectID.bits
                guard object.state.contains(.live) else {
                    state.savedVersions.setDeleted(bits)
                    continue
                }
                var version = parent == nil ? object.version : 0
                if parent == nil && version == 0 {
                    // A fault that was only added to another object's relationship was never read, and its row is not written.
                    version = state.savedVersions[bits]?.version ?? 0
                }
                state.savedVersions.set(version, seenBy: object.edits?.child ?? 0, for: bits)
            }
        }
    }
}

extension ManagedObject {
    /// Whether a save writes a child's change as it came, so that it need not be collected again.
    fileprivate final func stillHas(_ change: ObjectChange, _ edits: ObjectEdits) -> Bool {
        edits.areThose(of: change) && change.base?.chunk === chunk
            && change.base?.offset == Int(rowOffset) && change.version == version
            && !state.contains(.savedHere)
    }
}

// MARK: - Validation

extension ManagedObjectContext {
    /// Validates the pending changes against the model, and calls the validation methods of custom classes.
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `deleteDenied` if only deletions are at fault. Each
    ///   failure names the object, the property, the rule and the value.
    func validatePendingChanges() throws {
        var failures: [QuireError] = []
        // A copy, because a method of a class may change other objects.
        for object in tracked {
            if !object.resolvedEntity.hasRules && object.state.contains(.live)
                && !object.state.contains(.hasHooks) && !mayHoldInvalidValues
            {
                continue
            }
            failures += forbiddingSaves { object.failuresForSaving() }
        }
        if failures.isEmpty { return }
        var error = QuireError.combining(failures)
        if failures.contains(where: { $0.code == .validation }) { error.code = .validation }
        throw error
    }
}

// MARK: - Saving to another store

extension ManagedObjectContext {
    /// The unsaved changes of one store's objects as a save would write them, for writing a copy that includes them. They stay
    /// unsaved.
    ///
    /// - Throws: ``QuireError`` with code `validation` if an object could not be saved.
    package func unsavedChanges(of store: any PersistentStore) throws -> ChangeSet {
        processPendingChanges()
        guard isUnsaved else { return ChangeSet() }
        if let pending = writeBehindBuffer.unsaved {
            var changes = pending.changeSet()
            changes.records.merge(pendingRecords) { _, new in new }
            return changes.restricted(to: store.identity)
        }
        try validatePendingChanges()
        let inserted = newObjects
        // Such a context's are its for good; see ``obtainPermanentIDs(for:)``.
        try assignPermanentIDs(to: inserted, durably: true)
        return collectChanges(insertedCount: inserted.count).restricted(to: store.identity)
    }

    /// Saves to a copy that replaces a store of the coordinator, and to its other stores.
    ///
    /// - Parameters:
    ///   - store: The store to replace.
    ///   - write: Writes the changes of the store's objects to a store that continues the first, and returns it, open, with the
    ///     objects whose derived values have changed. It may be called again if the merge policy resolves a conflict. If another
    ///     store fails afterwards, what it returned is closed.
    package func save(
        replacing store: any PersistentStore,
        _ write: (ChangeSet) throws -> (store: any PersistentStore, derived: [ManagedObjectID])
    ) throws {
        try save(evenIfUnchanged: true) { changes in
            var other: (any PersistentStore)?
            do {
                let derived = try persistentStoreCoordinator.save(changes, replacing: store) {
                    let written = try write($0)
                    other = written.store
                    return written.derived
                }
                if let other { replaceStore(store, with: other) }
                return derived
            } catch {
                try? other?.close()
                throw error
            }
        }
    }
}
