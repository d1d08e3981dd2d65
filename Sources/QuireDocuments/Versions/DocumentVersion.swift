public import Foundation

/// A version of a document that was kept: all of what one save left.
public struct DocumentVersion: Sendable, Hashable, Identifiable {
    /// Why a version was kept.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// Somebody asked for it.
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

    /// Where the content of a conflict version comes from, as far as it is known.
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
    /// What the user calls it.
    public let name: String?
    /// Why it was kept.
    public let reason: Reason
    /// Where the content of a conflict version comes from.
    public let origin: Origin?
    /// The bytes of the document at that time: rows, external data and additional content.
    public let size: Int64
    /// The bytes that keeping it added to the package.
    public let addedSize: Int64
    /// Whether a conflict version has been dealt with.
    public let isResolved: Bool
    /// What is wrong with it, as far as can be seen without reading all of it; `nil` if nothing is.
    public let problem: String?

    /// Whether all of it seems to be there; ``DocumentPackage/check()`` reads all of it.
    public var isComplete: Bool { problem == nil }
    /// Whether it is a conflict version that has not been dealt with.
    public var isUnresolvedConflict: Bool { reason == .conflict && !isResolved }
}
