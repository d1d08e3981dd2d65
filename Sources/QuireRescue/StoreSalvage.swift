import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireProtection
internal import QuireSQLite

/// Reads all identifiable rows out of a damaged database, and copies them into an intact one, table by table, with the same
/// schema.
///
/// Sources, in order:
///
/// 1. the tree of `sqlite_schema`, for the tables and the root pages of their trees,
/// 2. those trees, leaf by leaf: their rows are certain,
/// 3. unreachable leaves, because the pages above them are damaged. Their rows are assigned to tables by the entity number
///    that every row of objects has, or by a shape that is unique to one table. Of several rows with one key the most
///    recently saved one is used, and none replaces a certain one.
/// 4. on request, leaves on the freelist: deleted rows, or older copies.
///
/// A table whose schema is lost is taken from the model.
struct StoreSalvage {
    /// Found tables and model, and counts of lost data.
    struct Findings {
        var lostPages: Set<Int> = []
        var lostRows = 0
        var lostValues = 0
        var strayRows = 0
        var droppedLogFrames = 0
        var lostTransactions = 0
        var lacksSchema = false
        var tables: [SalvagedTable] = []
        var entities: [SQLCatalog.Entity] = []
        var model: ManagedObjectModel?
    }

    private var map: DatabaseMap
    private var reader: RowReader
    private let includesFreedRows: Bool
    private(set) var findings = Findings()
    /// The leaves of each table.
    private var leaves: [[Int]] = []
    private var orphans: [Int] = []
    private var freed: [Int] = []
    /// Positions of tables by upper-case names.
    private var positions: [String: Int] = [:]
    /// Positions of tables by the store numbers of the entities whose objects they hold.
    private var entityTables: [Int64: Int] = [:]

    init(path: String, includesFreedRows: Bool, cipher: PageCipher? = nil) throws {
        let pages = try DatabasePages(path: path, cipher: cipher)
        map = DatabaseMap(pages)
        reader = RowReader(pages)
        self.includesFreedRows = includesFreedRows
        findings.droppedLogFrames = pages.log.droppedFrames
        findings.lostTransactions = pages.log.lostTransactions
    }

    private var tables: [SalvagedTable] { findings.tables }

    /// Surveys the database.
    ///
    /// - Parameter given: The model, if known.
    mutating func survey(model given: ManagedObjectModel?) throws {
        readSchema(map.leaves(ofTreeAt: 1))
        followTrees(from: 0)
        map.markFreePages()
        collectUnreached()
        readStraySchema()
        readBooks()
        let layout = try? (given ?? findings.model)?.layout()
        if let layout { add(layout) }
        if tables.allSatisfy({ !$0.holdsObjects }) { addUnnamedTables() }
        addUnnamedEntities(layout)
        findings.lostPages = map.lostPages
        for entity in findings.entities {
            if let table = positions["Z" + rootName(of: entity).uppercased()] {
                entityTables[Int64(entity.number)] = table
            }
        }
        try map.pages.checkWasAvailable()
    }

    // MARK: - Schema

    private mutating func add(_ table: SalvagedTable) {
        let name = table.name.uppercased()
        guard positions[name] == nil, !Self.isOfSQLite(name) else { return }
        positions[name] = tables.count
        findings.tables.append(table)
        leaves.append([])
    }

    /// Whether SQLite itself uses a table, as for statistics.
    private static func isOfSQLite(_ name: String) -> Bool {
        name.uppercased().hasPrefix("SQLITE_")
    }

    private mutating func readSchema(_ pages: [Int]) {
        findings.lacksSchema = pages.isEmpty
        for page in pages {
            guard let found = reader.rows(ofLeaf: page) else { continue }
            if found.damaged > 0 { findings.lacksSchema = true }
            for row in found.rows { note(schemaRow: row.values) }
        }
    }

    /// - Returns: Whether the row is a valid row of the schema.
    @discardableResult
    private mutating func note(schemaRow values: [DatabaseValue]) -> Bool {
        guard values.count == 5, let kind = values[0].string, let name = values[1].string,
            values[2].string != nil, ["table", "index", "trigger", "view"].contains(kind)
        else { return false }
        let root = values[3].integer.flatMap { Int(exactly: $0) }
        if kind == "index" || Self.isOfSQLite(name) {
            // Nothing of it is recovered, and its pages belong to it.
            if let root { _ = map.leaves(ofTreeAt: root) }
        } else if kind == "table", let sql = values[4].string, let root,
            let table = SalvagedTable(sql: sql, root: root)
        {
            add(table)
        }
        return true
    }

    private mutating func followTrees(from start: Int) {
        for index in tables.indices.dropFirst(start) {
            if let root = tables[index].root { leaves[index] = map.leaves(ofTreeAt: root) }
        }
    }

