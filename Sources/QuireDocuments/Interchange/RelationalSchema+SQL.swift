import Quire
import QuireSQLite

// The statements that create the tables.

extension RelationalSchema {
    /// Creates the tables and views.
    var creation: [String] {
        tables.map { table in
            var definitions = [#""id" INTEGER PRIMARY KEY"#]
            if table.hasEntityColumn { definitions.append(#""entity" TEXT NOT NULL"#) }
            definitions += table.columns.map { column in
                let definition = "\(Self.quoted(column.name)) \(column.storage.rawValue)"
                guard let destination = column.destination else { return definition }
                return "\(definition) \(references(destination))"
            }
            return Self.table(table.name, definitions)
        } + joinTables.map(creation) + views.map(creation)
    }

    private func creation(of table: JoinTable) -> String {
        let (owner, member) = (Self.quoted(table.ownerColumn), Self.quoted(table.memberColumn))
        var definitions = [
            "\(owner) INTEGER NOT NULL \(references(table.entity))",
            "\(member) INTEGER NOT NULL \(references(table.destination))",
        ]
        for position in [table.ownerPositionColumn, table.memberPositionColumn] {
            if let position { definitions.append("\(Self.quoted(position)) INTEGER") }
        }
        definitions.append("PRIMARY KEY (\(owner), \(member))")
        return Self.table(table.name, definitions, ["WITHOUT ROWID"])
    }

    private func creation(of view: View) -> String {
        let table = table(of: view.entity)
        var columns = [#""id""#]
        if view.entity.hasSubentities { columns.append(#""entity""#) }
        columns += view.columns.map {
            let (column, name) = (
                Self.quoted(table.columns[$0.column].name), Self.quoted($0.name)
            )
            return column == name ? column : "\(column) AS \(name)"
        }
        let entities = view.entityNames.map(SQLName.literal)
        return """
            CREATE VIEW \(Self.quoted(view.name)) AS
            SELECT \(columns.joined(separator: ", "))
            FROM \(Self.quoted(table.name)) WHERE "entity" IN (\(entities.joined(separator: ", ")))
            """
    }

    private static func table(
        _ name: String, _ definitions: [String], _ options: [String] = []
    ) -> String {
        let options = (SQLiteConnection.supportsStrictTables ? ["STRICT"] : []) + options
        let body = definitions.joined(separator: ",\n  ")
        return "CREATE TABLE \(quoted(name)) (\n  \(body)\n) \(options.joined(separator: ", "))"
    }

    private func references(_ entity: ResolvedEntity) -> String {
        let table = Self.quoted(table(of: entity).name)
        return #"REFERENCES \#(table) ("id") DEFERRABLE INITIALLY DEFERRED"#
    }

    /// Creates the indexes of foreign keys, except for the first one of a join table, with which its primary key begins.
    var indexes: [String] {
        var names = names
        let columns =
            tables.flatMap { table in
                table.columns.filter { $0.destination != nil }.map { (table.name, $0.name) }
            } + joinTables.map { ($0.name, $0.memberColumn) }
        return columns.map { table, column in
            let index = Self.quoted(names.add("\(table).\(column)"))
            return "CREATE INDEX \(index) ON \(Self.quoted(table)) (\(Self.quoted(column)))"
        }
    }

    /// A name as an SQL identifier. Always quoted: it may be a keyword.
    static func quoted(_ name: String) -> String {
        "\"\(name.replacing("\"", with: "\"\""))\""
    }
}
