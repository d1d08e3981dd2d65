import Foundation
public import QuireModel
package import QuireProtection
public import QuireQuery
public import QuireSystem

/// The kind of a store.
public struct StoreType: RawRepresentable, Hashable, Sendable {
    /// The name in Core Data's metadata.
    public let rawValue: String

    /// Creates a type with a name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A SQLite database in Core Data's layout.
    public static let sqlite = StoreType(rawValue: "SQLite")
    /// Core Data's XML file, an atomic store.
    public static let xml = StoreType(rawValue: "XML")
    /// Core Data's binary file, an atomic store.
    public static let binary = StoreType(rawValue: "Binary")
    /// Objects in memory, without a file.
    public static let inMemory = StoreType(rawValue: "InMemory")
}

/// The interface that stores implement. The coordinator requests rows from it and passes it change sets: identifiers and
/// values, never objects.
///
/// Callable from any thread, concurrently; a store serializes its own work. A call that throws has changed nothing.
public protocol PersistentStore: AnyObject, Sendable {
    /// The store's UUID and entity names, which its objects' identifiers share.
    var identity: StoreIdentity { get }
    /// The kind of store.
    var type: StoreType { get }
    /// The path of its file, or `nil` if it has none.
    var path: String? { get }
    /// The configuration of the model whose entities the store contains; `nil` if it contains all entities.
    var configurationName: String? { get }
    /// Whether saving throws an error.
    var isReadOnly: Bool { get }
    /// The model of its objects.
    var layout: ResolvedModel { get }

    /// The optional features and guarantees of the store.
    var capabilities: StoreCapabilities { get }

    /// The rows that a request finds, in its order, within its limit and offset.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery`, `unknownKey` or `storeUnavailable`.
    func rows(matching request: FetchSpecification) throws -> RowSet

    /// The number of rows that a request finds.
    func count(matching request: FetchSpecification) throws -> Int

    /// The identifiers of the objects that a request finds, in its order, within its limit and offset.
    ///
    /// - Throws: As ``rows(matching:)``.
    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList

    /// The dictionaries that a request fetches, in its order, within its limit and offset.
    ///
    /// - Throws: As ``rows(matching:)``.
    func dictionaries(matching request: FetchSpecification) throws -> FetchedDictionaries

    /// The query plan of a request.
    ///
    /// - Throws: As ``rows(matching:)``, and with code `unsupported` if the store has no query plans.
    func explain(_ request: FetchSpecification) throws -> FetchExplanation

    /// The row of an object, or `nil` if it does not exist.
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot?

    /// The rows of objects, in any order. Missing rows are omitted.
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet

    /// The rows of the destination objects of a relationship, in the relationship's order if it is ordered, otherwise by
    /// primary key.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet

    /// The members of a to-many relationship for objects of one entity hierarchy. May include dangling references.
    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects

    /// The number of saves of this store that detected a commit by another process, or by another store on the same file,
    /// since the save before.
    var externalCommitCount: Int { get }

    /// Whether rows may be read now, cached ones included: `false` while protected data of class `complete` are locked. Reading
    /// and saving throw ``QuireError`` with code `protectedDataUnavailable` then.
    var isDataAvailable: Bool { get }

    /// The version of the saved content; `nil` if the store has none.
    var contentVersion: ContentVersion? { get }

