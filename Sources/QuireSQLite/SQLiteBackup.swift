import CSQLite

/// The owner of a copy of one database over another that is under way. What it has written becomes visible, in one
/// transaction, when the last page has been copied; if it is ended before, nothing has changed.
final class SQLiteBackup {
    private let destination: SQLiteConnection
    private var handle: OpaquePointer?

    /// Begins to copy a database over another. Nobody may use the connections until it is finished.
    init(from source: SQLiteConnection, to destination: SQLiteConnection) throws {
        self.destination = destination
        handle = sqlite3_backup_init(destination.handle, "main", source.handle, "main")
        if handle == nil { throw destination.failure() }
    }

    deinit { if let handle { sqlite3_backup_finish(handle) } }

    /// The number of pages of the source, once a step has been made.
    var pageCount: Int { Int(sqlite3_backup_pagecount(handle)) }
    /// The number of pages still to be copied, once a step has been made.
    var remainingCount: Int { Int(sqlite3_backup_remaining(handle)) }

    /// Copies some pages.
    ///
    /// - Returns: Whether there are more. If not, all has been committed.
    func copy(pages: Int) throws -> Bool {
        let code = sqlite3_backup_step(handle, Int32(pages))
        switch code {
        case SQLITE_OK: return true
        case SQLITE_DONE: return false
        default: throw SQLiteFailure(code, of: destination.handle)
        }
    }

    /// Ends it. What has not been committed is taken back.
    func finish() throws {
        guard let handle else { return }
        self.handle = nil
        let code = sqlite3_backup_finish(handle)
        if code != SQLITE_OK { throw destination.failure() }
    }
}
