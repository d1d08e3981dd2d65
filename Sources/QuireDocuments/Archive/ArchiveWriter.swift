import CArchive
import Foundation
import Quire

/// The owner of a libarchive handle for writing. Use it within ``withUTF8Locale(_:)``, on one thread.
///
/// Equal entries produce equal bytes: times, owners, permissions and compressor settings are fixed.
/// (Bytes may differ between versions of the compression libraries.)
final class ArchiveWriter {
    /// 1980-01-01 00:00:00 UTC, the earliest time that a zip file can hold.
    private static let modificationTime = 315_532_800

    private let archive: OpaquePointer
    private let format: ArchiveFormat
    private let file: OpenFile
    private var isFinished = false
    /// Offsets of the zip headers that hold a time.
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
            // Any number of worker threads produces the same bytes, but no thread produces different ones, which is all that a
            // library built without threads can do.
            _ = archive_write_set_filter_option(archive, "zstd", "threads", "1")
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

    /// Adds a folder.
    func addFolder(_ path: String) throws {
        try addHeader(path + "/", size: 0, type: ArchiveFileType.folder, permissions: 0o755)
        try check(archive_write_finish_entry(archive))
    }

    /// Adds a file whose bytes `body` writes in pieces, `size` bytes in all.
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
            subject: .init(file: file.path))
    }
}

// MARK: - Dates

/// Makes the times in a zip file's headers independent of the time zone.
///
/// A zip header contains a local time, which libarchive computes with the process's time zone, and an extra field with the
/// time in UTC. Two exports in different time zones would differ in those four bytes of each header.
struct ZipDates {
    /// Offsets of the local headers.
    var entries: [Int64] = []
    /// The end of the entries, where the central directory begins.
    var endOfEntries: Int64 = 0

    /// 1980-01-01 00:00:00 in DOS form: time, then date, little-endian.
    private static let earliest: [UInt8] = [0, 0, 0x21, 0]

    /// Sets all times to the earliest one.
    ///
    /// - Parameter file: The finished file.
    func makeEqual(in file: OpenFile) throws {
        for entry in entries {
            try expect([0x50, 0x4B, 3, 4], at: entry, in: file)
            try file.write(Self.earliest, at: entry + 10)
        }
        var header = endOfEntries
        for _ in entries {
            try expect([0x50, 0x4B, 1, 2], at: header, in: file)
            try file.write(Self.earliest, at: header + 12)
            let lengths = try file.read(6, at: header + 28)
            header += 46
            for index in stride(from: 0, to: 6, by: 2) {
                header += Int64(lengths[index]) | Int64(lengths[index + 1]) << 8
            }
        }
    }

    private func expect(_ signature: [UInt8], at offset: Int64, in file: OpenFile) throws {
        guard try file.read(4, at: offset) == signature else {
            throw QuireError(
                .inputOutput, "“\(file.path)” has no zip header where one was written.",
                subject: .init(file: file.path))
        }
    }
}

// MARK: - Names

/// Decides which paths a package, and thereby an archive, may contain: those that mean the same on every system and stay
/// within the package.
///
/// A path is relative and UTF-8 without control characters. Its components are neither empty nor `.` nor `..`, at most 255
/// bytes each, 1,024 in all, 32 deep. No two paths differ only in case or Unicode normalization, and none is below a file.
struct PortableNames {
    private var kinds: [String: (path: String, isFolder: Bool)] = [:]

    /// Adds a path.
    ///
    /// - Returns: The problem with it, which continues “… cannot be used: it …”, or `nil`.
    mutating func add(_ path: String, isFolder: Bool) -> String? {
        if let problem = Self.problem(with: path) { return problem }
        let components = FileSystem.components(of: path)
        for count in 1...components.count {
            let isLast = count == components.count
            let prefix = components.prefix(count).joined(separator: "/")
            let existing = kinds.updateValue(
                (prefix, isLast ? isFolder : true), forKey: Self.folded(prefix))
            guard let existing else { continue }
            // Strings that differ only in Unicode normalization compare equal; their bytes do not.
            if !existing.path.utf8.elementsEqual(prefix.utf8) {
                return "differs from “\(existing.path)” only in case or Unicode normalization"
            }
            if isLast && !(isFolder && existing.isFolder) { return "appears twice" }
            if !isLast && !existing.isFolder { return "is below the file “\(prefix)”" }
        }
        return nil
    }

    /// The reason why a path by itself is not portable.
    static func problem(with path: String) -> String? {
        if FileName(path).byteCount > 1024 { return "is longer than 1,024 bytes" }
        if path.utf8.first == UInt8(ascii: "/") { return "is absolute" }
        let components = FileSystem.components(of: path)
        if components.count > 32 { return "is more than 32 folders deep" }
        for component in components {
            if component.isEmpty { return "has an empty component" }
            if component == "." || component == ".." { return "has the component “\(component)”" }
            if FileName(component).byteCount > 255 {
                return "has a component longer than 255 bytes"
            }
            if component.utf8.contains(UInt8(ascii: "\\")) { return "contains a backslash" }
            let isControl = component.unicodeScalars.contains {
                $0.properties.generalCategory == .control
            }
            if isControl { return "contains a control character" }
        }
        return nil
    }

    /// The key under which paths are equal on systems that ignore case or Unicode normalization.
    static func folded(_ path: String) -> String {
        // Upper-casing first also folds ß into ss and ſ into s, which lower-casing alone does not.
        path.uppercased().lowercased().precomposedStringWithCanonicalMapping
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
