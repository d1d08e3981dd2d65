import Dispatch
import Quire

/// Waits for a body, with a timeout.
///
/// - Parameters:
///   - timeout: The maximum time.
///   - onTimeout: Creates the error of a timeout.
///   - failEarly: Receives, once, a closure that ends the wait with an error at any time.
///   - body: The operation to wait for. If it does not end in time, it continues, and its result is dropped.
/// - Throws: The error of the body, or that of `onTimeout`.
func waitBounded<Result: Sendable>(
    _ timeout: Duration, onTimeout: @escaping @Sendable () -> any Error,
    failEarly: (@escaping @Sendable (any Error) -> Void) -> Void = { _ in },
    for body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    // Errors are passed as values, as in ``FileQueue/run(_:)``.
    try await withCheckedContinuation { continuation in
        let once = OneShotContinuation<Result>(continuation)
        Task {
            do {
                let result = try await body()
                once.resume { $0.resume(returning: .success(result)) }
            } catch {
                once.resume { $0.resume(returning: .failure(error)) }
            }
        }
        let timer = DispatchSource.makeTimerSource(queue: .global())
        timer.schedule(deadline: .now() + timeout.dispatchInterval)
        timer.setEventHandler { once.resume { $0.resume(returning: .failure(onTimeout())) } }
        once.keep(timer)
        timer.resume()
        failEarly { error in once.resume { $0.resume(returning: .failure(error)) } }
    }.get()
}

/// Waits for a body that does not throw, with a timeout.
func waitBounded(_ timeout: Duration, for body: @escaping @Sendable () async -> Void) async {
    try? await waitBounded(timeout, onTimeout: { CancellationError() }, for: body)
}

/// A continuation with several callers; the first one resumes it.
///
/// `@unchecked`: its state is only accessed with the lock held.
private final class OneShotContinuation<Result: Sendable>: @unchecked Sendable {
    typealias Continuation = CheckedContinuation<Swift.Result<Result, any Error>, Never>

    private let lock = Lock(())
    private var continuation: Continuation?
    private var timer: (any DispatchSourceTimer)?

    init(_ continuation: Continuation) { self.continuation = continuation }

    /// Keeps a timer until the continuation is resumed.
    func keep(_ timer: any DispatchSourceTimer) {
        lock.withLock { _ in if continuation != nil { self.timer = timer } }
    }

    func resume(_ body: (Continuation) -> Void) {
        let continuation = lock.withLock { _ in
            defer {
                self.continuation = nil
                timer?.cancel()
                timer = nil
            }
            return self.continuation
        }
        if let continuation { body(continuation) }
    }
}

extension Duration {
    /// The duration for Dispatch.
    var dispatchInterval: DispatchTimeInterval {
        let (seconds, attoseconds) = components
        if seconds > 1_000_000_000 { return .seconds(1_000_000_000) }
        return .nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
    }
}
