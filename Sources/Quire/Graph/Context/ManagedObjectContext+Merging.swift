public import Foundation

extension ManagedObjectContext {
    /// Merges another context's save into this context.
    ///
    /// - Updated objects that are registered here adopt the saved values. Unsaved changes here are kept, property by property,
    ///   as are members added to or removed from a to-many relationship here; a later save is based on the merged values and
    ///   does not conflict with them.
    /// - Deleted objects that are registered here are deleted, and their changes here discarded, without counting as unsaved
    ///   deletions. References to them from unsaved changes are removed.
    /// - New objects become known as faults.
    ///
    /// - To-many relationships whose contents were read, and whose destination may be one of the affected entities, are read
    ///   again at the next access, so the list of written rows suffices, as after a batch request.
    ///
    /// Objects that are not registered are not read. A merge is not undoable; earlier changes remain undoable. Children that
    /// merge automatically are notified.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the identifiers and in the objects whose to-many relationships were read or changed, and one query
    ///   for the objects that have unsaved changes here.
    public func mergeChanges(from changes: ObjectIDChanges) { merge(changes, isByRows: true) }

    /// Merges another context's save from its notification: ``didSaveObjectsNotification`` or
    /// ``didSaveObjectIDsNotification``, or a transaction of the history from its
    /// ``PersistentHistoryTransaction/objectIDNotification``, or synchronization's import from
    /// ``PersistentStoreCoordinator/didImportChangesNotification``.
    ///
    /// Merges as ``mergeChanges(from:)``. Other notifications, and those of the context itself, are ignored. A notification is
    /// posted on the queue of the context that has saved, and does not leave it; to a context of another queue, send its
    /// `objectIDChanges`, or let it merge by ``automaticallyMergesChangesFromParent``.
    ///
    /// Call it on the context's queue.
    public func mergeChanges(fromContextDidSave notification: Notification) {
        let names = [
            Self.didSaveObjectsNotification, Self.didSaveObjectIDsNotification,
            PersistentStoreCoordinator.didImportChangesNotification,
        ]
        guard names.contains(notification.name),
            notification.object as? ManagedObjectContext !== self,
            let changes = notification.objectIDChanges
        else { return }
        // The history of a batch request has the rows only; a context's save names the objects on the other side too.
        merge(changes, isByRows: !(notification.object is ManagedObjectContext))
    }

    /// Merges. A context's save names every object whose relationships it has changed; if `isByRows`, only the rows are
    /// known that were written.
    func merge(_ changes: ObjectIDChanges, isByRows: Bool) {
        var changes = changes.map { storeIdentity.adopting($0) ?? $0 }
        takePendingChanges(concernedBy: changes)
        processPendingChanges()
        advanceQueryGeneration()
        forgetRows(concernedBy: changes)
        // What undo has inserted again since that deletion is not deleted: the next save writes it.
        changes.deleted.removeAll { identityMap.find($0.bits)?.isNew ?? false }
        undoRequiresInverseRepair = undoManager != nil
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
        notifyObservers(ContextChange(event: event, merged: changes, isByRows: isByRows))
        if !event.isEmpty { announce(event) }
        didMerge(changes)
        saveObservers.tell(changes, isByRows: isByRows, except: nil)
    }

    /// Merges changes of which the objects are not known.
    func mergeUnknownChanges() {
        takePendingChanges()
        refreshAllObjects()
        saveObservers.tell(nil, isByRows: true, except: nil)
    }

    /// Merges changes made elsewhere into contexts: by another process, or recorded earlier.
    ///
    /// Calls ``mergeChanges(from:)`` in each context, one after the other, while the caller waits. Pass parents before their
    /// children.
    ///
    /// - Complexity: As ``mergeChanges(from:)``, for each context.
    public static func mergeChanges(
        fromRemoteContextSave changes: ObjectIDChanges, into contexts: [QueueConfinedContext]
    ) {
        for context in contexts {
            context.performAndWait { $0.mergeChanges(from: changes) }
        }
    }

