import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire extract ARCHIVE PATH`
struct ExtractCommand: AsyncParsableCommand, ResultPrinting {
    static let configuration = CommandConfiguration(
        commandName: "extract",
        abstract: "Unpacks an archive into a document package.",
        discussion: """
            An archive written by export is verified: its files must be exactly those in its \
            manifest. A folder, or a zip, tar or 7z archive from another program, must contain one \
            document, at any depth; files that are not part of the document are omitted. The archive \
            of a protected document opens with the document's keys. Without a key, only its keybag \
            and the headers of its files are checked.

            EXAMPLES:
              quire extract Library.zip Library.quire
              curl -s https://example.org/Library.zip | quire extract - Library.quire
            """)

    @Argument(
        help: ArgumentHelp("An archive or a folder, or - for standard input.", valueName: "ARCHIVE")
    )
    var archive: String

    @Argument(help: ArgumentHelp("The package to create.", valueName: "PATH"))
    var path: String

    @Flag(help: "Extract a document that was exported with --keep-damage.")
    var keepDamage = false

    @Flag(help: "Print JSON, as info does.")
    var json = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    /// The name of the archive in sentences.
    private var source: String { archive == "-" ? "standard input" : archive }

    @MainActor
    func run() async throws {
        let unlocking = { domain in try unlock.unlock(domain, of: source, asks: false) }
        let extracted = try ProgressBar.showing("Extracting \(source)", of: .bytes) { progress in
            archive == "-"
                ? try DocumentPackage.extract(
                    STDIN_FILENO, named: source, to: path, keepingDamage: keepDamage,
                    progress: progress, unlocking: unlocking)
                : try DocumentPackage.extract(
                    archive, to: path, keepingDamage: keepDamage, progress: progress,
                    unlocking: unlocking)
        }
        defer { reportUnverified(extracted) }
        // It is extracted, whatever comes of looking at it.
        do {
            if extracted.isStoreChecked {
                try await report()
            } else {
                try reportLocked()
            }
        } catch is OutputClosed {} catch {
            Output.report(
                "\(Failure(error, of: Self.self).sentence) \(source) was extracted to \(path).")
        }
    }

    private func reportUnverified(_ extracted: ExtractedArchive) {
        if extracted.isVerified { return }
        Output.report(
            "“\(source)” has no manifest, so its files could not be verified as complete and unchanged."
        )
        let omitted = extracted.omittedPaths
        if omitted.isEmpty { return }
        let named = omitted.prefix(3).map { "“\($0)”" }.joined(separator: ", ")
        let more = omitted.count > 3 ? " and \(omitted.count - 3) more" : ""
        Output.report("Omitted, because they are not part of the document: \(named)\(more).")
    }

    @MainActor
    private func report() async throws {
        let document = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try await DocumentInfo(of: document)
        try await document.close()
        let objects = info.entities.reduce(0) { $0 + $1.count }
        try printResult(
            levels: 2, ["Extracted \(source) to \(path): \(Count.of(objects, "object"))."]
        ) { .object(info.members) }
    }

    private func reportLocked() throws {
        let protection = try DocumentPackage.fileProtection(at: path)
        try printResult(["Extracted \(source) to \(path)."]) {
            .object([
                "path": .string(path), "kind": .string("package"),
                "protection": ProtectionListing.json(protection, isLocked: true),
            ])
        }
        Output.report(
            "“\(path)” is protected (\(protection.rawValue)) and locked: only its keybag and the headers of its files were checked. Run “quire check” with a key to check the rest."
        )
    }
}
