import Foundation
import Testing

@testable import Quire

/// Expressions in the predicate format language: how they are read and printed.
@Suite struct ExpressionFormatTests {
    typealias Reading = PredicateParserTests.Reading
    typealias Failure = PredicateParserTests.Failure

    static let operators: [Reading] = [
        Reading("a + b"), Reading("a+b", "a + b"), Reading("a -1", "a - 1"),
        Reading("a-1", "a - 1"), Reading("a - 1"), Reading("a--1", "a - -1"), Reading("-1"),
        Reading("- 1", "-1"), Reading("+1", "1"), Reading("1 -1", "1 - 1"),
        Reading("-a", "0 - a"), Reading("--1", "0 - -1"), Reading("0 - 1"), Reading("-0.5"),
        Reading("-9223372036854775808"), Reading("{-1,-2,+3}", "{-1, -2, 3}"),
        Reading("a + b - c"), Reading("a - (b - c)"), Reading("(a - b) - c", "a - b - c"),
        Reading("a + b * c"), Reading("(a + b) * c"), Reading("a * b / c"),
        Reading("a * (b / c)"), Reading("a / b ** c"), Reading("(a / b) ** c"),
        Reading("a ** b ** c"), Reading("(a ** b) ** c"), Reading("a**(b**c)", "a ** b ** c"),
        Reading("-2 ** 2"), Reading("-a ** 2", "0 - a ** 2"), Reading("a ** -b", "a ** (0 - b)"),
        Reading("a ** -2"), Reading("a ** ~b"), Reading("~a ** b"), Reading("(~a) ** b"),
        Reading("-a * b", "(0 - a) * b"), Reading("~~a"), Reading("~(a + b)"), Reading("~a + b"),
        Reading("~-1"), Reading("a & b | c ^ d"), Reading("(a | b) & c"), Reading("a << 2 >> 1"),
        Reading("a << (b >> c)"), Reading("a + b << c"), Reading("a & b + c"),
        Reading("a union b Intersect c", "a UNION b INTERSECT c"), Reading("a MINUS (b UNION c)"),
        Reading("a | b MINUS c"), Reading("union UNION minus"),
        Reading("#union MINUS b", "union MINUS b"),
        Reading("(a)", "a"), Reading("((a)) + ((b))", "a + b"),
    ]

    static let paths: [Reading] = [
        Reading("books.@count"), Reading("author.books.@count"), Reading("books.@sum.pages"),
        Reading("books.pages.@sum", "books.@sum.pages"),
        Reading("books.@avg.author.born", "books.author.@avg.born"), Reading("books.@min.pages"),
        Reading("books.@max.pages"), Reading("books.@distinctUnionOfObjects.pages"),
        Reading("books.@unionOfObjects.pages", "books.pages"),
        Reading("books.@unionOfObjects.pages.@sum", "books.@sum.pages"),
        Reading(
            "books.@distinctUnionOfObjects.pages.@count",
            "count(books.@distinctUnionOfObjects.pages)"),
        Reading(
            "books.@distinctUnionOfObjects.author.@max.born",
            "(books.@distinctUnionOfObjects.author).@max.born"),
        Reading("@sum.items.price", "items.@sum.price"), Reading("@count", "SELF.@count"),
        Reading("SELF.@count"), Reading("SELF.books.@count", "books.@count"),
        Reading("@sum.price", "sum(price)"), Reading("sum(price)"),
        Reading("sum(books.pages)", "books.@sum.pages"), Reading("count(books)", "books.@count"),
        Reading("#in.@count"), Reading("books.@sum.in", "books.@sum.#in"),
        Reading("$x.books.@count"), Reading("$x.@count"), Reading("$x.@sum.pages"),
        Reading("$x.books.@sum.pages"), Reading("sum($x)"), Reading("$x.a.b"),
        Reading("%K.@count", "books.@count", "books"),
        Reading("%K", "books.@count", "books.@count"),
        Reading("%K.name", "author.name", "author"), Reading("%K", "a.@sum.b", "a.b.@sum"),
        Reading("%K.name", "name", "SELF"),
        Reading("%@.name", "author.name", QueryExpression.key("author")),
        Reading("a[0]"), Reading("a.b[0].c.d"), Reading("a[first]", "a[FIRST]"),
        Reading("a[LAST].name"), Reading("a[SIZE]", "a.@count"), Reading("a[#first]"),
        Reading("a[first + 1]"), Reading("a[0][1]"), Reading("a[FIRST].@count"),
        Reading("a[i + 1]"), Reading("a[\"key\"]"), Reading("(a + b)[0]"), Reading("(a.b).c"),
        Reading("($x).c"), Reading("(SELF).c"), Reading("(a.@count).c"), Reading("(a[0].b).c"),
        Reading("{1, 2}.@count", "count({1, 2})"), Reading("(1)[0]"), Reading("(1).c"),
        Reading("(nil).c"), Reading("\"a\".c"), Reading("a [0] .c", "a[0].c"),
        Reading("SELF[0]"), Reading("(a.b).@sum.c"), Reading("first(a)", "a[FIRST]"),
    ]

