import Foundation
public import QuireModel
internal import QuireModelFiles
internal import QuireProtection
internal import QuireQuery
package import QuireStore
internal import QuireSystem

extension SQLiteStore {
    /// Creates an empty store that contains its model.
    ///
    /// - Parameters:
    ///   - path: The path of a file that does not exist, or is empty, in an existing folder.
    ///   - model: The model.
    ///   - options: How to use the file.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidModel`, `outOfSpace`, `readOnly`, `protectionUnavailable` if
    ///   it cannot be protected as the options require, or `storeUnavailable`. Then no file is left.
    public static func create(
        at path: String, model: ManagedObjectModel,
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws -> SQLiteStore {
        try create(
            at: path, layout: model.binding(classes: options.objectClasses).layout(),
            options: options)
    }

    /// Creates a store like ``create(at:model:options:)``, with a resolved model shared with other stores.
    ///
    /// The tables are written in one transaction, over a file that is missing or ``isVacant(at:)``. So a killed process leaves
    /// a file that is still vacant, and of several processes that create a store, one does; the others wait for it, and fail
    /// with code `alreadyExists`.
    package static func create(
        at path: String, layout: ResolvedModel, options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        let path = FileSystem.absolute(path)
        let entities = try layout.entityNumbers(ofConfiguration: options.configuration)
        try NewStoreLocation(
            path: path, isTaken: exists(at: path) && !isVacant(at: path),
            isInMemory: StorePath.isInMemory(path)
        ).check(isReadOnly: options.isReadOnly)
        var attempts = 0
        while true {
            do {
                return try StoreProtection.making(
                    forStoreAt: path, options.fileProtection, domain: options.protectionDomain,
                    slots: options.protectionSlots
                ) { protection in
                    let creation = try SQLiteStoreCreation(
                        path: path, protection: protection, options: options)
                    return try creation.run(layout: layout, entities: entities)
                }
            } catch let error as QuireError where error.code == .storeReplaced && attempts < 20 {
                // Another process that failed to create it has removed its file.
                attempts += 1
            }
        }
    }

    /// Opens the store at a path, or creates it if there is none. If another process does so at the same time, both open the
    /// same store.
    ///
    /// - Parameter open: Opens a store that exists.
    package static func openOrCreate(
        at path: String, layout: ResolvedModel, options: SQLiteStoreOptions,
        open: () throws -> SQLiteStore
    ) throws -> SQLiteStore {
        if !options.isReadOnly, !exists(at: path) || isVacant(at: path) {
            do {
                return try create(at: path, layout: layout, options: options)
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process has created it.
            }
        }
        return try open()
    }

    /// Whether the file at a path is one in which a store can be created: it is empty, or a database without tables, as a
    /// process leaves it that was killed while it created a store.
    package static func isVacant(at path: String) -> Bool {
        let path = FileSystem.absolute(path)
        guard !StorePath.isInMemory(path),
            let found = try? FileSystem.information(
                at: path, beneath: StorePath.packageRoot(of: path)),
            found.kind == .regular
        else { return false }
        if found.size == 0 { return true }
        // A database without tables is one page, unless a killed transaction is still to be rolled back.
        guard
            FileSystem.exists(path + "-journal")
                || found.size <= 1 << 16 && found.size.nonzeroBitCount == 1,
            let source = try? SQLiteDatabaseFile(path: path, isReadOnly: false)
        else { return false }
        defer { source.release() }
        // Only a connection that writes can roll back what a killed process has left.
        guard let connection = try? source.connect(.writing, options: SQLiteStoreOptions()) else {
            return false
        }
        defer { connection.close() }
        return (try? connection.hasSchema) == false
    }

    fileprivate static func metadata(of schema: SQLSchema, uuid: String) -> StoreMetadata {
        let model = schema.layout.model
        let kept = Set(schema.keptEntities.map(\.name))
        return StoreMetadata(
            storeUUID: uuid, type: .sqlite, model: model,
            hashes: model.versionHashesForNewStores.filter { kept.contains($0.key) })
    }

    fileprivate static func writeTables(
        of schema: SQLSchema, _ metadata: StoreMetadata, _ connection: SQLiteConnection
    ) throws {
        let statements = SQLSchemaStatements(schema: schema)
        for sql in statements.all + SQLSchemaStatements.bookkeepingTables {
            try connection.execute(sql)
        }
        let model = schema.layout.model
        for entity in schema.keptEntities {
            try connection.run(
                "INSERT INTO Z_PRIMARYKEY VALUES (?, ?, ?, 0)",
                Int64(schema.entity(entity).storeNumber), entity.name,
                Int64(entity.superentityNumber.map { schema.entity(number: $0).storeNumber } ?? 0))
        }
        try connection.run(
            "INSERT INTO Z_METADATA VALUES (1, ?, ?)", metadata.storeUUID, metadata.propertyList)
        try connection.execute(SQLiteTables.createModel)
        try connection.run(
            "INSERT INTO \(SQLiteTables.model) VALUES (?)",
            String(decoding: model.modelXML(), as: UTF8.self))
        // Core Data's model cache lacks facts specific to this framework.
        try connection.execute(SQLiteTables.createModelCache)
        try connection.run("INSERT INTO \(SQLiteTables.modelCache) VALUES (?)", model.modelCache)
    }
}

/// The creation of a store in a file, which is new or vacant.
private struct SQLiteStoreCreation {
    let path: String
    let source: SQLiteDatabaseFile
    let options: SQLiteStoreOptions
    /// Whether the file was made here.
    let isNewFile: Bool

