import Foundation
import Quire

/// The list of an archive's files: its last entry, `META-INF/manifest.json`.
///
/// It lists everything but itself, sorted by the bytes of the path. An archive is extracted only if its content and the list
/// are the same.
public struct ArchiveManifest: Codable, Sendable, Hashable {
    /// A file or folder.
    public struct Entry: Codable, Sendable, Hashable {
        /// The path in the package, with a slash at the end if it is a folder.
        public var path: String
        /// The number of bytes.
        public var size: Int64
        /// The SHA-256 digest of the bytes in hexadecimal, empty for a folder.
        public var sha256: String
    }

    static let path = "META-INF/manifest.json"
    static let currentFormat = "quire-archive/1"
    /// More than 100,000 entries take.
    static let largestSize = 64 << 20

    /// The format of the archive, with its version.
    public var format: String
    /// The files and folders.
    public var entries: [Entry]

    init(entries: [Entry]) {
        format = Self.currentFormat
        self.entries = entries.sorted {
            $0.path.utf8.lexicographicallyPrecedes($1.path.utf8)
        }
    }

    /// The manifest as JSON; equal manifests have equal bytes.
    func encoded() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self) + Data("\n".utf8)
    }

    static func decoded(_ data: Data, archive: String) throws -> ArchiveManifest {
        let manifest: ArchiveManifest
        do {
            manifest = try JSONDecoder().decode(ArchiveManifest.self, from: data)
        } catch {
            throw QuireError(
                .invalidFormat, "The manifest of “\(archive)” cannot be read.",
                subject: .init(file: archive), underlying: error)
        }
        guard manifest.format == currentFormat else {
            throw QuireError(
                .unsupported,
                "“\(archive)” has the format \(manifest.format); this version only reads \(currentFormat).",
                subject: .init(file: archive))
        }
        return manifest
    }

    /// Compares the list with the actual entries of an archive, and throws an error about the first difference.
    func verify(_ found: [Entry], archive: String) throws {
        func fail(_ what: String) -> QuireError {
            QuireError(
                .invalidFormat, "“\(archive)” is damaged: \(what).", subject: .init(file: archive))
        }
        var listed = [String: Entry]()
        for entry in entries where listed.updateValue(entry, forKey: entry.path) != nil {
            throw fail("its manifest lists “\(entry.path)” twice")
        }
        for entry in found {
            guard let expected = listed.removeValue(forKey: entry.path) else {
                throw fail("its manifest does not list “\(entry.path)”")
            }
            guard expected == entry else {
                throw fail("“\(entry.path)” differs from what its manifest lists")
            }
        }
        if let missing = listed.keys.min() { throw fail("“\(missing)” is missing") }
    }
}

// MARK: - Formats

/// The kinds of archive that a document can be exported to.
public enum ArchiveFormat: String, Sendable, CaseIterable {
    /// A zip file with deflated entries, which any archive program opens.
    case zip
    /// A tar file compressed by Zstandard: smaller, and much faster to write.
    case tarZstandard = "tar.zst"

    /// The format for a file's extension: `.zip`, or `.tar.zst` or `.tzst`.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` for any other extension.
    public init(path: String) throws {
        let name = FileSystem.name(of: path).lowercased()
        if name.hasSuffix(".zip") {
            self = .zip
        } else if name.hasSuffix(".tar.zst") || name.hasSuffix(".tzst") {
            self = .tarZstandard
        } else {
            throw QuireError(
                .unsupported,
                "“\(path)” has no known archive extension; use .zip or .tar.zst.",
                subject: .init(file: path))
        }
    }
}

/// The file types in libarchive's entries, which are those of `st_mode`.
enum ArchiveFileType {
    static let regular: UInt32 = 0o100000
    static let folder: UInt32 = 0o040000
    static let symbolicLink: UInt32 = 0o120000
}
