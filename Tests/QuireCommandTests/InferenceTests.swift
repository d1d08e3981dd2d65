import Foundation
import Quire
import QuireDocuments
import QuireTestSupport
import Testing

@testable import QuireCommand

/// Models that `quire new --from` infers from data.
@Suite struct InferenceTests {
    private func type(of values: String...) -> AttributeType {
        var type = InferredType(column: "a", of: "A")
        for value in values { type.add(text: value) }
        return type.type
    }

    @Test func typeKeepsEveryValueExactly() {
        #expect(type(of: "1", "-20", "9223372036854775807") == .integer64)
        #expect(type(of: "1", "2.5", "1e-7") == .double)
        #expect(type(of: "0.30000000000000004") == .double)
        #expect(type(of: "0.300000000000000041") == .string)
        #expect(type(of: "9223372036854775808") == .string)
        #expect(type(of: "007") == .string)
        #expect(type(of: "+49") == .string)
        #expect(type(of: "00.5") == .string)
        #expect(type(of: "inf") == .string)
        #expect(type(of: "true", "No") == .boolean)
        #expect(type(of: "0", "1") == .integer64)
        #expect(type(of: "2026-11-21", "2026-11-21T09:15:00Z") == .date)
        #expect(type(of: "2026-11-21", "2026") == .string)
        #expect(type(of: "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70") == .uuid)
        #expect(type(of: "") == .string)
        #expect(type() == .string)
    }

    @Test func onlyIdentifyingColumnsAreTestedForUniqueness() {
        var identifier = InferredType(column: "book_id", of: "Book")
        var title = InferredType(column: "title", of: "Book")
        for value in ["1", "2"] {
            identifier.add(text: value)
            title.add(text: value)
        }
        #expect(identifier.isUnique && !title.isUnique)
        identifier.add(text: "2")
        #expect(!identifier.isUnique)
    }

    @Test func namesAreThoseOfXcodesModels() {
        #expect(InferredNames.property("Release Year") == "releaseYear")
        #expect(InferredNames.property("AlbumId") == "albumId")
        #expect(InferredNames.property("ISBN") == "isbn")
        #expect(InferredNames.property("ISBNNumber") == "isbnNumber")
        #expect(InferredNames.property("first_name") == "first_name")
        #expect(InferredNames.property("2nd") == "_2nd")
        #expect(InferredNames.property("description") == "description_")
        #expect(InferredNames.property("näme") == "näme")
        #expect(InferredNames.property("\u{202E}\"';--") == "column")
        #expect(InferredNames.property(String(repeating: "a", count: 1000)).count == 200)
        #expect(InferredNames.entity("books") == "Book")
        #expect(InferredNames.entity("order_details") == "OrderDetail")
        #expect(InferredNames.entity("CATEGORIES") == "Category")
        #expect(InferredNames.entity("news") == "News")
        #expect(InferredNames.entity("2024") == "Item2024")
        #expect(InferredNames.entity("_") == "Item")
        #expect(InferredNames.plural(of: "Category") == "categories")
        #expect(InferredNames.relationship("author_id", to: "Author") == "author")
        #expect(InferredNames.relationship("ReportsTo", to: "Employee") == "reportsTo")
        #expect(InferredNames.relationship("id", to: "Employee") == "employee")
    }

    @Test func hostileDatabaseGivesAnErrorOrADocument() throws {
        let shell = try CommandShell()
        let statements = [
            #"CREATE TABLE "a""; DROP TABLE b; --" ("x"" y" INTEGER, "SELECT", "select ", "")"#,
            #"INSERT INTO "a""; DROP TABLE b; --" VALUES (1, 'b', NULL, x'00')"#,
            #"CREATE TABLE "\#("\u{202E}")" ("entity" TEXT, "objectID" REAL, "hash" REFERENCES "a""; DROP TABLE b; --")"#,
            "CREATE TABLE z_pk (Z_PK INTEGER PRIMARY KEY, Z_ENT, z_opt, i AS (Z_PK + 1))",
            "INSERT INTO z_pk VALUES (1, 2, 3)",
            "CREATE VIRTUAL TABLE texts USING fts5(body)",
            "CREATE TRIGGER t AFTER INSERT ON z_pk BEGIN DELETE FROM z_pk; END",
            "CREATE TABLE empty (a, b)",
        ]
        let sql = statements.joined(separator: "; ")
        try Data(sql.utf8).write(to: URL(fileURLWithPath: shell.path("odd.sql")))
        _ = try shell.output("sqlite3 odd.db < odd.sql && quire new Odd.quire --from odd.db")
        #expect(try shell.output("quire check Odd.quire").hasSuffix("all is well.\n"))
        #expect(
            try shell.output("quire fetch Odd.quire ADropTableB --where 'xY == 1' --count") == "1\n"
        )
        let columns = (0..<1950).map { "c\($0)" }.joined(separator: ", ")
        try Data("CREATE TABLE wide (\(columns))".utf8)
            .write(to: URL(fileURLWithPath: shell.path("wide.sql")))
        let wide = try shell.run("sqlite3 wide.db < wide.sql; quire new Wide.quire --from wide.db")
        #expect(wide.code == 1 && wide.output.contains("has 1950 columns in the table “wide”"))
        #expect(!FileManager.default.fileExists(atPath: shell.path("Wide.quire")))
    }

    @Test func damagedDatabaseLeavesNoDocument() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "sqlite3 good.db 'CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO a SELECT i, hex(randomblob(20)) FROM n'"
        )
        let good = try Data(contentsOf: URL(fileURLWithPath: shell.path("good.db")))
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for round in 0..<6 {
            var damaged = good
            for _ in 0..<40 {
                damaged[Int.random(in: 100..<damaged.count, using: &random)] =
                    UInt8.random(in: 0...255, using: &random)
            }
            try damaged.write(to: URL(fileURLWithPath: shell.path("bad.db")))
            let result = try shell.run("quire new D\(round).quire --from bad.db")
            let exists = FileManager.default.fileExists(atPath: shell.path("D\(round).quire"))
            #expect(exists == (result.code == 0), "seed \(SeededRandom.baseSeed): \(result.output)")
            #expect([0, 1, 4].contains(result.code))
        }
    }

    @Test func manyRowsAreImportedInPortions() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "sqlite3 many.db 'CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE pets (id INTEGER PRIMARY KEY, owner_id INTEGER REFERENCES owners, mother_id INTEGER REFERENCES pets); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO pets SELECT i, i % 100 + 1, nullif(i % 3000 + 1, 1) FROM n; INSERT INTO owners SELECT id, id FROM pets WHERE id <= 100'"
        )
        _ = try shell.output("quire new Many.quire --from many.db")
        #expect(try shell.output("quire fetch Many.quire Pet --count") == "3000\n")
        #expect(
            try shell.output("quire fetch Many.quire Pet --where 'mother.id == id + 1' --count")
                == "2999\n")
        #expect(
            try shell.output("quire fetch Many.quire Owner --where 'pets.@count == 30' --count")
                == "100\n")
        #expect(try shell.output("quire check Many.quire").hasSuffix("all is well.\n"))
    }
}
