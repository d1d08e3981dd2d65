public import Foundation
public import Quire
public import QuireRescue
internal import QuireSQLite
internal import QuireStore

extension DocumentPackage {
    /// Repairs the store of a package; see ``StoreRepair``.
    ///
    /// The unrepaired package is kept beside it, with `before-repair` in its name.
    ///
    /// - Parameters:
    ///   - path: The package.
    ///   - model: The model; `nil` for the one stored in the store.
    ///   - options: How to repair.
    ///   - waiting: How to wait while another owner has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Throws: ``QuireError`` with code `locked` if the package is open for writing, or
    ///   errors of ``StoreRepair/repair(_:model:options:)``. Then the package is unchanged.
    public static func repair(
        at path: String, model: ManagedObjectModel? = nil,
        options: StoreRepair.Options = StoreRepair.Options(), waiting: LockWait? = nil
    ) throws -> StoreRepairReport {
        let layout = DocumentPackageLayout(path: path)
        try checkIsPackage(layout)
        try DocumentMetadata.checkFormat(of: layout)
        let lock = options.isDryRun ? nil : try DocumentLock.acquire(for: layout, waiting: waiting)
        defer { lock?.release() }
        var storeOptions = options
        storeOptions.isDryRun = true
        let plan = try StoreRepair.repair(layout.store, model: model, options: storeOptions)
        if options.isDryRun || plan.actions.isEmpty {
            return try withPackageProblems(plan, of: layout, model: model)
        }
        let backup = options.keepsBackup ? try writeBackup(of: layout) : nil
        storeOptions.isDryRun = false
        storeOptions.keepsBackup = false
        do {
            var report = try StoreRepair.repair(layout.store, model: model, options: storeOptions)
            report.backup = backup
            return try withPackageProblems(report, of: layout, model: model)
        } catch {
            if let backup { try? FileSystem.removeTree(backup) }
            throw error
        }
    }

    /// Adds the problems of the package outside of its store, which a repair does not change.
    private static func withPackageProblems(
        _ report: StoreRepairReport, of layout: DocumentPackageLayout, model: ManagedObjectModel?
    ) throws -> StoreRepairReport {
        let package = try open(at: layout.path, model: model, readOnly: true)
        defer { try? package.close() }
        let problems = try package.packageProblems()
        var report = report
        report.before.add(problems)
        report.after.add(problems)
        return report
    }

    /// Copies a package, whose lock the caller has, to a name beside it.
    private static func writeBackup(of layout: DocumentPackageLayout) throws -> String {
        let backup = SiblingName.unused(beside: layout.path) {
            $0 == 1 ? ".before-repair" : ".before-repair-\($0)"
        }
        let sibling = try TemporarySibling.makeFolder(beside: backup)
        defer { sibling.remove() }
        try sibling.building {
            try FileSystem.copyContents(of: layout.path, beneath: layout.path, to: sibling.path)
            try FileSystem.removeFileIfPresent(DocumentPackageLayout(path: sibling.path).lock)
            try sibling.setFinalPermissions(of: FileSystem.information(at: layout.path))
            try FileSystem.synchronizeTree(sibling.path)
            try sibling.publish()
        }
        return backup
    }

