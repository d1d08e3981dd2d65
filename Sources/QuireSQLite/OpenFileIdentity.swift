import CSQLite
internal import QuireSystem
import Synchronization

/// Which files the connections of a store have open, so that nothing is taken for saved that was committed to files which
/// the store's path does not lead to any more, because another program has replaced or removed them.
///
/// Files are compared by device and inode, which cannot be used for other files as long as these are open. They are only
/// examined, never opened: closing them would drop SQLite's locks.
final class OpenFileIdentity: Sendable {
    private struct Files {
        var database: FileInformation?
        /// The write-ahead log, which stays the same as long as a connection that writes is open.
        var log: FileInformation?
        /// The log's index in shared memory, which does so too. It has the locks by which processes that use the log agree.
        var index: FileInformation?
    }

    let path: String
    private let files = Lock(Files())
    private let isMoved = Atomic(false)
    private var logPath: String { path + "-wal" }
    private var indexPath: String { path + "-shm" }

    init(path: String) { self.path = path }

    // MARK: Recording

    /// Takes notice of the file at the path as that of the store, which is not opened there.
    func noteDatabase() {
        let found = (try? FileSystem.information(at: path)) ?? nil
        files.withLock { $0.database = found }
    }

    /// Takes notice of the log and its index, if there are any by now.
    ///
    /// - Parameter sharesIndex: Whether the index is a file.
    func noteLog(sharesIndex: Bool) {
        let log = (try? FileSystem.information(at: logPath)) ?? nil
        let index = sharesIndex ? (try? FileSystem.information(at: indexPath)) ?? nil : nil
        files.withLock { files in
            if files.log == nil { files.log = log }
            if files.index == nil { files.index = index }
        }
    }

    /// Call before a connection that has just been opened is used: beside another file's connection it would use the log,
    /// and its index in memory, that belong to the first one.
    ///
    /// - Throws: ``QuireError`` with code `storeReplaced` if it has opened another file than the others.
    func didOpen(_ connection: SQLiteConnection) throws {
        guard let found = try FileSystem.information(at: path), !connection.hasMoved else {
            throw replacedError
        }
        files.withLock { if $0.database == nil { $0.database = found } }
        try check()
    }

    /// Takes notice of other connections to what may be the same file, which are open still.
    ///
    /// - Returns: Whether it is the same.
    func noteConnections(of other: OpenFileIdentity) -> Bool {
        guard let database = files.withLock({ $0.database }),
            let shared = other.files.withLock({ $0.database }), database.isSameFile(as: shared)
        else { return false }
        isMoved.store(other.path != path || other.hasIndexElsewhere, ordering: .relaxed)
        return true
    }

    /// Whether SQLite takes the log's index to be where the file was before it was moved, so that the last connection to end
    /// would remove what is there: those of a process share what the first of them has noted of the index.
    var hasIndexElsewhere: Bool { isMoved.load(ordering: .relaxed) }

    // MARK: Comparing

    /// What has become of the files; `nil` if they are those that are open.
    func change() throws -> SQLiteStore.FileReplacement? {
        if let change = try changeOfContent() { return change }
        guard let index = files.withLock({ $0.index }) else { return nil }
        let found = try FileSystem.information(at: indexPath)
        return found?.isSameFile(as: index) == true ? nil : .indexReplaced
    }

    /// What has become of the files that hold what is committed.
    private func changeOfContent() throws -> SQLiteStore.FileReplacement? {
        let known = files.withLock { $0 }
        guard let database = known.database else { return nil }
        guard let found = try FileSystem.information(at: path) else { return .removed }
        guard found.isSameFile(as: database) else { return .replaced }
        guard let log = known.log else { return nil }
        guard let found = try FileSystem.information(at: logPath) else { return .logRemoved }
        return found.isSameFile(as: log) ? nil : .logReplaced
    }

    /// - Throws: ``QuireError`` with code `storeReplaced` if the path leads to other files than those that are open.
    func check() throws {
        guard let change = try change() else { return }
        if change == .replaced { unlinkLog() }
        throw replacedError
    }

    /// As ``check()``, of what has just been committed. The index holds nothing of it.
    func checkAfterCommit() throws {
        // What cannot be examined now was there before.
        guard let change = (try? changeOfContent()) ?? nil else { return }
        if change == .removed, (try? FileSystem.information(at: logPath)) == nil, isLinked {
            // It has been moved, along with what was committed.
            return
        }
        if change == .replaced { unlinkLog() }
        throw replacedError
    }

    var replacedError: QuireError { Self.replacedError(path) }

    static func replacedError(_ path: String) -> QuireError {
        QuireError(
            .storeReplaced,
            "Another program has replaced or removed “\(path)” or its log while it was open, so nothing is saved there; save "
                + "elsewhere, or open it again.", subject: .init(file: path))
    }

    /// Removes the name of the store's log from the path of another file, which it would be taken for a part of, by
    /// whoever opens that next. Our connections go on using it.
    func unlinkLog() {
        guard let log = files.withLock({ $0.log }),
            let found = (try? FileSystem.information(at: logPath)) ?? nil,
            found.isSameFile(as: log)
        else { return }
        for suffix in ["-wal", "-shm"] {
            _ = try? FileSystem.removeFileIfPresent(path + suffix)
        }
    }

    /// Whether the database has a name, wherever that is.
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
    /// What another program has done to the files of a store that is open.
    package enum FileReplacement: Sendable {
        /// Nothing is at its path.
        case removed
        /// Another file is at its path.
        case replaced
        /// The write-ahead log is not beside it any more.
        case logRemoved
        /// Another file is where the write-ahead log was.
        case logReplaced
        /// The log's index is another file, or gone: other processes that use the log see neither our locks nor what we
        /// write, nor we theirs.
        case indexReplaced
    }
}

// MARK: - Transactions

extension SQLiteConnection {
    /// Whether the database's path leads to another file than the one that is open.
    fileprivate var hasMoved: Bool {
        var hasMoved: Int32 = 0
        _ = sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        return hasMoved != 0
    }

    /// Begins a transaction that writes.
    package func begin() throws { try execute("BEGIN IMMEDIATE") }

    /// Commits, if the files are those at the store's path.
    ///
    /// They are compared twice. Before, so that the usual case, files that were replaced while nothing was saved, is an
    /// error after which nothing has happened. Afterwards, because only that shows where what was committed is.
    ///
    /// - Throws: ``QuireError`` with code `storeReplaced` if the files are not those at the store's path. Then nothing is
    ///   committed, or, if they were replaced meanwhile, ``lostCommit`` is the error. ``SQLiteFailure``.
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
}
