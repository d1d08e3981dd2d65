import Foundation
import Quire
import QuireSQLite

/// The tables of a SQLite database of another program, read in one transaction without changing anything.
///
/// The database is untrusted: it is read with SQLite's defences, its names are quoted, and only its tables are read: no views,
/// virtual tables or generated columns.
final class DatabaseTables {
    /// The path that errors name.
    let path: String
    private let file: SQLiteDatabaseFile
    private let connection: SQLiteConnection
    /// The tables, sorted by name.
    private(set) var tables: [Table] = []
    /// The names of views and virtual tables.
    private(set) var otherNames: [String] = []

    struct Table {
        var name: String
        var columns: [Column] = []
        var foreignKeys: [ForeignKey] = []
        /// The number of foreign keys of several columns.
        var compositeKeyCount = 0
        /// The columns of unique indexes.
        var uniqueColumns: [[String]] = []

        /// The columns of the primary key, in its order.
        var primaryKey: [String] {
            columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }
                .map(\.name)
        }

        /// A column whose values find a row again.
        var rowKey: String? {
            if primaryKey.count == 1 { return primaryKey[0] }
            return uniqueColumns.first { names in
                names.count == 1 && columns.contains { $0.name == names[0] && $0.isRequired }
            }?.first
        }

        /// The column that a foreign key of another table refers to.
        func target(of key: ForeignKey) -> String? {
            guard let target = key.target else {
                return primaryKey.count == 1 ? primaryKey[0] : nil
            }
            return columns.first { $0.name.lowercased() == target.lowercased() }?.name
        }