    /// Recovers objects from a damaged package or store into a new package; see ``StoreRecovery``.
    ///
    /// The generation of additional content to which the store refers is copied, or the newest one if the store does not refer to
    /// any. A package recovered from a protected one is encrypted with the same keys.
    ///
    /// - Parameters:
    ///   - damaged: The package or store, which is not changed.
    ///   - path: The package to create, which must not exist.
    ///   - model: The model; `nil` for the one stored in the store, or, if that is lost, one inferred from its tables.
    ///   - options: How to recover.
    ///   - progress: Counts steps; observe `fractionCompleted`. Cancelling it leaves nothing.
    /// - Throws: Errors of ``StoreRecovery/recover(_:to:model:options:progress:)``. Then no new package exists.
    public static func recover(
        _ damaged: String, to path: String, model: ManagedObjectModel? = nil,
        options: StoreRecovery.Options = StoreRecovery.Options(), progress: Progress? = nil
    ) throws -> StoreRecoveryReport {
        let old = DocumentPackageLayout(path: damaged)
        let isPackage = try FileSystem.information(at: damaged)?.kind == .folder
        if isPackage { try checkIsPackage(old) }
        let folder = try isPackage ? FileSystem.information(at: damaged) : nil
        try checkOutside(path, of: old, folder)
        let protection = try StoreProtection.find(forStoreAt: isPackage ? old.store : damaged)
        var report = StoreRecoveryReport()
        try build(at: path, permissionsOf: folder) { layout in
            report = try StoreRecovery.recover(
                isPackage ? old.store : damaged, to: layout.store, model: model, options: options,
                protection: protection, progress: progress)
            let place = DocumentPackageLayout(path: path).path
            for index in report.problems.indices {
                report.problems[index].message.replace(layout.path, with: place)
            }
            let store = try SQLiteStore.open(at: layout.store)
            defer { try? store.close() }
            let (named, generation) = try bringContent(
                from: isPackage ? old : nil, to: layout, store)
            if isPackage, let named, named != generation {
                report.missingParts.append(
                    "The additional content, generation \(named), is missing"
                        + (generation.map { "; generation \($0) was recovered instead." } ?? "."))
            }
            try DocumentMetadata(
                storeUUID: store.identity.uuid, storeType: store.type.rawValue,
                additionalContentGeneration: generation
            ).write(to: layout)
            var metadata = isPackage ? LibraryMetadata(readingFrom: old) : LibraryMetadata()
            if protection == nil {
                metadata.objectCounts = report.objects.filter { $0.value > 0 }
            } else {
                // Library metadata is not encrypted.
                metadata = LibraryMetadata(created: metadata.created)
            }
            metadata.created = metadata.created ?? Date()
            metadata.modified = Date()
            try metadata.write(to: layout)
            try store.close()
            try FileSystem.copyPermissions(of: isPackage ? old.store : damaged, to: layout.store)
        }
        let package = try withExtendedLifetime(protection) { try open(at: path, readOnly: true) }
        defer { try? package.close() }
        var checked = StoreCheckReport()
        checked.add(try package.packageProblems())
        report.problems += checked.problems
        return report
    }

    /// Copies the additional content that belongs to a recovered or converted store, which refers to none if there is none.
    ///
    /// - Returns: The generation to which the store referred, and the one that was copied, to which it refers now.
    @discardableResult
    static func bringContent(
        from old: DocumentPackageLayout?, to layout: DocumentPackageLayout, _ store: SQLiteStore
    ) throws -> (named: Int?, brought: Int?) {
        let content = AdditionalContentStore(
            layout: layout, classKey: store.protection?.classKey)
        // The records of a recovered store may be damaged; then the newest generation is used.
        let named = (try? content.generation(in: store.records())) ?? nil
        var generation: Int?
        if let old, FileSystem.exists(old.additionalContent, beneath: old.path) {
            let there = try FileSystem.names(in: old.additionalContent, beneath: old.path)
                .compactMap(DocumentPackageLayout.generation(ofFolder:))
            generation = named.flatMap { there.contains($0) ? $0 : nil } ?? there.max()
            if let generation {
                try FileSystem.makeFolder(layout.additionalContent)
                try FileSystem.copyTree(
                    old.additionalContent(generation: generation), beneath: old.path,
                    to: layout.additionalContent(generation: generation), by: .copying)
            }
        }
        if generation != named {
            var changes = ChangeSet()
            changes.records = [AdditionalContentStore.recordKey: generation.map(String.init)]
            try store.save(changes)
        }
        return (named, generation)
    }
}

// MARK: - Checking

/// A problem of a package.
public struct DocumentProblem: Sendable, Hashable {
    /// The severity.
    public enum Severity: String, Sendable {
        /// Part of the document is lost or unreliable.
        case error
        /// Nothing is lost; the next save, or opening it for writing, may fix it.
        case warning
    }

    /// The severity.
    public var severity: Severity
    /// The file or folder with the problem.
    public var path: String
    /// One sentence that describes the problem.
    public var message: String
}

