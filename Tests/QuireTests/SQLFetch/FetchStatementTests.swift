import Foundation
import Testing

@testable import Quire
@testable import QuireSQLite

/// The SQL of typical requests. What `SELECT … FROM ZWORK t0` begins and ` ORDER BY t0.Z_PK` ends is left out.
@Suite struct FetchStatementTests {
    struct Case: CustomTestStringConvertible {
        let format: String
        let sql: String
        let bindings: [AttributeValue]

        init(_ format: String, _ sql: String, _ bindings: AttributeValue...) {
            self.format = format
            self.sql = sql
            self.bindings = bindings
        }

        var testDescription: String { format }
    }

    static let schema = SQLSchema(fresh: QueryFixture.layout)

    static func statement(
        _ request: FetchSpecification, _ selection: FetchStatement.Selection = .columns("t0.Z_PK")
    ) throws -> FetchStatement {
        let query = try ResolvedQuery(
            request, in: QueryFixture.layout, store: QueryFixture.store)
        return try FetchStatement(
            query, selecting: selection, schema: schema, store: QueryFixture.store)
    }

    static let attributes: [Case] = [
        Case("TRUEPREDICATE", ""),
        Case("FALSEPREDICATE", "WHERE 0"),
        Case("title == 'Emma'", "WHERE t0.ZTITLE = ?", "Emma"),
        Case("'Emma' == title", "WHERE t0.ZTITLE = ?", "Emma"),
        Case("NOT title == 'Emma'", "WHERE (t0.ZTITLE = ?) IS NOT TRUE", "Emma"),
        Case("title != 'Emma'", "WHERE t0.ZTITLE IS NOT ?", "Emma"),
        Case("title == nil", "WHERE t0.ZTITLE IS NULL"),
        Case("title != nil", "WHERE t0.ZTITLE IS NOT NULL"),
        Case("title == subtitle", "WHERE t0.ZTITLE IS t0.ZSUBTITLE"),
        Case("title != subtitle", "WHERE t0.ZTITLE IS NOT t0.ZSUBTITLE"),
        Case("5 < year", "WHERE t0.ZYEAR > ?", 5),
        Case("year < nil", "WHERE 0"),
        Case("NOT year < nil", ""),
        Case("year BETWEEN {1, 2}", "WHERE t0.ZYEAR BETWEEN ? AND ?", 1, 2),
        Case("year BETWEEN {1, nil}", "WHERE 0"),
        Case("title == 'a' AND year > 3", "WHERE t0.ZTITLE = ? AND t0.ZYEAR > ?", "a", 3),
        Case(
            "NOT (title == 'x' OR year > 3) AND pages < 4",
            "WHERE (t0.ZTITLE = ? OR t0.ZYEAR > ?) IS NOT TRUE AND t0.ZPAGES < ?", "x", 3, 4),
        Case(
            "title == 'a' OR (year > 3 AND pages < 4)",
            "WHERE t0.ZTITLE = ? OR (t0.ZYEAR > ? AND t0.ZPAGES < ?)", "a", 3, 4),
        Case("isRead == YES", "WHERE t0.ZISREAD = ?", 1),
        Case("size.width > 3", "WHERE t0.ZWIDTH > ?", 3),
        Case("added > '2001-01-02'", "WHERE t0.ZADDED > ?", 86_400.0),
        Case("price == 1.5", "WHERE t0.ZPRICE = ?", 1.5),
        Case("price == '2'", "WHERE t0.ZPRICE = ?", 2),
        Case("link == 'https://x'", "WHERE t0.ZLINK = ?", "https://x"),
        Case("scan == nil", "WHERE t0.ZSCAN IS NULL"),
        Case(
            "code == '00000000-0000-0000-0000-000000000001'", "WHERE t0.ZCODE = ?",
            .binary(Data([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))),
    ]

    static let texts: [Case] = [
        Case("title ==[c] 'EMMA'", "WHERE QUIRE_FOLD(t0.ZTITLE, 1) = ?", "emma"),
        Case("title !=[cd] 'É'", "WHERE QUIRE_FOLD(t0.ZTITLE, 3) IS NOT ?", "e"),
        Case("title BEGINSWITH 'Em'", "WHERE t0.ZTITLE >= ? AND t0.ZTITLE < ?", "Em", "En"),
        Case("title BEGINSWITH ''", "WHERE t0.ZTITLE IS NOT NULL"),
        Case("title BEGINSWITH '\u{10FFFF}'", "WHERE t0.ZTITLE >= ?", "\u{10FFFF}"),
        Case(
            "title BEGINSWITH 'a\u{D7FF}'", "WHERE t0.ZTITLE >= ? AND t0.ZTITLE < ?", "a\u{D7FF}",
            "a\u{E000}"),
        Case("title BEGINSWITH[cd] 'Ém'", "WHERE instr(QUIRE_FOLD(t0.ZTITLE, 3), ?) = 1", "em"),
        Case(
            "title ENDSWITH 'é'", "WHERE substr(CAST(t0.ZTITLE AS BLOB), -2) = ?",
            .binary(Data("é".utf8))),
        Case("title CONTAINS 'x'", "WHERE instr(t0.ZTITLE, ?) > 0", "x"),
        Case("title CONTAINS[c] 'X'", "WHERE instr(QUIRE_FOLD(t0.ZTITLE, 1), ?) > 0", "x"),
        Case("subtitle CONTAINS title", "WHERE instr(t0.ZSUBTITLE, t0.ZTITLE) > 0"),
        Case("title IN subtitle", "WHERE instr(t0.ZSUBTITLE, t0.ZTITLE) > 0"),
        Case("title LIKE 'a*'", "WHERE t0.ZTITLE >= ? AND t0.ZTITLE < ?", "a", "b"),
        Case("title LIKE 'a'", "WHERE t0.ZTITLE = ?", "a"),
        Case("title LIKE 'a*b?'", "WHERE QUIRE_LIKE(?, t0.ZTITLE, 0)", "a*b?"),
        Case(
            "NOT title MATCHES[c] 'a.*'", "WHERE (QUIRE_MATCHES(?, t0.ZTITLE, 1)) IS NOT TRUE",
            "a.*"),
        Case("title IN {}", "WHERE 0"),
        Case("title IN {'a'}", "WHERE t0.ZTITLE = ?", "a"),
        Case("title IN {'a', 'b', 'c'}", "WHERE t0.ZTITLE IN (?, ?, ?, ?)", "a", "b", "c", "c"),
        Case(
            "title IN[c] {'A', nil}", "WHERE QUIRE_FOLD(t0.ZTITLE, 1) = ? OR t0.ZTITLE IS NULL", "a"
        ),
        Case("title IN {subtitle, 'a'}", "WHERE t0.ZTITLE IS t0.ZSUBTITLE OR t0.ZTITLE = ?", "a"),
    ]

    static let toOne: [Case] = [
        Case(
            "author.name == 'x' AND author.born > 3",
            "LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR WHERE t1.ZNAME = ? AND t1.ZBORN > ?",
            "x", 3),
        Case(
            "author.mentor.name == 'x' OR publisher.name == author.name",
            "LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR LEFT JOIN ZAUTHOR t2 ON t2.Z_PK = t1.ZMENTOR "
                + "LEFT JOIN ZPUBLISHER t3 ON t3.Z_PK = t0.ZPUBLISHER "
                + "WHERE t2.ZNAME = ? OR t3.ZNAME IS t1.ZNAME", "x"),
        Case("author == nil", "WHERE t0.ZAUTHOR IS NULL"),
        Case("author != nil", "WHERE t0.ZAUTHOR IS NOT NULL"),
        Case("publisher == 'Publisher/p1'", "WHERE t0.ZPUBLISHER = ?", 1),
        Case("publisher.objectID == 'Publisher/p1'", "WHERE t0.ZPUBLISHER = ?", 1),
        Case("publisher != 'Publisher/p1'", "WHERE (t0.ZPUBLISHER = ?) IS NOT TRUE", 1),
        Case("author == 'Laureate/p3'", "WHERE t0.ZAUTHOR = ? AND t0.Z1_AUTHOR = 2", 3),
        Case("author == 'Tag/p3'", "WHERE 0"),
        Case(
            "author IN {'Author/p1', 'Author/p2', 'Laureate/p3', nil}",
            "WHERE (t0.ZAUTHOR IN (?, ?) AND t0.Z1_AUTHOR = 1) "
                + "OR (t0.ZAUTHOR = ? AND t0.Z1_AUTHOR = 2) OR t0.ZAUTHOR IS NULL", 1, 2, 3),
        Case(
            "author.mentor == author",
            "LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR WHERE t1.ZMENTOR IS t0.ZAUTHOR"),
        Case("publisher == author", "WHERE t0.ZPUBLISHER IS NULL AND t0.ZAUTHOR IS NULL"),
        Case("SELF == 'Work/p1'", "WHERE t0.Z_PK = ? AND t0.Z_ENT = 6", 1),
        Case("SELF == nil", "WHERE 0"),
    ]

    private static let tags =
        "Z_5WORKS t1 JOIN ZTAG t2 ON t2.Z_PK = t1.Z_5TAGS WHERE t1.Z_6WORKS = t0.Z_PK AND"

    static let toMany: [Case] = [
        Case(
            "ANY tags.name == 'x'",
            "WHERE t0.Z_PK IN (SELECT t1.Z_6WORKS FROM Z_5WORKS t1 JOIN ZTAG t2 "
                + "ON t2.Z_PK = t1.Z_5TAGS WHERE t2.ZNAME = ?)", "x"),
        Case("ANY tags.weight > 3", "WHERE EXISTS (SELECT 1 FROM \(tags) t2.ZWEIGHT > ?)", 3),
        Case(
            "ALL tags.weight > 3",
            "WHERE NOT (EXISTS (SELECT 1 FROM \(tags) (t2.ZWEIGHT > ?) IS NOT TRUE))", 3),
        Case(
            "NONE tags.name CONTAINS 'x'",
            "WHERE NOT (EXISTS (SELECT 1 FROM \(tags) instr(t2.ZNAME, ?) > 0))", "x"),
        Case(
            "ANY tags == 'Tag/p4'",
            "WHERE t0.Z_PK IN (SELECT t1.Z_6WORKS FROM Z_5WORKS t1 WHERE t1.Z_5TAGS = ?)", 4),
        Case(
            "NOT tags CONTAINS 'Tag/p4'",
            "WHERE (t0.Z_PK IN (SELECT t1.Z_6WORKS FROM Z_5WORKS t1 WHERE t1.Z_5TAGS = ?)) IS NOT TRUE",
            4),
        Case(
            "notes CONTAINS 'Note/p4'",
            "WHERE t0.Z_PK IN (SELECT t1.Z6NOTES FROM ZNOTE t1 WHERE t1.Z_PK = ?)", 4),
        Case(
            "'Work/p3' IN sequels",
            "WHERE t0.Z_PK IN (SELECT t1.Z_6PREQUELS FROM Z_6PREQUELS t1 JOIN ZWORK t2 "
                + "ON t2.Z_PK = t1.Z_6SEQUELS WHERE t1.Z_6SEQUELS = ? AND t2.Z_ENT = 6)", 3),
        Case(
            "ANY notes.text == nil",
            "WHERE EXISTS (SELECT 1 FROM ZNOTE t1 WHERE t1.Z6NOTES = t0.Z_PK AND t1.ZTEXT IS NULL)"),
        Case(
            "ANY notes.by.name == author.name",
            "LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR WHERE EXISTS (SELECT 1 FROM ZNOTE t2 "
                + "LEFT JOIN ZAUTHOR t3 ON t3.Z_PK = t2.ZBY "
                + "WHERE t2.Z6NOTES = t0.Z_PK AND t3.ZNAME IS t1.ZNAME)"),
        Case(
            "ANY author.works.tags.name BEGINSWITH 'x'",
            "WHERE EXISTS (SELECT 1 FROM ZWORK t1 JOIN Z_5WORKS t2 ON t2.Z_6WORKS = t1.Z_PK "
                + "JOIN ZTAG t3 ON t3.Z_PK = t2.Z_5TAGS "
                + "WHERE t1.ZAUTHOR = t0.ZAUTHOR AND t3.ZNAME >= ? AND t3.ZNAME < ?)", "x", "y"),
        Case(
            "ALL author.works.publisher == 'Publisher/p3'",
            "WHERE NOT (EXISTS (SELECT 1 FROM ZWORK t1 "
                + "WHERE t1.ZAUTHOR = t0.ZAUTHOR AND (t1.ZPUBLISHER = ?) IS NOT TRUE))", 3),
    ]

    @Test(arguments: attributes + texts + toOne + toMany)
    func compiles(_ expected: Case) throws {
        let statement = try Self.statement(
            FetchSpecification("Work", predicate: QueryPredicate(format: expected.format)))
        let condition = expected.sql.isEmpty ? "" : " " + expected.sql
        #expect(
            statement.sql == "SELECT t0.Z_PK FROM ZWORK t0\(condition) ORDER BY t0.Z_PK")
        #expect(statement.bindings == expected.bindings)
    }

