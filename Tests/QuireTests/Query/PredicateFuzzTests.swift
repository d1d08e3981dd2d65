import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Texts that nobody would write: they are read or refused, and what is read is printed, read again and tested on an object.
@Suite struct PredicateFuzzTests {
    /// How long each test goes on: seconds, and with `QUIRE_TORTURE=1` five minutes, ten together.
    private static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    private static let rounds = isTorture ? Int.max : 800
    private static let seconds = isTorture ? 300.0 : 10.0

    private static let words = [
        "title", "year", "tags", "author.name", "tags.name", "==", "!=", "<", "<=", ">", "=", "!",
        "AND", "OR", "NOT", "ANY", "ALL", "NONE", "IN", "BETWEEN", "LIKE", "MATCHES", "TEXT",
        "CONTAINS",
        "BEGINSWITH", "(", ")", "{", "}", "[", "]", "c", "cd", "n", ",", "'x'", "\"", "'", "\\",
        "%@", "%K", "%d", "%", "$", "$x", "$t", "$t.name", "#", ".", "@", "@count", ".@count",
        ".@sum.weight",
        "1", "0", "-1", "1815", "0x", "-", "+", "*", "/", "**", "&", "|", "^", "~", "<<", ">>",
        "1e", "1e9",
        "CAST(", "'NSDate'", "'NSString'", "NULL", "YES", "SELF", "TRUEPREDICATE", "SUBQUERY(",
        "TERNARY(",
        "FUNCTION(", "'length'", "'valueForKeyPath:'", "uppercase(", "sum(", "modulus:by:(",
        "now()", "random(",
        "UNION", "INTERSECT", "MINUS", "FIRST", "[LAST]", "[0]", ":", "?", "\u{301}", "\u{0}", "é",
        "😀",
    ]

    private static let seeds: [String] =
        PredicateMeaningTests.meanings.map(\.text)
        + ExpressionFormatTests.predicates.map(\.text)
        + (PredicateParserTests.comparisons + PredicateParserTests.literals
        + PredicateParserTests.logic).map(\.text)

    @Test func soupNeverStopsTheParser() throws {
        try fuzz { generator in
            let count = Int.random(in: 0...14, using: &generator)
            return (0..<count).map { _ in Self.words.randomElement(using: &generator) ?? "" }
                .joined(separator: Bool.random(using: &generator) ? " " : "")
        }
    }

    @Test func mutationsNeverStopTheParser() throws {
        try fuzz { generator in
            var text = Array((Self.seeds.randomElement(using: &generator) ?? "").unicodeScalars)
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                Self.mutate(&text, &generator)
            }
            var view = String.UnicodeScalarView()
            view.append(contentsOf: text)
            return String(view)
        }
    }

    private static func mutate(_ text: inout [Unicode.Scalar], _ generator: inout SeededRandom) {
        let start = Int.random(in: 0...text.count, using: &generator)
        let end = min(text.count, start + Int.random(in: 0...8, using: &generator))
        let other = Array((seeds.randomElement(using: &generator) ?? "").unicodeScalars)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: text.removeSubrange(start..<end)
        case 1: text.insert(contentsOf: text[start..<end], at: start)
        case 2:
            let word = words.randomElement(using: &generator) ?? ""
            text.replaceSubrange(start..<end, with: word.unicodeScalars)
        case 3:
            let word = words.randomElement(using: &generator) ?? ""
            text.insert(contentsOf: " \(word) ".unicodeScalars, at: start)
        default:
            let first = Int.random(in: 0...other.count, using: &generator)
            let last = Int.random(in: first...other.count, using: &generator)
            text.replaceSubrange(start..<end, with: other[first..<last])
        }
    }

    private func fuzz(_ text: (inout SeededRandom) -> String) throws {
        let library = try QueryLibrary()
        let end = Date().addingTimeInterval(Self.seconds)
        var seed = SeededRandom.baseSeed
        var read = 0
        var round = 0
        while round < Self.rounds, Date() < end {
            var generator = SeededRandom(seed: seed)
            let text = text(&generator)
            do {
                read += try check(text, library) ? 1 : 0
            } catch {
                Issue.record("QUIRE_SEED=\(seed): “\(text)”: \(error)")
            }
            seed &+= 1
            round += 1
        }
        if Self.isTorture { print("\(round) texts, of which \(read) could be read") }
        #expect(read > 0)
    }

    /// Whether a text is a predicate or an expression; an error if what happens is none of what may.
    private func check(_ text: String, _ library: QueryLibrary) throws -> Bool {
        let arguments: [(any QueryArgument)?] = Array(
            repeating: "title",
            count: text.split(separator: "%", omittingEmptySubsequences: false).count - 1)
        let predicate = try refusing {
            try QueryPredicate(format: text, arguments: arguments)
        }
        if let predicate {
            let again = try QueryPredicate(format: predicate.format)
            #expect(again == predicate, "“\(text)” as “\(predicate.format)”")
            #expect(again.format == predicate.format)
            for work in library.works { _ = try refusing { try predicate.isSatisfied(by: work) } }
            let query = try refusing {
                try ResolvedQuery(
                    FetchSpecification("Work", predicate: predicate), in: QueryFixture.layout,
                    store: QueryFixture.store)
            }
            for work in library.works { _ = try refusing { try query?.matches(work) } }
        }
        let expression = try refusing {
            try QueryExpression(format: text, arguments: arguments)
        }
        if let expression {
            #expect(try QueryExpression(format: expression.description) == expression, "“\(text)”")
        }
        return predicate != nil || expression != nil
    }

    /// `nil` where a text is refused as it may be.
    private func refusing<Value>(_ body: () throws -> Value) throws -> Value? {
        do {
            return try body()
        } catch let error as QuireError
            where [.invalidQuery, .invalidValue, .unknownKey, .unsupported].contains(error.code)
        {
            return nil
        }
    }
}
