import Foundation
import Quire

extension PredicateMeaning {
    /// Arithmetic.
    static let computations: [PredicateMeaning] = [
        .init("year + 1 == 1816", "1"), .init("year - 1815 == 2", "2"),
        .init("year -1815 == 2", "2", printed: "year - 1815 == 2"),
        .init("year-1815==2", "2", printed: "year - 1815 == 2"), .init("pages * 2 == 948", "1"),
        .init("year / 10 == 181", "1 2"), .init("year / 10.0 == 181.5", "1"),
        .init("pages ** 2 == 62001", "2"), .init("rating * 2 == 9", "1"),
        .init("price * 2 == 15", "2"),
        .init("-year == 50", "4", printed: "0 - year == 50"),
        .init("-(year + 1) == 49", "4", printed: "0 - (year + 1) == 49"),
        .init("year == -pages - 50", "4", printed: "year == 0 - pages - 50"),
        .init("year + pages > 2000", "1 2"), .init("pages + 1 == nil", "3"),
        .init("pages + 1 != nil", "1 2 4"),
        .init("(year + 1) * 2 == 3632", "1"), .init("year - 5 - 10 == 1800", "1"),
        .init("year - (5 - 10) == 1820", "1"),
        .init("2 + 3 * 4 == 14", "1 2 3 4"), .init("(2 + 3) * 4 == 20", "1 2 3 4"),
        .init("2 ** 3 ** 2 == 512", "1 2 3 4"),
        .init("(2 ** 3) ** 2 == 64", "1 2 3 4"), .init("-2 ** 2 == 4", "1 2 3 4"),
        .init("2 ** -1 == 0.5", "1 2 3 4"),
        .init("4 + 5 - 2**3 == 1", "1 2 3 4", printed: "4 + 5 - 2 ** 3 == 1"),
        .init("7 / 2 == 3", "1 2 3 4"), .init("-7 / 2 == -3", "1 2 3 4"),
        .init("7 / 2.0 == 3.5", "1 2 3 4"),
        .init("7 / 0 == nil", "1 2 3 4"), .init("year / pages == nil", "3 4"),
        .init("12 / 2 / 3 == 2", "1 2 3 4"),
        .init("12 / (6 / 3) == 6", "1 2 3 4"), .init("year & 1 == 1", "1 2"),
        .init("(year & %d) > 0", "1 2", printed: "year & 1 > 0", 1),
        .init("year | 1 == 1869", "3"), .init("year ^ 1 == 1814", "1"),
        .init("1 << 4 == 16", "1 2 3 4"),
        .init("year >> 1 == 907", "1"), .init("~year == 49", "4"), .init("~0 == -1", "1 2 3 4"),
        .init("1 | 6 & 4 == 5", "1 2 3 4"), .init("1 + 1 << 2 == 8", "1 2 3 4"),
        .init("5 ^ 1 | 8 == 12", "1 2 3 4"),
        .init("added + 60 > added", "1 2 3"), .init("added - 86400 == CAST(0.0, \"NSDate\")", "2"),
        .init(
            "added - CAST(0, 'NSDate') == 86400", "2",
            printed: "added - CAST(0.0, \"NSDate\") == 86400"),
        .init("author.born + 40 == year", "1"), .init("year - author.born BETWEEN {41, 50}", "2"),
    ]

