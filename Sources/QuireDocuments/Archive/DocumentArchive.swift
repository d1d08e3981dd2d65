import Crypto
public import Foundation
package import Quire
internal import QuireSQLite

// Exporting a package to an archive, and extracting it again.

/// The protection of an archive exported from a protected document.
public enum ArchiveProtection: Sendable, Hashable {
    /// The archive contains the sealed files and the keybag; the keys of the document open the extracted package.
    case keep
    /// The archive is not encrypted.
    case remove
}

extension DocumentPackage {
    /// Exports the package as of the last save to a `.zip` or `.tar.zst` archive; the path's extension selects the format.
    ///
    /// Exporting an unchanged document again produces an identical archive, unless it is protected. Other processes can read
    /// and save the document meanwhile. The database and the digests of external data are checked, and the archive is read back
    /// as ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)`` reads it. It has the permissions of the store, if the
    /// package's folder lets others reach it.
    ///
    /// A protected document must be unlocked even if the archive stays sealed: without the keys, the write-ahead log cannot be
    /// merged, unsaved changes cannot be left out, and nothing can be checked.
    ///
    /// - Parameters:
    ///   - path: The archive to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - keepingDamage: Whether to export a damaged package as it is.
    ///   - protection: The protection of the archive; required if the document is protected, and ignored otherwise.
    ///   - progress: Counts the bytes to write. Cancelling it stops the export and leaves no file.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `invalidFormat` if the package is damaged or lacks values
    ///   that have not arrived from other machines, `protectionUnavailable` if it is protected and `protection` is `nil`,
    ///   `protectedDataUnavailable` if it is locked, `cancelled`, or errors of reading and writing. No archive is left then.
    public func export(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, progress: Progress? = nil
    ) throws {
        try export(
            to: path, replacing: replacing, keepingDamage: keepingDamage, protection: protection,
            progress: progress, whenCopied: {})
    }

