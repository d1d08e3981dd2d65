public import Foundation
import Quire
import QuireRescue
internal import QuireSQLite

// Copies of a package, all as of one save.

extension DocumentPackage {
    /// Writes a copy of the package as of the last save. The package can be read and saved meanwhile.
    ///
    /// The copy has the same store UUID, and the permissions of the original, but no versions. It is created completely or not at
    /// all. The database and the digests of external data are checked.
    ///
    /// If another program has deleted the open package, the copy has the content of the store, which is still open; the thrown error
    /// then lists the missing files of external data and additional content.
    ///
    /// - Parameters:
    ///   - path: The package to create.
    ///   - replacing: Whether to replace an existing package.
    ///   - keepingDamage: Whether to copy a damaged package as it is.
    ///   - waiting: How to wait while the package to replace is open for writing, which blocks the thread; `nil` to
    ///     fail immediately.
    ///   - progress: Counts the bytes to copy; cancelling it stops the copy and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidFormat` if the package is damaged, `locked`, `cancelled`, or
    ///   errors of reading and writing. Then no copy exists. With code `notFound` and the path of the copy as its subject if the
    ///   copy was created, but lacks files that were deleted with the package.
    public func writeCopy(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        waiting: LockWait? = nil, progress: Progress? = nil
    ) throws {
        try checkOutside(path)
        if replacing { try checkReplaceable(path) }
        var lost: [MissingFile] = []
        try Self.build(
            at: path, replacing: replacing, waiting: waiting, permissionsOf: folderInformation()
        ) {
            try fill($0, by: .copying, keepingDamage: keepingDamage, progress: progress)
            lost = try finishIfLost($0)
        }
        if !lost.isEmpty { throw incomplete(path, without: lost) }
    }

    /// The file information of the package folder, at whatever path.
    func folderInformation() throws -> FileInformation? {
        try folder?.information() ?? FileSystem.information(at: layout.path)
    }