    static let calls: [Reading] = [
        Reading("uppercase(title)"), Reading("UPPERCASE( title )", "uppercase(title)"),
        Reading("uppercase:(title)", "uppercase(title)"),
        Reading("lowercase('A')", "lowercase(\"A\")"),
        Reading("canonical(a)"), Reading("length(a)"), Reading("abs(-1)"), Reading("ceiling(a)"),
        Reading("floor(a)"), Reading("trunc(a)"), Reading("sqrt(a)"), Reading("ln(a)"),
        Reading("log(a)"), Reading("exp(a)"), Reading("modulus(a, 2)", "modulus:by:(a, 2)"),
        Reading("modulus:by:(a, 2)"), Reading("raise:toPower:(2, 3)", "2 ** 3"),
        Reading("add:to:(a, b)", "a + b"), Reading("from:subtract:(a, b)", "a - b"),
        Reading("multiply:by:(a, b)", "a * b"), Reading("divide:by:(a, b)", "a / b"),
        Reading("bitwiseAnd:with:(a, b)", "a & b"), Reading("bitwiseOr(a, b)", "a | b"),
        Reading("bitwiseXor:with:(a, b)", "a ^ b"), Reading("leftshift:by:(a, 1)", "a << 1"),
        Reading("rightshift(a, 1)", "a >> 1"), Reading("onesComplement(a)", "~a"),
        Reading("now()"), Reading("random()"), Reading("random(6)"),
        Reading("randomn(6)", "random(6)"),
        Reading("average(a)"), Reading("median(a.b)"), Reading("mode({1, 2, 2})"),
        Reading("stddev(a.b)"), Reading("distinct(a)"), Reading("noindex(a)"),
        Reading("min({1, 2})"),
        Reading("objectFrom:withIndex:(a, 0)", "a[0]"),
        Reading("CAST(a, 'NSNumber')", "CAST(a, \"NSNumber\")"),
        Reading("castObject:toType:(a, 'NSDate')", "CAST(a, \"NSDate\")"),
        Reading(
            "castObject:toType:('1.5', 'NSDecimalNumber')", "CAST(\"1.5\", \"NSDecimalNumber\")"),
        Reading("CAST(now(), \"NSNumber\") - 60"), Reading("CAST(%@, 'NSDate')", "nil", nil),
        Reading("CAST(-1, \"NSDate\")", "CAST(-1.0, \"NSDate\")"),
        Reading("CAST(a, %@)", "CAST(a, \"NSURL\")", "NSURL"),
        Reading("FUNCTION('sqrt:', 4)", "sqrt(4)"), Reading("FUNCTION('now')", "now()"),
        Reading("FUNCTION('modulus:by:', a, 2)", "modulus:by:(a, 2)"),
        Reading("FUNCTION('castObject:toType:', a, 'NSURL')", "CAST(a, \"NSURL\")"),
        Reading("FUNCTION(title, 'uppercaseString')", "uppercase(title)"),
        Reading("FUNCTION('abc', 'lowercaseString')", "lowercase(\"abc\")"),
        Reading("FUNCTION('sqrt:', 'length')", "length(\"sqrt:\")"),
        Reading("FUNCTION(path, \"lastPathComponent\")"),
        Reading("FUNCTION(now(), 'dateByAddingTimeInterval:', -60)", "now() + -60"),
        Reading("FUNCTION(a, 'timeIntervalSinceDate:', b)", "a - b"),
        Reading("FUNCTION(a, 'timeIntervalSinceReferenceDate')", "CAST(a, \"NSNumber\")"),
        Reading("FUNCTION(tags, 'count')", "tags.@count"),
        Reading("FUNCTION(a, 'firstObject')", "a[FIRST]"),
        Reading("FUNCTION(a, 'objectAtIndex:', 2)", "a[2]"),
        Reading("FUNCTION(author, 'valueForKey:', 'name')", "author.name"),
        Reading(
            "FUNCTION(SUBQUERY(books, $b, $b.year > 1), 'valueForKeyPath:', '@max.year')",
            "SUBQUERY(books, $b, $b.year > 1).@max.year"),
        Reading("SUBQUERY(books, $b, $b.year < 1800)"),
        Reading(
            "subquery(books, $b, $b.year<1800 and $b.title=='a').@count",
            "SUBQUERY(books, $b, $b.year < 1800 AND $b.title == \"a\").@count"),
        Reading("SUBQUERY(books, $b, TRUEPREDICATE).title"),
        Reading("SUBQUERY(books, $b, TRUEPREDICATE).@max.year"),
        Reading(
            "SUBQUERY(books, $b, TRUEPREDICATE).year.@max",
            "SUBQUERY(books, $b, TRUEPREDICATE).@max.year"),
        Reading("SUBQUERY(books, $b, SUBQUERY($b.tags, $t, $t == $b.tag).@count > 0)"),
        Reading("SUBQUERY(a UNION b, $x, $x.tags.@count > 1)[FIRST].name"),
        Reading("TERNARY(year < 1800, \"old\", \"new\")"),
        Reading(
            "ternary((a == 1 or b == 2), 1, TERNARY(c == 3, 2, 3)) + 1",
            "TERNARY(a == 1 OR b == 2, 1, TERNARY(c == 3, 2, 3)) + 1"),
        Reading("uppercase(CAST(a + 1, \"NSString\"))"), Reading("ternary"), Reading("now"),
    ]

