import CSQLite
internal import QuireSystem
import Synchronization

/// The identity of the files that a store's connections have open, so that a save is not reported as successful when it was
/// committed to files that another program has meanwhile replaced or removed at the store's path.
///
/// Files are compared by device and inode, which are not reused while the files are open. They are only stat'ed, never
/// opened: closing them would drop SQLite's locks.
final class OpenFileIdentity: Sendable {
    private struct Files {
        var database: FileInformation?
        /// The write-ahead log, which stays the same while a writing connection is open.
        var log: FileInformation?
        /// The log's shared-memory index, which stays the same as well. It holds the locks between processes that use the log.
        var index: FileInformation?
    }

    let path: String
    private let files = Lock(Files())
    private let isMoved = Atomic(false)
    private var logPath: String { path + "-wal" }
    private var indexPath: String { path + "-shm" }

    init(path: String) { self.path = path }

    // MARK: Recording

    /// Records the file at the path as the store's, without a connection to it.
    func noteDatabase() throws {
        let found = try FileSystem.information(at: path)
        files.withLock { $0.database = found }
    }

    /// Records the log and its index, if they exist.
    ///
    /// - Parameter sharesIndex: Whether the index is a file.
    func noteLog(sharesIndex: Bool) throws {
        let log = try FileSystem.information(at: logPath)
        let index = sharesIndex ? try FileSystem.information(at: indexPath) : nil
        files.withLock { files in
            if files.log == nil { files.log = log }
            if files.index == nil { files.index = index }
        }
    }

    /// Must be called before a new connection is used: beside a connection to another file it would use that file's log and
    /// shared-memory index.
    ///
    /// - Throws: ``QuireError`` with code `storeReplaced` if it has opened a different file than the other connections.
    func didOpen(_ connection: SQLiteConnection) throws {
        guard let found = try FileSystem.information(at: path), !connection.hasMoved else {
            throw replacedError
        }
        files.withLock { if $0.database == nil { $0.database = found } }
        try check()
    }

    /// Registers open connections of another store to what may be the same file.
    ///
    /// - Returns: Whether it is the same.
    func noteConnections(of other: OpenFileIdentity) -> Bool {
        guard let database = files.withLock({ $0.database }),
            let shared = other.files.withLock({ $0.database }), database.isSameFile(as: shared)
        else { return false }
        isMoved.store(
            FileName(other.path) != FileName(path) || other.hasIndexElsewhere, ordering: .relaxed)
        return true
    }

    /// Whether SQLite has recorded the log's index at the path before a move, so that the last connection would remove the file
    /// there on close: connections of a process share the record of the first one.
    var hasIndexElsewhere: Bool { isMoved.load(ordering: .relaxed) }

    // MARK: Comparing

    /// The difference between the files at the path and the open ones, or `nil`.
    func change() throws -> SQLiteStore.FileReplacement? {
        if let change = try changeOfContent() { return change }
        guard let index = files.withLock({ $0.index }) else { return nil }
        let found = try FileSystem.information(at: indexPath)
        return found?.isSameFile(as: index) == true ? nil : .indexReplaced
    }

    /// The difference for the files that hold committed data.
    private func changeOfContent() throws -> SQLiteStore.FileReplacement? {
        let known = files.withLock { $0 }
        guard let database = known.database else { return nil }
        guard let found = try FileSystem.information(at: path) else { return .removed }
        guard found.isSameFile(as: database) else { return .replaced }
        guard let log = known.log else { return nil }
        guard let found = try FileSystem.information(at: logPath) else { return .logRemoved }
        return found.isSameFile(as: log) ? nil : .logReplaced
    }

    /// - Throws: ``QuireError`` with code `storeReplaced` if the files at the path are not the open ones.
    func check() throws {
        guard let change = try change() else { return }
        if change == .replaced { unlinkLog() }
        throw replacedError
    }

    /// Checks like ``check()``, after a commit. The index holds no committed data.
    func checkAfterCommit() throws {
        // A file that cannot be stat'ed now was there before.
        guard let change = (try? changeOfContent()) ?? nil else { return }
        if change == .removed, try FileSystem.information(at: logPath) == nil, isLinked {
            // It has been moved, along with the commit.
            return
        }
        if change == .replaced { unlinkLog() }
        throw replacedError
    }

    var replacedError: QuireError { Self.replacedError(path) }

    static func replacedError(_ path: String) -> QuireError {
        QuireError(
            .storeReplaced,
            "Another program has replaced or removed “\(path)” or its log while it was open, so nothing was saved there; save "
                + "elsewhere, or open it again.",
            file: path)
    }

    /// Unlinks the store's log from the path of another file, whose next connection would use it as its own. Open connections
    /// continue to use it.
    func unlinkLog() {
        guard let log = files.withLock({ $0.log }),
            let found = (try? FileSystem.information(at: logPath)) ?? nil,
            found.isSameFile(as: log)
        else { return }
        for suffix in ["-wal", "-shm"] {
            _ = try? FileSystem.removeFileIfPresent(path + suffix)
        }
    }

    /// Whether the open database has a link count above zero, at any path.
    private var isLinked: Bool {
        guard let database = files.withLock({ $0.database }) else { return false }
        let descriptors = (try? FileSystem.names(in: "/proc/self/fd")) ?? []
        return descriptors.contains { name in
            let file = (try? FileSystem.information(at: "/proc/self/fd/\(name)")) ?? nil
            return file.map { $0.isSameFile(as: database) && $0.linkCount > 0 } ?? false
        }
    }
}

extension SQLiteStore {
    /// A change by another program to the files of an open store.
    package enum FileReplacement: Sendable {
        /// No file is at its path.
        case removed
        /// Another file is at its path.
        case replaced
        /// The write-ahead log is no longer beside it.
        case logRemoved
        /// Another file is at the write-ahead log's path.
        case logReplaced
        /// The log's index is another file, or missing: other processes that use the log see neither our locks nor our writes,
        /// nor we theirs.
        case indexReplaced
    }
}

// MARK: - Transactions

extension SQLiteConnection {
    /// Whether a different file than the open one is at the database's path.
    fileprivate var hasMoved: Bool {
        var hasMoved: Int32 = 0
        _ = sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        return hasMoved != 0
    }

    /// Begins a write transaction.
    package func begin() throws { try execute("BEGIN IMMEDIATE") }

    /// Commits, if the files are those at the store's path.
    ///
    /// They are compared twice: before, so that in the usual case, files replaced while nothing was saved, the error leaves
    /// everything unchanged; afterwards, because only that proves where the commit went.
    ///
    /// - Throws: ``QuireError`` with code `storeReplaced` if the files are not those at the store's path. Then nothing is
    ///   committed, or, if they were replaced during the commit, ``lostCommit`` is the error. ``SQLiteFailure``.
    package func commit() throws {
        try files?.check()
        try execute("COMMIT")
        do {
            try files?.checkAfterCommit()
        } catch {
            lostCommit = error as? QuireError
            throw error
        }
    }

    /// Returns free pages to the file system, within the transaction, if there are many: at least 1 MiB, and a sixteenth of the
    /// file. A transaction moves a limited number, so a large file shrinks over several.
    ///
    /// Only in stores with incremental vacuuming, which all have that are made here or by Core Data.
    func returnFreePages() throws {
        guard let free = try integer("PRAGMA freelist_count"), free >= 256,
            let all = try integer("PRAGMA page_count"), free >= all / 16
        else { return }
        try execute("PRAGMA incremental_vacuum(\(min(8_192, max(1_024, free / 2))))")
    }
}
