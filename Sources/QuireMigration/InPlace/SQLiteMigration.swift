import Foundation
public import QuireModel
internal import QuireProtection
public import QuireSQLite
internal import QuireSystem

/// Migrates a SQLite store to another model in place.
///
/// All of it is one database transaction: after any failure, a power loss or a killed process included, the store is
/// unchanged or completely migrated; other connections wait, or see one of the two states. Therefore no second file replaces
/// the first one, and opening a store needs no clean-up or recovery.
///
/// SQL is used where possible: a table that only gets columns is altered, others are filled from the old ones by one
/// statement each (``SQLMigration``). Otherwise, as for large values that move into files, to-many relationships that become
/// to-one, and policies, the rows are read in a snapshot from before the transaction, and loaded into new tables
/// (``InPlaceTransfer``).
///
/// Preserved are: the store's UUID and application metadata, primary keys and versions, records of documents, external data,
/// and persistent history, whose entities are renumbered. Afterwards the store contains the new model and its hashes. This
/// applies to stores of Core Data too, whose cached old model is deleted.
struct SQLiteMigration {
    /// The method of moving objects.
    enum Method: Sendable {
        /// By SQL, if it can do it.
        case automatic
        /// Row by row.
        case rowByRow
    }

    let path: String
    /// The model of the store; `nil` for the model that it contains.
    let sourceModel: ManagedObjectModel?
    let model: ManagedObjectModel
    /// The model that the store carries afterwards, which may have the entities of other stores too; `nil` for the new model.
    var carriedModel: ManagedObjectModel?
    let manager: MigrationManager
    let options: SQLiteStoreOptions
    var method = Method.automatic
    /// The path of a copy to write first; `nil` for none.
    var copyPath: String?
    /// Failure points, for tests that fail or kill a migration there.
    var checkpoint: (Checkpoint) throws -> Void = { _ in }

    /// Points in a migration, in their order.
    enum Checkpoint: CaseIterable, Sendable {
        case begun, tablesMade, objectsMoved, partsMade, booksWritten, committed
    }