extension DocumentPackage {
    /// Checks the whole package: the store, as ``StoreCheck`` does, the additional content, the versions, the metadata, and files
    /// that are not part of a document. Changes nothing. Leftovers of interrupted saves are not problems; see ``leftovers()``.
    ///
    /// - Returns: The problems, errors first; empty if there are none.
    /// - Throws: As ``StoreCheck/run(_:progress:)``.
    /// - Complexity: O(*n*) in the size of the package; all of it is read.
    public func check() throws -> [DocumentProblem] {
        let report = try StoreCheck.run(store)
        var errors = report.problems.map { problem($0, .error) }
        if report.unlistedProblems > 0 {
            errors.append(
                .init(
                    severity: .error, path: layout.store,
                    message: "\(report.unlistedProblems) more problems of these kinds were found."))
        }
        // Of external data only unreferenced files are recorded: leftovers.
        let warnings = report.notes.filter { $0.kind != .externalData }
            .map { problem($0, .warning) }
        let problems = try errors + warnings + packageProblems()
        return problems.filter { $0.severity == .error }
            + problems.filter { $0.severity == .warning }
    }

    private func problem(
        _ problem: StoreProblem, _ severity: DocumentProblem.Severity
    ) -> DocumentProblem {
        DocumentProblem(severity: severity, path: layout.store, message: problem.message)
    }
}

extension DocumentPackage {
    /// The problems of the package outside of its store: the additional content, the metadata, and files that are not part of a
    /// document.
    ///
    /// - Parameter progress: Counts the versions.
    package func packageProblems(progress: Progress? = nil) throws -> [DocumentProblem] {
        let foreign = layout.foreignEntries().map {
            DocumentProblem(
                severity: .error, path: $0.subject.file ?? layout.path, message: $0.message)
        }
        // The content of such an entry cannot be checked.
        if !foreign.isEmpty { return foreign }
        return try additionalContentProblems() + versionStore.problems(progress: progress)
            + strayFileProblems() + archivedFileProblems()
    }
}

extension StoreCheckReport {
    /// Adds the problems of a package: errors are problems, warnings are notes.
    package mutating func add(_ found: [DocumentProblem]) {
        for problem in found {
            let entry = StoreProblem(
                kind: .package, object: nil, table: nil, message: problem.message,
                isRepairable: false)
            switch problem.severity {
            case .error: problems.append(entry)
            case .warning: notes.append(entry)
            }
        }
    }
}

// MARK: - Parts

extension DocumentPackage {
    private func additionalContentProblems() throws -> [DocumentProblem] {
        let generation = try liveGeneration()
        var problems: [DocumentProblem] = []
        if let generation {
            let folder = layout.additionalContent(generation: generation)
            if let found = try FileSystem.information(at: folder, beneath: layout.path) {
                var files = [(path: folder, information: found)]
                if found.kind == .folder {
                    files += try FileSystem.contentsOfTree(folder, beneath: layout.path).map {
                        (FileSystem.path(folder, $0.path), $0.information)
                    }
                }
                for (path, information) in files {
                    do {
                        try information.require(path == folder ? .folder : nil, at: path)
                        // Reading a sealed file authenticates it.
                        if information.kind == .regular, let classKey = content.classKey {
                            try ContentFile(
                                OpenFile.open(path, beneath: layout.path, for: .reading),
                                unsealing: classKey
                            ).forEachBlock { _ in }
                        }
                    } catch let error as QuireError {
                        problems.append(
                            .init(severity: .error, path: path, message: error.message))
                    }
                }
            } else {
                problems.append(
                    .init(
                        severity: .error, path: folder,
                        message: "The additional content “\(folder)” is missing."))
            }
        }
        let metadata = DocumentMetadata(
            storeUUID: store.identity.uuid, storeType: store.type.rawValue,
            additionalContentGeneration: generation)
        if !metadata.isWritten(in: layout) {
            problems.append(
                .init(
                    severity: .warning, path: layout.metadata,
                    message: "The metadata file does not match the store."))
        }
        return problems
    }

    /// The files of a document in a mounted archive that differ from its manifest. Those of the store are not read again.
    private func archivedFileProblems() throws -> [DocumentProblem] {
        guard ArchiveMount.contains(layout.path) else { return [] }
        var problems: [DocumentProblem] = []
        for (path, information) in try FileSystem.contentsOfTree(layout.path, beneath: layout.path)
        where information.kind == .regular && !path.hasPrefix("StoreContent/") {
            let path = FileSystem.path(layout.path, path)
            do {
                try ContentFile(
                    OpenFile.open(path, beneath: layout.path, for: .reading), unsealing: nil
                ).forEachBlock { _ in }
            } catch let error as QuireError {
                problems.append(.init(severity: .error, path: path, message: error.message))
            }
        }
        return problems
    }

