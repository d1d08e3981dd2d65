import Foundation
import Testing

@testable import Quire
@testable import QuireQuery

@Suite struct TextComparisonTests {
    static let foldedTexts: [(text: String, c: String, d: String, cd: String)] = [
        ("Emma", "emma", "Emma", "emma"), ("ÉMMA", "émma", "EMMA", "emma"),
        ("e\u{301}", "e\u{301}", "e", "e"), ("Straße", "straße", "Straße", "straße"),
        ("ΣΑΣ", "σασ", "ΣΑΣ", "σασ"), ("σας", "σασ", "σας", "σασ"),
        ("ΆΛΦΑ", "άλφα", "ΑΛΦΑ", "αλφα"),
        ("ЁЖ", "ёж", "ЕЖ", "еж"), ("한글", "한글", "한글", "한글"), ("が", "が", "が", "が"),
        ("I", "i", "I", "i"), ("ı", "ı", "ı", "ı"), ("\u{212A}", "k", "K", "k"),
        ("ÿŸ", "ÿÿ", "yY", "yy"),
        ("😀É", "😀é", "😀E", "😀e"), ("नी", "नी", "नी", "नी"), ("a\0B", "a\0b", "a\0B", "a\0b"),
        ("", "", "", ""),
        ("Ǆǅǆ", "ǆǆǆ", "Ǆǅǆ", "ǆǆǆ"), ("שָׁלוֹם", "שָׁלוֹם", "שלום", "שלום"),
    ]

    @Test(arguments: foldedTexts)
    func foldsCaseAndDiacritics(_ row: (text: String, c: String, d: String, cd: String)) {
        func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
        #expect(bytes(TextFolding.fold(row.text, [])) == bytes(row.text))
        #expect(bytes(TextFolding.fold(row.text, .caseInsensitive)) == bytes(row.c))
        #expect(bytes(TextFolding.fold(row.text, .diacriticInsensitive)) == bytes(row.d))
        let both: QueryComparison.Options = [.caseInsensitive, .diacriticInsensitive]
        #expect(bytes(TextFolding.fold(row.text, both)) == bytes(row.cd))
        #expect(bytes(TextFolding.fold(TextFolding.fold(row.text, both), both)) == bytes(row.cd))
    }

    static let likes: [(pattern: String, text: String, matches: Bool)] = [
        ("", "", true), ("", "a", false), ("*", "", true), ("*", "abc", true), ("?", "", false),
        ("?", "é", true), ("?", "😀", true), ("a*", "abc", true), ("a*", "ba", false),
        ("*c", "abc", true), ("*b*", "abc", true), ("a?c", "abc", true), ("a?c", "ac", false),
        ("a*b*c", "aXbYc", true), ("a*b*c", "aXcYb", false), ("a**c", "ac", true),
        ("\\*", "*", true), ("\\*", "a", false), ("\\?", "?", true), ("\\\\", "\\", true),
        ("a\\b", "a\\b", true), ("\\", "\\", true), ("*aab", "aaaaab", true), ("[a]", "a", false),
        ("a.c", "abc", false), ("*\n*", "line\nbreak", true), ("a*", "a\0b", true),
    ]

    @Test(arguments: likes)
    func likeKnowsTwoWildcards(_ row: (pattern: String, text: String, matches: Bool)) {
        let pattern = TextPattern(row.pattern, [])
        #expect(pattern.matches(row.text) == row.matches)
        #expect(TextFunctions.like(pattern: row.pattern, text: row.text, options: 0) == row.matches)
    }

    @Test func likeIsNeverSlow() {
        let text = String(repeating: "a", count: 20_000)
        let start = Date()
        #expect(!TextPattern(String(repeating: "*a", count: 30) + "b", []).matches(text))
        #expect(Date().timeIntervalSince(start) < 5)
    }

    @Test func aCatastrophicExpressionEndsInAnError() throws {
        let text = String(repeating: "a", count: 200) + "c"
        let error = #expect(throws: QuireError.self) {
            try TextFunctions.matches("(a+)+b", text, [])
        }
        #expect(error?.code == .invalidQuery)
        #expect(error?.message.contains("takes too long") == true)
    }

    @Test(arguments: [
        ("", "", true), ("", "a", false), (".*", "a\nb", false), ("(?s).*", "a\nb", true),
        ("a # note", "a # note", true),
        ("(?x) a # note", "a", true), ("a|ab", "ab", true), ("\\p{L}+", "été", true),
        ("ete", "été", false),
        ("a\\z", "a", true), ("^a$", "a", true), ("a", "a\n", false), (".", "😀", true),
    ])
    func matchesTheWholeText(_ pattern: String, _ text: String, _ expected: Bool) throws {
        #expect(try TextFunctions.matches(pattern: pattern, text: text, options: 0) == expected)
    }

    @Test func matchesIgnoresWhatTheOptionsSay() throws {
        #expect(try TextFunctions.matches("É.a", "éMA", .caseInsensitive))
        #expect(try TextFunctions.matches("ete", "été", .diacriticInsensitive))
        #expect(try !TextFunctions.matches("ete", "ÉTÉ", .diacriticInsensitive))
        #expect(try TextFunctions.matches("\\D+", "abc", .caseInsensitive))
    }

    @Test func patternsAreKeptApartByBytesAndOptions() throws {
        #expect(TextFunctions.like("é", "é", []))
        #expect(!TextFunctions.like("e\u{301}", "é", []))
        #expect(TextFunctions.like("e\u{301}", "é", .diacriticInsensitive))
        for index in 0..<1000 { #expect(TextFunctions.like("\(index)*", "\(index)x", [])) }
    }
}
