import Foundation
import Quire
import Testing

@Suite struct PredicateParserTests {
    /// A predicate's text, and how it is printed; the same where there is no second text.
    struct Reading: CustomTestStringConvertible {
        let text: String
        let printed: String
        let arguments: [(any QueryArgument & Sendable)?]

        init(
            _ text: String, _ printed: String? = nil,
            _ arguments: (any QueryArgument & Sendable)?...
        ) {
            self.text = text
            self.printed = printed ?? text
            self.arguments = arguments
        }

        var testDescription: String { text }
    }

    static let comparisons: [Reading] = [
        Reading("title == \"Emma\""),
        Reading("title = 'Emma'", "title == \"Emma\""),
        Reading("title=='Emma'", "title == \"Emma\""),
        Reading("year != 1815"),
        Reading("year <> 1815", "year != 1815"),
        Reading("year < 1815"),
        Reading("year > 1815"),
        Reading("year <= 1815"),
        Reading("year =< 1815", "year <= 1815"),
        Reading("year >= 1815"),
        Reading("year => 1815", "year >= 1815"),
        Reading("year>=-1815", "year >= -1815"),
        Reading("title BEGINSWITH \"E\""),
        Reading("title beginswith 'E'", "title BEGINSWITH \"E\""),
        Reading("title BeginsWith[cd] 'E'", "title BEGINSWITH[cd] \"E\""),
        Reading("title ENDSWITH [dc] 'a'", "title ENDSWITH[cd] \"a\""),
        Reading("title CONTAINS[c] \"mm\""),
        Reading("title CONTAINS[ d ] 'mm'", "title CONTAINS[d] \"mm\""),
        Reading("title LIKE \"*mm?\""),
        Reading("title MATCHES '\\\\d+'", "title MATCHES \"\\\\d+\""),
        Reading("title MATCHES '\\d+'", "title MATCHES \"\\\\d+\""),
        Reading("title ==[c] \"emma\""),
        Reading("title <[cd] 'b'", "title <[cd] \"b\""),
        Reading("title IN {\"Emma\", 'Persuasion'}", "title IN {\"Emma\", \"Persuasion\"}"),
        Reading("title in[c] {'a','b'}", "title IN[c] {\"a\", \"b\"}"),
        Reading("title IN {}"),
        Reading("year BETWEEN {1800, 1820}"),
        Reading("year between { 1800 , 1820 }", "year BETWEEN {1800, 1820}"),
        Reading("\"Emma\" == title"),
        Reading("first == last"),
        Reading("author.name == \"Jane\""),
        Reading("author.mentor.name == \"x\""),
        Reading("SELF.author.name == 'Jane'", "author.name == \"Jane\""),
        Reading("SELF == $object"),
        Reading("self IN {$a, $b}", "SELF IN {$a, $b}"),
        Reading("parent == $parent"),
        Reading("lastName LIKE \"Duck*\""),
        Reading("ANY tags.name == \"new\""),
        Reading("SOME tags.name == 'new'", "ANY tags.name == \"new\""),
        Reading("any tags.name IN {'a'}", "ANY tags.name IN {\"a\"}"),
        Reading("ALL works.year > 1800"),
        Reading("NONE tags.name == 'new'", "NOT ANY tags.name == \"new\""),
        Reading("NOT ANY tags.name == \"new\""),
        Reading("(year) > 5", "year > 5"),
        Reading("((year)) > (5)", "year > 5"),
        Reading("#in == 1"),
        Reading("#Any.#all == 1", "#Any.#all == 1"),
        Reading("place.in == 1", "place.#in == 1"),
        Reading("#title == 1", "title == 1"),
        Reading("#self == 1"),
        Reading("größe == 1"),
        Reading("_x1 == 1"),
    ]

