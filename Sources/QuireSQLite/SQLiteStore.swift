import Foundation
public import QuireModel
package import QuireProtection
internal import QuireQuery
public import QuireStore
internal import QuireSystem
import Synchronization

/// A store in one SQLite database, in Core Data's layout.
///
/// Opens stores that Core Data created; saves keep their layout, metadata and model cache. Stores created by Quire contain their
/// model, so they open without one.
///
/// Invariants
/// ==========
///
/// - One connection writes, under a lock; the others read, each used by one thread at a time. Only without a write-ahead log does
///   the writing connection read as well, so that reads and saves take turns.
/// - A save is one transaction. External data files are on disk before it commits, and are removed after it has.
/// - After a failure that leaves the on-disk state unknown, nothing is written until the store is reopened.
/// - Only the files at the store's path are written. If another program has replaced or removed them, saving fails with code
///   `storeReplaced`; reads continue on the open files.
/// - Only SQLite opens the database file: closing another descriptor of it would drop SQLite's locks.
///
/// ```swift
/// let store = try SQLiteStore.create(at: "library.sqlite", model: model)
/// let container = PersistentContainer(store: store)
/// …
/// try container.close()       // One file is left, without -wal and -shm.
/// ```
///
/// `/dev/null` is an in-memory store; `/dev/null/NAME` is shared by everything that opens that name in the process, and exists as
/// long as it is open.
public final class SQLiteStore: PersistentStore {
    /// The store's UUID and entity names.
    public let identity: StoreIdentity
    /// The model of its objects.
    public let layout: ResolvedModel
    /// Whether the store was opened read-only.
    public let isReadOnly: Bool
    /// The path of the store's file, as passed when it was opened.
    public let storePath: String
    /// The mapping of the model to tables and columns.
    package let schema: SQLSchema
    package let options: SQLiteStoreOptions
    package let externalData: ExternalDataFolder
    /// Whether the store carries its model in this framework's form.
    package let carriesModel: Bool
    /// The reason why the model was inferred from the tables; `nil` if it was not.
    package let inferenceReason: SQLiteInferenceReason?
    /// Whether the store was opened with the model that it carries.
    package let usesOwnModel: Bool
    /// Whether the model was inferred from the tables; see ``SQLiteStoreOptions/infersModel``.
    public var hasInferredModel: Bool { inferenceReason != nil }
    /// Whether any attribute may be stored in external files.
    package let hasExternalData: Bool
    let connections: SQLiteConnections
    let primaryKeys: SQLitePrimaryKeyAllocator
    private let selections = Lock<[Int: SQLRowSelection]>([:])
    /// The statements of ``relatedRows(of:through:)``, by entity and relationship.
    let relatedRowsStatements = Lock<[Int: String]>([:])
    private let externalCommits = Atomic(0)
    private let fileReference = Lock(WeakFiles())

    private struct WeakFiles {
        weak var files: (any AccompanyingFiles)?
    }

    /// The files that are saved with the rows; `nil` for a store on its own.
    package var files: (any AccompanyingFiles)? { fileReference.withLock { $0.files } }

    /// Sets the files that are saved with the rows. They are not retained.
    package func use(_ files: any AccompanyingFiles) { fileReference.withLock { $0.files = files } }
    private var source: SQLiteDatabaseFile { connections.source }

    /// The number of times a save has found commits of other connections.
    public var externalCommitCount: Int { externalCommits.load(ordering: .relaxed) }
    /// The number of read statements run.
    package var readStatementCount: Int { connections.statementCounter.count }

    /// The type of a SQLite database in Core Data's layout.
    public var type: StoreType { .sqlite }
    /// The path of the store's file.
    public var path: String? { storePath }
    /// The model configuration whose entities the store keeps; `nil` for all.
    public var configurationName: String? { options.configuration }

