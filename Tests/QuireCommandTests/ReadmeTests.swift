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

    @Test(arguments: ["ReadmeExample", "TypedReadmeExample"].enumerated().map { ($0, $1) })
    func codeOfTheReadmeIsTheExample(index: Int, name: String) throws {
        let example = Checkout.path + "/Tests/\(name)/main.swift"
        #expect(try blocks("swift")[index] == String(contentsOfFile: example, encoding: .utf8))
    }

    @Test(arguments: ["ReadmeExample", "TypedReadmeExample"].enumerated().map { ($0, $1) })
    func codePrintsWhatTheReadmeShows(index: Int, name: String) throws {
        let result = try CommandShell().run(name)
        #expect(result.code == 0)
        #expect(try blocks("text")[index] == result.output)
    }
}