    /// Reserves identifiers for new objects. This store never issues them twice.
    ///
    /// - Parameters:
    ///   - entity: The entity of the objects.
    ///   - count: The number of identifiers.
    ///   - durably: Whether to publish the reservation to other processes now, in a separate transaction. Otherwise it is
    ///     published by the save that uses the identifiers, which fails with code `mergeConflict` if another process has used
    ///     them first.
    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID]

    /// Writes a change set atomically. When it returns, the changes survive power loss.
    ///
    /// The version of an updated object is incremented if its change `writesRow`; a new object's is 1. Derived attributes
    /// are computed by the store; their values in the change set are ignored.
    ///
    /// - Returns: The objects not in the change set whose derived attributes have changed; their versions stay.
    /// - Throws: ``QuireError`` with code `mergeConflict`, `constraintConflict`, `outOfSpace`, `readOnly` or
    ///   `storeUnavailable`.
    @discardableResult
    func save(_ changes: ChangeSet) throws -> [ManagedObjectID]

    /// Writes a change set as ``save(_:)`` does, and calls a closure after everything that can fail except the commit. If the
    /// closure throws, nothing is written.
    ///
    /// Used for saves to several stores: each is ready to commit before the first one commits.
    func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID]

    /// Inserts the rows of a request atomically.
    ///
    /// - Parameters:
    ///   - request: The rows.
    ///   - policy: The resolution for a row that violates a uniqueness constraint.
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchInsertRequest)``.
    func insert(_ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind) throws
        -> BatchResult

    /// Updates the objects that match a request, atomically. Their versions are incremented.
    ///
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchUpdateRequest)``.
    func update(_ request: BatchUpdateRequest) throws -> BatchResult

    /// Deletes the objects that match a request, and those that delete rules cascade to, atomically. Versions of objects that
    /// lose a reference are incremented.
    ///
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchDeleteRequest)``.
    func delete(_ request: BatchDeleteRequest) throws -> BatchResult

    /// Reads the store's history, or deletes a part of it.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the store keeps no history, `historyTokenExpired`, or errors of
    ///   reading and saving.
    func execute(_ request: PersistentHistoryChangeRequest) throws -> PersistentHistoryResult

    /// The number of the last transaction in the store's history, including deleted ones; `nil` if the store keeps no history.
    func lastHistoryTransactionNumber() throws -> Int64?

    /// The records of earlier saves' change sets.
    func records() throws -> [String: String]

    /// Metadata of the store, of the model it was made with, and of applications.
    func metadata() throws -> StoreMetadata

    /// Sets an application's metadata value for a key, or removes it for `nil`, and saves it at once.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the key is reserved (prefix `NS`, `_NS` or `Quire`),
    ///   `unsupported` if the store has no metadata, and errors of saving.
    func setMetadata(_ value: PropertyListValue?, forKey key: String) throws

    /// A store that reads the present content regardless of later saves, for query generations.
    ///
    /// It has this store's identity and model, and is read-only. Closing it releases its resources; closing this store
    /// invalidates it.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the store cannot, or `storeUnavailable`. Its reads throw code
    ///   `generationExpired` once a limit of the store is exceeded.
    func pinned() throws -> any PersistentStore

    /// Ends all use of the store's file. Later calls throw `storeUnavailable`.
    func close() throws
}

/// Default implementations.
extension PersistentStore {
    /// Reads all rows for their identifiers.
    public func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        let rows = try rows(matching: request)
        return ObjectIDList(
            bits: ContiguousArray(rows.indices.map(rows.identifierBits)), store: identity)
    }

    /// Creates the dictionaries in memory, from rows.
    public func dictionaries(matching request: FetchSpecification) throws -> FetchedDictionaries {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        return try DictionaryEvaluation(query, of: self, request).dictionaries()
    }

    /// Throws `unsupported`.
    public func explain(_ request: FetchSpecification) throws -> FetchExplanation {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) has no query plans.")
    }

    /// Reads the relationship object by object.
    public func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        var result = RelatedObjects()
        for id in objectIDs {
            let rows = try relatedRows(of: id, through: relationship)
            result.append(rows.indices.map(rows.objectID), of: id)
            result.rows.append(rows)
        }
        return result
    }

    /// Throws `unsupported`.
    public func insert(
        _ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind
    ) throws -> BatchResult {
        throw noBatchRequests(request.entityName)
    }

    /// Throws `unsupported`.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        throw noBatchRequests(request.entityName)
    }

    /// Throws `unsupported`.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        throw noBatchRequests(request.fetchRequest?.entityName)
    }

    /// Throws `unsupported`.
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult { throw noHistory() }

    /// The error of a request for the history of a store that keeps none.
    package func noHistory() -> QuireError {
        QuireError(
            .unsupported,
            "The store\(path.map { " “\($0)”" } ?? "") keeps no history; open a SQLite store with tracksHistory.",
            file: path)
    }

    /// Throws `unsupported`.
    public func pinned() throws -> any PersistentStore {
        throw QuireError(
            .unsupported,
            "A store of type \(type.rawValue) does not support query generations; use a context without one.",
            file: path)
    }

    /// `nil`: the store keeps no history.
    public func lastHistoryTransactionNumber() throws -> Int64? { nil }

    private func noBatchRequests(_ entity: String?) -> QuireError {
        QuireError(
            .unsupported,
            "A store of type \(type.rawValue) does not support batch requests; change objects in a context instead.",
            entity: entity, file: path)
    }

    /// Only ``StoreCapabilities/saving``.
    public var capabilities: StoreCapabilities { [.saving] }

    /// The UUID only.
    public func metadata() throws -> StoreMetadata {
        StoreMetadata(storeUUID: identity.uuid, values: [:])
    }

    /// Throws `unsupported`.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) does not keep application metadata.",
            subject: .init(property: key, file: path))
    }

    /// Keeps the objects of all entities.
    public var configurationName: String? { nil }

    /// Calls the closure, then saves: sufficient for stores that commit in one step.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        try beforeCommit()
        return try save(changes)
    }

    /// `nil`: unknown.
    public var contentVersion: ContentVersion? { nil }

    /// Zero by default: no other process saves.
    public var externalCommitCount: Int { 0 }

    /// `true`, as for every store that is not protected.
    public var isDataAvailable: Bool { true }
}

/// A store whose files may be sealed.
package protocol ProtectedStore: PersistentStore {
    /// The keys of the store; `nil` if it is not protected.
    var protection: StoreProtection? { get }
}

