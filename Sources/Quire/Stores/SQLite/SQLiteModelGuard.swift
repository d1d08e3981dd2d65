import Foundation

/// Sees to it that nothing is written by the names and numbers of a model that the store has no more, because somebody
/// else has migrated it since it was opened.
struct SQLiteModelGuard {
    private let path: String
    /// Counts the changes of the schema, whoever makes them.
    private var schemaVersion: Int64?
    private let hashes: [String: Data]

    /// Remembers the model of a store that has just been opened, with the hashes that its metadata have.
    init(_ connection: SQLiteConnection, path: String, hashes: [String: Data]) {
        self.path = path
        self.hashes = hashes
        schemaVersion = try? connection.integer("PRAGMA schema_version")
    }

    /// Has the next check compare the models in any case.
    mutating func mustCompare() { schemaVersion = nil }

    /// Call in a transaction that writes, before it does.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the store has another model now.
    mutating func check(_ connection: SQLiteConnection) throws {
        let version = try connection.integer("PRAGMA schema_version")
        if version == schemaVersion { return }
        let present = try SQLiteMetadataReader(connection: connection, path: path).metadata()
            .entityVersionHashes
        if hashes != present {
            throw QuireError(
                .incompatibleModel,
                "“\(path)” has been migrated to another version of its model since it was opened; open it anew.",
                subject: .init(file: path))
        }
        schemaVersion = version
    }
}
