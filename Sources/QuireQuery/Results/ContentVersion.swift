internal import Synchronization

/// Tells whether a store's contents have stayed the same: two that are equal were asked for with no save in between, by
/// whomever. They may differ although nothing was saved.
public struct ContentVersion: Hashable, Sendable {
    /// Who has counted: no two connections have the same number in a process.
    package let counter: UInt64
    package let number: Int64

    /// Makes a version of a number that counts saves, and one of who counts them, which is unique in the process.
    public init(counter: UInt64, number: Int64) {
        self.counter = counter
        self.number = number
    }

    /// A number for somebody who counts saves that nobody else in the process has.
    package static func newCounter() -> UInt64 {
        lastCounter.wrappingAdd(1, ordering: .relaxed).newValue
    }

    private static let lastCounter = Atomic<UInt64>(0)
}
