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
            staleRows.note(id.bits)
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
                staleRows.note(object.objectID.bits)
                if numbers.contains(where: destination.subtree.contains) {
                    object.rebaseContents(of: relationship, toMany)
                }
            }
        }
    }
}

// MARK: - Batch requests

/// Batch requests go straight to the store, from whichever context of a tree they are executed in, and act on what is
/// saved. No context sees what they did until it is merged:
///
/// ```swift
/// let result = try context.execute(request)       // with resultType .objectIDs
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library, background])
/// ```
///
/// Faults that fire afterwards read what the request has written. A save of an object that was read before, and has
/// been changed or deleted by the request, is a merge conflict. Nothing is validated by classes, nothing can be undone,
/// and ``PersistentStoreCoordinator/saves`` does not tell of it.
///
/// A request is one transaction: all of it is done, and survives power loss when the call returns, or nothing is. The
/// caller waits meanwhile, so execute large ones in a context with a queue of its own.
extension ManagedObjectContext {
    /// Inserts objects into the store.
    ///
    /// About a row with values that must be unique, and are those of a stored object, the type of the ``mergePolicy``
    /// decides; its overridden methods are not asked:
    ///
    /// | policy | the stored object |
    /// |---|---|
    /// | ``MergePolicy/error`` | the request fails |
    /// | ``MergePolicy/mergeByPropertyObjectTrump`` | gets the values that the row names |
    /// | ``MergePolicy/overwrite`` | gets all attributes of a new object, and the relationships that the row names |
    /// | ``MergePolicy/mergeByPropertyStoreTrump`` | gets the row's values where it has none |
    /// | ``MergePolicy/rollback`` | stays, and the row is left out |
    ///
    /// It keeps its identifier, and its version goes up. It must be of the request's entity or a sub-entity of it; an object of
    /// another entity, such as a superentity, cannot take a row over, and the request fails unless the row is left out.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the rows, one transaction. Memory does not grow with the rows of a generator, unless
    ///   their identifiers are asked for.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidValue`, `validation`, `notFound`,
    ///   `constraintConflict` or `unsupported`, whose ``QuireError/Subject/position`` is the number of the row, from 1;
    ///   `readOnly`, `outOfSpace` or `storeUnavailable`; or what the request's generator throws.
    @discardableResult
    public func execute(_ request: BatchInsertRequest) throws -> BatchResult {
        checkQueue()
        let rule: UpsertPolicy =
            switch mergePolicy.mergeType {
            case .errorMergePolicyType: .refuse
            case .mergeByPropertyStoreTrumpMergePolicyType: .fill
            case .mergeByPropertyObjectTrumpMergePolicyType: .update
            case .overwriteMergePolicyType: .replace
            case .rollbackMergePolicyType: .skip
            }
        return try persistentStoreCoordinator.execute(request, onConflict: rule)
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
        return try persistentStoreCoordinator.execute(request)
    }

    /// Deletes objects in the store, by the model's delete rules.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the objects deleted and related to them; one transaction.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue` for an identifier
    ///   of no object of the store, `deleteDenied`, `validation` if an object would be left without a reference that it
    ///   must have, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        checkQueue()
        return try persistentStoreCoordinator.execute(request)
    }
}

// MARK: - Registering objects

extension ManagedObjectContext {
    /// The objects that the context has: those that somebody holds, and those with unsaved changes.
    ///
    /// - Complexity: O(*n*) in these.
    public var registeredObjects: Set<ManagedObject> {
        checkQueue()
        var objects = Set<ManagedObject>(minimumCapacity: identityMap.count)
        identityMap.forEach { if !$0.state.contains(.discarded) { objects.insert($0) } }
        return objects
    }

    /// Whether the context keeps its objects while nobody else holds them, until it is reset or this is set to
    /// false. False for a new context: then only objects with unsaved changes are kept.
    public var retainsRegisteredObjects: Bool {
        get { retainedObjects != nil }
        set {
            if newValue == retainsRegisteredObjects { return }
            retainedObjects = newValue ? registeredObjects : nil
        }
    }

