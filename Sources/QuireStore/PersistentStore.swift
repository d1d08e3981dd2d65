package import Foundation
public import QuireModel
package import QuireProtection
public import QuireQuery
public import QuireSystem

/// The kind of a store.
public struct StoreType: RawRepresentable, Hashable, Sendable {
    /// The name, as Core Data's metadata has it.
    public let rawValue: String

    /// Makes a type of a name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A SQLite database in Core Data's layout.
    public static let sqlite = StoreType(rawValue: "SQLite")
    /// Core Data's XML file, read and written as a whole.
    public static let xml = StoreType(rawValue: "XML")
    /// Core Data's binary file, read and written as a whole.
    public static let binary = StoreType(rawValue: "Binary")
    /// Objects that are in no file.
    public static let inMemory = StoreType(rawValue: "InMemory")
}

/// Keeps objects. The coordinator asks it for rows and hands it what to save; it speaks identifiers and values
/// only.
///
/// A store may be called from any thread, several at a time; it orders its own work. A call that throws has
/// changed nothing.
public protocol PersistentStore: AnyObject, Sendable {
    /// The store's UUID and entity names, which its objects' identifiers share.
    var identity: StoreIdentity { get }
    /// The kind of store.
    var type: StoreType { get }
    /// The path of its file, or `nil` if it has none.
    var path: String? { get }
    /// The configuration of the model whose entities' objects it keeps; `nil` if it keeps those of all entities.
    var configurationName: String? { get }
    /// Whether it refuses to save.
    var isReadOnly: Bool { get }
    /// The model of its objects.
    var layout: ResolvedModel { get }

    /// What it can do, and what it promises.
    var capabilities: StoreCapabilities { get }

    /// The rows that a request finds, in its order, within its limit and offset.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery`, `unknownKey` or `storeUnavailable`.
    func rows(matching request: FetchRequest) throws -> RowSet

    /// The number of rows that a request finds.
    func count(matching request: FetchRequest) throws -> Int

    /// The identifiers of the objects that a request finds, in its order, within its limit and offset.
    ///
    /// - Throws: As ``rows(matching:)``.
    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList

    /// The dictionaries that a request asks for, in its order, within its limit and offset.
    ///
    /// - Throws: As ``rows(matching:)``.
    func dictionaries(matching request: FetchRequest) throws -> FetchedDictionaries

    /// How the store finds what a request asks for.
    ///
    /// - Throws: As ``rows(matching:)``, and with code `unsupported` if the store has nothing to tell.
    func explain(_ request: FetchRequest) throws -> FetchExplanation

    /// The row of an object, or `nil` if there is none (any more).
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot?

    /// The rows of objects, in any order. Missing rows are left out.
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet

    /// The rows of the objects that a relationship of an object leads to, in the relationship's order if it has
    /// one, otherwise by primary key.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet

    /// What a to-many relationship of objects of one entity hierarchy leads to. Members without a row may be among
    /// it.
    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects

    /// How often a save of this store has found that another process, or another store on the same file, had
    /// saved since the save before it.
    var externalCommitCount: Int { get }

    /// Whether rows may be read now, cached ones included: `false` while protected data of class `complete` are locked. Reading
    /// and saving throw ``QuireError`` with code `protectedDataUnavailable` then.
    var isDataAvailable: Bool { get }

    /// The version of what is saved; `nil` if the store cannot tell.
    var contentVersion: ContentVersion? { get }

