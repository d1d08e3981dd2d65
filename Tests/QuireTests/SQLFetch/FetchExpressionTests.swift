import Foundation
import Testing

@testable import Quire
@testable import QuireSQLite

/// The SQL of what requests compute. What `SELECT … FROM ZWORK t0` begins and ` ORDER BY t0.Z_PK` ends is left out.
@Suite struct FetchExpressionTests {
    typealias Case = FetchStatementTests.Case

    private static func statement(_ format: String) throws -> FetchStatement {
        try FetchStatementTests.statement(
            FetchSpecification("Work", predicate: QueryPredicate(format: format)))
    }

    static let values: [Case] = [
        Case("pages * 2 > year", "WHERE (t0.ZPAGES * ?) > t0.ZYEAR", 2),
        Case("1800 + 15 == year", "WHERE t0.ZYEAR = ?", 1815),
        Case(
            "added + 60 < added",
            "WHERE (CAST(t0.ZADDED AS REAL) + ?) < t0.ZADDED", 60),
        Case("uppercase(title) == 'EMMA'", "WHERE QUIRE_UPPERCASE(t0.ZTITLE) = ?", "EMMA"),
        Case("title.length > 3", "WHERE QUIRE_LENGTH(t0.ZTITLE) > ?", 3),
        Case("noindex:(title) == 'x'", "WHERE +t0.ZTITLE = ?", "x"),
        Case(
            "CAST(added, 'NSNumber') > 5",
            "WHERE QUIRE_CAST(CAST(t0.ZADDED AS REAL), 'NSNumber', 1) > ?", 5),
        Case(
            "TERNARY(year > 1800, title, subtitle) == 'x'",
            "WHERE CASE WHEN t0.ZYEAR > ? THEN t0.ZTITLE ELSE t0.ZSUBTITLE END = ?", 1800, "x"),
        Case(
            "author.born + 10 > year",
            "LEFT JOIN ZAUTHOR t1 ON t1.Z_PK = t0.ZAUTHOR WHERE (t1.ZBORN + ?) > t0.ZYEAR", 10),
    ]

    static let several: [Case] = [
        Case(
            "tags.@count > 2",
            "WHERE (SELECT count(t1.Z_5TAGS) FROM Z_5WORKS t1 WHERE t1.Z_6WORKS = t0.Z_PK) > ?", 2),
        Case(
            "author.works.@max.year > 1800",
            "WHERE (SELECT max(t1.ZYEAR) FROM ZWORK t1 WHERE t1.ZAUTHOR = t0.ZAUTHOR) > ?", 1800),
        Case(
            "author.works.@sum.year > 1",
            "WHERE (SELECT ifnull(sum(t1.ZYEAR), 0) FROM ZWORK t1 WHERE t1.ZAUTHOR = t0.ZAUTHOR) > ?",
            1),
        Case(
            "author.works.@avg.rating > 1",
            "WHERE (SELECT QUIRE_AVERAGE(t1.ZRATING) FROM ZWORK t1 WHERE t1.ZAUTHOR = t0.ZAUTHOR) > ?",
            1),
        Case(
            "author.works.@distinctUnionOfObjects.title.@count > 1",
            "WHERE (SELECT count(DISTINCT t1.ZTITLE) FROM ZWORK t1 WHERE t1.ZAUTHOR = t0.ZAUTHOR) > ?",
            1),
        Case(
            "SUBQUERY(notes, $n, $n.text == 'x').@count > 0",
            "WHERE (SELECT count(t1.Z_PK) FROM ZNOTE t1 WHERE t1.Z6NOTES = t0.Z_PK AND t1.ZTEXT = ?) > ?",
            "x", 0),
        Case(
            "SUBQUERY(author.works, $w, $w.title == title AND $w != SELF).@count > 0",
            "WHERE (SELECT count(t1.Z_PK) FROM ZWORK t1 WHERE t1.ZAUTHOR = t0.ZAUTHOR "
                + "AND t1.ZTITLE IS t0.ZTITLE AND NOT (t1.Z_PK IS t0.Z_PK)) > ?", 0),
        Case(
            "ANY SUBQUERY(notes, $n, $n.by == nil).text == 'x'",
            "WHERE EXISTS (SELECT 1 FROM ZNOTE t1 WHERE t1.Z6NOTES = t0.Z_PK AND t1.ZBY IS NULL "
                + "AND t1.ZTEXT = ?)", "x"),
        Case(
            "SUBQUERY(notes, $n, SUBQUERY($n.by.works, $w, $w == SELF).@count > 0).@count > 0",
            "WHERE (SELECT count(t1.Z_PK) FROM ZNOTE t1 WHERE t1.Z6NOTES = t0.Z_PK AND (SELECT "
                + "count(t2.Z_PK) FROM ZWORK t2 WHERE t2.ZAUTHOR = t1.ZBY AND t2.Z_PK IS t0.Z_PK) > ?) > ?",
            0, 0),
    ]

