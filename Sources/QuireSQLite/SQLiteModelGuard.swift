import Foundation
internal import QuireStore
internal import QuireSystem

/// Sees to it that nothing is written by the names and numbers of a model that the store has no more, because somebody
/// else has migrated it since it was opened, and nothing to a store whose triggers change objects.
struct SQLiteModelGuard {
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
