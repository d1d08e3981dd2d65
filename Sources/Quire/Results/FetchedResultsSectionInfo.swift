/// A section of a ``FetchedResultsController``, as it was when it was asked for. Used on the context's queue.
public struct FetchedResultsSectionInfo<Result: ManagedObject> {
    /// The value of the section key path that its objects have in common, as text: `true` for a truth value,
    /// `2026-11-21T10:00:00Z` for a date, empty for a missing one or if the controller has no sections.
    public let name: String
    /// The title in the section index; see ``FetchedResultsController/sectionIndexTitle(forSectionName:)``.
    public let indexTitle: String?
    /// Its objects, which come to be when they are touched. Positions count in all results.
    public let objects: Slice<TypedFetchedObjects<Result>>

    /// The number of objects.
    public var numberOfObjects: Int { objects.count }
}

@available(*, unavailable, message: "Sections are used on their context's queue.")
extension FetchedResultsSectionInfo: Sendable {}
