public import QuireModel
internal import Synchronization

/// The identifiers of objects changed by a save or another operation. They may be passed to any queue.
///
/// Merge it into other contexts with ``ManagedObjectContext/mergeChanges(from:)``.
public struct ObjectIDChanges: Sendable, Hashable {
    /// New objects.
    public var inserted: [ManagedObjectID]
    /// Objects whose values or relationships changed.
    public var updated: [ManagedObjectID]
    /// Deleted objects.
    public var deleted: [ManagedObjectID]
    /// Objects whose values were refreshed.
    public var refreshed: [ManagedObjectID]
    /// Objects turned into faults, discarding their changes.
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

    /// The changes with their identifiers transformed.
    package func map(_ transform: (ManagedObjectID) -> ManagedObjectID) -> ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.map(transform), updated: updated.map(transform),
            deleted: deleted.map(transform), refreshed: refreshed.map(transform),
            invalidated: invalidated.map(transform))
    }

    /// The changes restricted to some of the objects.
    package func filter(_ isIncluded: (ManagedObjectID) -> Bool) -> ObjectIDChanges {
        ObjectIDChanges(
            inserted: inserted.filter(isIncluded), updated: updated.filter(isIncluded),
            deleted: deleted.filter(isIncluded), refreshed: refreshed.filter(isIncluded),
            invalidated: invalidated.filter(isIncluded))
    }

    /// Combines successive changes. Each object appears once: one that was inserted and then updated, as inserted. None may be
    /// inserted again after its deletion.
    package init(successive changes: [ObjectIDChanges]) {
        if changes.count == 1 {
            self = changes[0]
            return
        }
        self.init()
        var seen: Set<ManagedObjectID> = []
        func sum(_ ids: KeyPath<ObjectIDChanges, [ManagedObjectID]>) -> [ManagedObjectID] {
            changes.flatMap { $0[keyPath: ids].filter { seen.insert($0).inserted } }
        }
        deleted = sum(\.deleted)
        inserted = sum(\.inserted)
        updated = sum(\.updated)
        refreshed = sum(\.refreshed)
        invalidated = sum(\.invalidated)
    }

    /// Whether an identifier of any kind of change satisfies a condition.
    package func contains(where isFound: (ManagedObjectID) -> Bool) -> Bool {
        inserted.contains(where: isFound) || updated.contains(where: isFound)
            || deleted.contains(where: isFound) || refreshed.contains(where: isFound)
            || invalidated.contains(where: isFound)
    }

    /// Whether the value contains no changes.
    public var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && refreshed.isEmpty
            && invalidated.isEmpty
    }
}

// MARK: - Versions of content

/// A version of a store's content. Equal versions mean that no save by any connection came between them; they may differ
/// without a save.
public struct ContentVersion: Hashable, Sendable {
    /// The source of the count, unique to a connection within the process.
    package let counter: UInt64
    package let number: Int64

    /// Creates a version from a save count and the process-wide unique number of its counter.
    public init(counter: UInt64, number: Int64) {
        self.counter = counter
        self.number = number
    }

    /// A process-wide unique number for a connection that counts its saves.
    package static func newCounter() -> UInt64 {
        lastCounter.wrappingAdd(1, ordering: .relaxed).newValue
    }

    private static let lastCounter = Atomic<UInt64>(0)
}
