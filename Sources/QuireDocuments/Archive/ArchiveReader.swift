import CArchive
import Foundation
import Quire

/// An entry of an archive, or of a folder that is read like one.
struct ArchiveEntry {
    enum Kind: Equatable {
        case file
        case folder
        /// A link, a device or anything else that a document cannot contain.
        case other(String)
    }

    /// The name, with composed accents, without “./” at its beginning and without the slash at a folder's end.
    var path: String
    var kind: Kind
    /// The number of bytes, as the archive states it.
    var size: Int64
}

/// Reads the entries of an archive, one after the other.
protocol ArchiveEntryReader: AnyObject {
    /// The next entry, or `nil` at the end. Unread bytes of the previous entry are skipped.
    func next() throws -> ArchiveEntry?

    /// Reads bytes of the entry.
    ///
    /// - Returns: The number of bytes; 0 at its end.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int

    /// The number of bytes of the source that have been read.
    var bytesRead: Int64 { get }
}

extension ArchiveEntryReader {
    /// Reads the whole entry.
    ///
    /// - Returns: `nil` if it is larger than a limit.
    func readData(limit: Int) throws -> Data? {
        var data = Data()
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = try piece.withUnsafeMutableBytes { try read(into: $0) }
            if count == 0 { return data }
            data.append(contentsOf: piece[..<count])
            if data.count > limit { return nil }
        }
    }
}

/// The owner of a libarchive handle for reading. Use it within ``withUTF8Locale(_:)``, on one thread.
///
/// Only zip, tar and 7z, and only the usual compressors: libarchive's other readers are where its vulnerabilities are.
final class ArchiveReader: ArchiveEntryReader {
    private let archive: OpaquePointer
    private let file: OpenFile

    /// Opens an archive.
    init(file: OpenFile) throws {
        guard let archive = archive_read_new() else {
            throw FileSystem.failure("read", file.path, errno: ENOMEM)
        }
        self.archive = archive
        self.file = file
        try check(archive_read_support_format_zip_seekable(archive))
        try check(archive_read_support_format_tar(archive))
        try check(archive_read_support_format_7zip(archive))
        // These return a warning if libarchive would run an external program because a library is missing; the format is
        // then unsupported.
        _ = archive_read_support_filter_zstd(archive)
        _ = archive_read_support_filter_gzip(archive)
        _ = archive_read_support_filter_xz(archive)
        _ = archive_read_support_filter_bzip2(archive)
        _ = archive_read_support_filter_lz4(archive)
        try check(archive_read_open_fd(archive, file.descriptor, 65_536))
    }

    deinit { archive_read_free(archive) }

    var bytesRead: Int64 { max(archive_filter_bytes(archive, -1), 0) }

    func next() throws -> ArchiveEntry? {
        var entry: OpaquePointer?
        let status = archive_read_next_header(archive, &entry)
        if status == ARCHIVE_EOF { return nil }
        // A warning means that a part of the header could not be converted, which matters only for the name.
        if status != ARCHIVE_WARN { try check(status) }
        guard let entry else { throw failure() }
        guard let path = name(of: entry) else {
            throw QuireError(
                .invalidFormat, "“\(file.path)” contains an entry whose name cannot be read.",
                file: file.path)
        }
        return ArchiveEntry(
            path: ArchiveName.normalized(path), kind: kind(of: entry),
            size: archive_entry_size(entry))
    }

    /// The name of an entry. Zip files that do not state its encoding have UTF-8, or the code page of the first PCs.
    private func name(of entry: OpaquePointer) -> String? {
        if let name = archive_entry_pathname_utf8(entry).flatMap({ String(validatingCString: $0) })
        {
            return name
        }
        guard let bytes = archive_entry_pathname(entry) else { return nil }
        if let name = String(validatingCString: bytes) { return name }
        guard archive_format(archive) & ARCHIVE_FORMAT_BASE_MASK == ARCHIVE_FORMAT_ZIP else {
            return nil
        }
        return ArchiveName.decodedCodePage437(
            UnsafeBufferPointer(start: bytes, count: strlen(bytes)))
    }

