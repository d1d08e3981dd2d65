import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// What a check says of tables that are not those of the model.
@Suite @MainActor struct StoreSchemaCheckTests {
    /// Damage to the tables of a library, and what a check must say of it.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let statements: [String]
        let kind: StoreProblem.Kind
        /// What the problem's sentence must name.
        let text: String
        var testDescription: String { name }

        init(_ name: String, _ kind: StoreProblem.Kind, _ text: String, _ statements: String...) {
            self.name = name
            self.kind = kind
            self.text = text
            self.statements = statements
        }
    }

    nonisolated static let cases = [
        Case("lost table", .schema, "ZBOOK", "DROP TABLE ZBOOK"),
        Case("lost column", .schema, "ZYEAR", "ALTER TABLE ZBOOK DROP COLUMN ZYEAR"),
        Case(
            "view in a table's place", .schema, "view", "ALTER TABLE ZSONG RENAME TO OLD",
            "CREATE VIEW ZSONG AS SELECT * FROM OLD"),
        Case(
            "negative key", .primaryKey, "-7",
            "INSERT INTO ZAUTHOR (Z_PK, Z_ENT, Z_OPT, ZNAME) SELECT -7, Z_ENT, 1, 'x' FROM ZAUTHOR LIMIT 1"
        ),
        Case(
            "least key of all", .primaryKey, "-9223372036854775808",
            "INSERT INTO ZAUTHOR (Z_PK, Z_ENT, Z_OPT, ZNAME) SELECT -9223372036854775807 - 1, Z_ENT, 1, 'x' "
                + "FROM ZAUTHOR LIMIT 1"),
        Case("lost join table", .schema, "songs", "DROP TABLE Z_SONGS"),
        Case(
            "lost column of an unpaired relationship", .schema, "favourites",
            "DROP INDEX FAVOURITES_INDEX", "ALTER TABLE ZTAG DROP COLUMN FAVOURITES"),
        Case("lost order", .schema, "Z_FOK_SHELF", "ALTER TABLE ZBOOK DROP COLUMN Z_FOK_SHELF"),
        Case(
            "lost entity of references", .schema, "_SPOUSE",
            "ALTER TABLE ZPERSON DROP COLUMN SPOUSE_ENTITY"),
        Case("lost entity", .schema, "Book", "DELETE FROM Z_PRIMARYKEY WHERE Z_NAME = 'Book'"),
        Case(
            "column that makes numbers of texts", .schema, "ZNAME",
            "ALTER TABLE ZAUTHOR RENAME TO OLD",
            "CREATE TABLE ZAUTHOR (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZBORN INTEGER, ZNAME INTEGER)",
            "INSERT INTO ZAUTHOR SELECT * FROM OLD", "DROP TABLE OLD"),
        Case(
            "column that makes texts of numbers", .schema, "ZBORN",
            "ALTER TABLE ZAUTHOR RENAME TO OLD",
            "CREATE TABLE ZAUTHOR (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZBORN VARCHAR, ZNAME VARCHAR)",
            "INSERT INTO ZAUTHOR SELECT * FROM OLD", "DROP TABLE OLD"),
        Case(
            "table without its key", .schema, "Z_PK",
            "CREATE TABLE COPY AS SELECT * FROM ZAUTHOR", "DROP TABLE ZAUTHOR",
            "ALTER TABLE COPY RENAME TO ZAUTHOR"),
        Case(
            "join table without its key", .schema, "Z_SONGS",
            "CREATE TABLE COPY AS SELECT * FROM Z_SONGS", "DROP TABLE Z_SONGS",
            "ALTER TABLE COPY RENAME TO Z_SONGS"),
    ]

    static func check(_ path: String, model: ManagedObjectModel? = nil) throws -> StoreCheckReport {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = true
        let store = try SQLiteStore.open(at: path, model: model, options: options)
        defer { try? store.close() }
        return try StoreCheck.run(store)
    }

    /// Damages a library, whose numbered names are filled in.
    static func damage(_ path: String, _ damage: Case) throws -> [String: String] {
        func name(_ sql: String) throws -> String {
            try #require(try Damage.query(path, sql).first?.first)
        }
        let names = [
            "Z_SONGS": try name(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'Z_*SONGS'"),
            "FAVOURITES_INDEX": try name(
                "SELECT name FROM sqlite_schema WHERE type = 'index' AND name GLOB '*FAVOURITES*'"),
            "SPOUSE_ENTITY": try name(
                "SELECT name FROM pragma_table_info('ZPERSON') WHERE name GLOB 'Z[0-9]*_SPOUSE'"),
            "COLUMN FAVOURITES": "COLUMN "
                + (try name(
                    "SELECT name FROM pragma_table_info('ZTAG') WHERE name GLOB 'Z[0-9]*FAVOURITES'"
                )),
        ]
        for statement in damage.statements {
            try Damage.query(
                path, names.reduce(statement) { $0.replacing($1.key, with: $1.value) })
        }
        try Damage.settle(path)
        return names
    }

    @Test(arguments: cases)
    func checkFindsTablesThatAreNotTheModels(damage: Case) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        let names = try Self.damage(path, damage)
        let report = try Self.check(path)
        let text = names[damage.text] ?? damage.text
        #expect(
            report.problems.contains { $0.kind == damage.kind && $0.message.contains(text) },
            "\(report.problems) \(report.notes)")
        #expect(!report.isWhole)
    }

    /// What speeds up reading, and what is made when the store is opened for writing, is no damage.
    @Test(arguments: ["Z_Tag_UNIQUE_name", "ZBOOK_ZAUTHOR_INDEX", "ZPERSON_Z_ENT_INDEX"])
    func aLostIndexIsANoteAndIsMadeAnew(index: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "DROP INDEX \(index)")
        try Damage.settle(path)
        let report = try Self.check(path)
        #expect(report.isWhole, "\(report.problems)")
        #expect(report.notes.contains { $0.kind == .schema && $0.message.contains(index) })
        let repair = try StoreRepair.repair(path)
        #expect(repair.after.isWhole)
        #expect(repair.after.notes.isEmpty, "\(repair.after.notes)")
        #expect(
            try Damage.query(path, "SELECT name FROM sqlite_schema WHERE name = '\(index)'").count
                == 1)
    }

    @Test(arguments: ["Z_PRIMARYKEY", "Z_METADATA"])
    func aStoreWithoutItsBooksIsRefused(table: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "DROP TABLE \(table)")
        let error = #expect(throws: QuireError.self) { try Self.check(path) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains(table) == true)
    }

    @Test func aColumnThatEveryTableHasIsMissed() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "ALTER TABLE ZBOOK DROP COLUMN Z_OPT")
        let error = #expect(throws: QuireError.self) { try Self.check(path) }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("Z_OPT") == true)
    }

    @Test func aStoreWithoutAModelSaysThatItsTablesWereNotCompared() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.dropModels(path)
        let report = try Self.check(path)
        #expect(report.isWhole)
        #expect(report.notes.map(\.kind) == [.schema])
    }
}
