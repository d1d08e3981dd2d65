import ArgumentParser
import Quire
import QuireDocuments

/// `quire revert PATH`
struct RevertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revert",
        abstract: "Discards a document's unsaved changes, or replaces its content.",
        discussion: """
            A document contains unsaved changes, as a draft, if a program could not save them \
            before it ended. With --to, the content of another document replaces the document's \
            content, completely or not at all. The old content is kept as a version; the draft is \
            discarded.

            EXAMPLES:
              quire revert Library.quire
              quire revert Library.quire --to Backup.quire
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("The document with the new content.", valueName: "OTHER"))
    var to: String?

    @OptionGroup var opening: OpeningOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try opening.unlock.unlock(path)
        if let to { try opening.unlock.unlock(to) }
        let package = try DocumentPackage.open(at: path, waiting: wait.lockWait(for: path))
        let hadDraft = try package.hasDraft()
        do {
            if let to {
                try replaceContent(of: package, with: to)
            } else if hadDraft {
                try package.removeDraft()
            }
        } catch {
            try? package.close()
            throw error
        }
        package.closeSaved()
        let draft = hadDraft ? " The draft of its unsaved changes was discarded." : ""
        let sentence =
            to.map { "Reverted \(path) to \($0).\(draft)" }
            ?? (hadDraft
                ? "Reverted \(path): its unsaved changes were discarded."
                : "\(path) has no unsaved changes.")
        try opening.printResult(levels: 0, [sentence]) {
            .object([
                "path": .string(path), "droppedDraft": .boolean(hadDraft),
                "revertedTo": JSONValue(to),
            ])
        }
    }

    private func replaceContent(of package: DocumentPackage, with path: String) throws {
        let other = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? other.close() }
        try package.keepVersion(reason: .beforeRestoring, onlyIfNew: true)
        let replaced = try package.replaceContent(with: other)
        package.closeSaved()
        // A failure before leaves it.
        try replaced.removeDraft()
        replaced.removeReplacedContent()
        replaced.closeSaved()
    }
}
