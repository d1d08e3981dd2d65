import Crypto
public import Foundation
package import Quire

// Archives of a package, and packages made of them.

/// The protection of an archive that is made of a protected document.
public enum ArchiveProtection: Sendable, Hashable {
    /// The archive contains the files as they are sealed, and the keybag: what opens the document opens what is extracted.
    case keep
    /// The archive is in clear.
    case remove
}

extension DocumentPackage {
    /// Exports the package as of the last save to an archive: `.zip` or `.tar.zst`, as the path's extension says.
    ///
    /// Exporting an unchanged document again gives an equal archive, unless it is protected. Others may go on reading and saving
    /// meanwhile. What is exported is checked: the database, and the digests of external data; and the archive is read again as
    /// ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)`` reads it. It has the permissions of the store.
    ///
    /// A protected document must be unlocked, also for an archive that remains sealed: without its keys the write-ahead log
    /// could not be merged, nor unsaved changes left out, nor anything checked.
    ///
    /// - Parameters:
    ///   - path: The archive to make.
    ///   - replacing: Whether to replace a file that is there.
    ///   - keepingDamage: Whether a damaged package is exported too, with its damage.
    ///   - protection: The protection of the archive of a protected document, which has to be chosen; ignored for others.
    ///   - progress: Gets the bytes to write as its total; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `invalidFormat` if the package is damaged, or lacks values
    ///   that have not arrived from other machines, `protectionUnavailable` if it is protected and nothing was chosen,
    ///   `protectedDataUnavailable` if it is locked, `cancelled` or what reading and writing throw. Then there is no archive.
    public func export(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, progress: Progress? = nil
    ) throws {
        let path = FileSystem.absolute(path)
        _ = try ArchiveFormat(path: path)
        let removesProtection = try checkChoice(protection, keepingDamage: keepingDamage)
        try checkOutside(path)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        // Beside the archive: there is room, or the archive would not fit either.
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        var staging = DocumentPackageLayout(path: FileSystem.path(sibling.path, "staging"))
        let digests = try sibling.building {
            try FileSystem.makeFolder(staging.storeFolder, withIntermediates: true)
            let digests = try fill(staging, by: .linking, keepingDamage: keepingDamage)
            if !keepingDamage, location() != .here {
                // An archive is not a rescue; it has everything, or it is not made.
                let missing = try missingFiles()
                if !missing.isEmpty { throw self.damaged(missing) }
            }
            if !keepingDamage,
                let missing = try store.read({ try $0.missingSynchronizedValues() })
            {
                throw QuireError(
                    .invalidFormat,
                    "“\(layout.path)” is not complete, and was not exported: \(missing) Use --keep-damage to export it without them.",
                    subject: .init(file: layout.path))
            }
            if removesProtection {
                let clear = DocumentPackageLayout(path: FileSystem.path(sibling.path, "clear"))
                try FileSystem.makeFolder(clear.storeFolder, withIntermediates: true)
                let package = try Self.open(at: staging.path, readOnly: true)
                defer { try? package.close() }
                try package.fill(clear, protectedBy: nil)
                staging = clear
            }
            return digests
        }
        var damaged: [String] = []
        try ArchiveExport(
            folder: staging.path, destination: path, replacesExisting: replacing,
            progress: progress,
            permissions: FileSystem.information(at: layout.store)?.permissions,
            objection: DocumentPackageLayout.objection(toArchived:isFolder:),
            verify: { path, digest in
                if let expected = digests[FileSystem.path(staging.path, path)],
                    expected != digest
                {
                    damaged.append(self.externalDataMessage(path, "is not what was saved"))
                }
            },
            finish: { if !damaged.isEmpty { throw self.damaged(damaged) } }
        ).run()
    }

    /// Whether the archive is to be in clear although the document is protected.
    private func checkChoice(
        _ chosen: ArchiveProtection?, keepingDamage: Bool
    ) throws -> Bool {
        guard let present = store.protection else { return false }
        let name = present.fileProtection.rawValue
        switch chosen {
        case .keep: return false
        case .remove where !keepingDamage: return true
        case .remove:
            throw QuireError(
                .unsupported,
                "“\(layout.path)” is protected (\(name)), and what is damaged cannot be exported in clear; keep its protection, or recover it first.",
                subject: .init(file: layout.path))
        case nil:
            throw QuireError(
                .protectionUnavailable,
                "“\(layout.path)” is protected (\(name)): choose whether the archive is sealed with the same keys or in clear.",
                subject: .init(file: layout.path))
        }
    }

