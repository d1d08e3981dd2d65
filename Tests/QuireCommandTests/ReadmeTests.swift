import Foundation
import Testing

/// The examples of README.md and of the documents' page run and print the output shown.
@Suite struct ReadmeTests {
    private static let page = "README.md"
    private static let documents = "Sources/QuireDocuments/README.md"

    /// The fenced blocks of a language.
    private func blocks(_ language: String, of page: String = page) throws -> [String] {
        let readme = try String(contentsOfFile: Checkout.path + "/" + page, encoding: .utf8)
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

    /// The programs that blocks of the pages make, one block after the other.
    private static let examples: [(name: String, blocks: [(page: String, number: Int)])] = [
        // The first block is the manifest of its package; see `.ci/example`.
        ("ReadmeExample", [(page, 1), (documents, 0), (documents, 1)]),
        ("TypedReadmeExample", [(page, 2)]),
    ]

    /// The block of output that belongs to a block of code.
    private func output(of block: (page: String, number: Int)) throws -> String {
        let number = block.page == Self.page ? block.number - 1 : block.number
        return try blocks("text", of: block.page)[number]
    }

    @Test(arguments: examples)
    func codeOfTheReadmeIsTheExample(name: String, places: [(page: String, number: Int)]) throws {
        let example = Checkout.path + "/Tests/\(name)/main.swift"
        #expect(
            try places.map { try blocks("swift", of: $0.page)[$0.number] }.joined(separator: "\n")
                == String(contentsOfFile: example, encoding: .utf8))
    }

    @Test(arguments: examples)
    func codePrintsWhatTheReadmeShows(name: String, places: [(page: String, number: Int)]) throws {
        let result = try CommandShell().run(name)
        #expect(result.code == 0)
        #expect(
            try places.map { try output(of: $0) }.joined() == result.output)
    }
}
