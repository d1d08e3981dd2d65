import Foundation
import Testing

@testable import Quire
@testable import QuireQuery

@Suite struct PredicateEvaluationTests {
    /// A work with an author, whose mentor is missing, two tags and no publisher.
    private static func work() throws -> TestSubject {
        let author = try QueryFixture.object("Laureate", 3, ["name": "Ångström", "born": 1814])
        let work = try QueryFixture.object(
            "Novel", 1,
            [
                "title": "Emma", "year": 1815, "rating": 4.5, "isRead": true,
                "price": .decimal(Decimal(string: "0.1") ?? 0),
                "added": .date(Date(timeIntervalSinceReferenceDate: 0)),
                "code": .uuid(
                    try #require(UUID(uuidString: "00000000-0000-0000-0000-000000000001"))),
                "link": .uri(try #require(URL(string: "https://example.org/"))),
                "digest": .binary(Data([1, 2])), "size": .composite(["width": 2.0]),
            ])
        work.toOne["author"] = author
        author.toMany["works"] = [work]
        work.toMany["tags"] = [
            try QueryFixture.object("Tag", 1, ["name": "new", "weight": 1.0]),
            try QueryFixture.object("Tag", 2, ["name": "red"]),
        ]
        return work
    }

    private static func evaluate(_ format: String, _ work: TestSubject) throws -> Bool {
        let predicate = try QueryPredicate(format: format)
        let query = try ResolvedQuery(
            FetchSpecification("Work", predicate: predicate), in: QueryFixture.layout,
            store: QueryFixture.store)
        return try query.matches(work)
    }

    /// Of many values `IN` compares few; see the other tests of it for few values.
    @Test(arguments: [
        ("title IN {'a', 'Emma', 'b', 'z', 'Z', 'é'}", true),
        ("title IN {'a', 'emma', 'b', 'z', 'Z', 'é'}", false),
        ("title IN[c] {'a', 'emma', 'b', 'z', 'Z', 'é'}", true),
        ("year IN {9, 1, 1815, 7.5, 3, 2000}", true), ("year IN {9, 1, 7.5, 3, 2000, 4}", false),
        ("rating IN {9, 1, 4.5, 3, 2000}", true), ("price IN {9, 1, 0.1, 3, 2000}", true),
        ("ANY tags.name IN {'e', 'd', 'red', 'b', 'a'}", true),
        ("ALL tags.name IN {'e', 'd', 'red', 'b', 'a'}", false),
        ("ALL tags.name IN {'e', 'd', 'red', 'b', 'new'}", true),
        ("NONE tags.name IN {'e', 'd', 'c', 'b', 'a'}", true),
        ("publisher.name IN {'e', 'd', 'c', 'b', 'a'}", false),
        ("publisher.name IN {'e', 'd', 'c', nil, 'b', 'a'}", true),
        ("isRead IN {0, 7, 1, 3, 5}", true),
    ])
    func membershipOfManyValues(format: String, isTrue: Bool) throws {
        #expect(try Self.evaluate(format, try Self.work()) == isTrue)
    }

    // MARK: - Missing values

    /// For each operator: missing with missing, missing with a value, a value with missing.
    static let missing: [(operator: String, both: Bool, left: Bool, right: Bool)] = [
        ("==", true, false, false), ("!=", false, true, true), ("<", false, false, false),
        ("<=", false, false, false), (">", false, false, false), (">=", false, false, false),
        ("BEGINSWITH", false, false, false), ("ENDSWITH", false, false, false),
        ("CONTAINS", false, false, false), ("LIKE", false, false, false),
        ("MATCHES", false, false, false), ("IN", false, false, false),
        ("==[cd]", true, false, false), ("!=[c]", false, true, true), ("<[c]", false, false, false),
    ]

    @Test(arguments: missing)
    func aMissingValueIsEqualToAnotherOnly(
        _ row: (operator: String, both: Bool, left: Bool, right: Bool)
    ) throws {
        let sides = [
            ("subtitle", "subtitle", row.both), ("subtitle", "title", row.left),
            ("title", "subtitle", row.right),
        ]
        for (left, right, expected) in sides {
            let format = "\(left) \(row.operator) \(right)"
            #expect(try Self.evaluate(format, Self.work()) == expected, "\(format)")
            #expect(try Self.evaluate("NOT \(format)", Self.work()) == !expected, "NOT \(format)")
        }
    }

    static let truths: [(String, Bool)] = [
        ("title == 'Emma'", true), ("title == 'emma'", false), ("title ==[c] 'EMMA'", true),
        ("title ==[cd] 'ÉMMA'", true), ("title ==[d] 'Émma'", true), ("title < 'F'", true),
        ("title > 'a'", false), ("title >[c] 'a'", true),
        ("year == 1815", true), ("year == 1815.0", true), ("year < 1815.5", true),
        ("year == '1815'", true), ("year BETWEEN {1815, 1815}", true),
        ("year BETWEEN {1816, 1815}", false), ("year BETWEEN {nil, 1816}", false),
        ("year IN {1, 1815, nil}", true), ("year IN {}", false), ("subtitle IN {'a', nil}", true),
        ("subtitle IN {'a'}", false), ("1815 == year", true), ("1900 > year", true),
        ("isRead == YES", true), ("isRead == 1", true), ("isRead == NO", false),
        ("isRead == 'true'", true), ("price == 0.1", true), ("price == '0.1'", true),
        ("price < 0.1", false), ("rating > year", false), ("pages == nil", true),
        ("pages != nil", false), ("pages != 3", true), ("pages == CAST('nan', 'NSNumber')", true),
        ("added == '2001-01-01'", true), ("added < '2001-01-01T00:00:00.5Z'", true),
        ("added == CAST(0, 'NSDate')", true),
        ("code == '00000000-0000-0000-0000-000000000001'", true),
        ("link == 'https://example.org/'", true), ("link BEGINSWITH 'https:'", true),
        ("digest == 'AQI='", true), ("digest > 'AQE='", true), ("size.width == 2", true),
        ("size.height == nil", true), ("scan == nil", true),
        ("title BEGINSWITH 'Em'", true), ("title BEGINSWITH ''", true),
        ("title BEGINSWITH 'em'", false), ("title BEGINSWITH[c] 'em'", true),
        ("title ENDSWITH 'ma'", true), ("title ENDSWITH 'EMMAS'", false),
        ("title CONTAINS 'mm'", true), ("title CONTAINS ''", true),
        ("title CONTAINS 'mma ' ", false),
        ("title LIKE 'E*a'", true), ("title LIKE '?mm?'", true), ("title LIKE 'mm'", false),
        ("title LIKE[c] 'e*'", true), ("title MATCHES '[A-Z]m+a'", true),
        ("title MATCHES 'mm'", false), ("title MATCHES[c] 'emma|x'", true),
        ("title MATCHES 'E|Emma'", true), ("'mm' IN title", true), ("title IN 'Emmanuel'", true),
        ("title IN {'a', 'Emma'}", true), ("title IN[c] {'EMMA'}", true),
        ("author.name == 'Ångström'", true), ("author.name BEGINSWITH[cd] 'angs'", true),
        ("author.mentor.name == nil", true), ("author.mentor.name != 'x'", true),
        ("publisher.city == nil", true), ("publisher == nil", true), ("publisher != nil", false),
        ("author == 'Laureate/p3'", true), ("author == 'Author/p3'", false),
        ("author.objectID == 'Laureate/p3'", true), ("author IN {'Laureate/p3'}", true),
        ("SELF == 'Novel/p1'", true), ("SELF != 'Novel/p2'", true),
        ("objectID == 'Novel/p1'", true),
        ("SELF IN {'Novel/p1', 'Work/p9'}", true), ("author.mentor == publisher", true),
        ("ANY tags.name == 'red'", true), ("ANY tags.name == 'blue'", false),
        ("NONE tags.name == 'blue'", true), ("ALL tags.name CONTAINS 'e'", true),
        ("ALL tags.weight > 0", false), ("ANY tags.weight == nil", true),
        ("ANY tags.weight != 1", true), ("ANY tags == 'Tag/p2'", true),
        ("ANY tags IN {'Tag/p2', 'Tag/p7'}", true), ("tags CONTAINS 'Tag/p1'", true),
        ("'Tag/p3' IN tags", false), ("'red' IN tags.name", true), ("ANY tags == nil", false),
        ("ALL notes.text == 'x'", true), ("ANY notes.text == 'x'", false),
        ("ANY author.works.tags.name == 'red'", true), ("ANY author.works == SELF", true),
        ("SELF IN author.works", true), ("ANY author.pupils.works.title == nil", false),
        ("ALL author.mentor.works.title == 'x'", true), ("ANY tags.name IN 'redder'", true),
        ("ANY tags.name BETWEEN {'p', 's'}", true), ("ANY tags.name ==[c] 'RED'", true),
        ("TRUEPREDICATE", true), ("NOT TRUEPREDICATE", false), ("1 == 1", true),
        ("'a' LIKE '?' AND 2 IN {1, 2}", true), ("nil == nil", true), ("1 < nil", false),
        ("title == 'x' OR year > 1800 AND NOT isRead == NO", true),
    ]

    @Test(arguments: truths)
    func evaluates(_ format: String, _ expected: Bool) throws {
        #expect(try Self.evaluate(format, Self.work()) == expected)
        #expect(try Self.evaluate("NOT (\(format))", Self.work()) == !expected)
    }

    @Test func aPredicateIsCheckedBeforeItIsEvaluated() throws {
        let work = try Self.work()
        let predicate = try QueryPredicate(
            format: "title == %@ AND ANY tags.name == 'red' AND author.born < 1815", "Emma")
        #expect(try predicate.isSatisfied(by: work))
        #expect(try QueryPredicate(format: "year == '1815'").isSatisfied(by: work))
        #expect(throws: QuireError.self) {
            try QueryPredicate(format: "tags.name == 'red'").isSatisfied(by: work)
        }
        #expect(throws: QuireError.self) {
            try QueryPredicate(format: "nothing == 1").isSatisfied(by: work)
        }
        #expect(throws: QuireError.self) {
            try QueryPredicate(format: "title == $x").isSatisfied(by: work)
        }
    }

    // MARK: - Numbers

    @Test(arguments: [
        (AttributeValue.integer(.max), AttributeValue.double(0x1p63), -1),
        (.integer(.min), .double(-0x1p63), 0),
        (.integer(9_007_199_254_740_993), .double(0x1p53), 1),
        (.integer(0), .double(-0.0), 0), (.integer(3), .double(3.5), -1),
        (.integer(-3), .double(-3.5), 1),
        (.double(.infinity), .integer(.max), 1), (.double(-.infinity), .integer(.min), -1),
        (.decimal(3), .integer(3), 0), (.boolean(true), .integer(1), 0),
        (.boolean(false), .double(0.5), -1),
        (.decimal(Decimal(sign: .plus, exponent: -1, significand: 1)), .double(0.1), 0),
        (.decimal(Decimal(sign: .plus, exponent: 20, significand: 7)), .integer(.max), 1),
    ])
    func numbersOfAllTypesCompareByAmount(
        _ left: AttributeValue, _ right: AttributeValue, _ expected: Int
    ) {
        #expect(ValueOrder.compare(left, right)?.signum() == expected)
        #expect(ValueOrder.compare(right, left)?.signum() == -expected)
    }

    @Test func textsCompareByBytes() {
        #expect(ValueOrder.compare("é", "e\u{301}") != 0)
        #expect(ValueOrder.compare("z", "é") ?? 0 < 0)
        #expect(ValueOrder.compare("\u{FFFF}", "\u{10000}") ?? 0 < 0)
        #expect(ValueOrder.compare("a", "a\0") ?? 0 < 0)
        #expect(ValueOrder.compare("1", 1) == nil)
    }

    // MARK: - Order

    @Test func missingValuesComeFirst() throws {
        let works = try [("b", 3), ("a", 2), (nil, 1), ("B", 4), (nil, 5)].map { title, key in
            try QueryFixture.object(
                "Work", Int64(key), ["title": title.map { .string($0) } ?? .null])
        }
        func keys(_ orderings: SortOrdering...) throws -> [Int64] {
            try orderings.sorted(works).map(\.objectID.primaryKey)
        }
        #expect(try keys(SortOrdering("title")) == [1, 5, 4, 2, 3])
        #expect(try keys(SortOrdering("title", ascending: false)) == [3, 2, 4, 1, 5])
        #expect(try keys(SortOrdering("title", options: .caseInsensitive)) == [1, 5, 2, 3, 4])
        #expect(try keys(SortOrdering("SELF", ascending: false)) == [5, 4, 3, 2, 1])
        #expect(try SortOrdering("title").compare(works[0], works[1]) == .orderedDescending)
        #expect(try SortOrdering("title").compare(works[2], works[4]) == .orderedSame)
    }
}
