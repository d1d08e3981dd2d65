import Foundation
internal import QuireStore
internal import QuireSystem

/// What was found out of the stores that were opened last, so that the next one like them is opened without reading its model
/// again: programs mostly open stores of one model.
///
/// A store is like another one if all that it is found out from is the same, byte by byte: the statements of its tables,
/// indexes and triggers, the numbers of its entities, and the model in it; and the version hashes in its metadata.
final class SQLiteSchemaCache: Sendable {
    /// All that a schema is found out from but for the metadata.
    struct Key: Sendable, Equatable {
        fileprivate let bytes: [UInt8]
        fileprivate let configuration: String?
        fileprivate let classes: [ObjectIdentifier]
    }

    private struct Entry {
        var key: Key
        var opened: SQLiteOpenedSchema
        /// Metadata that have its version hashes: reading a property list takes as long as all the rest.
        var metadata: Data
    }

    /// The one of this process.
    static let shared = SQLiteSchemaCache()

    /// At most this many stores, and of each at most this many bytes, are remembered.
    static let maximumCount = 8
    fileprivate static let maximumSize = 1 << 20

    /// The one that was used last is the last.
    private let entries = Lock<[Entry]>([])

    /// What was found out of a store like one, if any is remembered.
    ///
    /// - Parameters:
    ///   - metadata: The store's metadata, as they are in it.
    ///   - hashes: Reads the version hashes in them.
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
    /// - Returns: `nil` if it carries none, or is no store, or is so large that it is not remembered.
    init?(of connection: SQLiteConnection, options: SQLiteStoreOptions) throws {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32 << 10)
        var tables: Set<String> = []
        try connection.withStatement("SELECT name, type, tbl_name, sql FROM sqlite_schema") {
            while try $0.step() {
                tables.insert($0.text(0))
                for column in 0..<4 { $0.append(Int32(column), to: &bytes) }
            }
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

/// Sees to it that nothing is written by the names and numbers of a model that the store has no more, because somebody
/// else has migrated it since it was opened, and nothing to a store whose triggers change objects.
struct ModelVersionCheck {
    private let path: String
    private let schema: SQLSchema
    /// Counts the changes of the schema, whoever makes them.
    private var schemaVersion: Int64?
    private let hashes: [String: Data]
    /// The version of the schema whose triggers have been accepted.
    private var acceptedTriggers: Int64?

    /// Remembers the model of a store that has just been opened, with the hashes that its metadata have.
    init(
        _ connection: SQLiteConnection, schema: SQLSchema, path: String, hashes: [String: Data]
    ) {
        self.path = path
        self.schema = schema
        self.hashes = hashes
        schemaVersion = try? connection.integer("PRAGMA schema_version")
    }

    /// Has the next check compare the models in any case.
    mutating func mustCompare() { schemaVersion = nil }

    /// Call in a transaction that writes, before it does.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the store has another model now, or `unsupported`; see
    ///   ``checkTriggers(_:)``.
    mutating func check(_ connection: SQLiteConnection) throws {
        let version = try connection.integer("PRAGMA schema_version")
        if version == schemaVersion { return try checkTriggers(connection, version) }
        let present = try SQLiteMetadataReader(connection: connection, path: path).metadata()
            .entityVersionHashes
        if hashes != present {
            throw QuireError(
                .incompatibleModel,
                "“\(path)” has been migrated to another version of its model since it was opened; open it anew.",
                subject: .init(file: path))
        }
        schemaVersion = version
        try checkTriggers(connection, version)
    }

    /// Call in a transaction that writes nothing of objects, before it does.
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

/// What opening a store finds out by reading the model that it carries and comparing that with its tables.
struct SQLiteOpenedSchema: Sendable {
    /// Where the objects of the model lie.
    var schema: SQLSchema
    /// Whether the store carries its model the way this framework writes it.
    var carriesModel: Bool
    /// Why the model was made of the tables alone; `nil` if it was not.
    var inferenceReason: SQLiteInferenceReason?
    /// The version hashes of the model, by the metadata.
    var hashes: [String: Data]
    /// The configuration whose entities' objects the store keeps; `nil` for all.
    var configuration: String?
    /// Whether the indexes and triggers are known to be those of the model.
    var isSynchronized = false
}
