import Foundation
public import QuireModel
package import QuireProtection
internal import QuireQuery
public import QuireStore
internal import QuireSystem
import Synchronization

/// A store in one SQLite database, laid out as Core Data lays it out.
///
/// A store that Core Data made opens here, and what is saved here keeps its layout, its metadata and its model
/// cache. Stores made here carry their model, so they open without anything else.
///
/// Invariants
/// ==========
///
/// - One connection writes, under a lock; others read, each used by one thread at a time. Only when there is no
///   write-ahead log does the writing connection read as well, so that reading and saving take turns.
/// - A save is one transaction. Files of external data are on disk before it commits, and go after it has.
/// - After a failure that leaves open what is on disk, nothing is written any more until the store is opened anew.
/// - The files that are written are those at the store's path. If another program has replaced or removed them, saving
///   fails with code `storeReplaced`; reading goes on with what is open.
/// - The database's file is opened by SQLite only: opening it otherwise would, when closed, drop SQLite's locks.
///
/// ```swift
/// let store = try SQLiteStore.create(at: "library.sqlite", model: model)
/// let container = PersistentContainer(store: store)
/// …
/// try container.close()       // One file is left, without -wal and -shm.
/// ```
///
/// At `/dev/null` a store is made in memory, and at `/dev/null/NAME` one that all share who open that name in the process,
/// as long as any of them has it open.
public final class SQLiteStore: PersistentStore {
    /// The store's UUID and entity names.
    public let identity: StoreIdentity
    /// The model of its objects.
    public let layout: ResolvedModel
    /// Whether it was opened for reading only.
    public let isReadOnly: Bool
    /// The path of the store's file, as it was given.
    public let storePath: String
    /// Where the tables and columns are.
    package let schema: SQLSchema
    package let options: SQLiteStoreOptions
    package let externalData: SQLiteExternalData
    /// The version hashes of the model that the store had when it was opened.
    private let modelHashes: [String: Data]
    /// Whether the store carries its model the way this framework writes it.
    package let carriesModel: Bool
    /// Why its model was made of its tables alone; `nil` if it was not.
    package let inferenceReason: SQLiteInferenceReason?
    /// Whether it was opened with the model that it carries.
    package let usesOwnModel: Bool
    /// Whether its model was made of its tables alone; see ``SQLiteStoreOptions/infersModel``.
    public var hasInferredModel: Bool { inferenceReason != nil }
    /// Whether any attribute may be kept in files.
    package let hasExternalData: Bool
    /// The database that is really open, which for a copy is not the store's path.
    private let source: SQLiteDatabaseFile
    /// Unsafe because it is used only while ``writerLock`` is held.
    private nonisolated(unsafe) var writer: SQLiteWriter?
    /// Whether there is no writer because the file could not be opened again yet. Used while ``writerLock`` is held, as is:
    private nonisolated(unsafe) var isBeingReopened = false
    /// Files of external data that are of no use any more, until there is a writer.
    private nonisolated(unsafe) var abandoned: Set<String> = []
    private let writerLock = NSLock()
    private let readers: SQLiteReaderPool
    let primaryKeys: SQLitePrimaryKeyAllocator
    private let selections = Lock<[Int: SQLRowSelection]>([:])
    /// Whether there is a write-ahead log, which lets readers and the writer work at the same time.
    private let hasLog: Atomic<Bool>
    private let isClosed = Atomic(false)
    private let externalCommits = Atomic(0)
    private let statementCounter = SQLiteStatementCounter()
    /// The thread that runs a batch request, whose rows are made by a closure; 0 if there is none.
    private let batchThread = Atomic<UInt>(0)
    /// The thread that holds ``writerLock`` to write; 0 if there is none.
    private let writingThread = Atomic<UInt>(0)

    /// How often a save has found that others had saved.
    public var externalCommitCount: Int { externalCommits.load(ordering: .relaxed) }
    /// How many statements have been run to read.
    package var readStatementCount: Int { statementCounter.count }

    /// A SQLite database in Core Data's layout.
    public var type: StoreType { .sqlite }
    /// The path of its file.
    public var path: String? { storePath }
    /// The configuration of the model whose entities' objects it keeps; `nil` for all.
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
        // In memory there is no place beside the store.
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

    /// Whether it is a store in memory, which is gone when nobody has it open.
    var isInMemory: Bool { source.access.isMemory }

    /// Whether no other connection can have the file meanwhile: on a network, where there is no memory to agree by.
    package var hasExclusiveAccess: Bool { source.isOnNetwork && !isReadOnly }