    /// Collects unreachable table leaves.
    private mutating func collectUnreached() {
        let pages = map.pages
        guard pages.pageCount > 0 else { return }
        for number in 1...pages.pageCount where map[number] == .unknown || map[number] == .free {
            guard let bytes = pages.page(number),
                let page = TreePage(bytes, number: number, usableSize: pages.usableSize),
                page.kind == .tableLeaf
            else { continue }
            if map[number] == .free { freed.append(number) } else { orphans.append(number) }
        }
    }

    /// Reads schema rows on unreachable leaves, and adds the tables they define.
    private mutating func readStraySchema() {
        let start = tables.count
        let pages = orphans
        orphans = pages.filter { page in
            guard let found = reader.rows(ofLeaf: page), !found.rows.isEmpty else { return true }
            var isSchema = false
            for row in found.rows where note(schemaRow: row.values) { isSchema = true }
            return !isSchema
        }
        guard tables.count > start else { return }
        followTrees(from: start)
        orphans = orphans.filter { map[$0] != .tree }
    }

    // MARK: - Metadata

    /// Reads the tables of metadata, wherever they are.
    private mutating func readBooks() {
        for table in [
            SalvagedTable.primaryKeys, .metadata, .model, .modelCache,
        ] { add(table) }
        for name in ["Z_PRIMARYKEY", SQLiteTables.model] {
            guard let position = positions[name] else { continue }
            for page in leaves[position] {
                for row in reader.rows(ofLeaf: page)?.rows ?? [] {
                    note(bookRow: withRowID(row, tables[position]), of: name)
                }
            }
        }
        for page in orphans {
            guard let found = reader.rows(ofLeaf: page) else { continue }
            for row in found.rows {
                guard let name = bookName(of: row.values), let position = positions[name] else {
                    break
                }
                note(bookRow: withRowID(row, tables[position]), of: name)
            }
        }
        findings.entities.sort { $0.number < $1.number }
    }

    /// The metadata table whose rows have the shape of a row; `nil` if none does.
    private func bookName(of values: [DatabaseValue]) -> String? {
        switch values.count {
        case 1:
            if let text = values[0].string {
                return text.contains("<model ") ? SQLiteTables.model : nil
            }
            if case .blob = values[0] { return "Z_MODELCACHE" }
            return nil
        case 3:
            guard let uuid = values[1].string, UUID(uuidString: uuid) != nil,
                case .blob = values[2]
            else { return nil }
            return "Z_METADATA"
        case 4:
            guard values[0].isNull, values[1].string != nil, values[2].integer != nil,
                values[3].integer != nil || values[3].isNull
            else { return nil }
            return "Z_PRIMARYKEY"
        default: return nil
        }
    }

    private mutating func note(bookRow values: [DatabaseValue], of name: String) {
        switch name {
        case "Z_PRIMARYKEY":
            guard values.count >= 3, let number = values[0].integer,
                let entity = values[1].string, number > 0,
                number <= Int64(SQLCatalog.maximumEntityNumber),
                !findings.entities.contains(where: { $0.number == Int(number) })
            else { return }
            findings.entities.append(
                SQLCatalog.Entity(
                    number: Int(number), name: entity,
                    superentityNumber: Int(clamping: max(values[2].integer ?? 0, 0))))
        case SQLiteTables.model:
            guard findings.model == nil, let xml = values.first?.string else { return }
            findings.model = try? ManagedObjectModel(modelXML: Data(xml.utf8), name: name)
        default: break
        }
    }

    private func rootName(of entity: SQLCatalog.Entity) -> String {
        var entity = entity
        for _ in 0..<ModelValidation.maximumDepth {
            guard entity.superentityNumber != 0,
                let parent = findings.entities.first(where: {
                    $0.number == entity.superentityNumber
                })
            else { break }
            entity = parent
        }
        return entity.name
    }

    // MARK: - Tables that no schema names

    /// Adds the tables of a model that are not known, and its entities if they are not.
    private mutating func add(_ layout: ResolvedModel) {
        if findings.entities.isEmpty {
            findings.entities = layout.entities.map {
                SQLCatalog.Entity(
                    number: $0.number, name: $0.name, superentityNumber: $0.superentityNumber ?? 0)
            }
        }
        let schema = SQLSchema(fresh: layout)
        for table in schema.tables {
            add(
                SalvagedTable(
                    name: table.name,
                    columns: table.columns.enumerated().map { index, column in
                        index == 0 ? SQLColumn(name: column.name, type: "INTEGER") : column
                    }, rowIDColumn: 0, keyColumns: []))
        }
        for join in schema.joinTables {
            let keys = [join.firstColumn, join.secondColumn]
            let orders = [join.secondOrderColumn, join.firstOrderColumn].compactMap { $0 }
            add(
                SalvagedTable(
                    name: join.name,
                    columns: (keys + orders).map { SQLColumn(name: $0, type: "INTEGER") },
                    rowIDColumn: nil, keyColumns: keys))
        }
    }

