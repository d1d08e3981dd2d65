import Foundation
import Quire
import QuireRescue

extension VersionStore {
    /// The versions, newest first.
    func versions() throws -> [DocumentVersion] {
        let ids = try ids()
        if ids.isEmpty { return [] }
        let blocks = try BlockStore(of: layout)
        return ids.reversed().compactMap { version($0, blocks) }
    }

    /// The names of the versions, oldest first.
    func ids() throws -> [String] {
        guard FileSystem.exists(layout.versions, beneath: layout.path) else { return [] }
        return try FileSystem.names(in: layout.versions, beneath: layout.path)
            .filter { Self.date(in: $0) != nil }
    }

    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    func manifest(of id: String) throws -> VersionManifest {
        guard exists(id) else { throw missing(id) }
        return try VersionManifest(
            contentsOf: FileSystem.path(layout.version(id), Self.manifestName),
            beneath: layout.path, unsealing: protection?.classKey)
    }

    /// Whether an item with a version's name exists.
    func exists(_ id: String) -> Bool {
        Self.date(in: id) != nil && FileSystem.exists(layout.version(id), beneath: layout.path)
    }

    /// Links all versions into a copy of the package. Versions that are removed meanwhile are left out.
    func link(into copy: DocumentPackageLayout) throws {
        // A claimed version is not removed, nor is any block that it needs.
        var claims: [(id: String, claim: OpenFile)] = []
        for id in try ids() {
            do {
                let claim = try OpenFile.open(
                    layout.version(id), beneath: layout.path, for: .folder)
                if try claim.claim(shared: true) { claims.append((id, claim)) }
            } catch let error as QuireError where error.code == .notFound { continue }
        }
        defer { claims.forEach { $0.claim.close() } }
        if claims.isEmpty { return }
        try FileSystem.makeFolder(copy.versionBlocks, withIntermediates: true)
        for (id, _) in claims {
            try FileSystem.copyTree(
                layout.version(id), beneath: layout.path, to: copy.version(id), by: .linking)
        }
        for name in try FileSystem.names(in: layout.versionBlocks, beneath: layout.path)
        where !FileSystem.isTemporaryName(name) {
            do {
                try FileSystem.linkOrCopy(
                    FileSystem.path(layout.versionBlocks, name), beneath: layout.path,
                    to: FileSystem.path(copy.versionBlocks, name))
            } catch let error as QuireError where error.code == .notFound { continue }
        }
    }

    func missing(_ id: String) -> QuireError {
        QuireError(
            .notFound, "“\(layout.path)” has no version “\(id)”.", file: layout.path, value: id)
    }

    private func version(_ id: String, _ blocks: BlockStore) -> DocumentVersion? {
        do {
            let manifest = try manifest(of: id)
            return version(id, manifest, problem: try visibleProblem(id, manifest, blocks))
        } catch {
            // Versions that were removed meanwhile are skipped.
            guard exists(id), let date = Self.date(in: id) else {
                return nil
            }
            let message = (error as? QuireError)?.message ?? "\(error)"
            return DocumentVersion(
                id: id, date: date, name: nil, reason: .requested, origin: nil, size: 0,
                addedSize: 0, isResolved: false, problem: message)
        }
    }

    func version(
        _ id: String, _ manifest: VersionManifest, problem: String? = nil
    ) -> DocumentVersion {
        DocumentVersion(
            id: id, date: manifest.date, name: manifest.name, reason: manifest.reason,
            origin: manifest.origin, size: manifest.size, addedSize: manifest.addedSize,
            isResolved: FileSystem.exists(
                FileSystem.path(layout.version(id), Self.resolvedName), beneath: layout.path),
            problem: problem)
    }

    /// The damage of a version that is visible without reading all of it.
    private func visibleProblem(
        _ id: String, _ manifest: VersionManifest, _ blocks: BlockStore
    ) throws -> String? {
        for digest in BlockDigest.list(Array(manifest.nodes)) where !blocks.contains(digest) {
            return "Blocks of the version “\(id)” of “\(layout.path)” are missing."
        }
        return try fileProblems(id, manifest).first?.message
    }

