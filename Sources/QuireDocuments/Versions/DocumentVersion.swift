public import Foundation
import Quire
import Synchronization

/// A version of a document that was kept: all of what one save left.
public struct DocumentVersion: Sendable, Hashable, Identifiable {
    /// Why a version was kept.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// Kept on request.
        case requested
        /// It is what the document was before it was changed for the first time since it had been opened.
        case beforeChanges
        /// It was time for one.
        case periodic
        /// Another version was restored, or the content was replaced.
        case beforeRestoring
        /// It is what the document was before it was migrated to another model.
        case beforeMigrating
        /// Others changed the document as well, and this is what one of both sides had.
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

        /// Describes an origin by what is known of it.
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

    /// Names it within the package: the time in UTC and something unique, in letters that file names may have.
    public let id: String
    /// When it was kept.
    public let date: Date
    /// The name given by the user.
    public let name: String?
    /// Why it was kept.
    public let reason: Reason
    /// The origin of a conflict version's content.
    public let origin: Origin?
    /// The bytes of the document at that time: rows, external data and additional content.
    public let size: Int64
    /// The bytes that keeping it added to the package.
    public let addedSize: Int64
    /// Whether a conflict version has been dealt with.
    public let isResolved: Bool
    /// The damage that is visible without reading all of the version; `nil` if there is none.
    public let problem: String?

    /// Whether all of it seems to be there; ``DocumentPackage/check()`` reads all of it.
    public var isComplete: Bool { problem == nil }
    /// Whether it is a conflict version that has not been dealt with.
    public var isUnresolvedConflict: Bool { reason == .conflict && !isResolved }
}

// MARK: - Retention

/// The rules for pruning old versions.
///
/// All of the last day, the last of each day for a month, then the last of each week; never those that the user has named,
/// nor unresolved conflict versions.
public struct VersionRetention: Sendable, Hashable {
    /// For how many seconds all versions stay.
    public var keepsAll: TimeInterval = 24 * 60 * 60
    /// For how many seconds the last version of each day stays.
    public var keepsDaily: TimeInterval = 30 * 24 * 60 * 60
    /// For how many seconds the last version of each week stays; `nil` for ever.
    public var keepsWeekly: TimeInterval?
    /// The maximum number of versions; `nil` for no limit. The oldest go first.
    public var maximumCount: Int?
    /// The maximum number of bytes added by the versions; `nil` for no limit. The oldest go first.
    public var maximumSize: Int64?
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
            // Its content is unknown, and may be wanted.
            || !version.isComplete
    }
}

/// When a document keeps versions of itself, and which of them stay.
public struct VersionPolicy: Sendable, Hashable {
    /// When versions are kept without being asked for.
    public enum Occasion: Sendable, Hashable {
        /// Never.
        case onDemand
        /// The state at opening, before the first save that changes it.
        case beforeFirstChange
        /// After a save, if the last version is older.
        case every(Duration)
    }

    /// When versions are kept without being asked for.
    public var occasion: Occasion
    /// The retention applied after a version was kept; `nil` if versions are never pruned automatically.
    public var retention: VersionRetention?

    /// A policy.
    public init(occasion: Occasion, retention: VersionRetention? = VersionRetention()) {
        self.occasion = occasion
        self.retention = retention
    }

    /// Versions are kept on request.
    public static let onDemand = VersionPolicy(occasion: .onDemand)
}

// MARK: - Checkouts

/// A version as a package of its own, to look at. It is beside the document, or in the folder for temporary files if
/// nothing may be written there, and shares the document's large files where that is possible. It goes when it is closed.
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
    /// The package. Open it for reading only: its files may be those of the document.
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
