internal import QuireStore

/// A state of a coordinator's stores that contexts read from; see ``ManagedObjectContext/setQueryGeneration(from:)``.
public struct QueryGenerationToken: Hashable, Sendable {
    /// The generation that a context pins with its next read.
    public static let current = QueryGenerationToken(generation: nil)

    /// The generation, which the token retains; `nil` for ``current``.
    let generation: QueryGeneration?

    /// Whether two tokens are of the same generation.
    public static func == (left: Self, right: Self) -> Bool { left.generation === right.generation }

    /// Hashes the generation's identity.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(generation.map(ObjectIdentifier.init))
    }
}

/// The source of contexts that read one commit of each store, from the first read on, while others save.
///
/// Saves go to the coordinator. Rows are cached apart from the coordinator's, and never become outdated.
final class QueryGeneration: ObjectSource {
    let coordinator: PersistentStoreCoordinator
    /// The pinned stores; `nil` before the first read.
    private let stores = Lock<(any PersistentStore)?>(nil)
    private let rowCache = RowCache(maximumSize: 8 << 20)

    init(_ coordinator: PersistentStoreCoordinator) { self.coordinator = coordinator }

    deinit {
        // Closing a pinned store writes nothing that could fail.
        try? stores.withLock { $0 }?.close()
    }

    /// Whether there has been a read.
    var isPinned: Bool { stores.withLock { $0 != nil } }

    /// The pinned stores. The first call pins them.
    func store() throws -> any PersistentStore {
        if !coordinator.store.isDataAvailable {
            throw QuireError(
                .protectedDataUnavailable,
                "Protected data of the query generation cannot be read while their protection domain is locked; unlock it."
            )
        }
        return try stores.withLock { stores in
            if let stores { return stores }
            let pinned = try coordinator.store.pinned()
            stores = pinned
            return pinned
        }
    }

    var layout: ResolvedModel { coordinator.layout }
    var storeIdentity: StoreIdentity { coordinator.storeIdentity }
    var temporaryIdentity: StoreIdentity { coordinator.temporaryIdentity }
    var saveObservers: SaveObservers { coordinator.saveObservers }

    func rows(matching request: FetchSpecification) throws -> RowSet {
        try store().rows(matching: request)
    }

    func count(matching request: FetchSpecification) throws -> Int {
        try store().count(matching: request)
    }

    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        try store().objectIDs(matching: request)
    }

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        try rows(for: [objectID], maximumAge: maximumAge).first
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        let store = try store()
        let (found, missing) = rowCache.rows(objectIDs, maximumAge: -1)
        let cached = RowSet(found, layout: layout, store: storeIdentity)
        if missing.isEmpty { return cached }
        let rows = try store.rows(for: missing.filter { !$0.isTemporaryID })
        rowCache.insert(rows, rowCache.ticket())
        return found.isEmpty ? rows : rows.appending(cached)
    }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        try store().relatedRows(of: objectID, through: relationship)
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        try store().relatedObjects(of: objectIDs, through: relationship)
    }

    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64> { [] }

    /// Evicts rows of the coordinator; those of the generation stay as they are.
    func forgetRows(of objectIDs: [ManagedObjectID]?) { coordinator.forgetRows(of: objectIDs) }

    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID] {
        try coordinator.reserveObjectIDs(for: entity, count: count, durably: durably, in: store)
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        coordinator.permanentID(for: temporary)
    }

    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] { try coordinator.save(changes) }
}
