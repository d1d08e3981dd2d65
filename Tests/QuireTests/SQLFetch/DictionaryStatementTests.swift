import Foundation
import Testing

@testable import Quire
@testable import QuireSQLite

/// The SQL of typical requests for dictionaries, and what makes none.
@Suite struct DictionaryStatementTests {
    private static func request(
        _ columns: [ExpressionDescription], groupBy groups: [ExpressionDescription] = [],
        having: String? = nil, where format: String? = nil, sort: [SortOrdering] = []
    ) throws -> FetchSpecification {
        var request = FetchSpecification("Work")
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        request.propertiesToFetch = columns
        request.propertiesToGroupBy = groups
        request.havingPredicate = try having.map { try QueryPredicate(format: $0) }
        request.sortOrderings = sort
        return request
    }

    private static func statement(_ request: FetchSpecification) throws -> DictionaryStatement {
        let query = try ResolvedDictionaryQuery(
            request, in: QueryFixture.layout, store: QueryFixture.store)
        return try DictionaryStatement(
            query, schema: FetchStatementTests.schema, store: QueryFixture.store)
    }

    @Test func groupsAreCountedWithOneStatement() throws {
        let statement = try Self.statement(
            Self.request(
                ["author.name", ExpressionDescription("n", format: "count(title)")],
                groupBy: ["author.name"], having: "n > 3", where: "year < 1800",
                sort: [SortOrdering("n", ascending: false)]))
        #expect(
            statement.sql == """
                SELECT t1.ZNAME, count(t0.ZTITLE) FROM ZWORK t0 LEFT JOIN ZAUTHOR t1 \
                ON t1.Z_PK = t0.ZAUTHOR WHERE t0.ZYEAR < ? GROUP BY t1.ZNAME \
                HAVING count(t0.ZTITLE) > ? ORDER BY count(t0.ZTITLE) DESC, t1.ZNAME
                """)
        #expect(statement.bindings == [1800, 3])
    }

    @Test func distinctValuesAreSortedByThemselves() throws {
        var request = try Self.request(["year", "isRead"])
        request.returnsDistinctResults = true
        #expect(
            try Self.statement(request).sql
                == "SELECT DISTINCT t0.ZYEAR, t0.ZISREAD FROM ZWORK t0 ORDER BY t0.ZYEAR, t0.ZISREAD"
        )
    }

    @Test func differentValuesAreCounted() throws {
        let request = try Self.request([
            ExpressionDescription("n", .function(.count, [.function(.distinct, [.key("year")])]))
        ])
        #expect(try Self.statement(request).sql == "SELECT count(DISTINCT t0.ZYEAR) FROM ZWORK t0")
    }

    @Test func objectsOfSeveralEntitiesBringTheirs() throws {
        let statement = try Self.statement(Self.request(["author", "publisher"]))
        #expect(statement.columns.map(\.index) == [0, 2])
        #expect(statement.columns.map(\.entityIndex) == [1, nil])
        #expect(statement.sql.hasPrefix("SELECT t0.ZAUTHOR, "))
    }

    @Test func aColumnThatIsAPropertyAsWellIsNamedWithADollar() throws {
        let request = try Self.request(
            [ExpressionDescription("year", .function(.maximum, [.key("year")]))],
            groupBy: ["isRead"], having: "$year > 3")
        #expect(try Self.statement(request).sql.contains("HAVING max(t0.ZYEAR) > ?"))
    }

    static let mistakes: [(FetchSpecification, String)] = {
        func make(
            _ columns: [ExpressionDescription], _ groups: [ExpressionDescription] = [],
            having: QueryPredicate? = nil, where predicate: QueryPredicate? = nil,
            sort: [SortOrdering] = [], isDistinct: Bool = false
        ) -> FetchSpecification {
            var request = FetchSpecification("Work", predicate: predicate)
            request.propertiesToFetch = columns
            request.propertiesToGroupBy = groups
            request.havingPredicate = having
            request.sortOrderings = sort
            request.returnsDistinctResults = isDistinct
            return request
        }
        let count = ExpressionDescription("n", .function(.count, [.key("title")]))
        let many = QueryPredicate.comparison(
            QueryComparison(.function(.count, [.key("title")]), .greater, .constant(3)))
        return [
            (make(["title", count]), "differs within a group"),
            (make(["title"], ["year"]), "“title”, which differs within a group"),
            (make(["tags"]), "several values"),
            (make(["tags.name", count], ["year"]), "several values"),
            (make(["titel"]), "did you mean “title”"),
            (make([count], where: many), "has one value in each object"),
            (make(["title"], having: many), "only if it groups objects"),
            (make([count, count]), "Two columns are named “n”"),
            (
                make(["title"], sort: [SortOrdering("year")], isDistinct: true),
                "not one of their columns"
            ),
            (
                make(
                    ["year"], ["year"],
                    having: .comparison(
                        QueryComparison(.key("title"), .equal, .constant("a")))),
                "differ within a group"
            ),
            (make(["draft"]), "transient"),
            (make(["size"]), "name one of its elements"),
            (
                make([ExpressionDescription("t", .key("title"), resultType: .date)]),
                "cannot have values of type date"
            ),
            (
                make([
                    ExpressionDescription(
                        "m", .function(.maximum, [.function(.count, [.key("title")])]))
                ]), "already one value of a group"
            ),
        ]
    }()

    @Test(arguments: mistakes.indices)
    func whatMakesNoSenseIsAnError(_ index: Int) throws {
        let (request, part) = Self.mistakes[index]
        do {
            _ = try ResolvedDictionaryQuery(
                request, in: QueryFixture.layout, store: QueryFixture.store)
            Issue.record("no error that says “\(part)”")
        } catch let error as QuireError {
            #expect(error.message.contains(part), "\(error.message)")
            #expect([.invalidQuery, .unknownKey].contains(error.code))
        }
    }
}
