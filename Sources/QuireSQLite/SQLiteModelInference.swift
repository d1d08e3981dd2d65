public import QuireModel

/// Reads the facts from which a model is inferred.
struct SQLiteModelInference: SQLInferenceSource {
    let connection: SQLiteConnection
    private let indexNames: Set<String>

    /// The number of columns per statement: SQLite allows 2,000 result columns.
    private static let columnsAtOnce = 200

    init(connection: SQLiteConnection) throws {
        self.connection = connection
        indexNames = Set(
            try connection.texts("SELECT upper(name) FROM sqlite_schema WHERE type = 'index'"))
    }

    func hasIndex(_ name: String) -> Bool { indexNames.contains(name.uppercased()) }

    func holdsKeys(_ column: String, of table: String, in target: String) throws -> Bool {
        try connection.integer(
            "SELECT 1 FROM \(SQLName.quoted(table)) WHERE \(SQLName.quoted(column)) IS NOT NULL AND "
                + "\(SQLName.quoted(column)) NOT IN (SELECT Z_PK FROM \(SQLName.quoted(target))) LIMIT 1"
        ) == nil
    }

    func facts(of table: SQLCatalog.Table) throws -> [String: SQLColumnFacts] {
        var facts: [String: SQLColumnFacts] = [:]
        guard table.column(SQLName.entity) != nil else { return facts }
        var rest = table.columns[...]
        while !rest.isEmpty {
            try read(Array(rest.prefix(Self.columnsAtOnce)), of: table.name, into: &facts)
            rest = rest.dropFirst(Self.columnsAtOnce)
        }
        return facts
    }

    private func read(
        _ columns: [SQLColumn], of table: String, into facts: inout [String: SQLColumnFacts]
    ) throws {
        let questions = columns.map { column in
            let name = SQLName.quoted(column.name)
            return """
                max(typeof(\(name)) = 'integer'), max(typeof(\(name)) = 'real'), \
                max(typeof(\(name)) = 'text'), max(typeof(\(name)) = 'blob'), \
                min(CASE typeof(\(name)) WHEN 'integer' THEN \(name) END), \
                min(CASE WHEN typeof(\(name)) IN ('text', 'blob') THEN length(\(name)) = 16 END), \
                min(CASE WHEN typeof(\(name)) IN ('text', 'blob') THEN substr(\(name), 1, 1) = x'01' \
                OR (substr(\(name), 1, 1) = x'02' AND length(\(name)) IN (37, 38)) END)
                """
        }
        try connection.forEachRow(
            "SELECT Z_ENT, \(questions.joined(separator: ", ")) FROM \(SQLName.quoted(table)) GROUP BY Z_ENT"
        ) { statement in
            let entity = Int(clamping: statement.integer(0))
            for (index, column) in columns.enumerated() {
                let start = Int32(index) * 7 + 1
                func isTrue(_ offset: Int32) -> Bool { statement.integer(start + offset) == 1 }
                func isFalse(_ offset: Int32) -> Bool {
                    !statement.isNull(start + offset) && statement.integer(start + offset) == 0
                }
                var known = facts[column.name] ?? SQLColumnFacts()
                let hasAny = isTrue(0) || isTrue(1) || isTrue(2) || isTrue(3)
                if hasAny { known.entities.insert(entity) }
                known.hasIntegers = known.hasIntegers || isTrue(0)
                known.hasReals = known.hasReals || isTrue(1)
                known.hasTexts = known.hasTexts || isTrue(2)
                known.hasBlobs = known.hasBlobs || isTrue(3)
                if !statement.isNull(start + 4) {
                    let least = statement.integer(start + 4)
                    known.least = min(known.least ?? least, least)
                }
                if isFalse(5) { known.areSixteenBytes = false }
                if isFalse(6) { known.areTagged = false }
                facts[column.name] = known
            }
        }
    }
}

extension SQLiteStore {
    /// Infers a model from a store's tables alone, sufficient for reading it: for a store whose model is lost.
    ///
    /// Entities have the store's names, properties the column names in lower case. The model lacks everything that the tables do
    /// not show, such as the to-many side of most relationships. See ``SQLiteStoreOptions/infersModel``.
    ///
    /// ```swift
    /// let model = try SQLiteStore.inferredModel(at: "old.sqlite")
    /// try Data(model.modelXML()).write(to: URL(fileURLWithPath: "old.xcdatamodel/contents"))
    /// ```
    ///
    /// - Complexity: O(*n*) in the rows: all are examined.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`.
    public static func inferredModel(at path: String) throws -> ManagedObjectModel {
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: .reading())
            defer { connection.close() }
            let catalog = try SQLiteCatalogReader(connection: connection).catalog()
            return try SQLModelInference.run(
                catalog: catalog, source: SQLiteModelInference(connection: connection)
            ).model
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }
}