    /// Sets aside identifiers for new objects. They are never given out twice by this store.
    ///
    /// - Parameters:
    ///   - entity: The entity of the objects.
    ///   - count: How many.
    ///   - durably: Whether other processes learn of it now, with a transaction of its own. Otherwise they do by the
    ///     save that uses the identifiers, which fails with code `mergeConflict` if another was faster.
    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID]

    /// Writes a change set, all of it or nothing. When it returns, the changes survive power loss.
    ///
    /// An updated object's version goes up by one if ``ObjectChange/writesRow``; a new object's is 1. Derived attributes
    /// are the store's to write, whatever the change set has for them.
    ///
    /// - Returns: The objects not in the change set whose derived attributes it has changed; their versions stay.
    /// - Throws: ``QuireError`` with code `mergeConflict`, `constraintConflict`, `outOfSpace`, `readOnly` or
    ///   `storeUnavailable`.
    @discardableResult
    func save(_ changes: ChangeSet) throws -> [ManagedObjectID]

    /// Writes a change set as ``save(_:)`` does, and calls a closure when everything that can fail but the commit has
    /// been done. If that throws, nothing is written.
    ///
    /// A coordinator saves to several stores so: each is ready to commit before the first one does.
    func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID]

    /// Inserts the rows of a request, all of them or none.
    ///
    /// - Parameter rule: What is done about a row whose values must be unique and are in the store already.
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchInsertRequest)``.
    func insert(_ request: BatchInsertRequest, onConflict rule: UpsertPolicy) throws -> BatchResult

    /// Updates the objects that a request finds, all of them or none. Their versions go up by one.
    ///
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchUpdateRequest)``.
    func update(_ request: BatchUpdateRequest) throws -> BatchResult

    /// Deletes the objects that a request finds, and what delete rules take along, all of them or none. Versions of
    /// objects that lose a reference go up by one.
    ///
    /// - Throws: As ``ManagedObjectContext/execute(_:)-(BatchDeleteRequest)``.
    func delete(_ request: BatchDeleteRequest) throws -> BatchResult

    /// What ``ChangeSet/records`` of earlier saves recorded.
    func records() throws -> [String: String]

    /// What the store says of itself and of the model it was made with, and what applications have added.
    func metadata() throws -> StoreMetadata

    /// Keeps a value for an application under a key, or removes it for `nil`, and saves it at once.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the key is one of the framework's own (it begins with `NS`,
    ///   `_NS` or `Quire`), `unsupported` if the store keeps no metadata, and what saving throws.
    func setMetadata(_ value: PropertyListValue?, forKey key: String) throws

    /// Ends all use of the store's file. Later calls throw `storeUnavailable`.
    func close() throws
}

/// What a store need not do itself.
extension PersistentStore {
    /// Reads all rows for their identifiers.
    public func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        let rows = try rows(matching: request)
        return ObjectIDList(
            bits: ContiguousArray(rows.indices.map(rows.identifierBits)), store: identity)
    }

    /// Makes the dictionaries in memory, of rows.
    public func dictionaries(matching request: FetchRequest) throws -> FetchedDictionaries {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        return try DictionaryEvaluation(query, of: self, request).dictionaries()
    }

    /// There is nothing to tell.
    public func explain(_ request: FetchRequest) throws -> FetchExplanation {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) finds objects without a plan.")
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

    /// Refuses.
    public func insert(
        _ request: BatchInsertRequest, onConflict rule: UpsertPolicy
    ) throws -> BatchResult {
        throw noBatchRequests(request.entityName)
    }

    /// Refuses.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        throw noBatchRequests(request.entityName)
    }

    /// Refuses.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        throw noBatchRequests(request.fetchRequest?.entityName)
    }

    private func noBatchRequests(_ entity: String?) -> QuireError {
        QuireError(
            .unsupported,
            "A store of type \(type.rawValue) has no batch requests; change objects in a context instead.",
            subject: .init(entity: entity, file: path))
    }

    /// Saves, and promises no more.
    public var capabilities: StoreCapabilities { [.saving] }

    /// Keeps none.
    public func metadata() throws -> StoreMetadata {
        StoreMetadata(storeUUID: identity.uuid, values: [:])
    }

    /// Refuses.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        throw QuireError(
            .unsupported, "A store of type \(type.rawValue) keeps no metadata of applications.",
            subject: .init(property: key, file: path))
    }

    /// Keeps the objects of all entities.
    public var configurationName: String? { nil }

    /// Calls the closure first, and saves then: all that a store can do which commits in one step.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        try beforeCommit()
        return try save(changes)
    }

    /// Cannot tell.
    public var contentVersion: ContentVersion? { nil }

    /// Nobody else saves.
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

/// What a store can do, and what it promises. Contexts do without what is missing where they can, and say so in an error
/// where they cannot; the conformance suite tests what is there.
public struct StoreCapabilities: OptionSet, Sendable, Hashable {
    /// One bit for each capability.
    public let rawValue: UInt32

