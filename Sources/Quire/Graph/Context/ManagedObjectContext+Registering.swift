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
    var hasSaveListeners: Bool { !source.saveListeners.isEmpty || !saveListeners.isEmpty }

    /// Tells those who share the source, and the children, what was saved.
    func tellSaveListeners(_ changes: ObjectIDChanges) {
        source.saveListeners.tell(changes, except: automaticMerge)
        saveListeners.tell(changes, areKnown: isRelay, except: nil)
    }
}