    /// Takes notice of another store that has the same file open still, maybe at the path that it had before it was moved.
    func noteConnections(of other: SQLiteStore) {
        guard let theirs = other.source.files,
            source.files?.noteConnections(of: theirs) == true,
            let failure = other.writerLock.withLock({ other.writer?.poison })
        else { return }
        distrust(after: failure)
    }

    /// Whether reading and saving have connections of their own.
    var usesReaderPool: Bool { hasLog.load(ordering: .acquiring) }

    // MARK: - Connections

    /// Runs a closure with a connection that sees the last save, and turns its failures into errors.
    package func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        // Pages that SQLite has in memory it would still read.
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

    /// Reads by the connection that still has the file, when others cannot open it any more.
    private func readByWriter<Result>(
        _ body: (SQLiteConnection) throws -> Result, insteadOfThrowing error: QuireError
    ) throws -> Result {
        if writingThread.load(ordering: .relaxed) == UInt(pthread_self()) { throw error }
        return try writerLock.withLock {
            guard let writer else { throw error }
            return try body(writer.connection)
        }
    }

    /// Reads by the connection that saves, which has the store's file open whatever has become of its path. Saves wait
    /// meanwhile. Nothing is written, not even what the first save is prepared by.
    func readByWriter<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        do {
            return try readByWriter(body, insteadOfThrowing: closedError())
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
    }

    /// What another program has done to the store's files; `nil` if it is nothing, or cannot be found out.
    package var fileReplacement: FileReplacement? { (try? source.files?.change()) ?? nil }

    /// Removes the name of the log from a path at which there is another store now, which it would be taken for a part of.
    /// Reading goes on.
    package func unlinkLog() {
        if fileReplacement == .replaced { source.files?.unlinkLog() }
    }

    /// Reads for a request that may be watched, and interrupted, from another thread.
    func read<Result>(
        watchedBy monitor: FetchMonitor?, _ body: (SQLiteConnection) throws -> Result
    ) throws -> Result {
        guard let monitor else { return try read(body) }
        return try read { connection in
            try monitor.check()
            return try connection.watched(by: monitor) { try body(connection) }
        }
    }

    /// Runs a closure with the writer.
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