extension PersistentStore {
    /// The domain of the store's keybag; `nil` if it is not protected.
    package var protectionDomain: ProtectionDomain? {
        (self as? any ProtectedStore)?.protection?.domain
    }
}

// MARK: - Capabilities

/// Optional features and guarantees of a store. Contexts emulate missing ones where they can, and throw where they cannot;
/// the conformance suite tests those that are declared.
public struct StoreCapabilities: OptionSet, Sendable, Hashable {
    /// One bit for each capability.
    public let rawValue: UInt32

    /// Creates a set from bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Objects can be inserted, changed and deleted.
    public static let saving = Self(rawValue: 1 << 0)
    /// A save writes everything or nothing, also if the process is killed or power fails.
    public static let atomicSaves = Self(rawValue: 1 << 1)
    /// Saves survive power loss once they return.
    public static let durableSaves = Self(rawValue: 1 << 2)
    /// Saved content persists across reopening.
    public static let reopening = Self(rawValue: 1 << 3)
    /// Objects have versions: optimistic locking fails a save of an object that was saved elsewhere since it was read.
    public static let versions = Self(rawValue: 1 << 4)
    /// Uniqueness constraints are enforced.
    public static let constraints = Self(rawValue: 1 << 5)
    /// Derived attributes are computed.
    public static let derivedAttributes = Self(rawValue: 1 << 6)
    /// Relationships keep an order.
    public static let orderedRelationships = Self(rawValue: 1 << 7)
    /// Batch requests are supported.
    public static let batchRequests = Self(rawValue: 1 << 8)
    /// Texts can be recorded together with a save.
    public static let records = Self(rawValue: 1 << 9)
    /// Applications can store metadata.
    public static let metadata = Self(rawValue: 1 << 10)
    /// Predicates are evaluated by the store. Without it the store returns all objects of an entity, and requests are
    /// evaluated in memory.
    public static let predicates = Self(rawValue: 1 << 11)
    /// Decimal numbers have 38 digits rather than 15.
    public static let exactDecimals = Self(rawValue: 1 << 12)
    /// Values of binary attributes may be kept in external files.
    public static let externalData = Self(rawValue: 1 << 13)
    /// Several processes may have the store open and save to it.
    public static let sharing = Self(rawValue: 1 << 14)
    /// Query plans are available.
    public static let explaining = Self(rawValue: 1 << 15)
    /// Identifiers of deleted objects are not reused after reopening.
    public static let lastingIdentifiers = Self(rawValue: 1 << 16)
    /// A save can be prepared before it is committed; see ``PersistentStore/save(_:beforeCommit:)``.
    public static let preparedSaves = Self(rawValue: 1 << 18)
    /// Object versions persist across reopening. Without it all are 1 then.
    public static let lastingVersions = Self(rawValue: 1 << 17)
}

// MARK: - New stores

/// The location of a new store.
package struct NewStoreLocation {
    package let path: String
    /// Whether the path exists.
    package let isTaken: Bool
    /// Whether the location is in memory.
    package var isInMemory = false

    package init(path: String, isTaken: Bool, isInMemory: Bool = false) {
        self.path = path
        self.isTaken = isTaken
        self.isInMemory = isInMemory
    }

    /// Checks that a store can be created there.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `alreadyExists`, or `notFound` if the parent folder is missing.
    package func check(isReadOnly: Bool) throws {
        if isReadOnly {
            throw QuireError(.readOnly, "“\(path)” cannot be created read-only.", file: path)
        }
        if isTaken { throw QuireError.alreadyExists(at: path) }
        let folder = FileSystem.folder(of: path)
        guard try isInMemory || FileSystem.information(at: folder)?.kind == .folder else {
            throw QuireError(
                .notFound, "The folder “\(folder)” for the store does not exist.", file: path)
        }
    }
}

// MARK: - Loading in bulk

/// Bulk-loads complete objects into a store. Nothing is visible before the load has finished.
package protocol BulkInserter: AnyObject {
    /// Adds a complete object, of its version. Objects it refers to may be added later. Derived attributes are computed by
    /// the store, except times of saves; external data stays in its file, or is copied.
    func insert(_ object: ObjectChange) throws

    /// Sets the destinations of a relationship, in this order if it is ordered, and their inverse.
    func relate(
        _ owner: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        to members: [ManagedObjectID]
    ) throws

    /// Records texts, as ``ChangeSet/records``.
    func setRecords(_ records: [String: String]) throws

    /// Ensures that new objects of a root entity get primary keys greater than this one.
    func reservePrimaryKeys(through greatest: Int64, root: ResolvedEntity) throws
}

/// A store that supports bulk loading.
package protocol BulkInsertingStore: PersistentStore {
    /// Runs a closure that loads objects, atomically: if it throws, nothing is inserted.
    func load(_ body: (any BulkInserter) throws -> Void) throws
}
