internal import Foundation

// The tables of synchronization, `QUIRE_SYNC…`, when rows are moved or replaced: they name rows by primary keys, and by the names
// that root entities have in all versions of the model.

extension SQLiteConnection {
    /// The rows of an entity that a migration moves: from the table of one root entity to that of another, in which the entity has a
    /// number; and the difference of new and old primary keys.
    package typealias MovedRows = (
        oldRoot: String, newRoot: String, newTable: String, entityNumber: Int, offset: Int64
    )

    /// Keeps the objects of a shared document at their rows, which have been moved to other tables, or have other primary keys.
    package func moveSynchronizedRows(_ entities: [MovedRows]) throws {
        let moved = entities.filter { $0.offset != 0 || $0.oldRoot != $0.newRoot }
        for table in ["QUIRE_SYNC_OBJECT", FormerIdentifiers.table]
        where try !moved.isEmpty && hasTable(table) {
            for rows in moved {
                // Marked, so that rows that have been moved are not moved again.
                try run(
                    """
                    UPDATE \(table) SET Z_ROW = Z_ROW + ?1, Z_ROOT = '>' || ?2
                    WHERE Z_ROOT = ?3 AND Z_ROW + ?1 IN (SELECT Z_PK FROM \(SQLName.quoted(rows.newTable)) WHERE Z_ENT = ?4)
                    """, rows.offset, rows.newRoot, rows.oldRoot, Int64(rows.entityNumber))
            }
            try execute("UPDATE \(table) SET Z_ROOT = substr(Z_ROOT, 2) WHERE Z_ROOT GLOB '>*'")
        }
    }
}

// MARK: - Missing values

extension SQLiteConnection {
    /// Says how many large values have not arrived from the machines where they were set, in whose place rows have null; `nil` if all
    /// are there.
    package func missingSynchronizedValues() throws -> String? {
        guard try hasTable("QUIRE_SYNC_MISSING"),
            let count = try integer("SELECT count(*) FROM QUIRE_SYNC_MISSING"), count > 0
        else { return nil }
        let subject = count == 1 ? "1 large value has" : "\(count) large values have"
        return
            "\(subject) not arrived from other machines; “quire sync run” fetches those in the shared folder."
    }
}

// MARK: - Identifiers

/// The table of the identifiers that a store's objects had in a shared document, so that they have them again if the store, or a copy
/// of its objects, joins one: `QUIRE_SYNC_FORMER`.
package enum FormerIdentifiers {
    package static let table = "QUIRE_SYNC_FORMER"

    fileprivate static let create =
        "CREATE TABLE IF NOT EXISTS main.\(table) (Z_ROW INTEGER, Z_ROOT VARCHAR, Z_ID BLOB, Z_TIME INTEGER, PRIMARY KEY (Z_ROW, Z_ROOT))"
    fileprivate static let insert = "INSERT OR IGNORE INTO main.\(table)"

    /// The queries for those of a database: of objects of a shared document, and of one that was left. The tables may be damaged.
    fileprivate static func queries(_ database: String, _ connection: SQLiteConnection) throws
        -> [String]
    {
        func has(_ table: String, _ columns: [String]) throws -> Bool {
            let names = columns.map { "'\($0)'" }.joined(separator: ", ")
            return try connection.integer(
                "SELECT count(*) FROM pragma_table_info('\(table)', '\(database)') WHERE name IN (\(names))"
            ) == Int64(columns.count)
        }
        let columns = ["Z_ROW", "Z_ROOT", "Z_ID"]
        let list = columns.joined(separator: ", ")
        let isWhole =
            "typeof(Z_ROW) = 'integer' AND typeof(Z_ROOT) = 'text' AND typeof(Z_ID) = 'blob' AND length(Z_ID) = 16"
        var queries: [String] = []
        if try has("QUIRE_SYNC_OBJECT", columns), try has("QUIRE_SYNC", ["Z_KEY", "Z_VALUE"]) {
            let time = "SELECT Z_VALUE FROM \(database).QUIRE_SYNC WHERE Z_KEY = 'clock'"
            queries.append(
                "SELECT \(list), coalesce((\(time)), 0) FROM \(database).QUIRE_SYNC_OBJECT WHERE \(isWhole)"
            )
        }
        if try has(table, columns + ["Z_TIME"]) {
            queries.append("SELECT \(list), Z_TIME FROM \(database).\(table) WHERE \(isWhole)")
        }
        return queries
    }
}

extension SQLiteConnection {
    /// Keeps the identifiers that objects have in a shared document.
    ///
    /// - Parameter database: The attached database that has them: this one, or one whose objects have been copied to this one.
    package func keepFormerIdentifiers(of database: String = "main") throws {
        for query in try FormerIdentifiers.queries(database, self) {
            try execute("\(FormerIdentifiers.create); \(FormerIdentifiers.insert) \(query)")
        }
    }
}

extension SQLiteConnection {
    /// Inserts the rows of another database's query.
    fileprivate func copyRows(
        of query: String, from source: SQLiteConnection, by insertion: String
    ) throws {
        try source.withStatement(query) { row in
            let marks = (0..<row.columnCount).map { _ in "?" }.joined(separator: ", ")
            try withStatement("\(insertion) VALUES (\(marks))") { copy in
                while try row.step() {
                    try copy.bind((0..<row.columnCount).map { row.value($0) })
                    try copy.run()
                }
            }
        }
    }
}

extension SQLiteStore {
    /// Copies the identifiers of objects to a database that has the same objects, with the same primary keys.
    package func copyFormerIdentifiers(to connection: SQLiteConnection) throws {
        try read { source in
            for query in try FormerIdentifiers.queries("main", source) {
                try connection.execute(FormerIdentifiers.create)
                try connection.copyRows(of: query, from: source, by: FormerIdentifiers.insert)
            }
        }
    }

    // MARK: - Replacing the content

    /// Copies the tables of synchronization to a database that replaces the content: what has been merged since that was written
    /// stays known, and its rows are changes like others, found by comparing all of them.
    func copySynchronization(to connection: SQLiteConnection) throws {
        try read { source in
            let tables = try source.rows(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name GLOB 'QUIRE_SYNC*'"
            ) { ($0.text(0), $0.text(1)) }
            for (name, sql) in tables {
                try connection.execute("DROP TABLE IF EXISTS \(name); \(sql)")
                try connection.copyRows(
                    of: "SELECT * FROM \(name)", from: source, by: "INSERT INTO \(name)")
            }
            let indexes = try source.texts(
                "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name GLOB 'QUIRE_SYNC*'"
            )
            for sql in indexes { try connection.execute(sql) }
            if !tables.isEmpty {
                try connection.execute("INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('compare', 1)")
            }
        }
    }
}
