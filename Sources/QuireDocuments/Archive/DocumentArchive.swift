public import Foundation
package import Quire
internal import QuireSQLite

// Exporting a package to an archive, and extracting it again.

extension DocumentPackage {
    /// Exports the package as of the last save to an archive: one file that other programs can unpack. Unless `options` chooses
    /// another format, the path's extension does; see ``ArchiveFormat``.
    ///
    /// Exporting an unchanged document again produces an identical archive, unless it is protected, whatever the user, the place and the
    /// number of threads; its name is part of the archive. Other processes can read and save the document meanwhile. The database and
    /// the digests of external data are checked, and the archive is read back as ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``
    /// reads it. It has the permissions of the store, if the package's folder lets others reach it.
    ///
    /// A protected document must be unlocked even if the archive stays encrypted: without the keys, the write-ahead log cannot be
    /// merged, unsaved changes cannot be omitted, and nothing can be checked.
    ///
    /// - Parameters:
    ///   - path: The archive to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - keepingDamage: Whether to export a damaged package as it is.
    ///   - protection: The protection of the archive; required if the document is protected, and ignored otherwise.
    ///   - options: The format of the archive, and its optional contents.
    ///   - progress: Counts the bytes to write. Cancelling it stops the export and leaves no file.
    /// - Returns: The list of the archive's files.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `invalidValue` if the format does not have the level,
    ///   `invalidFormat` if the package is damaged or lacks values that have not arrived from other machines,
    ///   `protectionUnavailable` if it is protected and `protection` is `nil`, `protectedDataUnavailable` if it is locked,
    ///   `inputOutput` if signing fails, `cancelled`, or errors of reading and writing. Then no archive is left.
    @discardableResult
    public func export(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, options: ArchiveOptions = ArchiveOptions(),
        progress: Progress? = nil
    ) throws -> ArchiveManifest {
        try export(
            to: path, replacing: replacing, keepingDamage: keepingDamage, protection: protection,
            options: options, progress: progress, whenCopied: {})
    }