    /// Extracts an archive into a new package.
    ///
    /// Nothing in the archive is trusted: it must hold the files of a document and nothing else, exactly as its manifest
    /// lists them, and a store that is sound. The package is there whole, or not at all.
    ///
    /// Of a document that is protected and locked, only the keybag and the headers of the files are checked.
    ///
    /// - Parameters:
    ///   - archive: The archive, made by ``export(to:replacing:keepingDamage:protection:progress:)``.
    ///   - path: The package to make.
    ///   - limits: What the archive may contain at most.
    ///   - keepingDamage: Whether the document may be damaged, as one that was exported with its damage is. The archive
    ///     must be as it was written all the same, and the store must open.
    ///   - progress: Gets the archive's bytes as its total; cancelling it stops the extraction and leaves nothing.
    /// - Returns: Whether the store was checked. It was not if the document is protected and locked.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound`, `invalidFormat`, `cancelled` or what reading and
    ///   writing throw.
    @discardableResult
    public static func extract(
        _ archive: String, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> Bool {
        try extract(
            archive, to: path, limits: limits, keepingDamage: keepingDamage, progress: progress,
            unlocking: { _ in })
    }

    /// Extracts the archive of a URL into a new package; see
    /// ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if a URL is not that of a file, or as that method.
    @discardableResult
    public static func extract(
        _ archive: URL, to url: URL, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> Bool {
        try extract(
            FileSystem.path(of: archive), to: FileSystem.path(of: url), limits: limits,
            keepingDamage: keepingDamage, progress: progress)
    }

    /// As ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``, with what unlocks a protected document before it
    /// is checked. Its domain must be retained until the document is open, or its state is lost.
    package static func extract(
        _ archive: String, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil,
        unlocking: (ProtectionDomain) throws -> Void
    ) throws -> Bool {
        try checkOutside(path)
        var isVerified = false
        try withoutActuallyEscaping(unlocking) { unlocking in
            try ArchiveExtraction(
                archive: archive, destination: FileSystem.absolute(path), limits: limits,
                progress: progress,
                objection: DocumentPackageLayout.objection(toArchived:isFolder:),
                verify: {
                    isVerified = try verifyExtracted(
                        $0, from: archive, keepingDamage: keepingDamage, unlocking)
                }
            ).run()
        }
        return isVerified
    }

    /// The manifest of an archive, read without extracting it.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    public static func manifest(ofArchive path: String) throws -> ArchiveManifest {
        try ArchiveExtraction.manifest(of: path)
    }

    /// Checks an extracted package.
    ///
    /// - Returns: Whether the store was checked: not if it is locked.
    private static func verifyExtracted(
        _ folder: String, from archive: String, keepingDamage: Bool,
        _ unlocking: (ProtectionDomain) throws -> Void
    ) throws -> Bool {
        let layout = DocumentPackageLayout(path: folder)
        guard layout.isPackage else {
            throw QuireError(
                .invalidFormat, "“\(archive)” is no archive of a document: it has no store.",
                subject: .init(file: archive))
        }
        do {
            let domain = try protectionDomain(at: folder)
            if let domain {
                try checkIsSealed(layout, domain.protection)
                try unlocking(domain)
            }
            return try withExtendedLifetime(domain) {
                try verifyContent(of: folder, keepingDamage: keepingDamage)
            }
        } catch let error as QuireError {
            let codes: [QuireError.Code] = [.unsupported, .wrongKey]
            let keybag = FileSystem.path(archive, StoreProtection.keybagName)
            let message = error.message.replacing(layout.keybag, with: keybag)
            throw QuireError(
                codes.contains(error.code) ? error.code : .invalidFormat,
                "The document in “\(archive)” cannot be used: \(message)",
                subject: .init(file: archive), underlying: error)
        }
    }

    /// - Returns: Whether it could be read: not if it is locked.
    private static func verifyContent(of folder: String, keepingDamage: Bool) throws -> Bool {
        let package: DocumentPackage
        do { package = try open(at: folder, readOnly: true) } catch let error as QuireError
            where error.code == .protectedDataUnavailable
        {
            return false
        }
        defer { try? package.close() }
        if keepingDamage { return true }
        // What export looks at, and what it does not let into an archive: not whether values satisfy the model.
        let damage =
            try package.store.integrityProblems().map(package.databaseMessage)
            + package.externalDataDamage(of: package.store, by: .copying).problems
        if let problem = damage.first { throw QuireError(.invalidFormat, "\(problem).") }
        if let problem = try package.packageProblems().first(where: { $0.severity == .error }) {
            throw QuireError(.invalidFormat, problem.message)
        }
        return true
    }

    /// Checks, without a key, that the files of a package are sealed as its keybag says.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    private static func checkIsSealed(
        _ layout: DocumentPackageLayout, _ protection: FileProtection
    ) throws {
        for (name, information) in try FileSystem.contentsOfTree(layout.path)
        where information.kind == .regular {
            let path = FileSystem.path(layout.path, name)
            switch path {
            case layout.metadata, layout.keybag: continue
            case layout.store: try StoreProtection.checkIsSealed(path)
            default:
                let file = try OpenFile.open(path, beneath: layout.path, for: .reading)
                defer { file.close() }
                let count = min(Int(clamping: information.size), SealedFileHeader.byteCount)
                let header = try SealedFileHeader(parsing: file.read(count, at: 0), path: path)
                guard header.wrappedKey.fileProtection == protection else {
                    throw QuireError(
                        .invalidFormat,
                        "“\(path)” is sealed as “\(header.wrappedKey.fileProtection.rawValue)”, and the document is “\(protection.rawValue)”.",
                        subject: .init(file: path))
                }
            }
        }
    }
}

