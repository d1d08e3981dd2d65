import Foundation
public import Quire
public import QuireRescue

extension DocumentPackage {
    /// Mends the store of a package; see ``StoreRepair``.
    ///
    /// The package as it was stays beside it, with `before-repair` in its name.
    ///
    /// - Parameters:
    ///   - path: The package.
    ///   - model: The model; `nil` for the one that the store carries.
    ///   - options: How to repair.
    ///   - waiting: How to wait if somebody else has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Throws: ``QuireError`` with code `locked` if somebody has the package open for writing, or what
    ///   ``StoreRepair/repair(_:model:options:)`` throws. Then the package is as it was.
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

    /// Adds what is wrong with the package beside its store, which a repair leaves alone.
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

    /// Copies a package that its lock's owner has to themselves, to a name beside it.
    private static func writeBackup(of layout: DocumentPackageLayout) throws -> String {
        let backup = SiblingName.unused(beside: layout.path) { stem, number in
            number == 1 ? "\(stem).before-repair" : "\(stem).before-repair-\(number)"
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

    /// Brings objects back from a damaged package, or a damaged store, into a new package; see ``StoreRecovery``.
    ///
    /// Additional content comes along as the store names it; if the store does not any more, the newest there is. What is made
    /// of a protected package is sealed with the same keys.
    ///
    /// - Parameters:
    ///   - damaged: The package or store. Nothing about it is changed.
    ///   - path: The package to make; there must be nothing yet.
    ///   - model: The model; `nil` for the one that the store carries, or, if that is lost, one made of its tables.
    ///   - options: How to recover.
    /// - Throws: What ``StoreRecovery/recover(_:to:model:options:)`` throws. Then there is no new package.
    public static func recover(
        _ damaged: String, to path: String, model: ManagedObjectModel? = nil,
        options: StoreRecovery.Options = StoreRecovery.Options()
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
                protection: protection)
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
                        + (generation.map { "; generation \($0) came instead." } ?? "."))
            }
            try DocumentMetadata(
                storeUUID: store.identity.uuid, storeType: store.type.rawValue,
                additionalContentGeneration: generation
            ).write(to: layout)
            var metadata = isPackage ? LibraryMetadata(readingFrom: old) : LibraryMetadata()
            if protection == nil {
                metadata.objectCounts = report.objects.filter { $0.value > 0 }
            } else {
                // Library metadata are stored in clear.
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

    /// Copies the additional content that belongs to a recovered store.
    ///
    /// - Returns: The generation that the damaged store names, and the one that came, which the new store names then.
    private static func bringContent(
        from old: DocumentPackageLayout?, to layout: DocumentPackageLayout, _ store: SQLiteStore
    ) throws -> (named: Int?, brought: Int?) {
        let content = AdditionalContentStore(
            layout: layout, classKey: store.protection?.classKey)
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
