/// Knows when a document is to save itself, as its policy says. A value: it knows the time only from its owner.
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

    /// When to save what is unsaved; `nil` if there is nothing.
    func due(_ policy: AutosavePolicy) -> Instant? {
        guard policy.isEnabled, let firstChange, let lastChange else { return nil }
        if let lastFailure { return lastFailure + policy.delay(afterFailures: failures) }
        let quiet = max(firstChange + policy.delay, lastChange + policy.quietTime)
        return min(quiet, firstChange + max(policy.delay, policy.longestDelay))
    }
}
