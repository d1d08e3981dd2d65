import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire open PATH`
struct OpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open",
        abstract: "Opens a document and runs commands on it, one per line.",
        discussion: """
            Each line is a command without PATH, such as fetch, set or export; or undo, redo, save, revert, status, diff, \
            help, quit. Words are split as by a shell. Unsaved changes are saved at the end, even after SIGTERM. If changes \
            to a document cannot be saved, they are restored when it is opened again; if the disk is too full for that, \
            their loss is reported.

            On a terminal, lines can be edited: Tab completes, the arrow keys recall earlier lines, and a line continues \
            while a quotation mark is open. Ctrl-C discards the line, or stops a command that prints or imports, and saves \
            nothing. Ctrl-D quits. The history is in quire/history in XDG_STATE_HOME or ~/.local/state; lines that begin \
            with a space are omitted.

            Lines can also come from a pipe. An error in one is reported, the others are run, and the exit code is that of \
            the first error. With --json, each command is answered by one line of JSON on standard output, even if it fails.

            EXAMPLES:
              quire open Library.quire
              printf 'set Book/p1 rating=5\\nundo\\n' | quire open Library.quire
            """,
        aliases: ["shell"])

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("Save automatically after this time.", valueName: "SECONDS"))
    var autosave: Double?

    @OptionGroup var options: DocumentOptions
    @OptionGroup var wait: WaitOption

    func validate() throws {
        if let autosave, !(autosave > 0 && autosave < 1e9) {
            throw ValidationError("--autosave must be a positive number of seconds.")
        }
    }

    @MainActor
    func run() async throws {
        try Defaults.read(besideDocument: path)
        try options.unlock.unlock(path)
        let isTerminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
        let session = try await InteractiveSession(json: options.json, isTerminal: isTerminal) {
            try await openDocument(isTerminal: isTerminal)
        }
        UnlockOptions.forgetCredential()
        let following = Task { [path] in try await Self.followKeyring(of: path) }
        defer { following.cancel() }
        let lines = isTerminal ? terminalLines(of: session) : LineReader()
        while true {
            await session.run(lines)
            let document = session.document
            do {
                try await session.saveAtEnd()
                break
            } catch {
                var failure = Failure(error, of: QuireCommand.self)
                if let loss = document.loss {
                    if session.canGoOn {
                        session.report(failure)
                        Output.report(
                            "The session continues, because unsaved changes would be lost. Free disk space and “quit” again, or "
                                + "discard the changes with “revert”.")
                        continue
                    }
                    failure.sentence += " " + loss
                }
                // What could not be saved comes back when it is opened again.
                document.closeKeepingDraft()
                throw failure
            }
        }
        try await session.document.close()
        // What went wrong has been told already.
        if session.status != .success { throw Failure(sentence: "", status: session.status) }
    }

    /// Opens the document, at the start and after a command that needed it for itself.
    @MainActor
    private func openDocument(isTerminal: Bool) async throws -> DocumentSession {
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: .write, isInteractive: true, waiting: wait)
        document.saveOnTermination(signals: [SIGTERM, SIGHUP] + (isTerminal ? [] : [SIGINT]))
        if let autosave { try document.autosave(after: autosave) }
        return document
    }

    /// The lines that a user types.
    @MainActor
    private func terminalLines(of session: InteractiveSession) -> any LineSource {
        var historyPath: String?
        do { historyPath = try LineEditor.standardHistoryPath() } catch {
            Output.report("The history of lines is not kept: \(error)")
        }
        guard
            let editor = LineEditor(
                historyPath: historyPath, complete: { session.completions(of: $0) })
        else { return LineReader() }
        Interruption.drop(linesOf: editor)
        return editor
    }

    /// Locks the document when its key is removed from the user keyring.
    private static func followKeyring(of path: String) async throws {
        guard let domain = try UnlockOptions.domain(at: path) else { return }
        do { try await domain.followUserKeyring() } catch let error as QuireError {
            Output.report("“\(path)” no longer follows the user keyring: \(error.message)")
        }
    }
}

/// `quire status PATH`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows who has a document open, and its state.",
        discussion: """
            The document is only read, and open programs are not disturbed. Processes that have it \
            open read-only are not listed, because they leave no trace. No key is needed; for a \
            protected document only information that is readable without one is shown.

            EXAMPLES:
              quire status Library.quire
              quire status Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @OptionGroup var printing: JSONOption

    func run() async throws {
        let status = try await Self.status(at: path)
        try printing.printResult(reportsChanges: false, Self.lines(status)) {
            Self.json(status, path: path)
        }
    }

    /// Waits for the disk, and perhaps for another process, on no queue that others need.
    @concurrent
    private static func status(at path: String) async throws -> PackageStatus {
        let kind = try DocumentPath.kind(of: path)
        if kind == .archive { throw DocumentPath.archiveError(path) }
        guard kind == .package else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is not a document package; only packages have a status.", file: path)
        }
        return try DocumentPackage.status(at: path)
    }

    private static func lines(_ status: PackageStatus) -> [String] {
        var lines: [String] = []
        if let owner = status.owner {
            lines.append("Open for writing by \(OwnerListing.text(owner)).")
            switch status.ownerHasUnsavedChanges {
            case true?: lines.append("That process has unsaved changes.")
            case false?: lines.append("That process has no unsaved changes.")
            case nil: break
            }
        } else {
            lines.append("Not open for writing.")
        }
        if let date = status.lastSaved { lines.append("Last saved \(PrintedDate.text(date)).") }
        if status.fileProtection != .none {
            let state = status.isLocked ? " and locked" : ""
            lines.append("Protected (\(status.fileProtection.rawValue))\(state).")
        }
        if status.hasDraft == true {
            lines.append("It contains a draft of changes that could not be saved.")
        }
        if let generation = status.generation {
            lines.append("Generation \(generation) of the additional content.")
        }
        if status.versionCount > 0 {
            lines.append("\(Count.of(status.versionCount, "version")) kept.")
        }
        if let leftovers = status.leftovers, !leftovers.isEmpty {
            let files = Count.of(leftovers.count, "file")
            lines.append(
                status.owner == nil
                    ? "\(files) left by interrupted saves; opening the document removes them."
                    : "\(files) being written or no longer needed.")
        }
        return lines
    }

    private static func json(_ status: PackageStatus, path: String) -> JSONValue {
        .object([
            "path": .string(path), "open": OwnerListing.json(status.owner),
            "unsavedChanges": status.ownerHasUnsavedChanges.map { .boolean($0) } ?? .null,
            "draft": status.hasDraft.map { .boolean($0) } ?? .null,
            "protection": ProtectionListing.json(status.fileProtection, isLocked: status.isLocked),
            "lastSaved": PrintedDate.json(status.lastSaved),
            "generation": status.generation.map { .integer(Int64($0)) } ?? .null,
            "versions": .integer(Int64(status.versionCount)),
            "leftovers": status.leftovers.map { .array($0.map { .string($0) }) } ?? .null,
        ])
    }
}