    /// - Parameter whenCopied: Called when the package's files are not needed any more.
    func export(
        to path: String, replacing: Bool, keepingDamage: Bool, protection: ArchiveProtection?,
        progress: Progress?, whenCopied: () -> Void
    ) throws {
        let path = FileSystem.absolute(path)
        _ = try ArchiveFormat(path: path)
        let removesProtection = try checkChoice(protection, keepingDamage: keepingDamage)
        try checkOutside(path)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        // On the archive's file system: if there is no room for the copy, there is none for the archive.
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        var staging = DocumentPackageLayout(path: FileSystem.path(sibling.path, "staging"))
        let digests = try sibling.building {
            try FileSystem.makeFolder(staging.storeFolder, withIntermediates: true)
            let digests = try fill(staging, by: .linking, keepingDamage: keepingDamage)
            if !keepingDamage, location() != .here {
                // An archive is not a rescue: it is complete, or it is not written.
                let missing = try missingFiles()
                if !missing.isEmpty { throw self.damaged(missing) }
            }
            if !keepingDamage,
                let missing = try store.read({ try $0.missingSynchronizedValues() })
            {
                throw QuireError(
                    .invalidFormat,
                    "“\(layout.path)” was not exported, because it is incomplete: \(missing) Use --keep-damage to export it without them.",
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
        let permissions = try SQLiteStore.permissions(forCopyOf: layout.store)
        whenCopied()
        var damaged: [String] = []
        try ArchiveExport(
            folder: staging.path, destination: path, replacesExisting: replacing,
            progress: progress, permissions: permissions,
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

    /// Whether the archive of a protected document is not encrypted.
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
                "“\(layout.path)” is protected (\(name)), so its damage cannot be exported unencrypted; keep its protection, or recover it first.",
                subject: .init(file: layout.path))
        case nil:
            throw QuireError(
                .protectionUnavailable,
                "“\(layout.path)” is protected (\(name)); choose whether the archive is sealed with the same keys or not encrypted.",
                subject: .init(file: layout.path))
        }
    }

    /// Extracts an archive into a new package.
    ///
    /// The archive is untrusted: it must contain exactly the files that its manifest lists, all of them parts of a document,
    /// and a sound store. The package is created whole, or not at all.
    ///
    /// If the document is protected and locked, only the keybag and the headers of the files are checked.
    ///
    /// - Parameters:
    ///   - archive: The archive, written by ``export(to:replacing:keepingDamage:protection:progress:)``.
    ///   - path: The package to create.
    ///   - limits: The limits on the archive's content.
    ///   - keepingDamage: Whether the document may be damaged, as after an export that kept its damage. The archive itself
    ///     must still match its manifest, and the store must open.
    ///   - progress: Counts the archive's bytes. Cancelling it stops the extraction and leaves nothing.
    /// - Returns: Whether the store was checked. It was not if the document is protected and locked.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound`, `invalidFormat` or `cancelled`, or errors of reading and
    ///   writing.
    @discardableResult
    public static func extract(
        _ archive: String, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> Bool {
        try extract(
            archive, to: path, limits: limits, keepingDamage: keepingDamage, progress: progress,
            unlocking: { _ in })
    }

    /// Extracts the archive at a URL into a new package; see
    /// ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if a URL is not a file URL, or the errors of that method.
    @discardableResult
    public static func extract(
        _ archive: URL, to url: URL, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> Bool {
        try extract(
            FileSystem.path(of: archive), to: FileSystem.path(of: url), limits: limits,
            keepingDamage: keepingDamage, progress: progress)
    }

    /// As ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``, with a closure that unlocks a protected document
    /// before it is checked. Retain the domain until the document is open, or its state is lost.
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
    /// - Returns: Whether the store was checked; `false` if it is locked.
    private static func verifyExtracted(
        _ folder: String, from archive: String, keepingDamage: Bool,
        _ unlocking: (ProtectionDomain) throws -> Void
    ) throws -> Bool {
        let layout = DocumentPackageLayout(path: folder)
        guard layout.isPackage else {
            throw QuireError(
                .invalidFormat, "“\(archive)” is not a document archive: it has no store.",
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

    /// - Returns: Whether it could be read; `false` if it is locked.
    private static func verifyContent(of folder: String, keepingDamage: Bool) throws -> Bool {
        let package: DocumentPackage
        do { package = try open(at: folder, readOnly: true) } catch let error as QuireError
            where error.code == .protectedDataUnavailable
        {
            return false
        }
        defer { try? package.close() }
        if keepingDamage { return true }
        // The same checks as in an export. Whether values satisfy the model is not one of them.
        let damage =
            try package.store.integrityProblems().map(package.databaseMessage)
            + package.externalDataDamage(of: package.store, by: .copying).problems
        if let problem = damage.first { throw QuireError(.invalidFormat, "\(problem).") }
        if let problem = try package.packageProblems().first(where: { $0.severity == .error }) {
            throw QuireError(.invalidFormat, problem.message)
        }
        return true
    }

    /// Checks, without a key, that the files of a package are sealed with the class that its keybag states.
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
                        "“\(path)” has the protection class “\(header.wrappedKey.fileProtection.rawValue)”, but the document has “\(protection.rawValue)”.",
                        subject: .init(file: path))
                }
            }
        }
    }
}

// MARK: - Export

/// Writes a finished package folder to an archive.
///
/// The archive is written beside its destination, synchronized, and renamed, so that it appears whole or not at all. Archives
/// of equal folders are equal byte by byte, whatever the time zone, the user or the files' dates.
struct ArchiveExport {
    /// The folder whose content becomes the archive's. It must not change meanwhile.
    var folder: String
    /// The archive to create.
    var destination: String
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
            try part.publishFile(replacing: replacesExisting, permissions: permissions)
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
            if !isFolder && information.kind != .regular {
                problem = "is neither a file nor a folder"
            }
            if let problem {
                throw QuireError(
                    .unsupported, "“\(path)” cannot be archived: it \(problem).",
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
                .inputOutput, "“\(file.path)” became shorter while it was being exported.",
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
