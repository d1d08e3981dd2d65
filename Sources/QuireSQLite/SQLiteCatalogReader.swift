internal import QuireModel
internal import QuireSystem

/// Reads what a database says of itself.
package struct SQLiteCatalogReader {
    package let connection: SQLiteConnection

    package init(connection: SQLiteConnection) {
        self.connection = connection
    }

    /// The names of all tables.
    package func tableNames() throws -> [String] {
        try texts("SELECT name FROM sqlite_schema WHERE type = 'table'")
    }

    /// Tables with columns, and entities of a store that has Core Data's books.
    package func catalog() throws -> SQLCatalog {
        let tables = try tableNames().filter { $0.utf8.first == UInt8(ascii: "Z") }.map { name in
            SQLCatalog.Table(name: name, columns: try columns(of: name))
        }
        let views = try texts("SELECT name FROM sqlite_schema WHERE type = 'view'")
        return SQLCatalog(entities: try entities(), tables: tables, views: views)
    }

    private func columns(of table: String) throws -> [SQLColumn] {
        try connection.withStatement("SELECT name, type FROM pragma_table_info(?)") { statement in
            try statement.bind(table, at: 1)
            var columns: [SQLColumn] = []
            while try statement.step() {
                columns.append(SQLColumn(name: statement.text(0), type: statement.text(1)))
            }
            return columns
        }
    }

    private func entities() throws -> [SQLCatalog.Entity] {
        try connection.withStatement(
            "SELECT Z_ENT, Z_NAME, Z_SUPER FROM Z_PRIMARYKEY ORDER BY Z_ENT"
        ) {
            statement in
            var entities: [SQLCatalog.Entity] = []
            while try statement.step() {
                let number = statement.integer(0)
                let parent = statement.integer(2)
                guard number > 0, number <= Int64(ManagedObjectID.greatestEntityNumber),
                    parent >= 0,
                    parent <= Int64(ManagedObjectID.greatestEntityNumber)
                else {
                    throw QuireError(
                        .invalidFormat,
                        "The table Z_PRIMARYKEY of “\(connection.path)” has the entity number \(number), "
                            + "which is out of range; the store is damaged.",
                        subject: .init(file: connection.path))
                }
                entities.append(
                    SQLCatalog.Entity(
                        number: Int(number), name: statement.text(1), superentityNumber: Int(parent)
                    ))
            }
            return entities
        }
    }

    private func texts(_ sql: String) throws -> [String] {
        try connection.withStatement(sql) { statement in
            var texts: [String] = []
            while try statement.step() { texts.append(statement.text(0)) }
            return texts
        }
    }
}
