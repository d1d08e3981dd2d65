import Foundation
import Logging
public import QuireModel
internal import QuireModelFiles
internal import QuireProtection
internal import QuireStore
package import QuireSystem

extension SQLiteStore {
    /// Whether a file exists at a path, or, at `/dev/null/NAME`, an in-memory store is open in this process.
    public static func exists(at path: String) -> Bool {
        let path = FileSystem.absolute(path)
        return StorePath.isInMemory(path)
            ? SQLiteMemoryPath.exists(path) : FileSystem.exists(path)
    }

    /// Opens a store.
    ///
    /// - Parameters:
    ///   - path: The path of its file. A log beside it is part of the store.
    ///   - model: The model of its objects; `nil` for the model in the store.
    ///   - options: How to use the file.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the file is not a store or is damaged,
    ///   `incompatibleModel` if store and model do not match, or the store does not contain a model and none is passed,
    ///   `protectedDataUnavailable` if it is protected and locked, `protectionUnavailable` if it is not protected as the options
    ///   require, `readOnly`, `locked` or `storeUnavailable`.
    public static func open(
        at path: String, model: ManagedObjectModel? = nil,
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws -> SQLiteStore {
        try open(at: path, model: model, layout: nil, options: options)
    }

    /// Opens a store like ``open(at:model:options:)``, with a resolved model shared with other stores.
    package static func open(
        at path: String, model: ManagedObjectModel?, layout: ResolvedModel?,
        options: SQLiteStoreOptions, continuing predecessor: SQLiteStore? = nil,
        hasItsKeys: Bool = true
    ) throws -> SQLiteStore {
        let path = FileSystem.absolute(path)
        guard exists(at: path) else { throw QuireError.notFound(at: path) }
        guard
            try StorePath.isInMemory(path)
                || FileSystem.information(at: path)?.kind == .regular
        else { throw QuireError.noStoreFile(at: path) }
        let source = try SQLiteDatabaseFile(
            path: path, isReadOnly: options.isReadOnly,
            followsOthers: options.postsRemoteChanges, protection: options.protection)
        try StoreProtection.require(options.fileProtection, of: source.protection, path)
        do {
            let connection = try source.connect(
                options.isReadOnly ? .reading : .writing, options: options)
            do {
                let store = try SQLiteStoreOpening(
                    source: source, connection: connection, options: options,
                    predecessor: predecessor, hasItsKeys: hasItsKeys
                ).open(model: model, layout: layout)
                predecessor.map(store.noteConnections)
                return store
            } catch {
                connection.close()
                throw error
            }
        } catch {
            source.release()
            throw (error as? SQLiteFailure)?.openingError(path: path) ?? error
        }
    }
}

extension SQLiteFailure {
    /// The error for a store that could not be opened.
    package func openingError(path: String) -> QuireError {
        if primaryCode == Self.sqlError {
            // The statements are correct, so the tables are not.
            return QuireError(
                .invalidFormat,
                "“\(path)” does not have the tables of a Core Data store: \(message).",
                file: path, underlying: self)
        }
        return error(path: path)
    }

    private static let sqlError: Int32 = 1
}

/// The reason why a store's model is inferred from its tables.
package enum SQLiteInferenceReason: Sendable {
    /// The store carries no model.
    case noModel
    /// The carried model cannot be read, or contradicts itself.
    case unusableModel(QuireError)
    /// The tables do not match the carried model.
    case misfit(QuireError)
}

/// The steps of opening a store.
private struct SQLiteStoreOpening {
    let source: SQLiteDatabaseFile
    let connection: SQLiteConnection
    let options: SQLiteStoreOptions
    let predecessor: SQLiteStore?
    let hasItsKeys: Bool
    private var path: String { source.storePath }

