import Foundation
import Testing

/// What README.md shows is what happens.
@Suite struct ReadmeTests {
    /// The fenced blocks of a language.
    private func blocks(_ language: String) throws -> [String] {
        let readme = try String(contentsOfFile: Checkout.path + "/README.md", encoding: .utf8)
        return readme.components(separatedBy: "```\(language)\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
    }

    @Test func commandPrintsWhatTheReadmeShows() throws {
        let block = try #require(try blocks("console").first)
        let transcript = Transcript(block)
        #expect(transcript.steps.count >= 5)
        let actual = try transcript.run(after: "ln -s \"$ROOT/SampleDocs\" SampleDocs")
        #expect(actual.text == block)
    }

    /// The programs that blocks of the README make, one block after the other.
    private static let examples: [(name: String, blocks: [Int])] = [
        ("ReadmeExample", [0, 2, 3]), ("TypedReadmeExample", [1]),
    ]

    @Test(arguments: examples)
    func codeOfTheReadmeIsTheExample(name: String, numbers: [Int]) throws {
        let example = Checkout.path + "/Tests/\(name)/main.swift"
        let all = try blocks("swift")
        #expect(
            try numbers.map { all[$0] }.joined(separator: "\n")
                == String(contentsOfFile: example, encoding: .utf8))
    }

    @Test(arguments: examples)
    func codePrintsWhatTheReadmeShows(name: String, numbers: [Int]) throws {
        let result = try CommandShell().run(name)
        #expect(result.code == 0)
        let all = try blocks("text")
        #expect(numbers.map { all[$0] }.joined() == result.output)
    }
}
