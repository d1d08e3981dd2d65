/// Where a context reads and saves: the coordinator, or a parent context.
protocol ObjectSource: AnyObject, Sendable {
    /// The model.
    var layout: ModelLayout { get }
    /// What the identifiers of stored objects share.
    var storeIdentity: StoreIdentity { get }
    /// What temporary identifiers share.
    var temporaryIdentity: StoreIdentity { get }
    /// Those who want to know what is saved here.
    var saveListeners: SaveListeners { get }

    func rows(matching request: FetchRequest) throws -> RowSet
    func count(matching request: FetchRequest) throws -> Int
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot?
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet
    func reserveObjectIDs(for entity: EntityLayout, count: Int) throws -> [ManagedObjectID]
    /// The permanent identifier of an object that this source, or one above it, knows by a temporary one.
    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID?
    func save(_ changes: ChangeSet) throws
}
