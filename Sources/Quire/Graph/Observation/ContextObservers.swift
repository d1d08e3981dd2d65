/// An observer of a context's objects. Called on the context's queue, before notifications are posted.
protocol ContextObserver: AnyObject {
    /// Objects have changed, or may have.
    func contextDidChange(_ changes: ContextChange)
    /// The identifiers of objects were replaced by a save, or restored after its failure.
    func contextDidReplaceIDs(_ replaced: [(old: UInt64, new: UInt64)])
}

/// The changes that context observers are notified of.
struct ContextChange {
    /// The changes of registered objects.
    var event = EventChanges()
    /// The merged changes, including objects that are not registered.
    var merged = ObjectIDChanges()
    /// Whether only objects whose rows were written are listed, not those related to them.
    var isByRows = false
    /// Whether anything may be different.
    var concernsAll = false
    /// Whether the event's objects have been saved, which changes nothing else about them.
    var isSave = false
}

extension ManagedObjectContext {
    /// Notifies the context's observers.
    func notifyObservers(_ changes: @autoclosure () -> ContextChange) {
        if followers.isEmpty { return }
        let changes = changes()
        for follower in presentFollowers() { follower.contextDidChange(changes) }
    }

    /// Notifies the context's observers of replaced identifiers.
    func notifyObservers(ofReplacedIDs replaced: @autoclosure () -> [(old: UInt64, new: UInt64)]) {
        if followers.isEmpty { return }
        let replaced = replaced()
        for follower in presentFollowers() { follower.contextDidReplaceIDs(replaced) }
    }

    /// The observers that have not been released.
    func presentFollowers() -> [any ContextObserver] {
        followers.prune()
        return followers.objects
    }
}

// MARK: - Changes of an event

/// The changes that one user event, a merge, a refresh or a save made to the objects of a context.
struct EventChanges {
    var inserted: [ManagedObject] = []
    var updated: [ManagedObject] = []
    var deleted: [ManagedObject] = []
    /// Objects whose values were read again.
    var refreshed: [ManagedObject] = []
    /// Objects turned into faults, their changes discarded.
    var invalidated: [ManagedObject] = []
    /// Whether the context was reset; its former objects are in `invalidated`.
    var isReset = false

    var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && refreshed.isEmpty
            && invalidated.isEmpty && !isReset
    }

    /// The same by identifiers.
    var objectIDs: ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.map(\.objectID), updated: updated.map(\.objectID),
            deleted: deleted.map(\.objectID), refreshed: refreshed.map(\.objectID),
            invalidated: invalidated.map(\.objectID))
    }
}
