extension ManagedObjectContext {
    /// Brings the context up to date with what another context has saved.
    ///
    /// - Updated objects that the context has take over what was saved. Own unsaved changes are kept, property by
    ///   property, and objects that came into or went out of a to-many relationship here stay so; a later save
    ///   builds on what was merged and does not conflict with it.
    /// - Deleted objects that the context has are deleted, own changes of them lost, without this counting as an
    ///   unsaved deletion. What only unsaved changes related to them leads to them no longer.
    /// - New objects become known as faults.
    ///
    /// - To-many relationships whose contents were read, and which may contain objects of the entities concerned, are
    ///   read again when next asked for, so that it is enough to know which rows were written, as after a batch request.
    ///
    /// Objects that the context has not got are not read. Merging is no step of undo; undoing what was done before
    /// works on. Children that merge by themselves are told.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the identifiers and in the objects that the context has, and one query for those
    ///   objects that have unsaved changes here.
    public func mergeChanges(from changes: ObjectIDChanges) { merge(changes, isByRows: true) }

    /// Merges. A context's save names every object whose relationships it has changed; if `isByRows`, only the rows are
    /// known that were written.
    func merge(_ changes: ObjectIDChanges, isByRows: Bool) {
        let changes = changes.map { storeIdentity.adopting($0) ?? $0 }
        takePendingChanges(concernedBy: changes)
        processPendingChanges()
        forgetRows(concernedBy: changes)
        undoNeedsRepair = undoManager != nil
        undoManager?.disableUndoRegistration()
        var event = EventChanges()
        for id in changes.deleted {
            guard let object = identityMap.find(id.bits), isSaved(object) else { continue }
            forgetDeleted(object)
            event.deleted.append(object)
        }
        if !event.deleted.isEmpty { tracked.removeAll { !$0.state.contains(.tracked) } }
        // Of a reference that was taken out and put back only its own side is a difference.
        dropUnsavedReferences(to: changes.deleted) { $0.inverseIndex == nil || !$0.isToMany }
        var stale: [ManagedObject] = []
        for id in changes.inserted {
            guard let found = identityMap.find(id.bits) else {
                if isKnownStore(id) { event.inserted.append(object(with: id)) }
                continue
            }
            if found.state.isDisjoint(with: [.live, .persisted]) {
                reviveIfDeleted(found)
                event.inserted.append(found)
            } else {
                stale.append(found)
            }
        }
        for id in changes.updated + changes.refreshed + changes.invalidated {
            if let object = identityMap.find(id.bits) { stale.append(object) }
        }
        event.refreshed = refresh(stale, readsObserved: true)
        processPendingChanges()
        undoManager?.enableUndoRegistration()
        if isByRows { forgetContents(concernedBy: changes) }
        tellFollowers(FollowedChanges(event: event, merged: changes, isByRows: isByRows))
        if !event.isEmpty { announce(event) }
        didMerge(changes)
        saveListeners.tell(changes, isByRows: isByRows, except: nil)
    }

    /// Brings contexts up to date with what was changed elsewhere: by another process, or as kept in writing.
    ///
    /// As ``mergeChanges(from:)`` in each context, one after the other, while the caller waits. Name parents before
    /// their children.
    ///
    /// - Complexity: O(*n*) in the identifiers and in the objects that the contexts have.
    public static func mergeChanges(
        fromRemoteContextSave changes: ObjectIDChanges, into contexts: [ConfinedContext]
    ) {
        for context in contexts {
            context.performAndWait { $0.mergeChanges(from: changes) }
        }
    }

    // MARK: Steps

    /// Rows that fetch results hold, and those that the coordinator has kept, are older than what was saved.
    private func forgetRows(concernedBy changes: ObjectIDChanges) {
        let ids = changes.updated + changes.deleted + changes.refreshed + changes.invalidated
        for id in ids {
            outdatedRows.note(id.bits)
            forgetSavedVersion(of: id.bits)
        }
        source.forgetRows(of: ids)
    }

    private func isSaved(_ object: ManagedObject) -> Bool { object.state.contains(.persisted) }

    func isKnownStore(_ id: ManagedObjectID) -> Bool {
        storeIdentity.adopting(id) != nil && !id.isTemporary
            && (1...layout.entities.count).contains(id.entityNumber)
    }

    /// Makes an object one whose deletion is saved. Its entry among the changed ones is left to the caller.
    private func forgetDeleted(_ object: ManagedObject) {
        for (_, inverse, other) in unsavedReferences(to: object) {
            detach(object, from: other, inverse)
        }
        object.announceLifeChange()
        object.edits?.rollBack()
        object.state.remove(.tracked)
        discard(object)
    }

    /// Makes contents of to-many relationships faults, and forgets those that were read ahead, which may lead to objects of
    /// the entities of some identifiers.
    private func forgetContents(concernedBy changes: ObjectIDChanges) {
        let numbers = Set(
            (changes.inserted + changes.updated + changes.deleted + changes.refreshed
                + changes.invalidated).map(\.entityNumber))
        for reference in prefetches {
            reference.takeUnretainedValue().forgetContents(leadingTo: numbers)
        }
        for object in registeredObjects {
            guard let edits = object.edits, !edits.toMany.isEmpty, isSaved(object) else { continue }
            for (toMany, index) in object.entity.toManyRelationships.enumerated() {
                let relationship = object.entity.relationships[index]
                let destination = layout.destination(of: relationship)
                outdatedRows.note(object.objectID.bits)
                if numbers.contains(where: destination.subtree.contains) {
                    object.rebaseContents(of: relationship, toMany)
                }
            }
        }
    }
}