    init(
        source: SQLiteDatabaseFile, identity: StoreIdentity, schema: SQLSchema, carriesModel: Bool,
        inferenceReason: SQLiteInferenceReason? = nil, usesOwnModel: Bool = false,
        options: SQLiteStoreOptions, connection: SQLiteConnection,
        hasLog: Bool, hashes: [String: Data], keys: SQLitePrimaryKeyAllocator? = nil
    ) {
        primaryKeys = keys ?? SQLitePrimaryKeyAllocator()
        self.identity = identity
        self.schema = schema
        self.options = options
        self.carriesModel = carriesModel
        self.inferenceReason = inferenceReason
        self.usesOwnModel = usesOwnModel
        layout = schema.layout
        storePath = source.storePath
        isReadOnly = options.isReadOnly
        externalData = ExternalDataFolder(
            storePath: options.externalDataOwner ?? source.storePath,
            classKey: source.protection?.classKey)
        // In memory there is no folder beside the store.
        hasExternalData =
            !source.access.isMemory
            && schema.layout.entities.contains { $0.slots.contains(where: \.isExternalCapable) }
        connections = SQLiteConnections(
            source: source, schema: schema, options: options, connection: connection,
            hasLog: hasLog, hashes: hashes)
        externalData.follow(self)
        source.protection?.domain.addResponder(self)
    }

    /// A store that reads another's content as a pinned reader has it.
    init(_ store: SQLiteStore, readingBy reader: SQLitePinnedReader) {
        primaryKeys = SQLitePrimaryKeyAllocator()
        identity = store.identity
        schema = store.schema
        var options = store.options
        options.isReadOnly = true
        self.options = options
        carriesModel = store.carriesModel
        inferenceReason = store.inferenceReason
        usesOwnModel = store.usesOwnModel
        layout = store.layout
        storePath = store.storePath
        isReadOnly = true
        externalData = store.externalData
        hasExternalData = store.hasExternalData
        connections = SQLiteConnections(store.connections, pinned: reader)
    }

    /// The keys that seal the store's files; `nil` if the store is not protected.
    package var protection: StoreProtection? { source.protection }
    /// Whether the store is not protected, or its keys are available.
    public var isDataAvailable: Bool { protection?.isAvailable ?? true }

    /// A fingerprint of the store's files, which changes with every write.
    package func fileState() throws -> [Int64] { try SQLiteDatabaseFile.state(of: storePath) }

    /// Whether the store is in memory, and is gone when its last user closes it.
    package var isInMemory: Bool { source.access.isMemory }

    /// Whether no other connection can have the file open: on a network, where there is no shared memory to coordinate by.
    package var hasExclusiveAccess: Bool { source.isOnNetwork && !isReadOnly }

    /// Registers another store that still has the same file open, perhaps at the path it had before it was moved.
    func noteConnections(of other: SQLiteStore) {
        guard let theirs = other.source.files,
            source.files?.noteConnections(of: theirs) == true,
            let failure = other.connections.withWriterIfOpen({ $0.poison })
        else { return }
        distrust(after: failure)
    }

    /// Whether reads and saves use separate connections.
    var usesReaderPool: Bool { connections.usesReaderPool }

    // MARK: - Connections

