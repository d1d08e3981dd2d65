public import Foundation
internal import QuireMigration
public import QuireModel
package import QuireProtection
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// Recovers objects from a damaged store, page by page, into a new one.
///
/// The damaged file is read directly, not through SQLite, and is not changed. Every row on an intact page is recovered.
/// References to lost objects are cleared, so that the new store is consistent. The store recovered from a protected store, and
/// all temporary files, are encrypted with the same keys.
///
/// ```swift
/// let report = try StoreRecovery.recover("damaged.sqlite", to: "recovered.sqlite")
/// print("\(report.objectCount) objects; lost: \(report.losses)")
/// ```
public enum StoreRecovery {
    /// Options of a recovery.
    public struct Options: Sendable {
        /// Whether to read freed pages as well: deleted objects, or older copies of existing ones, may be recovered.
        public var includesDeletedObjects = false

        /// Creates the default options.
        public init() {}
    }

    /// Recovers a store.
    ///
    /// The new store has the UUID of the damaged one, and objects keep their identifiers.
    ///
    /// - Parameters:
    ///   - path: The damaged store. Its write-ahead log is read too, as far as its checksums are valid.
    ///   - newPath: The path of the new store; it must not exist yet.
    ///   - model: The model; `nil` for the model in the store, or, if that is lost, one inferred from its tables.
    ///   - options: Options of the recovery.
    ///   - progress: Counts steps, the longest of which report their own progress: observe `fractionCompleted`. Cancelling it
    ///     leaves no files.
    /// - Complexity: O(*n*) in the size of the file; memory is bounded.
    /// - Throws: ``QuireError`` with code `notFound`, `alreadyExists`, `locked` if the store is open in this process,
    ///   `protectedDataUnavailable` if its protection domain is locked, `incompatibleModel`, `invalidFormat` if no objects are
    ///   found or the keybag is damaged, `cancelled`, `outOfSpace` or `inputOutput`. Then no new store exists.
    public static func recover(
        _ path: String, to newPath: String, model: ManagedObjectModel? = nil,
        options: Options = Options(), progress: Progress? = nil
    ) throws -> StoreRecoveryReport {
        try recover(
            path, to: newPath, model: model, options: options,
            protection: StoreProtection.find(forStoreAt: path), progress: progress)
    }

    /// As ``recover(_:to:model:options:progress:)``, with the keys of the damaged store. While they are retained, the new store is
    /// unlocked too.
    package static func recover(
        _ path: String, to newPath: String, model: ManagedObjectModel?, options: Options,
        protection: StoreProtection?, progress: Progress?
    ) throws -> StoreRecoveryReport {
        let progress = RecoveryProgress(path: path, progress: progress)
        let path = FileSystem.absolute(path)
        let newPath = FileSystem.absolute(newPath)
        if FileSystem.exists(newPath) { throw FileSystem.failure("create", newPath, errno: EEXIST) }
        guard FileSystem.exists(FileSystem.folder(of: newPath)) else {
            throw FileSystem.failure("create", newPath, errno: ENOENT)
        }
        var salvage = try StoreSalvage(
            path: path, includesFreedRows: options.includesDeletedObjects,
            cipher: protection?.cipher)
        try salvage.survey(model: model)
        try progress.advance(to: 2)
        guard salvage.findings.tables.contains(where: \.holdsObjects),
            !salvage.findings.entities.isEmpty
        else {
            let keybag = StoreProtection.keybag(ofStoreAt: path).path
            throw QuireError(
                .invalidFormat,
                "Nothing in “\(path)” describes its rows; specify the model that it was created with."
                    + (protection == nil
                        ? " If it is protected, its keybag “\(keybag)” is missing." : ""),
                file: path)
        }
        let sibling = try TemporarySibling.makeFolder(beside: newPath)
        defer { sibling.remove() }
        let folder = sibling.path
        do {
            let run = StoreRecoveryRun(
                path: path, newPath: newPath, folder: folder, model: model, salvage: salvage,
                protection: protection, progress: progress)
            return try sibling.building {
                try FileSystem.building(FileSystem.folder(of: newPath), as: run.place) {
                    try run.run()
                }
            }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: newPath)
        }
    }
}

/// The progress of a recovery, in tenths of the time that it usually takes: surveying the pages 2, salvaging their rows 4,
/// filling the new store 2, checking it 2.
private struct RecoveryProgress {
    let path: String
    let progress: Progress?

    init(path: String, progress: Progress?) {
        (self.path, self.progress) = (path, progress)
        progress?.totalUnitCount = 10
        progress?.completedUnitCount = 0
    }

    /// - Throws: ``QuireError`` with code `cancelled`.
    func advance(to tenths: Int64) throws {
        progress?.completedUnitCount = tenths
        try checkCancelled()
    }