    /// Merges changes made elsewhere into contexts of the caller's queue: by another process, or by a batch request.
    ///
    /// ```swift
    /// let result = try await container.performBackgroundTask { try $0.execute(request) }
    /// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [container.viewContext])
    /// ```
    ///
    /// Calls ``mergeChanges(from:)`` of each context, one after the other. Pass parents before their children.
    ///
    /// - Complexity: As ``mergeChanges(from:)``, for each context.
    public static func mergeChanges(
        fromRemoteContextSave changes: ObjectIDChanges, into contexts: [ManagedObjectContext]
    ) {
        for context in contexts { context.mergeChanges(from: changes) }
    }

    // MARK: Steps

    /// Invalidates rows in fetch results and in the coordinator's cache that are older than the save.
    private func forgetRows(concernedBy changes: ObjectIDChanges) {
        let ids = changes.updated + changes.deleted + changes.refreshed + changes.invalidated
        for id in ids {
            staleRows.note(id.bits)
            forgetSavedVersion(of: id.bits)
        }
        source.forgetRows(of: ids)
    }

    private func isSaved(_ object: ManagedObject) -> Bool { object.state.contains(.persisted) }

    func isKnownStore(_ id: ManagedObjectID) -> Bool {
        storeIdentity.adopting(id) != nil && !id.isTemporaryID
            && (1...layout.entities.count).contains(id.entityNumber)
    }

    /// Marks an object as deleted by a save. The caller removes it from the changed objects.
    private func forgetDeleted(_ object: ManagedObject) {
        for (_, inverse, other) in unsavedReferences(to: object) {
            detach(object, from: other, inverse)
        }
        object.announceLifeChange()
        object.edits?.rollBack()
        object.state.remove(.tracked)
        discard(object)
    }

    /// Turns contents of to-many relationships into faults, and drops prefetched ones, if their destination may be an entity of
    /// the identifiers.
    private func forgetContents(concernedBy changes: ObjectIDChanges) {
        let numbers = Set(
            (changes.inserted + changes.updated + changes.deleted + changes.refreshed
                + changes.invalidated).map(\.entityNumber))
        for reference in prefetches {
            reference.takeUnretainedValue().forgetContents(leadingTo: numbers)
        }
        var owners: [ManagedObject] = []
        relationshipOwners.forEach { owners.append($0) }
        for object in owners {
            guard let edits = object.edits, !edits.toMany.isEmpty else {
                // It has become a fault.
                let identifier = ObjectIdentifier(object)
                relationshipOwners.remove(Self.address(of: identifier), identifier)
                continue
            }
            guard isSaved(object) else { continue }
            for (toMany, index) in object.resolvedEntity.toManyRelationships.enumerated() {
                let relationship = object.resolvedEntity.relationships[index]
                let destination = layout.destination(of: relationship)
                staleRows.note(object.objectID.bits)
                if numbers.contains(where: destination.subtree.contains) {
                    object.rebaseContents(of: relationship, toMany)
                }
            }
        }
    }
}

// MARK: - Batch requests

/// Batch requests are executed by the store, from any context of a tree, and act on saved values. Contexts do not see their
/// changes until these are merged:
///
/// ```swift
/// let result = try context.execute(request)       // with resultType .objectIDs
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library, background])
/// ```
///
/// Faults that fire afterwards read the written values. Saving an object that was read before, and has been changed or deleted
/// by the request, is a merge conflict. Custom classes' validation is not called, nothing is undoable, and
/// ``PersistentStoreCoordinator/saves`` has no element for it.
///
/// A request is one transaction: atomic, and durable when the call returns. The caller waits meanwhile, so execute large ones
/// in a private-queue context.
extension ManagedObjectContext {
    /// Inserts objects into the store.
    ///
    /// A row with the unique values of a stored object updates it according to the kind of the ``mergePolicy``, whose overridden
    /// methods are not called:
    ///
    /// | policy | the stored object |
    /// |---|---|
    /// | ``MergePolicy/error``, ``MergePolicy/mergeByPropertyObjectTrump`` | gets the values that the row names |
    /// | ``MergePolicy/overwrite`` | gets all attributes of a new object, and the relationships that the row names |
    /// | ``MergePolicy/mergeByPropertyStoreTrump`` | gets the row's values where it has none |
    /// | ``MergePolicy/rollback`` | stays, and the row is omitted |
    ///
    /// If the request's ``BatchInsertRequest/failsOnConstraintConflict`` is set it fails instead.
    ///
    /// The stored object keeps its identifier, and its version is incremented. It must be of the request's entity or a
    /// sub-entity; a row cannot update an object of another entity, such as a superentity, and the request fails unless
    /// the row is omitted.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the rows, one transaction. Memory does not grow with the rows of a generator, unless identifiers
    ///   are requested.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidValue`, `validation`, `notFound`,
    ///   `constraintConflict` or `unsupported`, whose ``QuireError/Subject/position`` is the number of the row, from 1;
    ///   `readOnly`, `outOfSpace` or `storeUnavailable`; or errors of the request's generator.
    @discardableResult
    public func execute(_ request: BatchInsertRequest) throws -> BatchResult {
        checkQueue()
        var request = request
        request.origin = ownOrigin
        // A request's rows are no changes of the context, so its default policy is none for them.
        let policy: MergePolicy.Kind =
            if request.failsOnConstraintConflict {
                .error
            } else if mergePolicy.mergeType == .error {
                .mergeByPropertyObjectTrump
            } else {
                mergePolicy.mergeType
            }
        return try persistentStoreCoordinator.execute(request, onConflict: policy)
    }

