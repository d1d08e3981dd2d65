import CArchive
import Foundation
import Quire

/// Writes the entries of an archive, one after the other.
///
/// Equal entries produce equal bytes: times, owners, permissions and compressor settings are fixed.
/// (Bytes may differ between versions of the compression libraries.)
protocol ArchiveWriter: AnyObject {
    /// Adds a folder.
    func addFolder(_ path: String) throws

    /// Adds a file whose bytes `body` writes in pieces, `size` bytes in all.
    ///
    func addFile(
        _ path: String, size: Int64,
        body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
    ) throws

    /// Writes the end of the archive. The file is complete then, but not synchronized.
    func finish() throws
}

/// The owner of a libarchive handle for writing a tar file. Use it within ``withUTF8Locale(_:)``, on one thread.
final class TarWriter: ArchiveWriter {
    /// 1980-01-01 00:00:00 UTC, as in zip files.
    private static let modificationTime = 315_532_800

    private let archive: OpaquePointer
    private let file: OpenFile
    private var isFinished = false

    /// Begins an archive.
    ///
    /// - Parameters:
    ///   - format: A kind of tar file.
    ///   - file: A new empty file, which errors name.
    ///   - threads: The number of threads that compress.
    init(format: ArchiveFormat, file: OpenFile, level: Int, threads: Int) throws {
        guard let archive = archive_write_new() else {
            throw FileSystem.failure("write", file.path, errno: ENOMEM)
        }
        self.archive = archive
        self.file = file
        try check(archive_write_set_format_pax_restricted(archive))
        func set(_ filter: String, _ option: String, _ value: String) throws {
            try check(archive_write_set_filter_option(archive, filter, option, value))
        }
        switch format {
        case .tarZstandard:
            try check(archive_write_add_filter_zstd(archive))
            try set("zstd", "compression-level", "\(level)")
            // Any number of worker threads produces the same bytes, but no thread produces different ones, which is all that a
            // library built without threads can do.
            _ = archive_write_set_filter_option(archive, "zstd", "threads", "\(max(threads, 1))")
        case .tarXZ:
            try check(archive_write_add_filter_xz(archive))
            try set("xz", "compression-level", "\(level)")
            // One thread produces other bytes than several.
            _ = archive_write_set_filter_option(archive, "xz", "threads", "\(max(threads, 2))")
        case .tarGzip:
            try check(archive_write_add_filter_gzip(archive))
            try set("gzip", "compression-level", "\(level)")
            try check(archive_write_set_filter_option(archive, "gzip", "timestamp", nil))
        case .tar, .zip, .quirez: break
        }
        try check(archive_write_set_bytes_per_block(archive, 262_144))
        try check(archive_write_set_bytes_in_last_block(archive, 1))
        try check(archive_write_open_fd(archive, file.descriptor))
    }

    deinit {
        // Without this, freeing would write the end of an abandoned archive.
        if !isFinished { archive_write_fail(archive) }
        archive_write_free(archive)
    }

    func addFolder(_ path: String) throws {
        try addHeader(path + "/", size: 0, type: ArchiveFileType.folder, permissions: 0o755)
        try check(archive_write_finish_entry(archive))
    }

    func addFile(
        _ path: String, size: Int64,
        body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
    ) throws {
        try addHeader(path, size: size, type: ArchiveFileType.regular, permissions: 0o644)
        try body { bytes in
            var rest = bytes
            while !rest.isEmpty {
                let count = archive_write_data(archive, rest.baseAddress, rest.count)
                if count < 0 { throw failure() }
                if count == 0 { throw FileSystem.failure("write", file.path, errno: EIO) }
                rest = UnsafeRawBufferPointer(rebasing: rest[Int(count)...])
            }
        }
        try check(archive_write_finish_entry(archive))
    }

    func finish() throws {
        try check(archive_write_close(archive))
        isFinished = true
    }

    private func addHeader(
        _ path: String, size: Int64, type: UInt32, permissions: mode_t
    ) throws {
        guard let entry = archive_entry_new2(archive) else {
            throw FileSystem.failure("write", file.path, errno: ENOMEM)
        }
        defer { archive_entry_free(entry) }
        archive_entry_set_pathname_utf8(entry, path)
        archive_entry_set_filetype(entry, type)
        archive_entry_set_perm(entry, permissions)
        archive_entry_set_size(entry, size)
        archive_entry_set_mtime(entry, Self.modificationTime, 0)
        archive_entry_set_uid(entry, 0)
        archive_entry_set_gid(entry, 0)
        try check(archive_write_header(archive, entry))
    }

    private func check(_ status: Int32) throws {
        // A warning means that a part of the entry could not be written.
        if status != ARCHIVE_OK { throw failure() }
    }

    private func failure() -> QuireError {
        let number = archive_errno(archive)
        if number > 0, number != EINVAL, number != EILSEQ {
            return FileSystem.failure("write", file.path, errno: number)
        }
        let text = archive_error_string(archive).map { String(cString: $0) } ?? "unknown reason"
        return QuireError(
            .inputOutput, "Could not write “\(file.path)”: \(text).",
            file: file.path)
    }
}

// MARK: - Locale

/// Runs a body with UTF-8 as the thread's character encoding.
///
/// A Swift program runs in the C locale, in which libarchive crashes when it writes names that are not ASCII, and loses such
/// names when it reads them. This affects the calling thread only, until the body returns.
func withUTF8Locale<Result>(_ body: () throws -> Result) throws -> Result {
    let characterTypes: Int32 = 1 << LC_CTYPE
    guard
        let locale = newlocale(characterTypes, "C.UTF-8", nil)
            ?? newlocale(characterTypes, "en_US.UTF-8", nil)
    else {
        throw QuireError(
            .unsupported,
            "Archives require a UTF-8 locale, and this system has none; install the locale C.UTF-8."
        )
    }
    let previous = uselocale(locale)
    defer {
        uselocale(previous)
        freelocale(locale)
    }
    return try body()
}
