/// Takes away from a store, for the time in which its tables are filled, what SQLite would keep right row by row, and makes
/// it in the end, in one go: indexes, triggers, R-trees and full-text indexes, derived attributes.
///
/// Within a transaction of the caller's.
struct SQLiteSchemaCompletion {
    let connection: SQLiteConnection
    let schema: SQLSchema

    /// Drops all triggers, all indexes of tables of objects, and the tables of computed indexes.
    func removeParts() throws {
        try drop("trigger", "name NOT NULL")
        try drop(
            "index",
            "sql NOT NULL AND tbl_name LIKE 'Z%' AND tbl_name NOT LIKE 'Z\\_METADATA' ESCAPE '\\'")
        try drop(
            "table",
            "sql LIKE 'CREATE VIRTUAL TABLE%' AND (name LIKE 'Z\\_RT\\_%' ESCAPE '\\' OR name LIKE "
                + "'\(SQLName.fullTextPrefix)\\_%' ESCAPE '\\')")
    }

    private func drop(_ type: String, _ condition: String) throws {
        let names = try connection.withStatement(
            "SELECT name FROM sqlite_schema WHERE type = '\(type)' AND \(condition)"
        ) { statement in
            var names: [String] = []
            while try statement.step() { names.append(statement.text(0)) }
            return names
        }
        for name in names { try connection.execute("DROP \(type) \(SQLName.quoted(name))") }
    }

    /// Makes what the schema calls for, and fills it.
    ///
    /// - Parameter derives: Whether derived attributes are computed; else they are right already.
    /// - Throws: ``QuireError`` with code `constraintConflict` if objects share values that must be unique.
    func makeParts(computingDerived derives: Bool = true) throws {
        let statements = SQLSchemaStatements(schema: schema)
        let unique = Set(statements.fetchIndexes.filter { $0.unique != nil }.map(\.sql))
        for sql in statements.indexes {
            do { try connection.execute(sql) } catch let failure as SQLiteFailure
                where failure.code == SQLiteFailure.uniqueConstraint && unique.contains(sql)
            {
                throw failure.error(path: connection.path, schema: schema)
            }
        }
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
}
