import Dispatch

@testable import Quire

/// A save of a context by another thread, which stops where it says until it is allowed to go on.
final class HeldSave: Sendable {
    private let stopped = DispatchSemaphore(value: 0)
    private let permission = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private let result = Lock<(hasEnded: Bool, error: (any Error)?)>((false, nil))

    init(
        _ context: QueueConfinedContext,
        _ save: @escaping @Sendable (ManagedObjectContext, () -> Void) throws -> Void
    ) {
        DispatchQueue.global().async { [self] in
            var failure: (any Error)?
            do {
                try context.performWithoutObjectsAndWait { context in
                    try save(context) {
                        stopped.signal()
                        permission.wait()
                    }
                }
            } catch {
                failure = error
            }
            result.withLock { [failure] in $0 = (true, failure) }
            stopped.signal()
            ended.signal()
        }
    }

    /// Whether it is over.
    var hasEnded: Bool { result.withLock { $0.hasEnded } }

    /// Waits until it has stopped, or is over.
    func waitUntilStopped() { stopped.wait() }

    /// Lets it go on.
    func goOn() { permission.signal() }

    /// Lets it go on, and waits until it has ended. Gives what it threw.
    func end() -> (any Error)? {
        goOn()
        ended.wait()
        return result.withLock { $0.error }
    }
}
