import Dispatch

/// A timer on the main queue that fires once. Not a run loop's, which need not run on Linux.
@MainActor
final class AutosaveTimer {
    private var source: (any DispatchSourceTimer)?
    private let action: @MainActor @Sendable () -> Void

    init(action: @escaping @MainActor @Sendable () -> Void) { self.action = action }

    isolated deinit { source?.cancel() }

    /// Whether it has been scheduled and has not fired.
    var isScheduled: Bool { source != nil }

    /// Schedules it, unless it is.
    func schedule(at instant: ContinuousClock.Instant) {
        guard source == nil else { return }
        let delay = max(ContinuousClock.now.duration(to: instant), .zero)
        let (seconds, attoseconds) = delay.components
        let timer = DispatchSource.makeTimerSource(queue: .main)
        timer.schedule(
            deadline: .now() + .seconds(Int(seconds))
                + .nanoseconds(Int(attoseconds / 1_000_000_000)),
            leeway: .milliseconds(10))
        timer.setEventHandler { [weak self] in
            MainActor.assumeIsolated {
                self?.cancel()
                self?.action()
            }
        }
        source = timer
        timer.resume()
    }

    /// Takes the schedule back.
    func cancel() {
        source?.cancel()
        source = nil
    }
}
