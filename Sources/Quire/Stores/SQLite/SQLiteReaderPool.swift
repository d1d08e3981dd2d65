import Dispatch
import Synchronization

/// Connections for reading, used by one thread at a time each.
final class SQLiteReaderPool: Sendable {
    private struct State {
        var idle: [SQLiteConnection] = []
        var isClosed = false
    }

    /// How many connections wait for use.
    private static let greatestIdleCount = 4
    private let state = Mutex(State())
    /// Entered by each user of a connection.
    private let users = DispatchGroup()
    private let open: @Sendable () throws -> SQLiteConnection

    /// Makes a pool that opens connections when they are needed.
    init(open: @escaping @Sendable () throws -> SQLiteConnection) { self.open = open }

    /// Runs a closure with a connection that nobody else uses meanwhile.
    ///
    /// - Returns: `nil` if the pool has been closed.
    func withConnection<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result? {
        let (idle, isOpen) = state.withLock { state -> (SQLiteConnection?, Bool) in
            if state.isClosed { return (nil, false) }
            users.enter()
            return (state.idle.popLast(), true)
        }
        guard isOpen else { return nil }
        defer { users.leave() }
        let connection = try idle ?? open()
        defer {
            let isKept = state.withLock { state -> Bool in
                if state.isClosed || state.idle.count >= Self.greatestIdleCount { return false }
                state.idle.append(connection)
                return true
            }
            if !isKept { connection.close() }
        }
        return try body(connection)
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
