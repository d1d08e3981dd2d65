import Foundation
public import QuireModel
public import QuireModelFiles
public import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// How well a model fits a store that says nothing, or nothing that can be compared, of the model it was made with.
struct StoreFit: Comparable {
    /// Columns that the model does not know, and columns whose type is another than it would give them.
    let strangeColumns: Int
    /// Relationships that the store keeps nothing of.
    let missing: Int
    /// Whether the store names the model's version identifiers.
    let hasIdentifiers: Bool

    /// Whether the store may have been made with the model.
    var isExact: Bool { strangeColumns == 0 && missing == 0 }

    static func < (left: StoreFit, right: StoreFit) -> Bool {
        (left.strangeColumns, left.missing, left.hasIdentifiers ? 0 : 1)
            < (right.strangeColumns, right.missing, right.hasIdentifiers ? 0 : 1)
    }

    /// Compares a model with a store; `nil` if the store lacks something of it, or it something of the store.
    init?(_ model: ManagedObjectModel, catalog: SQLCatalog, metadata: StoreMetadata) {
        guard let layout = try? model.layout(),
            let schema = try? SQLSchema(layout, catalog: catalog, hasStrays: true)
        else { return nil }
        var strange = 0
        for table in schema.tables {
            let root = layout.entity(number: table.rootNumber)
            var types: [String: String] = [:]
            for number in root.subtree {
                let entity = layout.entity(number: number)
                for (slot, column) in zip(entity.slots, schema.entity(number: number).columns) {
                    guard let column else { continue }
                    types[column.name] =
                        slot.attribute.map {
                            SQLColumnNaming.declaredType(of: $0.type)
                        } ?? "INTEGER"
                    for name in [column.entityColumn, column.orderColumn].compactMap({ $0 }) {
                        types[name] = "INTEGER"
                    }
                }
            }
            for entity in layout.entities {
                for case .foreignKey(let key)? in schema.entity(entity).toMany
                where !key.isInverse && key.tableName == table.name {
                    for name in [key.column, key.entityColumn, key.orderColumn].compactMap({ $0 }) {
                        types[name] = "INTEGER"
                    }
                }
            }
            for column in table.columns where !["Z_PK", "Z_ENT", "Z_OPT"].contains(column.name) {
                // Old stores declare some types otherwise; texts and bytes are told apart in all of them.
                let type = types[column.name]
                if type == nil || Self.family(type ?? "") != Self.family(column.type) {
                    strange += 1
                }
            }
        }
        strangeColumns = strange
        missing = schema.missing.count
        let identifiers = metadata.modelVersionIdentifiers.filter { !$0.isEmpty }
        hasIdentifiers =
            !identifiers.isEmpty && Set(identifiers) == Set(model.versionIdentifiers)
    }

    private static func family(_ type: String) -> String {
        switch type.uppercased() {
        case "VARCHAR": "text"
        case "BLOB": "bytes"
        case "TIMESTAMP": "date"
        case "INTEGER": "integer"
        default: "number"
        }
    }
}

/// A store that is not open, looked at.
struct StoreExamination {
    let metadata: StoreMetadata
    let catalog: SQLCatalog
    /// Whether the store was made, or migrated, here.
    let isOurs: Bool
    /// The model that the store carries, in our form or in Core Data's.
    let carriedModel: ManagedObjectModel?

    init(_ path: String) throws {
        let path = FileSystem.absolute(path)
        guard try FileSystem.information(at: path)?.kind == .regular else {
            throw QuireError(.notFound, "There is no store “\(path)”.", subject: .init(file: path))
        }
        let source = try SQLiteStoreSource(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: SQLiteStoreOptions())
            defer { connection.close() }
            let reader = SQLiteCatalogReader(connection: connection)
            let tables = Set(try reader.tableNames())
            for table in ["Z_METADATA", "Z_PRIMARYKEY"] where !tables.contains(table) {
                throw QuireError(
                    .invalidFormat,
                    "“\(path)” is a SQLite database but no store: it has no table \(table).",
                    subject: .init(file: path))
            }
            metadata = try SQLiteMetadataReader(connection: connection, path: path).metadata()
            catalog = try reader.catalog()
            isOurs = tables.contains(SQLiteTables.model)
            carriedModel = try connection.carriedModel(path: path)
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    /// Whether the store opens with a model as it is.
    func isCompatible(with model: ManagedObjectModel) -> Bool {
        if let known = model.knownVersionHashes, known == metadata.entityVersionHashes {
            return true
        }
        if isOurs { return metadata.entityVersionHashes == model.entityVersionHashes() }
        // The model is known to be another one.
        if model.knownVersionHashes != nil { return false }
        return StoreFit(model, catalog: catalog, metadata: metadata)?.isExact ?? false
    }

    /// The names of the models that the store may have been made with; of those that do not fit quite, the likeliest.
    ///
    /// - Parameter exactly: Whether only models that fit are named.
    func versions(
        among models: [String: ManagedObjectModel], exactly: Bool = false
    ) -> [String] {
        let same = models.filter {
            $0.value.knownVersionHashes == metadata.entityVersionHashes
                || isOurs && $0.value.entityVersionHashes() == metadata.entityVersionHashes
        }
        if isOurs || !same.isEmpty { return same.keys.sorted() }
        let fits = models.compactMap { name, model in
            StoreFit(model, catalog: catalog, metadata: metadata).map { (name, $0) }
        }
        let best = fits.map(\.1).min()
        if exactly, best?.isExact != true { return [] }
        return fits.filter { $0.1 == best }.map(\.0).sorted()
    }
}

extension SQLiteConnection {
    /// The model that a store carries, in our form or in Core Data's; `nil` if it carries none.
    package func carriedModel(path: String) throws -> ManagedObjectModel? {
        func content(of table: String) throws -> Data {
            guard try hasTable(table) else { return Data() }
            return try withStatement("SELECT Z_CONTENT FROM \(table)") {
                try $0.step() ? $0.data(0) : Data()
            }
        }
        do {
            let xml = try content(of: SQLiteTables.model)
            if !xml.isEmpty {
                return try ManagedObjectModel(modelXML: xml, name: SQLiteTables.model)
            }
            let archive = try content(of: SQLiteTables.modelCache)
            if archive.isEmpty { return nil }
            return try ManagedObjectModel(modelCache: archive, name: SQLiteTables.modelCache)
        } catch let error as QuireError {
            throw QuireError(
                .invalidFormat, "The model that “\(path)” carries cannot be read: \(error.message)",
                subject: .init(file: path), underlying: error)
        }
    }
}

extension SQLiteStore {
    /// Whether a store that is not open opens with a model as it is, or has to be migrated first.
    ///
    /// A store that was made here, or migrated, has hashes that are compared with the model's. Those of Core Data's stores
    /// cannot be computed: they are compared if the model came with its hashes, else the tables must be what the model
    /// asks for.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`.
    public static func isStore(
        at path: String, compatibleWith model: ManagedObjectModel
    ) throws -> Bool {
        try StoreExamination(path).isCompatible(with: model)
    }
}

extension ModelVersions {
    /// The name of the version that a store was made with; `nil` if it is none of them.
    ///
    /// Stores that were made here, or migrated, are told by their hashes, Core Data's by their tables. Of versions whose
    /// tables are the same the current one is named if it is among them, else the last by name: migrating from any of
    /// them comes to the same.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`, or as ``models()``.
    public func version(ofStoreAt path: String) throws -> String? {
        let names = try StoreExamination(path).versions(among: models())
        return names.contains(currentName) ? currentName : names.last
    }
}
