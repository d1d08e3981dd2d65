import Dispatch
import Quire

/// Waits for a body, with a timeout.
///
/// - Parameters:
///   - timeout: The maximum time.
///   - onTimeout: Makes the error of a timeout.
///   - failEarly: Gets, once, what ends the wait with an error at any time.
///   - body: What to wait for. If it does not come to an end in time it goes on alone, and what it gives is dropped.
/// - Throws: What the body throws, or what `onTimeout` gives.
func waitBounded<Result: Sendable>(
    _ timeout: Duration, onTimeout: @escaping @Sendable () -> any Error,
    failEarly: (@escaping @Sendable (any Error) -> Void) -> Void = { _ in },
    for body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    // Errors come as values, as in ``FileQueue/run(_:)``.
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

/// A continuation with several callers, of which the first resumes it.
///
/// `@unchecked`: what it holds is only touched with the lock held.
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
    /// The duration as Dispatch has it.
    var dispatchInterval: DispatchTimeInterval {
        let (seconds, attoseconds) = components
        if seconds > 1_000_000_000 { return .seconds(1_000_000_000) }
        return .nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
    }
}