        /// Whether the values of a column are declared to be unique.
        func isUnique(_ column: String) -> Bool {
            primaryKey == [column] || uniqueColumns.contains([column])
        }
    }

    struct Column {
        var name: String
        /// The declared type, in upper case.
        var type: String
        var isRequired: Bool
        /// The position in the primary key, from 1; 0 if it is not part of it.
        var keyPosition: Int
    }

    /// A foreign key of one column.
    struct ForeignKey {
        var column: String
        var table: String
        /// The column that it refers to; `nil` for the primary key.
        var target: String?
        /// The effect of a deletion of the row that it refers to.
        var deleteRule: DeleteRule
    }

    /// Opens a database, and reads its schema.
    ///
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat` or `inputOutput`.
    init(at path: String) throws {
        self.path = path
        do {
            file = try SQLiteDatabaseFile(path: path, isReadOnly: true)
            connection = try file.connect(.reading, options: SQLiteStoreOptions())
        } catch let failure as SQLiteFailure {
            throw failure.error(path: path)
        }
        try reading { try readSchema() }
    }

    deinit {
        connection.close()
        file.release()
    }

    /// Whether a file begins like a SQLite database.
    static func isDatabase(_ path: String) -> Bool {
        // Not by FileHandle, which would drop SQLite's locks if this process has the file open.
        let start = (try? OpenFile.open(path, for: .reading).read(16, at: 0)) ?? []
        return start.starts(with: Array("SQLite format 3\0".utf8))
    }

    /// Whether it is a store of Core Data or Quire.
    static func isStore(_ path: String) throws -> Bool {
        let names = Set(try DatabaseTables(at: path).tables.map(\.name))
        return names.isSuperset(of: ["Z_METADATA", "Z_PRIMARYKEY"])
    }

    /// The table with a name, in any case.
    func table(named name: String) -> Table? {
        tables.first { $0.name == name }
            ?? tables.first { $0.name.lowercased() == name.lowercased() }
    }

    /// The table with a name, in any case.
    ///
    /// - Throws: `QuireError` with code `notFound`.
    func requireTable(named name: String) throws -> Table {
        if let table = table(named: name) { return table }
        let advice = CloseNames.advice(for: name, among: tables.map(\.name), "its tables are")
        throw QuireError(.notFound, "“\(path)” has no table “\(name)”; \(advice)", file: path)
    }

    // MARK: - Schema

    /// Runs a body whose errors of SQLite name the file.
    private func reading<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let failure as SQLiteFailure {
            throw failure.error(path: path)
        }
    }

    private func readSchema() throws {
        try connection.execute("BEGIN")
        let names = try connection.rows(
            "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name"
        ) { ($0.text(0), $0.text(1)) }
        for (name, type) in names where !name.lowercased().hasPrefix("sqlite_") {
            switch type {
            case "table": tables.append(try table(name))
            case "shadow": continue
            default: otherNames.append(name)
            }
        }
    }

    private func table(_ name: String) throws -> Table {
        var table = Table(name: name)
        table.columns = try connection.rows(
            "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?)", name
        ) {
            Column(
                name: $0.text(0), type: $0.text(1).uppercased(), isRequired: $0.integer(2) != 0,
                keyPosition: Int(clamping: $0.integer(3)))
        }
        let keys = try connection.rows(
            "SELECT id, \"from\", \"table\", \"to\", on_delete FROM pragma_foreign_key_list(?)",
            name
        ) { row in
            let rules: [String: DeleteRule] = ["CASCADE": .cascade, "RESTRICT": .deny]
            let key = ForeignKey(
                column: row.text(1), table: row.text(2), target: row.isNull(3) ? nil : row.text(3),
                deleteRule: rules[row.text(4)] ?? .nullify)
            return (row.integer(0), key)
        }
        let counts = Dictionary(keys.map { ($0.0, 1) }, uniquingKeysWith: +)
        table.foreignKeys = keys.filter { counts[$0.0] == 1 }.map(\.1)
        table.compositeKeyCount = counts.values.count { $0 > 1 }
        let indexes = try connection.rows(
            "SELECT name FROM pragma_index_list(?) WHERE \"unique\" AND NOT partial", name
        ) { $0.text(0) }
        for index in indexes {
            // A NULL stands for an expression.
            let columns = try connection.rows(
                "SELECT name FROM pragma_index_info(?) ORDER BY seqno", index
            ) { $0.isNull(0) ? nil : $0.text(0) }
            if !columns.contains(nil) { table.uniqueColumns.append(columns.compactMap(\.self)) }
        }
        return table
    }

    // MARK: - Rows

    /// Calls a closure with the values of each row, of which one at a time is in memory.
    ///
    /// - Parameter isJoin: Whether rows in which a column has no value are left out.
    func forEachRow(
        of table: String, _ columns: [String], isJoin: Bool = false,
        _ body: ([AttributeValue]) throws -> Void
    ) throws {
        let list = columns.map(Self.quoted).joined(separator: ", ")
        let conditions = isJoin ? columns.map { "\(Self.quoted($0)) IS NOT NULL" } : []
        let condition =
            conditions.isEmpty ? "" : " WHERE \(conditions.joined(separator: " AND "))"
        try reading {
            try connection.forEachRow(
                "SELECT \(list.isEmpty ? "1" : list) FROM \(Self.quoted(table))\(condition)"
            ) { row in
                try body(columns.indices.map { row.value(Int32($0)) })
            }
        }
    }

    /// Whether the values of a column are unique, apart from NULL.
    func hasUniqueValues(_ table: String, _ column: String) throws -> Bool {
        let column = Self.quoted(column)
        return try reading {
            try connection.integer(
                "SELECT 1 FROM \(Self.quoted(table)) WHERE \(column) IS NOT NULL GROUP BY \(column) HAVING count(*) > 1 LIMIT 1"
            ) == nil
        }
    }

    /// The number of rows whose foreign key names no row.
    func danglingCount(_ table: String, _ column: String, to other: String, _ key: String) throws
        -> Int
    {
        try reading {
            Int(
                try connection.integer(
                    "SELECT count(*) FROM \(Self.quoted(table)) AS a WHERE a.\(Self.quoted(column)) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM \(Self.quoted(other)) AS b WHERE b.\(Self.quoted(key)) = a.\(Self.quoted(column)))"
                ) ?? 0)
        }
    }

    private static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }
}

extension AttributeValue {
    /// The value of a column of a database as a value of an attribute.
    ///
    /// - Throws: `QuireError` with code `invalidValue`.
    init(column value: AttributeValue, as attribute: AttributeDescription) throws {
        switch (value, attribute.type) {
        case (.string(let text), .binary): self = .binary(Data(text.utf8))
        case (.string(let text), _):
            self = try AttributeValue(parsing: text, as: attribute.type)
        case (.integer, .string), (.double, .string):
            self = .string(value.text(as: .double) ?? "")
        case (.integer(let integer), .binary): self = .binary(Data(String(integer).utf8))
        case (.double(let number), .binary): self = .binary(Data(number.description.utf8))
        case (.binary(let data), .uuid) where data.count == 16:
            let uuid = data.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
            self = .uuid(UUID(uuid: uuid))
        case (.binary(let data), .string):
            guard let text = String(validating: data, as: UTF8.self) else { fallthrough }
            self = .string(text)
        default: self = try attribute.coerce(value)
        }
    }
}