    static let literals: [Reading] = [
        Reading("a == 0"),
        Reading("a == 0x1F", "a == 31"),
        Reading("a == -0X1f", "a == -31"),
        Reading("a == 0b101", "a == 5"),
        Reading("a == 0o17", "a == 15"),
        Reading("a == +3", "a == 3"),
        Reading("a == 9223372036854775807"),
        Reading("a == -9223372036854775808"),
        Reading("a == 1.5"),
        Reading("a == .5", "a == 0.5"),
        Reading("a == -.5e1", "a == -5.0"),
        Reading("a == 1e3", "a == 1000.0"),
        Reading("a == 2.5E-3", "a == 0.0025"),
        Reading("a == 1e300", "a == 1e+300"),
        Reading("a == YES"),
        Reading("a == true", "a == YES"),
        Reading("a == no", "a == NO"),
        Reading("a == FALSE", "a == NO"),
        Reading("a == nil"),
        Reading("a == NULL", "a == nil"),
        Reading("a == ''", "a == \"\""),
        Reading("a == 'it\\'s'", "a == \"it's\""),
        Reading("a == \"say \\\"yes\\\"\""),
        Reading("a == 'tab\\tline\\nreturn\\r'", "a == \"tab\\tline\\nreturn\\r\""),
        Reading("a == 'back\\\\slash'", "a == \"back\\\\slash\""),
        Reading("a == '\\u00e9\\u00C9'", "a == \"éÉ\""),
        Reading("a == '\\uD83D\\uDE00'", "a == \"😀\""),
        Reading("a == '\\0'", "a == \"\\u0000\""),
        Reading("a == '%@ %d'", "a == \"%@ %d\""),
        Reading("a == \"\u{301}x\""),
        Reading("a == CAST(0, 'NSDate')", "a == CAST(0.0, \"NSDate\")"),
        Reading("a == CAST(-0.25, 'NSDate')", "a == CAST(-0.25, \"NSDate\")"),
        Reading("a == CAST('2001-01-01T00:00:01Z', 'NSDate')", "a == CAST(1.0, \"NSDate\")"),
        Reading(
            "a == CAST('2001-01-02T01:00:00+01:00', 'NSDate')", "a == CAST(86400.0, \"NSDate\")"),
        Reading("a == CAST('2001-01-02', 'NSDate')", "a == CAST(86400.0, \"NSDate\")"),
        Reading(
            "a == cast('5b7e8a1c-9f0d-4c52-8e6b-3a1d2c4f6e70', 'NSUUID')",
            "a == CAST(\"5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70\", \"NSUUID\")"),
        Reading("a == CAST(\"https://example.org/\", \"NSURL\")"),
        Reading("a == CAST(\"AAEC\", \"NSData\")"),
        Reading("a == CAST(\"12.25\", \"NSDecimalNumber\")"),
        Reading("a == CAST(3, \"NSDecimalNumber\")", "a == CAST(\"3\", \"NSDecimalNumber\")"),
        Reading("a == CAST(\"inf\", \"NSNumber\")"),
        Reading("a == CAST(3, \"NSNumber\")", "a == 3"),
    ]

    static let logic: [Reading] = [
        Reading("TRUEPREDICATE"),
        Reading("falsepredicate", "FALSEPREDICATE"),
        Reading("a == 1 AND b == 2"),
        Reading("a == 1 && b == 2", "a == 1 AND b == 2"),
        Reading("a == 1 || b == 2", "a == 1 OR b == 2"),
        Reading("a==1&&b==2||!c==3", "(a == 1 AND b == 2) OR NOT c == 3"),
        Reading("a == 1 OR b == 2 AND c == 3", "a == 1 OR (b == 2 AND c == 3)"),
        Reading("(a == 1 OR b == 2) AND c == 3"),
        Reading("a == 1 AND b == 2 AND c == 3"),
        Reading("a == 1 AND (b == 2 AND c == 3)"),
        Reading("(a == 1)", "a == 1"),
        Reading("((a == 1) AND ((b == 2)))", "a == 1 AND b == 2"),
        Reading("NOT a == 1"),
        Reading("not (a == 1 or b == 2)", "NOT (a == 1 OR b == 2)"),
        Reading("NOT NOT a == 1"),
        Reading("!(a == 1)", "NOT a == 1"),
        Reading("NOT a == 1 AND b == 2"),
        Reading("(a) == 1 AND (b == (2))", "a == 1 AND b == 2"),
        Reading("\n a\t== \r\n1 ", "a == 1"),
    ]