// MARK: - Export

/// Writes a finished package folder to an archive.
///
/// The archive is written beside its destination, synchronized, and renamed: it is there whole or not at all. Two
/// archives of equal folders are equal byte by byte, whatever the time zone, the user or the files' dates.
struct ArchiveExport {
    /// The folder whose content becomes the archive's. It must not change meanwhile.
    var folder: String
    /// The archive to make.
    var destination: String
    /// Whether a file that is there may be replaced.
    var replacesExisting = false
    /// Gets the number of bytes as its total, and is asked whether to stop. Without one it cannot be stopped.
    var progress: Progress?
    /// The permissions that the archive has at most; `nil` for those of any new file.
    var permissions: UInt32?
    /// The reason why a path would be refused by what extracts the archive, to continue “… it …”, or `nil`.
    var objection: (_ path: String, _ isFolder: Bool) -> String? = { _, _ in nil }
    /// Looks at the digest of each file, which is in hexadecimal digits, with its path in the folder.
    var verify: (_ path: String, _ digest: String) throws -> Void = { _, _ in }
    /// Called when everything is written, before the archive gets its name.
    var finish: () throws -> Void = {}

    /// The number of bytes read between two checks for cancellation.
    private static let pieceSize = 262_144

    /// Writes the archive.
    func run() throws {
        let format = try ArchiveFormat(path: destination)
        if !replacesExisting, FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let place = replacesExisting ? FileSystem.resolvingLink(destination) : destination
        let items = try items()
        progress?.totalUnitCount = items.reduce(0) { $0 + $1.size }
        progress?.completedUnitCount = 0
        let part = try TemporarySibling.makeFile(beside: place)
        defer { part.remove() }
        try part.building {
            try withUTF8Locale {
                try write(items, to: ArchiveWriter(format: format, file: part.file))
            }
            try finish()
            try checkExtraction(of: part.path)
            try part.file.setPermissionsIfPossible(
                part.defaultPermissions & (permissions ?? 0o777))
            try part.file.synchronize()
            guard replacesExisting else { return try part.publish() }
            try TerminationCleanup.uninterrupted {
                try FileSystem.rename(part.path, to: place)
            }
            try FileSystem.synchronizeFolder(containing: place)
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
                "The document was not exported, because the archive could not be extracted again: \(error.message)",
                subject: .init(file: destination), underlying: error)
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
            try progress?.checkCancelled(
                "The export to “\(destination)” was cancelled.", file: destination)
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
                    try progress?.checkCancelled(
                        "The export to “\(destination)” was cancelled.", file: destination)
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
