import Foundation
public import QuireModel
package import QuireProtection
internal import QuireQuery
public import QuireStore
internal import QuireSystem
import Synchronization

/// A store in one SQLite database, in Core Data's layout.
///
/// Opens stores that Core Data made; saves keep their layout, metadata and model cache. Stores made here carry their model,
/// so they open without anything else.
///
/// Invariants
/// ==========
///
/// - One connection writes, under a lock; the others read, each used by one thread at a time. Only without a
///   write-ahead log does the writing connection read as well, so that reads and saves take turns.
/// - A save is one transaction. External data files are on disk before it commits, and are removed after it has.
/// - After a failure that leaves the on-disk state unknown, nothing is written until the store is reopened.
/// - Only the files at the store's path are written. If another program has replaced or removed them, saving fails with
///   code `storeReplaced`; reads continue on the open files.
/// - Only SQLite opens the database file: closing another descriptor of it would drop SQLite's locks.
///
/// ```swift
/// let store = try SQLiteStore.create(at: "library.sqlite", model: model)
/// let container = PersistentContainer(store: store)
/// …
/// try container.close()       // One file is left, without -wal and -shm.
/// ```
///
/// `/dev/null` is a store in memory; `/dev/null/NAME` is one shared by all who open that name in the process, and lives as
/// long as any of them has it open.
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
    package let externalData: SQLiteExternalData
    /// The version hashes of the store's model when it was opened.
    private let modelHashes: [String: Data]
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
    /// The database that is open, which for a copy is not at the store's path.
    private let source: SQLiteDatabaseFile
    /// Unsafe because it is accessed only under ``writerLock``.
    private nonisolated(unsafe) var writer: SQLiteWriter?
    /// Whether there is no writer because the file could not be reopened yet. Accessed only under ``writerLock``, as is:
    private nonisolated(unsafe) var isBeingReopened = false
    /// Unreferenced external data files, kept until there is a writer.
    private nonisolated(unsafe) var abandoned: Set<String> = []
    private let writerLock = NSLock()
    private let readers: SQLiteReaderPool
    let primaryKeys: SQLitePrimaryKeyAllocator
    private let selections = Lock<[Int: SQLRowSelection]>([:])
    /// Whether there is a write-ahead log, which lets readers and the writer work concurrently.
    private let hasLog: Atomic<Bool>
    private let isClosed = Atomic(false)
    private let externalCommits = Atomic(0)
    private let statementCounter = SQLiteStatementCounter()
    /// The thread that runs a batch request with a row closure; 0 if there is none.
    private let batchThread = Atomic<UInt>(0)
    /// The thread that holds ``writerLock`` to write; 0 if there is none.
    private let writingThread = Atomic<UInt>(0)

    /// The number of times a save has found commits of other connections.
    public var externalCommitCount: Int { externalCommits.load(ordering: .relaxed) }
    /// The number of read statements run.
    package var readStatementCount: Int { statementCounter.count }

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
        modelHashes = hashes
        self.source = source
        self.identity = identity
        self.schema = schema
        self.options = options
        self.carriesModel = carriesModel
        self.inferenceReason = inferenceReason
        self.usesOwnModel = usesOwnModel
        layout = schema.layout
        storePath = source.storePath
        isReadOnly = options.isReadOnly
        let records = SQLiteExternalRecords()
        externalData = SQLiteExternalData(
            storePath: options.externalDataOwner ?? source.storePath,
            classKey: source.protection?.classKey, records: records)
        // In memory there is no folder beside the store.
        hasExternalData =
            !source.access.isMemory
            && schema.layout.entities.contains { $0.slots.contains(where: \.isExternalCapable) }
        let counter = statementCounter
        readers = SQLiteReaderPool {
            let connection = try source.connect(.reading, options: options)
            connection.counter = counter
            return connection
        }
        self.hasLog = Atomic(hasLog || options.isReadOnly)
        records.follow(self)
        if options.isReadOnly {
            connection.close()
        } else {
            if !schema.computedIndexes.isEmpty { connection.trustSchema() }
            writer = SQLiteWriter(
                connection: connection, schema: schema, path: source.storePath, hashes: hashes)
            if hasLog { source.noteLog() }
        }
        source.protection?.domain.addResponder(self)
    }

    /// The keys that seal the store's files; `nil` if the store is not protected.
    package var protection: StoreProtection? { source.protection }
    /// Whether the store is not protected, or its keys are available.
    public var isDataAvailable: Bool { protection?.isAvailable ?? true }

    /// A fingerprint of the store's files, which changes with every write.
    package func fileState() throws -> [Int64] { try SQLiteDatabaseFile.state(of: storePath) }

    /// Whether the store is in memory, and is gone when its last user closes it.
    var isInMemory: Bool { source.access.isMemory }

    /// Whether no other connection can have the file open: on a network, where there is no shared memory to coordinate by.
    package var hasExclusiveAccess: Bool { source.isOnNetwork && !isReadOnly }

    /// Registers another store that still has the same file open, perhaps at the path it had before it was moved.
    func noteConnections(of other: SQLiteStore) {
        guard let theirs = other.source.files,
            source.files?.noteConnections(of: theirs) == true,
            let failure = other.writerLock.withLock({ other.writer?.poison })
        else { return }
        distrust(after: failure)
    }

    /// Whether reads and saves use separate connections.
    var usesReaderPool: Bool { hasLog.load(ordering: .acquiring) }

    // MARK: - Connections

    /// Runs a closure with a connection that sees the last save; converts SQLite failures into errors.
    package func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        // SQLite would still read pages from its cache.
        try source.protection?.checkAvailable(storePath)
        do {
            if let writer = writerOfJoinedSaves { return try body(writer.connection) }
            if hasLog.load(ordering: .acquiring) {
                do {
                    if let result = try readers.withConnection(body) { return result }
                } catch let error as QuireError where error.code == .storeReplaced {
                    return try readByWriter(body, insteadOfThrowing: error)
                }
            } else {
                checkNotInBatch()
                writerLock.lock()
                defer { writerLock.unlock() }
                if let writer { return try body(writer.connection) }
                if isBeingReopened { throw notReopenedError() }
            }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
        throw closedError()
    }

    /// Reads through the writing connection, which still has the file open when new connections cannot open it.
    private func readByWriter<Result>(
        _ body: (SQLiteConnection) throws -> Result, insteadOfThrowing error: QuireError
    ) throws -> Result {
        if writingThread.load(ordering: .relaxed) == UInt(pthread_self()) { throw error }
        return try writerLock.withLock {
            guard let writer else { throw error }
            return try body(writer.connection)
        }
    }

    /// Reads through the writing connection, which has the store's file open whatever has happened to its path. Saves wait
    /// meanwhile. Nothing is written, not even the preparations of the first save.
    func readByWriter<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        do {
            return try readByWriter(body, insteadOfThrowing: closedError())
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
    }

    /// The change another program has made to the store's files; `nil` if there is none or it cannot be determined.
    package var fileReplacement: FileReplacement? { (try? source.files?.change()) ?? nil }

    /// Unlinks the log from a path at which there is another store now, which would use the log as its own. Reads continue.
    package func unlinkLog() {
        if fileReplacement == .replaced { source.files?.unlinkLog() }
    }

    /// Reads for a request that may be monitored, and interrupted, from another thread.
    func read<Result>(
        watchedBy monitor: FetchMonitor?, _ body: (SQLiteConnection) throws -> Result
    ) throws -> Result {
        guard let monitor else { return try read(body) }
        return try read { connection in
            try monitor.check()
            return try connection.watched(by: monitor) { try body(connection) }
        }
    }

    /// Runs a closure with the writer, under its lock.
    ///
    /// - Parameter joining: Whether it may be one of several saves in a transaction; see ``saveInOneTransaction(_:)``.
    private func write<Result>(
        joining: Bool = false, _ body: (SQLiteWriter) throws -> Result
    ) throws -> Result {
        try source.protection?.checkAvailable(storePath)
        do {
            if let writer = writerOfJoinedSaves {
                guard joining else { throw joinedSavesError() }
                return try body(writer)
            }
            checkNotInBatch()
            writerLock.lock()
            writingThread.store(UInt(pthread_self()), ordering: .relaxed)
            defer {
                writingThread.store(0, ordering: .relaxed)
                writerLock.unlock()
            }
            if writer?.poison != nil || isBeingReopened { try reopen() }
            if let writer { return try body(writer) }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
        throw closedError()
    }

    /// Reopens the file after a failure that left the on-disk state unknown; see ``WriterRecovery``. If that fails, the next
    /// save tries again. Called with the lock held.
    private func reopen() throws {
        if let writer, let poison = writer.poison, !writer.mayBeReopened { throw poison }
        guard !isClosed.load(ordering: .acquiring) else { throw closedError() }
        let old = writer
        let reopening = WriterRecovery(
            source: source, options: options, hasLog: hasLog.load(ordering: .acquiring))
        if !reopening.hasLog {
            writer = nil
            isBeingReopened = true
            abandoned.formUnion(old?.giveUp() ?? [])
        }
        let connection = try reopening.run()
        if !schema.computedIndexes.isEmpty { connection.trustSchema() }
        let new = SQLiteWriter(
            connection: connection, schema: schema, path: storePath, hashes: modelHashes)
        // Another program may have migrated it since.
        new.modelVersionCheck.mustCompare()
        new.unreferencedFiles = abandoned
        if reopening.hasLog { new.unreferencedFiles.formUnion(old?.giveUp() ?? []) }
        new.cleansUp = old?.cleansUp ?? true
        abandoned = []
        isBeingReopened = false
        writer = new
    }

    /// Releases the connections' page caches, without waiting for connections in use.
    func releasePages() {
        readers.closeIdle()
        guard writerLock.try() else { return }
        defer { writerLock.unlock() }
        writer?.connection.releaseMemory()
    }

    /// Records a failed fsync of something that belongs to the store.
    package func distrust(after error: any Error) {
        writerLock.withLock { writer?.note(error) }
    }

    /// Runs a closure with the writer, ready to begin a transaction.
    ///
    /// - Parameter joining: Whether it may be one of several saves in a transaction; see ``saveInOneTransaction(_:)``.
    package func withWriter<Result>(
        joining: Bool = false, _ body: (SQLiteWriter) throws -> Result
    ) throws -> Result {
        if isReadOnly { throw readOnlyError() }
        return try write(joining: joining) { writer in
            if !writer.isJournalReady {
                try prepareJournal(writer)
                try secureExternalFolders(writer.connection)
            }
            return try body(writer)
        }
    }

    /// Runs a batch request's transaction with the writer.
    func withWriterForBatch<Result>(_ body: (SQLiteWriter) throws -> Result) throws -> Result {
        try withWriter { writer in
            batchThread.store(UInt(pthread_self()), ordering: .relaxed)
            defer { batchThread.store(0, ordering: .relaxed) }
            return try body(writer)
        }
    }

    /// The writer, if this thread holds it in ``saveInOneTransaction(_:)``.
    private var writerOfJoinedSaves: SQLiteWriter? {
        guard writingThread.load(ordering: .relaxed) == UInt(pthread_self()) else { return nil }
        return writer?.joinedSaves == nil ? nil : writer
    }

    /// Traps on re-entrance: the row closure runs while this thread holds the writer lock.
    private func checkNotInBatch() {
        precondition(
            batchThread.load(ordering: .relaxed) != UInt(pthread_self()),
            "The closure that makes the rows of a BatchInsertRequest must not save to the store they go to, nor read it if it has no write-ahead log."
        )
    }

    /// Runs a statement on the writing connection, for tests and for checking a store.
    func executeOnWriter(_ sql: String) throws {
        try write { try $0.connection.execute(sql) }
    }

    private func notReopenedError() -> QuireError {
        QuireError(
            .storeUnavailable,
            "“\(storePath)” could not be written, and has not been opened again since; save again.",
            subject: .init(file: storePath))
    }

    private func joinedSavesError() -> QuireError {
        QuireError(
            .invalidState,
            "Nothing but objects can be saved to “\(storePath)” while several saves are made one; do it before or afterwards.",
            subject: .init(file: storePath))
    }

    private func closedError() -> QuireError {
        QuireError(
            .storeUnavailable, "“\(storePath)” has been closed.", subject: .init(file: storePath))
    }

    /// The columns to select for objects of an entity and its sub-entities; cached.
    package func selection(of entity: ResolvedEntity) -> SQLRowSelection {
        if let known = selections.withLock({ $0[entity.number] }) { return known }
        let selection = SQLRowSelection(entity, schema: schema)
        selections.withLock { $0[entity.number] = selection }
        return selection
    }

    // MARK: - Saving

    /// Reserves identifiers for new objects.
    ///
    /// - Complexity: O(`count`). Durable reservations take a transaction, one for as many identifiers as have been reserved
    ///   durably before.
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        if isReadOnly && !options.isOnlyWriter { throw readOnlyError() }
        if count == 0 { return [] }
        let root = entity.rootNumber
        // Read outside the lock, which a save acquires while it holds the connection.
        if primaryKeys.withLock({ $0.isKnown(root: root) }) {
            // Keys used by other writers are not given out: objects read meanwhile may have them.
            let number = schema.entity(number: root).storeNumber
            let recorded = try read { try $0.maximumPrimaryKey(of: number) }
            primaryKeys.withLock { $0.noteLater(recorded, root: root) }
        } else {
            let greatest = try read { try maximumPrimaryKey(root: root, $0) }
            primaryKeys.withLock { $0.learn(greatest, root: root) }
        }
        let keys =
            durably && !options.isOnlyWriter
            ? try durablePrimaryKeys(root: root, count: count)
            : try primaryKeys.withLock { try $0.reserve(root: root, count: count) }
        return keys.map {
            ManagedObjectID(entityNumber: entity.number, primaryKey: $0, store: identity)
        }
    }

    private func durablePrimaryKeys(root: Int, count: Int) throws -> ClosedRange<Int64> {
        if let keys = primaryKeys.withLock({ $0.reserveRecorded(root: root, count: count) }) {
            return keys
        }
        return try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelVersionCheck.check(connection)
                let found = try maximumPrimaryKey(root: root, connection)
                // Reserved at once: another thread may be given keys before these are recorded.
                let (keys, greatest) = try primaryKeys.withLock { known in
                    known.note(found, root: root)
                    let greatest = try known.maximumToRecord(root: root, count: count)
                    known.willRecord(greatest, root: root)
                    return (try known.reserve(root: root, count: count), greatest)
                }
                try connection.recordGreatestPrimaryKey(
                    greatest, of: schema.entity(number: root).storeNumber)
                try connection.commit()
                primaryKeys.withLock { $0.didRecordAhead(greatest, from: keys, root: root) }
                return keys
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                throw error
            }
        }
    }

    /// Registers, within a transaction, the keys in use in an entity hierarchy, so that further keys can be reserved in it.
    ///
    /// - Returns: The greatest key.
    func recordPrimaryKeys(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        let found = try maximumPrimaryKey(root: root, connection)
        primaryKeys.withLock {
            $0.learn(found, root: root)
            $0.note(found, root: root)
        }
        return found
    }

    /// Reserves a key that the running transaction will record.
    func nextPrimaryKey(root: Int) throws -> Int64 {
        try primaryKeys.withLock { try $0.reserve(root: root, count: 1).lowerBound }
    }

    /// The greatest primary key ever used in an entity hierarchy.
    private func maximumPrimaryKey(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        let root = schema.entity(number: root)
        // `Z_MAX` may be lower than `max(Z_PK)`.
        let recorded = try connection.maximumPrimaryKey(of: root.storeNumber)
        let used = try connection.integer(
            "SELECT max(Z_PK) FROM \(SQLName.quoted(root.tableName))")
        return max(recorded, used ?? 0)
    }

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
        if isReadOnly { throw readOnlyError() }
        if changes.isEmpty {
            try beforeCommit()
            return []
        }
        return try withWriter(joining: true) {
            try SQLiteSave(store: self, writer: $0, changes: changes).run(
                beforeCommit: beforeCommit)
        }
    }

    private func readOnlyError() -> QuireError {
        QuireError(
            .readOnly, "“\(storePath)” was opened for reading only and cannot be changed.",
            subject: .init(file: storePath))
    }

    /// Switches an old store to a write-ahead log before the first save, if possible.
    private func prepareJournal(_ writer: SQLiteWriter) throws {
        if !hasLog.load(ordering: .relaxed) {
            let hasLog = try source.chooseJournal(writer.connection, options: options)
            self.hasLog.store(hasLog, ordering: .releasing)
        }
        writer.isJournalReady = true
    }

    /// Checks keys about to be inserted against those the store has recorded meanwhile.
    func checkPrimaryKeys(root: Int, recorded: Int64, _ inserted: [ObjectChange]) throws {
        let taken = primaryKeys.withLock {
            $0.note(recorded, root: root)
            return $0.taken(root: root)
        }
        if taken.isEmpty { return }
        let isTaken = inserted.contains { change in
            layout.entity(number: change.objectID.entityNumber).rootNumber == root
                && taken.contains { $0.contains(change.objectID.primaryKey) }
        }
        if isTaken {
            throw QuireError(
                .mergeConflict,
                "Another process has added objects to “\(storePath)” meanwhile; save again.",
                subject: .init(entity: layout.entity(number: root).name, file: storePath),
                underlying: PrimaryKeyCollision())
        }
    }

    func didFindExternalCommit() { externalCommits.add(1, ordering: .relaxed) }

    /// Must be called before the transaction that records the keys commits.
    func willRecordPrimaryKeys(_ greatest: [Int: Int64]) {
        primaryKeys.withLock { keys in
            for (root, key) in greatest { keys.willRecord(key, root: root) }
        }
    }

    func didRecordPrimaryKeys(_ greatest: [Int: Int64]) {
        primaryKeys.withLock { keys in
            for (root, key) in greatest { keys.didRecord(key, root: root) }
        }
    }

    /// Removes external data files left behind by a killed process.
    func collectExternalData() {
        writerLock.withLock {
            guard let writer, hasExternalData else { return }
            SQLiteExternalDataCleanup(store: self, writer: writer).collectAfterOpening()
        }
    }

    // MARK: - Closing

    /// Keeps the files beside the store when it is closed: another store has taken its place, or another file its path.
    ///
    /// - Returns: The names of unreferenced external data files.
    @discardableResult
    package func supersede() -> Set<String> {
        writerLock.withLock {
            writer?.cleansUp = false
            return writer?.unreferencedFiles ?? []
        }
    }

    /// Takes over unreferenced external data files, to be removed when the store is closed.
    package func willClean(_ names: Set<String>) {
        writerLock.withLock { _ = writer?.unreferencedFiles.formUnion(names) }
    }

    /// Checkpoints the log into the database, so that one file is left, and closes all connections.
    ///
    /// - Throws: ``QuireError`` with code `outOfSpace` or `storeUnavailable` if the checkpoint failed. The store is closed all
    ///   the same, and nothing saved is lost: it is in the log, which stays beside the file.
    public func close() throws {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        readers.close()
        let failure = writerLock.withLock { () -> (any Error)? in
            defer { writer = nil }
            return writer.flatMap(finish)
        }
        source.release()
        if let failure = failure as? SQLiteFailure {
            throw failure.notMergedError(path: storePath)
        }
        if let failure { throw failure }
    }

    /// Closes a store whose files another program has replaced, and leaves the files alone: the content of a log that is no
    /// longer at its path is lost.
    package func abandon() throws {
        writerLock.withLock {
            writer?.cleansUp = false
            writer?.keepsLog = true
        }
        try close()
    }

    deinit { try? close() }

    /// Reopens the file after a failed save, as the next save would, so that the frames it left in the log are not taken for a
    /// transaction by the next connection. If that fails too, the outcome of the save stays unknown.
    private func takeBackFailedSave(_ writer: SQLiteWriter) {
        guard writer.mayBeReopened, hasLog.load(ordering: .acquiring),
            let connection = try? WriterRecovery(source: source, options: options, hasLog: true)
                .run()
        else { return }
        _ = writer.giveUp()
        if hasIndexElsewhere { connection.keepLogOnClose() }
        connection.close()
    }

    /// Whether SQLite would remove the index of another file's log along with that of this one.
    private var hasIndexElsewhere: Bool { source.files?.hasIndexElsewhere == true }

    /// Removes the log and its index, which were kept when the last connection was closed, unless they are in use.
    private func removeLog() {
        guard fileReplacement == nil, let last = try? source.connect(.writing, options: options)
        else {
            return
        }
        // SQLite opens the log with the first read.
        try? last.execute("SELECT count(*) FROM sqlite_schema")
        last.close()
    }

    /// Checkpoints and truncates the log, so that the database is one file, and closes the connection.
    private func finish(_ writer: SQLiteWriter) -> (any Error)? {
        var unused: [String] = []
        var keepsLog = false
        defer {
            if keepsLog || hasIndexElsewhere { writer.connection.keepLogOnClose() }
            writer.close()
            if hasIndexElsewhere && !keepsLog { removeLog() }
            SQLiteExternalDataCleanup.remove(unused, ofStoreAt: storePath)
        }
        let change = fileReplacement
        if writer.poison != nil && change == nil && !writer.keepsLog { takeBackFailedSave(writer) }
        // A replaced log belongs to another program; with a replaced index others may be using our log.
        if writer.poison != nil || writer.keepsLog || change == .logReplaced
            || change == .indexReplaced
        {
            keepsLog = true
            return nil
        }
        do {
            // Other processes that have the store open checkpoint the log themselves.
            if hasLog.load(ordering: .acquiring) {
                try writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            } else {
                try source.removeJournal(writer.connection)
            }
        } catch let failure as SQLiteFailure where failure.leavesFileUnknown {
            keepsLog = true
            return failure
        } catch {
            return nil
        }
        if !isInMemory && writer.cleansUp && change == nil {
            unused = SQLiteExternalDataCleanup(store: self, writer: writer).unusedFiles()
        }
        return nil
    }
}

extension SQLiteStore: ProtectedStore, ProtectedDataResponder {
    /// Releases SQLite's page caches.
    package func protectedDataDidBecomeUnavailable() {
        if !isDataAvailable { releasePages() }
    }
}
