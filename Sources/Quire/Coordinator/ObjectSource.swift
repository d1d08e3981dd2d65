internal import QuireStore

/// Reads objects as rows: the coordinator, a parent context, or unsaved changes laid over one of these.
protocol ObjectReader {
    func rows(matching request: FetchSpecification) throws -> RowSet
    func count(matching request: FetchSpecification) throws -> Int
    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList
    /// The row of an object. A cached row is used if it was read at most `maximumAge` seconds ago; any if that is negative.
    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot?
    /// The rows of objects of any entities, in any order, without those that do not exist.
    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet
    /// The contents of a to-many relationship for objects of one entity hierarchy.
    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects
}

/// The source of a context, from which it reads and to which it saves: the coordinator, or a parent context.
protocol ObjectSource: ObjectReader, AnyObject, Sendable {
    /// The model.
    var layout: ResolvedModel { get }
    /// The store identity of permanent identifiers.
    var storeIdentity: StoreIdentity { get }
    /// The store identity of temporary identifiers.
    var temporaryIdentity: StoreIdentity { get }
    /// Observers of saves to this source.
    var saveObservers: SaveObservers { get }

    /// The child's rows that are older than the last save or change in this source, or one above it, unless they are the
    /// child's own. The child is identified by its number.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64>
    /// Evicts the rows of objects from the coordinator's cache; all rows for `nil`.
    func forgetRows(of objectIDs: [ManagedObjectID]?)
    /// Reserves identifiers for new objects; in the given store, or else in the first that keeps objects of the entity.
    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID]
    /// The permanent identifier that replaced a temporary one in this source, or one above it.
    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID?
    /// Saves, and returns the objects whose derived values have changed.
    func save(_ changes: ChangeSet) throws -> [ManagedObjectID]
}

/// A row as a context shows it, with version 0 for one that is not the store's.
struct KnownRowVersion: Sendable {
    var bits: UInt64
    var version: UInt32
}

extension ObjectSource {
    /// The source's present row of an object.
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        try row(for: objectID, maximumAge: 0)
    }

    /// The source's present rows of objects.
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        try rows(for: objectIDs, maximumAge: 0)
    }
}
