internal import QuireSQLite

/// A table from the damaged database's schema, or from the model.
struct SalvagedTable {
    let name: String
    let columns: [SQLColumn]
    /// The rowid column, which records do not contain.
    let rowIDColumn: Int?
    /// The columns that are a key together.
    let keyColumns: [String]
    /// The page its tree begins with; `nil` if that is not known.
    var root: Int?

    /// Whether it is an object table: it begins with `Z_PK`, `Z_ENT`, `Z_OPT`.
    var holdsObjects: Bool {
        columns.count >= 3
            && zip(columns, [SQLName.primaryKey, SQLName.entity, SQLName.version])
                .allSatisfy { $0.0.name.uppercased() == $0.1 }
    }

    /// Whether it pairs the keys of objects.
    var isJoinTable: Bool {
        keyColumns.count == 2 && columns.allSatisfy { $0.type.uppercased() == "INTEGER" }
    }

    init(name: String, columns: [SQLColumn], rowIDColumn: Int?, keyColumns: [String]) {
        self.name = name
        self.columns = columns
        self.rowIDColumn = rowIDColumn
        self.keyColumns = keyColumns
    }

    /// A metadata table, present in all stores.
    static let primaryKeys = SalvagedTable(
        sql:
            "CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME VARCHAR, Z_SUPER INTEGER, Z_MAX INTEGER)"
    )
    static let metadata = SalvagedTable(
        sql:
            "CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID VARCHAR(255), Z_PLIST BLOB)"
    )
    static let model = SalvagedTable(sql: SQLiteTables.createModel)
    static let modelCache = SalvagedTable(sql: SQLiteTables.createModelCache)

    /// The statement that creates the table in another database.
    var statement: String {
        var parts = columns.enumerated().map { index, column in
            "\(SQLName.quoted(column.name)) \(Self.plainType(column.type))"
                + (index == rowIDColumn ? " PRIMARY KEY" : "")
        }
        if rowIDColumn == nil, !keyColumns.isEmpty {
            parts.append("PRIMARY KEY (\(keyColumns.map(SQLName.quoted).joined(separator: ", ")))")
        }
        return "CREATE TABLE \(SQLName.quoted(name)) (\(parts.joined(separator: ", ")))"
    }

    /// The declared type; empty if it contains characters that are not part of a type.
    private static func plainType(_ type: String) -> String {
        type.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || " (),".contains($0)) }
            ? type : ""
    }

    // MARK: - Reading declarations

    /// Parses a CREATE TABLE statement.
    ///
    /// - Returns: `nil` unless it has the plain form that stores use.
    init?(sql: String, root: Int?) {
        var scanner = DeclarationScanner(sql)
        guard scanner.skip("CREATE"), scanner.skip("TABLE") else { return nil }
        if scanner.skip("IF") { _ = scanner.skip("NOT") && scanner.skip("EXISTS") }
        guard let name = scanner.token(), let body = scanner.parenthesized(),
            !scanner.skip("WITHOUT")
        else { return nil }
        var columns: [SQLColumn] = []
        var rowIDColumn: Int?
        var keyColumns: [String] = []
        for part in body {
            var scanner = DeclarationScanner(part)
            guard let first = scanner.token() else { return nil }
            switch first.text.uppercased() {
            case "CONSTRAINT" where !first.isQuoted, "UNIQUE" where !first.isQuoted,
                "CHECK" where !first.isQuoted, "FOREIGN" where !first.isQuoted:
                continue
            case "PRIMARY" where !first.isQuoted:
                guard scanner.skip("KEY"), let names = scanner.parenthesized() else { return nil }
                keyColumns = names.compactMap {
                    var scanner = DeclarationScanner($0)
                    return scanner.token()?.text
                }
            default:
                let rest = scanner.rest()
                let words = rest.uppercased()
                let type = rest.prefix { !$0.isWhitespace }
                if type.uppercased() == "INTEGER", words.contains("PRIMARY KEY") {
                    rowIDColumn = columns.count
                }
                let isConstraint = ["UNIQUE", "PRIMARY", "NOT", "DEFAULT", "COLLATE", "CHECK"]
                    .contains(type.uppercased())
                columns.append(SQLColumn(name: first.text, type: isConstraint ? "" : String(type)))
            }
        }
        let names = Set(columns.map { $0.name.uppercased() })
        guard !columns.isEmpty, columns.count <= 2000, names.count == columns.count,
            keyColumns.allSatisfy({ names.contains($0.uppercased()) })
        else { return nil }
        self.init(
            name: name.text, columns: columns, rowIDColumn: rowIDColumn, keyColumns: keyColumns)
        self.root = root
    }

    private init(sql: String) {
        // The statement was generated in this file.
        guard let table = SalvagedTable(sql: sql, root: nil) else {
            preconditionFailure("“\(sql)” does not declare a table.")
        }
        self = table
    }
}

/// Takes a declaration apart.
private struct DeclarationScanner {
    private let characters: [Character]
    private var position = 0

    init(_ text: some StringProtocol) { characters = Array(text) }

    private mutating func skipSpace() {
        while position < characters.count, characters[position].isWhitespace { position += 1 }
    }

    /// The remaining text.
    mutating func rest() -> String {
        skipSpace()
        return String(characters[position...])
    }

    /// Skips a word, if it is next.
    mutating func skip(_ word: String) -> Bool {
        let start = position
        if let token = token(), !token.isQuoted, token.text.uppercased() == word { return true }
        position = start
        return false
    }

    /// The next name.
    mutating func token() -> (text: String, isQuoted: Bool)? {
        skipSpace()
        guard position < characters.count else { return nil }
        let closing: [Character: Character] = ["\"": "\"", "`": "`", "[": "]", "'": "'"]
        if let end = closing[characters[position]] {
            position += 1
            var text = ""
            while position < characters.count {
                if characters[position] == end {
                    position += 1
                    guard position < characters.count, characters[position] == end, end != "]"
                    else { return (text, true) }
                }
                text.append(characters[position])
                position += 1
            }
            return nil
        }
        var text = ""
        while position < characters.count,
            characters[position].isLetter || characters[position].isNumber
                || "_$".contains(characters[position])
        {
            text.append(characters[position])
            position += 1
        }
        return text.isEmpty ? nil : (text, false)
    }

    /// The parts between parentheses, as commas part them.
    mutating func parenthesized() -> [String]? {
        skipSpace()
        guard position < characters.count, characters[position] == "(" else { return nil }
        position += 1
        var parts: [String] = []
        var part = ""
        var depth = 0
        var quote: Character?
        while position < characters.count {
            let character = characters[position]
            position += 1
            if let open = quote {
                if character == open { quote = nil }
            } else if character == "\"" || character == "'" || character == "`" {
                quote = character
            } else if character == "(" {
                depth += 1
            } else if character == ")" {
                if depth == 0 {
                    parts.append(part)
                    return parts
                }
                depth -= 1
            } else if character == ",", depth == 0 {
                parts.append(part)
                part = ""
                continue
            }
            part.append(character)
        }
        return nil
    }
}
