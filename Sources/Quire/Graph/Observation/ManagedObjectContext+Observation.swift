public import Foundation
public import Observation

extension ManagedObjectContext: Observable {
    /// Whether the properties of the context's objects are observable with Swift's Observation.
    ///
    /// ```swift
    /// withObservationTracking {
    ///     label.text = book["title", as: String.self] ?? ""
    /// } onChange: {
    ///     Task { @MainActor in redraw() }
    /// }
    /// ```
    ///
    /// `onChange` is called before the first change of a property that the closure read, regardless of its cause: set, undone,
    /// redone, rolled back, refreshed, merged, resolved by a merge policy, saved by a child, inverse maintenance, or the
    /// object's deletion. Where many objects become faults, or a merge policy resolves relationships, it may be called although
    /// the property does not change. Properties are attributes and relationships, read by key, by slot or by a typed accessor,
    /// and whether the object is inserted, updated or deleted. Of the context, ``hasChanges``, ``insertedObjects``,
    /// ``updatedObjects`` and ``deletedObjects`` are observable; their observers are notified at the end of a user event and
    /// after a save. Not observable are whether an object is a fault, ``ManagedObject/changedValues()``, and the results of
    /// fetches and fetched properties. The context's own reads, to save or to execute a fetch, are not recorded. Like every
    /// `onChange`, it should only schedule work.
    ///
    /// True for `PersistentContainer.viewContext` and a document's context, which views show, and false for other contexts:
    /// testing whether a read is recorded takes 33 to 38 ns, beside 10 to 40 ns for reading a value by slot and 70 by key.
    /// False costs nothing. Only objects that were read while recording have a registrar, which takes 90 ns to make. Setting it
    /// to false ends the recording of later reads.
    public var isObservable: Bool {
        get { stateOfObjects.contains(.observable) }
        set {
            checkQueue()
            if newValue == isObservable { return }
            if newValue {
                if observation == nil { observation = ContextObservation() }
                stateOfObjects.insert(.observable)
                identityMap.forEach { $0.state.insert(.observable) }
            } else {
                stateOfObjects.remove(.observable)
                identityMap.forEach { $0.state.remove(.observable) }
            }
        }
    }

    /// The subscript that represents the changed objects in key paths.
    subscript(observedChanges number: Int) -> Void { () }

    /// Registers an access to the changed objects.
    @inline(__always)
    func noteAccessOfChanges() {
        if isObservable { observation?.accessChanges(of: self) }
    }

    /// Runs a closure whose reads are not recorded.
    func withoutNoting<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let observation, !observation.isSuspended else { return try body() }
        observation.isSuspended = true
        defer { observation.isSuspended = false }
        return try body()
    }
}

// MARK: - Notifications

/// The notifications that a context posts to `NotificationCenter.default`, with itself as their object, on its
/// queue and before the call that caused them returns.
///
/// | to | observe |
/// |---|---|
/// | show what the user edits | ``didChangeObjectsNotification``: once per user event, refresh, merge, rollback and reset |
/// | complete objects before they are saved | ``willSaveObjectsNotification``: what is changed then is saved too |
/// | act on what was saved, with the objects | ``didSaveObjectsNotification`` |
/// | bring another context up to date | ``didSaveObjectIDsNotification``, whose identifiers may go to any queue |
/// | refetch after merges of other contexts' changes | ``didMergeChangesObjectIDsNotification`` |
/// | follow changes with `for await` | ``changes`` and ``saves``, or ``PersistentStoreCoordinator/saves`` |
/// | follow the properties that a view shows | Swift's Observation; see ``isObservable`` |
/// | follow an ordered relationship, with positions | `observe(_:changeHandler:)` |
///
/// A notification's objects are read by `notification.insertedObjects` and its siblings, and only on the context's
/// queue; its identifiers by ``Foundation/Notification/objectIDChanges``. A deallocating context posts nothing.
/// Observe without a queue (`queue: nil`): the block is then called on the context's queue, which for a view context is the main
/// actor's. With an operation queue Foundation waits on Linux, within the post, until the queue has called the block. In a
/// program with an asynchronous main function the main actor does not run on the main thread there, so a post of the view
/// context to an observer with `queue: .main` waits for itself forever.
///
/// `NotificationCenter` does not retain the observed context; remove the observer when the context is released, because a later
/// context may have the same address.
extension ManagedObjectContext {
    /// Posted when a user event ends that changed objects, and after a refresh, a merge, a rollback, a reset, the save of a
    /// child, and a conflict resolution by a merge policy during a save.
    ///
    /// An object that was inserted and deleted within one event is in none of its sets; one that was changed twice is there
    /// once. After a rollback, removed objects are among the deleted ones, restored ones among the inserted ones, and the rest
    /// among the refreshed ones. After a reset all objects are among the invalidated ones, and
    /// `notification.invalidatedAllObjects` is true.
    ///
    /// Observers may change objects: that is a new user event, which ends at the next turn of the queue. They may also save.
    public static let didChangeObjectsNotification = Notification.Name(
        "QuireManagedObjectContextDidChangeObjects")

