public import Foundation

/// A carrier of files between the replicas of a document: a shared folder (``FolderTransport``), or a program's own service.
///
/// A replica writes files whose names no other replica uses, never changes them, and removes them later. So a transport may
/// deliver files late, in any order, twice, truncated, or temporarily not at all, and its listing may be stale: each file is
/// checked by its own trailer, and an incomplete file is read again later. Locks, times and order are not required.
///
/// `SyncTransportConformance` checks a transport.
public protocol SyncTransport: Sendable {
    /// Lists the files in a folder.
    ///
    /// - Parameter folder: A name as for ``SyncFileName``; the folder need not exist.
    /// - Returns: The names of files directly in it, in any order. Names that are not valid parts of a ``SyncFileName`` are
    ///   omitted: they are not files of replicas.
    /// - Throws: `QuireError` with code `storeUnavailable` if the transport cannot be reached now.
    func fileNames(in folder: SyncFileName) async throws -> [String]

    /// Reads a file.
    ///
    /// - Returns: Its bytes; `nil` if it does not exist, or has not arrived.
    /// - Throws: `QuireError` with code `invalidFormat` if it is larger than the maximum or not a regular file, `inputOutput` if
    ///   it cannot be read, `storeUnavailable` if the transport cannot be reached now.
    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data?

    /// Creates a file, completely or not at all. When it returns, the file survives a power loss here.
    ///
    /// - Returns: Whether it was created. `false` if the file already exists, and is unchanged.
    /// - Throws: `QuireError` with code `outOfSpace`, `inputOutput`, or `storeUnavailable` if the transport cannot be reached
    ///   now.
    @discardableResult
    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool

    /// Removes a file. Does nothing if it does not exist.
    func remove(_ file: SyncFileName) async throws

    /// Yields an element whenever files may have arrived. It may miss changes: the next listing finds them.
    var changes: AsyncStream<Void> { get }
}

/// The name of a file or folder of a transport: parts of lower-case letters, digits, `-`, `_` and `.`, joined with `/`. Every
/// file system stores such a name unchanged.
public struct SyncFileName: Hashable, Sendable, CustomStringConvertible {
    /// The parts joined with `/`; empty for the top folder.
    public let path: String

    /// The top folder.
    public static let top = SyncFileName(unchecked: "")

    /// The greatest number of parts of a name.
    static let maximumPartCount = 4
    /// The greatest number of characters of a part.
    static let maximumPartLength = 170

    /// - Precondition: The name is valid.
    init(unchecked path: String) { self.path = path }

    /// Creates a name from a text; `nil` if it is not valid, has more than four parts, or a part with more than 170 characters.
    public init?(_ path: String) {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= Self.maximumPartCount, parts.allSatisfy(Self.isValidPart) else {
            return nil
        }
        self.path = path
    }

    /// Whether a text can be a part of a name.
    ///
    /// It begins with a letter or a digit, which excludes hidden and temporary files, and does not end with a full stop, which
    /// some file systems drop. Names that sync tools derive from others, `*.partial` and `*.sync-conflict-*`, are not valid
    /// either.
    public static func isValidPart(_ part: some StringProtocol) -> Bool {
        guard let first = part.utf8.first, part.utf8.count <= maximumPartLength
        else { return false }
        let isFirst: (UInt8) -> Bool = {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        return isFirst(first) && !part.hasSuffix(".") && !part.hasSuffix(".partial")
            && !part.contains(".sync-conflict-")
            && part.utf8.allSatisfy {
                isFirst($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
                    || $0 == UInt8(ascii: ".")
            }
    }

    /// The name of an entry in this folder; `nil` if it is not valid.
    public func entry(_ name: String) -> SyncFileName? {
        SyncFileName(path.isEmpty ? name : path + "/" + name)
    }

    /// The last part.
    public var lastPart: String {
        path.split(separator: "/").last.map(String.init) ?? ""
    }

    /// The folder it is in; the top folder for itself.
    public var folder: SyncFileName {
        path.lastIndex(of: "/").map { SyncFileName(unchecked: String(path[..<$0])) } ?? .top
    }

    /// The path.
    public var description: String { path }
}
