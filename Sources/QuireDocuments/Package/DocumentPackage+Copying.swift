public import Foundation
import Quire

// Copies of a package, all of the state that one save left: other packages, and archives.

extension DocumentPackage {
    /// Writes a copy of the package as of the last save. Others may go on reading and saving meanwhile.
    ///
    /// The copy has the same store UUID. It is there whole, or not at all.
    ///
    /// - Parameters:
    ///   - path: The package to make.
    ///   - replacing: Whether to replace a package that is there.
    /// - Throws: ``QuireError`` with code `alreadyExists` or what reading and writing throw.
    public func writeCopy(to path: String, replacing: Bool = false) throws {
        try checkOutside(path)
        if replacing { try checkReplaceable(path) }
        try Self.build(at: path, replacing: replacing) { try fill($0, by: .copying) }
    }

    /// Writes a copy of the package as of the last save beside it, under a name that nothing has: “Name 2”, or 3, 4 ….
    ///
    /// - Returns: The path of the copy.
    /// - Throws: As ``writeCopy(to:replacing:)``.
    public func duplicate() throws -> String {
        while true {
            let path = SiblingName.unused(beside: layout.path)
            do {
                try writeCopy(to: path)
                return path
            } catch let error as QuireError where error.code == .alreadyExists {
                // Somebody else was faster.
                continue
            }
        }
    }

    /// Throws if a path is in the package itself, where nothing of the user's has a place.
    func checkOutside(_ path: String) throws {
        let own = try folder?.information() ?? FileSystem.information(at: layout.path)
        guard let own else { return }
        var above = FileSystem.folder(of: FileSystem.absolute(path))
        while true {
            if try FileSystem.information(at: above)?.isSameFile(as: own) == true {
                throw QuireError(
                    .invalidValue,
                    "“\(path)” is in the document “\(layout.path)” itself; choose a place outside of it.",
                    subject: .init(file: path))
            }
            // Through a symbolic link “above” is elsewhere than its path says.
            guard let real = realpath(above, nil) else { return }
            let resolved = String(cString: real)
            free(real)
            if resolved == "/" { return }
            above = FileSystem.folder(of: resolved)
        }
    }

    /// Throws if something else than another document would be replaced.
    func checkReplaceable(_ path: String) throws {
        guard FileSystem.exists(path) else { return }
        let other = DocumentPackageLayout(path: path)
        guard other.isPackage else {
            throw QuireError(
                .alreadyExists, "“\(path)” is there and is no document; it is not replaced.",
                subject: .init(file: path))
        }
        let folders = try [layout.path, other.path].map(FileSystem.information(at:))
        if let own = folders[0], let others = folders[1], own.isSameFile(as: others) {
            throw QuireError(
                .alreadyExists,
                "“\(path)” is the document itself; save it, instead of writing a copy over it.",
                subject: .init(file: path))
        }
    }

    /// Exports the package as of the last save to an archive: `.zip` or `.tar.zst`, as the path's extension says.
    ///
    /// Exporting an unchanged document again gives an equal archive. Others may go on reading and saving
    /// meanwhile.
    ///
    /// - Parameters:
    ///   - path: The archive to make.
    ///   - replacing: Whether to replace a file that is there.
    ///   - progress: Gets the bytes to write as its total; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `cancelled` or what reading and writing throw.
    public func export(
        to path: String, replacing: Bool = false, progress: Progress? = nil
    ) throws {
        let path = FileSystem.absolute(path)
        _ = try ArchiveFormat(path: path)
        try checkOutside(path)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        FileSystem.removeStaleSiblings(of: path)
        // Beside the archive: there is room, or the archive would not fit either.
        let staging = FileSystem.temporarySibling(of: path, for: "staging")
        do {
            try FileSystem.makeFolder(staging)
        } catch let error as QuireError where error.code == .notFound {
            throw FileSystem.failure("open", FileSystem.folder(of: path), errno: ENOENT)
        }
        defer { try? FileSystem.removeTree(staging) }
        let claim = try OpenFile.open(staging, for: .folder, reportedAs: path)
        _ = try claim.claim()
        let layout = DocumentPackageLayout(path: staging)
        try FileSystem.makeFolder(layout.storeFolder)
        try fill(layout, by: .linking)
        try ArchiveExport(
            folder: staging, destination: path, replacesExisting: replacing, progress: progress
        ).run()
    }

