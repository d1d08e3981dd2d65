import Dispatch

/// The time of a document's next autosave by its policy. A value that gets the time from its owner.
struct AutosaveSchedule: Sendable, Equatable {
    /// A moment.
    typealias Instant = ContinuousClock.Instant

    private var firstChange: Instant?
    private var lastChange: Instant?
    private var lastFailure: Instant?
    private var failures = 0

    /// Something was changed.
    mutating func didChange(at now: Instant) {
        if firstChange == nil { firstChange = now }
        lastChange = now
    }

    /// Something is unsaved, whenever it was changed.
    mutating func isUnsaved(at now: Instant) {
        if firstChange == nil { didChange(at: now) }
    }

    /// There is nothing unsaved any more.
    mutating func isClean() { (firstChange, lastChange) = (nil, nil) }

    /// A save has ended. What was changed while it ran counts from its end.
    mutating func didSave(succeeded: Bool, at now: Instant) {
        failures = succeeded ? 0 : failures + 1
        lastFailure = succeeded ? nil : now
        isClean()
    }

    /// The time of the next save; `nil` if there are no changes.
    func due(_ policy: AutosavePolicy) -> Instant? {
        guard policy.isEnabled, let firstChange, let lastChange else { return nil }
        if let lastFailure { return lastFailure + policy.delay(afterFailures: failures) }
        let quiet = max(firstChange + policy.delay, lastChange + policy.quietTime)
        return min(quiet, firstChange + max(policy.delay, policy.longestDelay))
    }
}

/// The policy of autosaving.
public struct AutosavePolicy: Sendable, Hashable {
    /// Whether the document saves itself.
    public var isEnabled = true
    /// The time after the first unsaved change.
    public var delay = Duration.seconds(15)
    /// The time without changes before a save, so that it does not interrupt editing.
    public var quietTime = Duration.seconds(2)
    /// The maximum time after the first unsaved change, however much is being changed.
    public var longestDelay = Duration.seconds(60)
    /// The longest time to wait before trying again after failures. The time doubles from ``delay`` with each.
    public var longestRetryDelay = Duration.seconds(300)

    /// The default policy: 15 seconds after the first unsaved change, as soon as nothing has been changed for 2 seconds, but
    /// after 60 seconds at the latest; after failures 15, 30, 60 … 300 seconds.
    public init() {}

    /// A custom policy.
    ///
    /// - Parameters:
    ///   - isEnabled: Whether the document saves itself.
    ///   - delay: The time after the first unsaved change.
    ///   - quietTime: The time without changes before a save.
    ///   - longestDelay: The maximum time after the first unsaved change; `nil` for four times `delay`.
    ///   - longestRetryDelay: The longest time to wait before trying again after failures.
    public init(
        isEnabled: Bool = true, delay: Duration, quietTime: Duration = .zero,
        longestDelay: Duration? = nil, longestRetryDelay: Duration = .seconds(300)
    ) {
        self.isEnabled = isEnabled
        self.delay = delay
        self.quietTime = quietTime
        self.longestDelay = longestDelay ?? delay * 4
        self.longestRetryDelay = longestRetryDelay
    }

    /// No autosaving.
    public static let never = AutosavePolicy(isEnabled: false, delay: .zero)

    /// The delay after a number of failures in a row.
    func delay(afterFailures failures: Int) -> Duration {
        let doubled = delay * (1 << min(max(failures - 1, 0), 20))
        return failures < 2 ? delay : max(delay, min(doubled, longestRetryDelay))
    }
}

/// A timer on the main queue that fires once. It does not use the run loop, which need not run on Linux.
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

    /// Cancels the schedule.
    func cancel() {
        source?.cancel()
        source = nil
    }
}
