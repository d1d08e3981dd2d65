import ArgumentParser
import Foundation
import Quire

/// `quire open PATH`
struct OpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open",
        abstract: "Opens a document and runs commands on it, one per line.",
        discussion: """
            Each line is a verb without PATH: fetch, insert, set, delete, import, info, model, check, dump; \
            or undo, redo, save, revert, status, help, quit. Words are split as by a shell. Lines may come \
            from a pipe; an error in one is reported, the others are run, and the exit code is the first \
            error's. Unsaved changes are saved at the end, also after Ctrl-C or SIGTERM. Changes \
            of a document that cannot be saved are restored when it is opened again; if the disk \
            is too full for that, their loss is reported. With --json every answer is one line.

            EXAMPLES:
              quire open Library.quire
              printf 'set Book/p1 rating=5\\nundo\\n' | quire open Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("Save automatically after this time.", valueName: "SECONDS"))
    var autosave: Double?

    @OptionGroup var options: DocumentOptions
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    func validate() throws {
        if let autosave, !(autosave > 0 && autosave < 1e9) {
            throw ValidationError("--autosave takes a positive number of seconds.")
        }
    }

    @MainActor
    func run() async throws {
        try Defaults.read(besideDocument: path)
        try unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: .write, isInteractive: true,
            waiting: wait)
        UnlockOptions.forgetCredential()
        document.saveOnTermination()
        if let autosave { try document.autosave(after: autosave) }
        let session = InteractiveSession(
            document: document, json: options.json, isTerminal: isatty(STDIN_FILENO) == 1)
        document.whenPackageIsGone {
            session.report(
                Failure(
                    sentence:
                        "“\(document.path)” was deleted or replaced by another program; “save-as NEW” "
                        + "keeps what was not saved.", status: .notFound))
        }
        let following = Task { [path] in try await Self.followKeyring(of: path) }
        defer { following.cancel() }
        let lines = LineReader()
        while true {
            await session.run(lines)
            do {
                try await document.save()
                break
            } catch {
                var failure = Failure(error, of: QuireCommand.self)
                if let loss = document.loss {
                    if session.canGoOn {
                        session.report(failure)
                        Output.report(
                            "The session continues, because unsaved changes would be lost; free disk space and “quit” again, or give "
                                + "it up with “revert”.")
                        continue
                    }
                    failure.sentence += " " + loss
                }
                // What could not be saved comes back when it is opened again.
                document.closeKeepingDraft()
                throw failure
            }
        }
        try await document.close()
        // What went wrong has been told already.
        if session.status != .success { throw Failure(sentence: "", status: session.status) }
    }

    /// Locks the document when its key is removed from the user keyring.
    private static func followKeyring(of path: String) async throws {
        guard let domain = try UnlockOptions.domain(at: path) else { return }
        do { try await domain.followUserKeyring() } catch let error as QuireError {
            Output.report("“\(path)” does not follow the user keyring any more: \(error.message)")
        }
    }
}