    @Test(arguments: values + several)
    func compiles(_ expected: Case) throws {
        let statement = try Self.statement(expected.format)
        #expect(
            statement.sql == "SELECT t0.Z_PK FROM ZWORK t0 \(expected.sql) ORDER BY t0.Z_PK")
        #expect(statement.bindings == expected.bindings)
        #expect(statement.remainder == nil)
    }

    // MARK: - What SQL cannot say

    @Test(arguments: [
        (
            "title == 'x' AND (tags.name UNION {'a'}).@count > 1", "WHERE t0.ZTITLE = ?",
            "count(tags.name UNION {\"a\"}) > 1"
        ),
        ("tags[0].name == 'x'", "", "tags[0].name == \"x\""),
        (
            "(year > 3 OR tags[FIRST].name == 'x') AND pages < 4", "WHERE t0.ZPAGES < ?",
            "year > 3 OR tags[FIRST].name == \"x\""
        ),
        (
            "NOT (TERNARY(year > 1, author, author.mentor) == nil)", "",
            "NOT TERNARY(year > 1, author, author.mentor) == nil"
        ),
    ])
    func whatSQLCannotSayIsLeftForMemory(
        _ format: String, _ condition: String, _ remainder: String
    ) throws {
        let statement = try Self.statement(format)
        let middle = condition.isEmpty ? "" : " " + condition
        #expect(statement.sql == "SELECT t0.Z_PK FROM ZWORK t0\(middle) ORDER BY t0.Z_PK")
        #expect(statement.remainder?.format == remainder)
    }

    @Test func boundsWaitForWhatIsLeftForMemory() throws {
        var request = FetchSpecification(
            "Work", predicate: try QueryPredicate(format: "tags[0].name == 'x'"))
        request.fetchLimit = 3
        request.fetchOffset = 1
        #expect(try !FetchStatementTests.statement(request).sql.contains("LIMIT"))
        #expect(try !FetchStatementTests.statement(request, .count).sql.contains("LIMIT"))
    }

    // MARK: - What makes no sense

    @Test(arguments: [
        ("sum(year) > 1", "“year” has one value in each object"),
        ("tags.@sum.name > 1", "it cannot be computed from text"),
        ("title + 1 == 2", "it cannot be computed from text and a number"),
        ("uppercase(year) == 'x'", "it cannot be computed from a number"),
        ("added + added > added", "it cannot be computed from a date and a date"),
        ("uppercase(tags.name) == 'x'", "can have several values"),
        ("SUBQUERY(author, $a, $a.name == 'x').@count > 0", "SUBQUERY needs a key path"),
        ("SUBQUERY(tags.name, $n, $n == 'x').@count > 0", "SUBQUERY needs a key path"),
        ("SUBQUERY(tags, $t, $t.nme == 'x').@count > 0", "did you mean “name”?"),
        ("SUBQUERY(tags, $t, $u.name == 'x').@count > 0", "The variable $u.name has no value"),
        ("SUBQUERY(tags, $t, $t.name == 'x') == nil", "write ANY, ALL or NONE before it"),
        ("TERNARY(year > 1, title, pages) == 'x'", "it gives text or a number"),
        ("length(title) == 'x'", "is a number; \"x\" is not a number"),
        ("length(scan) > 1", "may be stored in external files"),
        ("author.works.@max.author == nil", "it cannot be computed from an object"),
        ("title.@count > 1", "“title” has one value in each object"),
        ("year[0] == 1", "“year” is a single value"),
        ("CAST(author, 'NSString') == 'x'", "its values cannot be converted to NSString"),
    ])
    func saysWhatMakesNoSense(_ format: String, _ sentence: String) {
        let error = #expect(throws: QuireError.self) { try Self.statement(format) }
        #expect(error?.message.contains(sentence) == true, "\(String(describing: error))")
    }

    @Test(arguments: ["x' OR 1=1 --", "a\"b", "q); DROP TABLE ZWORK; --"])
    func namesInExpressionsNeverBecomeSQL(_ hostile: String) throws {
        let collection = QueryExpression.key("tags")
        let expressions: [QueryExpression] = [
            .function(.count, [.keyPath(["tags", hostile])]),
            .function(.uppercase, [.keyPath([hostile])]),
            .path(.subquery(collection, variable: "x", .constant(true)), [hostile]),
            .function(
                .count,
                [
                    .subquery(
                        collection, variable: "x",
                        .comparison(.init(.variable("x.\(hostile)"), .equal, .constant(1))))
                ]),
        ]
        for expression in expressions {
            let request = FetchSpecification(
                "Work", predicate: .comparison(.init(expression, .equal, .constant(1))))
            #expect(throws: QuireError.self) { try FetchStatementTests.statement(request) }
        }
        let variable = QueryExpression.subquery(collection, variable: hostile, .constant(true))
        let request = FetchSpecification(
            "Work",
            predicate: .comparison(.init(.function(.count, [variable]), .greater, .constant(0))))
        let statement = try FetchStatementTests.statement(request)
        #expect(!statement.sql.contains(hostile))
    }
}