    /// Opens the file again after a failure that left open what is on disk; see ``WriterRecovery``. If that fails, the
    /// next save tries again. Called with the lock held.
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
        // Others may have migrated it since.
        new.modelVersionCheck.mustCompare()
        new.unreferencedFiles = abandoned
        if reopening.hasLog { new.unreferencedFiles.formUnion(old?.giveUp() ?? []) }
        new.cleansUp = old?.cleansUp ?? true
        abandoned = []
        isBeingReopened = false
        writer = new
    }

    /// Releases the pages that connections have in memory, without waiting for those in use.
    func releasePages() {
        readers.closeIdle()
        guard writerLock.try() else { return }
        defer { writerLock.unlock() }
        writer?.connection.releaseMemory()
    }

    /// Takes notice of a failure to synchronize something that belongs to the store.
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

    /// Whoever makes rows for a batch request holds the writer, and would wait for themselves.
    private func checkNotInBatch() {
        precondition(
            batchThread.load(ordering: .relaxed) != UInt(pthread_self()),
            "The closure that makes the rows of a BatchInsertRequest must not save to the store they go to, nor read it if it has no write-ahead log."
        )
    }

    /// Runs a statement with the connection that saves, for tests and for checking a store.
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

    /// What to select for the objects of an entity and its sub-entities.
    package func selection(of entity: ResolvedEntity) -> SQLRowSelection {
        if let known = selections.withLock({ $0[entity.number] }) { return known }
        let selection = SQLRowSelection(entity, schema: schema)
        selections.withLock { $0[entity.number] = selection }
        return selection
    }

    // MARK: - Saving

    /// Sets aside identifiers for new objects.
    ///
    /// - Complexity: O(`count`). Where it is to be durable there is a transaction, once for as many identifiers as have
    ///   been set aside so before.
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        if isReadOnly && !options.isOnlyWriter { throw readOnlyError() }
        if count == 0 { return [] }
        let root = entity.rootNumber
        // Read outside the lock, which a save takes while it holds the connection.
        if primaryKeys.withLock({ $0.isKnown(root: root) }) {
            // What others have used is not given out: objects that were read meanwhile may have it.
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
                // Given out at once: another thread may be given keys before these are recorded.
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

    /// Takes notice, within a transaction, of the keys that objects of a hierarchy have, so that others can be given
    /// out in it.
    ///
    /// - Returns: The greatest one.
    func recordPrimaryKeys(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        let found = try maximumPrimaryKey(root: root, connection)
        primaryKeys.withLock {
            $0.learn(found, root: root)
            $0.note(found, root: root)
        }
        return found
    }

    /// Gives out a key that the running transaction is to record.
    func nextPrimaryKey(root: Int) throws -> Int64 {
        try primaryKeys.withLock { try $0.reserve(root: root, count: 1).lowerBound }
    }

    /// The greatest key that an object of a hierarchy has had.
    private func maximumPrimaryKey(root: Int, _ connection: SQLiteConnection) throws -> Int64 {
        let root = schema.entity(number: root)
        // Some stores' books are behind their tables.
        let recorded = try connection.maximumPrimaryKey(of: root.storeNumber)
        let used = try connection.integer(
            "SELECT max(Z_PK) FROM \(SQLName.quoted(root.tableName))")
        return max(recorded, used ?? 0)
    }

    /// Writes a change set in one transaction. When it returns, the changes survive power loss.
    ///
    /// Derived attributes are right afterwards; see ``PersistentStore/save(_:)``.
    @discardableResult
    public func save(_ changes: ChangeSet) throws -> [ManagedObjectID] {
        try save(changes) {}
    }

    /// Writes a change set in one transaction, and calls a closure before that is committed; see
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

    /// Gives an old store a write-ahead log before the first save, unless it cannot have one.
    private func prepareJournal(_ writer: SQLiteWriter) throws {
        if !hasLog.load(ordering: .relaxed) {
            let hasLog = try source.chooseJournal(writer.connection, options: options)
            self.hasLog.store(hasLog, ordering: .releasing)
        }
        writer.isJournalReady = true
    }

    /// Checks keys that are about to be inserted against what the store has recorded meanwhile.
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

    /// Call before the transaction that records them commits.
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

    /// Removes files with external data that a process left behind which was killed.
    func collectExternalData() {
        writerLock.withLock {
            guard let writer, hasExternalData else { return }
            SQLiteExternalDataCleanup(store: self, writer: writer).collectAfterOpening()
        }
    }

    // MARK: - Closing

    /// Leaves the files beside the store alone when it is closed: another store has taken its place, or another file its
    /// path.
    ///
    /// - Returns: The names of files of external data that nothing refers to any more.
    @discardableResult
    package func supersede() -> Set<String> {
        writerLock.withLock {
            writer?.cleansUp = false
            return writer?.unreferencedFiles ?? []
        }
    }

    /// Takes over files of external data that nothing refers to, to remove them when the store is closed.
    package func willClean(_ names: Set<String>) {
        writerLock.withLock { _ = writer?.unreferencedFiles.formUnion(names) }
    }

    /// Merges the log into the database, so that one file is left, and ends all use of it.
    ///
    /// - Throws: ``QuireError`` if the log could not be merged, with code `outOfSpace` or `storeUnavailable`. The store is closed
    ///   all the same, and nothing that was saved is lost: it is in the log, which stays beside the file.
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

    /// Ends all use of a store whose files others have replaced, and leaves them alone: what is in a log that is not at its
    /// path any more is given up.
    package func abandon() throws {
        writerLock.withLock {
            writer?.cleansUp = false
            writer?.keepsLog = true
        }
        try close()
    }

    deinit { try? close() }

    /// Opens the file once more after a save that failed, as the next save would, so that what the failed one has left in the
    /// log is not taken for a transaction by whoever opens the store next. If that fails too, it is still open whether it is.
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

    /// Removes the log and its index, which were kept when the last connection ended, if nobody else uses them.
    private func removeLog() {
        guard fileReplacement == nil, let last = try? source.connect(.writing, options: options)
        else {
            return
        }
        // It knows of the log when it has read.
        try? last.execute("SELECT count(*) FROM sqlite_schema")
        last.close()
    }

    /// Empties the log, so that the database is one file, and ends the connection.
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
        // Another log belongs to what others have left; and with another index others may be using ours.
        if writer.poison != nil || writer.keepsLog || change == .logReplaced
            || change == .indexReplaced
        {
            keepsLog = true
            return nil
        }
        do {
            // Whoever else has the store open finishes the log themselves.
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

extension SQLiteStore: ProtectedDataResponder {
    /// Releases the pages that SQLite has in memory.
    package func protectedDataDidBecomeUnavailable() {
        if !isDataAvailable { releasePages() }
    }
}

extension SQLiteStore: ProtectedStore {}