    private func kind(of entry: OpaquePointer) -> ArchiveEntry.Kind {
        if archive_entry_is_encrypted(entry) != 0 { return .other("encrypted") }
        if archive_entry_hardlink(entry) != nil { return .other("a hard link") }
        switch archive_entry_filetype(entry) {
        case ArchiveFileType.regular: return .file
        case ArchiveFileType.folder: return .folder
        case ArchiveFileType.symbolicLink: return .other("a symbolic link")
        default: return .other("a device, pipe or socket")
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let count = archive_read_data(archive, buffer.baseAddress, buffer.count)
        if count < 0 { throw failure() }
        return Int(count)
    }

    private func check(_ status: Int32) throws {
        if status != ARCHIVE_OK { throw failure() }
    }

    private func failure() -> QuireError {
        let number = archive_errno(archive)
        if [EIO, ENOMEM, EISDIR].contains(number) {
            return FileSystem.failure("read", file.path, errno: number)
        }
        // Some end with a newline.
        let text =
            archive_error_string(archive).map {
                String(cString: $0).trimmingCharacters(in: .whitespacesAndNewlines)
            } ?? "unknown reason"
        return QuireError(
            .invalidFormat, "“\(file.path)” is not an archive, or is damaged: \(text).",
            file: file.path)
    }
}

// MARK: - Folders

/// Reads a folder as if it were an archive. Links are not followed.
final class FolderReader: ArchiveEntryReader {
    private let root: String
    private var rest: ArraySlice<(path: String, information: FileInformation)>
    private var path: String?
    private var file: OpenFile?
    private(set) var bytesRead: Int64 = 0

    init(_ root: String) throws {
        self.root = root
        rest = try FileSystem.contentsOfTree(root)[...]
    }

    func next() throws -> ArchiveEntry? {
        (path, file) = (nil, nil)
        guard let (path, information) = rest.popFirst() else { return nil }
        let kind: ArchiveEntry.Kind
        switch information.kind {
        case .regular:
            self.path = path
            kind = .file
        case .folder: kind = .folder
        case .symbolicLink: kind = .other("a symbolic link")
        default: kind = .other("a device, pipe or socket")
        }
        return ArchiveEntry(
            path: ArchiveName.normalized(path), kind: kind,
            size: kind == .file ? information.size : 0)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        guard let path else { return 0 }
        let file =
            try file ?? OpenFile.open(FileSystem.path(root, path), beneath: root, for: .reading)
        self.file = file
        let count = try file.read(into: buffer)
        bytesRead += Int64(count)
        return count
    }
}

// MARK: - Names

/// The names that archives have for a path.
enum ArchiveName {
    /// A path as a package has it.
    static func normalized(_ path: String) -> String {
        // libarchive composes accents in some formats only.
        var path = path.precomposedStringWithCanonicalMapping
        while path.hasPrefix("./") { path.removeFirst(2) }
        if path.hasSuffix("/") { path.removeLast() }
        return path == "." ? "" : path
    }

    /// Whether an entry is what file managers, or the owner of an open document, have left beside the files: no part of any document.
    static func isIncidental(_ path: String) -> Bool {
        if [".lock", DocumentPackageLayout.storePath + "-shm"].contains(path) { return true }
        let components = FileSystem.components(of: path)
        let names: Set = [".DS_Store", "Thumbs.db", "desktop.ini"]
        return components.contains("__MACOSX")
            || components.last.map { names.contains($0) || $0.hasPrefix("._") } ?? false
    }

    static func decodedCodePage437(_ bytes: some Collection<CChar>) -> String {
        let upper = Array(
            ("ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧"
                + "╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{A0}").unicodeScalars)
        var text = String.UnicodeScalarView()
        for byte in bytes.lazy.map(UInt8.init(bitPattern:)) {
            text.append(byte < 0x80 ? Unicode.Scalar(byte) : upper[Int(byte) - 0x80])
        }
        return String(text)
    }
}

/// The file types in libarchive's entries, which are those of `st_mode`.
enum ArchiveFileType {
    static let regular: UInt32 = 0o100000
    static let folder: UInt32 = 0o040000
    static let symbolicLink: UInt32 = 0o120000
}
