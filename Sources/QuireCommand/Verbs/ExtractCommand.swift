import ArgumentParser
import Quire
import QuireDocuments

/// `quire extract ARCHIVE PATH`
struct ExtractCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "extract",
        abstract: "Unpacks an archive into a document package.",
        discussion: """
            The archive must contain a document and nothing else, exactly as listed in its \
            manifest. The archive of a protected document opens with the document's keys. Without \
            a key only its keybag and the headers of its files are checked.

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

    @OptionGroup var unlock: UnlockOptions

    @MainActor
    func run() async throws {
        let output = Output(json: json, reportsChanges: true)
        let isVerified = try DocumentPackage.extract(
            archive, to: path, keepingDamage: keepDamage,
            unlocking: { try unlock.unlock($0, of: archive, asks: false) })
        // It is extracted, whatever comes of looking at it.
        do {
            if isVerified { try await report(output) } else { try reportLocked(output) }
        } catch is OutputClosed {} catch {
            Output.report(
                "\(Failure(error, of: Self.self).sentence) \(archive) was extracted to \(path).")
        }
    }

    @MainActor
    private func report(_ output: Output) async throws {
        let document = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try await DocumentInfo(of: document)
        try await document.close()
        if json {
            try info.print(output)
        } else {
            let objects = info.entities.reduce(0) { $0 + $1.count }
            try output.print("Extracted \(archive) to \(path): \(Count.of(objects, "object")).")
        }
        try output.flush()
    }

    private func reportLocked(_ output: Output) throws {
        let protection = try DocumentPackage.fileProtection(at: path)
        if json {
            try output.print(
                .object([
                    "path": .string(path), "kind": .string("package"),
                    "protection": ProtectionListing.json(protection, isLocked: true),
                ]), levels: 1)
        } else {
            try output.print("Extracted \(archive) to \(path).")
        }
        try output.flush()
        Output.report(
            "“\(path)” is protected (\(protection.rawValue)) and locked: only its keybag and the headers of its files were checked; “quire check” with a key checks the rest."
        )
    }
}