    /// Posted when a save with changes begins, before ``ManagedObject/willSave()`` and validation.
    ///
    /// Observers may change objects, but not save, which traps.
    public static let willSaveObjectsNotification = Notification.Name(
        "QuireManagedObjectContextWillSaveObjects")

    /// Posted when a save has succeeded, after the store has committed or the parent has the changes.
    ///
    /// The objects have their permanent identifiers. Observers may change objects and save again.
    public static let didSaveObjectsNotification = Notification.Name(
        "QuireManagedObjectContextDidSaveObjects")

    /// Posted after ``didSaveObjectsNotification``, with identifiers only, which may go to any queue.
    public static let didSaveObjectIDsNotification = Notification.Name(
        "QuireManagedObjectContextDidSaveObjectIDs")

    /// Posted after changes saved by another context have been merged, with the identifiers passed to the merge. The resulting
    /// changes of registered objects were posted as ``didChangeObjectsNotification`` before.
    public static let didMergeChangesObjectIDsNotification = Notification.Name(
        "QuireManagedObjectContextDidMergeChangesObjectIDs")

    /// The keys in the notifications' `userInfo`.
    ///
    /// The sets of objects are built on first access, so they are not in `userInfo` themselves; read
    /// `notification.insertedObjects` and its siblings.
    public enum NotificationKey: String, Sendable {
        /// The changed objects.
        case objects
        /// The identifiers of the changed objects, as ``ObjectIDChanges``.
        case objectIDs
    }

    // MARK: Posting

    /// Notifies the context's observers of a user event, a merge or a refresh.
    func didEndEvent(_ changes: EventChanges) {
        notifyObservers(ContextChange(event: changes, concernsAll: changes.isReset))
        announce(changes)
        if isWriteBehindParent && !changes.isReset { announceToChildren(changes) }
    }

    /// Notifies a write-behind parent's children of an event, except for objects that one of them has saved.
    private func announceToChildren(_ changes: EventChanges) {
        if saveObservers.isEmpty { return }
        // New objects get the identifiers by which children will know them.
        if changes.inserted.contains(where: \.objectID.isTemporaryID) { try? prepareForChild() }
        let changes = changes.objectIDs.filter { !savedByChild.contains($0.bits) }
        if !changes.isEmpty { saveObservers.tell(changes, except: nil) }
    }

    /// Posts the notification of a user event, a merge or a refresh; context observers have been notified.
    func announce(_ changes: EventChanges) {
        observation?.contextDidChange(self)
        guard !changes.isEmpty else { return }
        changeBroadcast.send(changes.objectIDs)
        post(Self.didChangeObjectsNotification, .objects, ChangedObjects(changes, on: queueMarker))
    }

    /// Posts the notification of a merge, after ``didEndEvent(_:)`` with its changes of registered objects.
    func didMerge(_ changes: ObjectIDChanges) {
        post(Self.didMergeChangesObjectIDsNotification, .objectIDs, changes)
    }

