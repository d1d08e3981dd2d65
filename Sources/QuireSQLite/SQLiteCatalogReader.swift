import Foundation
package import QuireModel
internal import QuireModelFiles
package import QuireStore
internal import QuireSystem

/// Reads the catalog of a database.
package struct SQLiteCatalogReader {
    package let connection: SQLiteConnection

    package init(connection: SQLiteConnection) {
        self.connection = connection
    }

    /// The names of all tables.
    package func tableNames() throws -> [String] {
        try connection.texts("SELECT name FROM sqlite_schema WHERE type = 'table'")
    }

    /// The names of all tables of a store.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the database is no store.
    package func storeTables(path: String) throws -> Set<String> {
        let tables = Set(try tableNames())
        if tables.isEmpty {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is empty: it has no tables. Remove it, or open it with a model to create a store.",
                file: path)
        }
        for table in ["Z_METADATA", "Z_PRIMARYKEY"] where !tables.contains(table) {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is a SQLite database, but not a store: it has no table \(table).",
                file: path)
        }
        return tables
    }

    /// The tables with columns, and the entities in Core Data's metadata tables, if any.
    package func catalog() throws -> SQLCatalog {
        let tables = try tableNames().filter { $0.utf8.first == UInt8(ascii: "Z") }.map { name in
            SQLCatalog.Table(name: name, columns: try columns(of: name))
        }
        let views = try connection.texts("SELECT name FROM sqlite_schema WHERE type = 'view'")
        return SQLCatalog(entities: try entities(), tables: tables, views: views)
    }

    private func columns(of table: String) throws -> [SQLColumn] {
        try connection.rows("SELECT name, type FROM pragma_table_info(?)", table) {
            SQLColumn(name: $0.text(0), type: $0.text(1))
        }
    }

    private func entities() throws -> [SQLCatalog.Entity] {
        try connection.rows("SELECT Z_ENT, Z_NAME, Z_SUPER FROM Z_PRIMARYKEY ORDER BY Z_ENT") {
            let (number, parent) = ($0.integer(0), $0.integer(2))
            let numbers = 0...Int64(ManagedObjectID.maximumEntityNumber)
            guard number > 0, numbers.contains(number), numbers.contains(parent) else {
                throw QuireError(
                    .invalidFormat,
                    "The table Z_PRIMARYKEY of “\(connection.path)” has the entity number \(number), "
                        + "which is out of range; the store is damaged.",
                    file: connection.path)
            }
            return SQLCatalog.Entity(
                number: Int(number), name: $0.text(1), superentityNumber: Int(parent))
        }
    }
}

// MARK: - Metadata

/// Reads the row of `Z_METADATA`.
package struct SQLiteMetadataReader {
    package let connection: SQLiteConnection
    package let path: String
    /// The name of the attached database with the table.
    package var database = "main"

    package init(connection: SQLiteConnection, path: String, database: String = "main") {
        self.connection = connection
        self.path = path
        self.database = database
    }

    package func metadata() throws -> StoreMetadata {
        let (uuid, propertyList) = try row()
        return try StoreMetadata(storeUUID: uuid, propertyList: propertyList, path: path)
    }

    /// The store's UUID and serialized metadata.
    func row() throws -> (uuid: String, propertyList: Data) {
        let row = try connection.row(
            "SELECT Z_UUID, Z_PLIST FROM \(database).Z_METADATA ORDER BY Z_VERSION LIMIT 1"
        ) { (uuid: $0.text(0).uppercased(), propertyList: $0.data(1)) }
        guard let row else {
            throw QuireError(
                .invalidFormat,
                "The table Z_METADATA of “\(path)” is empty; the store is damaged.", file: path)
        }
        guard !row.uuid.isEmpty, !row.uuid.contains("/") else {
            throw QuireError(
                .invalidFormat, "“\(path)” has no UUID; the store is damaged.", file: path)
        }
        return row
    }
}

