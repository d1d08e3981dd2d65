import Foundation
public import QuireModel
public import QuireQuery
public import QuireStore
public import QuireSystem
import Synchronization

/// The values of an object as an ``IncrementalStore`` gives them.
public struct IncrementalStoreNode: Sendable {
    /// The object.
    public let objectID: ManagedObjectID
    /// How often it has been saved; the store's optimistic lock.
    public var version: UInt32
    /// The values of attributes by name, those of composite elements by their dotted names, and the identifiers of what
    /// to-one relationships lead to. What is not here has no value.
    public var values: [String: AttributeValue]

    /// Describes an object.
    public init(
        objectID: ManagedObjectID, version: UInt32 = 1, values: [String: AttributeValue] = [:]
    ) {
        self.objectID = objectID
        self.version = version
        self.values = values
    }
}

/// What an ``IncrementalStore`` has to write: how objects are afterwards. Conflicts, uniqueness and derived values have been
/// seen to.
public struct IncrementalStoreSave: Sendable {
    /// An object to write.
    public struct Object: Sendable {
        /// Its identifier, version and values, all of them.
        public var node: IncrementalStoreNode
        /// What to-many relationships lead to that have changed, by name, in their order.
        public var toMany: [String: [ManagedObjectID]]
        /// Its entity.
        public let entity: ResolvedEntity
    }

    /// New objects.
    public var inserted: [Object] = []
    /// Objects that are there already. One whose version has not gone up has come into or gone out of a to-many
    /// relationship only, or has another derived value.
    public var updated: [Object] = []
    /// Objects to remove.
    public var deleted: [ManagedObjectID] = []
    /// Texts to record under keys; `nil` removes one. Only for stores that are capable of ``StoreCapabilities/records``.
    public var records: [String: String?] = [:]
}

/// A store that reads objects one by one, from wherever they are: a folder of files, a service, another database.
///
/// Subclasses override what reads: ``loadMetadata()``, ``execute(_:)``, ``newValues(forObjectWith:)`` and
/// ``newValue(forRelationship:forObjectWith:)``; and, if objects can be saved, ``obtainPermanentIDs(for:count:)`` and
/// ``save(_:)-(IncrementalStoreSave)``. The rest is done here with these: counts, dictionaries, conditions and orders that
/// the store cannot find by itself, conflicts by version, references to what is gone, uniqueness, derived values.
///
/// ```swift
/// final class Shelf: IncrementalStore, @unchecked Sendable {
///     override class var storeType: StoreType { StoreType(rawValue: "Shelf") }
///     override func loadMetadata() throws -> StoreMetadata { … }
///     override func execute(_ request: FetchRequest) throws -> [ManagedObjectID] { … }
///     override func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? { … }
///     override func newValue(
///         forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
///     ) throws -> [ManagedObjectID] { … }
/// }
/// let store = try Shelf(at: "/srv/shelf", model: model)
/// ```
///
/// What a store cannot promise its ``capabilities`` leave out. They are those of a store that saves, keeps versions and is
/// there when it is opened again, but whose saves may be cut short; override them. ``StoreConformance`` checks what is
/// claimed.
///
/// The overridden methods are called from any thread, those that read several at a time, those that save one after the
/// other; they must take care that readers never see half a save. It is `@unchecked Sendable` because it is open: subclasses
/// must guard what they keep.
open class IncrementalStore: PersistentStore, @unchecked Sendable {
    /// The path of the store, as it was given.
    public let path: String?
    /// Whether it was opened for reading only.
    public let isReadOnly: Bool
    /// The model of its objects.
    public let layout: ResolvedModel
    /// The store's UUID and entity names.
    public var identity: StoreIdentity {
        guard let identity = known.withLock({ $0 }) else {
            preconditionFailure(
                "An IncrementalStore has no identity before its metadata is loaded.")
        }
        return identity
    }
    private let known: Lock<StoreIdentity?>
    private let isClosed = Atomic(false)
    private let saving = NSLock()
    private let counter = ContentVersion.newCounter()
    private let saveCount = Atomic<Int64>(0)

    // MARK: - What subclasses say

    /// The kind of store.
    open class var storeType: StoreType {
        preconditionFailure("A subclass of IncrementalStore must override storeType.")
    }

    /// What it can do, and what it promises.
    open var capabilities: StoreCapabilities {
        [
            .saving, .reopening, .versions, .lastingVersions, .constraints, .derivedAttributes,
            .orderedRelationships,
        ]
    }

    /// Makes what the store needs ready, or makes the store if there is none yet, and says what it is.
    open func loadMetadata() throws -> StoreMetadata {
        preconditionFailure("\(Swift.type(of: self)) must override loadMetadata().")
    }

    /// The objects that a request finds, in its order, within its limit and offset. A store that is not capable of
    /// ``StoreCapabilities/predicates`` is only asked for all objects of an entity (and of its sub-entities, if
    /// ``FetchRequest/includesSubentities``), in any order.
    open func execute(_ request: FetchRequest) throws -> [ManagedObjectID] {
        preconditionFailure("\(Swift.type(of: self)) must override execute(_:).")
    }

    /// The values of an object; `nil` if it is not there (any more).
    open func newValues(forObjectWith id: ManagedObjectID) throws -> IncrementalStoreNode? {
        preconditionFailure("\(Swift.type(of: self)) must override newValues(forObjectWith:).")
    }

