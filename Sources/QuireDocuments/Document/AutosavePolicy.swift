/// When a document saves itself.
public struct AutosavePolicy: Sendable, Hashable {
    /// Whether it does.
    public var isEnabled = true
    /// How long after the first unsaved change.
    public var delay = Duration.seconds(15)
    /// How long nothing must have been changed then: nobody is interrupted.
    public var quietTime = Duration.seconds(2)
    /// How long after the first unsaved change at the latest, however much is being changed.
    public var longestDelay = Duration.seconds(60)
    /// The longest time to wait before trying again after failures. The time doubles from ``delay`` with each.
    public var longestRetryDelay = Duration.seconds(300)

    /// The usual policy: 15 seconds after the first unsaved change, as soon as nothing has been changed for 2 seconds, but
    /// after 60 seconds at the latest; after failures 15, 30, 60 … 300 seconds.
    public init() {}

    /// A policy of one's own.
    ///
    /// - Parameter longestDelay: `nil` for four times `delay`.
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

    /// How long to wait after as many failures in a row.
    func delay(afterFailures failures: Int) -> Duration {
        let doubled = delay * (1 << min(max(failures - 1, 0), 20))
        return failures < 2 ? delay : max(delay, min(doubled, longestRetryDelay))
    }
}
