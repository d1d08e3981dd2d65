internal import Foundation

// The tables of synchronization, `QUIRE_SYNC…`, when rows are moved or replaced: they name rows by primary keys, and by the names
// that root entities have in all versions of the model.

/// The rows of an entity that a migration moves.
package struct MovedRows {
    package let oldRoot: String
    package let newRoot: String
    package let newTable: String
    /// The entity's number in the new table.
    package let entityNumber: Int
    /// The difference of new and old primary keys.
    package let offset: Int64

    package init(
        oldRoot: String, newRoot: String, newTable: String, entityNumber: Int, offset: Int64
    ) {
        self.oldRoot = oldRoot
        self.newRoot = newRoot
        self.newTable = newTable
        self.entityNumber = entityNumber
        self.offset = offset
    }
}

extension SQLiteConnection {
    /// Has the objects of a shared document keep their rows, which have been moved to other tables, or have other primary keys.
    package func moveSynchronizedRows(_ entities: [MovedRows]) throws {
        let moved = entities.filter { $0.offset != 0 || $0.oldRoot != $0.newRoot }
        for table in ["QUIRE_SYNC_OBJECT", "QUIRE_SYNC_FORMER"]
        where try !moved.isEmpty && hasTable(table) {
            for rows in moved {
                // Marked, so that rows that have been moved are not moved again.
                try withStatement(
                    """
                    UPDATE \(table) SET Z_ROW = Z_ROW + ?1, Z_ROOT = '>' || ?2
                    WHERE Z_ROOT = ?3 AND Z_ROW + ?1 IN (SELECT Z_PK FROM \(SQLName.quoted(rows.newTable)) WHERE Z_ENT = ?4)
                    """
                ) {
                    try $0.bind(rows.offset, at: 1)
                    try $0.bind(rows.newRoot, at: 2)
                    try $0.bind(rows.oldRoot, at: 3)
                    try $0.bind(Int64(rows.entityNumber), at: 4)
                    try $0.run()
                }
            }
            try execute("UPDATE \(table) SET Z_ROOT = substr(Z_ROOT, 2) WHERE Z_ROOT GLOB '>*'")
        }
    }
}

extension SQLiteStore {
    /// Copies the tables of synchronization to a database that replaces the content: what has been merged since that was written
    /// stays known, and its rows are changes like others, found by comparing all of them.
    func copySynchronization(to connection: SQLiteConnection) throws {
        try read { source in
            let tables = try source.withStatement(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name GLOB 'QUIRE_SYNC*'"
            ) { row in
                var found: [(name: String, sql: String)] = []
                while try row.step() { found.append((row.text(0), row.text(1))) }
                return found
            }
            for (name, sql) in tables {
                try connection.execute("DROP TABLE IF EXISTS \(name); \(sql)")
                try source.withStatement("SELECT * FROM \(name)") { row in
                    let marks = (0..<row.columnCount).map { _ in "?" }.joined(separator: ", ")
                    try connection.withStatement("INSERT INTO \(name) VALUES (\(marks))") { copy in
                        while try row.step() {
                            try copy.bind((0..<row.columnCount).map { row.value($0) })
                            try copy.run()
                        }
                    }
                }
            }
            let indexes = try source.withStatement(
                "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name GLOB 'QUIRE_SYNC*'"
            ) { row in
                var found: [String] = []
                while try row.step() { found.append(row.text(0)) }
                return found
            }
            for sql in indexes { try connection.execute(sql) }
            if !tables.isEmpty {
                try connection.execute("INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('compare', 1)")
            }
        }
    }
}
