internal import QuireModel

/// Removes from a store, while its tables are filled, what SQLite would maintain row by row, and recreates it at the end, in
/// bulk: indexes, triggers, R-trees and full-text indexes, derived attributes.
///
/// Runs within the caller's transaction.
package struct SQLiteSchemaCompletion {
    package let connection: SQLiteConnection
    package let schema: SQLSchema

    package init(connection: SQLiteConnection, schema: SQLSchema) {
        self.connection = connection
        self.schema = schema
    }

    /// Drops all triggers, the tables of computed indexes, and the indexes of object tables.
    ///
    /// - Parameter isTouched: Whether a table is to lose its indexes.
    package func removeParts(of isTouched: (String) -> Bool = { _ in true }) throws {
        try drop("trigger", "name NOT NULL") { _, _ in true }
        try drop("index", "sql NOT NULL AND tbl_name LIKE 'Z%'") { _, table in
            !Self.books.contains(table) && isTouched(table)
        }
        try drop("table", "sql LIKE 'CREATE VIRTUAL TABLE%'") { name, _ in
            name.hasPrefix("Z_RT_") || name.hasPrefix(SQLName.fullTextPrefix + "_")
        }
    }

    private static let books: Set<String> = ["Z_METADATA", "Z_PRIMARYKEY", "Z_MODELCACHE"]

    /// Drops the object and join tables of another schema, and everything else with a name that this schema's tables need.
    package func removeTables(of old: SQLSchema) throws {
        let gone = Set(
            (old.tables.map(\.name) + old.joinTables.map(\.name)).map { $0.uppercased() })
        let needed = Set(
            (schema.tables.map(\.name) + schema.joinTables.map(\.name)).map { $0.uppercased() })
        try drop("table", "name LIKE 'Z%'") { name, _ in
            !Self.books.contains(name)
                && (gone.contains(name.uppercased()) || needed.contains(name.uppercased()))
        }
    }

    private func drop(
        _ type: String, _ condition: String, where isDropped: (String, String) -> Bool
    ) throws {
        let found = try connection.rows(
            "SELECT name, tbl_name FROM sqlite_schema WHERE type = '\(type)' AND \(condition)"
        ) { ($0.text(0), $0.text(1)) }
        for (name, table) in found where isDropped(name, table) {
            try connection.execute("DROP \(type) \(SQLName.quoted(name))")
        }
    }

    /// Creates and fills the parts of the schema.
    ///
    /// - Parameter derives: Whether derived attributes are computed; otherwise they are up to date already.
    /// - Throws: ``QuireError`` with code `constraintConflict` if objects violate a uniqueness constraint.
    package func makeParts(computingDerived derives: Bool = true) throws {
        try makeIndexes()
        if derives && !schema.layout.derivations.isEmpty {
            // In model order: derived attributes do not depend on derived ones.
            var done: Set<String> = []
            for filling in SQLDerivedTriggers(schema: schema).parts.compactMap(\.filling)
            where done.insert(filling).inserted {
                try connection.execute(filling)
            }
            let rows = SQLiteDerivedRows(schema: schema, connection: connection)
            try rows.writeAll()
            try rows.checkAll()
        }
        let computed = SQLComputedIndexStatements(schema: schema).parts
        for part in computed where part.kind == .table { try connection.execute(part.sql) }
        var done: Set<String> = []
        for filling in computed.compactMap(\.filling) where done.insert(filling).inserted {
            try connection.execute(filling)
        }
        for part in computed + SQLDerivedTriggers(schema: schema).parts where part.kind == .trigger
        {
            try connection.execute(part.sql)
        }
    }

    /// Creates the missing indexes, and drops those of the schema's tables that it does not have.
    private func makeIndexes() throws {
        let statements = SQLSchemaStatements(schema: schema)
        var present: [String: String] = [:]
        let names = Set(
            (schema.tables.map(\.name) + schema.joinTables.map(\.name)).map { $0.uppercased() })
        try connection.forEachRow(
            "SELECT sql, name, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL"
        ) {
            guard names.contains($0.text(2).uppercased()) else { return }
            present[Self.normalized($0.text(0))] = $0.text(1)
        }
        var missing: [String] = []
        for sql in statements.indexes
        where present.removeValue(forKey: Self.normalized(sql)) == nil {
            missing.append(sql)
        }
        for name in present.values { try connection.execute("DROP INDEX \(SQLName.quoted(name))") }
        for sql in missing {
            do { try connection.execute(sql) } catch let failure as SQLiteFailure
                where failure.code == SQLiteFailure.uniqueConstraint
            {
                throw connection.duplicatesError(failure, schema)
            }
        }
    }

    /// A statement in canonical form.
    private static func normalized(_ sql: String) -> String {
        sql.replacing("\"", with: "").split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
