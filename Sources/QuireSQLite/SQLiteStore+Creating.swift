import Foundation
public import QuireModel
internal import QuireModelFiles
internal import QuireProtection
internal import QuireQuery
package import QuireStore
internal import QuireSystem

extension SQLiteStore {
    /// Creates an empty store for a model, which it then carries.
    ///
    /// - Parameters:
    ///   - path: The path of a file that does not exist, in an existing folder.
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
    package static func create(
        at path: String, layout: ResolvedModel, options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        let path = FileSystem.absolute(path)
        let entities = try layout.entityNumbers(ofConfiguration: options.configuration)
        try NewStoreLocation(
            path: path, isTaken: exists(at: path), isInMemory: StorePath.isInMemory(path)
        ).check(isReadOnly: options.isReadOnly)
        return try StoreProtection.making(
            forStoreAt: path, options.fileProtection, domain: options.protectionDomain,
            slots: options.protectionSlots
        ) { protection in
            let source = try SQLiteDatabaseFile(
                path: path, isReadOnly: false, protection: protection)
            // Another process may have created a store meanwhile, which must not be removed.
            if !source.access.isMemory { try makeEmptyFile(at: path) }
            do {
                return try create(
                    source: source, layout: layout, entities: entities, options: options)
            } catch {
                source.release()
                for suffix in ["", "-wal", "-shm", "-journal"] where !source.access.isMemory {
                    _ = try? FileSystem.removeFileIfPresent(path + suffix)
                }
                throw (error as? SQLiteFailure)?.error(path: path) ?? error
            }
        }
    }

    private static func makeEmptyFile(at path: String) throws {
        let file = try OpenFile.open(
            path, beneath: StorePath.packageRoot(of: path), for: .creating)
        // As SQLite creates them: the group may only read.
        try file.setPermissionsIfPossible(file.information().permissions & 0o755)
        file.close()
    }

    private static func create(
        source: SQLiteDatabaseFile, layout: ResolvedModel, entities: Set<Int>,
        options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        let connection = try source.connect(.creating, options: options)
        do {
            // Must precede the first write to have an effect.
            try connection.execute(
                "PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8'; PRAGMA auto_vacuum = INCREMENTAL"
            )
            let hasLog = try source.chooseJournal(connection, options: options)
            let schema = SQLSchema(fresh: layout, entities: entities)
            let uuid = UUID().uuidString
            try connection.begin()
            let metadata = metadata(of: schema, uuid: uuid)
            try writeTables(of: schema, metadata, connection)
            try connection.commit()
            if !source.access.isMemory {
                try FileSystem.synchronizeFolder(containing: source.storePath)
            }
            return SQLiteStore(
                source: source,
                identity: StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name)),
                schema: schema, carriesModel: true, options: options,
                connection: connection, hasLog: hasLog, hashes: metadata.entityVersionHashes)
        } catch {
            connection.close()
            throw error
        }
    }

    private static func metadata(of schema: SQLSchema, uuid: String) -> StoreMetadata {
        let model = schema.layout.model
        let kept = Set(schema.keptEntities.map(\.name))
        return StoreMetadata(
            storeUUID: uuid, type: .sqlite, model: model,
            hashes: model.versionHashesForNewStores.filter { kept.contains($0.key) })
    }

    private static func writeTables(
        of schema: SQLSchema, _ metadata: StoreMetadata, _ connection: SQLiteConnection
    ) throws {
        let statements = SQLSchemaStatements(schema: schema)
        for sql in statements.all + SQLSchemaStatements.bookkeepingTables {
            try connection.execute(sql)
        }
        let model = schema.layout.model
        for entity in schema.keptEntities {
            try connection.withStatement("INSERT INTO Z_PRIMARYKEY VALUES (?, ?, ?, 0)") {
                try $0.bind(Int64(schema.entity(entity).storeNumber), at: 1)
                try $0.bind(entity.name, at: 2)
                try $0.bind(
                    Int64(
                        entity.superentityNumber.map { schema.entity(number: $0).storeNumber } ?? 0),
                    at: 3)
                try $0.run()
            }
        }
        try connection.withStatement("INSERT INTO Z_METADATA VALUES (1, ?, ?)") {
            try $0.bind(metadata.storeUUID, at: 1)
            try $0.bind(metadata.propertyList, at: 2)
            try $0.run()
        }
        try connection.execute(SQLiteTables.createModel)
        try connection.withStatement("INSERT INTO \(SQLiteTables.model) VALUES (?)") {
            try $0.bind(String(decoding: model.modelXML(), as: UTF8.self), at: 1)
            try $0.run()
        }
        // Core Data's model cache lacks facts specific to this framework.
        try connection.execute(SQLiteTables.createModelCache)
        try connection.withStatement("INSERT INTO \(SQLiteTables.modelCache) VALUES (?)") {
            if let cache = model.modelCache { try $0.bind(cache, at: 1) }
            try $0.run()
        }
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
        try read { connection in
            let place = schema.entity(root)
            let recorded = try connection.maximumPrimaryKey(of: place.storeNumber)
            // `Z_MAX` may be lower than `max(Z_PK)`.
            let used = try connection.integer(
                "SELECT max(Z_PK) FROM \(SQLName.quoted(place.tableName))")
            return max(recorded, used ?? 0)
        }
    }
}
