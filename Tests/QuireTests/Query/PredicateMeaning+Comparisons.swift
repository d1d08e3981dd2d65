import Foundation
import Quire

extension PredicateMeaning {
    /// Basic comparisons, logic, key paths and missing values.
    static let comparisons: [PredicateMeaning] = [
        .init("year == 1815", "1"), .init("year = 1815", "1", printed: "year == 1815"),
        .init("year=1815", "1", printed: "year == 1815"),
        .init("year > 1815", "2 3"), .init("year >= 1815", "1 2 3"),
        .init("year => 1815", "1 2 3", printed: "year >= 1815"),
        .init("year < 1817", "1 4"), .init("year <= 1817", "1 2 4"),
        .init("year =< 1817", "1 2 4", printed: "year <= 1817"), .init("year != 1815", "2 3 4"),
        .init("year <> 1815", "2 3 4", printed: "year != 1815"), .init("1815 == year", "1"),
        .init("1815 < year", "2 3"), .init("year == year", "1 2 3 4"),
        .init("year == 1815.0", "1"), .init("year > 1815.5", "2 3"),
        .init("rating == 4", "2"), .init("rating < 0", "4"), .init("price == 7.5", "2"),
        .init("price > 9", "1"), .init("year == pages", ""), .init("pages < year", "1 2"),
        .init("title == \"Emma\"", "1"),
        .init("title == 'Emma'", "1", printed: "title == \"Emma\""),
        .init("title < \"F\"", "1"), .init("title > \"z\"", "3 4"),
        .init("year == '1815'", "1", printed: "year == \"1815\""),
        .init(
            "added >= '2001-01-01'", "1 2", printed: "added >= \"2001-01-01\""
        ),

        // BETWEEN takes both bounds in.
        .init("year BETWEEN {1815, 1817}", "1 2"), .init("year BETWEEN {1817, 1815}", ""),
        .init("year between { -100 , -1 }", "4", printed: "year BETWEEN {-100, -1}"),
        .init("year BETWEEN {-50, +1815}", "1 4", printed: "year BETWEEN {-50, 1815}"),
        .init("rating BETWEEN {4, 4.5}", "1 2"), .init("title BETWEEN {\"A\", \"F\"}", "1"),
        .init("title BETWEEN[c] {\"a\", \"f\"}", "1"),
        .init("year BETWEEN {pages, 2000}", "1 2"),
        .init("year BETWEEN {author.born, author.born + 50}", "1 2"),
        .init("NOT year BETWEEN {0, 2000}", "4"), .init("1900 BETWEEN {year, year + 100}", "1 2 3"),
        .init("year BETWEEN %@", "1 2", printed: "year BETWEEN {1800, 1820}", 1800...1820),
        .init("year BETWEEN %@", "3", printed: "year BETWEEN {1850, 1900}", [1850, 1900]),

        // Truth values.
        .init("isRead == YES", "1"), .init("isRead == TRUE", "1", printed: "isRead == YES"),
        .init("isRead == true", "1", printed: "isRead == YES"), .init("isRead == NO", "2 4"),
        .init("isRead == FALSE", "2 4", printed: "isRead == NO"), .init("isRead == 1", "1"),
        .init("isRead == 0", "2 4"), .init("isRead != YES", "2 3 4"),
        .init("isRead == %@", "1", printed: "isRead == YES", true),
        .init("isRead == %d", "2 4", printed: "isRead == NO", false),
        .init("TRUEPREDICATE", "1 2 3 4"), .init("FALSEPREDICATE", ""),
        .init("truepredicate", "1 2 3 4", printed: "TRUEPREDICATE"),
        .init("NOT FALSEPREDICATE", "1 2 3 4"),

        // Missing values.
        .init("pages == nil", "3"), .init("pages == NULL", "3", printed: "pages == nil"),
        .init("pages = NIL", "3", printed: "pages == nil"), .init("nil == pages", "3"),
        .init("pages != nil", "1 2 4"), .init("pages != 474", "2 3 4"),
        .init("NOT pages == 474", "2 3 4"), .init("pages > 0", "1 2"),
        .init("NOT pages > 0", "3 4"), .init("subtitle == nil", "1 4"),
        .init("subtitle == %@", "1 4", printed: "subtitle == nil", nil),
        .init("author == nil", "4"), .init("author != nil", "1 2 3"),
        .init("author.name == nil", "4"), .init("author.mentor == nil", "1 2 4"),
        .init("author.mentor.name != \"Jane Austen\"", "1 2 4"),

        // Logic.
        .init("year > 1800 AND year < 1817", "1"),
        .init("year > 1800 && year < 1817", "1", printed: "year > 1800 AND year < 1817"),
        .init("year < 0 OR year > 1850", "3 4"),
        .init("year < 0 || year > 1850", "3 4", printed: "year < 0 OR year > 1850"),
        .init("NOT year > 1815", "1 4"), .init("! year > 1815", "1 4", printed: "NOT year > 1815"),
        .init("!(year > 1815)", "1 4", printed: "NOT year > 1815"),
        .init(
            "year < 0 or pages > 400 and isRead == yes", "1 4",
            printed: "year < 0 OR (pages > 400 AND isRead == YES)"),
        .init("(year < 0 OR pages > 400) AND isRead == YES", "1"),
        .init("NOT (year < 0 OR pages > 400)", "2 3"),
        .init("NOT year < 0 AND pages > 400", "1"), .init("NOT NOT year == 1815", "1"),
        .init("(((year == 1815)))", "1", printed: "year == 1815"),
        .init("year == 1815 AND (pages == 474 AND rating == 4.5)", "1"),

        // Key paths.
        .init("author.name == \"Jane Austen\"", "1 2"),
        .init(
            "SELF.author.name == 'Jane Austen'", "1 2", printed: "author.name == \"Jane Austen\""),
        .init("self.year == 1815", "1", printed: "year == 1815"),
        .init("#year == 1815", "1", printed: "year == 1815"),
        .init("author.mentor.name == \"Jane Austen\"", "3"), .init("author.born < 1800", "1 2"),
        .init("publisher.city == \"London\"", "1 2"), .init("size.width == 2", "1"),
        .init("size.height > size.width", "1"), .init("title == author.name", ""),
        .init("%K == %@", "1", printed: "title == \"Emma\"", "title", "Emma"),
        .init("%K == %K", "", printed: "title == author.name", "title", "author.name"),
        .init(
            "%K.name BEGINSWITH %@", "1 2", printed: "author.name BEGINSWITH \"Jane\"", "author",
            "Jane"),

        // Variables of templates.
        .init("year == $YEAR", "1", variables: ["YEAR": 1815]),
        .init("year BETWEEN {$FROM, $TO}", "1 2", variables: ["FROM": 1800, "TO": 1820]),
        .init(
            "author.name == $a AND NOT title == $b", "2",
            variables: ["a": "Jane Austen", "b": "Emma"]),
        .init("pages == $none", "3", variables: ["none": .null]),
        .init("length(title) == $n", "1", variables: ["n": 4]),

        // Predicates and expressions as arguments.
        .init("%@ AND year > 1816", "2", printed: "pages > 0 AND year > 1816", pages),
        .init("NOT %@", "3 4", printed: "NOT pages > 0", pages),
        .init("%@ OR %@", "1 2", printed: "pages > 0 OR pages > 0", pages, pages),
        .init("%@ == NO", "3 4", printed: "TERNARY(pages > 0, YES, NO) == NO", pages),
        .init("%@ == 1815", "1", printed: "year == 1815", QueryExpression.key("year")),
        .init("year - %@ == 1", "1", printed: "year - 1814 == 1", QueryExpression.constant(1814)),
    ]