    func open(model given: ManagedObjectModel?, layout known: ResolvedModel?) throws -> SQLiteStore
    {
        let usesOwnModel = known == nil && given == nil
        let key =
            usesOwnModel ? try SQLiteSchemaCache.Key(of: connection, options: options) : nil
        var (opened, uuid, propertyList) = try remembered(by: key) ?? read(given, known)
        noteMissing(in: opened.schema)
        var options = options
        if opened.inferenceReason == nil { options.configuration = opened.configuration }
        var hasLog = try prepareForWriting()
        if !opened.isSynchronized {
            let isSame = try synchronize(&opened, hasLog: &hasLog)
            // Not if another process has changed the store since the key was computed.
            if isSame, opened.inferenceReason == nil, let key,
                try SQLiteSchemaCache.Key(of: connection, options: options) == key
            {
                options.schemaCache.insert(opened, for: key, metadata: propertyList)
            }
        }
        if !options.isReadOnly {
            if options.analyzesWhenOpened { try connection.execute("ANALYZE") }
            if options.vacuumsWhenOpened { try connection.execute("VACUUM") }
            if hasLog { try source.noteLog() }
        }
        return SQLiteStore(
            source: source, identity: try identity(uuid, opened.schema.layout),
            schema: opened.schema, carriesModel: opened.carriesModel,
            inferenceReason: opened.inferenceReason, usesOwnModel: usesOwnModel, options: options,
            connection: connection, hasLog: hasLog, hashes: opened.hashes,
            keys: hasItsKeys ? predecessor?.primaryKeys : nil)
    }

    private typealias Found = (SQLiteOpenedSchema, uuid: String, propertyList: Data)

    /// The cached schema of an identical store.
    private func remembered(by key: SQLiteSchemaCache.Key?) throws -> Found? {
        guard let key else { return nil }
        let (uuid, propertyList) = try SQLiteMetadataReader(connection: connection, path: path)
            .row()
        let opened = try options.schemaCache.find(key, metadata: propertyList) {
            try StoreMetadata(storeUUID: uuid, propertyList: propertyList, path: path)
                .entityVersionHashes
        }
        return opened.map { ($0, uuid, propertyList) }
    }

    /// Reads the model, unless it is passed, and maps it to the catalog.
    private func read(_ given: ManagedObjectModel?, _ known: ResolvedModel?) throws -> Found {
        let reader = SQLiteCatalogReader(connection: connection)
        let tables = try reader.storeTables(path: path)
        let (uuid, propertyList) = try SQLiteMetadataReader(connection: connection, path: path)
            .row()
        let metadata = try StoreMetadata(storeUUID: uuid, propertyList: propertyList, path: path)
        let carriesModel = tables.contains(SQLiteTables.model)
        let catalog = try reader.catalog()
        let (schema, reason) = try schemaOrInferred(
            catalog, mayInfer: known == nil && given == nil, hasStrays: !carriesModel
        ) { try known ?? layout(given, metadata) }
        // After the tables, whose errors are more specific.
        if carriesModel, given != nil || known != nil {
            try checkHashes(of: schema.layout.model, metadata)
        }
        let opened = SQLiteOpenedSchema(
            schema: schema, carriesModel: carriesModel, inferenceReason: reason,
            hashes: metadata.entityVersionHashes,
            configuration: reason == nil ? configuration(of: schema.layout, catalog) : nil)
        return (opened, uuid, propertyList)
    }