    /// Exports the package to an open file, pipe or socket, for example standard output. Nothing is written before the archive is
    /// complete and checked.
    ///
    /// The descriptor stays open. Without a format in the options, it is a zip file.
    ///
    /// - Returns: The list of the archive's files.
    /// - Throws: As ``export(to:replacing:keepingDamage:protection:options:progress:)``. If writing to the descriptor fails, a part may
    ///   have been written.
    @discardableResult
    public func export(
        to descriptor: Int32, keepingDamage: Bool = false, protection: ArchiveProtection? = nil,
        options: ArchiveOptions = ArchiveOptions(), progress: Progress? = nil
    ) throws -> ArchiveManifest {
        let output = try OpenFile.duplicate(of: descriptor)
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        defer { folder.remove() }
        var options = options
        options.format = options.format ?? .zip
        let path = FileSystem.path(folder.path, "archive")
        let manifest = try export(
            to: path, keepingDamage: keepingDamage, protection: protection, options: options,
            progress: progress)
        let archive = try OpenFile.open(path, for: .reading)
        try withUnsafeTemporaryAllocation(byteCount: 262_144, alignment: 16) { buffer in
            while true {
                let count = try archive.read(into: buffer)
                if count == 0 { return }
                try output.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        return manifest
    }

    /// - Parameter whenCopied: Called when the package's files are not needed any more.
    func export(
        to path: String, replacing: Bool, keepingDamage: Bool, protection: ArchiveProtection?,
        options: ArchiveOptions, progress: Progress?, whenCopied: () -> Void
    ) throws -> ArchiveManifest {
        let path = FileSystem.absolute(path)
        let format = try options.format(at: path)
        let removesProtection = try checkChoice(protection, keepingDamage: keepingDamage)
        if removesProtection && options.includesVersions {
            throw QuireError(
                .unsupported,
                "“\(layout.path)” is protected, so its versions cannot be exported unencrypted; export it without them, or keep its protection.",
                file: layout.path)
        }
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
            var digests = try fillComplete(
                staging, keepingDamage: keepingDamage,
                advice: "Use --keep-damage to export it without them.")
            if !options.includesHistory {
                let package = try Self.open(at: staging.path)
                defer { try? package.close() }
                _ = try package.store.execute(.deleteHistory(before: .distantFuture))
                // Deleted rows would remain in free pages; a copy has none.
                staging = DocumentPackageLayout(path: FileSystem.path(sibling.path, "copy"))
                try FileSystem.makeFolder(staging.storeFolder, withIntermediates: true)
                digests = try package.fill(staging, by: .linking, keepingDamage: keepingDamage)
            }
            if options.includesVersions { try versionStore.link(into: staging) }
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
        return try ArchiveExport(
            folder: staging.path, destination: path,
            root: format == .quirez ? "" : archivedName, options: options,
            replacesExisting: replacing, progress: progress, permissions: permissions,
            objection: DocumentPackageLayout.objection(toArchived:isFolder:),
            verify: { path, digest in
                if let expected = digests[FileSystem.path(staging.path, path)],
                    expected != digest
                {
                    damaged.append(self.externalDataMessage(path, "was changed after it was saved"))
                }
            },
            finish: { if !damaged.isEmpty { throw self.damaged(damaged) } }
        ).run()
    }

    /// The name of the package in its archives.
    private var archivedName: String {
        let name = FileSystem.name(of: layout.path).precomposedStringWithCanonicalMapping
        let isUsable =
            !FileName.hasEscapes(name) && PortableNames.problem(with: name) == nil
            && ArchiveName.normalized(name) == name
        return isUsable ? name : "Document.quire"
    }

    /// Fills a new folder with the package as of the last save: an export is not a rescue, it is complete, or it is not written.
    ///
    /// - Parameter advice: The sentence that ends the message of an error about missing values.
    /// - Returns: The expected digests of linked files, in hexadecimal digits, by their paths.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the package is damaged or incomplete, unless damage is to be kept.
    func fillComplete(
        _ staging: DocumentPackageLayout, keepingDamage: Bool = false, advice: String
    ) throws -> [String: String] {
        let digests = try fill(staging, by: .linking, keepingDamage: keepingDamage)
        if keepingDamage { return digests }
        if location() != .here {
            let missing = try missingFiles()
            if !missing.isEmpty { throw damaged(missing) }
        }
        if let missing = try store.read({ try $0.missingSynchronizedValues() }) {
            throw QuireError(
                .invalidFormat,
                "“\(layout.path)” was not exported, because it is incomplete: \(missing) \(advice)",
                file: layout.path)
        }
        return digests
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
                file: layout.path)
        case nil:
            throw QuireError(
                .protectionUnavailable,
                "“\(layout.path)” is protected (\(name)); choose whether the archive is sealed with the same keys or not encrypted.",
                file: layout.path)
        }
    }