    /// Posts the notification of a beginning save, and ends the event of the observers' changes.
    func announceSave() {
        precondition(
            !isAnnouncingSave,
            "save() was called by an observer of willSaveObjectsNotification. Changes made there are part of the save; do not call save()."
        )
        isAnnouncingSave = true
        post(Self.willSaveObjectsNotification)
        isAnnouncingSave = false
        processPendingChanges()
    }

    /// The changes of a beginning save.
    ///
    /// - Complexity: O(*n*) in changed objects.
    func changesToSave(inserted: [ManagedObject]) -> EventChanges {
        var changes = EventChanges(inserted: inserted)
        for object in tracked where object.state.contains(.persisted) {
            if object.isGone {
                changes.deleted.append(object)
            } else if object.isModified {
                changes.updated.append(object)
            }
        }
        return changes
    }

    /// Notifies observers of a finished save.
    func didSave(_ changes: EventChanges) {
        notifyObservers(ContextChange(event: changes, isSave: true))
        observation?.contextDidChange(self)
        let objectIDs = changes.objectIDs
        saveBroadcast.send(objectIDs)
        post(Self.didSaveObjectsNotification, .objects, ChangedObjects(changes, on: queueMarker))
        post(Self.didSaveObjectIDsNotification, .objectIDs, objectIDs)
    }

    private func post(
        _ name: Notification.Name, _ key: NotificationKey, _ value: @autoclosure () -> Any
    ) {
        if !isWriteBehindParent { post(name, [AnyHashable(key.rawValue): value()]) }
    }

    private func post(_ name: Notification.Name, _ information: [AnyHashable: Any]? = nil) {
        // A write-behind parent posts nothing: its children announce their changes.
        if isWriteBehindParent { return }
        NotificationCenter.default.post(name: name, object: self, userInfo: information)
    }
}

// MARK: - Contents of notifications

/// The contents of a ``ManagedObjectContext``'s notifications. All sets of objects are empty in other notifications, and in
/// those that have identifiers only. Used on the context's queue.
///
/// - Complexity: O(*n*) in the objects of a set at its first access.
extension Notification {
    /// Inserted objects, and restored ones.
    public var insertedObjects: Set<ManagedObject> { changedObjects?.inserted ?? [] }
    /// Objects whose values or relationships changed.
    public var updatedObjects: Set<ManagedObject> { changedObjects?.updated ?? [] }
    /// Deleted objects, and new ones removed from the context.
    public var deletedObjects: Set<ManagedObject> { changedObjects?.deleted ?? [] }
    /// Objects that had no changes, or lost them, and have the values of the store or the parent.
    public var refreshedObjects: Set<ManagedObject> { changedObjects?.refreshed ?? [] }
    /// Objects turned into faults, their changes discarded.
    public var invalidatedObjects: Set<ManagedObject> { changedObjects?.invalidated ?? [] }
    /// Whether the context was reset and has released all its objects.
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

/// The objects of a notification, turned into sets on first access, so that unobserved programs do not pay for them.
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
        marker.async { contents.removeAll() }
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

// MARK: - Sequences

/// Changes as asynchronous sequences of identifiers, which may go to any queue.
///
/// ```swift
/// for await changes in document.managedObjectContext.changes {
///     list.update(changes.updated)
/// }
/// ```
///
/// Every call returns a new sequence, which has all changes from the call on: nothing is dropped, so it grows if its consumer
/// falls behind. It ends when the context is released, which it does not retain, or when the awaiting task is cancelled. Use
/// one for each consumer.
extension ManagedObjectContext {
    /// The changes of the context's objects by user events, merges, refreshes, rollbacks, resets and saves of children: one
    /// element each. New objects have temporary identifiers until they are saved.
    public var changes: AsyncStream<ObjectIDChanges> { changeBroadcast.stream() }

    /// The context's saves, to its parent or to the store: one element for each save that succeeded.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}

extension QueueConfinedContext {
    /// The changes of the context's objects; see ``ManagedObjectContext/changes``. May be called anywhere.
    public var changes: AsyncStream<ObjectIDChanges> { changeBroadcast.stream() }

    /// The context's saves; see ``ManagedObjectContext/saves``. May be called anywhere.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}
