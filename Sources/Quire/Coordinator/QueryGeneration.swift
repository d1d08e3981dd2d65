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
/// Saves go to the coordinator. Rows are cached separately from the coordinator's, and never become outdated. A store without
/// generations is not pinned, and its rows are not cached.
final class QueryGeneration: ObjectSource {
    let coordinator: PersistentStoreCoordinator
    /// `nil` before the first read.
    private let state = Lock<State?>(nil)
    private let rowCache = RowCache(maximumSize: 8 << 20)

    private struct State {
        /// The stores to read; `nil` for the coordinator's, if none can be pinned.
        var store: (any PersistentStore)?
        /// The pinned stores, to be closed.
        var pinned: [any PersistentStore] = []
        /// Whether all stores are pinned.
        var isWhole = true
    }

    init(_ coordinator: PersistentStoreCoordinator) { self.coordinator = coordinator }

    deinit {
        // Closing a pinned store writes nothing that could fail.
        for store in state.withLock({ $0?.pinned ?? [] }) { try? store.close() }
    }

    /// Whether a read has pinned stores.
    var isPinned: Bool { state.withLock { $0?.pinned.isEmpty == false } }

    /// The stores to read. The first call pins them.
    func store() throws -> any PersistentStore { try read().store ?? coordinator.store }

    private func read() throws -> State {
        if !coordinator.store.isDataAvailable {
            throw QuireError(
                .protectedDataUnavailable,
                "Protected data of the query generation cannot be read while their protection domain is locked; unlock it."
            )
        }
        return try state.withLock { state in
            if let state { return state }
            let new = try Self.pin(coordinator.store)
            state = new
            return new
        }
    }

    private static func pin(_ store: any PersistentStore) throws -> State {
        func pinned(_ store: any PersistentStore) throws -> (any PersistentStore)? {
            do { return try store.pinned() } catch let error as QuireError
                where error.code == .unsupported
            {
                return nil
            }
        }
        guard let combination = store as? CompositeStore else {
            let pinned = try pinned(store)
            return State(
                store: pinned, pinned: pinned.map { [$0] } ?? [], isWhole: pinned != nil)
        }
        var state = State()
        do {
            let members = try combination.members.map { member in
                guard let pinned = try pinned(member.store) else {
                    state.isWhole = false
                    return member
                }
                state.pinned.append(pinned)
                return CompositeStore.Member(store: pinned, entityNumbers: member.entityNumbers)
            }
            if !state.pinned.isEmpty {
                state.store = CompositeStore(
                    members: members, layout: combination.layout, identity: combination.identity)
            }
        } catch {
            for store in state.pinned { try? store.close() }
            throw error
        }
        return state
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
        // Rows of a store that is not pinned may change.
        if try !read().isWhole {
            return try store.rows(for: objectIDs.filter { !$0.isTemporaryID })
        }
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
