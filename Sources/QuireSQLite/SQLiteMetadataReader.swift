import Foundation
package import QuireStore
internal import QuireSystem

/// Reads the row of `Z_METADATA`.
package struct SQLiteMetadataReader {
    package let connection: SQLiteConnection
    package let path: String
    /// The database of the connection that holds the table.
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

    /// The store's UUID, and the other metadata as they are in it.
    func row() throws -> (uuid: String, propertyList: Data) {
        try connection.withStatement(
            "SELECT Z_UUID, Z_PLIST FROM \(database).Z_METADATA ORDER BY Z_VERSION LIMIT 1"
        ) { statement in
            guard try statement.step() else {
                throw QuireError(
                    .invalidFormat,
                    "The table Z_METADATA of “\(path)” is empty; the store is damaged.",
                    subject: .init(file: path))
            }
            let uuid = statement.text(0).uppercased()
            guard !uuid.isEmpty, !uuid.contains("/") else {
                throw QuireError(
                    .invalidFormat, "“\(path)” has no UUID; the store is damaged.",
                    subject: .init(file: path))
            }
            return (uuid, statement.data(1))
        }
    }
}
