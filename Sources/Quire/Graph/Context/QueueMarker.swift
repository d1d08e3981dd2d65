internal import Dispatch
internal import Foundation

/// Tells whether code runs on a context's queue.
///
/// Queues are marked with a DispatchSpecificKey, because the main queue need not be on the main thread on
/// Linux.
///
/// Code that one queue waits for has that queue to itself, too: while the main queue waits in a
/// `performAndWait` of a child, the child may ask its main-queue parent without waiting for the main queue.
/// So each queue knows the queues that wait for the block it runs.
final class QueueMarker: @unchecked Sendable {
    private static let key = DispatchSpecificKey<QueueMarker>()

    /// The queue.
    let queue: DispatchQueue
    /// The queues that wait for the block that runs on this one. Only touched on the queue, hence the unchecked
    /// conformance.
    private var waiting: [QueueMarker] = []

    /// Whether contexts check their queue: in debug builds, and with `QUIRE_CONCURRENCY_DEBUG=1`.
    static let isChecking: Bool = {
        #if DEBUG
            return true
        #else
            return ProcessInfo.processInfo.environment["QUIRE_CONCURRENCY_DEBUG"] == "1"
        #endif
    }()

    /// The mark of the main queue.
    static let main = QueueMarker(marking: .main)

    /// Marks a queue, which must be serial.
    init(marking queue: DispatchQueue) {
        self.queue = queue
        queue.setSpecific(key: Self.key, value: self)
    }

    /// Whether the code runs on the queue, or the queue waits for it.
    var isCurrent: Bool {
        guard let current = DispatchQueue.getSpecific(key: Self.key) else { return false }
        return current === self || current.waiting.contains { $0 === self }
    }

    /// Runs a closure on the queue while the present one, and those that wait for it, wait.
    func sync(_ body: () -> Void) {
        var callers: [QueueMarker] = []
        if let current = DispatchQueue.getSpecific(key: Self.key) {
            callers = current.waiting + [current]
        }
        queue.sync {
            waiting = callers
            body()
            waiting = []
        }
    }

    func check() {
        precondition(
            isCurrent,
            "A managed object context or one of its objects was used on another queue than its own. "
                + "Use a main-queue context on the main actor, and a private-queue context within perform."
        )
    }
}
