internal import Foundation
internal import OrderedCollections
internal import QuireStore

/// A context as its children see it: identifiers, and a layer of unsaved changes over its source.
extension ManagedObjectContext {
    /// Gives new objects permanent identifiers before a child reads them, so that an object has the same one on all levels. In
    /// read-only stores they keep temporary ones.
    func prepareForChild() throws {
        isParent = true
        guard hasTemporaryIDs else { return }
        do {
            try obtainPermanentIDs(for: newObjects)
            hasTemporaryIDs = false
        } catch let error as QuireError where error.code == .readOnly {
        }
    }

    /// The permanent identifier that replaced a temporary one, here or in another context of the coordinator.
    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        if let object = identityMap.find(temporary.bits) {
            return object.objectID.isTemporaryID ? nil : object.objectID
        }
        return undoIdentifiers[temporary.bits].map(objectID)
            ?? source.permanentID(for: temporary)
    }
}

// MARK: - As a layer

extension ManagedObjectContext: PendingChangeLayer {
    /// Whether the store may get the changes during a read: never, on the context's queue.
    var isBeingSaved: Bool { false }

    var hasChangedObjects: Bool { tracked.contains(where: \.isUnsaved) }

    func changedObjects() -> [ManagedObject] { tracked.filter(\.isUnsaved) }

    func entry(_ bits: UInt64) -> PendingChangeEntry<ManagedObject> {
        guard let object = identityMap.find(bits) else { return .none }
        if isGone(object) { return .deleted }
        if hasOwnValues(object) { return .changed(object) }
        if let row = object.snapshot, isUpToDate(object) { return .read(row) }
        return .none
    }

    func members(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        saved: () throws -> RowSet
    ) rethrows -> [ManagedObjectID]? {
        guard let object = identityMap.find(objectID.bits), let index = relationship.toManyIndex
        else { return nil }
        let state = object.toManyState(index)
        if let members = state.members { return members.elements }
        if object.isNew { return state.added.elements }
        guard state.hasChanges else { return nil }
        let rows = try saved()
        let members = rows.indices.map(rows.objectID)
        let present = Set(members)
        return members.filter { !state.removed.contains($0) }
            + state.added.filter { !present.contains($0) }
    }

    func hasChanges(_ bits: UInt64) -> Bool {
        identityMap.find(bits).map { $0.state.contains(.tracked) && $0.isUnsaved } ?? false
    }

    func isPersisted(_ object: ManagedObject) -> Bool { object.state.contains(.persisted) }

    func isThere(_ object: ManagedObject) -> Bool {
        guard object.state.contains(.live) else { return false }
        object.realize()
        return !object.isInaccessible
    }

    func candidates(
        in overlay: PendingChangeOverlay<ManagedObjectContext>, matching query: ResolvedQuery
    ) throws -> [ManagedObject] { try overlay.testedCandidates(matching: query) }

    func matches(_ object: ManagedObject, _ query: ResolvedQuery) throws -> Bool {
        try withoutNoting { try query.matches(object) }
    }

    func compare(
        _ left: ManagedObject, _ right: ManagedObject, by ordering: SortOrdering
    ) throws -> ComparisonResult {
        try withoutNoting { try ordering.resolvedCompare(left, right) }
    }

    /// Whether an object is deleted here or its row is known not to exist.
    func isGone(_ object: ManagedObject) -> Bool {
        !object.state.contains(.live)
            || (object.isInaccessible && !object.state.contains(.persisted))
    }

    /// Whether no save has made the object's row out of date.
    private func isUpToDate(_ object: ManagedObject) -> Bool {
        !object.state.contains(.savedHere) && derived?.stale.contains(object.objectID) != true
    }

    /// Whether the object has values beside its row.
    func hasOwnValues(_ object: ManagedObject) -> Bool {
        object.edits.map { !$0.own.isEmpty } ?? false
    }

    /// Rows of objects with their present values. Inaccessible objects have none.
    func rowSet(of objects: [ManagedObject]) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: layout, store: storeIdentity,
            externalData: UnsavedExternalData())
        builder.reserveCapacity(objects.count)
        for object in objects {
            object.realize()
            if object.isInaccessible { continue }
            // The next save gives the child's row another version.
            let isSaved = !object.state.contains(.tracked) && knowsVersion(of: object)
            builder.beginRow(
                object.objectID.bits, entity: object.resolvedEntity,
                version: isSaved ? object.version : 0)
            for slot in object.resolvedEntity.slots where slot.isStored {
                // So that no file is read.
                try builder.set(object.readHeldValue(at: slot.index), at: slot)
            }
            builder.endRow()
        }
        return builder.finish()
    }
}