    /// Functions, casts and conditions.
    static let functions: [PredicateMeaning] = [
        .init("modulus(year, 10) == 5", "1", printed: "modulus:by:(year, 10) == 5"),
        .init("modulus:by:(year, 100) == 15", "1"),
        .init("modulus:by:(-7, 3) == -1", "1 2 3 4"),
        .init("modulus:by:(year, 0) == nil", "1 2 3 4"),
        .init("add:to:(year, 1) == 1816", "1", printed: "year + 1 == 1816"),
        .init("from:subtract:(year, 1815) == 2", "2", printed: "year - 1815 == 2"),
        .init("multiply:by:(pages, 2) == 948", "1", printed: "pages * 2 == 948"),
        .init("divide:by:(year, 10) == 181", "1 2", printed: "year / 10 == 181"),
        .init("raise:toPower:(2, 10) == 1024", "1 2 3 4", printed: "2 ** 10 == 1024"),
        .init("sqrt(16) == 4", "1 2 3 4"), .init("sqrt(year - 1766) == 7", "1"),
        .init("sqrt:(16) == 4", "1 2 3 4", printed: "sqrt(16) == 4"),
        .init("sqrt(-1) == nil", "1 2 3 4"), .init("abs(year) == 50", "4"),
        .init("abs(rating) == 1.5", "4"),
        .init("ceiling(rating) == 5", "1"), .init("ceiling(rating) == -1", "4"),
        .init("floor(rating) == 4", "1 2"),
        .init("floor(rating) == -2", "4"), .init("trunc(rating) == -1", "4"),
        .init("log(100) == 2", "1 2 3 4"),
        .init("log(year - 1715) == 2", "1"), .init("ln(1) == 0", "1 2 3 4"),
        .init("ln(exp(1)) == 1", "1 2 3 4"),
        .init("exp(0) == 1", "1 2 3 4"), .init("exp(pages) == 1", "4"),
        .init("random() < 1", "1 2 3 4"),
        .init("random(1) == 0", "1 2 3 4"), .init("random(6) BETWEEN {0, 5}", "1 2 3 4"),
        .init("randomn(1) == 0", "1 2 3 4", printed: "random(1) == 0"),
        .init("bitwiseAnd:with:(year, 7) == 7", "1", printed: "year & 7 == 7"),
        .init("bitwiseOr:with:(year, 1) == 1869", "3", printed: "year | 1 == 1869"),
        .init("bitwiseXor:with:(year, 1) == 1814", "1", printed: "year ^ 1 == 1814"),
        .init("leftshift:by:(1, 3) == 8", "1 2 3 4", printed: "1 << 3 == 8"),
        .init("rightshift:by:(year, 1) == 907", "1", printed: "year >> 1 == 907"),
        .init("onesComplement:(year) == 49", "4", printed: "~year == 49"),
        .init("noindex(year) == 1815", "1"),

        .init("uppercase(title) == \"EMMA\"", "1"),
        .init("UPPERCASE(title) == 'EMMA'", "1", printed: "uppercase(title) == \"EMMA\""),
        .init("lowercase(title) == \"persuasion\"", "2"), .init("uppercase(title) == \"ZOË\"", "4"),
        .init("canonical(title) == \"zoe\"", "4"), .init("length(title) == 4", "1"),
        .init("length(title) == 3", "4"),
        .init("length(subtitle) == 0", "3"), .init("length(subtitle) == nil", "1 4"),
        .init("uppercase(subtitle) == nil", "1 4"),
        .init("uppercase(title) BEGINSWITH \"P\"", "2"), .init("length(title) * 2 == 8", "1"),
        .init("title.length == 4", "1"),
        .init("length(uppercase(title)) == length(title)", "1 2 3 4"),
        .init("lowercase(title) IN {\"emma\", \"zoë\"}", "1 4"),
        .init("length(author.name) > 12", "3"),

        .init("now() > CAST(0.0, \"NSDate\")", "1 2 3 4"), .init("added < now()", "1 2 3"),
        .init("now() - 60 < now()", "1 2 3 4"),
        .init(
            "FUNCTION(now(), 'dateByAddingTimeInterval:', -86400) < now()", "1 2 3 4",
            printed: "now() + -86400 < now()"),
        .init("FUNCTION('now') > added", "1 2 3", printed: "now() > added"),

        .init("FUNCTION('sqrt:', 16) == 4", "1 2 3 4", printed: "sqrt(16) == 4"),
        .init(
            "FUNCTION('uppercase:', title) == 'EMMA'", "1", printed: "uppercase(title) == \"EMMA\""),
        .init(
            "FUNCTION(title, 'uppercaseString') == 'EMMA'", "1",
            printed: "uppercase(title) == \"EMMA\""),
        .init(
            "FUNCTION(title, 'lowercaseString') == 'emma'", "1",
            printed: "lowercase(title) == \"emma\""),
        .init("FUNCTION(title, 'length') == 4", "1", printed: "length(title) == 4"),
        .init("FUNCTION(link, \"lastPathComponent\") == \"emma\"", "1"),
        .init("FUNCTION(\"/tmp/x.txt\", \"lastPathComponent\") == \"x.txt\"", "1 2 3 4"),
        .init("FUNCTION(tags, 'count') == 2", "1 4", printed: "tags.@count == 2"),
        .init(
            "FUNCTION(tags, 'firstObject').name == 'classic'", "1 2",
            printed: "tags[FIRST].name == \"classic\""),
        .init(
            "FUNCTION(author, 'valueForKeyPath:', 'mentor.name') != nil", "3",
            printed: "author.mentor.name != nil"),
        .init(
            "FUNCTION(tags, 'valueForKeyPath:', '@max.weight') == 2", "1 4",
            printed: "tags.@max.weight == 2"),
        .init(
            "FUNCTION(added, 'timeIntervalSinceReferenceDate') == 86400", "2",
            printed: "CAST(added, \"NSNumber\") == 86400"),
        .init(
            "FUNCTION(added, 'timeIntervalSinceDate:', %@) == 86400", "2",
            printed: "added - CAST(0.0, \"NSDate\") == 86400",
            Date(timeIntervalSinceReferenceDate: 0)),
        .init(
            "FUNCTION(year, 'stringValue') ENDSWITH '5'", "1",
            printed: "CAST(year, \"NSString\") ENDSWITH \"5\""),

        .init("CAST(added, \"NSNumber\") == 86400", "2"),
        .init("CAST(year, \"NSString\") == \"1815\"", "1"),
        .init("CAST(year, \"NSString\") BEGINSWITH \"18\"", "1 2 3"),
        .init("CAST(title, \"NSNumber\") == nil", "1 2 3 4"),
        .init("CAST(CAST(year, \"NSString\"), \"NSNumber\") == year", "1 2 3 4"),
        .init(
            "castObject:toType:(year, 'NSString') == '1815'", "1",
            printed: "CAST(year, \"NSString\") == \"1815\""),
        .init("CAST(code, \"NSString\") ENDSWITH \"1\"", "1"),
        .init("CAST(link, \"NSString\") ENDSWITH \"emma\"", "1"),
        .init("CAST(rating, \"NSDecimalNumber\") == 4.5", "1"),
        .init("CAST(pages, \"NSDate\") == CAST(0.0, \"NSDate\")", "4"),
        .init("CAST(subtitle, \"NSDate\") == nil", "1 2 3 4"),

        .init("TERNARY(year < 1816, \"old\", \"new\") == \"old\"", "1 4"),
        .init(
            "ternary(pages == nil, 0, pages) == 0", "3 4",
            printed: "TERNARY(pages == nil, 0, pages) == 0"),
        .init("TERNARY(isRead == YES, year, 0) > 0", "1"),
        .init("TERNARY(year < 0, 1, TERNARY(year < 1816, 2, 3)) == 2", "1"),
        .init("TERNARY(ANY tags.name == \"love\", 1, 0) == 1", "1 4"),
        .init("TERNARY(year > 1816 AND pages != nil, title, nil) == \"Persuasion\"", "2"),
        .init("1 + TERNARY(year > 0, 1, 2) * 2 == 3", "1 2 3"),
    ]
}