    func checkCancelled() throws {
        try progress?.checkCancelled(
            "The recovery of “\(path)” was cancelled; nothing was created.", file: path)
    }

    /// The progress of the next step, which completes some tenths when it is completed.
    func step(ofTenths tenths: Int64) -> Progress? {
        progress.map { Progress(totalUnitCount: 1, parent: $0, pendingUnitCount: tenths) }
    }
}

/// The steps of a recovery.
private struct StoreRecoveryRun {
    let path: String
    let newPath: String
    let folder: String
    let model: ManagedObjectModel?
    var salvage: StoreSalvage
    /// The keys of the damaged store, which also seal the new one and the salvaged tables.
    let protection: StoreProtection?
    let progress: RecoveryProgress
    private(set) var report = StoreRecoveryReport()

    /// The folder of the new store: a separate one, so that the external data folder beside it gets the right name.
    var place: String { FileSystem.path(folder, "new") }

    consuming func run() throws -> StoreRecoveryReport {
        var run = self
        return try run.recover()
    }

    private mutating func recover() throws -> StoreRecoveryReport {
        let salvaged = FileSystem.path(folder, "salvaged")
        try pour(into: salvaged)
        let source = try open(salvaged)
        report.modelOrigin =
            model != nil ? .given : source.hasInferredModel ? .inferred : .carried
        try FileSystem.makeFolder(place)
        let building = FileSystem.path(place, FileSystem.name(of: newPath))
        let schema = source.schema
        try source.close()
        try protection?.writeKeybag(forStoreAt: building)
        var options = SQLiteStoreOptions()
        options.fileProtection = protection?.fileProtection ?? FileProtection.none
        let target = try SQLiteStore.create(
            at: building, model: schema.layout.model, options: options)
        do {
            try target.withWriter { writer in
                try fill(target, from: schema, salvaged: salvaged, writer.connection)
            }
            try countMissing(in: target, salvaged: salvaged)
            try progress.advance(to: 8)
        } catch {
            try? target.close()
            throw error
        }
        try target.close()
        try check(building)
        try SQLiteStore.copyPermissions(of: path, to: building)
        try FileSystem.synchronizeTree(place)
        try SQLiteStore.moveIntoPlace(building, to: newPath)
        return report
    }

    // MARK: - Salvaging