    /// Puts an object into the identity map. There must be none for the key.
    @inline(__always)
    func register(_ object: ManagedObject, for bits: UInt64) {
        identityMap.insert(object, for: bits)
        if retainedObjects != nil { retain(object) }
    }

    @inline(never)
    private func retain(_ object: ManagedObject) { retainedObjects?.insert(object) }

    // MARK: Discarding

    /// Makes an object one whose deletion is saved: it has no context to others, and nothing finds it. It stays in the
    /// identity map as long as somebody has it, so that it is known to be deleted, and undo can bring it back.
    func discard(_ object: ManagedObject) {
        object.state.subtract([.live, .persisted])
        object.state.insert(.discarded)
        if retainedObjects != nil {
            retainedObjects?.remove(object)
            retainedObjects?.giveBackMemory()
        }
    }

    /// Faults whose rows turned out to be gone, by identifier.
    var inaccessibleFaults: [ManagedObject] {
        var objects: [ManagedObject] = []
        identityMap.forEach {
            if $0.isGone && !$0.state.contains(.persisted) { objects.append($0) }
        }
        return objects.sorted { $0.objectID.bits < $1.objectID.bits }
    }

    /// What a save does with faults whose rows turned out to be gone.
    func discardInaccessibleFaults() {
        guard hasInaccessibleFaults else { return }
        hasInaccessibleFaults = false
        for object in inaccessibleFaults {
            object.announceStateChange()
            discard(object)
        }
    }

    /// Puts a fault in the place of an object whose deletion is saved. Whether its row is there again, it finds out when
    /// it is read; until then it counts as deleted.
    func replaceDiscarded(_ object: ManagedObject) -> ManagedObject {
        identityMap.remove(object.objectID.bits, object)
        if object.state.contains(.observed) { observation?.forget(object) }
        object.state.subtract([.observable, .observed])
        object.context = nil
        let fault = instance(object.objectID, object.entity, state: [])
        register(fault, for: object.objectID.bits)
        return fault
    }

    /// The identifiers of the objects that a save would write. New objects may have temporary ones before the
    /// save gives them others.
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

    /// Whether anybody wants to know what the context saves.
    var hasSaveObservers: Bool { !source.saveObservers.isEmpty || !saveObservers.isEmpty }

    /// Tells those who share the source, and the children, what was saved.
    func notifySaveObservers(_ changes: ObjectIDChanges) {
        source.saveObservers.tell(changes, except: parentSaveMerger)
        saveObservers.tell(changes, areKnown: isWriteBehindParent, except: nil)
    }
}

// MARK: - Stores

/// Which of the coordinator's stores new objects go to.
extension ManagedObjectContext {
    /// Has a new object go to a store when it is saved, instead of the first store that keeps objects of its entity and
    /// can be written.
    ///
    /// ```swift
    /// let note = try context.insertObject(entityName: "Note")
    /// try context.assign(note, to: archive)
    /// ```
    ///
    /// Call it on the context's queue.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the object is not new, or has been given a permanent identifier;
    ///   `storeUnavailable` if the store does not belong to the coordinator or does not keep objects of the entity;
    ///   `readOnly`.
    public func assign(_ object: ManagedObject, to store: any PersistentStore) throws {
        checkQueue()
        guard object.objectID.isTemporary, object.context === self else {
            throw QuireError(
                .invalidState,
                "\(object.objectID.shortDescription) has its place in a store already; only new objects are assigned to "
                    + "one.",
                subject: .init(
                    entity: object.entity.name, object: object.objectID.uriRepresentation))
        }
        try persistentStoreCoordinator.checkIsPlace(store, forNew: object.entity)
        assignedStores[object.objectID.bits] = store.identity
    }

    /// The store that a new object goes to when it is saved.
    func storeForNewObject(_ object: ManagedObject) -> StoreIdentity? {
        assignedStores[object.objectID.bits]
            ?? persistentStoreCoordinator.storeForNewObjects(of: object.entity)
    }
}