    /// What a to-many relationship of an object leads to, in its order if it has one. Objects that are not there may be
    /// among it.
    open func newValue(
        forRelationship relationship: ResolvedEntity.Relationship, forObjectWith id: ManagedObjectID
    ) throws -> [ManagedObjectID] {
        preconditionFailure(
            "\(Swift.type(of: self)) must override newValue(forRelationship:forObjectWith:).")
    }

    /// Primary keys for new objects, from 1 to 2⁴⁰ − 1, that no other object of the entity's hierarchy has, has had or will
    /// be given.
    open func obtainPermanentIDs(for entity: ResolvedEntity, count: Int) throws -> [Int64] {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) takes no new objects.",
            subject: .init(entity: entity.name, file: path))
    }

    /// Writes what a save has come to. If it throws, nothing should have been written; a store that cannot promise that is
    /// not capable of ``StoreCapabilities/atomicSaves``.
    open func save(_ save: IncrementalStoreSave) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) saves nothing.",
            subject: .init(file: path))
    }

    /// What earlier saves recorded.
    open func records() throws -> [String: String] { [:] }

    /// What the store says of itself.
    open func metadata() throws -> StoreMetadata { try loadMetadata() }

    /// Keeps a value for an application.
    open func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) keeps no metadata of applications.",
            subject: .init(property: key, file: path))
    }

    /// Ends all use of what the store is kept in. Called once.
    open func didClose() throws {}

    // MARK: - Making

    /// Opens a store, or makes one.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, and what ``loadMetadata()`` throws.
    public convenience init(
        at path: String?, model: ManagedObjectModel, isReadOnly: Bool = false
    ) throws {
        try self.init(at: path, layout: model.layout(), isReadOnly: isReadOnly)
    }

    /// Opens a store, or makes one, with a model that other stores have too.
    ///
    /// - Throws: What ``loadMetadata()`` throws.
    public required init(at path: String?, layout: ResolvedModel, isReadOnly: Bool) throws {
        self.path = path
        self.layout = layout
        self.isReadOnly = isReadOnly
        known = Lock(nil)
        let uuid = try loadMetadata().storeUUID
        known.withLock {
            $0 = StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name))
        }
    }

    /// The kind of store.
    public var type: StoreType { Self.storeType }

    /// The version of what is saved; `nil` if others may save.
    public var contentVersion: ContentVersion? {
        capabilities.contains(.sharing)
            ? nil : ContentVersion(counter: counter, number: saveCount.load(ordering: .acquiring))
    }

    /// The identifier of an object that the store knows by its entity and primary key.
    public func objectID(for entity: ResolvedEntity, primaryKey: Int64) throws -> ManagedObjectID {
        guard primaryKey > 0, primaryKey <= ManagedObjectID.maximumPrimaryKey else {
            throw QuireError(
                .invalidFormat,
                "“\(entity.name)/p\(primaryKey)” of “\(path ?? type.rawValue)” cannot be: its primary key is out of range.",
                subject: .init(entity: entity.name, file: path))
        }
        return ManagedObjectID(
            entityNumber: entity.number, primaryKey: primaryKey, store: identity)
    }

    /// The primary key that the store knows an object by.
    public func primaryKey(of id: ManagedObjectID) -> Int64 { id.primaryKey }

    // MARK: - Saving

    /// Sets aside identifiers for new objects.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        try requireOpen()
        if isReadOnly { throw readOnlyError() }
        return try obtainPermanentIDs(for: entity, count: count).map {
            try objectID(for: entity, primaryKey: $0)
        }
    }

    /// Works out what a change set makes of the objects, and has it written.
    @discardableResult
    public func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes) {}
    }

    /// Works out what a change set makes of the objects, calls a closure, and has it written.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        try requireOpen()
        if isReadOnly { throw readOnlyError() }
        if !changes.records.isEmpty, !capabilities.contains(.records) {
            throw QuireError(
                .unsupported,
                "A store of type \(type.rawValue) records nothing beside its objects.",
                subject: .init(file: path))
        }
        saving.lock()
        defer { saving.unlock() }
        var save = InMemorySavePlan(
            changes, of: IncrementalRows(store: self), path: path, capabilities: capabilities)
        try save.run()
        var result = try IncrementalStoreSave(save, identity: identity)
        result.records = changes.records
        try beforeCommit()
        try self.save(result)
        saveCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
        return save.derived
    }

    private func readOnlyError() -> QuireError {
        QuireError(
            .readOnly,
            "“\(path ?? type.rawValue)” was opened for reading only and cannot be changed.",
            subject: .init(file: path))
    }

    /// - Throws: ``QuireError`` with code `storeUnavailable` if it has been closed.
    func requireOpen() throws {
        if isClosed.load(ordering: .acquiring) {
            throw QuireError(
                .storeUnavailable, "“\(path ?? type.rawValue)” has been closed.",
                subject: .init(file: path))
        }
    }

    /// Ends all use of the store. Later calls throw `storeUnavailable`.
    public func close() throws {
        saving.lock()
        defer { saving.unlock() }
        if !isClosed.exchange(true, ordering: .acquiringAndReleasing) { try didClose() }
    }
}
