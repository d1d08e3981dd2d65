public import Foundation

/// Stands between contexts and stores.
///
/// Contexts of one coordinator share its stores, its model, and the rows that it has read for their faults. It may
/// be used from any thread.
///
/// ```swift
/// let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
/// try coordinator.addPersistentStore(PersistentStoreDescription(path: "library.sqlite"))
/// let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
/// ```
///
/// ## Several stores
///
/// Each store keeps the objects of the entities of its configuration, or of all. New objects go to the first store that
/// keeps their entity and can be written, unless they are assigned to another one; see
/// ``ManagedObjectContext/assign(_:to:)``. A fetch asks all stores that a request may find something in, and merges what
/// they give in the request's order. An object and what it refers to are in one store; fetched properties lead anywhere.
///
/// A save to several stores is a transaction in each; every one is ready before the first commits, so that what fails
/// earlier is saved nowhere. A power loss between the commits can leave one store with its part and another without.
///
/// ## Rows that are kept
///
/// Rows read for single faults, in batches and for prefetching are kept, up to a bound in bytes, and serve later
/// faults of all contexts if ``ManagedObjectContext/stalenessInterval`` allows. A kept row is never older than the
/// last save through this coordinator. It can be older than what **another process or another coordinator** has
/// saved. All kept rows are forgotten when a save through this coordinator finds that another one has saved, or
/// fails, and when a context is reset; one is forgotten when its object is refreshed, or a fetch shows that it has
/// changed. To see what others save at once, set the context's staleness interval to 0, or refresh objects before
/// use.
public final class PersistentStoreCoordinator: Sendable, ObjectSource, ObjectIDReading {
    /// The store; if there are several, what stands for all of them.
    public var store: any PersistentStore { stores.withLock(\.combined) }
    /// The model, with inheritance and inverses resolved.
    public let layout: ResolvedModel
    let stores: Lock<Stores>
    let temporaryIdentity: StoreIdentity
    let saveObservers = SaveObservers()
    /// What identifiers of all stores have in common.
    let storeIdentity: StoreIdentity
    let rowCache: RowCache
    let replacedIdentifiers = ReplacedIdentifiers()
    private let saveBroadcast = Broadcast<ObjectIDChanges>()

    /// Coordinates a store, which brings its model.
    ///
    /// - Parameter rowCacheSize: How many bytes of rows are kept; see above. 0 keeps none.
    public init(store: any PersistentStore, rowCacheSize: Int = 8 << 20) {
        layout = store.layout
        storeIdentity = store.identity
        stores = Lock(Stores(store))
        temporaryIdentity = StoreIdentity(uuid: "", entityNames: store.layout.entities.map(\.name))
        rowCache = RowCache(maximumSize: rowCacheSize)
        store.protectionDomain?.addResponder(self)
    }

    /// Makes a coordinator without stores; add some before anything is fetched or saved.
    ///
    /// - Parameter rowCacheSize: How many bytes of rows are kept; see above. 0 keeps none.
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public init(
        managedObjectModel model: ManagedObjectModel, rowCacheSize: Int = 8 << 20
    ) throws {
        layout = try model.layout()
        let names = layout.entities.map(\.name)
        storeIdentity = StoreIdentity(uuid: "", entityNames: names)
        stores = Lock(Stores(layout: layout, identity: storeIdentity))
        temporaryIdentity = StoreIdentity(uuid: "", entityNames: names)
        rowCache = RowCache(maximumSize: rowCacheSize)
    }

    /// The identifier that a text stands for: a URI, `x-coredata://STORE-UUID/Entity/p12`, or `Entity/p12`.
    ///
    /// The object need not exist. A text without a store is of the first store that keeps objects of the entity.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is neither, `unknownEntity` if the model has no
    ///   such entity, or `notFound` if the URI is of none of the stores.
    public func objectID(for text: String) throws -> ManagedObjectID {
        let id = try ManagedObjectID(parsing: text, in: layout, store: storeIdentity)
        if text.hasPrefix(ManagedObjectID.scheme) { return id }
        let store = stores.withLock { stores in
            stores.members.first { $0.entityNumbers.contains(id.entityNumber) }?.store.identity
        }
        let number = (store ?? storeIdentity).numberBits
        return ManagedObjectID(
            bits: id.bits & ~ManagedObjectID.storeNumberMask | number, store: storeIdentity)
    }

