public import Foundation
public import QuireModel
package import QuireProtection
public import QuireQuery
public import QuireStore
public import QuireSystem
import Synchronization

/// A store that holds all of its objects in memory, and whose file, if any, is rewritten completely by each save.
///
/// Subclasses implement a file format: they override ``storeType``, ``loadMetadata(from:path:)``, ``load(_:into:)`` and
/// ``save(_:)-(AtomicStoreObjects)``. Everything else is implemented here, equivalent to a SQLite store: requests, conflicts,
/// uniqueness, derived attributes, batch requests.
///
/// ```swift
/// final class CardFile: AtomicStore, @unchecked Sendable {
///     override class var storeType: StoreType { StoreType(rawValue: "CardFile") }
///     override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata { … }
///     override func load(_ data: Data, into objects: inout AtomicStoreLoader) throws { … }
///     override func save(_ objects: AtomicStoreObjects) throws -> Data { … }
/// }
/// let store = try CardFile.open(at: "people.cards", model: model)
/// ```
///
/// Invariants
/// ==========
///
/// - Memory and file have the same contents once a save has returned. A failed save leaves both unchanged; or both new, if
///   the new file was in place when synchronizing its folder failed, and the old one could not be restored.
/// - Readers see a snapshot of the contents; they never wait for a save.
/// - The file is replaced atomically (temporary file, synchronized, renamed, folder synchronized), while its lock is held. A
///   file replaced by another process meanwhile is not overwritten: the save fails with code `mergeConflict`, and the store
///   has to be reopened.
/// - Primary keys are unique in the whole store.
///
/// `@unchecked Sendable` because the class is open; its own state is protected by locks, and subclasses must protect state
/// they add.
open class AtomicStore: PersistentStore, @unchecked Sendable {
    /// The store's UUID and entity names.
    public let identity: StoreIdentity
    /// The model of its objects.
    public let layout: ResolvedModel
    /// The path of its file; `nil` if it has none.
    public let path: String?
    /// Whether it was opened for reading only.
    public let isReadOnly: Bool
    /// The configuration of the model whose entities' objects it contains; `nil` for all entities.
    public let configurationName: String?
    /// Whether its file contains the model. Files created by Core Data do not, even after saves.
    public let carriesModel: Bool
    /// Whether the model was inferred from the file, because the file does not contain one and none was passed.
    public let hasInferredModel: Bool
    private let file: AtomicStoreFile?
    /// The keys that seal the store's file; `nil` if the store is not protected, or is in memory.
    package var protection: StoreProtection? { file?.protection }
    /// Whether the store is not protected, or its keys are available.
    public var isDataAvailable: Bool { protection?.isAvailable ?? true }
    private let contents: Lock<AtomicContents?>
    /// Unsafe because it is accessed only while ``saving`` is held.
    private nonisolated(unsafe) var index: AtomicUniqueIndex?
    private let saving = NSLock()
    /// The greatest primary key allocated.
    private let lastKey: Lock<Int64>
    private let counter = ContentVersion.newCounter()
    private let saveCount = Atomic<Int64>(0)
    /// The thread that runs a batch request's row closure; 0 if there is none.
    private let batchThread = Atomic<UInt>(0)

    // MARK: - Subclass overrides

    /// The type of the store.
    open class var storeType: StoreType {
        preconditionFailure("A subclass of AtomicStore must override storeType.")
    }

    /// The primary key of the first object of a new store.
    open class var firstPrimaryKey: Int64 { 1 }

