import Dispatch
import Foundation
internal import QuireSystem

/// Connections for reading, used by one thread at a time each.
///
/// There are at most ``maximumCount``: a thread that asks for one more waits until another thread gives one back. A
/// thread that has one already gets another at once, beyond that number: it would wait for itself.
final class SQLiteReaderPool: Sendable {
    private struct State {
        var idle: [SQLiteConnection] = []
        /// How many connections each thread uses.
        var users: [UInt: Int] = [:]
        var isClosed = false
        /// Incremented by ``closeIdle()``; connections of a former generation are not used again.
        var generation = 0
    }

    /// How many threads read at the same time.
    static let maximumCount = 16
    /// How many connections wait for use.
    private static let maximumIdleCount = 4
    private let state = Lock(State())
    /// Has a place for each connection that may be used.
    private let places = DispatchSemaphore(value: maximumCount)
    /// Entered by each user of a connection.
    private let users = DispatchGroup()
    private let open: @Sendable () throws -> SQLiteConnection

    /// Makes a pool that opens connections when they are needed.
    init(open: @escaping @Sendable () throws -> SQLiteConnection) { self.open = open }

    /// Runs a closure with a connection that nobody else uses meanwhile.
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

    /// Closes all connections, after those who use one have finished.
    func close() {
        let idle = state.withLock { state -> [SQLiteConnection] in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for connection in idle { connection.close() }
        users.wait()
    }
}
