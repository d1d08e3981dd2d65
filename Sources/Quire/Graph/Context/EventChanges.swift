/// What one user event, a merge or a refresh did to the objects of a context.
struct EventChanges {
    var inserted: [ManagedObject] = []
    var updated: [ManagedObject] = []
    var deleted: [ManagedObject] = []
    /// Objects whose values were read anew.
    var refreshed: [ManagedObject] = []
    /// Objects that were made faults, their changes lost.
    var invalidated: [ManagedObject] = []

    var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && refreshed.isEmpty
            && invalidated.isEmpty
    }
}

extension ManagedObjectContext {
    /// Tells those who observe the context what a user event did.
    func didEndEvent(_ changes: EventChanges) {}
}