    /// Updates objects in the store.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the objects found; one transaction.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue`, `validation`,
    ///   `constraintConflict`, `unsupported`, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(_ request: BatchUpdateRequest) throws -> BatchResult {
        checkQueue()
        var request = request
        request.origin = ownOrigin
        return try persistentStoreCoordinator.execute(request)
    }

    /// Deletes objects in the store, by the model's delete rules.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the objects deleted and related to them; one transaction.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue` for an identifier
    ///   of an object that is not in the store, `deleteDenied`, `validation` if an object would be left without a reference
    ///   that it must have, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        checkQueue()
        var request = request
        request.origin = ownOrigin
        return try persistentStoreCoordinator.execute(request)
    }
}

// MARK: - Registering objects

extension ManagedObjectContext {
    /// The registered objects: those that are retained, and those with unsaved changes.
    ///
    /// - Complexity: O(*n*) in these.
    public var registeredObjects: Set<ManagedObject> {
        checkQueue()
        var objects = Set<ManagedObject>(minimumCapacity: identityMap.count)
        identityMap.forEach { if !$0.state.contains(.discarded) { objects.insert($0) } }
        return objects
    }

    /// Whether the context retains its registered objects, until it is reset or this is set to false. False for a new context:
    /// then only objects with unsaved changes are retained.
    public var retainsRegisteredObjects: Bool {
        get { retainedObjects != nil }
        set {
            if newValue == retainsRegisteredObjects { return }
            retainedObjects = newValue ? registeredObjects : nil
        }
    }

    /// Registers an object in the identity map. There must be none for the key.
    @inline(__always)
    func register(_ object: ManagedObject, for bits: UInt64) {
        identityMap.insert(object, for: bits)
        if retainedObjects != nil { retain(object) }
    }

    @inline(never)
    private func retain(_ object: ManagedObject) { retainedObjects?.insert(object) }

    /// Takes an object that ends or leaves the context out of the tables that do not retain it.
    func unregister(_ object: ObjectIdentifier, _ bits: UInt64) {
        identityMap.remove(bits, object)
        if !relationshipOwners.isEmpty {
            relationshipOwners.remove(Self.address(of: object), object)
        }
    }

    /// Adds an object to those with contents or changes of to-many relationships.
    func noteRelationships(of object: ManagedObject) {
        let address = Self.address(of: ObjectIdentifier(object))
        if relationshipOwners.find(address) == nil {
            relationshipOwners.insert(object, for: address)
        }
    }

    private static func address(of object: ObjectIdentifier) -> UInt64 {
        UInt64(UInt(bitPattern: object))
    }

    // MARK: Discarding

    /// Marks an object as deleted by a save: it has no public context, and is not found by identifier. It stays in the identity
    /// map while it is retained, so that it is known to be deleted, and undo can reinsert it.
    func discard(_ object: ManagedObject) {
        object.state.subtract([.live, .persisted])
        object.state.insert(.discarded)
        if retainedObjects != nil {
            retainedObjects?.remove(object)
            retainedObjects?.giveBackMemory()
        }
    }

    /// Faults whose rows do not exist, by identifier.
    var inaccessibleFaults: [ManagedObject] {
        var objects: [ManagedObject] = []
        identityMap.forEach {
            if $0.isGone && !$0.state.contains(.persisted) { objects.append($0) }
        }
        return objects.sorted { $0.objectID.bits < $1.objectID.bits }
    }

