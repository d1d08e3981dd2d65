internal import QuireModel
internal import QuireSQLite

/// Collects the objects whose rows or relationships a repair changes, and records them in the store's history for replicas and
/// other readers of the history. Temporary triggers collect them, whichever statement makes the change.
struct RepairedObjects {
    private static let table = "temp.quire_repaired"
    private let connection: SQLiteConnection

    /// Begins to note. Within the transaction of the repair.
    init(_ schema: SQLSchema, _ connection: SQLiteConnection) throws {
        self.connection = connection
        try connection.execute(
            "CREATE TABLE \(Self.table) (entity, key, PRIMARY KEY (entity, key)) WITHOUT ROWID")
        for (number, table) in schema.tables.enumerated() {
            let name = SQLName.quoted(table.name)
            let columns = try connection.columnNames(of: table.name).sorted().map(SQLName.quoted)
            let (old, new) = (columns.map { "old.\($0)" }, columns.map { "new.\($0)" })
            try connection.execute(
                """
                CREATE TEMP TRIGGER quire_repaired_row_\(number) AFTER UPDATE ON main.\(name) \
                WHEN (\(old.joined(separator: ", "))) IS NOT (\(new.joined(separator: ", "))) \
                BEGIN INSERT OR IGNORE INTO quire_repaired VALUES (new.Z_ENT, new.Z_PK); END
                """)
        }
        let places = RelationshipColumns(schema: schema)
        for (number, join) in schema.joinTables.enumerated() {
            for (event, row) in [("DELETE", "old"), ("INSERT", "new")] {
                let notes = places.ends(of: join).map {
                    "INSERT OR IGNORE INTO quire_repaired SELECT Z_ENT, Z_PK FROM \($0.table) WHERE Z_PK = \(row).\($0.column);"
                }
                try connection.execute(
                    "CREATE TEMP TRIGGER quire_repaired_\(event)_\(number) AFTER \(event) ON "
                        + "main.\(SQLName.quoted(join.name)) BEGIN \(notes.joined(separator: " ")) END"
                )
            }
        }
    }

    /// Records a transaction that updates the objects noted, if there are any and the store keeps a history.
    func record(path: String) throws {
        try connection.recordUpdates(listedIn: Self.table, path: path)
    }
}
