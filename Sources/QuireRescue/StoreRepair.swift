import Foundation
public import QuireModel
internal import QuireModelFiles
internal import QuireProtection
internal import QuireSQLite
internal import QuireStore
package import QuireSystem

/// Repairs a store on a copy, which replaces the store only if a check finds it improved.
///
/// ```swift
/// let report = try StoreRepair.repair("library.sqlite")
/// for action in report.actions { print(action) }
/// for problem in report.after.problems { print("Not repaired: \(problem.message)") }
/// ```
///
/// It repairs: indexes; entity numbers, versions and greatest keys; dangling references, and contradicting sides of one-to-one
/// relationships; orders; optional values that are unreadable, or whose files are missing; derived attributes; checksums over
/// version hashes; the model in the store. It never guesses: you must decide which of several objects keeps a unique value. The
/// history of the store lists the changed objects. A file that SQLite itself cannot read requires ``StoreRecovery``.
public enum StoreRepair {
    /// Options of a repair.
    public struct Options: Sendable {
        /// Whether to report repairs without performing them.
        public var isDryRun = false
        /// Whether to keep the original store beside the repaired one, as `NAME.before-repair`.
        public var keepsBackup = true

        /// The waiting policy for other processes that have the store open.
        package var lockWait: FileLockWait?

        /// Creates the default options.
        public init() {}
    }

    /// Repairs a store that is not open.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - model: The model; `nil` for the model in the store.
    ///   - options: Options of the repair.
    /// - Complexity: O(*n*) in the size of the store, which is copied.
    /// - Throws: ``QuireError`` with code `notFound`, `locked`, `incompatibleModel`, `invalidFormat` if the file itself is
    ///   damaged, `outOfSpace` or `inputOutput`. Then the store is unchanged.
    public static func repair(
        _ path: String, model: ManagedObjectModel? = nil, options: Options = Options()
    ) throws -> StoreRepairReport {
        let path = StorePath.resolvingLink(path)
        try OpenDatabaseRegistry.requireClosed(path, before: "repairing it")
        guard let wait = options.lockWait else { return try repairNow(path, model, options) }
        var failure: QuireError?
        let report = try wait.polling(path) { rest -> StoreRepairReport? in
            var options = options
            options.lockWait = rest
            do {
                return try repairNow(path, model, options)
            } catch let error as QuireError where error.code == .locked {
                failure = error
                return nil
            }
        }
        if let report { return report }
        throw failure
            ?? QuireError(
                .locked, "“\(path)” is open elsewhere; close it there before repairing it.")
    }

    private static func repairNow(
        _ path: String, _ model: ManagedObjectModel?, _ options: Options
    ) throws -> StoreRepairReport {
        try SQLiteFiles.check(path)
        let sibling: TemporarySibling
        do { sibling = try TemporarySibling.makeFolder(beside: path) } catch {
            // Of a store that cannot be written it can still be said what would be done.
            guard options.isDryRun else { throw error }
            sibling = try TemporarySibling.makeFolderInTemporaryDirectory()
        }
        defer { sibling.remove() }
        let run = StoreRepairRun(
            path: path, folder: sibling.path, model: model, options: options)
        do {
            return try sibling.building {
                try FileSystem.building(path, as: run.copy) { try run.run() }
            }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: path)
        }
    }
}

/// The result of a repair.
public struct StoreRepairReport: Sendable {
    /// The problems before the repair.
    public var before = StoreCheckReport()
    /// The problems after the repair.
    public var after = StoreCheckReport()
    /// Completed repairs, or those of a dry run, one sentence each.
    public var actions: [String] = []
    /// The path of the original store.
    public var backup: String?
    /// The folder to which unreferenced files were moved.
    public var lostAndFound: String?

    /// An empty report.
    public init() {}
}

/// The steps of a repair.
private struct StoreRepairRun {
    let path: String
    let folder: String
    let model: ManagedObjectModel?
    let options: StoreRepair.Options
    private(set) var report = StoreRepairReport()

    var copy: String { FileSystem.path(folder, FileSystem.name(of: path)) }

    consuming func run() throws -> StoreRepairReport {
        var run = self
        return try run.repair()
    }

