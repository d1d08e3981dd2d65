import CSQLite
import Foundation
internal import QuireModel
internal import QuireProtection
internal import QuireQuery
internal import QuireStore
internal import QuireSystem
import Synchronization

/// The connections of a store to its database: one that writes, and a pool of those that read.
///
/// Invariants
/// ==========
///
/// - The writer is used under a lock; each reading connection by one thread at a time. Only without a write-ahead log does the
///   writer read as well, so that reads and saves take turns.
/// - A writer with a failure that leaves the on-disk state unknown (``SQLiteWriter/poison``) does not write again: the file is
///   reopened first.
/// - A thread that holds the writer, for a batch request or for several saves in one transaction, does not wait for itself.
final class SQLiteConnections: Sendable {
    /// The database that is open, which for a copy is not at the store's path.
    let source: SQLiteDatabaseFile
    let statementCounter = SQLiteStatementCounter()
    private let schema: SQLSchema
    private let options: SQLiteStoreOptions
    /// The version hashes of the store's model when it was opened.
    private let modelHashes: [String: Data]
    /// Unsafe because it is accessed only under ``writerLock``.
    private nonisolated(unsafe) var writer: SQLiteWriter?
    /// Whether there is no writer because the file could not be reopened yet. Accessed only under ``writerLock``, as is:
    private nonisolated(unsafe) var isBeingReopened = false
    /// Unreferenced external data files, kept until there is a writer.
    private nonisolated(unsafe) var abandoned: Set<String> = []
    /// The connection by which commits are seen while there is no writer.
    private nonisolated(unsafe) var follower: SQLiteConnection?
    private let writerLock = NSLock()
    /// The history transactions of this store's saves, while its commits are watched.
    let ownTransactions = Lock<OwnTransactions?>(nil)
    private let readers: SQLiteReaderPool
    /// The only reader, of a store that reads one generation.
    private let pinned: SQLitePinnedReader?
    /// The readers of this store's generations.
    private let generations = Lock(WeakList<SQLitePinnedReader>())

    /// Whether there is a write-ahead log, which lets readers and the writer work concurrently.
    private let hasLog: Atomic<Bool>
    private let isClosed = Atomic(false)
    /// The thread that runs a batch request with a row closure; 0 if there is none.
    private let batchThread = Atomic<UInt>(0)
    /// The thread that holds ``writerLock`` to write; 0 if there is none.
    private let writingThread = Atomic<UInt>(0)

    private var storePath: String { source.storePath }

    /// Takes over the connection that the store was opened with.
    init(
        source: SQLiteDatabaseFile, schema: SQLSchema, options: SQLiteStoreOptions,
        connection: SQLiteConnection, hasLog: Bool, hashes: [String: Data]
    ) {
        self.source = source
        self.schema = schema
        self.options = options
        modelHashes = hashes
        pinned = nil
        let counter = statementCounter
        readers = SQLiteReaderPool {
            let connection = try source.connect(.reading, options: options)
            connection.counter = counter
            return connection
        }
        self.hasLog = Atomic(hasLog || options.isReadOnly)
        if options.isReadOnly {
            connection.close()
            return
        }
        if !schema.computedIndexes.isEmpty { connection.trustSchema() }
        writer = SQLiteWriter(
            connection: connection, schema: schema, path: source.storePath, hashes: hashes)
    }

    /// The connections of a store that reads a generation of another.
    init(_ connections: SQLiteConnections, pinned: SQLitePinnedReader) {
        source = connections.source
        schema = connections.schema
        options = connections.options
        modelHashes = connections.modelHashes
        self.pinned = pinned
        readers = connections.readers
        hasLog = Atomic(true)
    }

