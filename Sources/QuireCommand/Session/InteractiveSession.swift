import ArgumentParser
import Foundation
import Quire

/// A line of a session, parsed.
protocol SessionLine: ParsableCommand {
    @MainActor func run(in session: InteractiveSession) async throws
}

/// A document that stays open while lines come in, from a terminal or from a pipe.
///
/// An error is reported and the next line is read. The session's exit code is that of the first error, unless
/// it is a user at a terminal who has seen it.
@MainActor
final class InteractiveSession {
    let document: DocumentSession
    /// The format of answers, unless a line gives another: JSON or tables.
    let format: RowFormat
    private let isTerminal: Bool
    private(set) var status = ExitStatus.success
    private var isFinished = false
    /// The words of the line that is run.
    private var line: [String] = []
    private var isOutputClosed = false

    init(document: DocumentSession, json: Bool, isTerminal: Bool) {
        self.document = document
        format = json ? .json : .table
        self.isTerminal = isTerminal
    }

    /// Whether a user at a terminal has ended it, who can continue instead.
    var canGoOn: Bool { isTerminal && isFinished && !isOutputClosed }

    /// Reads and runs lines until there are no more or one says to quit.
    ///
    /// Between lines the main queue is free, so that the document saves itself when it is time.
    func run(_ lines: LineReader) async {
        isFinished = false
        while !isFinished {
            if isTerminal { prompt() }
            do {
                guard let line = try await lines.next() else { break }
                await run(line: line)
            } catch {
                report(Failure(error, of: SessionCommand.self))
            }
        }
        if isTerminal && !isFinished {
            try? FileHandle.standardOutput.write(contentsOf: Data("\n".utf8))
        }
    }

    private func prompt() {
        let name = URL(fileURLWithPath: document.path).lastPathComponent
        let mark = document.hasUnsavedChanges ? "*" : ""
        try? FileHandle.standardOutput.write(
            contentsOf: Data(TerminalText.line("\(name)\(mark)> ").utf8))
    }

    private func run(line: String) async {
        do {
            let words = try ShellWords.split(line)
            if words.isEmpty { return }
            TypedPaths.use(words + [document.path])
            self.line = words
            if let failure = Corrections.unknownCommand(words, after: SessionCommand.self) {
                throw failure
            }
            let command = try SessionCommand.parseAsRoot(words)
            guard let command = command as? any SessionLine else {
                // The parser's own commands, which print help.
                var command = command
                try command.run()
                return
            }
            try await command.run(in: self)
        } catch is OutputClosed {
            // The reader of the answers has closed them.
            isOutputClosed = true
            finish()
        } catch {
            if SessionCommand.exitCode(for: error) == .success {
                try? answer(json: false) {
                    try $0.print(raw: SessionCommand.fullMessage(for: error) + "\n")
                }
                return
            }
            report(Failure(error, of: SessionCommand.self))
        }
    }

    /// Reports a failure; the session goes on.
    func report(_ failure: Failure) {
        failure.report(asJSON: format == .json || Failure.isJSON(line))
        if status == .success && !isTerminal { status = failure.status }
    }

    /// Ends the session after this line.
    func finish() { isFinished = true }

    /// Prints an answer, in the form the line or the session asks for.
    func answer(json: Bool, _ body: (Output) throws -> Void) throws {
        let output = Output(json ? .json : format, compact: true)
        try body(output)
        try output.flush()
    }
}

/// Reads lines without keeping the main queue waiting.
final class LineReader: Sendable {
    private let queue = DispatchQueue(label: "quire.lines")
    // Used on the queue only.
    private nonisolated(unsafe) let input = fdopen(STDIN_FILENO, "r")

    /// The next line of standard input, or `nil` after the last.
    ///
    /// - Throws: `Failure` if it is not UTF-8; the one after it can be read.
    func next() async throws -> String? {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.read() }) }
        }
    }

    private func read() throws -> String? {
        guard let input else { return nil }
        var (line, capacity): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        defer { free(line) }
        let count = getline(&line, &capacity, input)
        guard count >= 0, let line else { return nil }
        let bytes = UnsafeRawBufferPointer(start: line, count: count)
        return try CommandText.string(
            bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...], of: "The line")
    }
}

// MARK: - Lines

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
            throw QuireError(.invalidState, "There is nothing to undo.")
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
        abstract: "Saves the document as another package, and continues with that.")

    @Argument(help: ArgumentHelp("The package to make.", valueName: "NEW"))
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
        abstract: "Prints unsaved changes, and whether undo and redo are possible.")

    @Flag(help: "Print JSON.")
    var json = false

    func run(in session: InteractiveSession) async throws {
        try session.printStatus(nil, json: json)
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
        guard let word else {
            let lines = TextTable.lines(
                commands.map {
                    ($0.configuration.commandName ?? "", $0.configuration.abstract)
                })
            return try session.answer(json: false) { output in
                for line in lines { try output.print(line) }
            }
        }
        guard let command = commands.first(where: { $0.configuration.commandName == word }) else {
            throw Corrections.unknownCommand([word], after: SessionCommand.self)
                ?? ValidationError("There is no command “\(word)”.")
        }
        try session.answer(json: false) {
            try $0.print(raw: SessionCommand.helpMessage(for: command) + "\n")
        }
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

// MARK: - Words

/// Splits a line of a session into words as a shell does.
///
/// Spaces separate words; `'…'` takes everything as it is; `"…"` too, but `\` before `"` or `\` there, and
/// before anything outside quotation marks, takes the next character as it is; `#` at the start of a word
/// begins a comment. Nothing is expanded.
enum ShellWords {
    /// The words of a line.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if a quotation mark is not closed.
    static func split(_ line: String) throws -> [String] {
        var words: [String] = []
        // Appended to in place, so that a long word takes linear time.
        var word = ""
        var isInWord = false
        var characters = line.makeIterator()
        while let character = characters.next() {
            if character.isWhitespace {
                if isInWord { words.append(word) }
                word = ""
                isInWord = false
                continue
            }
            if character == "#", !isInWord { return words }
            isInWord = true
            switch character {
            case "\\":
                guard let next = characters.next() else { throw unfinished("a backslash") }
                word.append(next)
            case "'", "\"": word += try quoted(by: character, &characters)
            default: word.append(character)
            }
        }
        if isInWord { words.append(word) }
        return words
    }

    private static func quoted(
        by mark: Character, _ characters: inout String.Iterator
    ) throws -> String {
        var text = ""
        while let character = characters.next() {
            if character == mark { return text }
            if mark == "\"", character == "\\" {
                guard let next = characters.next() else { break }
                if next != "\"", next != "\\" { text.append("\\") }
                text.append(next)
            } else {
                text.append(character)
            }
        }
        throw unfinished("a quotation mark (\(mark))")
    }

    private static func unfinished(_ what: String) -> QuireError {
        QuireError(.invalidValue, "The line ends after \(what) that opens something; close it.")
    }
}
