public import Foundation
public import Observation

extension ManagedObjectContext: Observable {
    /// Whether Swift's Observation follows the properties of the context's objects.
    ///
    /// ```swift
    /// withObservationTracking {
    ///     label.text = book.string("title") ?? ""
    /// } onChange: {
    ///     Task { @MainActor in redraw() }
    /// }
    /// ```
    ///
    /// `onChange` is called before the first change of a property that the closure read, by whatever way: set,
    /// undone, redone, rolled back, refreshed, merged, decided by a merge policy, saved by a child, kept in step with an
    /// inverse, or gone with the object's deletion. Where many objects become faults, or a merge policy decides about
    /// relationships, it may be called although the property then is what it was. Properties are attributes and
    /// relationships, read by key, by slot or by a typed accessor, and whether the object is inserted, updated or
    /// deleted. Of the context, ``hasChanges``, ``insertedObjects``, ``updatedObjects`` and ``deletedObjects`` can be
    /// followed; they are told at the end of a user event and after a save. Whether an object is a fault, what
    /// ``ManagedObject/changedValues()`` says, and which objects a fetch or a fetched property finds, cannot.
    /// What a context reads for itself, to save or to fetch for one, is not followed.
    /// Like every `onChange`, it should only schedule work.
    ///
    /// It is true for `PersistentContainer.viewContext` and a document's context, which views show, and false
    /// for others: asking Swift whether a read is recorded takes 33 to 38 ns, beside 10 to 40 ns for reading a value by
    /// slot and 70 by key. False costs nothing. Only objects that were read while recording have a registrar, which
    /// takes 90 ns to make. Setting it false ends the recording of what is read from then on.
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

    /// The subscript that stands for the changed objects in key paths.
    subscript(observedChanges number: Int) -> Void { () }

    /// Notes that the changed objects are asked for.
    @inline(__always)
    func noteAccessOfChanges() {
        if isObservable { observation?.accessChanges(of: self) }
    }

    /// Runs a closure whose reads are not followed.
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
/// | refetch after changes of others came in | ``didMergeChangesObjectIDsNotification`` |
/// | follow changes with `for await` | ``changes`` and ``saves``, or ``PersistentStoreCoordinator/saves`` |
/// | follow the properties that a view shows | Swift's Observation; see ``isObservable`` |
///
/// A notification's objects are read by ``Foundation/Notification/insertedObjects`` and its siblings, and only on the
/// context's queue; its identifiers by ``Foundation/Notification/objectIDChanges``. A context that ends posts nothing.
/// `NotificationCenter` does not keep the context an observer asks for; remove the observer when the context goes,
/// because a later context may be at the same address.
extension ManagedObjectContext {
    /// Posted when a user event ends that changed objects, and after a refresh, a merge, a rollback, a reset, the
    /// save of a child, and when a save has had a merge policy decide.
    ///
    /// An object that was inserted and deleted within one event is in none of its sets; one that was changed
    /// twice is there once. A rollback has what leaves among the deleted objects, what comes back among the
    /// inserted ones, and the others among the refreshed. A reset has all objects among the invalidated ones,
    /// and ``Foundation/Notification/invalidatedAllObjects`` is true.
    ///
    /// Observers may change objects: that is a new user event, which ends at the next turn of the queue. They
    /// may also save.
    public static let didChangeObjectsNotification = Notification.Name(
        "QuireManagedObjectContextDidChangeObjects")

    /// Posted when a save begins that has something to save, before ``ManagedObject/willSave()`` and validation.
    ///
    /// Observers may change objects, but not save: that stops the program with a sentence.
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

    /// Posted when changes saved elsewhere have been merged into the context, with the identifiers that were
    /// given to it. What that did to objects the context has was posted as ``didChangeObjectsNotification``
    /// before.
    public static let didMergeChangesObjectIDsNotification = Notification.Name(
        "QuireManagedObjectContextDidMergeChangesObjectIDs")

    /// The keys in the notifications' `userInfo`.
    ///
    /// The sets of objects are made only when they are asked for, so they are not in `userInfo` themselves; read
    /// ``Foundation/Notification/insertedObjects`` and so on.
    public enum NotificationKey: String, Sendable {
        /// What happened to which objects.
        case objects
        /// What happened to which objects, as ``ObjectIDChanges``.
        case objectIDs
    }

    // MARK: Posting

    /// Tells those who observe the context what a user event, a merge or a refresh did.
    func didEndEvent(_ changes: EventChanges) {
        notifyObservers(ContextChange(event: changes, concernsAll: changes.isReset))
        announce(changes)
        if isWriteBehindParent && !changes.isReset { announceToChildren(changes) }
    }

    /// Has a relay's children merge an event, except what one of them has saved.
    private func announceToChildren(_ changes: EventChanges) {
        if saveObservers.isEmpty { return }
        // What is new has the identifiers then by which children will know it.
        if changes.inserted.contains(where: \.objectID.isTemporary) { try? prepareForChild() }
        let changes = changes.objectIDs.filter { !savedByChild.contains($0.bits) }
        if !changes.isEmpty { saveObservers.tell(changes, except: nil) }
    }

    /// Tells observers what a user event, a merge or a refresh did; those who follow the context know it.
    func announce(_ changes: EventChanges) {
        observation?.contextDidChange(self)
        guard !changes.isEmpty else { return }
        changeBroadcast.send(changes.objectIDs)
        post(Self.didChangeObjectsNotification, .objects, ChangedObjects(changes, on: queueMarker))
    }

    /// Tells those who observe the context what was merged into it, after ``didEndEvent(_:)`` with what that
    /// did to its objects.
    func didMerge(_ changes: ObjectIDChanges) {
        post(Self.didMergeChangesObjectIDsNotification, .objectIDs, changes)
    }

    /// Tells observers that a save begins, and ends the event of what they change.
    func announceSave() {
        precondition(
            !isAnnouncingSave,
            "save() was called by an observer of willSaveObjectsNotification; change objects there, they are saved."
        )
        isAnnouncingSave = true
        post(Self.willSaveObjectsNotification)
        isAnnouncingSave = false
        processPendingChanges()
    }

    /// What a save is about to save.
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

    /// Tells those who observe the context what was saved.
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
        // What a relay passes on is announced where it was changed.
        if isWriteBehindParent { return }
        NotificationCenter.default.post(name: name, object: self, userInfo: information)
    }
}

// MARK: - Contents of notifications

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

// MARK: - Sequences

/// Changes as asynchronous sequences of identifiers, which may go to any queue.
///
/// ```swift
/// for await changes in document.managedObjectContext.changes {
///     list.update(changes.updated)
/// }
/// ```
///
/// Every call gives a sequence of its own, which has all that happens from the call on, also while nobody
/// waits for it: nothing is dropped, so a consumer that falls behind makes it grow. It ends when the context
/// goes, which it does not keep, or when the task that waits is cancelled. Give each consumer its own.
extension ManagedObjectContext {
    /// What user events, merges, refreshes, rollbacks, resets and saves of children do to the context's objects:
    /// one element each. New objects have temporary identifiers until they are saved.
    public var changes: AsyncStream<ObjectIDChanges> { changeBroadcast.stream() }

    /// What this context saves, to its parent or to the store: one element for each save that succeeded.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}

extension ConfinedContext {
    /// What happens to the context's objects; see ``ManagedObjectContext/changes``. May be called anywhere.
    public var changes: AsyncStream<ObjectIDChanges> { changeBroadcast.stream() }

    /// What the context saves; see ``ManagedObjectContext/saves``. May be called anywhere.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}