    /// Extracts the document in an archive, or in a folder, into a new package.
    ///
    /// The archive is untrusted. If it has a manifest, as archives exported by Quire do, its files must be exactly those that the
    /// manifest lists. Zip, tar and 7z archives created by other programs, and folders, are accepted if they contain exactly one
    /// document, wherever it is; files that are not part of a document are omitted. The store must be intact in any case. The
    /// package is created completely or not at all.
    ///
    /// If the document is protected and locked, only the keybag and the headers of the files are checked.
    ///
    /// - Parameters:
    ///   - archive: The archive or folder.
    ///   - path: The package to create.
    ///   - limits: The limits on the archive's content.
    ///   - keepingDamage: Whether the document may be damaged, as after an export that kept its damage. The archive itself
    ///     must still match its manifest, and the store must open.
    ///   - progress: Counts the archive's bytes. Cancelling it stops the extraction and leaves nothing.
    /// - Returns: The result of the checks, and the omitted files.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound`, `invalidFormat`, `locked` if it is a folder with a document that is
    ///   open for writing, `cancelled`, or errors of reading and writing.
    @discardableResult
    public static func extract(
        _ archive: String, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> ExtractedArchive {
        try extract(
            archive, to: path, limits: limits, keepingDamage: keepingDamage, progress: progress,
            unlocking: { _ in })
    }

    /// Extracts the document in the archive or folder at a URL into a new package; see
    /// ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if a URL is not a file URL, or the errors of that method.
    @discardableResult
    public static func extract(
        _ archive: URL, to url: URL, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> ExtractedArchive {
        try extract(
            FileSystem.path(of: archive), to: FileSystem.path(of: url), limits: limits,
            keepingDamage: keepingDamage, progress: progress)
    }

    /// Extracts the archive that an open file, pipe or socket contains, for example standard input; see
    /// ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``. It is read to its end first. The descriptor stays open.
    @discardableResult
    public static func extract(
        _ descriptor: Int32, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> ExtractedArchive {
        try extract(
            descriptor, named: "descriptor \(descriptor)", to: path, limits: limits,
            keepingDamage: keepingDamage, progress: progress, unlocking: { _ in })
    }

    /// As ``extract(_:to:limits:keepingDamage:progress:)-(Int32,_,_,_,_)``, with a closure that unlocks a protected document.
    ///
    /// - Parameter name: The name of the archive in errors.
    package static func extract(
        _ descriptor: Int32, named name: String, to path: String,
        limits: ArchiveLimits = ArchiveLimits(), keepingDamage: Bool = false,
        progress: Progress? = nil, unlocking: (ProtectionDomain) throws -> Void
    ) throws -> ExtractedArchive {
        let spool = try spooled(
            descriptor, named: name, beside: path, limits: limits, progress: progress)
        defer { spool.remove() }
        return try extract(
            name, at: spool.path, to: path, limits: limits, keepingDamage: keepingDamage,
            progress: progress, unlocking: unlocking)
    }

    /// Copies an archive from an open file, pipe or socket to a temporary file, which the caller removes.
    ///
    /// - Parameter name: The name of the archive in errors.
    static func spooled(
        _ descriptor: Int32, named name: String, beside path: String, limits: ArchiveLimits,
        progress: Progress?
    ) throws -> TemporarySibling {
        let input = try OpenFile.duplicate(of: descriptor)
        let spool = try TemporarySibling.makeFile(beside: path)
        var size: Int64 = 0
        do {
            try withUnsafeTemporaryAllocation(byteCount: 262_144, alignment: 16) { buffer in
                while true {
                    try progress?.checkCancelled(
                        "Reading “\(name)” was cancelled.", file: name)
                    let count = try input.read(into: buffer)
                    if count == 0 { return }
                    size += Int64(count)
                    if size > limits.bytes {
                        throw QuireError(
                            .invalidFormat,
                            "“\(name)” exceeds the limit of \(limits.bytes) bytes.",
                            file: name)
                    }
                    try spool.file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                }
            }
            // As private as any new file.
            try spool.file.setPermissionsIfPossible(spool.defaultPermissions)
            return spool
        } catch {
            spool.remove()
            throw error
        }
    }

    /// As ``extract(_:to:limits:keepingDamage:progress:)-(String,_,_,_,_)``, with a closure that unlocks a protected document
    /// before it is checked. Retain the domain until the document is open, or its state is lost.
    ///
    /// - Parameter location: The path to read from, if errors name another one.
    package static func extract(
        _ archive: String, at location: String? = nil, to path: String,
        limits: ArchiveLimits = ArchiveLimits(), keepingDamage: Bool = false,
        progress: Progress? = nil, unlocking: (ProtectionDomain) throws -> Void
    ) throws -> ExtractedArchive {
        try checkOutside(path)
        var isStoreChecked = false
        return try withoutActuallyEscaping(unlocking) { unlocking in
            var result = try ArchiveExtraction(
                archive: archive, location: location, destination: FileSystem.absolute(path),
                limits: limits, progress: progress,
                objection: DocumentPackageLayout.objection(toArchived:isFolder:),
                isPart: DocumentPackageLayout.isPart(_:isFolder:),
                verify: {
                    isStoreChecked = try verifyExtracted(
                        $0, from: archive, keepingDamage: keepingDamage, unlocking)
                }
            ).run()
            result.isStoreChecked = isStoreChecked
            return result
        }
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
                file: archive)
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
                file: archive, underlying: error)
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
                        file: path)
                }
            }
        }
    }
}