    init(path: String, protection: StoreProtection?, options: SQLiteStoreOptions) throws {
        self.path = path
        self.options = options
        source = try SQLiteDatabaseFile(path: path, isReadOnly: false, protection: protection)
        isNewFile = try !source.access.isMemory && Self.makeEmptyFile(at: path)
    }

    /// - Returns: Whether it did not exist.
    private static func makeEmptyFile(at path: String) throws -> Bool {
        let file: OpenFile
        do {
            file = try OpenFile.open(
                path, beneath: StorePath.packageRoot(of: path), for: .creating)
        } catch let error as QuireError where error.code == .alreadyExists {
            return false
        }
        // As SQLite creates them: the group may only read.
        try file.setPermissionsIfPossible(file.information().permissions & 0o755)
        file.close()
        return true
    }

    /// - Throws: ``QuireError`` with code `alreadyExists` if another process has created the store, or `storeReplaced` if one
    ///   has removed the file.
    func run(layout: ResolvedModel, entities: Set<Int>) throws -> SQLiteStore {
        do {
            let connection: SQLiteConnection
            do { connection = try source.connect(.creating, options: options) } catch {
                if isNewFile, SQLiteStore.isVacant(at: path) {
                    _ = try? FileSystem.removeFileIfPresent(path)
                }
                throw error
            }
            var version: Int64?
            do {
                return try create(layout, entities, connection, &version)
            } catch {
                removeFile(connection, version)
                connection.close()
                throw error
            }
        } catch {
            source.release()
            throw (error as? SQLiteFailure)?.error(path: path) ?? error
        }
    }