    /// Ends all use of the stores. Contexts must not be used afterwards; what they ask throws.
    public func close() throws { try store.close() }

    func rows(matching request: FetchRequest) throws -> RowSet {
        let rows = try store.rows(matching: request)
        rowCache.compare(with: rows)
        return rows
    }

    func count(matching request: FetchRequest) throws -> Int { try store.count(matching: request) }

    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        try store.objectIDs(matching: request)
    }

    func permanentID(for temporary: ManagedObjectID) -> ManagedObjectID? {
        replacedIdentifiers[temporary.bits].map { ManagedObjectID(bits: $0, store: storeIdentity) }
    }

    /// What others have saved to the store is found out by the save.
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
        if objectID.isTemporary { return nil }
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
        let rows = try store.rows(for: missing.filter { !$0.isTemporary })
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
            // Whatever it failed for, what is known about the objects may not be so any more.
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

    /// What contexts save to the store: one element for each save that changed objects, after it was
    /// committed.
    ///
    /// Every call gives a sequence of its own, which has all saves from the call on; nothing is dropped, so a
    /// consumer that falls behind makes it grow. It ends when the coordinator goes, which it does not keep, or
    /// when the task that waits is cancelled. Saves come in the order they were committed; two that ran at the
    /// same time in different contexts may come in either order.
    public var saves: AsyncStream<ObjectIDChanges> { saveBroadcast.stream() }
}

extension PersistentStoreCoordinator: ProtectedDataResponder {
    /// Forgets rows of stores that are locked.
    package func protectedDataDidBecomeUnavailable() {
        if !store.isDataAvailable { rowCache.removeAll() }
    }
}

// MARK: - Batch requests

/// Batch requests go to the store. What is kept of its rows is out of date then, whether they succeed or not.
extension PersistentStoreCoordinator {
    func execute(_ request: BatchInsertRequest, onConflict rule: UpsertPolicy) throws -> BatchResult
    {
        defer { forgetRows(of: nil) }
        return try store.insert(request, onConflict: rule)
    }

    func execute(_ request: BatchUpdateRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        return try store.update(request)
    }

    func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        return try store.delete(request)
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
    /// Makes a value of what a file holds, however large that is, apart from the caller's queue.
    ///
    /// Its bytes lie in the store of an entity's new objects, which need not copy them again. If the value is never saved,
    /// they go when nobody holds it any more.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - taking: Whether the file stays.
    ///   - entityName: The entity whose attribute it is for; `nil` for any of the first store.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `notFound`, `outOfSpace`, `inputOutput` or `cancelled`.
    public func makeExternalData(
        contentsOf path: String, taking: ExternalData.Taking = .copying,
        forEntity entityName: String? = nil
    ) async throws -> ExternalData {
        try await ExternalDataSpool.valueApart(
            contentsOf: path, taking: taking, in: externalDataPlace(ofEntity: entityName)
        ).get()
    }

    /// Makes a value of bytes that come one after another, without having them in memory.
    ///
    /// - Throws: What the sequence throws, or as ``makeExternalData(contentsOf:taking:forEntity:)``.
    public func makeExternalData<Chunks: AsyncSequence>(
        from chunks: Chunks, forEntity entityName: String? = nil
    ) async throws -> ExternalData where Chunks.Element: DataProtocol {
        try await ExternalDataSpool.value(
            of: chunks, in: externalDataPlace(ofEntity: entityName))
    }

    private func externalDataPlace(ofEntity name: String?) throws -> ExternalDataPlace? {
        guard let name else { return externalDataPlace { _ in true } }
        let store = storeForNewObjects(of: try layout.requireEntity(named: name))
        return externalDataPlace { $0 === store }
    }

