public import QuireModel

/// Deletes objects straight in the store, without reading any of them, by the delete rules of the model:
///
/// - objects that a cascade relationship leads to are deleted too, and so on from these,
/// - others lose their reference, and if they must have it, or too few are left, the request fails,
/// - as long as a deny relationship leads to an object that is not deleted, the request fails.
///
/// ```swift
/// var old = FetchRequest("Book")
/// old.predicate = try QueryPredicate(format: "year < %d", 1800)
/// var request = BatchDeleteRequest(fetchRequest: old)
/// request.resultType = .objectIDs
/// let result = try context.execute(request)
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library])
/// ```
///
/// References of relationships without an inverse, and those that the rule "no action" leaves, stay as they do when
/// an object is deleted in a context.
public struct BatchDeleteRequest: Sendable, Hashable {
    /// Which objects are deleted.
    package enum Selection: Sendable, Hashable {
        case request(FetchRequest)
        case objectIDs([ManagedObjectID])
    }

    package let selection: Selection
    /// What the request gives back.
    public var resultType = BatchResultType.statusOnly

    /// Deletes the objects that a request finds, in its order, within its limit and offset. Unsaved changes do not
    /// count.
    public init(fetchRequest: FetchRequest) { selection = .request(fetchRequest) }

    /// Deletes objects of any entities. Those that are gone already do not count.
    public init(objectIDs: [ManagedObjectID]) { selection = .objectIDs(objectIDs) }

    /// The request that finds the objects, if they were not given by their identifiers.
    public var fetchRequest: FetchRequest? {
        if case .request(let request) = selection { request } else { nil }
    }

    /// The identifiers of the objects, if they were given so.
    public var objectIDs: [ManagedObjectID]? {
        if case .objectIDs(let objectIDs) = selection { objectIDs } else { nil }
    }
}
