package import QuireModel
internal import QuireModelFiles

/// Tables of our own in a store. Made when they are first used; Core Data leaves tables alone that it does not know.
package enum SQLiteTables {
    /// The model in Xcode's XML, for stores made here.
    package static let model = "QUIRE_MODEL"
    /// Texts that documents keep with the rows.
    package static let records = "QUIRE_DOCUMENT"
    /// Sizes and digests of the files with external data, for stores made here.
    package static let externalData = "QUIRE_EXTERNAL_DATA"
    /// What somebody has not been able to save, in pieces; gone when it is saved.
    package static let draft = "QUIRE_DRAFT"

    /// The model as Core Data keeps it.
    package static let modelCache = "Z_MODELCACHE"

    package static let createModel = "CREATE TABLE QUIRE_MODEL (Z_CONTENT VARCHAR)"
    package static let createModelCache = "CREATE TABLE Z_MODELCACHE (Z_CONTENT BLOB)"
    package static let createRecords =
        "CREATE TABLE IF NOT EXISTS QUIRE_DOCUMENT (Z_KEY VARCHAR PRIMARY KEY, Z_VALUE VARCHAR)"
    package static let createExternalData =
        "CREATE TABLE IF NOT EXISTS QUIRE_EXTERNAL_DATA (Z_UUID VARCHAR PRIMARY KEY, Z_BYTES INTEGER, Z_SHA256 BLOB); "
        + "CREATE INDEX IF NOT EXISTS QUIRE_EXTERNAL_DATA_BYTES ON QUIRE_EXTERNAL_DATA (Z_BYTES)"
    package static let createDraft =
        "CREATE TABLE QUIRE_DRAFT (Z_ORDER INTEGER PRIMARY KEY, Z_CONTENT BLOB)"
    static let dropDraft = "DROP TABLE IF EXISTS QUIRE_DRAFT"
}

extension SQLiteConnection {
    /// Whether there is a table of a name.
    package func hasTable(_ name: String) throws -> Bool {
        try withStatement("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?") {
            try $0.bind(name, at: 1)
            return try $0.step()
        }
    }

    /// Replaces Core Data's own copy of the model, if the store has one.
    package func replaceModelCache(with model: ManagedObjectModel) throws {
        guard try hasTable(SQLiteTables.modelCache) else { return }
        try withStatement("UPDATE \(SQLiteTables.modelCache) SET Z_CONTENT = ?") {
            if let cache = model.modelCache { try $0.bind(cache, at: 1) }
            try $0.run()
        }
    }
}