    /// The folder for new values of the first matching store: that of its external data, or, if it has none or is read-only,
    /// the temporary folder, with the keys of a protected store; `nil` for the temporary folder, unsealed.
    func externalDataPlace(where isWanted: (StoreIdentity) -> Bool) -> ExternalDataPlace? {
        guard let store = persistentStores.first(where: { isWanted($0.identity) }) else {
            return nil
        }
        if let store = store as? SQLiteStore, store.hasExternalData, !store.isReadOnly {
            return store.externalData.place
        }
        return store.storeProtection.map { .temporary(classKey: $0.classKey) }
    }
}

// MARK: - Replaced identifiers

/// The permanent identifiers of objects that may still be known by temporary ones, for all contexts of a coordinator.
///
/// Somebody may keep a temporary identifier for ever, so only the latest are here.
final class ReplacedIdentifiers: Sendable {
    private struct State: ~Copyable {
        var permanent = IdentifierTable()
        /// The temporary identifiers; when it is full, from the oldest at `next` on.
        var temporary: ContiguousArray<UInt64> = []
        var next = 0
    }

    private let state = Lock(State())
    /// How many identifiers are kept.
    private let maximumCount: Int

    init(maximumCount: Int = 1 << 16) { self.maximumCount = maximumCount }

    /// The number of identifiers that are kept, for tests.
    var count: Int { state.withLock { $0.permanent.count } }

    /// The bits of the permanent identifier of an object, by those of its temporary one.
    subscript(temporary: UInt64) -> UInt64? {
        state.withLock { state in state.permanent[temporary].flatMap { $0 == 0 ? nil : $0 } }
    }

    /// Takes over what temporary identifiers have been replaced by.
    func add(_ replaced: some Collection<(temporary: UInt64, permanent: UInt64)>) {
        state.withLock { state in
            for (temporary, permanent) in replaced.suffix(maximumCount) {
                // A save that failed has given the identifier back, and it has its place still.
                if state.permanent.set(permanent, for: temporary) != nil { continue }
                if state.temporary.count < maximumCount {
                    state.temporary.append(temporary)
                } else {
                    state.permanent.remove(state.temporary[state.next])
                    state.temporary[state.next] = temporary
                    state.next = (state.next + 1) % maximumCount
                }
            }
        }
    }

    /// Forgets the permanent identifiers of objects that have their temporary ones again.
    func remove(_ temporary: some Sequence<UInt64>) {
        state.withLock { state in
            // Their places are kept, so that their order is.
            for bits in temporary where state.permanent[bits] != nil {
                state.permanent.set(0, for: bits)
            }
        }
    }
}

// MARK: - Observers of saves

/// Observes what is saved to a source. Called on any queue, so it only passes on.
protocol SaveObserver: AnyObject, Sendable {
    /// The source has new values.
    ///
    /// - Parameters:
    ///   - isByRows: Whether only the objects are named whose rows were written, not those that relate to them.
    ///   - areKnown: Whether the listeners were told of these changes when the source got them, so that only what the
    ///     stores have derived from them can be new.
    func sourceDidSave(_ changes: ObjectIDChanges, isByRows: Bool, areKnown: Bool)
}

/// Those who want to know what is saved to a coordinator or a parent context. It does not retain them.
final class SaveObservers: Sendable {
    private struct Entry {
        weak var listener: (any SaveObserver)?
    }

    private let entries = Lock<[Entry]>([])

    /// Whether nobody listens; then there is no need to find out what to tell.
    var isEmpty: Bool { entries.withLock(\.isEmpty) }

    func add(_ listener: any SaveObserver) {
        entries.withLock { entries in
            entries.removeAll { $0.listener == nil }
            entries.append(Entry(listener: listener))
        }
    }

    func remove(_ listener: any SaveObserver) {
        entries.withLock { $0.removeAll { $0.listener == nil || $0.listener === listener } }
    }

    /// Tells all but the one who saved.
    func tell(
        _ changes: ObjectIDChanges, isByRows: Bool = false, areKnown: Bool = false,
        except saver: (any SaveObserver)?
    ) {
        let listeners = entries.withLock { $0.compactMap(\.listener) }
        for listener in listeners where listener !== saver {
            listener.sourceDidSave(changes, isByRows: isByRows, areKnown: areKnown)
        }
    }
}
