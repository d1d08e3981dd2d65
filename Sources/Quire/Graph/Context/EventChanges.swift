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
