import Dispatch

/// When a document saves itself.
public struct AutosavePolicy: Sendable, Hashable {
    /// Whether it does.
    public var isEnabled = true
    /// How long after the first unsaved change.
    public var delay = Duration.seconds(15)
    /// The longest time to wait before trying again after failures. The time doubles from ``delay`` with each.
    public var longestRetryDelay = Duration.seconds(300)

    /// The usual policy: 15 seconds after the first unsaved change; after failures 15, 30, 60 … 300 seconds.
    public init() {}

    /// A policy of one's own.
    public init(
        isEnabled: Bool = true, delay: Duration, longestRetryDelay: Duration = .seconds(300)
    ) {
        self.isEnabled = isEnabled
        self.delay = delay
        self.longestRetryDelay = longestRetryDelay
    }

    /// No autosaving.
    public static let never = AutosavePolicy(isEnabled: false, delay: .zero)

    /// How long to wait after as many failures in a row.
    func delay(afterFailures failures: Int) -> Duration {
        let doubled = delay * (1 << min(max(failures - 1, 0), 20))
        return failures < 2 ? delay : max(delay, min(doubled, longestRetryDelay))
    }
}

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
    func schedule(after delay: Duration) {
        guard source == nil else { return }
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
