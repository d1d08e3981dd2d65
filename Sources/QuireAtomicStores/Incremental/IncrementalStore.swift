import Foundation
public import QuireModel
public import QuireQuery
public import QuireStore
public import QuireSystem
import Synchronization

/// The values of an object read by an ``IncrementalStore``.
public struct IncrementalStoreNode: Sendable {
    /// The object.
    public let objectID: ManagedObjectID
    /// The number of saves of the object; the store's optimistic lock.
    public var version: UInt32
    /// The values of attributes by name, those of composite elements by their dotted names, and the identifiers of to-one
    /// destinations. Missing values are null.
    public var values: [String: AttributeValue]

    /// Creates the values of an object.
    public init(
        objectID: ManagedObjectID, version: UInt32 = 1, values: [String: AttributeValue] = [:]
    ) {
        self.objectID = objectID
        self.version = version
        self.values = values
    }
}

/// The changes that an ``IncrementalStore`` writes: the new state of objects. Conflicts, uniqueness and derived values are
/// already resolved.
public struct IncrementalStoreSave: Sendable {
    /// An object to write.
    public struct Object: Sendable {
        /// Its identifier, version and all its values.
        public var node: IncrementalStoreNode
        /// The members of changed to-many relationships, by name, in their order.
        public var toMany: [String: [ManagedObjectID]]
        /// Its entity.
        public let entity: ResolvedEntity
    }

    /// New objects.
    public var inserted: [Object] = []
    /// Updated objects. If the version is not incremented, only membership in a to-many relationship or a derived value has
    /// changed.
    public var updated: [Object] = []
    /// Objects to delete.
    public var deleted: [ManagedObjectID] = []
    /// Texts to record under keys; `nil` removes one. Only for stores with the capability ``StoreCapabilities/records``.
    public var records: [String: String?] = [:]
}

/// A store that reads objects one by one, from any source: a folder of files, a service, another database.
///
/// Subclasses override the reading methods: ``loadMetadata()``, ``execute(_:)``, ``newValues(forObjectWith:)`` and
/// ``newValue(forRelationship:forObjectWith:)``; and, if objects can be saved, ``obtainPermanentIDs(for:count:)`` and
/// ``save(_:)-(IncrementalStoreSave)``. The rest is implemented with these: counts, dictionaries, predicates and sort orders that
/// the store does not support, optimistic locking, dangling references, uniqueness, derived values, batch requests.
///
/// An object is identified by its entity and a number. A source whose objects have other identifiers, for example texts or UUIDs,
/// maps them with ``newObjectID(for:referenceObject:)`` and ``referenceObject(for:)``.
///
/// ```swift
/// final class Shelf: IncrementalStore, @unchecked Sendable {
///     override class var storeType: StoreType { StoreType(rawValue: "Shelf") }
///     override func loadMetadata() throws -> StoreMetadata { … }
///     override func execute(_ request: FetchSpecification) throws -> [ManagedObjectID] { … }
///     override func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? { … }
///     override func newValue(
///         forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
///     ) throws -> [ManagedObjectID] { … }
/// }
/// let store = try Shelf(at: "/srv/shelf", model: model)
/// ```
///
/// The ``capabilities`` declare the store's guarantees. The default is a store that saves, has versions and persists across
/// reopening, but whose saves are not atomic; override them. `StoreConformance` tests the declared ones.
///
/// The overridden methods are called from any thread, reading ones concurrently, saving ones serially; readers must never see a
/// partial save. `@unchecked Sendable` because the class is open: subclasses must protect their state.
open class IncrementalStore: PersistentStore, @unchecked Sendable {
    /// The path of the store, as passed.
    public let path: String?
    /// Whether it was opened for reading only.
    public let isReadOnly: Bool
    /// The model of its objects.
    public let layout: ResolvedModel
    /// The store's UUID and entity names.
    public var identity: StoreIdentity {
        loaded.identity
    }
    private let known: Lock<(identity: StoreIdentity, references: ReferenceObjects)?>
    private var loaded: (identity: StoreIdentity, references: ReferenceObjects) {
        guard let known = known.withLock({ $0 }) else {
            preconditionFailure(
                "An IncrementalStore has no identity before its metadata is loaded.")
        }
        return known
    }
    private let isClosed = Atomic(false)
    private let saving = NSLock()
    /// The thread that runs a batch request; 0 for none.
    private let batchThread = Atomic<UInt>(0)
    private let counter = ContentVersion.newCounter()
    private let saveCount = Atomic<Int64>(0)

    // MARK: - Subclass overrides

    /// The type of the store.
    open class var storeType: StoreType {
        preconditionFailure("A subclass of IncrementalStore must override storeType.")
    }

    /// The optional features and guarantees of the store.
    open var capabilities: StoreCapabilities {
        [
            .saving, .reopening, .versions, .lastingVersions, .constraints, .derivedAttributes,
            .orderedRelationships, .batchRequests,
        ]
    }

