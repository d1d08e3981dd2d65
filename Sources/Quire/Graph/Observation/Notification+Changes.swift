public import Foundation

/// What the notifications of a ``ManagedObjectContext`` say. All sets of objects are empty in other
/// notifications, and in those that have identifiers only. Used on the context's queue.
///
/// - Complexity: O(*n*) in the objects of a set when it is asked for first.
extension Notification {
    /// New objects, and deleted ones that are back.
    public var insertedObjects: Set<ManagedObject> { changedObjects?.inserted ?? [] }
    /// Objects whose values or relationships changed.
    public var updatedObjects: Set<ManagedObject> { changedObjects?.updated ?? [] }
    /// Deleted objects, and new ones that have left the context.
    public var deletedObjects: Set<ManagedObject> { changedObjects?.deleted ?? [] }
    /// Objects that had no changes, or lost them, and have the values of the store or the parent.
    public var refreshedObjects: Set<ManagedObject> { changedObjects?.refreshed ?? [] }
    /// Objects that were made faults, their changes lost.
    public var invalidatedObjects: Set<ManagedObject> { changedObjects?.invalidated ?? [] }
    /// Whether the context was reset: it has none of the objects any more that it had.
    public var invalidatedAllObjects: Bool { changedObjects?.changes.isReset ?? false }

    /// The same by identifiers, which may go to any queue. `nil` if the notification has nothing to do with
    /// changed objects.
    public var objectIDChanges: ObjectIDChanges? {
        let key = ManagedObjectContext.NotificationKey.objectIDs.rawValue
        return userInfo?[key] as? ObjectIDChanges ?? changedObjects?.changes.objectIDs
    }

    private var changedObjects: ChangedObjects? {
        userInfo?[ManagedObjectContext.NotificationKey.objects.rawValue] as? ChangedObjects
    }
}

/// The objects of a notification, made sets of when somebody asks. A program that observes nothing pays for
/// none.
final class ChangedObjects {
    private let contents: Contents
    private let marker: QueueMarker

    var changes: EventChanges { contents.changes }
    var inserted: Set<ManagedObject> { contents.inserted }
    var updated: Set<ManagedObject> { contents.updated }
    var deleted: Set<ManagedObject> { contents.deleted }
    var refreshed: Set<ManagedObject> { contents.refreshed }
    var invalidated: Set<ManagedObject> { contents.invalidated }

    init(_ changes: EventChanges, on marker: QueueMarker) {
        contents = Contents(changes)
        self.marker = marker
    }

    deinit {
        // A notification may go to other queues, for its identifiers; its objects are released on their own.
        if marker.isCurrent { return }
        let contents = contents
        marker.queue.async { contents.removeAll() }
    }

    /// Unchecked because it is used on the context's queue only.
    private final class Contents: @unchecked Sendable {
        private(set) var changes: EventChanges
        private(set) lazy var inserted = Set(changes.inserted)
        private(set) lazy var updated = Set(changes.updated)
        private(set) lazy var deleted = Set(changes.deleted)
        private(set) lazy var refreshed = Set(changes.refreshed)
        private(set) lazy var invalidated = Set(changes.invalidated)

        init(_ changes: EventChanges) { self.changes = changes }

        func removeAll() {
            changes = EventChanges()
            inserted = []
            updated = []
            deleted = []
            refreshed = []
            invalidated = []
        }
    }
}
