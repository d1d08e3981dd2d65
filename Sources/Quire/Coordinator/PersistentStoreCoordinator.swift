public import Foundation
internal import QuireSQLite
internal import QuireStore

/// Connects contexts to stores.
///
/// The contexts of one coordinator share its stores, its model, and its row cache. Usable from any thread.
///
/// ```swift
/// let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
/// try coordinator.addPersistentStore(PersistentStoreDescription(path: "library.sqlite"))
/// let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
/// ```
///
/// ## Several stores
///
/// Each store keeps the objects of the entities of its configuration, or of all entities. A new object is saved to the first
/// writable store that keeps its entity, unless it is assigned to another; see ``ManagedObjectContext/assign(_:to:)``. A fetch
/// queries all stores that may have matches, and merges the results in the request's order. Relationships stay within one
/// store; fetched properties may cross stores.
///
/// A save to several stores is one transaction in each; all are prepared before the first commits, so an earlier failure saves
/// nothing. A power loss between the commits can leave one store with its part and another without.
///
/// ## Cached rows
///
/// Rows read for single faults, in batches and for prefetching are cached, up to a limit in bytes, and fulfill later faults of
/// all contexts if ``ManagedObjectContext/stalenessInterval`` allows. A cached row is never older than the last save through
/// this coordinator. It can be older than a save by **another process or another coordinator**. The cache is cleared when a
/// save through this coordinator detects another coordinator's save, or fails, and when a context is reset; one row is evicted
/// when its object is refreshed, or a fetch returns a newer version. To see other coordinators' saves at once, set the
/// context's staleness interval to 0, or refresh objects before use.
public final class PersistentStoreCoordinator: Sendable, ObjectSource, ObjectIDReading {
    /// The store, or the composite of several stores.
    public var store: any PersistentStore { stores.withLock(\.combined) }
    /// The model.
    public var managedObjectModel: ManagedObjectModel { layout.model }
    /// The model, with inheritance and inverses resolved.
    package let layout: ResolvedModel
    let stores: Lock<Stores>
    let temporaryIdentity: StoreIdentity
    let saveObservers = SaveObservers()
    /// The store identity of all permanent identifiers.
    let storeIdentity: StoreIdentity
    let rowCache: RowCache
    private let saveBroadcast = Broadcast<ObjectIDChanges>()
    let remoteChangeBroadcast = Broadcast<RemoteChange>()
    /// By the identifiers of the stores whose changes by others are followed.
    let remoteChangeTrackers = Lock<[ObjectIdentifier: RemoteChangeTracker]>([:])

    /// The permanent identifiers of objects that were new in its contexts.
    var replacedIdentifiers: ReplacedIdentifiers { storeIdentity.stores.replacedIdentifiers }

    /// The running services of the stores, by their identifiers.
    package let services = Lock<[ObjectIdentifier: any StoreService]>([:])

    /// Creates a coordinator with a store and its model.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - rowCacheSize: The row cache's limit in bytes; see above. 0 disables it.
    public init(store: any PersistentStore, rowCacheSize: Int = 8 << 20) {
        layout = store.layout
        storeIdentity = store.identity
        stores = Lock(Stores(store))
        temporaryIdentity = StoreIdentity(temporaryIn: store.identity)
        rowCache = RowCache(maximumSize: rowCacheSize)
        store.protectionDomain?.addResponder(self)
        startServices(of: store)
    }

    /// Creates a coordinator without stores; add one before the first fetch or save.
    ///
    /// - Parameters:
    ///   - model: The model of the stores.
    ///   - rowCacheSize: The row cache's limit in bytes; see above. 0 disables it.
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public init(
        managedObjectModel model: ManagedObjectModel, rowCacheSize: Int = 8 << 20
    ) throws {
        layout = try model.layout()
        let names = layout.entities.map(\.name)
        storeIdentity = StoreIdentity(uuid: "", entityNames: names)
        stores = Lock(Stores(layout: layout, identity: storeIdentity))
        temporaryIdentity = StoreIdentity(temporaryIn: storeIdentity)
        rowCache = RowCache(maximumSize: rowCacheSize)
    }

    /// Parses an identifier: a URI, `x-coredata://STORE-UUID/Entity/p12`, or `Entity/p12`.
    ///
    /// The object need not exist. Without a store the identifier is of the first store that keeps objects of the entity. The
    /// URI of a temporary identifier gives the permanent one once this process has saved the object.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the text is neither, `unknownEntity` if the model has no such
    ///   entity, or `notFound` if the URI belongs to none of the stores, or to an object that this process has not saved.
    public func objectID(for text: String) throws -> ManagedObjectID {
        try ManagedObjectID(parsing: text, in: layout, store: storeIdentity) { entity in
            stores.withLock { stores in
                stores.members.first { $0.entityNumbers.contains(entity.number) }?.store.identity
                    .numberBits
            }
        }
    }

