/// Something that keeps in step with what a context's objects are. Told on the context's queue, before notifications
/// are posted.
protocol ContextObserver: AnyObject {
    /// Objects have changed, or may be others than they were.
    func contextDidChange(_ changes: ContextChange)
    /// Objects have other identifiers: they were saved, or that has failed.
    func contextDidReplaceIDs(_ replaced: [(old: UInt64, new: UInt64)])
}

/// What a follower of a context is told.
struct ContextChange {
    /// What was done to objects that the context has.
    var event = EventChanges()
    /// What was merged, also of objects that the context has not got.
    var merged = ObjectIDChanges()
    /// Whether only those objects were named whose rows were written, not those that relate to them.
    var isByRows = false
    /// Whether anything may be different.
    var concernsAll = false
    /// Whether the event's objects have been saved, which changes nothing else about them.
    var isSave = false
}

/// Those who follow a context, which does not keep them.
struct ContextObservers {
    private struct Reference {
        weak var follower: (any ContextObserver)?
    }

    private var references: [Reference] = []

    var isEmpty: Bool { references.isEmpty }

    /// Those who are there, after the others are dropped.
    mutating func present() -> [any ContextObserver] {
        references.removeAll { $0.follower == nil }
        return references.compactMap(\.follower)
    }

    mutating func add(_ follower: any ContextObserver) {
        references.append(Reference(follower: follower))
    }
}

extension ManagedObjectContext {
    /// Tells those who follow the context.
    func notifyObservers(_ changes: @autoclosure () -> ContextChange) {
        if followers.isEmpty { return }
        let changes = changes()
        for follower in followers.present() { follower.contextDidChange(changes) }
    }

    /// Tells those who follow the context that objects have other identifiers.
    func notifyObservers(ofReplacedIDs replaced: @autoclosure () -> [(old: UInt64, new: UInt64)]) {
        if followers.isEmpty { return }
        let replaced = replaced()
        for follower in followers.present() { follower.contextDidReplaceIDs(replaced) }
    }
}

// MARK: - Changes of an event

/// What one user event, a merge, a refresh or a save did to the objects of a context.
struct EventChanges {
    var inserted: [ManagedObject] = []
    var updated: [ManagedObject] = []
    var deleted: [ManagedObject] = []
    /// Objects whose values were read anew.
    var refreshed: [ManagedObject] = []
    /// Objects that were made faults, their changes lost.
    var invalidated: [ManagedObject] = []
    /// Whether the context has forgotten all its objects, which are then in `invalidated`.
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
