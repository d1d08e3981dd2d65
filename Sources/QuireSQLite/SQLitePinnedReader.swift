import Foundation
public import QuireStore
internal import QuireSystem

/// The reader of a query generation: one connection in a transaction that was begun with the last commit, and therefore sees
/// that commit until it ends.
///
/// Invariants
/// ==========
///
/// - Every read is of the same commit, or throws: a transaction that SQLite has ended is not begun again.
/// - The log cannot be checkpointed past the commit meanwhile, and grows with every save. So the generation expires when it is
///   older, or the log has grown by more, than the store's options allow: at the next read, a save of this process, or within
///   two seconds.
///
/// Its users take turns; a thread may read within a read.
final class SQLitePinnedReader: Sendable {
    private let path: String
    private let options: SQLiteStoreOptions
    private let start = ContinuousClock.now
    /// The size of the log when the generation was pinned.
    private let logSize: Int64
    /// Serializes the users; also guards:
    private let lock = NSRecursiveLock()
    /// The connection in its transaction. Unsafe because it is accessed only under ``lock``, as is:
    private nonisolated(unsafe) var connection: SQLiteConnection?
    /// Why there is no connection any more.
    private nonisolated(unsafe) var failure: QuireError?
    private let ticks = Lock<FileEventSubscription?>(nil)

    /// Takes over a reading connection, and begins the transaction.
    init(_ connection: SQLiteConnection, path: String, options: SQLiteStoreOptions) throws {
        self.path = path
        self.options = options
        logSize = Self.logSize(of: path)
        do {
            try connection.execute("BEGIN")
            // A transaction sees the last commit before its first read.
            _ = try connection.integer("SELECT count(*) FROM sqlite_schema")
        } catch {
            connection.close()
            throw error
        }
        self.connection = connection
        let subscription = FileEvents.shared.tick { [weak self] in self?.checkLimits() }
        ticks.withLock { $0 = subscription }
    }

    deinit { connection?.close() }

    /// Runs a closure with the connection.
    ///
    /// - Throws: ``QuireError`` with code `generationExpired`, or `storeUnavailable` after the store was closed.
    func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        try lock.withLock {
            expireBeyondLimits()
            guard let connection else {
                throw failure ?? .generationExpired(path: path, "its reader was closed")
            }
            defer {
                if !connection.isInTransaction {
                    close(.generationExpired(path: path, "its transaction has ended"))
                }
            }
            return try body(connection)
        }
    }

    /// Expires the generation if it exceeds a limit, unless it is being read: then the next read does.
    func checkLimits() {
        guard lock.try() else { return }
        defer { lock.unlock() }
        expireBeyondLimits()
    }

    private func expireBeyondLimits() {
        if connection == nil { return }
        if ContinuousClock.now - start > options.maximumQueryGenerationAge {
            close(
                .generationExpired(
                    path: path, "it is older than \(options.maximumQueryGenerationAge)"))
        } else if Self.logSize(of: path) - logSize > options.maximumQueryGenerationLogSize {
            close(
                .generationExpired(
                    path: path,
                    "the log has grown by more than \(options.maximumQueryGenerationLogSize) bytes since"
                ))
        }
    }

    /// Ends the generation: later reads throw the error.
    func close(_ error: QuireError) {
        lock.withLock {
            guard let connection else { return }
            self.connection = nil
            failure = error
            connection.close()
        }
        // Released after unlocking.
        let subscription = ticks.withLock { ticks in
            defer { ticks = nil }
            return ticks
        }
        subscription?.cancel()
    }

    private static func logSize(of path: String) -> Int64 {
        // Without a log nothing has grown.
        ((try? FileSystem.informationWithoutFollowing(at: path + "-wal")) ?? nil)?.size ?? 0
    }
}

extension QuireError {
    /// The error of a query generation that is not held any more.
    static func generationExpired(path: String, _ reason: String) -> QuireError {
        QuireError(
            .generationExpired,
            "The query generation of “\(path)” has expired: \(reason). Set the context's query generation again, and refresh its objects.",
            file: path)
    }
}

extension SQLiteStore {
    /// A store that keeps reading the last commit, regardless of later saves, through a reader's open transaction.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` for an in-memory store, or one without a write-ahead log.
    public func pinned() throws -> any PersistentStore {
        // An old store gets its log with the first save.
        if !isReadOnly && !usesReaderPool { try withWriter { _ in } }
        return SQLiteStore(self, readingBy: try connections.pin())
    }
}