    /// Begins a generation with the last commit.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` without a write-ahead log: a reader would keep others from saving.
    func pin() throws -> SQLitePinnedReader {
        guard usesReaderPool, !source.access.isMemory else {
            throw QuireError(
                .unsupported,
                "“\(storePath)” has no write-ahead log, which query generations need; use a context without one.",
                file: storePath)
        }
        try source.protection?.checkAvailable(storePath)
        do {
            let reader = try SQLitePinnedReader(
                source.connect(.reading, options: options), path: storePath, options: options)
            generations.withLock { $0.append(reader) }
            if isClosed.load(ordering: .acquiring) {
                expireGenerations(QuireError.closed(storePath))
            }
            return reader
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
    }

    private func expireGenerations(_ error: QuireError) {
        let readers = generations.withLock { generations in
            defer { generations = WeakList() }
            return generations.objects
        }
        for reader in readers { reader.close(error) }
    }

    /// Whether reads and saves use separate connections.
    var usesReaderPool: Bool { hasLog.load(ordering: .acquiring) }

    // MARK: - Reading

    /// Runs a closure with a connection that sees the last save; converts SQLite failures into errors.
    ///
    /// - Parameter monitor: Lets another thread follow and interrupt the read.
    func read<Result>(
        watchedBy monitor: FetchMonitor? = nil, _ body: (SQLiteConnection) throws -> Result
    ) throws -> Result {
        if let monitor {
            return try read { connection in
                try monitor.check()
                return try connection.watched(by: monitor) { try body(connection) }
            }
        }
        // SQLite would still read pages from its cache.
        try source.protection?.checkAvailable(storePath)
        do {
            if let pinned { return try pinned.read(body) }
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
        throw QuireError.closed(storePath)
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
            return try readByWriter(body, insteadOfThrowing: QuireError.closed(storePath))
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
    }

    // MARK: - Writing

    /// Runs a closure with the writer, under its lock.
    ///
    /// - Parameter joining: Whether it may be one of several saves in a transaction; see ``saveInOneTransaction(_:)``.
    func write<Result>(
        joining: Bool = false, _ body: (SQLiteWriter) throws -> Result
    ) throws -> Result {
        try source.protection?.checkAvailable(storePath)
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
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
            if let writer {
                let version = writer.connection.commitVersion
                defer { didWrite(writer, since: version) }
                return try body(writer)
            }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: storePath, schema: schema)
        }
        throw QuireError.closed(storePath)
    }

    /// Reopens the file after a failure that left the on-disk state unknown; see ``WriterRecovery``. If that fails, the next
    /// save tries again. Called with the lock held.
    private func reopen() throws {
        if let writer, let poison = writer.poison, !writer.mayBeReopened { throw poison }
        guard !isClosed.load(ordering: .acquiring) else { throw QuireError.closed(storePath) }
        // They keep the log from being emptied.
        expireGenerations(.generationExpired(path: storePath, "the file had to be opened again"))
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

    /// Runs a closure with the writer as it is, even if it must not write; `nil` if there is none.
    @discardableResult
    func withWriterIfOpen<Result>(_ body: (SQLiteWriter) throws -> Result?) rethrows -> Result? {
        try writerLock.withLock { try writer.flatMap(body) }
    }

    /// Records what the holder of the writer has committed, and signals it to other stores of the process on the same database.
    ///
    /// - Parameter version: The connection's commit version before.
    private func didWrite(_ writer: SQLiteWriter, since version: UInt32) {
        if writer.connection.commitVersion == version { return }
        if !writer.recordedTransactions.isEmpty {
            ownTransactions.withLock { own in
                for number in writer.recordedTransactions { own?.add(number) }
            }
            writer.recordedTransactions = []
        }
        writer.hasCommitted = true
        LocalCommits.send(at: storePath, by: ObjectIdentifier(self))
        for reader in generations.withLock({ $0.objects }) { reader.checkLimits() }
    }

    /// The database's version, which changes with, and only with, commits that are not this store's; `nil` if another file is
    /// at its path.
    ///
    /// Waits for a save that is running.
    func versionOfOthers() throws -> ContentVersion? {
        try source.protection?.checkAvailable(storePath)
        if source.fileReplacement != nil { return nil }
        return try writerLock.withLock {
            if isClosed.load(ordering: .acquiring) { throw QuireError.closed(storePath) }
            if writer == nil && options.isReadOnly && follower == nil {
                follower = try source.connect(.following, options: options)
            }
            guard let connection = writer?.connection ?? follower else { return nil }
            return try connection.integer("PRAGMA data_version").map {
                ContentVersion(counter: connection.number, number: $0)
            }
        }
    }

    /// Marks a batch request's transaction on this thread, which has the writer.
    func runBatch<Result>(_ body: () throws -> Result) rethrows -> Result {
        batchThread.store(UInt(pthread_self()), ordering: .relaxed)
        defer { batchThread.store(0, ordering: .relaxed) }
        return try body()
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
            "The closure that provides the rows of a BatchInsertRequest must not save to the same store, nor read it if it has no write-ahead log."
        )
    }

    /// Switches an old store to a write-ahead log before the first save, if possible.
    func prepareJournal(_ writer: SQLiteWriter) throws {
        if !hasLog.load(ordering: .relaxed) {
            let hasLog = try source.chooseJournal(writer.connection, options: options)
            self.hasLog.store(hasLog, ordering: .releasing)
        }
        writer.isJournalReady = true
    }