    /// Handles faults without rows during a save.
    func discardInaccessibleFaults() {
        guard hasInaccessibleFaults else { return }
        hasInaccessibleFaults = false
        for object in inaccessibleFaults {
            object.announceStateChange()
            discard(object)
        }
    }

    /// Replaces an object whose deletion is saved by a fault, which counts as deleted until its row is read.
    func replaceDiscarded(_ object: ManagedObject) -> ManagedObject {
        unregister(ObjectIdentifier(object), object.objectID.bits)
        if object.state.contains(.observed) { observation?.forget(ObjectIdentifier(object)) }
        object.state.subtract([.observable, .observed])
        object.context = nil
        let fault = instance(object.objectID, object.resolvedEntity, state: [])
        register(fault, for: object.objectID.bits)
        return fault
    }

    /// The identifiers of the objects that a save would write. New objects may have temporary identifiers.
    var pendingObjectIDChanges: ObjectIDChanges {
        var changes = ObjectIDChanges()
        for object in tracked {
            switch (object.state.contains(.live), object.state.contains(.persisted)) {
            case (true, false): changes.inserted.append(object.objectID)
            case (true, true):
                if object.edits?.hasChanges == true { changes.updated.append(object.objectID) }
            case (false, true): changes.deleted.append(object.objectID)
            case (false, false): break
            }
        }
        return changes
    }

    /// Whether saves of the context have observers.
    var hasSaveObservers: Bool { !source.saveObservers.isEmpty || !saveObservers.isEmpty }

    /// Notifies the contexts of the same source, and the children, of a save.
    func notifySaveObservers(_ changes: ObjectIDChanges) {
        source.saveObservers.tell(changes, except: parentSaveMerger)
        saveObservers.tell(changes, areKnown: isWriteBehindParent, except: nil)
    }
}

// MARK: - Stores

/// Assignment of new objects to the coordinator's stores.
extension ManagedObjectContext {
    /// Assigns a new object to a store, instead of the first writable store that keeps objects of its entity.
    ///
    /// ```swift
    /// let note = try context.insertObject(entityName: "Note")
    /// try context.assign(note, to: archive)
    /// ```
    ///
    /// Call it on the context's queue.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the object is not new, or already has a permanent identifier;
    ///   `storeUnavailable` if the store does not belong to the coordinator or does not keep objects of the entity;
    ///   `readOnly`.
    public func assign(_ object: ManagedObject, to store: any PersistentStore) throws {
        checkQueue()
        guard object.objectID.isTemporaryID, object.context === self else {
            throw QuireError(
                .invalidState,
                "\(object.objectID.shortDescription) is not a new object of this context; only new objects can be assigned "
                    + "to a store.",
                entity: object.resolvedEntity.name, object: object.objectID.uriRepresentation)
        }
        try persistentStoreCoordinator.checkIsPlace(store, forNew: object.resolvedEntity)
        assignedStores[object.objectID.bits] = store.identity
    }

    /// The store that a new object is saved to.
    func storeForNewObject(_ object: ManagedObject) -> StoreIdentity? {
        assignedStores[object.objectID.bits]
            ?? persistentStoreCoordinator.storeForNewObjects(of: object.resolvedEntity)
    }
}

// MARK: - Synchronization

extension PersistentStoreCoordinator {
    /// Posted on any thread after synchronization has imported changes into a store. Its object is the coordinator, its `userInfo`
    /// has the identifiers of the changed objects: hand it to ``ManagedObjectContext/mergeChanges(fromContextDidSave:)`` on the
    /// context's queue, or send its `objectIDChanges` there. Contexts that merge automatically need neither.
    public static let didImportChangesNotification = Notification.Name(
        "NSPersistentStoreDidImportUbiquitousContentChangesNotification")

    /// Tells contexts of rows that synchronization has written, and posts ``didImportChangesNotification``.
    package func didImport(_ changes: ObjectIDChanges) {
        tellContexts(of: changes)
        NotificationCenter.default.post(
            name: Self.didImportChangesNotification, object: self,
            userInfo: [ManagedObjectContext.NotificationKey.objectIDs.rawValue: changes])
    }
}
