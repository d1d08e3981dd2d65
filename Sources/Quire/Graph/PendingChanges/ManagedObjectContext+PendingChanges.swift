/// A document's parent context and the values that its children have saved to it; see ``PendingChanges``.
extension ManagedObjectContext {
    /// Makes the values changes of the context's objects, because these are to be used.
    func takePendingChanges() {
        guard let values = pendingChanges.takeForObjects(), !values.isEmpty else { return }
        isParent = true
        takeOver(values.changeSet(includesBases: true), outdated: [])
        for change in values.changes {
            guard let object = identityMap.find(change.bits) else { continue }
            if change.kind == .updated, change.change.version > 0, !object.isFault {
                object.version = change.change.version
            }
            if object.state.contains(.live) { object.editsForWriting().child = change.author }
        }
        // Everybody was told when the children saved.
        _ = takeEventChanges()
    }

    /// Has children read and save values again, if there is nothing that they would miss.
    func endUseOfObjects() {
        guard isRelay, refusal == nil, identityMap.count == 0, tracked.isEmpty,
            undoManager == nil, pendingRecords.isEmpty, observation == nil,
            followers.present().isEmpty, !outdatedRows.areHeld
        else { return }
        pendingChanges.beginValues()
    }

    /// Takes the values over before something is merged that concerns them.
    func takePendingChanges(concernedBy changes: ObjectIDChanges) {
        let isConcerned = pendingChanges.withState { state in
            if !state.areValues || state.current.isEmpty { return false }
            let others =
                changes.inserted + changes.updated + changes.refreshed + changes.invalidated
            return !changes.deleted.isEmpty || others.contains { state.current[$0.bits] != nil }
        }
        if isConcerned { takePendingChanges() }
    }

    /// Saves the values that children have saved, if they are not changes of the context's objects.
    ///
    /// While they are written the children go on reading and saving. If the store finds a conflict, they become changes of the
    /// context's objects, and the merge policy decides.
    ///
    /// - Returns: Whether that was all there was to save.
    func savePendingChanges(
        evenIfUnchanged: Bool, by write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws -> Bool {
        guard let saving = pendingChanges.beginSave() else { return false }
        var changes = saving.changeSet()
        changes.records.merge(pendingRecords) { _, new in new }
        var derivedFor: [ManagedObjectID] = []
        do {
            if !changes.isEmpty || evenIfUnchanged { derivedFor = try write(changes) }
        } catch {
            pendingChanges.didFailToSave()
            let underlying = (error as? QuireError)?.underlying
            guard underlying is SaveConflicts || underlying is TakenIdentifiers else { throw error }
            takePendingChanges()
            return false
        }
        pendingChanges.didSave(notesVersions: !children.isEmpty)
        removeUnneededSavedVersions()
        pendingRecords = [:]
        var saved = changes.objectIDs
        if !saved.isEmpty {
            saveBroadcast.send(saved)
            saved.refreshed = derivedFor
            tellSaveListeners(saved)
        }
        pendingChanges.clearUnsavedSources()
        return true
    }

    /// What has been saved of an object since the context has children.
    func savedVersion(of bits: UInt64) -> SavedVersions.Entry? {
        pendingChanges.withState { $0.savedVersions[bits] }
    }

    /// Has a closure called whenever a child has saved values, on the child's thread.
    package func followTakenChanges(_ didTake: @escaping @Sendable () -> Void) {
        pendingChanges.withState { $0.didTakeChanges = didTake }
    }

    /// Forgets that the source has an object as it was saved.
    func forgetSavedVersion(of bits: UInt64) {
        pendingChanges.withState { $0.savedVersions.forget(bits) }
    }

    /// Has the store that the coordinator reads from exchanged for another. What is being read meanwhile is read again.
    package func replaceStore(_ store: any PersistentStore, with other: any PersistentStore) {
        persistentStoreCoordinator.replace(store, with: other)
        pendingChanges.invalidateViews()
    }
}

extension ChangeSet {
    /// The identifiers of the objects.
    var objectIDs: ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.map(\.objectID), updated: updated.map(\.objectID),
            deleted: deleted.map(\.objectID))
    }
}
