extension ManagedObjectContext {
    /// The objects that the context has: those that somebody holds, and those with unsaved changes.
    ///
    /// - Complexity: O(*n*) in these.
    public var registeredObjects: Set<ManagedObject> {
        checkQueue()
        var objects = Set<ManagedObject>(minimumCapacity: identityMap.count)
        identityMap.forEach { objects.insert($0) }
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
        saveListeners.tell(changes, except: nil, areKnown: isRelay)
    }
}
