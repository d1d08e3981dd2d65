/// Where a context reads and saves: the coordinator, or a parent context.
protocol ObjectSource: AnyObject, Sendable {
    /// The model.
    var layout: ResolvedModel { get }
    /// What the identifiers of stored objects share.
    var storeIdentity: StoreIdentity { get }
    /// What temporary identifiers share.
    var temporaryIdentity: StoreIdentity { get }
    /// Those who want to know what is saved here.
    var saveObservers: SaveObservers { get }

    func rows(matching request: FetchRequest) throws -> RowSet
    func count(matching request: FetchRequest) throws -> Int
    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList
    /// The row of an object. One that the coordinator has kept will do if it was read at most so many seconds
    /// ago; without bound if that is negative.
    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot?
    /// The rows of objects of any entities, in any order, without those that are gone.
    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet
    /// What a to-many relationship of objects of one entity hierarchy leads to.
    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects
    /// Those of the rows that a child shows which are older than what this source, or one above it, has saved or changed
    /// since: unknown to the child, which is told by its number.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64>
    /// Has the coordinator forget the rows it has kept of some objects; of all for `nil`.
    func forgetRows(of objectIDs: [ManagedObjectID]?)
    /// Sets aside identifiers for new objects; in the store that is named, or else in the first that keeps objects of
    /// the entity.
    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID]
    /// The permanent identifier of an object that this source, or one above it, knows by a temporary one.
    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID?
    /// Saves, and gives the objects whose derived values that has changed.
    func save(_ changes: ChangeSet) throws -> [ManagedObjectID]
}

/// A row as a context shows it, with version 0 for one that is not the store's.
struct KnownRowVersion: Sendable {
    var bits: UInt64
    var version: UInt32
}

extension ObjectSource {
    /// The row of an object, as the source has it now.
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        try row(for: objectID, maximumAge: 0)
    }

    /// The rows of objects, as the source has them now.
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        try rows(for: objectIDs, maximumAge: 0)
    }
}
