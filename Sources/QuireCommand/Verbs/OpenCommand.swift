import ArgumentParser
import Foundation
import Quire

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