    /// Makes a set of bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Objects can be inserted, changed and deleted.
    public static let saving = Self(rawValue: 1 << 0)
    /// A save writes everything or nothing, also if the process is killed or power fails.
    public static let atomicSaves = Self(rawValue: 1 << 1)
    /// When a save returns it survives power loss.
    public static let durableSaves = Self(rawValue: 1 << 2)
    /// What is saved is there when the store is opened again.
    public static let reopening = Self(rawValue: 1 << 3)
    /// Objects have versions, so that a save of an object which others have saved meanwhile is refused.
    public static let versions = Self(rawValue: 1 << 4)
    /// Uniqueness constraints are kept.
    public static let constraints = Self(rawValue: 1 << 5)
    /// Derived attributes are computed.
    public static let derivedAttributes = Self(rawValue: 1 << 6)
    /// Relationships keep an order.
    public static let orderedRelationships = Self(rawValue: 1 << 7)
    /// There are batch requests.
    public static let batchRequests = Self(rawValue: 1 << 8)
    /// Texts can be recorded together with a save.
    public static let records = Self(rawValue: 1 << 9)
    /// Applications can keep metadata.
    public static let metadata = Self(rawValue: 1 << 10)
    /// Requests find objects by condition. Without it the store gives all objects of an entity, and the rest is done in
    /// memory.
    public static let predicates = Self(rawValue: 1 << 11)
    /// Decimal numbers keep all of their 38 digits rather than 15.
    public static let exactDecimals = Self(rawValue: 1 << 12)
    /// Values of binary attributes may be kept in files of their own.
    public static let externalData = Self(rawValue: 1 << 13)
    /// Several processes may have the store open and save in turns.
    public static let sharing = Self(rawValue: 1 << 14)
    /// How the store finds objects can be asked.
    public static let explaining = Self(rawValue: 1 << 15)
    /// Identifiers of deleted objects are not given out again after the store has been opened anew.
    public static let lastingIdentifiers = Self(rawValue: 1 << 16)
    /// A save can be made ready and then wait before it is committed; see ``PersistentStore/save(_:beforeCommit:)``.
    public static let preparedSaves = Self(rawValue: 1 << 18)
    /// Objects keep their versions when the store is opened anew. Without it all have version 1 then.
    public static let lastingVersions = Self(rawValue: 1 << 17)
}

// MARK: - New stores

/// Where a store is to be made.
package struct NewStoreLocation {
    package let path: String
    /// Whether there is anything at the path.
    package let isTaken: Bool
    /// Whether it is a place in memory.
    package var isInMemory = false

    package init(path: String, isTaken: Bool, isInMemory: Bool = false) {
        self.path = path
        self.isTaken = isTaken
        self.isInMemory = isInMemory
    }

    /// Checks that a store can be made there.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `alreadyExists`, or `notFound` if there is no folder for it.
    package func check(isReadOnly: Bool) throws {
        if isReadOnly {
            throw QuireError(
                .readOnly, "“\(path)” cannot be made for reading only.", subject: .init(file: path))
        }
        if isTaken {
            throw QuireError(
                .alreadyExists, "There is a “\(path)” already; remove it or choose another name.",
                subject: .init(file: path))
        }
        let folder = FileSystem.folder(of: path)
        guard try isInMemory || FileSystem.information(at: folder)?.kind == .folder else {
            throw QuireError(
                .notFound, "There is no folder “\(folder)” for the store.",
                subject: .init(file: path))
        }
    }
}

// MARK: - Loading in bulk

/// A file that holds a value of a stored object.
package struct ExternalFile: Sendable {
    /// The file's path.
    package var path: String
    /// The folder of its store, which the path must not lead out of.
    package var root: String
    /// The class key of the file; `nil` for an unsealed file.
    package var classKey: ClassKey?
    /// The number and digest of its bytes, if its store has recorded them.
    package var sha256: Data?

    package init(path: String, root: String, classKey: ClassKey?, sha256: Data?) {
        self.path = path
        self.root = root
        self.classKey = classKey
        self.sha256 = sha256
    }
}

/// An object as it is to be in a store that takes objects in bulk.
package struct BulkRow {
    /// Its identifier, chosen by whoever loads.
    package var objectID: ManagedObjectID
    /// Its entity.
    package var entity: ResolvedEntity
    /// Its version.
    package var version: UInt32
    /// Its values by slot, references included. What is derived is computed by the store, but for times of saves.
    package var values: ContiguousArray<AttributeValue>
    /// The values that are in files, by slot; they are not in ``values``.
    package var files: [Int: ExternalFile] = [:]

    package init(
        objectID: ManagedObjectID, entity: ResolvedEntity, version: UInt32,
        values: ContiguousArray<AttributeValue>, files: [Int: ExternalFile] = [:]
    ) {
        self.objectID = objectID
        self.entity = entity
        self.version = version
        self.values = values
        self.files = files
    }
}

/// Takes whole objects into a store, in bulk. Nothing of it is there before the loading has come to its end.
package protocol BulkInserter: AnyObject {
    /// Adds an object. Objects to which it refers may come later.
    func insert(_ object: BulkRow) throws

    /// Makes a relationship of an object lead to others, in this order if it has one, and their inverse back.
    func relate(
        _ owner: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        to members: [ManagedObjectID]
    ) throws

    /// Records texts, as ``ChangeSet/records``.
    func setRecords(_ records: [String: String]) throws

    /// Sees to it that objects of a root entity get primary keys beyond this one.
    func reservePrimaryKeys(through greatest: Int64, root: ResolvedEntity) throws
}

/// A store that takes objects in bulk in its own way.
package protocol BulkInsertingStore: PersistentStore {
    /// Runs a closure that loads objects; all of them are in the store when it returns, or none if it throws.
    func load(_ body: (any BulkInserter) throws -> Void) throws
}