extension SQLiteConnection {
    /// The model that a store carries, in our form or in Core Data's; `nil` if it carries none.
    package func carriedModel(path: String) throws -> ManagedObjectModel? {
        func content(of table: String) throws -> Data {
            guard try hasTable(table) else { return Data() }
            return try row("SELECT Z_CONTENT FROM \(table)") { $0.data(0) } ?? Data()
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
                .invalidFormat, "The model in “\(path)” cannot be read: \(error.message)",
                file: path, underlying: error)
        }
    }

    /// The records of earlier saves, by key.
    package func records() throws -> [String: String] {
        guard try hasTable(SQLiteTables.records) else { return [:] }
        var records: [String: String] = [:]
        try forEachRow("SELECT Z_KEY, Z_VALUE FROM \(SQLiteTables.records)") {
            records[$0.text(0)] = $0.text(1)
        }
        return records
    }
}

// MARK: - Tables

/// This framework's tables in a store. Created on first use; Core Data ignores unknown tables.
package enum SQLiteTables {
    /// The model in Xcode's XML, in stores made here.
    package static let model = "QUIRE_MODEL"
    /// Texts that documents store with the rows.
    package static let records = "QUIRE_DOCUMENT"
    /// Sizes and digests of external data files, in stores made here.
    package static let externalData = "QUIRE_EXTERNAL_DATA"
    /// Unsaved changes in pieces; deleted when they are saved.
    package static let draft = "QUIRE_DRAFT"

    /// The values of `Z_ENT` in the tables of persistent history.
    package static let historyEntityNumbers: ClosedRange<Int64> = 16_001...16_003
    /// The transactions of persistent history.
    static let transactions = "ATRANSACTION"
    /// Core Data's model cache.
    package static let modelCache = "Z_MODELCACHE"

    /// The beginning of the names of the tables by which Core Data mirrors a store to CloudKit.
    package static let mirroringPrefix = "ANSCK"

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

/// The data that Core Data keeps in a SQLite store beside its objects. A copy made object by object lacks them.
package struct SQLiteAncillaryData: Sendable {
    /// Whether the store has a persistent history.
    package var hasHistory: Bool
    /// Whether an app mirrors the store to CloudKit.
    package var isMirrored: Bool

    /// Finds out by the names of a store's tables.
    package init(tables: some Sequence<String>) {
        hasHistory = false
        isMirrored = false
        for table in tables.lazy.map({ $0.uppercased() }) {
            if table == SQLiteTables.transactions { hasHistory = true }
            if table.hasPrefix(SQLiteTables.mirroringPrefix) { isMirrored = true }
        }
    }

    /// The data that a copy lacks, one sentence each.
    package var omissions: [String] {
        var omissions: [String] = []
        if hasHistory {
            omissions.append(
                "The history was omitted: programs that follow it must read the new store from the beginning."
            )
        }
        if isMirrored {
            omissions.append(
                "The CloudKit mirroring records were omitted: an app that mirrors the new store uploads its objects "
                    + "as new ones, and downloads those in iCloud in addition.")
        }
        return omissions
    }
}

extension SQLiteConnection {
    /// The database's data beside its objects.
    func ancillaryData() throws -> SQLiteAncillaryData {
        SQLiteAncillaryData(tables: try SQLiteCatalogReader(connection: self).tableNames())
    }

    /// Whether a table exists.
    package func hasTable(_ name: String) throws -> Bool {
        try integer("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name) != nil
    }

    /// Writes the model that a store carries.
    package func writeModel(_ model: ManagedObjectModel) throws {
        if try hasTable(SQLiteTables.model) {
            try execute("DELETE FROM \(SQLiteTables.model)")
        } else {
            try execute(SQLiteTables.createModel)
        }
        try run(
            "INSERT INTO \(SQLiteTables.model) VALUES (?)",
            String(decoding: model.modelXML(), as: UTF8.self))
        try replaceModelCache(with: model)
    }

    /// Replaces Core Data's model cache, if the store has one.
    package func replaceModelCache(with model: ManagedObjectModel) throws {
        guard try hasTable(SQLiteTables.modelCache) else { return }
        try run("UPDATE \(SQLiteTables.modelCache) SET Z_CONTENT = ?", model.modelCache)
    }
}
