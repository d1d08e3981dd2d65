import Foundation
import Quire

/// The kinds of archive that a document can be exported to.
public enum ArchiveFormat: String, Sendable, CaseIterable {
    /// A zip file with the package as its only folder: any archive program unpacks it to a document that opens.
    case zip
    /// A zip file with the content of the package and, first, its media type: a document in one file.
    case quirez
    /// An uncompressed tar file.
    case tar
    /// A tar file compressed by gzip.
    case tarGzip = "tar.gz"
    /// A tar file compressed by xz: the smallest, and slow to write.
    case tarXZ = "tar.xz"
    /// A tar file compressed by Zstandard: smaller than a zip file, and much faster to write.
    case tarZstandard = "tar.zst"

    /// The media type of a document in one file.
    public static let mediaType = "application/x-quire+zip"

    /// The format for a file's extension: `.zip`, `.quirez`, `.tar`, `.tar.gz` or `.tgz`, `.tar.xz` or `.txz`, `.tar.zst` or
    /// `.tzst`.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` for any other extension.
    public init(path: String) throws {
        let name = FileSystem.name(of: path).lowercased()
        let format = Self.allCases.first { $0.extensions.contains { name.hasSuffix("." + $0) } }
        guard let format else {
            throw QuireError(
                .unsupported,
                "“\(path)” has no known archive extension; use .zip, .quirez, .tar, .tar.gz, .tar.xz or .tar.zst.",
                file: path)
        }
        self = format
    }

    private var extensions: [String] {
        switch self {
        case .tarGzip: [rawValue, "tgz"]
        case .tarXZ: [rawValue, "txz"]
        case .tarZstandard: [rawValue, "tzst"]
        case .zip, .quirez, .tar: [rawValue]
        }
    }

    /// The valid compression levels, and the default.
    var levels: (range: ClosedRange<Int>, standard: Int) {
        switch self {
        case .zip, .quirez, .tarGzip, .tarXZ: (0...9, 6)
        case .tar: (0...0, 0)
        case .tarZstandard: (1...19, 3)
        }
    }
}

/// The format of an archive, and its optional contents.
public struct ArchiveOptions: Sendable {
    /// The format; `nil` for that of the path's extension.
    public var format: ArchiveFormat?
    /// The level of compression: 0 to 9, for Zstandard 1 to 19; `nil` for 6, for Zstandard 3. In a zip file 0 stores everything.
    public var level: Int?
    /// The number of threads that compress; `nil` for one per processor. The archive does not depend on it. `.tar.gz` always uses
    /// one.
    public var threads: Int?
    /// Whether the archive contains the versions of the document.
    public var includesVersions = false
    /// Whether the store in the archive keeps its history: the changes with their authors, and tombstones of deleted objects.
    public var includesHistory = true
    /// The path of the OpenSSH key that signs the archive: a private key, or a public key whose private key an agent has. `nil` for
    /// none.
    ///
    /// The program `ssh-keygen` creates the signature, `META-INF/manifest.json.sig`, in the namespace `quire-archive`. It asks
    /// for a passphrase only if standard input is a terminal. Anyone can verify it with
    /// ``DocumentPackage/verify(archive:allowedSigners:identity:at:limits:progress:)`` if the key is Ed25519, otherwise with
    /// `ssh-keygen -Y verify`.
    public var signingKey: String?

    /// The default options.
    public init(
        format: ArchiveFormat? = nil, level: Int? = nil, threads: Int? = nil,
        includesVersions: Bool = false, includesHistory: Bool = true, signingKey: String? = nil
    ) {
        self.format = format
        self.level = level
        self.threads = threads
        self.includesVersions = includesVersions
        self.includesHistory = includesHistory
        self.signingKey = signingKey
    }

    /// The format of an archive at a path.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if its extension is unknown and no format is chosen, or `invalidValue`
    ///   if the format does not have the level.
    func format(at path: String) throws -> ArchiveFormat {
        let format = try format ?? ArchiveFormat(path: path)
        let range = format.levels.range
        if let level, !range.contains(level) {
            throw QuireError(
                .invalidValue,
                "\(format.rawValue) has no compression level \(level); choose one from \(range.lowerBound) to \(range.upperBound)."
            )
        }
        if let threads, threads < 1 {
            throw QuireError(
                .invalidValue,
                "An archive cannot be written by \(threads) threads; choose 1 or more.")
        }
        return format
    }

    /// A writer of a new file.
    func writer(of file: OpenFile, at path: String) throws -> any ArchiveWriter {
        let format = try format(at: path)
        let level = level ?? format.levels.standard
        let threads = threads ?? ProcessInfo.processInfo.activeProcessorCount
        switch format {
        case .zip, .quirez: return ZipWriter(file: file, level: level, threads: threads)
        case .tar, .tarGzip, .tarXZ, .tarZstandard:
            return try TarWriter(format: format, file: file, level: level, threads: threads)
        }
    }
}

/// The protection of an archive exported from a protected document.
public enum ArchiveProtection: Sendable, Hashable {
    /// The archive contains the encrypted files and the keybag; the keys of the document open the extracted package.
    case keep
    /// The archive is not encrypted.
    case remove
}

/// Limits on an archive's content, so that a small malicious archive does not fill the disk.
public struct ArchiveLimits: Sendable {
    /// The number of files and folders.
    public var entries = 100_000
    /// The total size of all files, in bytes.
    public var bytes: Int64 = 256 << 30
    /// The size of one file, in bytes.
    public var bytesPerEntry: Int64 = 64 << 30
    /// The maximum compression ratio once the content is larger than ``bytesBeforeRatio``, unless the archive's manifest
    /// lists the content: silence and blank pictures compress more than a thousandfold.
    public var ratio: Int64 = 1000
    /// The size of the content, in bytes, above which ``ratio`` is checked.
    public var bytesBeforeRatio: Int64 = 256 << 20

    /// The default limits.
    public init() {}
}
