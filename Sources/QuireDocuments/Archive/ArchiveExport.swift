import Foundation
import Quire

/// Writes a finished package folder to an archive.
///
/// The archive is written beside its destination, synchronized, and renamed, so that it appears whole or not at all. Archives
/// of equal folders are equal byte by byte, whatever the time zone, the user or the files' dates.
struct ArchiveExport {
    /// The folder whose content becomes the archive's. It must not change meanwhile.
    var folder: String
    /// The archive to create.
    var destination: String
    /// The folder in the archive that contains everything; empty for none.
    var root = ""
    /// The form of the archive.
    var options = ArchiveOptions()
    /// Whether an existing file may be replaced.
    var replacesExisting = false
    /// Counts the bytes, and is checked for cancellation. Without one the export cannot be cancelled.
    var progress: Progress?
    /// The maximum permissions of the archive; `nil` for those of any new file.
    var permissions: UInt32?
    /// The reason why extraction would reject a path, which continues “… it …”, or `nil`.
    var objection: (_ path: String, _ isFolder: Bool) -> String? = { _, _ in nil }
    /// Checks the hexadecimal digest of each file, given with its path in the folder.
    var verify: (_ path: String, _ digest: String) throws -> Void = { _, _ in }
    /// Called when everything is written, before the archive gets its final name.
    var finish: () throws -> Void = {}

    /// The number of bytes read between two checks for cancellation.
    private static let pieceSize = 262_144

    /// Writes the archive.
    ///
    /// - Returns: Its manifest.
    @discardableResult
    func run() throws -> ArchiveManifest {
        _ = try options.format(at: destination)
        try signing?.checkKey()
        if !replacesExisting, FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let place = replacesExisting ? FileSystem.resolvingLink(destination) : destination
        let items = try items()
        progress?.totalUnitCount = items.reduce(0) { $0 + $1.size }
        progress?.completedUnitCount = 0
        let part = try TemporarySibling.makeFile(beside: place)
        defer { part.remove() }
        return try part.building {
            let manifest = try withUTF8Locale {
                try write(items, to: options.writer(of: part.file, at: destination))
            }
            try finish()
            try checkExtraction(of: part.path)
            try part.publishFile(replacing: replacesExisting, permissions: permissions)
            return manifest
        }
    }

    /// Checks that the archive can be extracted.
    private func checkExtraction(of archive: String) throws {
        do {
            try ArchiveExtraction(
                archive: archive, destination: "", progress: progress, countsProgress: false,
                objection: objection
            ).check()
        } catch let error as QuireError where error.code == .invalidFormat {
            throw QuireError(
                .unsupported,
                "The document was not exported, because its archive could not be extracted: \(error.message)",
                file: destination, underlying: error)
        } catch let error as QuireError where error.code == .cancelled {
            try progress?.checkCancelled(
                "The export to “\(destination)” was cancelled.", file: destination)
            throw error
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

    /// The items of the folder, in the archive's order.
    private func items() throws -> [Item] {
        var names = PortableNames()
        let items = try FileSystem.contentsOfTree(folder).map { path, information in
            let isFolder = information.kind == .folder
            var problem = names.add(path, isFolder: isFolder)
            if !isFolder && information.kind != .regular {
                problem = "is neither a file nor a folder"
            }
            if let problem {
                throw QuireError(
                    .unsupported, "“\(path)” cannot be archived: it \(problem).",
                    file: FileSystem.path(folder, path))
            }
            let composed = path.precomposedStringWithCanonicalMapping
            return Item(
                path: isFolder ? composed + "/" : composed, name: path,
                source: FileSystem.path(folder, path), isFolder: isFolder,
                size: isFolder ? 0 : information.size)
        }
        return items.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    }

    private func write(_ items: [Item], to archive: any ArchiveWriter) throws -> ArchiveManifest {
        func add(_ path: String, _ data: Data) throws {
            try archive.addFile(path, size: Int64(data.count)) { write in
                try data.withUnsafeBytes { try write($0) }
            }
        }
        // First and stored: it is too short to become smaller. So the type of the file is at a fixed place.
        if try options.format(at: destination) == .quirez {
            try add(ArchiveManifest.mediaTypePath, Data(ArchiveFormat.mediaType.utf8))
        }
        if !root.isEmpty { try archive.addFolder(root) }
        var entries: [ArchiveManifest.Entry] = []
        for item in items {
            try progress?.checkCancelled(
                "The export to “\(destination)” was cancelled.", file: destination)
            if item.isFolder {
                try archive.addFolder(prefix + item.path.dropLast())
                entries.append(.init(path: item.path, size: 0, sha256: ""))
            } else {
                let (sha256, perMiB) = try addFile(item, to: archive)
                entries.append(
                    .init(path: item.path, size: item.size, sha256: sha256, sha256PerMiB: perMiB))
            }
        }
        let manifest = ArchiveManifest(entries: entries)
        let encoded = try manifest.encoded()
        try add(prefix + ArchiveManifest.path, encoded)
        if let signing { try add(prefix + ArchiveSignature.path, signing.sign(encoded)) }
        try archive.finish()
        return manifest
    }

    private var signing: ArchiveSigning? {
        options.signingKey.map { ArchiveSigning(key: $0, archive: destination) }
    }

    private var prefix: String { root.isEmpty ? "" : root + "/" }

    /// Adds a file.
    ///
    /// - Returns: Its digests.
    private func addFile(
        _ item: Item, to archive: any ArchiveWriter
    ) throws -> (sha256: String, perMiB: [String]?) {
        let file = try OpenFile.open(item.source, for: .reading)
        let digests = ArchiveFileDigests(hasParts: item.size > ArchiveFileDigests.partSize)
        var rest = item.size
        try archive.addFile(prefix + item.path, size: item.size) { write in
            try withUnsafeTemporaryAllocation(byteCount: Self.pieceSize, alignment: 16) { buffer in
                while rest > 0 {
                    try progress?.checkCancelled(
                        "The export to “\(destination)” was cancelled.", file: destination)
                    let wanted = min(Int(clamping: rest), buffer.count)
                    let count = try file.read(
                        into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
                    if count == 0 { break }
                    let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                    digests.update(piece)
                    try write(piece)
                    rest -= Int64(count)
                    progress?.completedUnitCount += Int64(count)
                }
            }
        }
        guard rest == 0 else {
            throw QuireError(
                .inputOutput, "“\(file.path)” became shorter while it was being exported.",
                file: file.path)
        }
        let result = digests.finalize()
        try verify(item.name, result.sha256)
        return result
    }
}