extension RowSet {
    /// The origin of a row in an arrangement.
    enum Pick {
        /// A position in the set itself.
        case own(Int)
        /// A position in the other set.
        case other(Int)
    }

    /// Rows of this set and another in the order given.
    func arranged(_ picks: [Pick], with other: RowSet) -> RowSet {
        var arranged = ContiguousArray<Location>()
        arranged.reserveCapacity(picks.count)
        for pick in picks {
            switch pick {
            case .own(let position): arranged.append(locations[position])
            case .other(let position):
                var location = other.locations[position]
                location.chunk += UInt32(chunks.count)
                arranged.append(location)
            }
        }
        return RowSet(
            chunks: chunks + other.chunks, locations: arranged, layout: layout, store: store)
    }
}

// MARK: - Pending changes

/// A document's parent context and the values that its children have saved to it; see ``WriteBehindBuffer``.
extension ManagedObjectContext {
    /// Turns the buffered values into changes of the context's objects, before these are used.
    func takePendingChanges() {
        guard let values = writeBehindBuffer.materialize(), !values.isEmpty else { return }
        isParent = true
        takeOver(values.changeSet(includesBases: true), outdated: [])
        for change in values.changes {
            guard let object = identityMap.find(change.bits) else { continue }
            if change.kind == .updated, change.version > 0, !object.isFault {
                object.version = change.version
            }
            if object.state.contains(.live) { object.editsForWriting().child = change.author }
        }
        // Observers were notified when the children saved.
        _ = takeEventChanges()
    }

    /// Resumes buffering of children's saves if the context has no objects or changes that they would miss.
    func resumeBufferingIfUnused() {
        guard isWriteBehindParent, saveBlock == nil, identityMap.count == 0, tracked.isEmpty,
            undoManager == nil, pendingRecords.isEmpty, observation == nil,
            presentFollowers().isEmpty, !staleRows.areHeld
        else { return }
        writeBehindBuffer.resumeBuffering()
    }

    /// Materializes the buffered values before a merge that concerns them.
    func takePendingChanges(concernedBy changes: ObjectIDChanges) {
        let isConcerned = writeBehindBuffer.withState { state in
            if !state.isBuffering || state.current.isEmpty { return false }
            let others =
                changes.inserted + changes.updated + changes.refreshed + changes.invalidated
            return !changes.deleted.isEmpty || others.contains { state.current[$0.bits] != nil }
        }
        if isConcerned { takePendingChanges() }
    }

    /// Saves the buffered values of children, unless they have become changes of the context's objects.
    ///
    /// Children keep reading and saving during the write. If the store reports a conflict, the values become changes of the
    /// context's objects, and the merge policy decides.
    ///
    /// - Returns: Whether nothing else is left to save.
    func flushWriteBehindBuffer(
        evenIfUnchanged: Bool, by write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws -> Bool {
        guard let saving = writeBehindBuffer.beginSave() else { return false }
        var changes = saving.changeSet()
        changes.records.merge(pendingRecords) { _, new in new }
        changes.origin = ownOrigin.completed(by: changes.origin)
        var derivedFor: [ManagedObjectID] = []
        do {
            if !changes.isEmpty || evenIfUnchanged { derivedFor = try write(changes) }
        } catch {
            writeBehindBuffer.didFailToSave()
            let underlying = (error as? QuireError)?.underlying
            guard underlying is SaveConflicts || underlying is PrimaryKeyCollision else {
                throw error
            }
            takePendingChanges()
            return false
        }
        writeBehindBuffer.didSave(notesVersions: !children.isEmpty)
        removeUnneededSavedVersions()
        pendingRecords = [:]
        var saved = changes.objectIDs
        if !saved.isEmpty {
            saveBroadcast.send(saved)
            saved.refreshed = derivedFor
            notifySaveObservers(saved)
        }
        writeBehindBuffer.clearDirtyDerivationSources()
        return true
    }

    /// The saved version of an object, recorded since the context has children.
    func savedVersion(of bits: UInt64) -> SavedVersions.Entry? {
        writeBehindBuffer.withState { $0.savedVersions[bits] }
    }

    /// Registers a closure called whenever a child has saved buffered values, on the child's thread.
    package func followTakenChanges(_ didTake: @escaping @Sendable () -> Void) {
        writeBehindBuffer.withState { $0.didTakeChanges = didTake }
    }

    /// Marks the source's version of an object as unknown.
    func forgetSavedVersion(of bits: UInt64) {
        writeBehindBuffer.withState { $0.savedVersions.forget(bits) }
    }

    /// Replaces the coordinator's store by another. Concurrent reads are retried against the new one.
    package func replaceStore(_ store: any PersistentStore, with other: any PersistentStore) {
        persistentStoreCoordinator.replace(store, with: other)
        writeBehindBuffer.invalidateViews()
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
