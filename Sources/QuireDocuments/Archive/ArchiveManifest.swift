import Foundation
import Quire

/// The list of an archive's files: its last entry, `META-INF/manifest.json`, which only its signature may follow.
///
/// It lists everything else, sorted by the bytes of the path. An archive with a manifest is extracted only if its files match the
/// list. The paths are relative to the package, wherever it is in the archive.
public struct ArchiveManifest: Codable, Sendable, Hashable {
    /// A file or folder.
    public struct Entry: Codable, Sendable, Hashable {
        /// The path in the package, with a slash at the end if it is a folder.
        public var path: String
        /// The number of bytes.
        public var size: Int64
        /// The SHA-256 digest of the bytes in hexadecimal, empty for a folder.
        public var sha256: String
        /// The SHA-256 digest of each MiB of the bytes in hexadecimal, so that a part can be checked without reading the whole; the
        /// last part may be shorter. `nil` for folders, for files of at most one MiB, and in archives of earlier versions.
        public var sha256PerMiB: [String]?

        /// Whether the digests per MiB are as many as the size needs, and are digests.
        fileprivate var hasValidParts: Bool {
            guard let sha256PerMiB else { return true }
            let partSize = Int64(ArchiveFileDigests.partSize)
            return !path.hasSuffix("/") && size > partSize
                && sha256PerMiB.count == (size - 1) / partSize + 1
                && sha256PerMiB.allSatisfy { digest in
                    digest.utf8.count == 64
                        && digest.utf8.allSatisfy {
                            (0x30...0x39).contains($0) || (0x61...0x66).contains($0)
                        }
                }
        }
    }

    static let folder = "META-INF"
    static let path = folder + "/manifest.json"
    /// The media type of a document in one file; not in the list.
    static let mediaTypePath = "mimetype"
    static let currentFormat = "quire-archive/1"
    /// More than 100,000 entries take, or a digest for each MiB of 256 GiB.
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
                file: archive, underlying: error)
        }
        guard manifest.format == currentFormat else {
            throw QuireError(
                .unsupported,
                "“\(archive)” has format \(manifest.format), but this version reads only format \(currentFormat).",
                file: archive)
        }
        if let entry = manifest.entries.first(where: { !$0.hasValidParts }) {
            throw QuireError(
                .invalidFormat,
                "The manifest of “\(archive)” is damaged: the digests per MiB of “\(entry.path)” are invalid.",
                file: archive)
        }
        return manifest
    }

    /// The folders, without the slash at the end.
    var folders: [String] {
        entries.filter { $0.path.hasSuffix("/") }.map { String($0.path.dropLast()) }
    }

    /// The files by their paths.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if one is listed twice.
    func files(archive: String) throws -> [String: Entry] {
        var listed: [String: Entry] = [:]
        for entry in entries where !entry.path.hasSuffix("/") {
            guard listed.updateValue(entry, forKey: entry.path) == nil else {
                throw QuireError(
                    .invalidFormat,
                    "“\(archive)” is damaged: its manifest lists “\(entry.path)” twice.",
                    file: archive)
            }
        }
        return listed
    }
}
