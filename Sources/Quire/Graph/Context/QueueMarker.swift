internal import Dispatch
internal import Foundation
internal import Synchronization

/// Tells whether code runs on a context's queue.
///
/// Queues are marked with a DispatchSpecificKey, because the main queue need not be on the main thread on
/// Linux.
struct QueueMarker: Sendable {
    private static let key = DispatchSpecificKey<UInt64>()
    private static let serial = Atomic<UInt64>(1)
    private let number: UInt64
    /// The queue, to end user events on.
    let queue: DispatchQueue

    /// Whether contexts check their queue: in debug builds, and with `QUIRE_CONCURRENCY_DEBUG=1`.
    static let isChecking: Bool = {
        #if DEBUG
            return true
        #else
            return ProcessInfo.processInfo.environment["QUIRE_CONCURRENCY_DEBUG"] == "1"
        #endif
    }()

    /// The mark of the main queue.
    static let main: QueueMarker = {
        DispatchQueue.main.setSpecific(key: key, value: 1)
        return QueueMarker(number: 1, queue: .main)
    }()

    private init(number: UInt64, queue: DispatchQueue) {
        self.number = number
        self.queue = queue
    }

    /// Marks a queue.
    init(marking queue: DispatchQueue) {
        number = Self.serial.wrappingAdd(1, ordering: .relaxed).newValue
        self.queue = queue
        queue.setSpecific(key: Self.key, value: number)
    }

    /// Whether the code runs on the queue.
    var isCurrent: Bool { DispatchQueue.getSpecific(key: Self.key) == number }

    func check() {
        precondition(
            isCurrent,
            "A managed object context or one of its objects was used on another queue than its own. "
                + "Use a main-queue context on the main actor, and a private-queue context within perform."
        )
    }
}