    /// The files of a version that are missing or have a wrong size.
    func fileProblems(_ id: String, _ manifest: VersionManifest) throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for (path, size) in files(id, manifest).sorted(by: { $0.key < $1.key }) {
            let information = try FileSystem.information(at: path, beneath: layout.path)
            if information?.kind == .regular, information?.size == size { continue }
            problems.append(
                .init(
                    severity: .error, path: path,
                    message: "The file “\(path)” of the version “\(id)” is "
                        + (information == nil ? "missing." : "damaged.")))
        }
        return problems
    }

    /// The files that a version shares with the document, with their sizes.
    private func files(_ id: String, _ manifest: VersionManifest) -> [String: Int64] {
        var files: [String: Int64] = [:]
        let folder = layout.version(id)
        for (name, file) in manifest.externalFiles {
            files[FileSystem.path(folder, "\(Self.externalDataName)/\(name)")] = file.size
        }
        for (path, size) in manifest.content {
            files[FileSystem.path(folder, "\(Self.contentName)/\(path)")] = size
        }
        return files
    }

    // MARK: - Restoring

    /// Runs a body while the version cannot be removed.
    func reading<Result>(
        _ id: String, _ body: (String, VersionManifest) throws -> Result
    ) throws -> Result {
        guard exists(id) else { throw missing(id) }
        let folder = layout.version(id)
        let claim = try OpenFile.open(folder, beneath: layout.path, for: .folder)
        guard try claim.claim(shared: true) else { throw missing(id) }
        defer { claim.close() }
        return try body(folder, manifest(of: id))
    }

    /// Fills a new folder with a version's content: a package without its metadata, with the keys of the document.
    ///
    /// - Parameter progress: Counts the bytes of the database.
    func fill(
        _ target: DocumentPackageLayout, with id: String, by method: FileSystem.CopyMethod,
        progress: Progress?
    ) throws {
        try reading(id) { folder, manifest in
            if let problem = try fileProblems(id, manifest).first {
                throw QuireError(.invalidFormat, problem.message, file: problem.path)
            }
            try protection?.writeKeybag(forStoreAt: target.store)
            try writeDatabase(of: id, manifest, to: target.store, progress: progress)
            try FileSystem.copyPermissions(
                of: layout.store, beneath: layout.path, to: target.store)
            for name in manifest.externalFiles.keys.sorted() {
                try FileSystem.makeFolder(target.externalData, withIntermediates: true)
                try FileSystem.copyFile(
                    FileSystem.path(folder, "\(Self.externalDataName)/\(name)"),
                    beneath: layout.path, to: FileSystem.path(target.externalData, name),
                    by: method)
            }
            guard let generation = manifest.generation else { return }
            let content = target.additionalContent(generation: generation)
            try FileSystem.makeFolder(content, withIntermediates: true)
            for path in manifest.content.keys.sorted() {
                let file = FileSystem.path(content, path)
                try FileSystem.makeFolder(FileSystem.folder(of: file), withIntermediates: true)
                try FileSystem.copyFile(
                    FileSystem.path(folder, "\(Self.contentName)/\(path)"),
                    beneath: layout.path, to: file, by: method)
            }
        }
    }

    func damaged(_ id: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "The version “\(id)” of “\(layout.path)” is damaged; restore another one.",
            file: layout.version(id))
    }

    func writeDatabase(
        of id: String, _ manifest: VersionManifest, to path: String, progress: Progress?
    ) throws {
        let blocks = try BlockStore(of: layout)
        let file = try OpenFile.open(path, for: .creating)
        progress?.totalUnitCount = manifest.storeSize
        var written: Int64 = 0
        for node in BlockDigest.list(Array(manifest.nodes)) {
            try progress?.checkCancelled(
                "Reading a version of “\(layout.path)” was cancelled.", file: layout.path)
            guard let digests = blocks.block(node) else { throw damaged(id) }
            for digest in BlockDigest.list(digests) {
                guard let block = blocks.block(digest) else { throw damaged(id) }
                try block.withUnsafeBytes { try file.write($0) }
                written += Int64(block.count)
                if written > manifest.storeSize { throw damaged(id) }
            }
            progress?.completedUnitCount = written
        }
        if written != manifest.storeSize { throw damaged(id) }
    }
}

// MARK: - Checking

extension VersionStore {
    /// Reads all versions completely. Damage to a version is only a warning for the document, which it does not affect.
    ///
    /// - Parameter progress: Counts the versions.
    func problems(progress: Progress? = nil) throws -> [DocumentProblem] {
        let ids = try ids()
        if ids.isEmpty { return [] }
        var problems: [DocumentProblem] = []
        let blocks = try BlockStore(of: layout)
        problems += blocks.damaged.map {
            DocumentProblem(
                severity: .warning, path: $0.subject.file ?? blocks.folder, message: $0.message)
        }
        var soundness: [BlockDigest: Bool] = [:]
        func isSound(_ digest: BlockDigest) -> Bool {
            if let known = soundness[digest] { return known }
            let isSound = blocks.block(digest) != nil
            soundness[digest] = isSound
            return isSound
        }
        var checked: [FileInformation.Identity: Bool] = [:]
        progress?.totalUnitCount = Int64(ids.count)
        for id in ids {
            defer { progress?.completedUnitCount += 1 }
            do {
                try reading(id) { folder, manifest in
                    let isWhole = BlockDigest.list(Array(manifest.nodes)).allSatisfy { node in
                        guard isSound(node), let digests = blocks.block(node) else { return false }
                        return BlockDigest.list(digests).allSatisfy(isSound)
                    }
                    if !isWhole {
                        problems.append(
                            problem(
                                folder,
                                "Blocks of the version “\(id)” of “\(layout.path)” are missing or damaged."
                            ))
                    }
                    for found in try fileProblems(id, manifest)
                        + digestProblems(id, manifest, &checked)
                    {
                        problems.append(problem(found.path, found.message))
                    }
                }
            } catch let error as QuireError {
                if error.code == .notFound, !exists(id) { continue }
                problems.append(problem(layout.version(id), error.message))
            }
        }
        return problems
    }

    private func problem(_ path: String, _ message: String) -> DocumentProblem {
        DocumentProblem(severity: .warning, path: path, message: message)
    }

    /// External data files that do not match the digest recorded by the store. A file shared by several versions is read once.
    private func digestProblems(
        _ id: String, _ manifest: VersionManifest, _ checked: inout [FileInformation.Identity: Bool]
    ) throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for (name, file) in manifest.externalFiles.sorted(by: { $0.key < $1.key }) {
            let path = FileSystem.path(layout.version(id), "\(Self.externalDataName)/\(name)")
            guard let expected = file.sha256,
                let information = try FileSystem.information(at: path, beneath: layout.path),
                information.kind == .regular, information.size == file.size
            else { continue }
            let isSound =
                try checked[information.identity]
                ?? FileDigest.isSHA256(
                    expected, ofFileAt: path, beneath: layout.path,
                    unsealing: protection?.classKey)
            checked[information.identity] = isSound
            if !isSound {
                problems.append(
                    problem(path, "The file “\(path)” of the version “\(id)” is damaged."))
            }
        }
        return problems
    }
}