    /// Runs a closure with a connection that sees the last save; converts SQLite failures into errors.
    package func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        try connections.read(body)
    }

    /// The change another program has made to the store's files; `nil` if there is none or it cannot be determined.
    package var fileReplacement: FileReplacement? { source.fileReplacement }

    /// Unlinks the log from a path at which there is another store now, which would use the log as its own. Reads continue.
    package func unlinkLog() {
        if fileReplacement == .replaced { source.files?.unlinkLog() }
    }

    /// Records a failed fsync of something that belongs to the store.
    package func distrust(after error: any Error) {
        connections.withWriterIfOpen { $0.note(error) }
    }

    /// Runs a closure with the writer, ready to begin a transaction.
    ///
    /// - Parameter joining: Whether it may be one of several saves in a transaction; see ``saveInOneTransaction(_:)``.
    package func withWriter<Result>(
        joining: Bool = false, _ body: (SQLiteWriter) throws -> Result
    ) throws -> Result {
        if isReadOnly { throw QuireError.readOnly(storePath) }
        return try connections.write(joining: joining) { writer in
            if !writer.isJournalReady {
                try connections.prepareJournal(writer)
                try secureExternalFolders(writer.connection)
            }
            return try body(writer)
        }
    }

    /// Runs a batch request's transaction with the writer.
    func withWriterForBatch<Result>(_ body: (SQLiteWriter) throws -> Result) throws -> Result {
        try withWriter { writer in try connections.runBatch { try body(writer) } }
    }

    /// Runs a statement on the writing connection, for tests and for checking a store.
    func executeOnWriter(_ sql: String) throws {
        try connections.write { try $0.connection.execute(sql) }
    }

    /// The columns to select for objects of an entity and its sub-entities; cached.
    package func selection(of entity: ResolvedEntity) -> SQLRowSelection {
        if let known = selections.withLock({ $0[entity.number] }) { return known }
        let selection = SQLRowSelection(entity, schema: schema)
        selections.withLock { $0[entity.number] = selection }
        return selection
    }

    // MARK: - Saving

    /// Writes a change set in one transaction. When it returns, the changes survive power loss.
    ///
    /// Derived attributes are up to date afterwards; see ``PersistentStore/save(_:)``.
    @discardableResult
    public func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes) {}
    }

    /// Writes a change set in one transaction, and calls a closure before the commit; see
    /// ``PersistentStore/save(_:beforeCommit:)``.
    public func save(
        _ changes: ChangeSet, beforeCommit: () throws -> Void
    ) throws -> [ManagedObjectID] {
        if isReadOnly { throw QuireError.readOnly(storePath) }
        if changes.isEmpty {
            try beforeCommit()
            return []
        }
        return try withWriter(joining: true) {
            try SQLiteSave(store: self, writer: $0, changes: changes).run(
                beforeCommit: beforeCommit)
        }
    }

    func didFindExternalCommit() { externalCommits.add(1, ordering: .relaxed) }

    // MARK: - Closing

    /// Keeps the files beside the store when it is closed: another store has taken its place, or another file its path.
    ///
    /// - Returns: The names of unreferenced external data files.
    @discardableResult
    package func supersede() -> Set<String> {
        connections.withWriterIfOpen { writer in
            writer.cleansUp = false
            return writer.unreferencedFiles
        } ?? []
    }

    /// Takes over unreferenced external data files, to be removed when the store is closed.
    package func willClean(_ names: Set<String>) {
        connections.withWriterIfOpen { $0.unreferencedFiles.formUnion(names) }
    }

    /// Checkpoints the log into the database, so that one file is left, and closes all connections.
    ///
    /// If something was saved, and the store was made here, SQLite collects the statistics that would have helped the queries since
    /// the store was opened, from a limited number of rows.
    ///
    /// - Throws: ``QuireError`` with code `outOfSpace` or `storeUnavailable` if the checkpoint failed. The store is closed
    ///   anyway, and nothing saved is lost: it is in the log, which stays beside the file.
    public func close() throws {
        try connections.close(
            externalData, collectsStatistics: carriesModel && !isInMemory
        ) { writer in
            isInMemory ? [] : unusedExternalFiles(writer)
        }
    }

    /// Closes a store whose files another program has replaced, and leaves the files alone: the content of a log that is no
    /// longer at its path is lost.
    package func abandon() throws {
        connections.withWriterIfOpen { writer in
            writer.cleansUp = false
            writer.keepsLog = true
        }
        try close()
    }

    deinit { try? close() }
}

extension SQLiteStore: ProtectedStore, ProtectedDataResponder {
    /// Releases SQLite's page caches.
    package func protectedDataDidBecomeUnavailable() {
        if !isDataAvailable { connections.releasePages() }
    }
}
