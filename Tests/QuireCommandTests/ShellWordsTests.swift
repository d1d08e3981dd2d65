import Quire
import Testing

@testable import QuireCommand

@Suite struct ShellWordsTests {
    @Test(arguments: [
        ("", []),
        ("  a  b\t", ["a", "b"]),
        ("set Book/p1 title='A \"b\" c'", ["set", "Book/p1", "title=A \"b\" c"]),
        (#"a "b \"c\" \\ \d" e\ f"#, ["a", #"b "c" \ \d"#, "e f"]),
        ("a '' \"\"", ["a", "", ""]),
        ("a # comment", ["a"]),
        ("a#b", ["a#b"]),
    ])
    func lineIsSplitAsByAShell(_ line: String, _ words: [String]) throws {
        #expect(try ShellWords.split(line) == words)
    }

    /// In quadratic time this would take hours.
    @Test func longWordsTakeLinearTime() throws {
        let word = String(repeating: "word", count: 500_000)
        #expect(try ShellWords.split("set \(word) '\(word)'") == ["set", word, word])
    }

    @Test(arguments: ["'a", "\"a", "a\\", "\"a\\"])
    func unfinishedLineIsRefused(_ line: String) {
        #expect(throws: QuireError.self) { try ShellWords.split(line) }
    }
}

@Suite struct AssignmentTests {
    @Test(arguments: [
        ("a=", "a", Assignment.Source.none), ("a=b=c", "a", .text("b=c")),
        ("a=@f", "a", .file("f")), ("a=@@f", "a", .text("@f")), ("a.b=1", "a.b", .text("1")),
    ])
    func wordIsTakenApart(_ word: String, _ key: String, _ source: Assignment.Source) throws {
        let assignment = try Assignment(word)
        #expect(assignment.key == key)
        #expect(assignment.source == source)
    }

    @Test(arguments: [
        ("+a=1", "a", Assignment.Action.add), ("a+=1", "a", .add), ("-a=1", "a", .remove),
        ("a-=1", "a", .remove), ("a.b+=1", "a.b", .add), ("a=+1", "a", .set), ("a=-1", "a", .set),
    ])
    func signAddsOrRemoves(_ word: String, _ key: String, _ action: Assignment.Action) throws {
        let assignment = try Assignment(word)
        #expect(assignment.key == key)
        #expect(assignment.action == action)
    }

    @Test func removalDoesNotLookLikeOptions() {
        let words = ["set", "D", "-tags=a=b", "-tags.name=x\ny", "-t=1", "--where", "a=-b", "-"]
        #expect(
            Assignment.withoutLeadingDashes(words)
                == ["set", "D", "tags-=a=b", "tags.name-=x\ny", "-t=1", "--where", "a=-b", "-"])
        #expect(Assignment.withoutLeadingDashes(["fetch", "-tags=a"]) == ["fetch", "-tags=a"])
    }

    @Test(arguments: ["=b", "ab", ""])
    func wordWithoutAKeyIsRefused(_ word: String) {
        #expect(throws: (any Error).self) { try Assignment(word) }
    }
}
