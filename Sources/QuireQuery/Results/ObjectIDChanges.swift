public import QuireModel
internal import Synchronization

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

// MARK: - Versions of content

/// Tells whether a store's contents have stayed the same: two that are equal were asked for with no save in between, by
/// whomever. They may differ although nothing was saved.
public struct ContentVersion: Hashable, Sendable {
    /// Who has counted: no two connections have the same number in a process.
    package let counter: UInt64
    package let number: Int64

    /// Makes a version of a number that counts saves, and one of who counts them, which is unique in the process.
    public init(counter: UInt64, number: Int64) {
        self.counter = counter
        self.number = number
    }

    /// A number for somebody who counts saves that nobody else in the process has.
    package static func newCounter() -> UInt64 {
        lastCounter.wrappingAdd(1, ordering: .relaxed).newValue
    }

    private static let lastCounter = Atomic<UInt64>(0)
}