    /// Writes a copy of the package as of the last save beside it, under an unused name: “Name 2”, or 3, 4 ….
    ///
    /// - Parameters:
    ///   - keepingDamage: Whether to copy a damaged package as it is.
    ///   - progress: As in ``writeCopy(to:replacing:keepingDamage:waiting:progress:)``.
    /// - Returns: The path of the copy.
    /// - Throws: As ``writeCopy(to:replacing:keepingDamage:waiting:progress:)``.
    public func duplicate(
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> String {
        while true {
            let path = SiblingName.unused(beside: archiveSibling ?? layout.path)
            do {
                try writeCopy(to: path, keepingDamage: keepingDamage, progress: progress)
                return path
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process has created it meanwhile.
                continue
            }
        }
    }

    /// Throws if a path is in the package itself, or in another one.
    func checkOutside(_ path: String) throws {
        try Self.checkOutside(path, of: layout, folderInformation())
    }

    /// Throws if a path is inside a document package, which must contain only its own files.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`, which names the package.
    public static func checkOutside(_ path: String) throws {
        try checkOutside(path, of: nil, nil)
    }

    /// As ``checkOutside(_:)``, for a package that may be too damaged to be recognized.
    static func checkOutside(
        _ path: String, of own: DocumentPackageLayout?, _ information: FileInformation?
    ) throws {
        var above = FileSystem.folder(of: FileSystem.resolvingLink(path))
        while true {
            let isOwn =
                try information.map {
                    try FileSystem.information(at: above)?.isSameFile(as: $0) ?? false
                } ?? false
            if isOwn || DocumentPackageLayout(path: above).isPackage {
                throw QuireError(
                    .invalidValue,
                    "“\(path)” is inside the document “\(isOwn ? own?.path ?? above : above)”; choose a path outside it.",
                    file: path)
            }
            // A symbolic link on the path may lead elsewhere.
            guard let real = realpath(above, nil) else { return }
            let resolved = String(cString: real)
            free(real)
            if resolved == "/" { return }
            above = FileSystem.folder(of: resolved)
        }
    }

    /// Throws if anything but another document would be replaced.
    func checkReplaceable(_ path: String) throws {
        guard FileSystem.exists(path) else { return }
        let other = DocumentPackageLayout(path: path)
        guard other.isPackage else {
            throw QuireError(
                .alreadyExists,
                "“\(path)” was not replaced, because it is not a document; choose another name.",
                file: path)
        }
        let folders = try [layout.path, other.path].map(FileSystem.information(at:))
        if let own = folders[0], let others = folders[1], own.isSameFile(as: others) {
            throw QuireError(
                .alreadyExists,
                "“\(path)” is the document itself, which a copy cannot replace; save it instead.",
                file: path)
        }
    }

    /// Fills a new folder with this package's content, and checks linked files as far as that is possible without reading
    /// them.
    ///
    /// - Returns: The expected digests of linked files, in hexadecimal digits, by their paths.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the package is damaged, unless damage is to be kept.
    @discardableResult
    func fill(
        _ target: DocumentPackageLayout, by method: FileSystem.CopyMethod,
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws -> [String: String] {
        if let progress {
            // Items that cannot be examined are reported when they are copied.
            let folder = (try? liveGeneration()).flatMap(\.self).map(
                layout.additionalContent(generation:))
            let files = folder.flatMap {
                try? FileSystem.contentsOfTree($0, beneath: layout.path)
            }
            progress.totalUnitCount = (files ?? []).reduce((try? store.byteCount()) ?? 0) {
                $0 + ($1.information.kind == .regular ? $1.information.size : 0)
            }
        }
        if keepingDamage {
            return try fillRepeatedly(
                target, by: method, keepingDamage: true, progress: progress)
        }
        // Checked while it is copied; the caller removes the copy if there is damage.
        nonisolated(unsafe) var problems: Result<[String], any Error> = .success([])
        let check = DispatchGroup()
        // Not the global queue: if callers blocked all of its threads, none of them would get on.
        DispatchQueue(label: "quire.package.check").async(group: check) {
            problems = Result { try self.store.integrityProblems() }
        }
        let digests = Result {
            try fillRepeatedly(target, by: method, keepingDamage: false, progress: progress)
        }
        check.wait()
        let found = try problems.get()
        if !found.isEmpty { throw damaged(found.map(databaseMessage)) }
        return try digests.get()
    }

    /// A writer may remove files that the copied store refers to before they are copied; then everything is repeated.
    private func fillRepeatedly(
        _ target: DocumentPackageLayout, by method: FileSystem.CopyMethod, keepingDamage: Bool,
        progress: Progress?
    ) throws -> [String: String] {
        var attempts = 3
        while true {
            do {
                return try fillOnce(
                    target, by: method, keepingDamage: keepingDamage, progress: progress)
            } catch let error as QuireError where error.code == .notFound {
                attempts -= 1
                if attempts == 0 {
                    let problems = try missingFiles()
                    throw problems.isEmpty ? error : damaged(problems)
                }
                try FileSystem.removeTree(target.storeFolder)
                try FileSystem.makeFolder(target.storeFolder)
                if FileSystem.exists(target.additionalContent) {
                    try FileSystem.removeTree(target.additionalContent)
                }
            }
        }
    }

    private func fillOnce(
        _ target: DocumentPackageLayout, by method: FileSystem.CopyMethod, keepingDamage: Bool,
        progress: Progress?
    ) throws -> [String: String] {
        try store.writeCopy(
            to: target.store, linking: method == .linking, withoutDraft: true,
            keepingDamage: keepingDamage, progress: progress)
        // The generation of the copy, which may be of an earlier save than the store's current one.
        let copy = try SQLiteStore.open(
            at: target.store, model: store.layout.model, options: .reading())
        defer { try? copy.close() }
        var generation = try content.generation(in: copy.records())
        // Generations of another document may have the same numbers.
        let isOtherDocument =
            !isInPlace && DocumentMetadata.storeUUID(of: layout) != store.identity.uuid
        if isOtherDocument { generation = nil }
        if let named = generation, keepingDamage || location() != .here,
            !FileSystem.exists(layout.additionalContent(generation: named)),
            ((try? liveGeneration()) ?? named) == named
        {
            generation = nil  // It was removed with the package, not by a later save.
        }
        if let generation {
            try FileSystem.makeFolder(target.additionalContent)
            try FileSystem.copyTree(
                layout.additionalContent(generation: generation), beneath: layout.path,
                to: target.additionalContent(generation: generation), by: method,
                progress: progress)
            try content.checkIsThere(generation)
            try FileSystem.copyPermissions(
                of: layout.additionalContent, beneath: layout.path, to: target.additionalContent)
        }
        // Including the values of other programs and of libraries. Unreadable metadata is written again.
        if !isOtherDocument,
            let metadata = try? FileSystem.contents(
                of: layout.metadata, beneath: layout.path, limit: DocumentMetadata.maximumSize)
        {
            _ = try FileSystem.removeFileIfPresent(target.metadata)
            try FileSystem.writeNewFile(metadata, at: target.metadata)
        }
        try DocumentMetadata(
            storeUUID: copy.identity.uuid, storeType: copy.type.rawValue,
            additionalContentGeneration: generation
        ).write(to: target)
        for (original, made) in [
            (layout.metadata, target.metadata), (layout.storeFolder, target.storeFolder),
        ] {
            try FileSystem.copyPermissions(of: original, beneath: layout.path, to: made)
        }
        try progress?.checkCancelled(copying: layout.path)
        if keepingDamage { return [:] }
        let (problems, digests) = try externalDataDamage(of: copy, by: method)
        if !problems.isEmpty { throw damaged(problems) }
        return digests
    }
}

// MARK: - Damage

extension DocumentPackage {
    /// Checks the external data files of a copy by their digests, or by their sizes if they are linked and not sealed.
    ///
    /// - Returns: The damage, and the digests of linked files by path.
    func externalDataDamage(
        of copy: SQLiteStore, by method: FileSystem.CopyMethod
    ) throws -> (problems: [String], digests: [String: String]) {
        let isLost = location() != .here
        var (problems, digests): ([String], [String: String]) = ([], [:])
        for file in try copy.externalFiles() {
            guard let information = try FileSystem.information(at: file.path) else {
                // It was removed together with the package.
                if !isLost { problems.append(externalDataMessage(file.path, "is missing")) }
                continue
            }
            let classKey = copy.protection?.classKey
            let size = ContentFile.count(of: information, sealed: classKey != nil)
            var isSound = file.size.map { $0 == size } ?? true
            if isSound, let digest = file.sha256 {
                if method == .linking && classKey == nil {
                    digests[file.path] = digest.map(Self.hexadecimal).joined()
                } else {
                    let folder = FileSystem.folder(of: file.path)
                    isSound =
                        try FileDigest.isSHA256(
                            digest, ofFileAt: file.path, beneath: folder, unsealing: classKey)
                }
            }
            if !isSound {
                problems.append(externalDataMessage(file.path, "was changed after it was saved"))
            }
        }
        return (problems, digests)
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    /// The files that the store refers to and that are missing.
    func missingFiles() throws -> [String] {
        var problems = try store.externalFiles()
            .filter { !FileSystem.exists($0.path, beneath: layout.path) }
            .map { externalDataMessage($0.path, "is missing") }
        if let generation = try liveGeneration() {
            let folder = layout.additionalContent(generation: generation)
            if !FileSystem.exists(folder, beneath: layout.path) {
                problems.append("the additional content “\(folder)” is missing")
            }
        }
        return problems
    }

    func databaseMessage(_ problem: String) -> String { "the database: \(problem)" }

    /// A problem of an external data file, with its path in this package.
    func externalDataMessage(_ path: String, _ problem: String) -> String {
        let own = FileSystem.path(layout.externalData, FileSystem.name(of: path))
        return "the external data “\(own)” \(problem)"
    }

    /// The error of a copy that is not written because the package is damaged.
    func damaged(_ problems: [String]) -> QuireError {
        let more = problems.count > 1 ? " (and \(problems.count - 1) more)" : ""
        return QuireError(
            .invalidFormat,
            "“\(layout.path)” is damaged and was not copied: \(problems.first ?? "")\(more). “quire recover” recovers the "
                + "readable objects; --keep-damage copies the document as it is.",
            file: layout.path)
    }
}