    static let arguments: [Reading] = [
        Reading("title == %@", "title == \"Emma\"", "Emma"),
        Reading("title == %@", "title == nil", nil),
        Reading("title == %@", "title == \"a\\\" OR TRUEPREDICATE\"", "a\" OR TRUEPREDICATE"),
        Reading("%K == %@", "author.name == 1", "author.name", 1),
        Reading("%K == 1", "#in == 1", "in"),
        Reading("%K == 1", "SELF == 1", "SELF"),
        Reading("%K == %K", "a == b", "a", "b"),
        Reading("%@ == %@", "1 == 2", 1, 2),
        Reading("a == %d", "a == -3", -3),
        Reading(
            "a == %i OR a == %u OR a == %x", "a == 1 OR a == 2 OR a == 3", 1, UInt8(2), Int16(3)),
        Reading(
            "a == %ld OR a == %lld OR a == %lu", "a == 1 OR a == 2 OR a == 3", 1, Int64(2), UInt(3)),
        Reading("a == %hd OR a == %qi OR a == %zd", "a == 1 OR a == 2 OR a == 3", 1, 2, 3),
        Reading("a == %d", "a == YES", true),
        Reading("a == %f", "a == 1.5", 1.5),
        Reading("a == %lf", "a == 2.0", 2),
        Reading("a == %g", "a == 0.5", Float(0.5)),
        Reading("a == %@", "a == YES", true),
        Reading("a == %@", "a == CAST(\"18446744073709551615\", \"NSDecimalNumber\")", UInt64.max),
        Reading("a == %@", "a == CAST(60.0, \"NSDate\")", Date(timeIntervalSinceReferenceDate: 60)),
        Reading("a == %@", "a == CAST(\"AQI=\", \"NSData\")", Data([1, 2])),
        Reading("a == %@", "a == CAST(\"1.1\", \"NSDecimalNumber\")", Decimal(string: "1.1")),
        Reading("a == %@", "a == CAST(\"file:///x\", \"NSURL\")", URL(string: "file:///x")),
        Reading("a IN %@", "a IN {1, 2}", [1, 2]),
        Reading("a IN %@", "a IN {\"x\", nil}", ["x", nil]),
        Reading("a IN %@", "a IN {1, \"x\"}", [1, "x"] as [AttributeValue]),
        Reading("a IN {%@, %d}", "a IN {\"x\", 2}", "x", 2),
        Reading("a BETWEEN %@", "a BETWEEN {1, 5}", 1...5),
        Reading("a == %@", "a == b.c", QueryExpression.key("b.c")),
        Reading("ANY %K ==[c] %@", "ANY tags.name ==[c] \"x\"", "tags.name", "x"),
    ]

    @Test(arguments: comparisons + literals + logic + arguments)
    func readsAndPrints(_ reading: Reading) throws {
        let predicate = try QueryPredicate(format: reading.text, arguments: reading.arguments)
        #expect(predicate.format == reading.printed)
        #expect(try QueryPredicate(format: predicate.format) == predicate)
    }

