import Quire

/// The kinds of archive that a document can be exported to.
public enum ArchiveFormat: String, Sendable, CaseIterable {
    /// A zip file with deflated entries, which everything opens.
    case zip
    /// A tar file compressed by Zstandard: smaller, and much faster to write.
    case tarZstandard = "tar.zst"

    /// The format that a file's extension names: `.zip`, or `.tar.zst` or `.tzst`.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it is neither.
    public init(path: String) throws {
        let name = FileSystem.name(of: path).lowercased()
        if name.hasSuffix(".zip") {
            self = .zip
        } else if name.hasSuffix(".tar.zst") || name.hasSuffix(".tzst") {
            self = .tarZstandard
        } else {
            throw QuireError(
                .unsupported,
                "“\(path)” does not say what archive it is; let it end in .zip or .tar.zst.",
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