    /// Opens the store's storage, or creates it, and returns its metadata.
    ///
    /// If the metadata contains the version hashes of the model it was created with, as
    /// ``StoreMetadata/init(storeUUID:type:model:)`` provides them, opening the store with another model fails
    /// (`incompatibleModel`).
    open func loadMetadata() throws -> StoreMetadata {
        preconditionFailure("\(Swift.type(of: self)) must override loadMetadata().")
    }

    /// The objects that match a request, in its order, within its limit and offset. A store without the capability
    /// ``StoreCapabilities/predicates`` is only asked for all objects of an entity (and of its sub-entities, if
    /// ``FetchSpecification/includesSubentities``), in any order.
    open func execute(_ request: FetchSpecification) throws -> [ManagedObjectID] {
        preconditionFailure("\(Swift.type(of: self)) must override execute(_:).")
    }

    /// The values of an object; `nil` if it does not exist.
    open func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? {
        preconditionFailure("\(Swift.type(of: self)) must override newValues(forObjectWith:).")
    }

    /// The members of an object's to-many relationship, in its order if it is ordered. May include dangling references.
    open func newValue(
        forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
    ) throws -> [ManagedObjectID] {
        preconditionFailure(
            "\(Swift.type(of: self)) must override newValue(forRelationship:forObjectWith:).")
    }

