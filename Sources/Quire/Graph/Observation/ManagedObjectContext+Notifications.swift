public import Foundation

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
        tellFollowers(FollowedChanges(event: changes, concernsAll: changes.isReset))
        announce(changes)
        if isRelay && !changes.isReset { announceToChildren(changes) }
    }

    /// Has a relay's children merge an event, except what one of them has saved.
    private func announceToChildren(_ changes: EventChanges) {
        if saveListeners.isEmpty { return }
        // What is new has the identifiers then by which children will know it.
        if changes.inserted.contains(where: \.objectID.isTemporary) { try? prepareForChild() }
        let changes = changes.objectIDs.filter { !savedByChild.contains($0.bits) }
        if !changes.isEmpty { saveListeners.tell(changes, except: nil) }
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
        tellFollowers(FollowedChanges(event: changes, isSave: true))
        observation?.contextDidChange(self)
        let objectIDs = changes.objectIDs
        saveBroadcast.send(objectIDs)
        post(Self.didSaveObjectsNotification, .objects, ChangedObjects(changes, on: queueMarker))
        post(Self.didSaveObjectIDsNotification, .objectIDs, objectIDs)
    }

    private func post(
        _ name: Notification.Name, _ key: NotificationKey, _ value: @autoclosure () -> Any
    ) {
        if !isRelay { post(name, [AnyHashable(key.rawValue): value()]) }
    }

    private func post(_ name: Notification.Name, _ information: [AnyHashable: Any]? = nil) {
        // What a relay passes on is announced where it was changed.
        if isRelay { return }
        NotificationCenter.default.post(name: name, object: self, userInfo: information)
    }
}