    /// - Parameter version: `PRAGMA data_version` after the commit.
    private func create(
        _ layout: ResolvedModel, _ entities: Set<Int>, _ connection: SQLiteConnection,
        _ version: inout Int64?
    ) throws -> SQLiteStore {
        // Must precede the first write to have an effect.
        try connection.execute(
            "PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8'; PRAGMA auto_vacuum = INCREMENTAL")
        let schema = SQLSchema(fresh: layout, entities: entities)
        let uuid = UUID().uuidString
        try connection.begin()
        if try connection.hasSchema { throw QuireError.alreadyExists(at: path) }
        let metadata = SQLiteStore.metadata(of: schema, uuid: uuid)
        try SQLiteStore.writeTables(of: schema, metadata, connection)
        try connection.commit()
        version = try connection.integer("PRAGMA data_version")
        if !source.access.isMemory {
            // Another process whose creation failed may have removed it.
            try source.protection?.writeKeybag(forStoreAt: path)
        }
        let hasLog = try chooseJournal(connection)
        if !source.access.isMemory { try FileSystem.synchronizeFolder(containing: path) }
        return SQLiteStore(
            source: source,
            identity: StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name)),
            schema: schema, carriesModel: true, options: options,
            connection: connection, hasLog: hasLog, hashes: metadata.entityVersionHashes)
    }

    private func chooseJournal(_ connection: SQLiteConnection) throws -> Bool {
        do {
            return try source.chooseJournal(connection, options: options)
        } catch let failure as SQLiteFailure where failure.isBusy {
            // Others use the store already. The first save tries again.
            return try source.hasLog(connection)
        }
    }

    /// Removes the file after a failure, if it was made here, and no other process has created the store or written to it.
    ///
    /// Others that wait for the lock find afterwards that the file is gone.
    ///
    /// - Parameter version: `PRAGMA data_version` after the commit; `nil` if nothing was committed.
    private func removeFile(_ connection: SQLiteConnection, _ version: Int64?) {
        guard isNewFile else { return }
        if connection.isInTransaction { try? connection.execute("ROLLBACK") }
        let isUnchanged: Bool
        do {
            try connection.begin()
            isUnchanged =
                try source.files?.change() == nil
                && (version == nil
                    ? !connection.hasSchema
                    : connection.integer("PRAGMA data_version") == version)
        } catch let failure as SQLiteFailure where failure.isBusy {
            return
        } catch {
            // It cannot be locked, as on a disk that fails.
            isUnchanged = (try? source.files?.change()) == .some(nil)
        }
        guard isUnchanged else { return }
        for suffix in ["-wal", "-shm", "-journal", ""] {
            _ = try? FileSystem.removeFileIfPresent(path + suffix)
        }
    }
}

extension SQLiteConnection {
    /// Whether the database has tables, or other entries in its schema.
    var hasSchema: Bool {
        get throws { try integer("SELECT 1 FROM sqlite_schema LIMIT 1") != nil }
    }
}

// MARK: - Loading in bulk

extension SQLiteStore: BulkInsertingStore {
    /// Loads objects in one transaction.
    ///
    /// - Throws: The closure's error, or ``QuireError`` with code `constraintConflict`, `outOfSpace`, `readOnly` or
    ///   `storeUnavailable`. Then nothing has changed.
    package func load(_ body: (any BulkInserter) throws -> Void) throws {
        try withWriter { writer in
            let connection = writer.connection
            let loading = SQLiteBulkLoad(
                connection: connection, schema: schema, externalData: externalData,
                options: options
            ) { isRequired in
                try SQLiteHistoryWriter(
                    store: self, writer: writer, origin: TransactionOrigin(),
                    isRequired: isRequired)
            }
            let completion = SQLiteSchemaCompletion(connection: connection, schema: schema)
            try connection.begin()
            do {
                try writer.modelVersionCheck.checkTriggers(connection)
                if !schema.allComputedIndexes.isEmpty { connection.trustSchema() }
                try completion.removeParts()
                writer.history = SQLiteHistoryCache()
                try loading.beginHistory(isRequired: false)
                try body(loading)
                try loading.finishHistory()
                try loading.completeOrders()
                try completion.makeParts()
                let greatest = try loading.writeGreatestKeys()
                try loading.synchronizeFiles()
                willRecordPrimaryKeys(greatest)
                try connection.commit()
                didRecordPrimaryKeys(greatest)
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                writer.note(error)
                if writer.poison == nil { loading.removeFiles() }
                throw error
            }
        }
    }
}

extension SQLiteStore {
    /// The greatest primary key ever used in an entity hierarchy.
    package func maximumPrimaryKey(of root: ResolvedEntity) throws -> Int64 {
        try read { try $0.greatestUsedKey(of: schema.entity(root)) }
    }
}
