package import QuireModel
package import QuireSystem

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

    /// The error of a row whose unique values a stored object has that is not of the row's entity: it has no place for what
    /// only the row's entity has, and would not be found as one.
    package static func entityError(
        _ entity: EntityLayout, holder: ManagedObjectID, file: String?
    ) -> QuireError {
        QuireError(
            .constraintConflict,
            "\(holder.shortDescription) has values of the row that must be unique, and is no “\(entity.name)”, so it cannot "
                + "take the row over; change the row, or delete the object before.",
            subject: .init(
                entity: entity.name, object: holder.uriRepresentation, file: file))
    }
}