    /// Reads the metadata of a file, without objects.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not a valid file of this type.
    open class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        preconditionFailure("\(self) must override loadMetadata(from:path:).")
    }

    /// Checks that files of this type can store the objects of a model. Called before a store is created or opened.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if they cannot.
    open class func check(_ layout: ResolvedModel) throws {}

    /// Reads the objects of a file. The file may be damaged or malicious: it must not make the reader crash, run forever or use
    /// more memory than its size justifies.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the file is damaged, or `incompatibleModel` if it contains data that
    ///   the model lacks.
    open func load(_ data: Data, into objects: inout AtomicStoreLoader) throws {
        preconditionFailure("\(Swift.type(of: self)) must override load(_:into:).")
    }

    /// Encodes all objects as the content of a file.
    ///
    /// - Throws: ``QuireError`` if a value cannot be written; then nothing is saved.
    open func save(_ objects: AtomicStoreObjects) throws -> Data {
        preconditionFailure("\(Swift.type(of: self)) must override save(_:).")
    }

    /// Creates the store from its opening state; ``open(at:model:options:)`` and ``create(at:model:options:)`` call it.
    public required init(_ opening: AtomicStoreOpening) {
        layout = opening.contents.layout
        identity = opening.contents.identity
        path = opening.file?.path
        isReadOnly = opening.options.isReadOnly
        configurationName = opening.options.configuration
        carriesModel = opening.contents.carriesModel
        hasInferredModel = opening.contents.hasInferredModel
        file = opening.file
        lastKey = Lock(Swift.max(opening.contents.maximumKey, Self.firstPrimaryKey - 1))
        contents = Lock(opening.contents)
    }

    // MARK: - State

    /// The type of the store.
    public var type: StoreType { Self.storeType }

    /// The optional features and guarantees of the store.
    open var capabilities: StoreCapabilities {
        var capabilities: StoreCapabilities = [
            .versions, .constraints, .derivedAttributes, .orderedRelationships, .batchRequests,
            .records, .metadata, .predicates, .exactDecimals, .saving, .atomicSaves,
            .preparedSaves,
        ]
        if path != nil { capabilities.formUnion([.durableSaves, .reopening, .lastingIdentifiers]) }
        return capabilities
    }

    /// A store of the present objects. It shares memory with this store, except for later changes.
    public func pinned() throws -> any PersistentStore {
        var options = AtomicStoreOptions()
        options.configuration = configurationName
        options.isReadOnly = true
        return InMemoryStore(
            AtomicStoreOpening(contents: try currentContents(), file: nil, options: options))
    }

    /// The version of the saved content.
    public var contentVersion: ContentVersion? {
        ContentVersion(counter: counter, number: saveCount.load(ordering: .acquiring))
    }

    package func currentContents() throws -> AtomicContents {
        // The objects are in memory, where locking the domain does not reach them.
        try protection?.checkAvailable(name)
        let contents = contents.withLock { contents in
            if let renumbered = contents?.renumbered() { contents = renumbered }
            return contents
        }
        guard let contents else { throw QuireError.closed(path, name: name) }
        return contents
    }

    /// The path of the keybag, for errors.
    var name: String { path ?? "\(type.rawValue) store" }

    /// Loads the file into the contents, when the store has just been opened.
    func loadFile(_ data: Data) throws {
        var contents = try currentContents()
        var loader = AtomicStoreLoader(contents, file: path)
        try load(data, into: &loader)
        contents = try loader.finish()
        lastKey.withLock { $0 = Swift.max($0, contents.maximumKey) }
        self.contents.withLock { $0 = contents }
    }

    /// Writes the file for the first time.
    ///
    /// - Parameter permissions: The permission bits of the file; `nil` for the default ones.
    package func writeFirst(permissions: UInt32? = nil) throws {
        try file?.create(with: bytes(of: currentContents()), permissions: permissions)
    }

    /// Whether the file at the path is the one that was read or written here last; `true` without a file.
    package func isFileCurrent() throws -> Bool { try file?.isCurrent() ?? true }

    /// The contents with unsaved changes, as a save would make them; the store itself stays as it is.
    ///
    /// - Returns: Also the objects whose derived values the changes affect.
    package func applying(
        _ changes: ChangeSet
    ) throws -> (contents: AtomicContents, derived: [ManagedObjectID]) {
        let before = try currentContents()
        if changes.isEmpty { return (before, []) }
        var transaction = Transaction(
            contents: before, index: try AtomicUniqueIndex(before), path: path,
            nextKey: { [self] in try nextPrimaryKey() })
        for (key, value) in changes.records { transaction.contents.records[key] = value }
        let derived = try transaction.apply(changes)
        return (transaction.contents, derived)
    }

    /// The bytes of a file with all that is in memory.
    package func fileContents() throws -> Data { try bytes(of: currentContents()) }

    /// Replaces the content of the file, if it is unchanged since it was read. The store is closed then: its memory is stale.
    ///
    /// - Throws: ``QuireError``; the file may be the new one, if only its durability is uncertain.
    package func replaceFile(with data: Data) throws {
        saving.lock()
        defer { saving.unlock() }
        let doubt = try file?.replace(with: data, beforeCommit: {}) ?? nil
        contents.withLock { $0 = nil }
        index = nil
        file?.close()
        if let doubt { throw doubt }
    }

    private func bytes(of contents: AtomicContents) throws -> Data {
        try save(AtomicStoreObjects(contents, model: layout.model))
    }

    // MARK: - Saving

    /// Reserves identifiers for new objects.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        if isReadOnly { throw QuireError.readOnly(path, name: name) }
        _ = try currentContents()
        let first = try takeKeys(count)
        return (0..<Int64(count)).map {
            ManagedObjectID(entityNumber: entity.number, primaryKey: first + $0, store: identity)
        }
    }

    /// Gives out a primary key.
    func nextPrimaryKey() throws -> Int64 { try takeKeys(1) }

    /// Allocates primary keys.
    ///
    /// - Returns: The first of them.
    private func takeKeys(_ count: Int) throws -> Int64 {
        try lastKey.withLock { last in
            guard Int64(count) <= ManagedObjectID.maximumPrimaryKey - last else {
                throw QuireError(
                    .storeUnavailable,
                    "“\(name)” has used all its primary keys; no more objects can be added.",
                    file: path)
            }
            defer { last += Int64(count) }
            return last + 1
        }
    }

    /// Saves a change set: computes the new contents, writes the file, and publishes the contents.
    @discardableResult
    public func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes) {}
    }

    /// Saves a change set, and calls a closure between computing and writing.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        if changes.isEmpty {
            try beforeCommit()
            return []
        }
        return try transaction { transaction in
            for (key, value) in changes.records { transaction.contents.records[key] = value }
            return try transaction.apply(changes)
        } beforeCommit: {
            try beforeCommit()
        }
    }

    /// A save in the making.
    struct Transaction {
        /// The contents to save.
        var contents: AtomicContents
        let index: AtomicUniqueIndex
        private(set) var edits = AtomicIndexEdits()
        let path: String?
        /// Gives out a primary key.
        let nextKey: () throws -> Int64

        /// Computes and applies the result of a change set. Once per transaction: the index is that of the last save.
        ///
        /// - Parameter counted: Relationships whose count rules the change set may violate.
        mutating func apply(
            _ changes: ChangeSet, checkingCounts counted: [CountedRelationship] = []
        ) throws -> [ManagedObjectID] {
            let before = contents
            var save = InMemorySavePlan(
                changes, of: AtomicSavedRows(contents: before, index: index), path: path)
            try save.run()
            try save.checkCounts(of: counted)
            try contents.apply(save)
            try edits.add(save, before: before, after: contents)
            return save.derived
        }
    }

    /// Runs a closure that changes the contents, writes the file and publishes the contents; if anything throws, nothing is
    /// changed.
    func transaction<Result>(
        _ body: (inout Transaction) throws -> Result, beforeCommit: () throws -> Void = {}
    ) throws -> Result {
        if isReadOnly { throw QuireError.readOnly(path, name: name) }
        checkNotInBatch()
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
        saving.lock()
        defer { saving.unlock() }
        let before = try currentContents()
        let known = try index ?? AtomicUniqueIndex(before)
        index = known
        var transaction = Transaction(
            contents: before, index: known, path: path, nextKey: { [self] in try nextPrimaryKey() })
        let result = try body(&transaction)
        var failure: (any Error)?
        if let file {
            failure = try file.replace(
                with: bytes(of: transaction.contents), beforeCommit: beforeCommit)
        } else {
            try beforeCommit()
        }
        // The file is replaced, so nothing may fail from here on.
        known.apply(transaction.edits)
        contents.withLock { if $0 != nil { $0 = transaction.contents } }
        saveCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
        if let failure { throw failure }
        return result
    }

    /// Runs a batch request's transaction.
    func batchTransaction<Result>(_ body: (inout Transaction) throws -> Result) throws -> Result {
        try transaction { transaction in
            batchThread.store(UInt(pthread_self()), ordering: .relaxed)
            defer { batchThread.store(0, ordering: .relaxed) }
            return try body(&transaction)
        }
    }

    /// Traps on re-entrance: a batch request's row closure runs while this thread holds the saving lock.
    private func checkNotInBatch() {
        precondition(
            batchThread.load(ordering: .relaxed) != UInt(pthread_self()),
            "The closure that provides the rows of a BatchInsertRequest must not save to the same store."
        )
    }

    /// The error of a model that lacks an entity or a property of the file.
    func misfit(_ what: String, _ entity: String, _ property: String? = nil) -> QuireError {
        QuireError(
            .incompatibleModel,
            "The model does not match “\(path ?? "")”: \(what); open the store with the model it was created with.",
            entity: entity, property: property, file: path)
    }

    // MARK: - Records and metadata

    /// The records of earlier saves.
    public func records() throws -> [String: String] { try currentContents().records }

    /// The metadata of the store and of the model it was created with.
    public func metadata() throws -> StoreMetadata { try currentContents().metadata }

    /// Sets or removes an application's metadata value, and saves it at once.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        try StoreMetadata.requireUnreserved(key, file: path)
        try transaction { $0.contents.metadata.values[key] = value }
    }

    // MARK: - Closing

    /// Releases the objects and the file.
    public func close() throws {
        saving.lock()
        defer { saving.unlock() }
        contents.withLock { $0 = nil }
        index = nil
        file?.close()
    }
}