    private func identity(_ uuid: String, _ layout: ResolvedModel) throws -> StoreIdentity {
        guard let predecessor else {
            return StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name))
        }
        guard predecessor.identity.uuid == uuid else {
            throw QuireError(
                .incompatibleModel,
                "“\(path)” is a different store: its UUID is \(uuid), not \(predecessor.identity.uuid).",
                file: path)
        }
        return predecessor.identity
    }

    /// The schema for the passed or carried model, or else for an inferred one, if the options allow it.
    private func schemaOrInferred(
        _ catalog: SQLCatalog, mayInfer: Bool, hasStrays: Bool, layout: () throws -> ResolvedModel
    ) throws -> (SQLSchema, SQLiteInferenceReason?) {
        let mayInfer = mayInfer && options.infersModel && options.isReadOnly
        let error: QuireError
        let reason: SQLiteInferenceReason
        do {
            let layout = try layout()
            do {
                return (try schema(of: layout, catalog: catalog, hasStrays: hasStrays), nil)
            } catch let misfit as QuireError where mayInfer {
                (error, reason) = (misfit, .misfit(misfit))
            }
        } catch let lack as QuireError where mayInfer {
            error = lack
            reason = lack.code == .incompatibleModel ? .noModel : .unusableModel(lack)
        }
        Logger(label: "quire.sql").debug("Reading \(path) without its model: \(error.message)")
        let inferred = try SQLModelInference.run(
            catalog: catalog, source: SQLiteModelInference(connection: connection))
        return (
            try schema(of: inferred.model.layout(), catalog: inferred.catalog, hasStrays: true),
            reason
        )
    }

    private func layout(
        _ given: ManagedObjectModel?, _ metadata: StoreMetadata
    ) throws -> ResolvedModel {
        guard var model = try given ?? connection.carriedModel(path: path) else {
            throw QuireError.noModel(carriedBy: path)
        }
        if given == nil { model.take(versionHashes: metadata.entityVersionHashes) }
        return try model.binding(classes: options.objectClasses).layout()
    }

    /// Compares the version hashes of a store made here with the model's, so that a model with different properties is not
    /// accepted because the columns happen to exist.
    private func checkHashes(
        of model: ManagedObjectModel, _ metadata: StoreMetadata
    ) throws {
        // A store created with a model that came with Core Data's hashes has these.
        if let known = model.knownVersionHashes, known == metadata.entityVersionHashes { return }
        let hashes = model.entityVersionHashes()
        let changed = metadata.entityVersionHashes.filter { name, hash in
            hashes[name].map { $0 != hash } ?? false
        }.keys.sorted()
        guard let first = changed.first else { return }
        throw QuireError(
            .incompatibleModel,
            "“\(path)” was created with another version of the model (changed entities: \(changed.joined(separator: ", "))); migrate "
                + "the store before opening it.",
            entity: first, file: path)
    }

    private func noteMissing(in schema: SQLSchema) {
        for key in schema.missing {
            let entity = schema.layout.entity(number: key.entityNumber)
            Logger(label: "quire.sql").debug(
                "\(path) has no storage for \(entity.name).\(entity.relationships[key.index].name): it was created with another model"
            )
        }
    }

    private func schema(
        of layout: ResolvedModel, catalog: SQLCatalog, hasStrays: Bool
    ) throws -> SQLSchema {
        do {
            let entities = try layout.entityNumbers(
                ofConfiguration: configuration(of: layout, catalog))
            return try SQLSchema(
                layout, catalog: catalog, entities: entities, hasStrays: hasStrays)
        } catch let error as QuireError {
            throw QuireError(
                error.code, "The model does not fit “\(path)”: \(error.message)",
                entity: error.subject.entity, property: error.subject.property, file: path,
                underlying: error,
                failures: error.failures)
        }
    }

    /// The configuration whose entities the store keeps: the one in the options, or else, if the store lacks some entities, the
    /// one with exactly the entities it keeps.
    private func configuration(of layout: ResolvedModel, _ catalog: SQLCatalog) -> String? {
        options.configuration ?? layout.configurationName(ofStoreWith: catalog.entityNames)
    }

    /// Creates the model's indexes in the store, unless it is opened read-only.
    ///
    /// - Parameter hasLog: Whether there is a write-ahead log; updated.
    /// - Returns: Whether the indexes were up to date, as far as is known.
    private func synchronize(_ opened: inout SQLiteOpenedSchema, hasLog: inout Bool) throws -> Bool
    {
        var isSame = true
        let synchronization = SQLiteSchemaSynchronization(
            connection: connection, schema: opened.schema, carriesModel: opened.carriesModel)
        if !options.isReadOnly {
            let plan = try synchronization.plan()
            isSame = plan.isEmpty
            // A store that must not be written is read as it is.
            if try !isSame && acceptsTriggers(of: opened.schema, besides: plan) {
                hasLog = try hasLog || source.chooseJournal(connection, options: options)
                connection.trustSchema()
                try synchronization.run(plan)
            }
            opened.isSynchronized = true
        }
        opened.schema.computedIndexes = try synchronization.usableIndexes()
        return isSame
    }

    /// Whether no trigger forbids writing the store, except those that a plan drops.
    private func acceptsTriggers(
        of schema: SQLSchema, besides plan: SQLiteSchemaSynchronization.Plan
    ) throws -> Bool {
        try SQLiteTriggerCheck(connection: connection, schema: schema).problems(
            besides: Set(plan.dropped.map { $0.name.uppercased() })
        ).isEmpty
    }

    /// Checks that the file is writable. Returns whether it has a write-ahead log.
    private func prepareForWriting() throws -> Bool {
        if options.isReadOnly { return true }
        if connection.isReadOnly {
            throw QuireError(
                .readOnly,
                "“\(path)” cannot be written; open it for reading only, or change its permissions.",
                file: path)
        }
        try source.synchronizeLastCommit()
        let hasLog = try source.hasLog(connection)
        // A file without a log gets one at the first save; opening it changes nothing.
        if hasLog && !source.wantsLog(options) {
            return try source.chooseJournal(connection, options: options)
        }
        return hasLog
    }
}
