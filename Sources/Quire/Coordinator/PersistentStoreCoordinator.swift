/// Stands between contexts and a store.
///
/// Contexts of one coordinator share its store and its model. It may be used from any thread.
public final class PersistentStoreCoordinator: Sendable, ObjectSource {
    /// The store.
    public let store: any PersistentStore
    /// The model, with inheritance and inverses resolved.
    public var layout: ModelLayout { store.layout }
    let temporaryIdentity: StoreIdentity
    let saveListeners = SaveListeners()
    var storeIdentity: StoreIdentity { store.identity }
    private let saveBroadcast = Broadcast<ObjectIDChanges>()

    /// Coordinates a store, which brings its model.
    public init(store: any PersistentStore) {
        self.store = store
        temporaryIdentity = StoreIdentity(uuid: "", entityNames: store.layout.entities.map(\.name))
    }

    /// The identifier that a text stands for: a URI, `x-coredata://STORE-UUID/Entity/p12`, or `Entity/p12`.
    ///
    /// The object need not exist.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is neither, `unknownEntity` if the model has no
    ///   such entity, or `notFound` if the URI is of another store.
    public func objectID(for text: String) throws -> ManagedObjectID {
        try ManagedObjectID(parsing: text, in: layout, store: store.identity)
    }

    /// Ends all use of the store. Contexts must not be used afterwards; what they ask throws.
    public func close() throws { try store.close() }

    func rows(matching request: FetchRequest) throws -> RowSet { try store.rows(matching: request) }

    func count(matching request: FetchRequest) throws -> Int { try store.count(matching: request) }

    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        objectID.isTemporary ? nil : try store.row(for: objectID)
    }

    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        try store.rows(for: objectIDs.filter { !$0.isTemporary })
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? { nil }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        try store.relatedRows(of: objectID, through: relationship)
    }

    func reserveObjectIDs(for entity: EntityLayout, count: Int) throws -> [ManagedObjectID] {
        try store.reserveObjectIDs(for: entity, count: count)
    }

    func save(_ changes: ChangeSet) throws {
        try store.save(changes)
        if changes.inserted.isEmpty && changes.updated.isEmpty && changes.deleted.isEmpty { return }
        saveBroadcast.send(
            ObjectIDChanges(
                inserted: changes.inserted.map(\.objectID),
                updated: changes.updated.map(\.objectID),
                deleted: changes.deleted.map(\.objectID)))
    }

    /// What contexts save to the store: one element for each save that changed objects, after it was
    /// committed.
    ///
    /// Every call gives a sequence of its own, which has all saves from the call on; nothing is dropped, so a
    /// consumer that falls behind makes it grow. It ends when the coordinator goes, which it does not keep, or
    /// when the task that waits is cancelled. Saves come in the order they were committed; two that ran at the
    /// same time in different contexts may come in either order.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}