extension AtomicStore: ProtectedStore {}

// MARK: - In memory

/// A store without a file: its contents are lost when it is deallocated.
///
/// ```swift
/// let container = PersistentContainer(store: try InMemoryStore(model: model))
/// ```
///
/// Fetches scan all objects of the entity; lookups by identifier, or of a relationship's members, do not.
public final class InMemoryStore: AtomicStore, @unchecked Sendable {
    /// `InMemory`.
    public override class var storeType: StoreType { .inMemory }

    /// Creates an empty store for a model.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public convenience init(
        model: ManagedObjectModel, options: AtomicStoreOptions = AtomicStoreOptions()
    ) throws {
        try self.init(
            layout: model.binding(classes: options.objectClasses).layout(), options: options)
    }

    /// As ``init(model:options:)``, with a model shared with other stores.
    package convenience init(layout: ResolvedModel, options: AtomicStoreOptions) throws {
        self.init(try Self.opening(layout, file: nil, options: options))
    }

    /// Creates the store from its opening state.
    public required init(_ opening: AtomicStoreOpening) { super.init(opening) }

    /// Throws an error: in-memory stores do not have a file.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        throw QuireError(
            .unsupported, "An in-memory store has no file; “\(path)” cannot be one.", file: path)
    }

    /// Throws an error: in-memory stores do not have a file.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        throw QuireError(.unsupported, "An in-memory store has no file.")
    }
}