    @Test func readsIntoTheTree() throws {
        #expect(
            try QueryPredicate(format: "NOT (a.b > 1 OR ANY c.d ==[c] %@)", "x")
                == .not(
                    .or([
                        .comparison(QueryComparison(.keyPath(["a", "b"]), .greater, .constant(1))),
                        .comparison(
                            QueryComparison(
                                .keyPath(["c", "d"]), .equal, .constant("x"), modifier: .any,
                                options: .caseInsensitive)),
                    ])))
    }

    @Test func objectIdentifiersPrintAsURIs() throws {
        let uri = "x-coredata://U/Book/p1"
        let predicate = try QueryPredicate(format: "author == CAST('\(uri)', 'NSManagedObjectID')")
        let expected = try #require(URL(string: uri))
        #expect(predicate == .comparison(.init(.key("author"), .equal, .constant(.uri(expected)))))
    }

    // MARK: - Errors

    /// A text that cannot be read, the column of the error, and a part of the sentence.
    struct Failure: CustomTestStringConvertible {
        let text: String
        let column: Int?
        let sentence: String
        let arguments: [(any QueryArgument & Sendable)?]

        init(
            _ text: String, _ column: Int?, _ sentence: String,
            _ arguments: (any QueryArgument & Sendable)?...
        ) {
            self.text = text
            self.column = column
            self.sentence = sentence
            self.arguments = arguments
        }

        var testDescription: String { text }
    }

    static let failures: [Failure] = [
        Failure("", 1, "expected a key path or a value at column 1, where it ends"),
        Failure("title", 6, "expected a comparison operator such as == or BEGINSWITH at column 6"),
        Failure("title ==", 9, "expected a key path or a value at column 9, where it ends"),
        Failure("title == ==", 10, "expected a key path or a value at column 10, but found “==”"),
        Failure(
            "title == 1 year", 12, "expected AND, OR or the end at column 12, but found “year”"),
        Failure("title == 1 AND", 15, "expected a key path or a value at column 15"),
        Failure("AND title == 1", 1, "expected a key path or a value at column 1, but found “AND”"),
        Failure("(title == 1", 12, "expected AND, OR or ) at column 12, where it ends"),
        Failure("title == 1)", 11, "expected AND, OR or the end at column 11, but found “)”"),
        Failure("(title) == (1", 14, "expected ) at column 14"),
        Failure("()", 2, "expected a key path or a value at column 2, but found “)”"),
        Failure("title == 'Emma", 15, "expected a closing ' at column 15"),
        Failure("title == \"Emma'", 16, "expected a closing \" at column 16"),
        Failure("title == 'a\\", 13, "expected a closing '"),
        Failure(
            "title == '\\u12'", 11, "expected four hexadecimal digits in the escape at column 11"),
        Failure("title == '\\uD800'", 11, "expected a Unicode character in the escape"),
        Failure("title & year", 13, "expected a comparison operator such as == or BEGINSWITH"),
        Failure("title == 1 | year == 2", 19, "expected AND, OR or the end at column 19"),
        Failure(
            "title ? 1", 7, "expected a key, a value or an operator at column 7, but found “?”"),
        Failure("title == -", 11, "expected a key path or a value at column 11"),
        Failure("title == +a", 10, "expected a key path or a value at column 10, but found “+”"),
        Failure("title == .", 11, "expected a name at column 11"),
        Failure("title == .a", 10, "expected a key path or a value at column 10, but found “.a”"),
        Failure("title == 1.5.2", 13, "expected the end of the number at column 13"),
        Failure("title == 1e", 12, "expected the digits of an exponent at column 12"),
        Failure("title == 12ab", 12, "expected the end of the number at column 12, but found “a”"),
        Failure("title == 0xZZ", 10, "expected an integer of at most 64 bits at column 10"),
        Failure("title == 9223372036854775808", 10, "expected an integer of at most 64 bits"),
        Failure("title == 1e999", 10, "expected a number of at most 64 bits at column 10"),
        Failure("author. == 1", 8, "expected a name at column 8"),
        Failure("author..name == 1", 8, "expected a name at column 8, but found “.”"),
        Failure("# == 1", 2, "expected a name at column 2"),
        Failure("$ == 1", 2, "expected a name at column 2"),
        Failure(
            "title BEGINSWITH[x] 'a'", 18, "expected c, d, n or l between [ and ] at column 18"),
        Failure("title BEGINSWITH[] 'a'", 18, "expected c, d, n or l between [ and ]"),
        Failure("title BEGINSWITH[c 'a'", 20, "expected ] at column 20"),
        Failure("title IN {1, 2", 15, "expected , or } at column 15"),
        Failure("title IN {1 2}", 13, "expected , or } at column 13, but found “2”"),
        Failure("title IN {1,}", 13, "expected a key path or a value at column 13"),
        Failure(
            "year BETWEEN {1}", 14, "expected the two bounds of BETWEEN at column 14, but found 1"),
        Failure("year BETWEEN {1,2,3}", 14, "expected the two bounds of BETWEEN"),
        Failure("year == CAST(1)", 15, "expected a comma and the name of a type at column 15"),
        Failure("year == CAST 1", 14, "expected ( after CAST at column 14"),
        Failure("year == CAST(1, NSDate)", 17, "expected the name of a type in quotation marks"),
        Failure("year == CAST(1, 'Car')", 17, "expected one of the types NSDate, NSUUID"),
        Failure(
            "year == CAST('x', 'NSDate')", 14, "expected an ISO 8601 date or seconds since 2001"),
        Failure("year == CAST('x', 'NSUUID')", 14, "expected a UUID at column 14"),
        Failure("year == CAST('x', 'NSDecimalNumber')", 14, "expected a decimal number"),
        Failure("ANY == 1", 5, "expected a key path or a value at column 5"),
        Failure(
            "ANY ALL tags == 1", 5, "expected a key path or a value at column 5, but found “ALL”"),
        Failure("NOT", 4, "expected a key path or a value at column 4"),
        Failure(
            "title NOT IN {1}", 7,
            "expected a comparison operator at column 7, but found “NOT”; put NOT before"),
        Failure("TRUEPREDICATE == 1", 15, "expected AND, OR or the end at column 15"),
        // As in SQL.
        Failure("year IS NULL", 6, "but found “IS”; write == nil."),
        Failure("year is not null", 6, "but found “is”; write != nil."),
        Failure("year IS 3", 6, "but found “IS”; write == 3."),
        Failure("year BETWEEN 1 AND 2", 16, "write the bounds in braces: BETWEEN {1, 2}."),
        Failure("year IN (1, 2)", 11, "write lists in braces: {1, 2}."),
        Failure("title == Jane Austen", 15, "put text in quotation marks: \"Jane Austen\"."),
        Failure("title ILIKE 'a*'", 7, "but found “ILIKE”; write LIKE[c]."),
        Failure("title contain 'a'", 7, "but found “contain”; write CONTAINS."),
        Failure("isRead AND year > 3", 8, "to test whether it is true, write isRead == YES."),
        Failure("len(title) > 3", 1, "but found “len”; did you mean “length”?"),
        Failure("added > 2020-01-31", 9, "expected quotation marks around a date at column 9"),
        Failure("title == %", 10, "expected a placeholder such as %@, %K, %d or %f at column 10"),
        Failure("title == %s", 10, "expected a placeholder"),
        Failure("title == %l@", 10, "expected a placeholder"),
        Failure("title == %%", 10, "expected a value, not %% outside quotation marks at column 10"),
        Failure("title == %@", 10, "has 1 placeholder, but is given 0 arguments"),
        Failure("title == %@ AND %K == 1", 17, "has 2 placeholders, but is given 1 argument", "x"),
        Failure("title == 1", nil, "has 0 placeholders, but is given 2 arguments", 1, 2),
        Failure(
            "title == %d", 10, "%d at column 10 needs an integer, but argument 1 is \"x\"", "x"),
        Failure("title == %d", 10, "needs an integer, but argument 1 is 1.5", 1.5),
        Failure("title == %f", 10, "needs a number, but argument 1 is \"x\"", "x"),
        Failure("%K == 1", 1, "%K at column 1 needs a key path, but argument 1 is 3", 3),
        Failure("%K == 1", 1, "needs a key path, but argument 1 is \"a b\"", "a b"),
        Failure("%K == 1", 1, "needs a key path, but argument 1 is \"a..b\"", "a..b"),
        Failure("%K == 1", 1, "needs a key path, but argument 1 is \"\"", ""),
        Failure("%K == 1", 1, "needs a key path, but argument 1 is \"a == 1 OR b\"", "a == 1 OR b"),
    ]

    @Test(arguments: failures)
    func saysWhereATextCannotBeRead(_ failure: Failure) throws {
        let error = #expect(throws: QuireError.self) {
            try QueryPredicate(format: failure.text, arguments: failure.arguments)
        }
        let found = try #require(error)
        #expect(found.code == .invalidQuery)
        #expect(found.subject.position == failure.column)
        #expect(found.message.contains(failure.sentence), "\(found.message)")
    }

    @Test func nestingIsBounded() throws {
        for (open, close) in [("(", ")"), ("NOT ", ""), ("(", "")] {
            let text =
                String(repeating: open, count: 100_000) + "a == 1"
                + String(repeating: close, count: 100_000)
            let error = #expect(throws: QuireError.self) { try QueryPredicate(format: text) }
            #expect(error?.message.contains("levels of nesting") == true)
        }
        let values = String(repeating: "{", count: 50_000)
        #expect(throws: QuireError.self) { try QueryPredicate(format: "a IN " + values) }
        let parentheses = String(repeating: "(", count: 150)
        _ = try QueryPredicate(
            format: "\(parentheses)a == 1\(String(repeating: ")", count: 150))")
    }

    @Test func aLongChainIsNoNesting() throws {
        let text = Array(repeating: "a == 1", count: 5000).joined(separator: " OR ")
        guard case .or(let parts) = try QueryPredicate(format: text) else {
            Issue.record("not a disjunction")
            return
        }
        #expect(parts.count == 5000)
    }
}