    /// Closes the stores. Contexts must not be used afterwards; their reads and saves throw.
    public func close() throws {
        for store in persistentStores { stopServices(of: store) }
        try store.close()
    }

    func rows(matching request: FetchSpecification) throws -> RowSet {
        let rows = try store.rows(matching: request)
        if let entity = layout.entity(named: request.entityName) {
            rowCache.compare(with: rows, of: entity)
        }
        return rows
    }

    func count(matching request: FetchSpecification) throws -> Int {
        try store.count(matching: request)
    }

    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        try store.objectIDs(matching: request)
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        replacedIdentifiers[temporary.bits].map { ManagedObjectID(bits: $0, store: storeIdentity) }
    }

    /// The save detects rows saved by other coordinators.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64> { [] }

    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let ticket = rowCache.ticket()
        let rows = try store.relatedRows(of: objectID, through: relationship)
        rowCache.insert(rows, ticket)
        return rows
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        let ticket = rowCache.ticket()
        let related = try store.relatedObjects(of: objectIDs, through: relationship)
        for rows in related.rows { rowCache.insert(rows, ticket) }
        return related
    }

    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool, in store: StoreIdentity?
    ) throws -> [ManagedObjectID] {
        let place = try store.map(persistentStore) ?? self.store
        return try place.reserveObjectIDs(for: entity, count: count, durably: durably)
    }

    // MARK: Rows of faults

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        if objectID.isTemporaryID { return nil }
        if let row = rowCache.row(objectID.bits, maximumAge: maximumAge),
            store.isDataAvailable
        {
            return row
        }
        let ticket = rowCache.ticket()
        guard let row = try store.row(for: objectID) else {
            rowCache.remove(CollectionOfOne(objectID.bits))
            return nil
        }
        rowCache.insert(RowSet([row], layout: layout, store: storeIdentity), ticket)
        return row
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        var (found, missing) = rowCache.rows(objectIDs, maximumAge: maximumAge)
        if !store.isDataAvailable { (found, missing) = ([], objectIDs) }
        if missing.isEmpty { return RowSet(found, layout: layout, store: storeIdentity) }
        let ticket = rowCache.ticket()
        let rows = try store.rows(for: missing.filter { !$0.isTemporaryID })
        rowCache.insert(rows, ticket)
        return found.isEmpty
            ? rows : rows.appending(RowSet(found, layout: layout, store: storeIdentity))
    }

    func forgetRows(of objectIDs: [ManagedObjectID]?) {
        if let objectIDs {
            rowCache.remove(objectIDs.lazy.map(\.bits))
        } else {
            rowCache.removeAll()
        }
    }

    // MARK: Saving

    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        let store = self.store
        let others = store.externalCommitCount
        let derived: [ManagedObjectID]
        do {
            derived = try store.save(
                store is CompositeStore ? changes : changes.loadingExternalData(for: store))
        } catch {
            // After any failure, cached rows may be out of date.
            rowCache.removeAll()
            throw error
        }
        if store.externalCommitCount == others {
            rowCache.remove(changes)
            if !derived.isEmpty { rowCache.remove(derived.lazy.map(\.bits)) }
        } else {
            rowCache.removeAll()
        }
        if changes.inserted.isEmpty && changes.updated.isEmpty && changes.deleted.isEmpty {
            return derived
        }
        saveBroadcast.send(
            ObjectIDChanges(
                inserted: changes.inserted.map(\.objectID),
                updated: changes.updated.map(\.objectID),
                deleted: changes.deleted.map(\.objectID), refreshed: derived))
        return derived
    }

    /// The saves of contexts to the store: one element for each save that changed objects, after its commit.
    ///
    /// Every call returns a new sequence, which has all saves from the call on; nothing is dropped, so it grows if its consumer
    /// falls behind. It ends when the coordinator is released, which it does not retain, or when the awaiting task is
    /// cancelled. Elements come in commit order; two saves that ran at the same time in different contexts may come in either
    /// order.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}

extension PersistentStoreCoordinator: ProtectedDataResponder {
    /// Evicts the cached rows of locked stores.
    package func protectedDataDidBecomeUnavailable() {
        if !store.isDataAvailable { rowCache.removeAll() }
    }
}

// MARK: - Batch requests

/// Batch requests go to the store. What is kept of its rows is out of date then, whether they succeed or not.
extension PersistentStoreCoordinator {
    func execute(_ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind) throws
        -> BatchResult
    {
        defer { forgetRows(of: nil) }
        let result = try store.insert(request, onConflict: policy)
        didExecuteBatchRequest()
        return result
    }

