public import Foundation
import Quire
import Synchronization

/// A version of a document: its complete content as of one save.
public struct DocumentVersion: Sendable, Hashable, Identifiable {
    /// Why a version was kept.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// Kept on request.
        case requested
        /// The state of the document before its first change since it was opened.
        case beforeChanges
        /// Kept at an interval; see ``VersionPolicy/Occasion/every(_:)``.
        case periodic
        /// The state before another version was restored, or before the content was replaced.
        case beforeRestoring
        /// The state before the document was migrated to another model.
        case beforeMigrating
        /// One side of a conflict with changes made elsewhere.
        case conflict
    }

    /// The origin of a conflict version's content, as far as it is known.
    public struct Origin: Sendable, Hashable, Codable {
        /// The machine.
        public var host: String?
        /// The process.
        public var process: String?
        /// The path of the package.
        public var path: String?
        /// When it was saved.
        public var date: Date?

        /// Creates an origin. Unknown parts are `nil`.
        public init(
            host: String? = nil, process: String? = nil, path: String? = nil, date: Date? = nil
        ) {
            self.host = host
            self.process = process
            self.path = path
            self.date = date
        }

        /// This process.
        static func here(path: String) -> Origin {
            let process = ProcessInfo.processInfo
            return Origin(
                host: process.hostName,
                process: "\(process.processName) (\(process.processIdentifier))", path: path)
        }
    }

    /// The identifier within the package: the time in UTC and a random suffix; it is a valid file name.
    public let id: String
    /// When it was kept.
    public let date: Date
    /// The name given by the user.
    public let name: String?
    /// Why it was kept.
    public let reason: Reason
    /// The origin of a conflict version's content.
    public let origin: Origin?
    /// The size of the document at that time, in bytes: rows, external data and additional content.
    public let size: Int64
    /// The number of bytes that the version added to the package.
    public let addedSize: Int64
    /// Whether a conflict version has been resolved.
    public let isResolved: Bool
    /// Damage found without reading the whole version, if any.
    public let problem: String?

    /// Whether no damage is visible; ``DocumentPackage/check()`` reads the whole version.
    public var isComplete: Bool { problem == nil }
    /// Whether it is a conflict version that has not been resolved.
    public var isUnresolvedConflict: Bool { reason == .conflict && !isResolved }
}

// MARK: - Retention

/// The rules for pruning old versions.
///
/// By default, keeps all versions of the last day, one per day for a month, then one per week. Versions that the user has named
/// and unresolved conflict versions are never pruned.
public struct VersionRetention: Sendable, Hashable {
    /// The number of seconds for which all versions are kept.
    public var keepsAll: TimeInterval = 24 * 60 * 60
    /// The number of seconds for which the last version of each day is kept.
    public var keepsDaily: TimeInterval = 30 * 24 * 60 * 60
    /// The number of seconds for which the last version of each week is kept; `nil` for no limit.
    public var keepsWeekly: TimeInterval?
    /// The maximum number of versions; `nil` for no limit. The oldest are pruned first.
    public var maximumCount: Int?
    /// The maximum number of bytes added by the versions; `nil` for no limit. The oldest are pruned first.
    public var maximumSize: Int64?
    /// Whether versions that the user has named are always kept.
    public var keepsNamed = true

    /// The default retention.
    public init() {}

    /// The versions to prune, oldest first.
    ///
    /// - Parameters:
    ///   - versions: All versions.
    ///   - now: The current time.
    ///   - calendar: The calendar that defines days and weeks.
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
        // Exempt versions count towards the limits, but are not pruned.
        let exempt = versions.filter(isExempt)
        if let maximumCount {
            staying = Array(staying.prefix(max(maximumCount - exempt.count, 0)))
        }
        if let maximumSize {
            var size = exempt.reduce(0) { $0 + $1.addedSize }
            staying = Array(
                staying.prefix {
                    size += $0.addedSize
                    return size <= maximumSize
                })
        }
        let ids = Set(staying.map(\.id))
        return newestFirst.reversed().filter { !ids.contains($0.id) }
    }

    private func isExempt(_ version: DocumentVersion) -> Bool {
        version.isUnresolvedConflict || keepsNamed && version.name != nil
            // Its content is unknown, and may be valuable.
            || !version.isComplete
    }
}

/// When a document keeps versions of itself, and how they are pruned.
public struct VersionPolicy: Sendable, Hashable {
    /// When versions are kept automatically.
    public enum Occasion: Sendable, Hashable {
        /// Never.
        case onDemand
        /// The state at opening, before the first save that changes it.
        case beforeFirstChange
        /// After a save, if the last version is older than the duration.
        case every(Duration)
    }

    /// When versions are kept automatically.
    public var occasion: Occasion
    /// The retention applied after a version was kept; `nil` if versions are never pruned automatically.
    public var retention: VersionRetention?

    /// Creates a policy.
    public init(occasion: Occasion, retention: VersionRetention? = VersionRetention()) {
        self.occasion = occasion
        self.retention = retention
    }

    /// Keeps versions on request only.
    public static let onDemand = VersionPolicy(occasion: .onDemand)
}

// MARK: - Checkouts

/// A version extracted to a temporary package, to view it. The package is beside the document, or in the temporary directory if
/// that folder is not writable, and shares the document's large files where possible. Closing it removes it.
///
/// ```swift
/// let checkout = try package.checkOut(version.id)
/// let old = ManagedDocument(path: checkout.path)
/// try await old.open(readOnly: true)
/// …
/// try await old.close()
/// checkout.close()
/// ```
public final class VersionCheckout: Sendable {
    /// The package. Open it for reading only: its files may be shared with the document.
    public let path: String
    private let sibling: TemporarySibling
    /// The path that errors show instead of the temporary one.
    private let reportedPath: String
    /// The keys of the document, retained so that the package is unlocked while the document is.
    private let protection: StoreProtection?
    private let isClosed = Atomic(false)

    init(_ id: String, of store: VersionStore, progress: Progress?) throws {
        protection = store.protection
        sibling = try Self.makeFolder(for: store.layout.path)
        path = sibling.path
        reportedPath = "\(store.layout.path) (version \(id))"
        do {
            try reporting {
                let layout = DocumentPackageLayout(path: path)
                try FileSystem.makeFolder(layout.storeFolder)
                try store.fill(layout, with: id, by: .linking, progress: progress)
                try sibling.setFinalPermissions(of: FileSystem.information(at: store.layout.path))
            }
        } catch {
            sibling.remove()
            throw error
        }
    }

    private static func makeFolder(for document: String) throws -> TemporarySibling {
        do {
            return try TemporarySibling.makeFolder(beside: document)
        } catch let error as QuireError where error.code == .readOnly {
            return try TemporarySibling.makeFolderInTemporaryDirectory()
        }
    }

    deinit { close() }

    /// Runs a body with the package. Errors name the document and the version.
    package func reporting<Result>(_ body: () throws -> Result) throws -> Result {
        try FileSystem.building(reportedPath, as: path, body)
    }

    /// Removes the package. Closing twice does nothing.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        sibling.remove()
    }
}