    /// Releases the connections' page caches, without waiting for connections in use.
    func releasePages() {
        readers.closeIdle()
        guard writerLock.try() else { return }
        defer { writerLock.unlock() }
        writer?.connection.releaseMemory()
    }

    // MARK: - Closing

    /// Checkpoints the log into the database, so that one file is left, and closes all connections.
    ///
    /// - Parameters:
    ///   - externalData: The store's folder.
    ///   - collectsStatistics: Whether to collect statistics, if something was saved.
    ///   - unusedFiles: The names of the external data files to remove.
    func close(
        _ externalData: ExternalDataFolder, collectsStatistics: Bool,
        unusedFiles: (SQLiteWriter) -> Set<String>
    ) throws {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
        if let pinned { return pinned.close(QuireError.closed(storePath)) }
        expireGenerations(QuireError.closed(storePath))
        var analyses: Set<String> = []
        func ask(_ connection: SQLiteConnection) {
            analyses.formUnion(connection.advisedAnalyses())
        }
        let isAsking = writerLock.withLock {
            guard collectsStatistics, let writer, writer.hasCommitted else { return false }
            ask(writer.connection)
            return true
        }
        readers.close { if isAsking { ask($0) } }
        let failure = writerLock.withLock { () -> (any Error)? in
            defer { writer = nil }
            follower?.close()
            follower = nil
            return writer.flatMap { finish($0, analyses, externalData, unusedFiles) }
        }
        source.release()
        if let failure = failure as? SQLiteFailure {
            throw failure.notMergedError(path: storePath)
        }
        if let failure { throw failure }
    }

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
        guard source.fileReplacement == nil,
            let last = try? source.connect(.writing, options: options)
        else {
            return
        }
        // SQLite opens the log with the first read.
        try? last.execute("SELECT count(*) FROM sqlite_schema")
        last.close()
    }

    /// Checkpoints and truncates the log, so that the database is one file, and closes the connection.
    private func finish(
        _ writer: SQLiteWriter, _ analyses: Set<String>, _ externalData: ExternalDataFolder,
        _ unusedFiles: (SQLiteWriter) -> Set<String>
    ) -> (any Error)? {
        var unused: Set<String> = []
        var keepsLog = false
        defer {
            if keepsLog || hasIndexElsewhere { writer.connection.keepLogOnClose() }
            writer.close()
            if hasIndexElsewhere && !keepsLog { removeLog() }
            // The last connection to close removes the log; another process that has the store open may use the files.
            if !unused.isEmpty, (try? FileSystem.hasEntry(at: storePath + "-wal")) == false {
                externalData.removeUnretained(unused)
            }
        }
        let change: SQLiteStore.FileReplacement?
        do { change = try source.files?.change() } catch {
            // Log and external data may belong to another program's file.
            keepsLog = true
            return error
        }
        if writer.poison != nil && change == nil && !writer.keepsLog { takeBackFailedSave(writer) }
        // A replaced log belongs to another program; with a replaced index others may be using our log.
        if writer.poison != nil || writer.keepsLog || change == .logReplaced
            || change == .indexReplaced
        {
            keepsLog = true
            return nil
        }
        do {
            if change == nil { try analyze(analyses, writer) }
            // Other processes that have the store open checkpoint the log themselves; a query generation of theirs may last.
            sqlite3_busy_timeout(writer.connection.handle, 200)
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
        if writer.cleansUp && change == nil { unused = unusedFiles(writer) }
        return nil
    }

    /// Collects statistics; see ``SQLiteConnection/analyze(_:)``. If others are writing or the disk is full, there are none.
    private func analyze(_ statements: Set<String>, _ writer: SQLiteWriter) throws {
        sqlite3_busy_timeout(writer.connection.handle, 0)
        do {
            try writer.connection.analyze(statements)
        } catch {
            if (error as? SQLiteFailure)?.leavesFileUnknown == true { throw error }
        }
    }

    // MARK: - Errors

    private func notReopenedError() -> QuireError {
        QuireError(
            .storeUnavailable,
            "“\(storePath)” could not be written, and has not been reopened since; save again.",
            file: storePath)
    }

    private func joinedSavesError() -> QuireError {
        QuireError(
            .invalidState,
            "Only objects can be saved to “\(storePath)” while several saves are joined in one transaction; save other changes before or after it.",
            file: storePath)
    }
}
