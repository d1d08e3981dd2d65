internal import QuireModel

/// Takes away from a store, for the time in which its tables are filled, what SQLite would keep right row by row, and makes
/// it in the end, in one go: indexes, triggers, R-trees and full-text indexes, derived attributes.
///
/// Within a transaction of the caller's.
package struct SQLiteSchemaCompletion {
    package let connection: SQLiteConnection
    package let schema: SQLSchema

    package init(connection: SQLiteConnection, schema: SQLSchema) {
        self.connection = connection
        self.schema = schema
    }

    /// Drops all triggers, the tables of computed indexes, and the indexes of tables of objects.
    ///
    /// - Parameter isTouched: Which tables are to lose their indexes.
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

    /// Drops the tables of objects and of many-to-many relationships of another schema, and what else has a name that
    /// this one's tables need.
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
        let names = try connection.withStatement(
            "SELECT name, tbl_name FROM sqlite_schema WHERE type = '\(type)' AND \(condition)"
        ) { statement in
            var names: [String] = []
            while try statement.step() {
                if isDropped(statement.text(0), statement.text(1)) {
                    names.append(statement.text(0))
                }
            }
            return names
        }
        for name in names { try connection.execute("DROP \(type) \(SQLName.quoted(name))") }
    }

    /// Makes what the schema calls for, and fills it.
    ///
    /// - Parameter derives: Whether derived attributes are computed; else they are right already.
    /// - Throws: ``QuireError`` with code `constraintConflict` if objects share values that must be unique.
    package func makeParts(computingDerived derives: Bool = true) throws {
        try makeIndexes()
        if derives && !schema.layout.derivations.isEmpty {
            // In the order of the model: what is derived is not derived from anything derived.
            var done: Set<String> = []
            for filling in SQLDerivedTriggers(schema: schema).parts.compactMap(\.filling)
            where done.insert(filling).inserted {
                try connection.execute(filling)
            }
            try SQLiteDerivedRows(schema: schema, connection: connection).writeAll()
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

    /// Makes the indexes that are not there, and drops those of the schema's tables that are not called for.
    private func makeIndexes() throws {
        let statements = SQLSchemaStatements(schema: schema)
        var present: [String: String] = [:]
        let names = Set(
            (schema.tables.map(\.name) + schema.joinTables.map(\.name)).map { $0.uppercased() })
        try connection.withStatement(
            "SELECT sql, name, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL"
        ) { statement in
            while try statement.step() {
                guard names.contains(statement.text(2).uppercased()) else { continue }
                present[Self.normalized(statement.text(0))] = statement.text(1)
            }
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

    /// A statement without what may be written in several ways.
    private static func normalized(_ sql: String) -> String {
        sql.replacing("\"", with: "").split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
