import CArchive
import Foundation
import Quire

/// The owner of a libarchive handle for reading. Use it within ``withUTF8Locale(_:)``, on one thread.
///
/// Only zip and tar, and only the usual compressors: libarchive's other readers are where its vulnerabilities are.
final class ArchiveReader {
    /// What an archive says about one of its entries.
    struct Entry {
        enum Kind {
            case file
            case folder
            /// A link, a device or anything else that has no place in a document.
            case other(String)
        }

        /// The name, with composed accents and without the slash at a folder's end.
        var path: String
        var kind: Kind
    }

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
        // A warning from these says that a program is used where a library is missing; then the format is not known.
        _ = archive_read_support_filter_zstd(archive)
        _ = archive_read_support_filter_gzip(archive)
        _ = archive_read_support_filter_xz(archive)
        try check(archive_read_open_fd(archive, file.descriptor, 65_536))
    }

    deinit { archive_read_free(archive) }

    /// How many bytes of the file have been read.
    var bytesRead: Int64 { max(archive_filter_bytes(archive, -1), 0) }

    /// The next entry, or `nil` at the end. Bytes of the entry before that have not been read are skipped.
    func next() throws -> Entry? {
        var entry: OpaquePointer?
        let status = archive_read_next_header(archive, &entry)
        if status == ARCHIVE_EOF { return nil }
        try check(status)
        guard let entry else { throw failure() }
        guard let name = archive_entry_pathname_utf8(entry),
            let path = String(validatingCString: name)
        else {
            throw QuireError(
                .invalidFormat, "“\(file.path)” has an entry whose name is not UTF-8.",
                subject: .init(file: file.path))
        }
        // libarchive composes accents of some formats' names itself; this makes all alike.
        let composed = path.precomposedStringWithCanonicalMapping
        return Entry(
            path: composed.hasSuffix("/") ? String(composed.dropLast()) : composed,
            kind: kind(of: entry))
    }

    private func kind(of entry: OpaquePointer) -> Entry.Kind {
        if archive_entry_is_encrypted(entry) != 0 { return .other("encrypted") }
        if archive_entry_hardlink(entry) != nil { return .other("a hard link") }
        switch archive_entry_filetype(entry) {
        case ArchiveFileType.regular: return .file
        case ArchiveFileType.folder: return .folder
        case ArchiveFileType.symbolicLink: return .other("a symbolic link")
        default: return .other("a device, pipe or socket")
        }
    }

    /// Reads bytes of the entry.
    ///
    /// - Returns: How many; 0 at its end.
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
        let text = archive_error_string(archive).map { String(cString: $0) } ?? "unknown reason"
        return QuireError(
            .invalidFormat, "“\(file.path)” is no archive of a document, or is damaged: \(text).",
            subject: .init(file: file.path))
    }
}