    private func strayFileProblems() throws -> [DocumentProblem] {
        try layout.foreignFiles().map {
            .init(severity: .warning, path: $0, message: "“\($0)” is not part of the document.")
        }
    }
}

extension DocumentPackageLayout {
    /// The files and folders that are not part of a package, and may be the user's. Those of ``DocumentPackage/leftovers()`` are not
    /// included.
    func foreignFiles() throws -> [String] {
        var paths: [String] = []
        func search(_ folder: String, except isOwn: (String) -> Bool) throws {
            guard FileSystem.exists(folder, beneath: path) else { return }
            paths += try FileSystem.names(in: folder, beneath: path)
                .filter { !isOwn($0) && !FileSystem.isTemporaryName($0) }
                .map { FileSystem.path(folder, $0) }
        }
        let names: Set = [
            "DocumentMetadata.plist", ".lock", "StoreContent", "AdditionalContent", "Versions",
            "Thumbnail.png", "DraftFiles", StoreProtection.keybagName, "META-INF",
            ArchiveManifest.mediaTypePath,
        ]
        try search(path, except: names.contains)
        let storeNames: Set = [
            "persistentStore", "persistentStore-wal", "persistentStore-shm",
            "persistentStore-journal", ".persistentStore_SUPPORT",
        ]
        try search(storeFolder, except: storeNames.contains)
        try search(FileSystem.folder(of: externalData)) { $0 == FileSystem.name(of: externalData) }
        try search(externalData, except: ExternalDataFolder.isFileName)
        try search(additionalContent) { Self.generation(ofFolder: $0) != nil }
        try search(versions) { $0 == "Blocks" || VersionStore.date(in: $0) != nil }
        return paths
    }
}

// MARK: - Leftovers

extension DocumentPackage {
    /// Leftovers of interrupted saves: temporary files, generations of additional content and external data that are not
    /// referenced. They are harmless, and are removed when the package is opened for writing.
    ///
    /// Unreferenced files may also belong to a newer save, whose store a sync tool has not delivered yet, or a backup has
    /// replaced with an older one. So they are leftovers only after a day if the package was closed, and not at all if content
    /// that the store refers to is missing.
    ///
    /// While the package is open for writing, they include files that are no longer needed.
    ///
    /// - Returns: The paths.
    public func leftovers() throws -> [String] { try leftovers(at: Date()) }

    func leftovers(at date: Date) throws -> [String] {
        var paths = try unreferencedFiles(ownOnly: false)
        if !paths.isEmpty {
            let own = try Set(unreferencedFiles(ownOnly: true))
            let isWhole = try missingFiles().isEmpty
            paths = try paths.filter { path in
                try own.contains(path) || isWhole && (wasInterrupted || isOld(path, at: date))
            }
        }
        for folder in [layout.path, layout.storeFolder, layout.versions, layout.versionBlocks]
        where FileSystem.exists(folder, beneath: layout.path) {
            paths += try temporaryFiles(in: folder)
        }
        paths += unusedDraftFiles()
        return paths
    }

    /// Removes the leftovers of interrupted saves. Requires the lock; call it before anything has been read or saved. Files that cannot be
    /// removed are kept until the next call.
    func removeLeftovers() {
        for path in (try? leftovers()) ?? [] {
            try? FileSystem.removeTree(path, beneath: layout.path)
        }
        try? layout.removeArchiveParts()
    }

    /// Whether a file has been in its place for more than a day.
    private func isOld(_ path: String, at date: Date) throws -> Bool {
        try FileSystem.information(at: path, beneath: layout.path)?.isOld(at: date) ?? false
    }

    /// The files and folders of external data and additional content to which the store does not refer.
    ///
    /// - Parameter ownOnly: Whether only temporary ones are meant, and those to which it has referred since it was opened.
    private func unreferencedFiles(ownOnly: Bool) throws -> [String] {
        let files = try store.unreferencedExternalFiles(ownOnly: ownOnly)
        guard FileSystem.exists(layout.additionalContent, beneath: layout.path) else {
            return files
        }
        let own = ownOnly ? lock?.ownGenerations ?? [] : nil
        return try files + content.leftovers(except: liveGeneration(), of: own)
    }

    private func temporaryFiles(in folder: String) throws -> [String] {
        try FileSystem.names(in: folder, beneath: layout.path)
            .filter(FileSystem.isTemporaryName)
            .map { FileSystem.path(folder, $0) }
    }
}
