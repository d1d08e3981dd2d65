/// Collects how long the measured part of a workload takes. An engine prepares, starts it, works, and stops it.
final class Stopwatch {
    /// One sample per start and stop, in milliseconds.
    private(set) var samples: [Double] = []
    private var startedAt: ContinuousClock.Instant?

    func start() { startedAt = ContinuousClock.now }

    func stop() {
        let now = ContinuousClock.now
        guard let startedAt else { return }
        self.startedAt = nil
        let (seconds, attoseconds) = startedAt.duration(to: now).components
        samples.append(Double(seconds) * 1e3 + Double(attoseconds) * 1e-15)
    }

    /// Forgets the samples: the warm-up is over.
    func removeSamples() { samples.removeAll() }

    /// The middle sample, or `nil` if there is none.
    var median: Double? { samples.median }
}

extension [Double] {
    /// The middle value, or the mean of both middle values.
    var median: Double? {
        guard !isEmpty else { return nil }
        let sorted = sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}
