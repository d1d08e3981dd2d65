import CArchive
import Foundation
import Quire

/// The owner of a libarchive handle for writing. Use it within ``withUTF8Locale(_:)``, on one thread.
///
/// Equal entries give equal bytes: times, owners and permissions are fixed, and so are the compressors' settings.
/// (Bytes may differ between versions of the compression libraries.)
final class ArchiveWriter {
    /// 1980-01-01 00:00:00 UTC, the earliest time that a zip file can hold.
    private static let modificationTime = 315_532_800

    private let archive: OpaquePointer
    private let format: ArchiveFormat
    private let file: OpenFile
    private var isFinished = false
    /// Where the headers of a zip file begin that hold a time.
    private var zipDates = ZipDates()

    /// Begins an archive.
    ///
    /// - Parameter file: A new empty file, which errors name.
    init(format: ArchiveFormat, file: OpenFile) throws {
        guard let archive = archive_write_new() else {
            throw FileSystem.failure("write", file.path, errno: ENOMEM)
        }
        self.archive = archive
        self.format = format
        self.file = file
        switch format {
        case .zip:
            try check(archive_write_set_format_zip(archive))
            try check(archive_write_set_format_option(archive, "zip", "compression", "deflate"))
            try check(archive_write_set_format_option(archive, "zip", "compression-level", "6"))
        case .tarZstandard:
            try check(archive_write_set_format_pax_restricted(archive))
            try check(archive_write_add_filter_zstd(archive))
            try check(archive_write_set_filter_option(archive, "zstd", "compression-level", "3"))
            // One worker and several give equal bytes, none gives others. A library without threads has only those.
            _ = archive_write_set_filter_option(archive, "zstd", "threads", "1")
        }
        try check(archive_write_set_bytes_per_block(archive, 262_144))
        try check(archive_write_set_bytes_in_last_block(archive, 1))
        try check(archive_write_open_fd(archive, file.descriptor))
    }

    deinit {
        // Without this, freeing would write the end of an archive that is to be given up.
        if !isFinished { archive_write_fail(archive) }
        archive_write_free(archive)
    }

    /// Adds a folder.
    func addFolder(_ path: String) throws {
        try addHeader(path + "/", size: 0, type: ArchiveFileType.folder, permissions: 0o755)
        try check(archive_write_finish_entry(archive))
    }

    /// Adds a file whose bytes `body` passes on in pieces, `size` bytes in all.
    func addFile(
        _ path: String, size: Int64, body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
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

    /// Writes the end of the archive. The file is complete then, but not synchronized.
    func finish() throws {
        if format == .zip { zipDates.endOfEntries = archive_filter_bytes(archive, 0) }
        try check(archive_write_close(archive))
        isFinished = true
        if format == .zip { try zipDates.makeEqual(in: file) }
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
        if format == .zip { zipDates.entries.append(archive_filter_bytes(archive, 0)) }
        try check(archive_write_header(archive, entry))
    }

    private func check(_ status: Int32) throws {
        // A warning means that something of the entry could not be written.
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
            subject: .init(file: file.path))
    }
}