    /// Primary keys for new objects, from 1 to 2⁴⁰ − 1. No other object of the entity's hierarchy may ever have the same key.
    /// With reference objects, the ``primaryKey(of:)`` of their ``newObjectID(for:referenceObject:)``.
    open func obtainPermanentIDs(for entity: ResolvedEntity, count: Int) throws -> [Int64] {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) does not accept new objects.",
            entity: entity.name, file: path)
    }

    /// Writes the changes of a save. If it throws, nothing should have been written; a store that cannot guarantee this lacks the
    /// capability ``StoreCapabilities/atomicSaves``.
    open func save(_ save: IncrementalStoreSave) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) cannot be saved.", file: path)
    }

    /// Inserts the rows of a request. By default as one save, for which each row with unique values reads all objects of its
    /// entity.
    open func insert(
        _ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind
    ) throws -> BatchResult {
        try batch { storage in
            var batch = try InMemoryBatchInsert(request, policy, storage)
            return try batch.run(&storage)
        }
    }

    /// Updates the objects that match a request. By default as one save.
    open func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        try batch { try InMemoryBatchUpdate(request: request).run(&$0) }
    }

    /// Deletes the objects that match a request, and those that delete rules cascade to. By default as one save.
    open func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        try batch { storage in
            var batch = InMemoryBatchDelete(request, storage)
            return try batch.run(&storage)
        }
    }

    /// The records of earlier saves.
    open func records() throws -> [String: String] { [:] }

    /// The metadata of the store.
    open func metadata() throws -> StoreMetadata { try loadMetadata() }

    /// Sets or removes an application's metadata value.
    open func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) does not keep application metadata.",
            subject: .init(property: key, file: path))
    }

    /// Releases the store's resources. Called once.
    open func didClose() throws {}

    // MARK: - Making

    /// Opens or creates a store.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` or `incompatibleModel`, and errors of ``loadMetadata()``.
    public convenience init(
        at path: String?, model: ManagedObjectModel, isReadOnly: Bool = false
    ) throws {
        try self.init(at: path, layout: model.layout(), isReadOnly: isReadOnly)
    }

    /// Opens or creates a store, with a model shared with other stores.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel`, and errors of ``loadMetadata()``.
    public required init(at path: String?, layout: ResolvedModel, isReadOnly: Bool) throws {
        self.path = path
        self.layout = layout
        self.isReadOnly = isReadOnly
        known = Lock(nil)
        let metadata = try loadMetadata()
        let identity = StoreIdentity(
            uuid: metadata.storeUUID, entityNames: layout.entities.map(\.name))
        known.withLock { $0 = (identity, .make(forStore: identity.uuid)) }
        do { try metadata.requireModel(layout.model, path: path ?? type.rawValue) } catch {
            // Nothing else releases what the subclass holds. The model is what the caller has to change.
            try? close()
            throw error
        }
    }

    /// The type of the store.
    public var type: StoreType { Self.storeType }

    /// The version of the saved content; `nil` if other processes may save.
    public var contentVersion: ContentVersion? {
        capabilities.contains(.sharing)
            ? nil : ContentVersion(counter: counter, number: saveCount.load(ordering: .acquiring))
    }

    /// The identifier for an entity and primary key.
    public func objectID(for entity: ResolvedEntity, primaryKey: Int64) throws -> ManagedObjectID {
        guard primaryKey > 0, primaryKey <= ManagedObjectID.maximumPrimaryKey else {
            throw QuireError(
                .invalidFormat,
                "“\(entity.name)/p\(primaryKey)” of “\(path ?? type.rawValue)” is not valid: its primary key is out of range.",
                entity: entity.name, file: path)
        }
        return ManagedObjectID(
            entityNumber: entity.number, primaryKey: primaryKey, store: identity)
    }

    /// The identifier of the object that a reference object identifies in the source: an integer, a text, a UUID, data.
    ///
    /// The same reference object always gives the same identifier, for all entities of a hierarchy; ``referenceObject(for:)``
    /// returns it. An integer from 1 to 2³⁹ − 1 is the primary key itself. Others get a number from 2³⁹ on when they are first
    /// used, which is kept in memory until the store and its identifiers are released.
    ///
    /// The identifier's ``ManagedObjectID/uriRepresentation`` contains a text, a UUID, data or an integer itself, so it is valid
    /// whenever the store is open, also in another process: `x-coredata://STORE-UUID/City/text:lyon`. For a reference object of
    /// any other type it contains the number, and is not valid after the store has been released.
    ///
    /// May be called from any thread, but not in ``loadMetadata()``. A store with reference objects uses them for all objects of
    /// a hierarchy.
    public func newObjectID(
        for entity: ResolvedEntity, referenceObject: some Hashable & Sendable
    ) -> ManagedObjectID {
        let root = layout.entity(number: entity.rootNumber).name
        let (identity, references) = loaded
        return ManagedObjectID(
            entityNumber: entity.number,
            primaryKey: references.primaryKey(for: referenceObject, root: root), store: identity)
    }

    /// The reference object of an identifier, as passed to ``newObjectID(for:referenceObject:)``; an integer is an `Int`.
    public func referenceObject(for id: ManagedObjectID) -> any Hashable & Sendable {
        loaded.references.object(for: id.primaryKey) ?? Int(id.primaryKey)
    }

    /// The primary key of an object.
    public func primaryKey(of id: ManagedObjectID) -> Int64 { id.primaryKey }

    // MARK: - Saving

    /// Reserves identifiers for new objects.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        try requireOpen()
        if isReadOnly { throw QuireError.readOnly(path, name: type.rawValue) }
        return try obtainPermanentIDs(for: entity, count: count).map {
            try objectID(for: entity, primaryKey: $0)
        }
    }

    /// Computes the result of a change set, and saves it.
    @discardableResult
    public func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes) {}
    }

    /// Computes the result of a change set, calls a closure, and saves it.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        try requireOpen()
        if isReadOnly { throw QuireError.readOnly(path, name: type.rawValue) }
        if !changes.records.isEmpty, !capabilities.contains(.records) {
            throw QuireError(
                .unsupported,
                "A store of type \(type.rawValue) can only save objects.", file: path)
        }
        checkNotInBatch()
        saving.lock()
        defer { saving.unlock() }
        return try write(changes, beforeCommit: beforeCommit)
    }

    /// Saves a change set; the lock for saving is held.
    ///
    /// - Parameter counted: Relationships whose count rules the change set may violate.
    func write(
        _ changes: ChangeSet, checkingCounts counted: [CountedRelationship] = [],
        beforeCommit: () throws -> Void = {}
    ) throws -> [ManagedObjectID] {
        var save = InMemorySavePlan(
            changes, of: IncrementalRows(store: self), path: path, capabilities: capabilities)
        try save.run()
        try save.checkCounts(of: counted)
        var result = try IncrementalStoreSave(save, identity: identity)
        result.records = changes.records
        try beforeCommit()
        try self.save(result)
        saveCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
        return save.derived
    }

    /// Traps on re-entrance: a batch request's row closure runs while this thread holds the lock for saving.
    private func checkNotInBatch() {
        precondition(
            batchThread.load(ordering: .relaxed) != UInt(pthread_self()),
            "The closure that provides the rows of a BatchInsertRequest must not save to the same store."
        )
    }

    /// Runs a batch request, during which nothing else is saved.
    private func batch(
        _ body: (inout IncrementalBatchStorage) throws -> BatchResult
    ) throws -> BatchResult {
        try requireOpen()
        if isReadOnly { throw QuireError.readOnly(path, name: type.rawValue) }
        checkNotInBatch()
        saving.lock()
        defer { saving.unlock() }
        batchThread.store(UInt(pthread_self()), ordering: .relaxed)
        defer { batchThread.store(0, ordering: .relaxed) }
        var storage = IncrementalBatchStorage(rows: IncrementalRows(store: self))
        return try body(&storage)
    }

    /// - Throws: ``QuireError`` with code `storeUnavailable` if it has been closed.
    func requireOpen() throws {
        if isClosed.load(ordering: .acquiring) {
            throw QuireError.closed(path, name: type.rawValue)
        }
    }

    /// Closes the store. Later calls throw `storeUnavailable`.
    public func close() throws {
        saving.lock()
        defer { saving.unlock() }
        if !isClosed.exchange(true, ordering: .acquiringAndReleasing) { try didClose() }
    }
}
