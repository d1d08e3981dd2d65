internal import Observation
internal import Synchronization

/// Tells whether a change was seen that a closure depends on.
public final class Watch: Sendable {
    private let count = Atomic<Int>(0)

    /// Follows what a closure reads.
    public init(_ read: () -> Void) {
        withObservationTracking(read) { [self] in
            count.wrappingAdd(1, ordering: .relaxed)
        }
    }

    /// Whether a change was seen, once.
    public var sawChange: Bool { count.load(ordering: .relaxed) == 1 }
    /// Whether no change was seen.
    public var sawNothing: Bool { count.load(ordering: .relaxed) == 0 }
}