    private mutating func pour(into salvaged: String) throws {
        let connection = try SQLiteConnection(
            path: salvaged, mode: .creating, cipher: protection?.cipher)
        defer { connection.close() }
        try connection.execute(
            "PRAGMA page_size = 4096; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
        let step = progress.step(ofTenths: 4)
        try salvage.pour(into: connection) { leaves, total in
            step?.totalUnitCount = Int64(total)
            step?.completedUnitCount = Int64(leaves)
            try progress.checkCancelled()
        }
        let findings = salvage.findings
        report.lostPages = findings.lostPages.count
        report.lostRows = findings.lostRows
        report.lostValues = findings.lostValues
        report.strayRows = findings.strayRows
        report.droppedLogFrames = findings.droppedLogFrames
        report.lostTransactions = findings.lostTransactions
        report.lacksSchema = findings.lacksSchema
        report.omissions =
            SQLiteAncillaryData(tables: findings.tables.lazy.map(\.name)).omissions
        try restoreMetadata(connection)
        try completeTables(connection)
    }

    /// Adds the tables and columns that the model requires and the damaged store lacks, so that it can be read with its
    /// model. If the schema table is damaged, missing tables prove nothing.
    private mutating func completeTables(_ connection: SQLiteConnection) throws {
        let findings = salvage.findings
        guard !findings.lacksSchema,
            let layout = try? (model ?? connection.carriedModel(path: path))?.layout()
        else { return }
        let tables = findings.tables.filter { $0.root != nil }
        let gaps = SQLSchema.gaps(
            layout,
            in: SQLCatalog(
                entities: findings.entities,
                tables: tables.map { SQLCatalog.Table(name: $0.name, columns: $0.columns) }))
        for table in gaps.tables {
            let columns = table.columns.map { "\(SQLName.quoted($0.name)) \($0.type)" }
            try connection.execute(
                "CREATE TABLE IF NOT EXISTS \(SQLName.quoted(table.name)) "
                    + "(\(columns.joined(separator: ", ")))")
            report.missingParts.append("The table \(table.name) is missing.")
        }
        for gap in gaps.columns {
            try connection.execute(
                "ALTER TABLE \(SQLName.quoted(gap.table)) ADD COLUMN "
                    + "\(SQLName.quoted(gap.column.name)) \(gap.column.type)")
            // A model given by the caller may have relationships that the store never had.
            if gap.role == .required || gap.role == .unpaired && model == nil {
                report.missingParts.append(
                    "The column \(gap.column.name) of \(gap.table) is missing.")
            }
        }
        if model != nil { return }
        for pair in gaps.pairs {
            let entity = layout.entity(number: pair.entityNumber)
            report.missingParts.append(
                "The join table of “\(entity.name).\(entity.relationships[pair.index].name)” is missing."
            )
        }
    }

    /// Restores missing metadata so that the salvaged tables can be opened as a store.
    private mutating func restoreMetadata(_ connection: SQLiteConnection) throws {
        let findings = salvage.findings
        for entity in findings.entities {
            try connection.run(
                "INSERT OR IGNORE INTO Z_PRIMARYKEY VALUES (?, ?, ?, 0)", Int64(entity.number),
                entity.name, Int64(entity.superentityNumber))
        }
        // Rows of Z_METADATA after the first are unused.
        do {
            _ = try SQLiteMetadataReader(connection: connection, path: path).metadata()
        } catch is QuireError {
            report.missingParts.append("The metadata is damaged; the new store has a new UUID.")
            let uuid = UUID().uuidString
            let metadata = StoreMetadata(
                storeUUID: uuid, type: .sqlite, model: ManagedObjectModel(), hashes: [:])
            try connection.execute("DELETE FROM Z_METADATA")
            try connection.run(
                "INSERT INTO Z_METADATA VALUES (1, ?, ?)", uuid, metadata.propertyList)
        }
        // An unreadable model would hide the other one, or prevent opening without one.
        if findings.model == nil { try connection.execute("DELETE FROM \(SQLiteTables.model)") }
        for table in [SQLiteTables.model, SQLiteTables.modelCache]
        where try connection.integer("SELECT count(*) FROM \(table)") == 0 {
            try connection.execute("DROP TABLE \(table)")
        }
    }

    /// Opens the salvaged tables with the best available model.
    private func open(_ salvaged: String) throws -> SQLiteStore {
        var options = SQLiteStoreOptions.reading(inferringModel: true)
        options.protection = protection
        return try SQLiteStore.open(at: salvaged, model: model, options: options)
    }

    // MARK: - Filling

    private mutating func fill(
        _ target: SQLiteStore, from source: SQLSchema, salvaged: String,
        _ connection: SQLiteConnection
    ) throws {
        let salvaged = try SQLiteFiles.pathToAttach(salvaged)
        let sealed = connection.sealing.map { SQLiteConnection.uri(salvaged, $0.query) }
        try connection.run(
            "ATTACH DATABASE ? AS \(StoreTransfer.attached)", sealed ?? salvaged)
        try connection.execute("BEGIN IMMEDIATE")
        let losses = try StoreTransfer(
            source: source, target: target.schema, connection: connection
        ).run()
        report.lostValues += losses.values
        report.strayRows += losses.rows
        report.strayRows += try countUnclaimedRows(source, connection)
        report.duplicates = losses.duplicates
        try copyBooks(source, target.schema, connection)
        try copyFiles(target, connection)
        var mending = RepairStatements(
            schema: target.schema, connection: connection, externalData: target.externalData,
            isRecovery: true)
        try mending.run()
        try mending.deriveAnew()
        report.actions = mending.actions
        try connection.execute("COMMIT")
        try connection.execute("DETACH DATABASE \(StoreTransfer.attached)")
    }

    /// Reports salvaged objects, values and references that the new store lacks. Skipped after losses have been
    /// reported, because these differences would be reported twice.
    private mutating func countMissing(in target: SQLiteStore, salvaged: String) throws {
        if report.lostValues > 0 || report.duplicates > 0 || !report.actions.isEmpty { return }
        let source = try open(salvaged)
        defer { try? source.close() }
        let plan = try TransferPlan(
            .identity(of: source.layout.model), from: source.layout, to: target.layout)
        let check = try source.counting { try TransferCheck(plan, from: $0) }
        let missing = try target.counting { try check.missing(in: $0) }
        report.missingParts += missing.map { "Not recovered: \($0)." }
    }

    /// The rows of objects in tables without an entity in the model.
    private func countUnclaimedRows(
        _ source: SQLSchema, _ connection: SQLiteConnection
    ) throws -> Int {
        let claimed = Set(source.tables.map { $0.name.uppercased() })
        let attached = try attachedTables(connection)
        return try salvage.findings.tables.filter {
            $0.holdsObjects && attached.contains($0.name)
                && !claimed.contains($0.name.uppercased())
        }.reduce(0) { count, table in
            let name = "\(StoreTransfer.attached).\(SQLName.quoted(table.name))"
            return count + Int(try connection.integer("SELECT count(*) FROM \(name)") ?? 0)
        }
    }

    /// Copies identity, applications' metadata and records, and the greatest keys.
    private func copyBooks(
        _ source: SQLSchema, _ target: SQLSchema, _ connection: SQLiteConnection
    ) throws {
        let isInferred = report.modelOrigin == .inferred
        let old = try SQLiteMetadataReader(
            connection: connection, path: path, database: StoreTransfer.attached
        ).metadata()
        let new = try SQLiteMetadataReader(connection: connection, path: newPath).metadata()
        try connection.run(
            "UPDATE main.Z_METADATA SET Z_UUID = ?, Z_PLIST = ?", old.storeUUID,
            StoreHashes.merged(old, into: new))
        let tables = try attachedTables(connection)
        let attached = StoreTransfer.attached
        if !isInferred, tables.contains(SQLiteTables.modelCache) {
            let cache = SQLiteTables.modelCache
            try connection.execute(
                "CREATE TABLE IF NOT EXISTS \(cache) (Z_CONTENT BLOB); DELETE FROM main.\(cache); "
                    + "INSERT INTO main.\(cache) SELECT Z_CONTENT FROM \(attached).\(cache) LIMIT 1"
            )
        }
        if tables.contains(SQLiteTables.records) {
            try connection.execute(
                "\(SQLiteTables.createRecords); INSERT OR IGNORE INTO main.\(SQLiteTables.records) "
                    + "SELECT Z_KEY, Z_VALUE FROM \(attached).\(SQLiteTables.records) WHERE Z_KEY IS NOT NULL"
            )
        }
        if tables.contains(SQLiteTables.draft) {
            let columns = "(Z_ORDER, Z_CONTENT)"
            try connection.execute(
                "\(SQLiteTables.createDraft); INSERT INTO main.\(SQLiteTables.draft) \(columns) "
                    + "SELECT Z_ORDER, Z_CONTENT FROM \(attached).\(SQLiteTables.draft)")
        }
        if tables.contains(SQLiteTables.externalData) {
            try connection.execute(
                "\(SQLiteTables.createExternalData); INSERT OR IGNORE INTO main.\(SQLiteTables.externalData) "
                    + "SELECT Z_UUID, Z_BYTES, Z_SHA256 FROM \(attached).\(SQLiteTables.externalData) "
                    + "WHERE Z_UUID IS NOT NULL AND Z_SHA256 IS NOT NULL")
        }
        // Recovered objects that join a shared document again must not be there twice.
        try connection.keepFormerIdentifiers(of: attached)
        for table in target.tables {
            let numbers = (
                source.entity(number: table.rootNumber).storeNumber,
                target.entity(number: table.rootNumber).storeNumber
            )
            // A damaged number must not use up the keys.
            try connection.execute(
                "UPDATE main.Z_PRIMARYKEY SET Z_MAX = coalesce((SELECT Z_MAX FROM \(attached).Z_PRIMARYKEY WHERE "
                    + "Z_ENT = \(numbers.0) AND typeof(Z_MAX) = 'integer' AND Z_MAX BETWEEN 0 AND \(ManagedObjectID.maximumPrimaryKey / 2)), 0) "
                    + "WHERE Z_ENT = \(numbers.1)")
        }
    }

    private func attachedTables(_ connection: SQLiteConnection) throws -> Set<String> {
        Set(try connection.texts("SELECT name FROM \(StoreTransfer.attached).sqlite_schema"))
    }

    /// Copies the files that objects refer to.
    private mutating func copyFiles(
        _ target: SQLiteStore, _ connection: SQLiteConnection
    ) throws {
        let old = ExternalDataFolder(storePath: path)
        for name in try connection.externalFileNames(target.schema).sorted() {
            let file = old.path(ofFileNamed: name)
            guard old.hasFile(named: name) else {
                report.missingFiles += 1
                continue
            }
            try FileSystem.makeFolder(target.externalData.folder, withIntermediates: true)
            try FileSystem.copyFile(
                file, beneath: old.root, to: target.externalData.path(ofFileNamed: name))
        }
    }

    // MARK: - Ending

    /// Checks the new store as opened on its own.
    private mutating func check(_ building: String) throws {
        let store = try SQLiteStore.open(at: building, options: .reading())
        defer { try? store.close() }
        let (folder, own) = (FileSystem.folder(of: building), FileSystem.folder(of: newPath))
        let checked = try StoreCheck.run(store, progress: progress.step(ofTenths: 2))
        report.problems = checked.problems.map {
            var problem = $0
            problem.message = problem.message.replacing(folder, with: own)
            return problem
        }
        for entity in store.schema.keptEntities where !entity.isAbstract {
            let request = FetchSpecification(only: entity.name)
            report.objects[entity.name] = try store.count(matching: request)
        }
    }
}
