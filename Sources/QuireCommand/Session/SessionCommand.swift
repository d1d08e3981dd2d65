import ArgumentParser
import Quire

/// What a line of a session may say.
struct SessionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "",
        abstract: "The document stays open; each line is one step that undo takes back.",
        subcommands: [
            InSession<FetchVerb>.self, InSession<ExplainVerb>.self, InSession<InsertVerb>.self,
            InSession<SetVerb>.self,
            InSession<DeleteVerb>.self, InSession<ImportVerb>.self, InSession<InfoVerb>.self,
            InSession<ModelVerb>.self, InSession<CheckVerb>.self, InSession<DumpVerb>.self,
            UndoLine.self, RedoLine.self, SaveLine.self, SaveAsLine.self, RevertLine.self,
            StatusLine.self,
            HelpLine.self, QuitLine.self,
        ],
        helpNames: .long)
}

/// `undo`
struct UndoLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "undo", abstract: "Takes back the last step.")

    func run(in session: InteractiveSession) async throws {
        guard session.document.canUndo else {
            throw QuireError(.invalidState, "There is nothing to undo.")
        }
        session.document.undo()
        try session.printStatus("Undone")
    }
}

/// `redo`
struct RedoLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "redo", abstract: "Does again what was taken back.")

    func run(in session: InteractiveSession) async throws {
        guard session.document.canRedo else {
            throw QuireError(.invalidState, "There is nothing to redo.")
        }
        session.document.redo()
        try session.printStatus("Redone")
    }
}

/// `save`
struct SaveLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "save", abstract: "Saves the changes.")

    func run(in session: InteractiveSession) async throws {
        try await session.document.save()
        try session.printStatus("Saved")
    }
}

/// `revert`
struct RevertLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "revert", abstract: "Drops the changes since the last save.")

    func run(in session: InteractiveSession) async throws {
        try await session.document.revert()
        try session.printStatus("Reverted")
    }
}

/// `save-as NEW`
struct SaveAsLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "save-as",
        abstract: "Saves the document as another package, which it is from then on.")

    @Argument(help: ArgumentHelp("The package to make.", valueName: "NEW"))
    var path: String

    @Flag(help: "Replace a document that is there.")
    var replace = false

    @Flag(help: "Copy a damaged document as it is.")
    var keepDamage = false

    func run(in session: InteractiveSession) async throws {
        try await session.document.saveAs(path, replacing: replace, keepingDamage: keepDamage)
        try session.printStatus("Saved")
    }
}

/// `status`
struct StatusLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Prints what is not saved, and whether undo can do anything.")

    @Flag(help: "Print JSON.")
    var json = false

    func run(in session: InteractiveSession) async throws {
        try session.printStatus(nil, json: json)
    }
}

/// `help`
struct HelpLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "help", abstract: "Prints what a line may say.")

    @Argument(help: "A word to learn more about.")
    var word: String?

    func run(in session: InteractiveSession) async throws {
        let commands = SessionCommand.configuration.subcommands
        guard let word else {
            let names = commands.map { $0.configuration.commandName ?? "" }
            let width = names.map(\.count).max() ?? 0
            try session.answer(json: false) { output in
                for (name, command) in zip(names, commands) {
                    let space = String(repeating: " ", count: width - name.count + 2)
                    try output.print(name + space + command.configuration.abstract)
                }
            }
            return
        }
        guard let command = commands.first(where: { $0.configuration.commandName == word }) else {
            throw ValidationError("There is no “\(word)” in a session.")
        }
        try session.answer(json: false) { try $0.print(SessionCommand.helpMessage(for: command)) }
    }
}

/// `quit`
struct QuitLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "quit", abstract: "Saves the changes and ends the session.",
        aliases: ["exit"])

    func run(in session: InteractiveSession) async throws { session.finish() }
}

extension InteractiveSession {
    /// Prints how the document stands: as JSON, or after a word as a sentence.
    func printStatus(_ word: String?, json: Bool = false) throws {
        let status = document.status
        try answer(json: json) { output in
            if output.json {
                try output.print(status.json, levels: 0)
            } else {
                try output.print((word.map { $0 + ". " } ?? "") + status.sentence)
            }
        }
    }
}
