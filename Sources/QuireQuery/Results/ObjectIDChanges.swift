public import QuireModel

/// What a save, or something else that changed objects, did: the identifiers of the objects, which may go to any
/// queue.
///
/// ``ManagedObjectContext/mergeChanges(from:)`` brings another context up to date with it.
public struct ObjectIDChanges: Sendable, Hashable {
    /// New objects.
    public var inserted: [ManagedObjectID]
    /// Objects whose values or relationships changed.
    public var updated: [ManagedObjectID]
    /// Deleted objects.
    public var deleted: [ManagedObjectID]
    /// Objects whose values were read anew.
    public var refreshed: [ManagedObjectID]
    /// Objects that were made faults, their changes lost.
    public var invalidated: [ManagedObjectID]

    /// Describes changes.
    public init(
        inserted: [ManagedObjectID] = [], updated: [ManagedObjectID] = [],
        deleted: [ManagedObjectID] = [], refreshed: [ManagedObjectID] = [],
        invalidated: [ManagedObjectID] = []
    ) {
        self.inserted = inserted
        self.updated = updated
        self.deleted = deleted
        self.refreshed = refreshed
        self.invalidated = invalidated
    }

    /// The same changes of other identifiers.
    package func map(_ transform: (ManagedObjectID) -> ManagedObjectID) -> ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.map(transform), updated: updated.map(transform),
            deleted: deleted.map(transform), refreshed: refreshed.map(transform),
            invalidated: invalidated.map(transform))
    }

    /// The changes of some of the objects.
    package func filter(_ isIncluded: (ManagedObjectID) -> Bool) -> ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.filter(isIncluded), updated: updated.filter(isIncluded),
            deleted: deleted.filter(isIncluded), refreshed: refreshed.filter(isIncluded),
            invalidated: invalidated.filter(isIncluded))
    }

    /// Whether nothing happened to any object.
    public var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && refreshed.isEmpty
            && invalidated.isEmpty
    }
}