    /// Adds tables known only by the shape of their rows. Their columns are numbered.
    private mutating func addUnnamedTables() {
        var roots: [Int64: String] = [:]
        for entity in findings.entities { roots[Int64(entity.number)] = rootName(of: entity) }
        var widths: [String: Int] = [:]
        for page in orphans {
            for row in reader.rows(ofLeaf: page)?.rows ?? [] where row.values.count >= 3 {
                guard row.values[0].isNull, let number = row.values[1].integer,
                    let root = roots[number]
                else { continue }
                widths[root] = max(widths[root] ?? 3, min(row.values.count, 2000))
            }
        }
        for (root, width) in widths.sorted(by: { $0.key < $1.key }) {
            var columns = [SQLName.primaryKey, SQLName.entity, SQLName.version].map {
                SQLColumn(name: $0, type: "INTEGER")
            }
            for index in 3..<max(width, 3) {
                columns.append(SQLColumn(name: "ZCOLUMN\(index + 1)", type: ""))
            }
            add(
                SalvagedTable(
                    name: "Z" + root.uppercased(), columns: columns, rowIDColumn: 0,
                    keyColumns: []))
        }
    }

    /// Adds entities for object tables without a known entity, named after the tables, or as in the model if it has such
    /// tables. The number of the root entity is unknown; Core Data assigns it the least.
    private mutating func addUnnamedEntities(_ layout: ResolvedModel?) {
        let names = Dictionary(
            (layout?.entities ?? []).filter { $0.number == $0.rootNumber }
                .map { (SQLSchema.tableName(ofRoot: $0), $0.name) },
            uniquingKeysWith: { first, _ in first })
        let known = Set(findings.entities.map { "Z" + rootName(of: $0).uppercased() })
        var taken = Set(findings.entities.map(\.number))
        for position in tables.indices
        where tables[position].holdsObjects && !known.contains(tables[position].name.uppercased()) {
            var numbers: Set<Int> = []
            for page in leaves[position] {
                for row in reader.rows(ofLeaf: page)?.rows ?? [] where row.values.count >= 3 {
                    guard let number = row.values[1].integer.flatMap({ Int(exactly: $0) }),
                        number > 0, number <= SQLCatalog.maximumEntityNumber,
                        numbers.count < 1000
                    else { continue }
                    numbers.insert(number)
                }
            }
            let bare = tables[position].name.dropFirst()
            let name =
                names[tables[position].name.uppercased()]
                ?? bare.prefix(1).uppercased() + bare.dropFirst().lowercased()
            guard tables[position].name.uppercased().hasPrefix("Z"),
                ModelNames.objection(toEntityName: name) == nil,
                let root = numbers.subtracting(taken).min()
            else { continue }
            for number in numbers.sorted() where taken.insert(number).inserted {
                findings.entities.append(
                    SQLCatalog.Entity(
                        number: number, name: number == root ? name : "\(name)\(number)",
                        superentityNumber: number == root ? 0 : root))
            }
        }
        findings.entities.sort { $0.number < $1.number }
    }

    // MARK: - Pouring

    private func withRowID(_ row: RowReader.Row, _ table: SalvagedTable) -> [DatabaseValue] {
        guard let column = table.rowIDColumn, column < row.values.count else { return row.values }
        var values = row.values
        values[column] = .integer(row.rowID)
        return values
    }

    /// Makes the tables in a sound database and fills them.
    ///
    /// - Parameter advance: Called with the number of leaves that have been read, and that of all. If it throws, this ends.
    mutating func pour(
        into connection: SQLiteConnection, advance: (_ leaves: Int, _ total: Int) throws -> Void
    ) throws {
        // With a separate budget.
        reader = RowReader(map.pages)
        let inserter = SalvageInserter(connection: connection)
        for (position, table) in tables.enumerated() where includes(table) {
            try connection.execute(table.statement)
            inserter.prepare(table, at: position, hasCertainRows: !leaves[position].isEmpty)
        }
        try connection.execute("BEGIN")
        let included = tables.indices.filter { includes(tables[$0]) }
        let total =
            included.reduce(orphans.count) { $0 + leaves[$1].count }
            + (includesFreedRows ? freed.count : 0)
        var count = 0
        func pourNext(_ page: Int, expected position: Int?) throws {
            try pour(page, expected: position, isCertain: position != nil, inserter)
            count += 1
            try advance(count, total)
        }
        for position in included {
            for page in leaves[position] { try pourNext(page, expected: position) }
        }
        for page in orphans { try pourNext(page, expected: nil) }
        if includesFreedRows {
            let strays = findings.strayRows
            for page in freed { try pourNext(page, expected: nil) }
            // Deleted rows need not belong to a table.
            findings.strayRows = strays
        }
        try map.pages.checkWasAvailable()
        try connection.execute("COMMIT")
    }