    private static let pages = QueryPredicate.comparison(
        QueryComparison(.key("pages"), .greater, .constant(0)))

    /// Of objects; identifiers are read back as URIs, so these are not printed.
    static let objects: [PredicateMeaning] = [
        .init("SELF == %@", "1", id("Novel", 1)), .init("SELF != %@", "1 3 4", id("Novel", 2)),
        .init("SELF IN %@", "1 3", [id("Novel", 1), id("Work", 3)]),
        .init("SELF IN {%@, %@}", "2 4", id("Novel", 2), id("Work", 4)),
        .init("NOT SELF IN %@", "2 4", [id("Novel", 1), id("Work", 3)]),
        .init("author == %@", "1 2", id("Author", 1)),
        .init("author IN %@", "1 2 3", [id("Author", 1), id("Author", 2)]),
        .init("author.mentor == %@", "3", id("Author", 1)),
        .init("ANY tags == %@", "1 4", id("Tag", 2)),
        .init("tags CONTAINS %@", "1 2", id("Tag", 1)),
        .init("%@ IN tags", "4", id("Tag", 3)), .init("NONE tags == %@", "2 3", id("Tag", 2)),
        .init("ANY tags IN %@", "1 2 4", [id("Tag", 1), id("Tag", 3)]),
        .init("tags[FIRST] == %@", "1 2", id("Tag", 1)),
        .init("SUBQUERY(tags, $t, $t == %@).@count == 1", "1 4", id("Tag", 2)),
        .init(
            "author == $who", "1 2",
            variables: ["who": id("Author", 1).map { .objectID($0) } ?? .null]),
    ]

    /// The identifier of an object.
    private static func id(_ entity: String, _ key: Int64) -> ManagedObjectID? {
        try? QueryFixture.id(entity, key)
    }
}
