import ArgumentParser
import Quire
import QuireDocuments

/// `quire save-as PATH NEW`
struct SaveAsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "save-as",
        abstract: "Copies a document to another package.",
        discussion: """
            The new package is created completely or not at all; a package that it replaces is kept \
            until then. The document itself does not change, and may be open. Versions are not \
            copied. A damaged document is not copied; use recover instead.

            EXAMPLES:
              quire save-as Library.quire Backup.quire
              quire save-as Library.quire Backup.quire --replace
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The package to create.", valueName: "NEW"))
    var newPath: String

    @Flag(help: "Replace an existing document.")
    var replace = false

    @Flag(help: "Copy a damaged document as it is.")
    var keepDamage = false

    @OptionGroup var opening: OpeningOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try opening.unlock.unlock(path)
        let package = try openToCopy(path)
        defer { try? package.close() }
        try ProgressBar.showing("Saving \(path) as \(newPath)", of: .bytes) {
            try package.writeCopy(
                to: newPath, replacing: replace, keepingDamage: keepDamage,
                waiting: wait.lockWait(for: newPath), progress: $0)
        }
        try opening.printResult("Saved \(path) as \(newPath).", path: newPath, levels: 0)
    }
}

/// `quire duplicate PATH`
struct DuplicateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "duplicate",
        abstract: "Copies a document beside itself, under a new name.",
        discussion: """
            EXAMPLES:
              quire duplicate Library.quire
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @Flag(help: "Copy a damaged document as it is.")
    var keepDamage = false

    @OptionGroup var opening: OpeningOptions

    @MainActor
    func run() async throws {
        try opening.unlock.unlock(path)
        let package = try openToCopy(path)
        defer { try? package.close() }
        let copy = try ProgressBar.showing("Duplicating \(path)", of: .bytes) {
            try package.duplicate(keepingDamage: keepDamage, progress: $0)
        }
        try opening.printResult("Created \(copy).", path: copy, levels: 0)
    }
}

/// Opens a package, to copy it as of its last save.
private func openToCopy(_ path: String) throws -> DocumentPackage {
    try DocumentPath.requirePackage(path, "copy a store with convert, an archive with extract")
    return try DocumentPackage.open(at: path, readOnly: true)
}

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