    /// Whether a row has the form of SQLite's statistics: the name of a table, that of an index or null, and numbers.
    private func isStatistics(_ values: [DatabaseValue]) -> Bool {
        values.count == 3 && values[0].string != nil
            && (values[1].isNull || values[1].string != nil)
            && values[2].string.flatMap { Int($0.prefix { $0 != " " }) } != nil
    }

    /// Whether a table's contents are needed: objects, join rows, metadata and records. Persistent history refers to a store
    /// identity that the new store does not have.
    private func includes(_ table: SalvagedTable) -> Bool {
        let name = table.name.uppercased()
        return name.hasPrefix("Z") || name.hasPrefix("QUIRE_") && !name.hasPrefix("QUIRE_FT")
    }

    private mutating func pour(
        _ page: Int, expected: Int?, isCertain: Bool, _ inserter: SalvageInserter
    ) throws {
        guard let found = reader.rows(ofLeaf: page) else { return }
        findings.lostRows += found.damaged
        for row in found.rows {
            if expected == nil, isHistory(row.values) || isStatistics(row.values) { continue }
            guard let position = place(of: row.values, expected: expected),
                includes(tables[position])
            else {
                findings.strayRows += 1
                continue
            }
            findings.lostValues += try inserter.insert(
                withRowID(row, tables[position]), of: tables[position], at: position,
                isCertain: isCertain)
        }
    }

    /// Whether a row has the shape of those of persistent history, which is not salvaged.
    private func isHistory(_ values: [DatabaseValue]) -> Bool {
        values.count >= 4 && values[0].isNull
            && values[1].integer.map(SQLiteTables.historyEntityNumbers.contains) ?? false
    }

    /// The index of the table that a row belongs to.
    private func place(of values: [DatabaseValue], expected: Int?) -> Int? {
        if values.count >= 3, values[0].isNull, let number = values[1].integer,
            let position = entityTables[number], values.count <= tables[position].columns.count,
            expected.map({ tables[$0].holdsObjects }) ?? true
        {
            return position
        }
        if let expected {
            return values.count <= tables[expected].columns.count ? expected : nil
        }
        if let name = bookName(of: values) { return positions[name] }
        guard values.count >= 2, values.allSatisfy({ $0.integer != nil || $0.isNull }) else {
            return nil
        }
        // A join row, if only one table has rows of its shape.
        let candidates = tables.indices.filter {
            tables[$0].isJoinTable && tables[$0].columns.count == values.count
        }
        return candidates.count == 1 ? candidates[0] : nil
    }
}

/// Inserts salvaged rows.
private final class SalvageInserter {
    private let connection: SQLiteConnection
    private var certain: [Int: String] = [:]
    private var uncertain: [Int: String] = [:]
    private let arena = SQLiteBindingArena()

    init(connection: SQLiteConnection) { self.connection = connection }

    func prepare(_ table: SalvagedTable, at position: Int, hasCertainRows: Bool) {
        let marks = table.columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        let name = SQLName.quoted(table.name)
        certain[position] = "INSERT OR IGNORE INTO \(name) VALUES (\(marks))"
        // Of several copies of an object the most recently saved one, unless there are certain ones.
        uncertain[position] =
            table.holdsObjects && !hasCertainRows
            ? "INSERT OR REPLACE INTO \(name) SELECT \(marks) WHERE NOT EXISTS (SELECT 1 FROM \(name) "
                + "WHERE Z_PK = ?1 AND coalesce(Z_OPT, 0) >= coalesce(?3, 0))"
            : certain[position]
    }

    /// - Returns: The number of values lost with missing overflow pages, if the row was inserted.
    func insert(
        _ values: [DatabaseValue], of table: SalvagedTable, at position: Int, isCertain: Bool
    ) throws -> Int {
        guard let sql = (isCertain ? certain : uncertain)[position] else { return 0 }
        var lost = 0
        try connection.withStatement(sql) { statement in
            for index in table.columns.indices {
                let parameter = Int32(index + 1)
                switch index < values.count ? values[index] : .null {
                case .null: try statement.bindNull(at: parameter)
                case .lost:
                    lost += 1
                    try statement.bindNull(at: parameter)
                case .integer(let value): try statement.bind(value, at: parameter)
                case .real(let value): try statement.bind(value, at: parameter)
                case .text(let bytes):
                    try statement.bindText(
                        bytes.withUnsafeBytes { arena.place($0) }, at: parameter)
                case .blob(let bytes):
                    try statement.bindBlob(
                        bytes.withUnsafeBytes { arena.place($0) }, at: parameter)
                }
            }
            try statement.run()
        }
        arena.reset()
        return connection.changeCount > 0 ? lost : 0
    }
}