    /// Migrates the store.
    ///
    /// - Throws: As ``SQLiteStore/migrate(at:from:to:manager:options:)``.
    func run() throws {
        let path = FileSystem.absolute(path)
        if options.isReadOnly {
            throw QuireError(
                .readOnly,
                "“\(path)” cannot be migrated read-only; open it for writing.",
                file: path)
        }
        try FileSystem.requireStoreFile(at: path)
        try OpenDatabaseRegistry.requireClosed(path, before: "migrating it")
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: false)
        defer { source.release() }
        do {
            let connection = try source.connect(.writing, options: options)
            defer { connection.close() }
            if connection.isReadOnly {
                throw QuireError(
                    .readOnly,
                    "“\(path)” is not writable, so it cannot be migrated; change its permissions.",
                    file: path)
            }
            // Indexes are built from many rows at once, which would all be in memory.
            try connection.execute("PRAGMA temp_store = FILE")
            try migrate(source, connection)
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    private func migrate(_ source: SQLiteDatabaseFile, _ connection: SQLiteConnection) throws {
        // The store is identified before anything is written to it.
        _ = try MetadataMigration.read(connection, path: source.storePath, model: sourceModel)
        let hasLog = try source.chooseJournal(connection, options: options)
        try connection.begin()
        var loading: SQLiteBulkLoad?
        var copy: String?
        let unused: [String]
        do {
            let books = try MetadataMigration.read(
                connection, path: source.storePath, model: sourceModel)
            try checkpoint(.begun)
            let layout = try model.layout()
            let mapping =
                try manager.mappingModel ?? .inferred(from: books.schema.layout, to: layout)
            try manager.checkRemoval(
                by: mapping, from: books.schema.layout, to: layout, path: source.storePath
            ) {
                try $0.removals(connection, books.schema)
                    + $0.leftOutParts(connection, books.schema)
            }
            var plan = try TransferPlan(mapping, from: books.schema.layout, to: layout)
            try plan.assignKeys { try books.maximumKey(of: $0, connection) }
            let draft = try migratedDraft(connection, source, plan, mapping)
            // Before the first write, which locks out readers if there is no log.
            if let copyPath {
                try writeCopy(to: copyPath, source, books.schema.layout.model)
                copy = copyPath
            }
            let schema = SQLSchema(fresh: layout)
            let load = SQLiteBulkLoad(
                connection: connection, schema: schema,
                externalData: ExternalDataFolder(
                    storePath: source.storePath, classKey: source.protection?.classKey),
                options: options)
            loading = load
            connection.trustSchema()
            let before = try connection.externalFileNames(books.schema)
            let completion = SQLiteSchemaCompletion(connection: connection, schema: schema)
            let migration = SQLMigration(plan: plan, old: books.schema, new: schema)
            if method == .automatic, let work = migration.work() {
                try SQLMigrationRun(
                    work: work, migration: migration, connection: connection,
                    manager: manager
                ).run(completion, checkpoint: checkpoint)
            } else {
                try InPlaceTransfer(
                    plan: plan, old: books.schema, new: schema, connection: connection,
                    source: source, hasLog: hasLog, manager: manager, loading: load
                ).run(completion, checkpoint: checkpoint)
            }
            try checkpoint(.objectsMoved)
            try load.completeOrders()
            try completion.makeParts()
            try checkpoint(.partsMade)
            unused = try books.write(
                plan, schema, model: model, carried: carriedModel ?? model, loading: load,
                filesBefore: before, connection)
            if let draft { try connection.writeDraft(draft) }
            try manager.advance(0)
            try load.synchronizeFiles()
            try checkpoint(.booksWritten)
            try connection.commit()
        } catch {
            // Closing the connection rolls back if this fails.
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            loading?.removeFiles()
            if let copy { try? SQLiteStore.destroy(at: copy) }
            throw error
        }
        try checkpoint(.committed)
        // Files that cannot be removed do no harm.
        let root = FileSystem.folder(of: source.storePath)
        for path in unused { _ = try? FileSystem.removeFileIfPresent(path, beneath: root) }
        if hasLog { _ = try? connection.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        manager.finish()
    }

    /// The draft for the new model; `nil` if there is none, or if it is damaged and stays as it is.
    private func migratedDraft(
        _ connection: SQLiteConnection, _ source: SQLiteDatabaseFile, _ plan: TransferPlan,
        _ mapping: MappingModel
    ) throws -> Data? {
        if try connection.draftSize() == nil { return nil }
        try plan.requireSameKeys(forDraftIn: source.storePath)
        let draft: Data?
        do { draft = try connection.draft(inStoreAt: source.storePath) } catch let error
            as QuireError where error.code == .invalidFormat
        {
            draft = nil
        }
        return try draft.map {
            try manager.migratedDraft($0, by: mapping, path: source.storePath)
        }
    }

    /// Writes a copy of the store as it was before the transaction.
    private func writeCopy(
        to path: String, _ source: SQLiteDatabaseFile, _ model: ManagedObjectModel
    ) throws {
        var options = options
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: source.storePath, model: model, options: options)
        defer { try? store.close() }
        try store.writeDurableCopy(to: path)
    }
}

extension SQLiteStore {
    /// Migrates a store that is not open to another model, in place.
    ///
    /// The migration is atomic, also on a crash or power loss. UUID, application metadata, primary keys (unless objects of
    /// several tables are merged into one), versions, records, external data and persistent history are preserved. Afterwards
    /// the store contains the new model.
    ///
    /// ```swift
    /// try SQLiteStore.migrate(at: "library.sqlite", to: newModel)
    /// ```
    ///
    /// - Parameters:
    ///   - path: The path of the store's file.
    ///   - source: The model of the store; `nil` for the model that it contains.
    ///   - model: The new model.
    ///   - manager: Provides the mapping, unless it is inferred, and the progress.
    ///   - options: Options for opening the file.
    /// - Complexity: O(*n*) in the objects whose entities change; little memory.
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the source model does not match the store, or the mapping
    ///   cannot be inferred or does not match the models, `removalDenied`, `validation`, `constraintConflict`, `cancelled`,
    ///   `notFound`, `invalidFormat`, `readOnly`, `locked`, `outOfSpace` or `storeUnavailable`.
    public static func migrate(
        at path: String, from source: ManagedObjectModel? = nil, to model: ManagedObjectModel,
        manager: MigrationManager = MigrationManager(),
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        try SQLiteMigration(
            path: path, sourceModel: source, model: model, manager: manager, options: options
        ).run()
    }
}

// MARK: - Rows that SQL cannot convert

/// Refills a store's tables, row by row, from a snapshot before the transaction.
struct InPlaceTransfer {
    let plan: TransferPlan
    let old: SQLSchema
    let new: SQLSchema
    let connection: SQLiteConnection
    let source: SQLiteDatabaseFile
    /// Whether there is a write-ahead log, so that the old state can be read during the transaction.
    let hasLog: Bool
    let manager: MigrationManager
    let loading: SQLiteBulkLoad

    func run(
        _ completion: SQLiteSchemaCompletion,
        checkpoint: (SQLiteMigration.Checkpoint) throws -> Void
    ) throws {
        // Before anything is written: without a log the old state cannot be read later.
        let (store, folder) = try openSource()
        defer {
            try? store.close()
            folder?.remove()
        }
        try completion.removeParts()
        try completion.removeTables(of: old)
        let statements = SQLSchemaStatements(schema: new)
        for sql in statements.tables + statements.joinTables { try connection.execute(sql) }
        try checkpoint(.tablesMade)
        try manager.countUnits(of: plan, in: store)
        let check =
            manager.allowsRemoval ? nil : try store.counting { try TransferCheck(plan, from: $0) }
        try ObjectTransfer(
            plan, from: store,
            identity: StoreIdentity(
                uuid: store.identity.uuid, entityNames: new.layout.entities.map(\.name)),
            into: loading, policies: manager.policies, step: manager.advance
        ).run()
        try check?.requireAll(
            in: SQLContentCounter(connection: connection, schema: new), path: source.storePath)
    }

    /// The store in its old state, and its folder if it is a copy.
    private func openSource() throws -> (SQLiteStore, folder: TemporarySibling?) {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(
            at: source.storePath, model: old.layout.model, options: options)
        if hasLog { return (store, nil) }
        var folder: TemporarySibling?
        do {
            let made = try TemporarySibling.makeFolderInTemporaryDirectory()
            folder = made
            let copy = FileSystem.path(made.path, "store")
            try store.writeCopy(to: copy, linking: true)
            try store.close()
            return (
                try SQLiteStore.open(at: copy, model: old.layout.model, options: options), folder
            )
        } catch {
            try? store.close()
            folder?.remove()
            throw error
        }
    }
}
