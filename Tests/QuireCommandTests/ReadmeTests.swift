import Foundation
import Testing

/// The examples of README.md and of the documents' page run and print the output shown.
@Suite struct ReadmeTests {
    private static let page = "README.md"
    private static let documents = "Sources/QuireDocuments/README.md"

    @Test func commandPrintsWhatTheReadmeShows() throws {
        let readme = try String(contentsOfFile: Checkout.path + "/" + Self.page, encoding: .utf8)
        let parts = readme.components(separatedBy: "```")
        let block = String(try #require(parts.first { $0.hasPrefix("console\n") }).dropFirst(8))
        let transcript = Transcript(block)
        #expect(transcript.steps.count >= 5)
        let actual = try transcript.run(after: "ln -s \"$ROOT/SampleDocs\" SampleDocs")
        #expect(actual.text == block)
    }

    @Test func oneVersionIsNamedEverywhere() throws {
        func text(_ path: String) throws -> String {
            try String(contentsOfFile: Checkout.path + "/" + path, encoding: .utf8)
        }
        let version = try CommandShell().run("quire --version").output
            .trimmingCharacters(in: .newlines)
        #expect(version.contains(/^\d+\.\d+\.\d+$/))
        let changelog = try text("CHANGELOG.md")
        let release = changelog.matches(of: /(?m)^## \[(\d.*)\] - \d{4}-\d\d-\d\d$/).first
        #expect(release.map { String($0.1) } == version)
        #expect(try text(Self.page).contains("| age | \(version), "))
        for example in try FileManager.default.contentsOfDirectory(
            atPath: Checkout.path + "/Examples")
        {
            #expect(
                try text("Examples/\(example)/Package.swift").contains("from: \"\(version)\""),
                "\(example)")
        }
    }

    /// The programs that blocks of the pages make, one after the other. A block is known by how it begins.
    private static let examples: [(name: String, blocks: [(page: String, beginning: String)])] = [
        ("TypedReadmeExample", [(page, "import Foundation\nimport Quire\nimport QuireMacros\n")]),
        (
            "ReadmeExample",
            [
                (page, "import Quire\nimport QuireDocuments\n"),
                (documents, "try await document.open()\n"), (documents, "// Protection: "),
            ]
        ),
    ]

    /// A block of code, and the first block of output after it.
    private func example(
        _ block: (page: String, beginning: String)
    ) throws -> (code: String, output: String) {
        let text = try String(contentsOfFile: Checkout.path + "/" + block.page, encoding: .utf8)
        let start = try #require(text.range(of: "```swift\n" + block.beginning))
        let parts = text[start.lowerBound...].components(separatedBy: "```")
        let output = try #require(parts.first { $0.hasPrefix("text\n") })
        return (String(parts[1].dropFirst(6)), String(output.dropFirst(5)))
    }

    @Test(arguments: examples)
    func codeOfTheReadmeIsTheExample(
        name: String, blocks: [(page: String, beginning: String)]
    ) throws {
        let file = Checkout.path + "/Tests/\(name)/main.swift"
        #expect(
            try blocks.map { try example($0).code }.joined(separator: "\n")
                == String(contentsOfFile: file, encoding: .utf8))
    }

    @Test(arguments: examples)
    func codePrintsWhatTheReadmeShows(
        name: String, blocks: [(page: String, beginning: String)]
    ) throws {
        let result = try CommandShell().run(name)
        #expect(result.code == 0)
        #expect(try blocks.map { try example($0).output }.joined() == result.output)
    }
}