    private mutating func repair() throws -> StoreRepairReport {
        if !options.isDryRun { try settle() }
        let state = try SQLiteDatabaseFile.state(of: path)
        try SQLiteDatabaseFile.copy(path, to: copy)
        let store = try open()
        report.before = try checked(store)
        let (schema, carriesModel) = (store.schema, store.carriesModel)
        try store.close()
        try mend(schema, carriesModel: carriesModel)
        let mended = try open()
        report.after = try checked(mended)
        try mended.close()
        let orphans = report.after.notes.filter { $0.kind == .externalData }
        if !orphans.isEmpty {
            report.actions.append(
                "Moved \(orphans.count == 1 ? "1 file" : "\(orphans.count) files") that no object refers to out of the store."
            )
        }
        if options.isDryRun || report.actions.isEmpty { return report }
        guard report.after.problems.count <= report.before.problems.count else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” cannot be repaired: the repair would leave more problems than before. The store is unchanged; recover it instead.",
                file: path)
        }
        guard try SQLiteDatabaseFile.state(of: path) == state else {
            throw QuireError(
                .locked,
                "“\(path)” was changed while it was being repaired; close it elsewhere and try again.",
                file: path)
        }
        try replace()
        try moveOrphans()
        return report
    }

    // MARK: - Before

    /// Checkpoints the log into the store, which requires exclusive access.
    private func settle() throws {
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: false)
        defer { source.release() }
        var options = SQLiteStoreOptions()
        options.lockWait = self.options.lockWait
        let connection = try source.connect(.writing, options: options)
        do {
            if try source.hasLog(connection) {
                try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            }
            connection.close()
        } catch {
            connection.close()
            throw error
        }
        for suffix in ["-wal", "-journal"]
        where try FileSystem.information(at: path + suffix)?.size ?? 0 > 0 {
            throw QuireError(
                .locked, "“\(path)” is open elsewhere; close it there before repairing it.",
                file: path)
        }
    }

    private func open() throws -> SQLiteStore {
        var options = SQLiteStoreOptions.reading()
        options.protection = try StoreProtection.find(forStoreAt: path)
        options.externalDataOwner = path
        return try SQLiteStore.open(at: copy, model: model, options: options)
    }

    /// Checks the copy, with the path of the original in the report.
    private func checked(_ store: SQLiteStore) throws -> StoreCheckReport {
        var report = try StoreCheck.run(store)
        let own = FileSystem.folder(of: path)
        func mended(_ problem: StoreProblem) -> StoreProblem {
            var problem = problem
            problem.message = problem.message.replacing(folder, with: own)
            return problem
        }
        report.problems = report.problems.map(mended)
        report.notes = report.notes.map(mended)
        if let damage = report.problems.first(where: {
            $0.kind == .integrity && !$0.isRepairable
        }) {
            throw QuireError(
                .invalidFormat,
                "\(damage.message) It cannot be repaired; recover its objects into a new store instead.",
                file: path)
        }
        return report
    }

    // MARK: - Mending

    private mutating func mend(_ schema: SQLSchema, carriesModel: Bool) throws {
        let source = try SQLiteDatabaseFile(
            path: copy, isReadOnly: false, protection: StoreProtection.find(forStoreAt: path))
        defer { source.release() }
        let connection = try source.connect(.writing, options: SQLiteStoreOptions())
        defer { connection.close() }
        try SQLiteTriggerCheck(connection: connection, schema: schema).requireNone(path: path)
        if report.before.problems.contains(where: { $0.kind == .integrity || $0.kind == .count }) {
            try reindex(connection)
        }
        connection.trustSchema()
        try connection.execute("BEGIN IMMEDIATE")
        let repaired = try RepairedObjects(schema, connection)
        var mending = RepairStatements(
            schema: schema, connection: connection,
            externalData: ExternalDataFolder(
                storePath: path, classKey: source.protection?.classKey), isRecovery: false)
        try mending.run()
        report.actions += mending.actions
        let derived = report.before.problems + report.before.notes
        if derived.contains(where: { $0.kind == .derived }) {
            report.actions.append("Recomputed derived attributes.")
        }
        if !mending.actions.isEmpty || derived.contains(where: { $0.kind == .derived }) {
            try mending.deriveAnew()
        }
        try repaired.record(path: path)
        try mendSchema(schema, carriesModel: carriesModel, connection)
        try mendMetadata(schema, carriesModel: carriesModel, connection)
        try mendModel(schema, connection)
        try connection.execute("COMMIT")
        if try source.hasLog(connection) {
            try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }

    /// Rebuilds all indexes from their tables.
    private mutating func reindex(_ connection: SQLiteConnection) throws {
        let names = try connection.texts(
            "SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name")
        for name in names {
            do {
                try connection.execute("REINDEX \(SQLName.quoted(name))")
            } catch let failure as SQLiteFailure
                where failure.code == SQLiteFailure.uniqueConstraint
            {
                // Reported as a violation of uniqueness.
                continue
            }
        }
        report.actions.append("Recreated all indexes.")
    }

    private mutating func mendSchema(
        _ schema: SQLSchema, carriesModel: Bool, _ connection: SQLiteConnection
    ) throws {
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: schema, carriesModel: carriesModel)
        var plan = try synchronization.plan()
        plan.made += try synchronization.missingFixedIndexes()
        if report.before.problems.contains(where: { $0.kind == .uniqueness }) {
            plan.made.removeAll { $0.unique != nil }
        }
        if plan.isEmpty { return }
        try synchronization.apply(plan)
        for part in plan.made {
            report.actions.append("Created the \(part.kind.rawValue) \(part.name).")
        }
        for part in plan.dropped where !plan.made.contains(where: { $0.name == part.name }) {
            report.actions.append("Dropped the \(part.kind.rawValue) \(part.name).")
        }
    }

    private mutating func mendMetadata(
        _ schema: SQLSchema, carriesModel: Bool, _ connection: SQLiteConnection
    ) throws {
        let metadata = try SQLiteMetadataReader(connection: connection, path: path).metadata()
        let names = schema.keptEntities.map(\.name)
        let hashes = metadata.entityVersionHashes
        let isIncomplete =
            carriesModel
            && (names.contains { hashes[$0] == nil } || hashes.values.contains { $0.count != 32 })
        guard isIncomplete || !StoreHashes.wrongSums(in: metadata).isEmpty else { return }
        let corrected = try StoreHashes.corrected(
            metadata, hashes: isIncomplete ? schema.layout.model.entityVersionHashes() : nil)
        try connection.run("UPDATE Z_METADATA SET Z_PLIST = ?", corrected)
        report.actions.append(
            isIncomplete
                ? "Recomputed the version hashes in Z_METADATA."
                : "Recomputed the checksums of the version hashes in Z_METADATA.")
    }

    /// Writes the model that the store was opened with, if the carried one cannot be read.
    private mutating func mendModel(_ schema: SQLSchema, _ connection: SQLiteConnection) throws {
        guard report.before.problems.contains(where: { $0.kind == .model }) else { return }
        let model = schema.layout.model
        if try connection.hasTable(SQLiteTables.model) {
            try connection.execute("DELETE FROM \(SQLiteTables.model)")
            try connection.run(
                "INSERT INTO \(SQLiteTables.model) VALUES (?)",
                String(decoding: model.modelXML(), as: UTF8.self))
        }
        if try connection.hasTable(SQLiteTables.modelCache), let cache = model.modelCache {
            try connection.execute("DELETE FROM \(SQLiteTables.modelCache)")
            try connection.run("INSERT INTO \(SQLiteTables.modelCache) VALUES (?)", cache)
        }
        report.actions.append("Rewrote the model in the store.")
    }

    // MARK: - After

    private mutating func replace() throws {
        let file = try OpenFile.open(copy, for: .updating)
        if let permissions = try FileSystem.information(at: path)?.permissions {
            try file.setPermissions(permissions)
        }
        try file.synchronize()
        file.close()
        // Not a link: checking for exclusive access writes to it.
        let backup = options.keepsBackup ? unusedBackupName() : nil
        // Without its keybag the backup of a protected store could not be opened.
        let hasNewKeybag = try backup.map {
            try StoreProtection.find(forStoreAt: path)?.writeKeybag(forStoreAt: $0) ?? false
        }
        do {
            if let backup { try FileSystem.copyFile(path, to: backup, synchronizing: true) }
            try SQLiteStore.alone(with: path) { try FileSystem.rename(copy, to: path) }
        } catch {
            if let backup {
                _ = try? FileSystem.removeFileIfPresent(backup)
                if hasNewKeybag == true { try? StoreProtection.removeKeybag(ofStoreAt: backup) }
            }
            throw error
        }
        report.backup = backup
        try FileSystem.synchronizeFolder(containing: path)
    }

    private func unusedBackupName() -> String {
        var name = path + ".before-repair"
        var number = 1
        while FileSystem.exists(name) {
            number += 1
            name = path + ".before-repair-\(number)"
        }
        return name
    }

    /// Moves unreferenced files aside. The user may be looking for them.
    private mutating func moveOrphans() throws {
        let external = ExternalDataFolder(storePath: path)
        guard report.after.notes.contains(where: { $0.kind == .externalData }) else { return }
        let store = try SQLiteStore.open(at: path, model: model, options: .reading())
        let orphans = try store.unreferencedExternalFiles()
        try store.close()
        let target = FileSystem.path(external.supportFolder, "_LOST_AND_FOUND")
        let root = external.root
        try FileSystem.makeFolder(target, beneath: root, withIntermediates: true)
        for orphan in orphans {
            let place = FileSystem.path(target, FileSystem.name(of: orphan))
            if FileSystem.exists(place, beneath: root) { continue }
            try FileSystem.renameWithoutReplacing(orphan, to: place, beneath: root)
        }
        try FileSystem.synchronizeFolder(target, beneath: root)
        try FileSystem.synchronizeFolder(external.folder, beneath: root)
        report.after.notes.removeAll { $0.kind == .externalData }
        report.lostAndFound = target
    }
}
