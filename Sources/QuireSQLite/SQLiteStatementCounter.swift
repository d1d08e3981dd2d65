import Synchronization

/// Counts statements that a store has run.
final class SQLiteStatementCounter: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .relaxed) }

    func add() { value.add(1, ordering: .relaxed) }
}
