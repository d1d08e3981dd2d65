/// What a batch request did.
public struct BatchResult: Sendable, Hashable {
    /// How many objects it inserted, updated or deleted: of a deletion, those that were taken along by cascade too;
    /// of an insertion, also the stored objects that took over values. What merely lost a reference does not count.
    public let count: Int
    /// The identifiers of the objects, if the request asked for them by ``BatchResultType/objectIDs``; else empty.
    ///
    /// Objects that lost a reference to a deleted one are among ``ObjectIDChanges/updated``, those whose derived attributes
    /// came out otherwise among ``ObjectIDChanges/refreshed``. Hand it to
    /// ``ManagedObjectContext/mergeChanges(fromRemoteContextSave:into:)``.
    public let changes: ObjectIDChanges

    /// Describes what was done.
    public init(count: Int, changes: ObjectIDChanges = ObjectIDChanges()) {
        self.count = count
        self.changes = changes
    }
}

/// What a batch insertion does about a row whose values must be unique and are those of a stored object already.
public enum UpsertRule: Sendable, Hashable, CaseIterable {
    /// It fails.
    case refuse
    /// The row is left out.
    case skip
    /// The stored object gets the row's values where it has none.
    case fill
    /// The stored object gets the values that the row names.
    case update
    /// The stored object gets all attributes of a new object, and the relationships that the row names.
    case replace
}
