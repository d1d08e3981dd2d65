import Dispatch
import Foundation

/// Hands a watch's events to its handler, and never after the watch was cancelled.
///
/// `@unchecked`: `isCancelled` is only touched with `lock` held. The lock is recursive, because a handler may cancel its
/// own watch, and is held while the handler runs, because cancelling waits for it.
final class WatchDelivery<Event: Sendable>: @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var isCancelled = false
    private let queue: DispatchQueue
    private let handler: @Sendable (Event) -> Void

    init(queue: DispatchQueue, handler: @escaping @Sendable (Event) -> Void) {
        self.queue = queue
        self.handler = handler
    }

    /// Hands an event over, on the queue.
    func send(_ event: Event) {
        queue.async { [self] in
            lock.withLock { if !isCancelled { handler(event) } }
        }
    }

    /// Waits for a handler that runs on another thread, and lets none run again.
    func cancel() { lock.withLock { isCancelled = true } }
}
