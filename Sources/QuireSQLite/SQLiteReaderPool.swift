import Dispatch
import Foundation
internal import QuireSystem

/// A pool of reading connections, each used by one thread at a time.
///
/// There are at most ``maximumCount``: a thread that requests another waits until one is returned. A thread that has one
/// already gets another at once, beyond that number: it would deadlock.
final class SQLiteReaderPool: Sendable {
    private struct State {
        var idle: [SQLiteConnection] = []
        /// The number of connections in use by each thread.
        var users: [UInt: Int] = [:]
        var isClosed = false
        /// Incremented by ``closeIdle()``; connections of an older generation are not reused.
        var generation = 0
    }

    /// The maximum number of concurrently reading threads.
    static let maximumCount = 16
    /// The maximum number of idle connections.
    private static let maximumIdleCount = 4
    private let state = Lock(State())
    /// Counts the connections that may still be checked out.
    private let places = DispatchSemaphore(value: maximumCount)
    /// Entered by each user of a connection.
    private let users = DispatchGroup()
    private let open: @Sendable () throws -> SQLiteConnection

    /// Creates a pool that opens connections on demand.
    init(open: @escaping @Sendable () throws -> SQLiteConnection) { self.open = open }

    /// Runs a closure with a connection for its exclusive use.
    ///
    /// - Returns: `nil` if the pool has been closed.
    func withConnection<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result? {
        let thread = UInt(pthread_self())
        let isNested = state.withLock { $0.users[thread] != nil }
        if !isNested { places.wait() }
        defer { if !isNested { places.signal() } }
        let taken: (idle: SQLiteConnection?, generation: Int)? = state.withLock { state in
            if state.isClosed { return nil }
            users.enter()
            state.users[thread, default: 0] += 1
            return (state.idle.popLast(), state.generation)
        }
        guard let taken else { return nil }
        defer {
            state.withLock { state in
                let count = state.users[thread, default: 1] - 1
                state.users[thread] = count == 0 ? nil : count
            }
            users.leave()
        }
        let connection = try taken.idle ?? open()
        defer {
            let isKept = state.withLock { state -> Bool in
                if state.isClosed || state.generation != taken.generation
                    || state.idle.count >= Self.maximumIdleCount
                {
                    return false
                }
                state.idle.append(connection)
                return true
            }
            if !isKept { connection.close() }
        }
        return try body(connection)
    }

    /// Closes idle connections, and those in use when they are returned.
    func closeIdle() {
        let idle = state.withLock { state in
            state.generation += 1
            defer { state.idle = [] }
            return state.idle
        }
        for connection in idle { connection.close() }
    }

    /// Closes all connections, after waiting for those in use.
    ///
    /// - Parameter willClose: Is called with each idle connection.
    func close(_ willClose: (SQLiteConnection) -> Void = { _ in }) {
        let idle = state.withLock { state -> [SQLiteConnection] in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for connection in idle {
            willClose(connection)
            connection.close()
        }
        users.wait()
    }
}
