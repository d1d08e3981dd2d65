import CSQLite
import Foundation
import Logging
package import QuireProtection
internal import QuireSystem
import Synchronization

/// The file of an open store; makes the connections to it.
package final class SQLiteDatabaseFile: Sendable {
    /// The access mode of the file.
    enum Access: Sendable {
        /// Reads and writes.
        case writing
        /// Reads a file at rest, without leaving a trace.
        case immutable
        /// Reads a file that this process also has open for writing, with the log in use.
        case besideWriter
        /// Reads a file that another process has open, or may open meanwhile, with the log in use.
        case besideOthers
        /// Reads and writes in memory, shared by all who open the same name in this process.
        case memory
        /// Reads a private copy, because the file has a log that is not checkpointed.
        case copy(folder: TemporarySibling)
    }

    /// The purpose of a connection.
    package enum Purpose {
        case creating, writing, reading
        /// Reads, and merges the log if it is the last connection to close, as a reading one cannot.
        case following
    }

    /// The store's absolute path.
    package let storePath: String
    /// The path of the database that is opened.
    let databasePath: String
    let access: Access
    /// The files that the connections have open; `nil` in memory.
    let files: OpenFileIdentity?
    /// The change another program has made to the store's files; `nil` if there is none or it cannot be determined.
    var fileReplacement: SQLiteStore.FileReplacement? { (try? files?.change()) ?? nil }
    /// The registration of this process's use of the file, for writing or beside other processes; `nil` if at rest.
    private let use: OpenDatabaseRegistry.Use?
    let isOnNetwork: Bool
    /// The keys that seal the store's files; `nil` if the store is not protected.
    package let protection: StoreProtection?
    private let isReleased = Atomic(false)

    /// A large page cache for the writer, which halves the time of large saves.
    private static let writerCacheSize = 64 << 20

    /// Chooses the access mode for a file, which need not exist if it is to be created.
    ///
    /// - Parameters:
    ///   - followsOthers: Whether what others commit later must be visible, although nobody has the file open yet: then it is
    ///     not read as one at rest, unless no log can be used in its folder.
    ///   - protection: The keys of the store; `nil` to look for its keybag.
    package init(
        path: String, isReadOnly: Bool, followsOthers: Bool = false,
        protection: StoreProtection? = nil
    ) throws {
        storePath = FileSystem.absolute(path)
        self.protection = try protection ?? StoreProtection.find(forStoreAt: storePath)
        if let name = SQLiteMemoryPath.name(of: storePath) {
            isOnNetwork = false
            files = nil
            databasePath = "/quire/\(name)"
            access = .memory
            use = OpenDatabaseRegistry.add(storePath)
            return
        }
        files = OpenFileIdentity(path: storePath)
        try DescriptorReserve.fill(beforeOpening: storePath)
        try SQLiteFiles.check(storePath)
        try SQLiteFiles.checkJournal(of: storePath)
        isOnNetwork = (try? FileSystem.isOnNetwork(storePath)) ?? false
        guard isReadOnly else {
            if ArchiveMount.contains(storePath) { throw QuireError.readOnly(storePath) }
            databasePath = storePath
            access = .writing
            if isOnNetwork {
                Logger(label: "quire.sql").warning(
                    "“\(storePath)” is on a network file system, or one that cannot share memory: only one process can have it open, and saving takes longer."
                )
            }
            use = OpenDatabaseRegistry.add(storePath)
            return
        }
        if OpenDatabaseRegistry.contains(storePath) {
            databasePath = storePath
            access = .besideWriter
            use = nil
            return
        }
        let mayBeInUse = Self.mayBeInUse(storePath)
        if (mayBeInUse || followsOthers) && Self.isReadable(storePath, self.protection?.cipher) {
            databasePath = storePath
            access = .besideOthers
            use = OpenDatabaseRegistry.add(storePath)
        } else if try mayBeInUse || Self.hasUnmergedLog(storePath) {
            try files?.noteDatabase()
            let folder = try Self.copy(storePath)
            databasePath = FileSystem.path(folder.path, Self.copyName)
            access = .copy(folder: folder)
            use = nil
        } else {
            databasePath = storePath
            access = .immutable
            use = nil
        }
    }

    deinit { release() }

    /// Removes temporary files made for reading. Called after all connections are closed.
    package func release() {
        guard !isReleased.exchange(true, ordering: .acquiringAndReleasing) else { return }
        if let use { OpenDatabaseRegistry.remove(use) }
        if case .copy(let folder) = access { folder.remove() }
    }

    // MARK: - Files in use by other processes

    /// Whether another process has a store open, so that its file may change at any moment, or it cannot be determined.
    private static func mayBeInUse(_ path: String) -> Bool {
        do {
            return try OpenFile.open(
                path + "-shm", beneath: StorePath.packageRoot(of: path), for: .reading
            ).hasLocks()
        } catch let error as QuireError where error.code == .notFound {
            return false
        } catch {
            return true
        }
    }

    /// Whether a store that another process has open can be read with its log.
    private static func isReadable(_ path: String, _ cipher: PageCipher?) -> Bool {
        // Without write permission beside the file this may fail.
        guard let connection = try? SQLiteConnection(path: path, mode: .reading, cipher: cipher)
        else {
            return false
        }
        defer { connection.close() }
        return (try? connection.integer("SELECT count(*) FROM sqlite_schema")) != nil
    }

    private static let copyName = "store"
    private static let logSuffixes = ["-wal", "-journal"]

    private static func hasUnmergedLog(_ path: String) throws -> Bool {
        try logSuffixes.contains { suffix in
            let found = try FileSystem.information(
                at: path + suffix, beneath: StorePath.packageRoot(of: path))
            return (found?.size ?? 0) > 0
        }
    }

    /// Copies the store and its log to a temporary folder, so that a checkpoint leaves the originals alone.
    private static func copy(_ path: String) throws -> TemporarySibling {
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        do {
            try copy(path, to: FileSystem.path(folder.path, copyName))
            return folder
        } catch {
            folder.remove()
            throw error
        }
    }

    /// Copies a consistent snapshot of a store and its log to an unused name.
    package static func copy(_ path: String, to target: String) throws {
        let root = StorePath.packageRoot(of: path)
        // A concurrent write would make the parts inconsistent.
        for _ in 0..<20 {
            let before = try state(of: path)
            for suffix in [""] + logSuffixes {
                try FileSystem.removeFileIfPresent(target + suffix)
                do {
                    try FileSystem.copyFile(path + suffix, beneath: root, to: target + suffix)
                } catch let error as QuireError where error.code == .notFound && !suffix.isEmpty {
                    continue
                }
            }
            guard try state(of: path) == before else { continue }
            // The original's permissions may not include writing.
            for suffix in [""] + logSuffixes where FileSystem.exists(target + suffix) {
                try OpenFile.open(target + suffix, for: .reading).setPermissions(0o600)
            }
            return
        }
        throw QuireError.beingWritten(at: path)
    }

    /// A fingerprint that must not change while the parts are copied, so that they are consistent. The write-ahead log may
    /// grow: appended frames are whole transactions, or are ignored. Its header changes when it is restarted.
    package static func state(of path: String) throws -> [Int64] {
        let root = StorePath.packageRoot(of: path)
        var state: [Int64] = []
        for suffix in ["", "-journal"] {
            guard let information = try FileSystem.information(at: path + suffix, beneath: root)
            else {
                state.append(-1)
                continue
            }
            state += [
                information.size, information.modificationNanoseconds,
                Int64(bitPattern: information.inode),
            ]
        }
        do {
            let log = try OpenFile.open(path + "-wal", beneath: root, for: .reading)
            state.append(Int64(bitPattern: try log.information().inode))
            state += (try? log.read(32, at: 0))?.map(Int64.init) ?? []
        } catch let error as QuireError where error.code == .notFound {
            state.append(-1)
        }
        return state
    }

    // MARK: - Connections

    /// Opens and configures a connection.
    package func connect(_ purpose: Purpose, options: SQLiteStoreOptions) throws -> SQLiteConnection
    {
        let mode: SQLiteConnection.Mode
        switch (access, purpose) {
        case (.memory, _): mode = .memory
        case (_, .creating): mode = .creating
        case (.immutable, _): mode = .immutable
        case (.copy, _), (_, .writing), (.besideOthers, .following): mode = .writing
        case (.besideWriter, _), (.besideOthers, _), (.writing, _): mode = .reading
        }
        if databasePath == storePath { try files?.check() }
        try protection?.checkAvailable(storePath)
        let connection = try SQLiteConnection(
            path: databasePath, mode: mode, cipher: protection?.cipher)
        do {
            if databasePath == storePath {
                try files?.didOpen(connection)
                connection.files = files
                if let use, files != nil { OpenDatabaseRegistry.didOpen(storePath, use) }
            }
            if let wait = options.lockWait {
                connection.setBusyWait(SQLiteBusyWait(path: storePath, wait: wait))
            } else {
                let milliseconds = options.busyTimeout / .milliseconds(1)
                sqlite3_busy_timeout(connection.handle, Int32(min(max(milliseconds, 0), 1e9)))
            }
            try SQLiteFunctions.register(on: connection)
            let cacheSize = max(
                options.cacheSize,
                purpose == .creating || purpose == .writing ? Self.writerCacheSize : 0)
            try connection.execute(
                """
                PRAGMA cache_size = -\(max(cacheSize >> 10, 16));
                PRAGMA temp_store = MEMORY;
                PRAGMA cell_size_check = ON;
                PRAGMA synchronous = \(options.synchronization == .normal ? "NORMAL" : "FULL");
                """)
            for pragma in try SQLitePragmas(options.pragmas, path: storePath).statements {
                try connection.execute(pragma)
            }
            if purpose == .reading || purpose == .following {
                try connection.execute("PRAGMA query_only = ON")
            }
            // Without shared memory only one connection can use the log.
            if isOnNetwork && (purpose == .creating || purpose == .writing) {
                try connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            }
        } catch {
            connection.close()
            throw error
        }
        return connection
    }

    // MARK: - Journal

    /// Whether the options and the file system call for a write-ahead log.
    func wantsLog(_ options: SQLiteStoreOptions) -> Bool {
        if access.isMemory { return false }
        return switch options.journal {
        case .automatic: !isOnNetwork
        case .writeAheadLog: true
        case .rollback: false
        }
    }

    /// Whether the database has a write-ahead log now.
    package func hasLog(_ connection: SQLiteConnection) throws -> Bool {
        try journalMode("PRAGMA journal_mode", connection) == "wal"
    }

    /// Sets the journal mode of the options.
    ///
    /// - Returns: Whether it is a write-ahead log.
    package func chooseJournal(
        _ connection: SQLiteConnection, options: SQLiteStoreOptions
    ) throws -> Bool {
        if wantsLog(options) {
            if !isOnNetwork { try removeJournal(connection) }
            if try beginLog(connection, options: options) {
                // SQLite creates the log with the first read.
                try connection.execute("SELECT count(*) FROM sqlite_schema")
                try noteLog()
                return true
            }
        }
        if access.isMemory {
            _ = try journalMode("PRAGMA journal_mode = MEMORY", connection)
            return false
        }
        // Truncated rather than removed: an unlink is not durable until the folder has been synchronized.
        _ = try journalMode("PRAGMA journal_mode = TRUNCATE", connection)
        return false
    }

    /// Switches to a write-ahead log.
    ///
    /// SQLite does not wait for a connection that is about to write, because it already reads when it finds that out.
    private func beginLog(
        _ connection: SQLiteConnection, options: SQLiteStoreOptions
    ) throws -> Bool {
        let deadline = ContinuousClock.now + (options.lockWait?.timeout ?? options.busyTimeout)
        while true {
            do {
                return try journalMode("PRAGMA journal_mode = WAL", connection) == "wal"
            } catch let failure as SQLiteFailure
                where failure.isBusy && ContinuousClock.now < deadline
            {
                Thread.sleep(forTimeInterval: 0.005)
            }
        }
    }

    /// Makes the last commit durable, before anything relies on it: files that it does not refer to are removed, and other replicas
    /// are sent its changes.
    ///
    /// A process may have been killed between writing its commit and synchronizing it. The next one to open the store sees the
    /// commit, and without this a power failure would bring back the one before.
    func synchronizeLastCommit() throws {
        guard databasePath == storePath else { return }
        let root = StorePath.packageRoot(of: storePath)
        for suffix in Self.logSuffixes {
            do {
                let log = try OpenFile.open(storePath + suffix, beneath: root, for: .reading)
                // An empty write-ahead log is a new one; an empty journal is one whose end was the commit.
                if try suffix == "-journal" || log.information().size > 0 { try log.synchronize() }
            } catch let error as QuireError where error.code == .notFound {
                continue
            }
        }
    }

    /// Registers the log in use. Without shared memory there is no index file.
    func noteLog() throws { try files?.noteLog(sharesIndex: !isOnNetwork) }

    /// Removes a truncated rollback journal. One in use stays.
    func removeJournal(_ connection: SQLiteConnection) throws {
        guard !access.isMemory, FileSystem.exists(databasePath + "-journal"),
            try files?.change() == nil
        else { return }
        // SQLite removes it on a change of journal mode, unless the locking mode is exclusive.
        try connection.execute(
            "PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema")
        _ = try journalMode("PRAGMA journal_mode = TRUNCATE", connection)
        _ = try journalMode("PRAGMA journal_mode = DELETE", connection)
    }

    private func journalMode(_ pragma: String, _ connection: SQLiteConnection) throws -> String {
        let statement = try connection.prepare(pragma)
        return try statement.step() ? statement.text(0).lowercased() : ""
    }
}

// MARK: - Databases in memory

extension SQLiteDatabaseFile.Access {
    /// Whether the database is in memory.
    var isMemory: Bool { if case .memory = self { true } else { false } }
}

/// In-memory databases, which live as long as any connection to them is open.
enum SQLiteMemoryPath {
    /// The name of the in-memory database for a path; `nil` for the path of a file.
    static func name(of storePath: String) -> String? {
        guard StorePath.isInMemory(storePath) else { return nil }
        return StorePath.sharedMemoryName(of: storePath).map { "shared-" + $0 }
            ?? "private-\(UUID().uuidString)"
    }

    /// Whether the in-memory database for a path is open in the process.
    static func exists(_ storePath: String) -> Bool {
        StorePath.sharedMemoryName(of: storePath) != nil && OpenDatabaseRegistry.contains(storePath)
    }
}
