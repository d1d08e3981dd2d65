import Foundation
import Testing

@testable import Quire

@Suite struct QueryResolutionTests {
    static let failures: [(format: String, code: QuireError.Code, sentence: String)] = [
        (
            "titel == 'x'", .unknownKey,
            "Work has no property “titel”; did you mean “title”?"
        ),
        ("nonsense == 'x'", .unknownKey, "its properties are: added, author, code"),
        ("author.nme == 'x'", .unknownKey, "Author has no property “nme”; did you mean “name”?"),
        ("title.x == 1", .unknownKey, "“title” of Work is an attribute, so “x” cannot follow it"),
        ("genre == 'x'", .unknownKey, "Work has no property “genre”"),
        ("size.depth == 1", .unknownKey, "no property “size.depth”"),
        (
            "size == 1", .invalidQuery,
            "“size” of Work is a composite attribute; name one of its elements"
        ),
        ("draft == 'x'", .invalidQuery, "“draft” of Work is transient"),
        ("scan == 'AQI='", .unsupported, "only compare it with nil"),
        ("title == 5", .invalidQuery, "“title” of Work is text; 5 is not text"),
        ("year == 'abc'", .invalidQuery, "“year” of Work is a number; \"abc\" is not a number"),
        ("year == CAST(0, 'NSDate')", .invalidQuery, "is a number"),
        ("added == 0", .invalidQuery, "“added” of Work is a date; 0 is not a date"),
        ("added > 'soon'", .invalidQuery, "is a date; \"soon\" is not a date"),
        ("code == 'x'", .invalidQuery, "is a UUID"),
        ("title == year", .invalidQuery, "“title” is text, but “year” is a number"),
        (
            "year BEGINSWITH '1'", .invalidQuery,
            "BEGINSWITH compares text, but “year” is a number"
        ),
        ("title BEGINSWITH 5", .invalidQuery, "is text; 5 is not text"),
        ("year IN title", .invalidQuery, "IN compares text"),
        ("author < 'Author/p1'", .invalidQuery, "objects have no order"),
        ("author == 'x'", .invalidValue, "“x” is not an object identifier"),
        ("author == 'Nobody/p1'", .unknownEntity, "no entity “Nobody”"),
        ("author == 'x-coredata://OTHER/Author/p1'", .notFound, "another store"),
        ("author == 3", .invalidQuery, "“author” of Work is an object; 3 is not an object"),
        ("author.name == publisher", .invalidQuery, "is text, but “publisher” is an object"),
        ("tags.name == 'x'", .invalidQuery, "write ANY, ALL or NONE before it"),
        ("tags == nil", .invalidQuery, "write ANY, ALL or NONE before it"),
        ("tags.name CONTAINS 'x'", .invalidQuery, "write ANY, ALL or NONE before it"),
        ("ANY author.name == 'x'", .invalidQuery, "has at most one value"),
        ("title == tags.name", .invalidQuery, "is on the right"),
        ("ANY tags.name == notes.text", .invalidQuery, "is on the right"),
        (
            "{1} == year", .invalidQuery,
            "a collection is allowed only on the right of IN and BETWEEN"
        ),
        ("year == {1, 2}", .invalidQuery, "a collection is allowed only on the right"),
        ("year BETWEEN 5", .invalidQuery, "BETWEEN needs two bounds"),
        ("title == $name", .invalidQuery, "The variable $name has no value"),
        (
            "title MATCHES '('", .invalidQuery,
            "“(” after MATCHES is not a valid regular expression"
        ),
        ("title MATCHES 'a)(b'", .invalidQuery, "not a valid regular expression"),
    ]

    @Test(arguments: failures)
    func saysWhatMakesNoSense(
        _ failure: (format: String, code: QuireError.Code, sentence: String)
    ) throws {
        let error = #expect(throws: QuireError.self) { try QueryFixture.resolve(failure.format) }
        let found = try #require(error)
        #expect(found.code == failure.code)
        #expect(found.message.contains(failure.sentence), "\(found.message)")
    }

    @Test(arguments: [
        ("author", "it refers to an object; name one of its attributes"),
        ("tags.name", "it can have several values"), ("scan", "stored in external files"),
        ("nothing", "no property “nothing”"),
    ])
    func saysWhatCannotBeSortedBy(_ key: String, _ sentence: String) {
        let error = #expect(throws: QuireError.self) {
            try ResolvedQuery(
                FetchSpecification("Work", sortOrderings: [SortOrdering(key)]),
                in: QueryFixture.layout)
        }
        #expect(error?.message.contains(sentence) == true, "\(String(describing: error))")
    }

    @Test func anUnknownEntityIsAnError() {
        let error = #expect(throws: QuireError.self) {
            try ResolvedQuery(FetchSpecification("Wrok"), in: QueryFixture.layout)
        }
        #expect(error?.code == .unknownEntity)
    }

    @Test(arguments: [
        ("5 > year", "year < 5"), ("title LIKE 'a*'", "title BEGINSWITH \"a\""),
        ("title LIKE '*a\\\\*'", "title ENDSWITH \"a*\""),
        ("title LIKE[c] '*A*'", "title CONTAINS[c] \"a\""),
        ("'red' IN tags.name", "ANY tags.name == \"red\""), ("year ==[c] 5", "year ==[c] 5"),
        ("year IN {pages, 3}", "year == pages OR year == 3"), ("code == nil", "code == nil"),
        ("title == 'a' AND 1 == 1", "title == \"a\""), ("title == 'a' OR 1 == 1", "TRUEPREDICATE"),
        ("title == 'a' AND 1 == 2", "FALSEPREDICATE"), ("NOT 'b' IN {'a'}", "TRUEPREDICATE"),
        ("year == '12'", "year == 12"), ("author.objectID == nil", "author == nil"),
        ("price > '1.50'", "price > CAST(\"1.5\", \"NSDecimalNumber\")"),
        ("isRead == 'no'", "isRead == NO"), ("SELF.title == 'x'", "title == \"x\""),
        ("added == '2001-01-01T00:00:01Z'", "added == CAST(1.0, \"NSDate\")"),
    ])
    func bringsPredicatesIntoOneForm(_ format: String, _ resolved: String) throws {
        let query = try QueryFixture.resolve(format)
        #expect(query.predicate.format == resolved)
        let again = try ResolvedQuery(
            query.request, in: QueryFixture.layout, store: QueryFixture.store)
        #expect(again.request == query.request)
    }

    @Test func transientAttributesAreForMemoryOnly() throws {
        let request = FetchRequest("Work", predicate: try QueryPredicate(format: "draft == 'x'"))
        let query = try ResolvedQuery(
            request.specification, in: QueryFixture.layout, allowsTransient: true)
        #expect(try query.matches(QueryFixture.object("Work", 1, ["draft": "x"])))
    }

    @Test func knowsWhichOtherObjectsMatter() throws {
        func entities(_ format: String) throws -> Set<String> {
            Set(try QueryFixture.resolve(format).entitiesBeyond.map(\.name))
        }
        #expect(try entities("title == 'x' AND author == nil AND tags CONTAINS 'Tag/p1'") == [])
        #expect(try entities("author.name == 'x'") == ["Author"])
        #expect(try entities("author.mentor == nil") == ["Author"])
        #expect(try entities("ANY tags.works.author.name == 'x'") == ["Tag", "Work", "Author"])
    }
}
