import CArchive
import Crypto
import Foundation
import Quire

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

/// Extracts an archive into a new package folder.
///
/// The archive is untrusted: only files and folders are accepted, only names that ``PortableNames`` and `objection`
/// accept, nothing beyond the limits, and exactly what the manifest lists. Everything is written to a temporary sibling
/// of the destination, which is removed if anything is wrong.
struct ArchiveExtraction {
    /// The archive.
    var archive: String
    /// The folder to create.
    var destination: String
    /// The limits of the content.
    var limits = ArchiveLimits()
    /// Counts the bytes of the archive, and is checked for cancellation.
    var progress: Progress?
    /// Whether ``progress`` is updated, or only checked for cancellation.
    var countsProgress = true
    /// The reason to reject an otherwise valid path, which continues “… it …”, or `nil`.
    var objection: (_ path: String, _ isFolder: Bool) -> String? = { _, _ in nil }
    /// Checks the extracted folder before it gets its final name.
    var verify: (_ folder: String) throws -> Void = { _ in }

    private static let pieceSize = 262_144

    /// Extracts the archive.
    func run() throws {
        if FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let file = try openArchive()
        let temporary = try TemporarySibling.makeFolder(beside: destination)
        defer { temporary.remove() }
        try temporary.building {
            try withUTF8Locale {
                try extract(ArchiveReader(file: file), into: temporary.path)
            }
            try verify(temporary.path)
            // As private as the archive: a folder needs execute permission where a file needs read permission.
            try temporary.setFinalPermissions(limitedBy: file.information())
            try FileSystem.synchronizeTree(temporary.path)
            try temporary.publish()
        }
    }

    /// Reads the archive as ``run()`` does, but writes nothing and does not call ``verify``.
    ///
    /// - Throws: What ``run()`` would throw.
    func check() throws {
        let file = try openArchive()
        try withUTF8Locale { try extract(ArchiveReader(file: file), into: nil) }
    }

    /// The manifest of an archive, without extracting it.
    static func manifest(of archive: String) throws -> ArchiveManifest {
        let extraction = ArchiveExtraction(archive: archive, destination: "")
        let file = try extraction.openArchive()
        return try withUTF8Locale {
            let reader = try ArchiveReader(file: file)
            while let entry = try reader.next() {
                if entry.path == ArchiveManifest.path, case .file = entry.kind {
                    return try extraction.readManifest(reader)
                }
            }
            throw extraction.invalid("has no \(ArchiveManifest.path)")
        }
    }

    private func openArchive() throws -> OpenFile {
        let file = try OpenFile.open(archive, for: .reading)
        let information = try file.information()
        guard information.kind == .regular else {
            throw invalid("is not a file")
        }
        if countsProgress {
            progress?.totalUnitCount = information.size
            progress?.completedUnitCount = 0
        }
        return file
    }

    /// - Parameter root: The folder to write to; `nil` to write nothing.
    private func extract(_ reader: ArchiveReader, into root: String?) throws {
        var names = PortableNames()
        var found: [ArchiveManifest.Entry] = []
        var content = Content()
        while let entry = try reader.next() {
            try progress?.checkCancelled(
                "The extraction of “\(archive)” was cancelled.", file: archive)
            if case .other(let what) = entry.kind {
                throw invalid("contains “\(entry.path)”, which is \(what)")
            }
            if entry.path == ArchiveManifest.path, case .file = entry.kind {
                let manifest = try readManifest(reader)
                if let extra = try reader.next() {
                    throw invalid("contains “\(extra.path)” after its manifest")
                }
                try manifest.verify(found, archive: archive)
                if countsProgress {
                    progress?.completedUnitCount = progress?.totalUnitCount ?? 0
                }
                return
            }
            var isFolder = false
            if case .folder = entry.kind { isFolder = true }
            if let problem = names.add(entry.path, isFolder: isFolder)
                ?? objection(entry.path, isFolder)
            {
                throw invalid("contains “\(entry.path)”, which cannot be used: it \(problem)")
            }
            guard found.count < limits.entries else {
                throw invalid("exceeds the limit of \(limits.entries) entries")
            }
            if isFolder {
                if let root { try makeFolder(entry.path, in: root) }
                found.append(.init(path: entry.path + "/", size: 0, sha256: ""))
            } else {
                let (size, digest) = try extractFile(
                    entry.path, from: reader, into: root, &content)
                found.append(.init(path: entry.path, size: size, sha256: digest))
            }
        }
        throw invalid("has no \(ArchiveManifest.path)")
    }

    private func makeFolder(_ path: String, in root: String) throws {
        try FileSystem.makeFolder(
            FileSystem.path(root, path), beneath: root, withIntermediates: true)
    }