    func execute(_ request: BatchUpdateRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        let result = try store.update(request)
        didExecuteBatchRequest()
        return result
    }

    func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        let result = try store.delete(request.replacingTemporaryIDs())
        didExecuteBatchRequest()
        return result
    }
}

// MARK: - External data

/// Values of binary attributes that are made before there is an object for them, and away from its context.
///
/// ```swift
/// let video = try await coordinator.makeExternalData(contentsOf: "/media/card/00001.mts")
/// try await background.perform { context in
///     let film = try context.insertObject(entityName: "Film")
///     try film.setExternalData(video, forKey: "video")
///     try context.save()
/// }
/// ```
extension PersistentStoreCoordinator {
    /// Creates a value from a file of any size, off the caller's queue.
    ///
    /// Its bytes are written to the store of the entity's new objects, which need not copy them again. If the value is never
    /// saved, they are deleted when its last reference is released.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - taking: Whether the file is copied or moved.
    ///   - entityName: The entity of the attribute; `nil` for any entity of the first store.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `notFound`, `outOfSpace`, `inputOutput` or `cancelled`.
    public func makeExternalData(
        contentsOf path: String, taking: ExternalData.Taking = .copying,
        forEntity entityName: String? = nil
    ) async throws -> ExternalData {
        let folder = try externalDataPlace(ofEntity: entityName)
        return try await ExternalData.apart {
            try ExternalDataSpool.value(contentsOf: path, taking: taking, in: folder)
        }.get()
    }

    /// Creates a value from a URL's file; see ``makeExternalData(contentsOf:taking:forEntity:)-(String,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that method.
    public func makeExternalData(
        contentsOf url: URL, taking: ExternalData.Taking = .copying,
        forEntity entityName: String? = nil
    ) async throws -> ExternalData {
        try await makeExternalData(
            contentsOf: FileSystem.path(of: url), taking: taking, forEntity: entityName)
    }

    /// Creates a value from an asynchronous sequence of chunks, without having it in memory.
    ///
    /// - Throws: The sequence's errors, or as ``makeExternalData(contentsOf:taking:forEntity:)-(String,_,_)``.
    public func makeExternalData<Chunks: AsyncSequence>(
        from chunks: Chunks, forEntity entityName: String? = nil
    ) async throws -> ExternalData where Chunks.Element: DataProtocol {
        try await ExternalDataSpool.value(
            of: chunks, in: externalDataPlace(ofEntity: entityName))
    }

    private func externalDataPlace(ofEntity name: String?) throws -> ExternalDataFolder? {
        guard let name else { return externalDataPlace { _ in true } }
        let store = storeForNewObjects(of: try layout.requireEntity(named: name))
        return externalDataPlace { $0 === store }
    }

    /// The folder for new values of the first matching store: that of its external data, or, if it has none or is read-only,
    /// the temporary folder, with the keys of a protected store; `nil` for the temporary folder, unsealed.
    func externalDataPlace(where isIncluded: (StoreIdentity) -> Bool) -> ExternalDataFolder? {
        guard let store = persistentStores.first(where: { isIncluded($0.identity) }) else {
            return nil
        }
        if let store = store as? SQLiteStore, store.hasExternalData, !store.isReadOnly {
            return store.externalData
        }
        return store.storeProtection.map { .temporary(classKey: $0.classKey) }
    }
}

// MARK: - Observers of saves

/// Observes saves to a source. Called on any queue; it only forwards.
protocol SaveObserver: AnyObject, Sendable {
    /// The source has new values.
    ///
    /// - Parameters:
    ///   - changes: The objects concerned; `nil` if any may be.
    ///   - isByRows: Whether only objects whose rows were written are listed, not those related to them.
    ///   - areKnown: Whether observers were notified of these changes before, so that only values derived by the stores can be
    ///     new.
    func sourceDidSave(_ changes: ObjectIDChanges?, isByRows: Bool, areKnown: Bool)
}

/// Weak references to the save observers of a coordinator or a parent context.
final class SaveObservers: Sendable {
    private let listeners = Lock(WeakList<any SaveObserver>())

    /// Whether there are no observers, so that change lists need not be built.
    var isEmpty: Bool { listeners.withLock(\.isEmpty) }

    func add(_ listener: any SaveObserver) { listeners.withLock { $0.append(listener) } }

    func remove(_ listener: any SaveObserver) { listeners.withLock { $0.remove(listener) } }

    /// Notifies all observers except the saver's.
    func tell(
        _ changes: ObjectIDChanges?, isByRows: Bool = false, areKnown: Bool = false,
        except saver: (any SaveObserver)?
    ) {
        for listener in listeners.withLock(\.objects) where listener !== saver {
            listener.sourceDidSave(changes, isByRows: isByRows, areKnown: areKnown)
        }
    }
}
