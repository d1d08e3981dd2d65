import Foundation
import QuireTestSupport
import Testing

/// Runs the transcripts in `Transcripts/`: what the command prints is compared to the last character.
///
/// `QUIRE_UPDATE_TRANSCRIPTS=1` writes what it prints now into the files instead; read the difference before
/// you commit it.
@Suite struct TranscriptTests {
    private static let folder = Checkout.path + "/Tests/QuireCommandTests/Transcripts"

    static let names: [String] =
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [])
        .filter { $0.hasSuffix(".txt") }.sorted()

    /// All of them with the command beside the tests; of the one that `make test-optimized` builds a third, others with each commit.
    static let tested =
        TestProgram.folder == nil
        ? names : SeededRandom.sample(of: names, names.count / 3, for: "transcripts")

    @Test func thereAreTranscripts() { #expect(!Self.names.isEmpty) }

    @Test(arguments: tested)
    func commandPrintsWhatTheTranscriptSays(_ name: String) throws {
        let path = Self.folder + "/" + name
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let actual = try Transcript(text).run()
        if ProcessInfo.processInfo.environment["QUIRE_UPDATE_TRANSCRIPTS"] == "1" {
            try Data(actual.text.utf8).write(to: URL(fileURLWithPath: path))
            return
        }
        for (expected, actual) in zip(Transcript(text).steps, actual.steps) {
            #expect(
                actual.output == expected.output,
                "\(name): $ \(expected.command)\n\(actual.output.joined(separator: "\n"))")
        }
    }
}
