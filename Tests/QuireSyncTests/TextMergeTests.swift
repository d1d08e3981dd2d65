import QuireTestSupport
import Testing

@testable import QuireSync

@Suite struct TextMergeTests {
    private static let base = "one\ntwo\nthree\nfour\nfive\n"

    @Test(arguments: [
        // Different lines.
        (
            "one!\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour!\nfive\n",
            "one!\ntwo\nthree\nfour!\nfive\n"
        ),
        // Lines that follow each other.
        (
            "one\ntwo!\nthree\nfour\nfive\n", "one\ntwo\nthree!\nfour\nfive\n",
            "one\ntwo!\nthree!\nfour\nfive\n"
        ),
        // A deletion and an insertion.
        (
            "one\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nfive\nsix\n",
            "one\nthree\nfour\nfive\nsix\n"
        ),
        // The same on both sides, and something else on one.
        (
            "zero\none\ntwo\nthree\nfour\n", "zero\none\ntwo\nthree\nfour\nfive\n",
            "zero\none\ntwo\nthree\nfour\n"
        ),
        // Nothing on one side.
        (base, "", ""),
        // Without the last line's end.
        (
            "one\ntwo\nthree\nfour\nfive", "ONE\ntwo\nthree\nfour\nfive\n",
            "ONE\ntwo\nthree\nfour\nfive"
        ),
    ])
    func changesOfDifferentLinesAreMerged(_ first: String, _ second: String, _ merged: String) {
        #expect(TextMerge.merge(base: Self.base, first, second) == merged)
        #expect(TextMerge.merge(base: Self.base, second, first) == merged)
    }

    @Test(arguments: [
        // The same line.
        ("one\ntwo!\nthree\nfour\nfive\n", "one\ntwo?\nthree\nfour\nfive\n"),
        // A deletion against an edit.
        ("one\nthree\nfour\nfive\n", "one\ntwo!\nthree\nfour\nfive\n"),
        // Insertions at the same place.
        ("one\na\ntwo\nthree\nfour\nfive\n", "one\nb\ntwo\nthree\nfour\nfive\n"),
        // An insertion beside a line that is replaced.
        ("one\na\ntwo\nthree\nfour\nfive\n", "one\ntwo!\nthree\nfour\nfive\n"),
        // An insertion into what is deleted.
        ("one\nfive\n", "one\ntwo\nthree\na\nfour\nfive\n"),
    ])
    func changesOfTheSameLinesAreNot(_ first: String, _ second: String) {
        #expect(TextMerge.merge(base: Self.base, first, second) == nil)
        #expect(TextMerge.merge(base: Self.base, second, first) == nil)
    }

    @Test func bytesAreKept() {
        let base = "caf\u{e9}\r\nth\u{e9}\r\n\r\n\u{1F600}"
        let first = "cafe\u{301}\r\nth\u{e9}\r\n\r\n\u{1F600}"
        let second = base + "\u{1F601}"
        let merged = TextMerge.merge(base: base, first, second)
        #expect(merged.map { Array($0.utf8) } == Array((first + "\u{1F601}").utf8))
    }

    @Test func textsThatAreTooLargeOrTooDifferentAreNotMerged() {
        let large = String(repeating: "a", count: TextMerge.maximumSize) + "\n"
        #expect(TextMerge.merge(base: large, large, large + "b") == nil)
        func text(_ word: String) -> String {
            "begin\n" + (0..<10_000).map { "\(word)\($0)\n" }.joined() + "end"
        }
        #expect(TextMerge.merge(base: text("a"), text("b"), text("a")) == nil)
        // One block of any size that only comes or goes has no other lines to be compared with.
        let whole = text("a")
        #expect(TextMerge.merge(base: "begin\nend", whole, "begin\nend!") == nil)
        #expect(
            TextMerge.merge(base: "begin\n\nend", "begin!\n\nend", "begin\n\nend")
                == "begin!\n\nend")
        #expect(
            TextMerge.merge(
                base: "0\nbegin\nend", whole.replacing("begin", with: "0\nbegin"),
                "1\nbegin\nend") == whole.replacing("begin", with: "1\nbegin"))
    }

    @Test func changesMakeOneSequenceAnother() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for _ in 0..<2_000 {
            func lines() -> [Int] {
                (0..<Int.random(in: 0...12, using: &random)).map { _ in
                    Int.random(in: 0..<4, using: &random)
                }
            }
            let (base, new) = (lines(), lines())
            let changes = try #require(TextMerge.changes(from: base, to: new))
            var made = base
            for change in changes.reversed() {
                made.replaceSubrange(change.base, with: change.lines)
            }
            #expect(made == new)
            for (change, next) in zip(changes, changes.dropFirst()) {
                #expect(change.base.upperBound < next.base.lowerBound)
            }
            #expect(TextMerge.merge(base: base, base, new) == new)
            #expect(TextMerge.merge(base: base, new, new) == new)
            let other = lines()
            #expect(
                TextMerge.merge(base: base, new, other) == TextMerge.merge(base: base, other, new))
        }
    }
}
