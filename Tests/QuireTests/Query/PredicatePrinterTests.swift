import Foundation
import Quire
import QuireTestSupport
import Testing

@Suite struct PredicatePrinterTests {
    @Test func whatIsPrintedReadsBackEqual() throws {
        let seed = SeededRandom.baseSeed
        var random = RandomPredicates(generator: SeededRandom(seed: seed))
        for round in 0..<1500 {
            let predicate = random.predicate()
            let text = predicate.format
            let read = try QueryPredicate(format: text)
            try #require(read == predicate, "seed \(seed), round \(round): \(text)")
            try #require(read.format == text, "seed \(seed), round \(round): \(text)")
        }
    }

    @Test func whatIsPrintedOfAnExpressionReadsBackEqual() throws {
        let seed = SeededRandom.baseSeed
        var random = RandomPredicates(generator: SeededRandom(seed: seed))
        for round in 0..<1500 {
            let expression = random.expression(depth: 4)
            let text = expression.description
            let read = try QueryExpression(format: text)
            try #require(read == expression, "seed \(seed), round \(round): \(text)")
            try #require(read.description == text, "seed \(seed), round \(round): \(text)")
        }
    }

    @Test func degenerateCompoundsPrintWhatTheyMean() {
        #expect(QueryPredicate.and([]).format == "TRUEPREDICATE")
        #expect(QueryPredicate.or([]).format == "FALSEPREDICATE")
        #expect(QueryPredicate.and([.constant(true)]).format == "TRUEPREDICATE")
        #expect(QueryPredicate.not(.and([])).format == "NOT TRUEPREDICATE")
    }

    @Test func randomBytesNeverStopTheParser() {
        let seed = SeededRandom.baseSeed
        var generator = SeededRandom(seed: seed)
        let words = [
            "a", "b.c", "==", "!", "AND", "OR", "NOT", "ANY", "(", ")", "{", "}", "[", "]", "c",
            ",", "'x'",
            "\"", "'", "\\", "%@", "%K", "%", "$", "$x", "#", ".", "@", "1", "0x", "-", "1e",
            "CAST", "NULL",
            "BETWEEN", "IN", "LIKE", "\u{301}", "\u{0}", "é", "TRUEPREDICATE", "SELF",
        ]
        for _ in 0..<8_000 {
            let count = Int.random(in: 0...12, using: &generator)
            let text = (0..<count).map { _ in words.randomElement(using: &generator)! }
                .joined(separator: Bool.random(using: &generator) ? " " : "")
            let placeholders =
                text.split(separator: "%", omittingEmptySubsequences: false).count - 1
            do {
                let predicate = try QueryPredicate(
                    format: text, arguments: Array(repeating: "key", count: placeholders))
                #expect(try QueryPredicate(format: predicate.format) == predicate, "\(text)")
            } catch let error as QuireError {
                #expect([.invalidQuery, .unsupported].contains(error.code), "\(seed): \(text)")
            } catch {
                Issue.record("\(text): \(error)")
            }
        }
    }
}
