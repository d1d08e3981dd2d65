import ArgumentParser
import Quire

/// The commands of a session's lines.
struct SessionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "",
        abstract: "The document stays open; each line is one undo step.",
        subcommands: [
            InSession<FetchVerb>.self, InSession<ShowVerb>.self, InSession<SearchVerb>.self,
            InSession<StatsVerb>.self, InSession<ExplainVerb>.self, InSession<InsertVerb>.self,
            InSession<SetVerb>.self,
            InSession<DeleteVerb>.self, InSession<ImportVerb>.self, InSession<InfoVerb>.self,
            InSession<ModelVerb>.self, InSession<CheckVerb>.self, InSession<DumpVerb>.self,
            InSession<LoadVerb>.self,
            InSession<LogVerb>.self, DiffLine.self,
            UndoLine.self, RedoLine.self, SaveLine.self, SaveAsLine.self, RevertLine.self,
            StatusLine.self,
            HelpLine.self, QuitLine.self,
        ],
        helpNames: .long)
}

/// `undo`
struct UndoLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "undo", abstract: "Undoes the last step.")

    func run(in session: InteractiveSession) async throws {
        guard session.document.canUndo else {
            throw QuireError(.invalidState, "Nothing to undo.")
        }
        session.document.undo()
        try session.printStatus("Undone")
    }
}

/// `redo`
struct RedoLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "redo", abstract: "Redoes the last undone step.")

    func run(in session: InteractiveSession) async throws {
        guard session.document.canRedo else {
            throw QuireError(.invalidState, "Nothing to redo.")
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
        commandName: "revert", abstract: "Discards the changes since the last save.")

    func run(in session: InteractiveSession) async throws {
        try await session.document.revert()
        try session.printStatus("Reverted")
    }
}

/// `save-as NEW`
struct SaveAsLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "save-as",
        abstract: "Saves the document as another package, and continues with it.")

    @Argument(help: ArgumentHelp("The package to create.", valueName: "NEW"))
    var path: String

    @Flag(help: "Replace an existing document.")
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
        abstract: "Prints the number of unsaved changes, and whether undo and redo are possible.")

    @OptionGroup var printing: JSONOption

    func run(in session: InteractiveSession) async throws {
        try session.printStatus(nil, json: printing.json)
    }
}

/// `diff`
struct DiffLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Prints the unsaved changes; with arguments, compares as on the command line.")

    @OptionGroup var printing: JSONOption

    func run(in session: InteractiveSession) async throws {
        let document = session.document
        let reply = try UnsavedChanges(of: document.context, in: document.layout)
            .reply(document.status.sentence)
        try session.answer(json: printing.json) { try reply.print($0) }
    }
}

/// `help`
struct HelpLine: ParsableCommand, SessionLine {
    static let configuration = CommandConfiguration(
        commandName: "help", abstract: "Lists the commands.")

    @Argument(help: "A command.")
    var word: String?

    func run(in session: InteractiveSession) async throws {
        let commands = SessionCommand.configuration.subcommands
        guard let word else { return try session.printHelp(Self.overview(of: commands)) }
        let isOther = DocumentLine.commands.keys.contains { $0.prefix { $0 != " " } == word }
        let root: any ParsableCommand.Type = isOther ? QuireCommand.self : SessionCommand.self
        let found = root.configuration.subcommands.first { $0._commandName == word }
        guard let found else {
            throw Corrections.unknownCommand([word], after: SessionCommand.self)
                ?? ValidationError("“\(word)” is not a command.")
        }
        let help = root.helpMessage(for: found, columns: StandardStreams.helpWidth)
        try session.printHelp(HelpText.printed(help, for: [word], of: root))
    }

    private static func overview(of commands: [any ParsableCommand.Type]) -> String {
        let lines = TextTable.lines(
            commands.map { ($0.configuration.commandName ?? "", $0.configuration.abstract) })
        let others = Dictionary(grouping: DocumentLine.commands.keys) { $0.prefix { $0 != " " } }
            .map { name, lines in
                let subcommands = lines.sorted().map { String($0.dropFirst(name.count + 1)) }
                let command = QuireCommand.configuration.subcommands.first {
                    $0._commandName == name
                }
                let abstract = command?.configuration.abstract ?? ""
                return (
                    String(name),
                    subcommands == [""] ? abstract : subcommands.joined(separator: ", ")
                )
            }.filter { name, _ in
                DocumentLine.commands[name] == nil
                    || !commands.contains { $0._commandName == name }
            }
        return
            (lines + ["", "As on the command line, without PATH:"]
            + TextTable.lines(others.sorted { $0.0 < $1.0 }))
            .map { $0 + "\n" }.joined()
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
        let line = (word.map { $0 + ". " } ?? "") + status.sentence
        try answer(json: json) { try $0.printResult(levels: 0, [line]) { status.json } }
    }
}
