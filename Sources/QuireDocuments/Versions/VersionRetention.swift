public import Foundation

/// Which versions stay when old ones are pruned.
///
/// All of the last day, the last of each day for a month, then the last of each week; never those that the user has named,
/// nor conflict versions that nobody has dealt with.
public struct VersionRetention: Sendable, Hashable {
    /// For how many seconds all versions stay.
    public var keepsAll: TimeInterval = 24 * 60 * 60
    /// For how many seconds the last version of each day stays.
    public var keepsDaily: TimeInterval = 30 * 24 * 60 * 60
    /// For how many seconds the last version of each week stays; `nil` for ever.
    public var keepsWeekly: TimeInterval?
    /// How many versions stay at most; `nil` for any number. The oldest go first.
    public var greatestCount: Int?
    /// How many bytes the versions that stay may have added at most; `nil` for any number. The oldest go first.
    public var greatestSize: Int64?
    /// Whether versions that the user has named stay in any case.
    public var keepsNamed = true

    /// The usual retention.
    public init() {}

    /// The versions that go, oldest first.
    ///
    /// - Parameters:
    ///   - versions: All versions.
    ///   - now: The present.
    ///   - calendar: Says what a day and a week are.
    public func versionsToPrune(
        _ versions: [DocumentVersion], now: Date = Date(), calendar: Calendar = .current
    ) -> [DocumentVersion] {
        let newestFirst = versions.sorted { $0.id > $1.id }.filter { !isExempt($0) }
        var staying: [DocumentVersion] = []
        var periods: Set<DateComponents> = []
        for version in newestFirst {
            let age = now.timeIntervalSince(version.date)
            if age <= keepsAll {
                staying.append(version)
            } else if age <= keepsDaily {
                let day = calendar.dateComponents([.year, .month, .day], from: version.date)
                if periods.insert(day).inserted { staying.append(version) }
            } else if keepsWeekly.map({ age <= $0 }) ?? true {
                let week = calendar.dateComponents(
                    [.yearForWeekOfYear, .weekOfYear], from: version.date)
                if periods.insert(week).inserted { staying.append(version) }
            }
        }
        // Exempt ones count, but do not go.
        let exempt = versions.filter(isExempt)
        if let greatestCount {
            staying = Array(staying.prefix(max(greatestCount - exempt.count, 0)))
        }
        if let greatestSize {
            var size = exempt.reduce(0) { $0 + $1.addedSize }
            staying = Array(
                staying.prefix {
                    size += $0.addedSize
                    return size <= greatestSize
                })
        }
        let ids = Set(staying.map(\.id))
        return newestFirst.reversed().filter { !ids.contains($0.id) }
    }

    private func isExempt(_ version: DocumentVersion) -> Bool {
        version.isUnresolvedConflict || keepsNamed && version.name != nil
            // What it is cannot be told; somebody may want to look at it.
            || !version.isComplete
    }
}

/// When a document keeps versions of itself, and which of them stay.
public struct VersionPolicy: Sendable, Hashable {
    /// When versions are kept without being asked for.
    public enum Occasion: Sendable, Hashable {
        /// Never.
        case onDemand
        /// What the document was when it was opened, as soon as a save is about to change it.
        case beforeFirstChange
        /// After a save, if the last version is older.
        case every(Duration)
    }

    /// When versions are kept without being asked for.
    public var occasion: Occasion
    /// Which stay when a version has been kept so; `nil` if none is ever pruned by itself.
    public var retention: VersionRetention?

    /// A policy.
    public init(occasion: Occasion, retention: VersionRetention? = VersionRetention()) {
        self.occasion = occasion
        self.retention = retention
    }

    /// Versions are kept when somebody asks for one.
    public static let onDemand = VersionPolicy(occasion: .onDemand)
}
