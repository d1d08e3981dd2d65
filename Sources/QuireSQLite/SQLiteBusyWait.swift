import CSQLite
import Foundation
internal import QuireSystem

/// Waits for other processes that have a database locked, as SQLite's own handler does, and says so.
///
/// Unchecked because a connection is used by one thread at a time.
final class SQLiteBusyWait: @unchecked Sendable {
    private let path: String
    private let wait: FileLockWait
    private var deadline = ContinuousClock.now
    private var hasReported = false

    init(path: String, wait: FileLockWait) {
        self.path = path
        self.wait = wait
    }

    /// Has a connection wait, as long as it is open and this object lives.
    func install(on connection: SQLiteConnection) {
        let me = Unmanaged.passUnretained(self).toOpaque()
        let handler: @convention(c) (UnsafeMutableRawPointer?, Int32) -> Int32 = { context, count in
            guard let context else { return 0 }
            let wait = Unmanaged<SQLiteBusyWait>.fromOpaque(context).takeUnretainedValue()
            return wait.isToTryAgain(after: count) ? 1 : 0
        }
        sqlite3_busy_handler(connection.handle, handler, me)
    }

    /// Waits a little.
    ///
    /// - Parameter count: How often that was done for this lock.
    /// - Returns: Whether to try again.
    private func isToTryAgain(after count: Int32) -> Bool {
        if count == 0 { deadline = .now + wait.timeout }
        if ContinuousClock.now >= deadline { return false }
        if !hasReported {
            hasReported = true
            wait.willWait(.find(path))
        }
        Thread.sleep(forTimeInterval: FileLockWait.interval)
        return true
    }
}
