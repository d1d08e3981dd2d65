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