    /// Extracts an archive into a new package.
    ///
    /// Nothing in the archive is trusted: it must hold the files of a document and nothing else, exactly as its manifest
    /// lists them, and a store that is sound. The package is there whole, or not at all.
    ///
    /// - Parameters:
    ///   - archive: The archive, made by ``export(to:replacing:progress:)``.
    ///   - path: The package to make.
    ///   - limits: What the archive may contain at most.
    ///   - progress: Gets the archive's bytes as its total; cancelling it stops the extraction and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound`, `invalidFormat`, `cancelled` or what reading and
    ///   writing throw.
    public static func extract(
        _ archive: String, to path: String, limits: ArchiveLimits = ArchiveLimits(),
        progress: Progress? = nil
    ) throws {
        try ArchiveExtraction(
            archive: archive, destination: FileSystem.absolute(path), limits: limits,
            progress: progress, objection: DocumentPackageLayout.objection(toArchived:isFolder:),
            verify: { try verifyExtracted($0, from: archive) }
        ).run()
    }

    /// What an archive says is in it, without extracting it.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    public static func manifest(ofArchive path: String) throws -> ArchiveManifest {
        try ArchiveExtraction.manifest(of: path)
    }

    /// Fills a new folder with this package's content.
    func fill(
        _ target: DocumentPackageLayout, by method: FileSystem.CopyMethod
    ) throws {
        // A writer may remove what the copied store refers to before we have copied it; then the copy is made anew.
        var attempts = 3
        while true {
            do {
                return try fillOnce(target, by: method)
            } catch let error as QuireError where error.code == .notFound && attempts > 1 {
                attempts -= 1
                try FileSystem.removeTree(target.storeFolder)
                try FileSystem.makeFolder(target.storeFolder)
                if FileSystem.exists(target.additionalContent) {
                    try FileSystem.removeTree(target.additionalContent)
                }
            }
        }
    }

    private func fillOnce(
        _ target: DocumentPackageLayout, by method: FileSystem.CopyMethod
    ) throws {
        try store.writeCopy(
            to: target.store, linking: method == .linking, withoutDraft: true)
        // What the copy says, which may be of an earlier save than what the store says by now.
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let copy = try SQLiteStore.open(
            at: target.store, model: store.layout.model, options: options)
        defer { try? copy.close() }
        var generation = try content.generation(in: copy.records())
        if let named = generation, place() != .here,
            !FileSystem.exists(layout.additionalContent(generation: named))
        {
            generation = nil  // It went with what others have removed.
        }
        if let generation {
            try FileSystem.makeFolder(target.additionalContent)
            try FileSystem.copyTree(
                layout.additionalContent(generation: generation), beneath: layout.path,
                to: target.additionalContent(generation: generation), by: method)
        }
        // With what others, or the document itself for a library, have put there. What cannot be read is made anew.
        if let metadata = try? FileSystem.contents(
            of: layout.metadata, beneath: layout.path, limit: DocumentMetadata.greatestSize)
        {
            _ = try FileSystem.removeFileIfPresent(target.metadata)
            try FileSystem.writeNewFile(metadata, at: target.metadata)
        }
        try DocumentMetadata(
            storeUUID: copy.identity.uuid, storeType: copy.type.rawValue,
            additionalContentGeneration: generation
        ).write(to: target)
    }

    private static func verifyExtracted(_ folder: String, from archive: String) throws {
        guard DocumentPackageLayout(path: folder).isPackage else {
            throw QuireError(
                .invalidFormat, "“\(archive)” is no archive of a document: it has no store.",
                subject: .init(file: archive))
        }
        do {
            let package = try open(at: folder, readOnly: true)
            defer { try? package.close() }
            if let problem = try package.check().first(where: { $0.severity == .error }) {
                throw QuireError(.invalidFormat, problem.message)
            }
        } catch let error as QuireError {
            throw QuireError(
                error.code == .unsupported ? .unsupported : .invalidFormat,
                "The document in “\(archive)” cannot be used: \(error.message)",
                subject: .init(file: archive), underlying: error)
        }
    }
}