    // MARK: - Entities, order, bounds, count

    @Test func subentitiesAreChosenByNumber() throws {
        var request = FetchSpecification(
            "Novel", predicate: try QueryPredicate(format: "genre == 'x'"))
        #expect(
            try Self.statement(request, .identifiers).sql
                == "SELECT t0.Z_PK, t0.Z_ENT FROM ZWORK t0 WHERE t0.Z_ENT = 7 AND t0.ZGENRE = ? ORDER BY t0.Z_PK"
        )
        // An index on what is sorted by has the primary key, too, and no table need be read.
        request = FetchSpecification("Tag")
        #expect(
            try Self.statement(request, .identifiers).sql
                == "SELECT t0.Z_PK, 5 FROM ZTAG t0 ORDER BY t0.Z_PK")
        request = FetchSpecification("Work")
        request.includesSubentities = false
        #expect(
            try Self.statement(request).sql
                == "SELECT t0.Z_PK FROM ZWORK t0 WHERE t0.Z_ENT = 6 ORDER BY t0.Z_PK")
    }

    @Test func ordersEndWithThePrimaryKey() throws {
        let request = FetchSpecification(
            "Work",
            sortOrderings: [
                SortOrdering("author.name", ascending: false, options: .caseInsensitive),
                SortOrdering("year", options: .caseInsensitive),
            ])
        #expect(
            try Self.statement(request).sql
                == "SELECT t0.Z_PK FROM ZWORK t0 LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR "
                + "ORDER BY QUIRE_FOLD(t1.ZNAME, 1) DESC, t0.ZYEAR, t0.Z_PK")
        let byObject = FetchSpecification(
            "Work", sortOrderings: [SortOrdering("SELF", ascending: false), SortOrdering("year")])
        #expect(
            try Self.statement(byObject).sql
                == "SELECT t0.Z_PK FROM ZWORK t0 ORDER BY t0.Z_PK DESC")
    }

    @Test func boundsAreBound() throws {
        var request = FetchSpecification("Tag")
        request.fetchLimit = 5
        #expect(
            try Self.statement(request)
                == FetchStatement(
                    sql: "SELECT t0.Z_PK FROM ZTAG t0 ORDER BY t0.Z_PK LIMIT ?", bindings: [5],
                    remainder: nil))
        request.fetchOffset = 7
        #expect(try Self.statement(request).sql.hasSuffix("LIMIT ? OFFSET ?"))
        request.fetchLimit = 0
        #expect(try Self.statement(request).sql.hasSuffix("LIMIT -1 OFFSET ?"))
    }

    @Test func countingNeedsNoOrder() throws {
        var request = FetchSpecification(
            "Tag", predicate: try QueryPredicate(format: "weight > 1"),
            sortOrderings: [SortOrdering("name")])
        #expect(
            try Self.statement(request, .count).sql
                == "SELECT count(*) FROM ZTAG t0 WHERE t0.ZWEIGHT > ?")
        request.fetchLimit = 3
        #expect(
            try Self.statement(request, .count).sql
                == "SELECT count(*) FROM (SELECT 1 FROM ZTAG t0 WHERE t0.ZWEIGHT > ? LIMIT ?)")
    }

    // MARK: - Size and safety

    @Test func longListsAreOneJSONText() throws {
        let numbers = try QueryPredicate(format: "year IN %@", Array(1...1000))
        let statement = try Self.statement(FetchSpecification("Work", predicate: numbers))
        #expect(statement.sql.contains("t0.ZYEAR IN (SELECT value FROM json_each(?))"))
        #expect(statement.bindings.count == 1)
        let mixed = try QueryPredicate(
            format: "title IN %@", (1...1000).map { "\($0)\"\\\n" } + ["a\0b"])
        let texts = try Self.statement(FetchSpecification("Work", predicate: mixed))
        #expect(texts.bindings.count == 2)
        #expect(texts.sql.contains("OR t0.ZTITLE = ?"))
    }

    @Test func moreValuesThanSQLiteTakesAreAnError() throws {
        let dates = (0..<40_000).map { Date(timeIntervalSinceReferenceDate: Double($0)) }
        let request = FetchSpecification(
            "Work", predicate: try QueryPredicate(format: "added IN %@", dates))
        let error = #expect(throws: QuireError.self) { try Self.statement(request) }
        #expect(error?.code == .unsupported)
    }

    @Test func longChainsStayShallow() throws {
        let parts = (0..<5000).map {
            QueryPredicate.comparison(.init(.key("year"), .equal, .constant(.integer($0))))
        }
        let statement = try Self.statement(FetchSpecification("Work", predicate: .or(parts)))
        #expect(statement.bindings.count == 5000)
        var depth = 0
        var greatest = 0
        for character in statement.sql {
            if character == "(" { depth += 1 }
            if character == ")" { depth -= 1 }
            greatest = max(greatest, depth)
        }
        #expect(greatest < 10)
    }

    @Test(arguments: ["'; DROP TABLE ZWORK; --", "\" OR 1=1", "?", "a\0b"])
    func textsNeverBecomeSQL(_ hostile: String) throws {
        for format in ["title == %@", "title CONTAINS %@", "title IN %@", "ANY tags.name == %@"] {
            let argument: any QueryArgument =
                format.contains("IN %") ? [hostile, hostile] : hostile
            let statement = try Self.statement(
                FetchSpecification("Work", predicate: QueryPredicate(format: format, argument)))
            #expect(!statement.sql.contains("DROP"))
            #expect(statement.sql.filter { $0 == "?" }.count == statement.bindings.count)
        }
        #expect(throws: QuireError.self) { try QueryPredicate(format: "%K == 1", hostile) }
        let key = QueryPredicate.comparison(.init(.keyPath([hostile]), .equal, .constant(1)))
        let error = #expect(throws: QuireError.self) {
            try Self.statement(FetchSpecification("Work", predicate: key))
        }
        #expect(error?.code == .unknownKey)
        let unknown = #expect(throws: QuireError.self) {
            try Self.statement(FetchSpecification(hostile))
        }
        #expect(unknown?.code == .unknownEntity)
    }
}