    private func extractFile(
        _ path: String, from reader: ArchiveReader, into root: String?, _ content: inout Content
    ) throws -> (size: Int64, digest: String) {
        if let root, path.contains("/") { try makeFolder(FileSystem.folder(of: path), in: root) }
        let file = try root.map {
            try OpenFile.open(FileSystem.path($0, path), beneath: $0, for: .creating)
        }
        var size: Int64 = 0
        var digest = SHA256()
        try withUnsafeTemporaryAllocation(byteCount: Self.pieceSize, alignment: 16) { buffer in
            while true {
                try progress?.checkCancelled(
                    "The extraction of “\(archive)” was cancelled.", file: archive)
                let count = try reader.read(into: buffer)
                if count == 0 { return }
                size += Int64(count)
                content.size += Int64(count)
                try checkLimits(path, size: size, &content, read: reader.bytesRead)
                let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                digest.update(bufferPointer: piece)
                try file?.write(piece)
                if let progress, countsProgress {
                    progress.completedUnitCount = max(
                        progress.completedUnitCount,
                        min(reader.bytesRead, progress.totalUnitCount))
                }
            }
        }
        return (size, digest.finalize().hexadecimal)
    }

    /// The content read from the archive so far.
    private struct Content {
        /// The number of bytes.
        var size: Int64 = 0
        /// The sizes that the manifest lists, by path; `nil` until they matter.
        var listedSizes: [String: Int64]?
    }

    private func checkLimits(
        _ path: String, size: Int64, _ content: inout Content, read: Int64
    ) throws {
        if size > limits.bytesPerEntry {
            throw invalid(
                "contains “\(path)”, which exceeds the limit of \(limits.bytesPerEntry) bytes")
        }
        if content.size > limits.bytes {
            throw invalid("exceeds the limit of \(limits.bytes) bytes of content")
        }
        let isLarge = content.size > limits.bytesBeforeRatio && content.size / limits.ratio > read
        if isLarge, content.listedSizes == nil { content.listedSizes = listedSizes() }
        if let listed = content.listedSizes, size > listed[path] ?? 0 {
            throw invalid(
                "expands to more than \(limits.ratio) times its size, and “\(path)” is larger than its manifest states"
            )
        }
    }

    /// The sizes that the manifest lists; empty if it cannot be read. The manifest is the last entry, so reading it
    /// decompresses the whole archive, but writes nothing.
    private func listedSizes() -> [String: Int64] {
        guard let manifest = try? Self.manifest(of: archive) else { return [:] }
        return Dictionary(manifest.entries.map { ($0.path, $0.size) }, uniquingKeysWith: min)
    }

    private func readManifest(_ reader: ArchiveReader) throws -> ArchiveManifest {
        var data = Data()
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = try piece.withUnsafeMutableBytes { try reader.read(into: $0) }
            if count == 0 { break }
            data.append(contentsOf: piece[..<count])
            if data.count > ArchiveManifest.largestSize {
                throw invalid("has a manifest larger than \(ArchiveManifest.largestSize) bytes")
            }
        }
        return try ArchiveManifest.decoded(data, archive: archive)
    }

    private func invalid(_ what: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(archive)” is not a document archive: it \(what).",
            subject: .init(file: archive))
    }
}

// MARK: - Reading

/// The owner of a libarchive handle for reading. Use it within ``withUTF8Locale(_:)``, on one thread.
///
/// Only zip and tar, and only the usual compressors: libarchive's other readers are where its vulnerabilities are.
final class ArchiveReader {
    /// The header of an archive entry.
    struct Entry {
        enum Kind {
            case file
            case folder
            /// A link, a device or anything else that a document cannot contain.
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
        // These return a warning if libarchive would run an external program because a library is missing; the format is
        // then unsupported.
        _ = archive_read_support_filter_zstd(archive)
        _ = archive_read_support_filter_gzip(archive)
        _ = archive_read_support_filter_xz(archive)
        try check(archive_read_open_fd(archive, file.descriptor, 65_536))
    }

    deinit { archive_read_free(archive) }

    /// The number of bytes of the file that have been read.
    var bytesRead: Int64 { max(archive_filter_bytes(archive, -1), 0) }

    /// The next entry, or `nil` at the end. Unread bytes of the previous entry are skipped.
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
                .invalidFormat, "“\(file.path)” contains an entry whose name is not valid UTF-8.",
                subject: .init(file: file.path))
        }
        // libarchive normalizes names in some formats only; this normalizes all of them.
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
    /// - Returns: The number of bytes; 0 at its end.
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
            .invalidFormat, "“\(file.path)” is not a document archive, or is damaged: \(text).",
            subject: .init(file: file.path))
    }
}
