import Foundation
internal import QuireStore
internal import QuireSystem

/// A cache of the schemas of recently opened stores, so that an identical store is opened without reading its model
/// again: programs mostly open stores of one model.
///
/// Stores are identical if all inputs are equal byte by byte: the statements of tables, indexes and triggers, the numbers of
/// entities, and the carried model; and the version hashes in the metadata.
final class SQLiteSchemaCache: Sendable {
    /// All inputs of a schema except the metadata.
    struct Key: Sendable, Equatable {
        fileprivate let bytes: [UInt8]
        fileprivate let configuration: String?
        fileprivate let classes: [ObjectIdentifier]
    }

    private struct Entry {
        var key: Key
        var opened: SQLiteOpenedSchema
        /// Metadata with the same version hashes: parsing a property list takes as long as everything else.
        var metadata: Data
    }

    /// The process-wide cache.
    static let shared = SQLiteSchemaCache()

    /// The maximum number of entries, and of bytes in each key.
    static let maximumCount = 8
    fileprivate static let maximumSize = 1 << 20

    /// The entries, least recently used first.
    private let entries = Lock<[Entry]>([])

    /// The cached schema of an identical store, if any.
    ///
    /// - Parameters:
    ///   - metadata: The store's metadata as stored.
    ///   - hashes: Parses the version hashes.
    func find(
        _ key: Key, metadata: Data, hashes: () throws -> [String: Data]
    ) rethrows -> SQLiteOpenedSchema? {
        let alike = entries.withLock { $0.filter { $0.key == key } }
        if alike.isEmpty { return nil }
        var found = alike.last { $0.metadata == metadata }
        if found == nil {
            let hashes = try hashes()
            found = alike.last { $0.opened.hashes == hashes }
        }
        guard let found else { return nil }
        insert(found.opened, for: key, metadata: metadata)
        return found.opened
    }

    func insert(_ opened: SQLiteOpenedSchema, for key: Key, metadata: Data) {
        if metadata.count > Self.maximumSize { return }
        entries.withLock { entries in
            entries.removeAll { $0.key == key && $0.opened.hashes == opened.hashes }
            if entries.count >= Self.maximumCount { entries.removeFirst() }
            entries.append(Entry(key: key, opened: opened, metadata: metadata))
        }
    }
}

extension SQLiteSchemaCache.Key {
    /// The key of a store that carries its model.
    ///
    /// - Returns: `nil` if it carries none, is not a store, or is too large for the cache.
    init?(of connection: SQLiteConnection, options: SQLiteStoreOptions) throws {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32 << 10)
        var tables: Set<String> = []
        try connection.forEachRow("SELECT name, type, tbl_name, sql FROM sqlite_schema") {
            tables.insert($0.text(0))
            for column in 0..<4 { $0.append(Int32(column), to: &bytes) }
        }
        guard tables.isSuperset(of: ["Z_METADATA", "Z_PRIMARYKEY"]),
            let model = [SQLiteTables.model, SQLiteTables.modelCache].first(where: tables.contains)
        else { return nil }
        for (sql, columnCount) in [
            ("SELECT Z_ENT, Z_NAME, Z_SUPER FROM Z_PRIMARYKEY ORDER BY Z_ENT", 3),
            ("SELECT Z_CONTENT FROM \(model)", 1),
        ] {
            try connection.withStatement(sql) {
                while try $0.step(), bytes.count <= SQLiteSchemaCache.maximumSize {
                    for column in 0..<columnCount { $0.append(Int32(column), to: &bytes) }
                }
            }
        }
        if bytes.count > SQLiteSchemaCache.maximumSize { return nil }
        self.bytes = bytes
        configuration = options.configuration
        classes = options.objectClasses.map { ObjectIdentifier($0) }
    }
}

// MARK: - Changes by other programs

/// Prevents writes with the names and numbers of an outdated model, after another process has migrated the store, and writes
/// to a store whose triggers change objects.
struct ModelVersionCheck {
    private let path: String
    private let schema: SQLSchema
    /// The schema cookie, which any schema change increments.
    private var schemaVersion: Int64?
    private let hashes: [String: Data]
    /// The schema version whose triggers have been accepted.
    private var acceptedTriggers: Int64?

    /// Records the model of a store just opened, with the version hashes of its metadata.
    init(
        _ connection: SQLiteConnection, schema: SQLSchema, path: String, hashes: [String: Data]
    ) {
        self.path = path
        self.schema = schema
        self.hashes = hashes
        schemaVersion = try? connection.integer("PRAGMA schema_version")
    }

    /// Forces the next check to compare the models.
    mutating func mustCompare() { schemaVersion = nil }

    /// Must be called in a write transaction, before its first write.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the store has a different model now, or `unsupported`; see
    ///   ``checkTriggers(_:)``.
    mutating func check(_ connection: SQLiteConnection) throws {
        let version = try connection.integer("PRAGMA schema_version")
        if version == schemaVersion { return try checkTriggers(connection, version) }
        let present = try SQLiteMetadataReader(connection: connection, path: path).metadata()
            .entityVersionHashes
        if hashes != present {
            throw QuireError(
                .incompatibleModel,
                "“\(path)” was migrated to another version of its model after it was opened; reopen it.",
                file: path)
        }
        schemaVersion = version
        try checkTriggers(connection, version)
    }

    /// Must be called in a transaction that writes no objects, before its first write.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a trigger of the store is neither Core Data's nor this
    ///   framework's; see ``SQLiteTriggerCheck``.
    mutating func checkTriggers(_ connection: SQLiteConnection) throws {
        try checkTriggers(connection, connection.integer("PRAGMA schema_version"))
    }

    private mutating func checkTriggers(
        _ connection: SQLiteConnection, _ version: Int64?
    ) throws {
        if let version, version == acceptedTriggers { return }
        try SQLiteTriggerCheck(connection: connection, schema: schema).requireNone(path: path)
        acceptedTriggers = version
    }
}

// MARK: - Opening

/// The result of reading a store's carried model and matching it with the tables.
struct SQLiteOpenedSchema: Sendable {
    /// The mapping of the model to the tables.
    var schema: SQLSchema
    /// Whether the store carries its model in this framework's form.
    var carriesModel: Bool
    /// The reason why the model was inferred from the tables; `nil` if it was not.
    var inferenceReason: SQLiteInferenceReason?
    /// The model's version hashes, from the metadata.
    var hashes: [String: Data]
    /// The configuration whose entities the store keeps; `nil` for all.
    var configuration: String?
    /// Whether indexes and triggers are known to match the model.
    var isSynchronized = false
}
