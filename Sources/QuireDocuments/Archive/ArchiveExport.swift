import Crypto
import Foundation
import Quire

/// Writes a finished package folder to an archive.
///
/// The archive is written beside its destination, synchronized, and renamed: it is there whole or not at all. Two
/// archives of equal folders are equal byte by byte, whatever the time zone, the user or the files' dates.
struct ArchiveExport {
    /// The folder whose content becomes the archive's. Nobody may be changing it.
    var folder: String
    /// The archive to make.
    var destination: String
    /// Whether a file that is there may be replaced.
    var replacesExisting = false
    /// Gets the number of bytes as its total, and is asked whether to stop. Without one it cannot be stopped.
    var progress: Progress?
    /// The permissions that the archive has at most; `nil` for those of any new file.
    var permissions: UInt32?
    /// Looks at the digest of each file, which is in hexadecimal digits, with its path in the folder.
    var verify: (_ path: String, _ digest: String) throws -> Void = { _, _ in }
    /// Called when everything is written, before the archive gets its name.
    var finish: () throws -> Void = {}

    /// How many bytes are read between two looks at whether to stop.
    private static let pieceSize = 262_144

    /// Writes the archive.
    func run() throws {
        let format = try ArchiveFormat(path: destination)
        if !replacesExisting, FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let items = try items()
        progress?.totalUnitCount = items.reduce(0) { $0 + $1.size }
        progress?.completedUnitCount = 0
        let part = try TemporarySibling.makeFile(beside: destination)
        defer { part.remove() }
        try part.building {
            try withUTF8Locale {
                try write(items, to: ArchiveWriter(format: format, file: part.file))
            }
            try finish()
            try part.file.setPermissionsIfPossible(
                part.defaultPermissions & (permissions ?? 0o777))
            try part.file.synchronize()
            guard replacesExisting else { return try part.publish() }
            try TerminationCleanup.uninterrupted {
                try FileSystem.rename(part.path, to: destination)
            }
            try FileSystem.synchronizeFolder(containing: destination)
        }
    }

    private struct Item {
        /// The path in the archive, with composed accents and a slash at the end of a folder.
        var path: String
        /// The path in the folder.
        var name: String
        /// The path on disk.
        var source: String
        var isFolder: Bool
        var size: Int64
    }

    /// What is in the folder, in the archive's order.
    private func items() throws -> [Item] {
        var names = PortableNames()
        let items = try FileSystem.contentsOfTree(folder).map { path, information in
            let isFolder = information.kind == .folder
            var problem = names.add(path, isFolder: isFolder)
            if !isFolder && information.kind != .regular { problem = "is neither file nor folder" }
            if let problem {
                throw QuireError(
                    .unsupported, "“\(path)” cannot be put into an archive: it \(problem).",
                    subject: .init(file: FileSystem.path(folder, path)))
            }
            let composed = path.precomposedStringWithCanonicalMapping
            return Item(
                path: isFolder ? composed + "/" : composed, name: path,
                source: FileSystem.path(folder, path), isFolder: isFolder,
                size: isFolder ? 0 : information.size)
        }
        return items.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    }

    private func write(_ items: [Item], to archive: ArchiveWriter) throws {
        var entries: [ArchiveManifest.Entry] = []
        for item in items {
            try checkCancelled()
            if item.isFolder {
                try archive.addFolder(String(item.path.dropLast()))
                entries.append(.init(path: item.path, size: 0, sha256: ""))
            } else {
                let digest = try add(item, to: archive)
                entries.append(.init(path: item.path, size: item.size, sha256: digest))
            }
        }
        let manifest = try ArchiveManifest(entries: entries).encoded()
        try archive.addFile(ArchiveManifest.path, size: Int64(manifest.count)) { write in
            try manifest.withUnsafeBytes { try write($0) }
        }
        try archive.finish()
    }

    /// Adds a file.
    ///
    /// - Returns: Its digest.
    private func add(_ item: Item, to archive: ArchiveWriter) throws -> String {
        let file = try OpenFile.open(item.source, for: .reading)
        var digest = SHA256()
        var rest = item.size
        try archive.addFile(item.path, size: item.size) { write in
            try withUnsafeTemporaryAllocation(byteCount: Self.pieceSize, alignment: 16) { buffer in
                while rest > 0 {
                    try checkCancelled()
                    let wanted = min(Int(clamping: rest), buffer.count)
                    let count = try file.read(
                        into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
                    if count == 0 { break }
                    let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                    digest.update(bufferPointer: piece)
                    try write(piece)
                    rest -= Int64(count)
                    progress?.completedUnitCount += Int64(count)
                }
            }
        }
        guard rest == 0 else {
            throw QuireError(
                .inputOutput, "“\(file.path)” became shorter while it was exported.",
                subject: .init(file: file.path))
        }
        let result = digest.finalize().hexadecimal
        try verify(item.name, result)
        return result
    }

    private func checkCancelled() throws {
        if progress?.isCancelled == true {
            throw QuireError(
                .cancelled, "The export to “\(destination)” was cancelled.",
                subject: .init(file: destination))
        }
    }
}

extension SHA256.Digest {
    /// The digest as 64 lower-case digits.
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(2 * SHA256.byteCount)
        for byte in self {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
