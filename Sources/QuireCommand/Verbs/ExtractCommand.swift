import ArgumentParser
import Quire
import QuireDocuments

/// `quire extract ARCHIVE PATH`
struct ExtractCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "extract",
        abstract: "Unpacks an archive into a document package.",
        discussion: """
            The archive must hold a document and nothing else, exactly as its manifest lists it.

            EXAMPLES:
              quire extract Library.zip Library.quire
            """)

    @Argument(help: ArgumentHelp("The archive.", valueName: "ARCHIVE"))
    var archive: String

    @Argument(help: ArgumentHelp("The package to make.", valueName: "PATH"))
    var path: String

    @Flag(help: "Extract a document that was exported with its damage.")
    var keepDamage = false

    @Flag(help: "Print JSON, that of info.")
    var json = false

    @MainActor
    func run() async throws {
        let output = Output(json: json, tellsOfChange: true)
        try DocumentPackage.extract(archive, to: path, keepingDamage: keepDamage)
        // It is extracted, whatever comes of looking at it.
        do { try await report(output) } catch is OutputClosed {} catch {
            Output.report(
                "\(Failure(error, of: Self.self).sentence) \(archive) was extracted to \(path).")
        }
    }

    @MainActor
    private func report(_ output: Output) async throws {
        let document = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try DocumentInfo(of: document)
        try await document.close()
        if json {
            try info.print(output)
        } else {
            let objects = info.entities.reduce(0) { $0 + $1.count }
            try output.print("Extracted \(archive) to \(path): \(Count.of(objects, "object")).")
        }
        try output.flush()
    }
}
