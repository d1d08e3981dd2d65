internal import QuireSystem

/// The primary keys that a store gives out, shared with the store that takes its place when its file is moved or copied:
/// what one has given out the other does not give out again.
final class SQLiteKeyRegister: Sendable {
    private let keys = Lock(SQLPrimaryKeys())

    func withLock<Result>(
        _ body: (inout SQLPrimaryKeys) throws -> sending Result
    ) rethrows -> sending Result {
        try keys.withLock { try body(&$0) }
    }
}