    @Test(arguments: operators + paths + calls)
    func readsAndPrints(_ reading: Reading) throws {
        let expression = try QueryExpression(format: reading.text, arguments: reading.arguments)
        #expect(expression.description == reading.printed)
        #expect(try QueryExpression(format: expression.description) == expression)
    }

    @Test func readsIntoTheTree() throws {
        func tree(_ format: String) throws -> QueryExpression {
            try QueryExpression(format: format)
        }
        let count = QueryExpression.function(.count, [.key("books")])
        #expect(try tree("books.@count") == count)
        #expect(try tree("books.pages.@sum") == .function(.sum, [.key("books.pages")]))
        #expect(
            try tree("1 - -a * 2")
                == .function(
                    .subtract,
                    [
                        .constant(1),
                        .function(
                            .multiply,
                            [.function(.subtract, [.constant(0), .key("a")]), .constant(2)]),
                    ]))
        #expect(
            try tree("a ** b ** -1")
                == .function(
                    .power, [.key("a"), .function(.power, [.key("b"), .constant(-1)])]))
        #expect(
            try tree("SUBQUERY(books, $b, $b.tags.@count > 1).@max.year")
                == .function(
                    .maximum,
                    [
                        .path(
                            .subquery(
                                .key("books"), variable: "b",
                                .comparison(
                                    QueryComparison(
                                        .function(.count, [.variable("b.tags")]), .greater,
                                        .constant(1)))), ["year"])
                    ]))
        #expect(try tree("a[FIRST].b") == .path(.function(.first, [.key("a")]), ["b"]))
        #expect(try tree("CAST(a, 'NSDate')") == .cast(.key("a"), .date))
        #expect(
            try tree("TERNARY(TRUEPREDICATE, 1, nil)")
                == .conditional(.constant(true), .constant(1), .constant(.null)))
    }

    // MARK: - Within predicates

    static let predicates: [Reading] = [
        Reading("a + 1 > b * 2"), Reading("(a + 1) * 2 > 3"), Reading("((a + 1)) > 3", "a + 1 > 3"),
        Reading("((a + 1) * 2 > 3)", "(a + 1) * 2 > 3"), Reading("(a).b == 1"),
        Reading("(a + b)[0] == 1"), Reading("(a) UNION b == c", "a UNION b == c"),
        Reading("(a) - 1 > 0 AND (b == 2 OR c == 3)", "a - 1 > 0 AND (b == 2 OR c == 3)"),
        Reading("a <-1", "a < -1"), Reading("a>=-1", "a >= -1"),
        Reading("a BETWEEN {-1,+1}", "a BETWEEN {-1, 1}"),
        Reading("a & 4 == 4"), Reading("(flags & %d) != 0", "flags & 3 != 0", 3),
        Reading("a << 1 < 2"),
        Reading("a&b==c&&d|e==f||g==h", "(a & b == c AND d | e == f) OR g == h"),
        Reading("ANY books.pages + 1 > 2"), Reading("NOT a - b == c"),
        Reading("title ==[n] 'a'", "title ==[n] \"a\""),
        Reading("title CONTAINS[l] 'a'", "title CONTAINS[l] \"a\""),
        Reading("title <[lndc] 'a'", "title <[cdnl] \"a\""),
        Reading("a IN[cd] {'x'}", "a IN[cd] {\"x\"}"),
        Reading("a BETWEEN[c] {'a', 'b'}", "a BETWEEN[c] {\"a\", \"b\"}"),
        Reading("a[0] ==[c] 'x'", "a[0] ==[c] \"x\""),
        Reading("body MATCHES TEXT 'sea shore'", "body MATCHES TEXT \"sea shore\""),
        Reading("body matches  text[c] %@", "body MATCHES TEXT[c] \"x\"", "x"),
        Reading("body MATCHES TEXT text"), Reading("body MATCHES text", "body MATCHES #text"),
        Reading("body MATCHES #text"), Reading("body MATCHES text.x"),
        Reading("body MATCHES text[0]", "body MATCHES #text[0]"),
        Reading("body MATCHES text[c] AND a == 1", "body MATCHES #text[c] AND a == 1"),
        Reading("body MATCHES textual"), Reading("body MATCHES[c] text", "body MATCHES[c] #text"),
        Reading("text == 1"), Reading("now() > a"),
        Reading("length(title) < 20 AND uppercase(title) != title"),
        Reading(
            "%@ AND c == 3", "(a == 1 OR b == 2) AND c == 3",
            try? QueryPredicate(format: "a == 1 OR b == 2")),
        Reading("NOT %@", "NOT a == 1", try? QueryPredicate(format: "a == 1")),
        Reading("(%@)", "a == 1", try? QueryPredicate(format: "a == 1")),
        Reading(
            "SUBQUERY(b, $x, %@).@count > 0", "SUBQUERY(b, $x, $x.a == 1).@count > 0",
            try? QueryPredicate(format: "$x.a == 1")),
        Reading(
            "%@ == YES", "TERNARY(a == 1, YES, NO) == YES", try? QueryPredicate(format: "a == 1")),
    ]

    @Test(arguments: predicates)
    func readsWithinPredicates(_ reading: Reading) throws {
        let predicate = try QueryPredicate(format: reading.text, arguments: reading.arguments)
        #expect(predicate.format == reading.printed)
        #expect(try QueryPredicate(format: predicate.format) == predicate)
    }

    // MARK: - Errors

    static let failures: [Failure] = [
        Failure("", 1, "The expression “” cannot be read: expected a key path or a value"),
        Failure("a b", 3, "expected an operator or the end at column 3, but found “b”"),
        Failure("a == 1", 3, "expected an operator or the end at column 3, but found “==”"),
        Failure("a +", 4, "expected a key path or a value at column 4, where it ends"),
        Failure("a + * b", 5, "expected a key path or a value at column 5, but found “*”"),
        Failure("a ? b", 3, "expected a key, a value or an operator at column 3, but found “?”"),
        Failure("a.@", 4, "expected a name at column 4"),
        Failure("a.@total.b", 3, "expected one of @count, @sum, @avg, @min, @max"),
        Failure("a.@cuont", 3, "expected @count at column 3, but found “@cuont”"),
        Failure("a.@Sum.b", 3, "expected @sum at column 3, but found “@Sum”"),
        Failure(
            "a.@count.b", 1,
            "expected nothing after @count in the key path at column 1, but found “b”"),
        Failure(
            "1 + a.@max.b.@count", 5,
            "expected only keys after @max in the key path at column 5, but found “@count”"),
        Failure("a[0", 4, "expected an operator or ] at column 4, where it ends"),
        Failure("a[]", 3, "expected a key path or a value at column 3"),
        Failure("a[FIRST", 8, "expected an operator or ]"),
        Failure(
            "upercase(a)", 1,
            "expected a function at column 1, but found “upercase”; did you mean “uppercase”?"
        ),
        Failure("frobnicate(a)", 1, "but found “frobnicate”; the choices are: abs, add:to:"),
        Failure("uppercase()", 1, "expected 1 argument of uppercase at column 1, but found 0"),
        Failure(
            "1 + modulus:by:(1)", 5, "expected 2 arguments of modulus:by: at column 5, but found 1"),
        Failure("now(1)", 1, "expected 0 arguments of now at column 1, but found 1"),
        Failure("uppercase(a", 12, "expected an operator, a comma or ) at column 12"),
        Failure("uppercase(a b)", 13, "expected an operator, a comma or ) at column 13"),
        Failure(
            "modulus:by(1, 2)", 11,
            "expected a colon to end the name of a function at column 11, but found “(”"),
        Failure("modulus:by: 1", 13, "expected ( after modulus:by: at column 13"),
        Failure("FUNCTION()", 10, "expected the name of a function at column 10, but found none"),
        Failure(
            "FUNCTION(a)", 10,
            "expected the name of a function or method in quotation marks at column 10, but found “a”"
        ),
        Failure("FUNCTION(a, b)", 13, "in quotation marks at column 13, but found “b”"),
        Failure("FUNCTION('sqr:', 4)", 18, "in quotation marks at column 18"),
        Failure(
            "FUNCTION('sqr:')", 10,
            "expected a function at column 10, but found “sqr:”; did you mean “sqrt”"),
        Failure(
            "FUNCTION(a, 'uppercasestring')", 13,
            "expected a method at column 13, but found “uppercasestring”; did you mean “uppercaseString”"
        ),
        Failure(
            "FUNCTION(a, 'objectAtIndex:')", 13,
            "expected 1 argument of objectAtIndex: at column 13, but found 0"),
        Failure(
            "FUNCTION(a, 'valueForKey:', b)", 29,
            "expected a key path in quotation marks at column 29, but found “b”"),
        Failure("FUNCTION a", 10, "expected ( after FUNCTION at column 10"),
        Failure("CAST(a, 'Car')", 9, "expected one of the types NSDate, NSUUID"),
        Failure(
            "CAST(a, b)", 9,
            "expected the name of a type in quotation marks at column 9, but found “b”"),
        Failure("castObject:toType:(a)", 1, "expected 2 arguments of castObject:toType:"),
        Failure(
            "SUBQUERY(a, b, c)", 13, "expected a variable such as $x at column 13, but found “b”"),
        Failure("SUBQUERY(a, $x.y, TRUEPREDICATE)", 13, "expected a variable such as $x"),
        Failure("SUBQUERY(a, $x)", 15, "expected a comma at column 15, but found “)”"),
        Failure("SUBQUERY(a, $x, $x)", 19, "expected a comparison operator"),
        Failure("SUBQUERY a", 10, "expected ( after SUBQUERY"),
        Failure(
            "TERNARY(a, b, c)", 10,
            "expected a comparison operator such as == or BEGINSWITH at column 10"),
        Failure(
            "TERNARY(a == 1, b)", 18, "expected an operator or a comma at column 18, but found “)”"),
        Failure("TERNARY(a == 1 b, c)", 16, "expected AND, OR or a comma at column 16"),
        Failure("$x := 1", 4, "expected a key, a value or an operator at column 4, but found “:”"),
        Failure(
            "%K", 1, "%K at column 1 needs a key path, but argument 1 is \"a.@total\"", "a.@total"),
        Failure("%@", 1, "The expression “%@” has 1 placeholder, but is given 0 arguments"),
        Failure("9223372036854775808", 1, "expected an integer of at most 64 bits at column 1"),
        Failure("-9223372036854775809", 2, "expected an integer of at most 64 bits at column 2"),
    ]

    @Test(arguments: failures)
    func saysWhereATextCannotBeRead(_ failure: Failure) throws {
        let error = #expect(throws: QuireError.self) {
            try QueryExpression(format: failure.text, arguments: failure.arguments)
        }
        let found = try #require(error)
        #expect(found.code == .invalidQuery)
        #expect(found.subject.position == failure.column)
        #expect(found.message.contains(failure.sentence), "\(found.message)")
    }

    // MARK: - Bounds

    /// What nests, and how high the tree is that comes of it.
    static let nestings: [(open: String, close: String)] = [
        ("(", ")"), ("-", ""), ("~", ""), ("2 ** ", ""), ("", " + 1"), ("", " * 2"), ("", "[0]"),
        ("abs(", ")"), ("{", "}"), ("TERNARY(a == 1, ", ", 2)"), ("TERNARY(", " == 1, 1, 2)"),
        ("CAST(", ", 'NSString')"), ("SUBQUERY(", ", $x, TRUEPREDICATE)"),
        ("SUBQUERY(a, $x, ", " == 1)"), ("(", ").x"), ("a[", "]"), ("FUNCTION(", ", 'length')"),
        ("(", " + 1)"), ("~(", " + 1)"), ("a ** (", ")"), ("SUBQUERY(a, $x, NOT (", " == 1))"),
    ]

    @Test(arguments: nestings)
    func nestingIsBounded(_ nesting: (open: String, close: String)) throws {
        func text(_ count: Int) -> String {
            String(repeating: nesting.open, count: count) + "a"
                + String(repeating: nesting.close, count: count)
        }
        let error = #expect(throws: QuireError.self) { try QueryExpression(format: text(5_000)) }
        #expect(error?.message.contains("levels of nesting") == true)
        // As deep as it goes, it is printed and read again.
        var deepest = 0
        for count in [10, 49, 50, 66, 99, 100, 197, 198, 199, 200] {
            guard let expression = try? QueryExpression(format: text(count)) else { break }
            deepest = count
            #expect(try QueryExpression(format: expression.description) == expression)
        }
        #expect(deepest >= 49)
    }

    /// Whatever can be read fits into half of the stack that threads have, also when it is compared, printed and tested.
    @Test(arguments: nestings)
    func theDeepestTextFitsIntoAStack(_ nesting: (open: String, close: String)) async throws {
        func text(_ count: Int) -> String {
            String(repeating: nesting.open, count: count) + "year"
                + String(repeating: nesting.close, count: count) + " == 1"
        }
        let deepest = [49, 66, 99, 198].last { (try? QueryPredicate(format: text($0))) != nil }
        let format = text(try #require(deepest))
        await withCheckedContinuation { continuation in
            let thread = Thread {
                #expect(throws: Never.self) {
                    let predicate = try QueryPredicate(format: format)
                    #expect(try QueryPredicate(format: predicate.format) == predicate)
                    #expect(Set([predicate, predicate]).count == 1)
                    _ = try predicate.substituting(variables: ["x": 1])
                    // It may make no sense.
                    for work in try QueryLibrary().works {
                        _ = try? predicate.isSatisfied(by: work)
                    }
                    _ = try? ResolvedQuery(
                        FetchSpecification("Work", predicate: predicate), in: QueryFixture.layout,
                        store: QueryFixture.store
                    ).matches(QueryLibrary().works[0])
                }
                continuation.resume()
            }
            thread.stackSize = 4 << 20
            thread.start()
        }
    }

    @Test func aLongListIsNoNesting() throws {
        let list = "{" + (0..<10_000).map { "\($0) + 1" }.joined(separator: ", ") + "}"
        guard case .collection(let elements) = try QueryExpression(format: list) else {
            Issue.record("no collection")
            return
        }
        #expect(elements.count == 10_000)
    }
}
