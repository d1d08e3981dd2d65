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
/// it is a user at a terminal who has seen it. With JSON every line that is a request has one line as its answer, errors too.
@MainActor
final class InteractiveSession {
    private(set) var document: DocumentSession
    /// The format of answers, unless a line gives another: JSON or tables.
    let format: RowFormat
    private let isTerminal: Bool
    /// Opens the document, as at the start of the session.
    private let open: @MainActor () async throws -> DocumentSession
    private(set) var status = ExitStatus.success
    private var isFinished = false
    /// The words of the line that is run.
    private var line: [String] = []
    private var isOutputClosed = false

    init(
        json: Bool, isTerminal: Bool, open: @escaping @MainActor () async throws -> DocumentSession
    ) async throws {
        format = json ? .json : .table
        Output.isCompact = json
        self.isTerminal = isTerminal
        self.open = open
        document = try await open()
        reportRemoval()
    }

    /// Reports that another program has deleted the document, when it does.
    private func reportRemoval() {
        document.whenPackageIsGone { [weak self, path = document.path] in
            self?.report(
                Failure(
                    sentence:
                        "“\(path)” was deleted or replaced by another program; “save-as NEW” "
                        + "keeps the unsaved changes.", status: .notFound))
        }
    }

    /// Whether a user at a terminal has ended it, who can continue instead.
    var canGoOn: Bool { isTerminal && isFinished && !isOutputClosed }

    /// Reads and runs lines until there are no more or one says to quit.
    ///
    /// Between lines the main queue is free, so that the document saves itself when it is time.
    func run(_ lines: any LineSource) async {
        isFinished = false
        while !isFinished {
            do {
                guard let line = try await lines.next(prompt: prompt) else { return }
                Interruption.isRequested = false
                await run(line: line)
            } catch {
                report(Failure(error, of: SessionCommand.self))
            }
        }
    }

    private var prompt: String {
        let name = URL(fileURLWithPath: document.path).lastPathComponent
        return TerminalText.line("\(name)\(document.hasUnsavedChanges ? "*" : "")> ")
    }

    private func run(line: String) async {
        do {
            let words = try ShellWords.split(line)
            if words.isEmpty { return }
            TypedPaths.use(words + [document.path])
            self.line = words
            if let command = DocumentLine(words) { return try await command.run(in: self) }
            if let failure = Corrections.unknownCommand(words, after: SessionCommand.self) {
                throw failure
            }
            let command = try SessionCommand.parseAsRoot(
                Assignment.withoutLeadingDashes(words))
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
                try? printHelp(
                    HelpText.printed(
                        SessionCommand.fullMessage(for: error), for: self.line,
                        of: SessionCommand.self))
                return
            }
            report(Failure(error, of: SessionCommand.self))
        }
    }

    /// Reports a failure; the session goes on.
    func report(_ failure: Failure) {
        if format == .json {
            try? answer { try $0.print(raw: failure.json.text() + "\n") }
        } else {
            failure.report(asJSON: Failure.isJSON(line))
        }
        if status == .success && !isTerminal { status = failure.status }
    }

    /// Ends the session after this line.
    func finish() { isFinished = true }

    /// Prints an answer, in the form the line or the session asks for.
    func answer(json: Bool = false, _ body: (Output) throws -> Void) throws {
        let output = Output(json ? .json : format, compact: true)
        try body(output)
        try output.flush()
    }

    /// Prints help, as a text or as a JSON object with it.
    func printHelp(_ text: String) throws {
        try answer { output in
            try output.print(
                raw: output.json ? JSONValue.object(["help": .string(text)]).text() + "\n" : text)
        }
    }

    /// The words that can stand in place of the last word of a line that is edited.
    func completions(of text: String) -> [String] {
        let parsed = ShellWords(text)
        guard parsed.continuation == .none else { return [] }
        var words = parsed.words
        let current = parsed.lastWordStart == nil ? "" : words.removeLast()
        let line = DocumentLine(words)
        let completion = CommandCompletion(
            words: line?.arguments(for: document.path) ?? words, current: current,
            in: line == nil ? SessionCommand.self : QuireCommand.self)
        var found = Set(
            completion.candidates(in: document).map {
                ShellWords.quoted($0.text) + ($0.isUnfinished ? "" : " ")
            })
        for command in DocumentLine.commands.keys {
            let names = command.split(separator: " ").map(String.init)
            if names.starts(with: words), let next = names.dropFirst(words.count).first,
                next.hasPrefix(current)
            {
                found.insert(next + " ")
            }
        }
        if found.isEmpty, let files = completion.files {
            found = Set(Self.files(completion.value, foldersOnly: files == .folders))
        }
        return found.sorted()
    }

    /// The files and folders whose paths begin with a text.
    private static func files(_ text: String, foldersOnly: Bool) -> [String] {
        let slash = text.lastIndex(of: "/").map(text.index(after:)) ?? text.startIndex
        let (folder, start) = (String(text[..<slash]), text[slash...])
        let names = (try? FileSystem.names(in: folder.isEmpty ? "." : folder)) ?? []
        return names.compactMap { name in
            guard name.hasPrefix(start), !name.hasPrefix(".") || start.hasPrefix("."),
                let file = try? FileSystem.information(at: folder + name),
                file.kind == .folder || !foldersOnly
            else { return nil }
            return ShellWords.quoted(folder + name) + (file.kind == .folder ? "/" : " ")
        }
    }

    /// Saves the changes at the end, and reports what was saved to a user or a program that asked to quit.
    func saveAtEnd() async throws {
        let status = document.status
        try await document.save()
        if format == .json {
            // The answer to “quit”.
            if isFinished {
                try answer { try $0.printResult(levels: 0, []) { document.status.json } }
            }
        } else if isTerminal {
            let counts = status.changes.text
            let changes = counts.isEmpty ? "the changes" : counts
            try answer {
                try $0.print(status.hasUnsavedChanges ? "Saved: \(changes)." : "Nothing to save.")
            }
        }
    }

    /// Runs a body that needs the document for itself: it is closed meanwhile.
    ///
    /// - Throws: `QuireError` with code `invalidState` if there are unsaved changes.
    func closingDocument(_ body: () async throws -> Void) async throws {
        guard !document.hasUnsavedChanges else {
            throw QuireError(
                .invalidState,
                "The document has unsaved changes; “save” or “revert” first.", file: document.path)
        }
        try await document.close()
        let result: Result<Void, any Error>
        do {
            try await body()
            result = .success(())
        } catch {
            result = .failure(error)
        }
        do {
            document = try await open()
            reportRemoval()
        } catch {
            finish()
            throw error
        }
        try result.get()
    }
}

// MARK: - Commands of the command line

/// A command of the command line in a session: `export FILE` is `quire export PATH FILE`.
///
/// Reading commands see the document as last saved. Writing commands need exclusive access: the document is closed while they run,
/// and earlier changes can no longer be undone.
struct DocumentLine {
    private let words: [String]
    /// The number of words that are the command.
    private let commandLength: Int
    private let reads: Bool

    /// The commands, and whether they only read.
    static let commands: [String: Bool] = [
        "compact": false, "diff": true, "export": true, "duplicate": true,
        "versions list": true, "versions keep": false, "versions show": true,
        "versions diff": true, "versions restore": false, "versions prune": false,
        "versions delete": false,
        "versions conflicts": true, "versions resolve": false,
        "content list": true, "content add": false, "content get": true, "content remove": false,
        "data list": true, "data get": true, "data put": false, "history purge": false,
        "model add": false, "model check": true, "model edit": false, "model generate": true,
        "model print": true, "model remove": false, "model rename": false, "model set": false,
        "templates make": true, "keys list": true, "keys add": false, "keys remove": false,
        "protect": false,
        "migrate": false, "sync init": false, "sync run": false,
        "sync status": true, "sync conflicts": true, "sync resolve": false, "sync repair": false,
        "sync retire": false, "sync rebuild": false, "sync leave": false,
    ]

    /// - Returns: `nil` if the words are another line.
    init?(_ words: [String]) {
        // Alone, it prints the unsaved changes.
        if words == ["diff"] { return nil }
        let names = words.prefix { !$0.hasPrefix("-") }
        for length in [2, 1] where names.count >= length {
            guard let reads = Self.commands[names.prefix(length).joined(separator: " ")] else {
                continue
            }
            (commandLength, self.reads, self.words) = (length, reads, words)
            return
        }
        return nil
    }

    /// The command line for a document.
    func arguments(for path: String) -> [String] {
        words[..<commandLength] + [path] + words[commandLength...]
    }

    @MainActor
    func run(in session: InteractiveSession) async throws {
        var arguments = arguments(for: session.document.path)
        let json = arguments + ["--json"]
        if session.format == .json, (try? QuireCommand.parseAsRoot(json)) != nil {
            arguments = json
        }
        if !reads {
            return try await session.closingDocument { try await QuireCommand.execute(arguments) }
        }
        if session.document.hasUnsavedChanges {
            Output.report(
                "“\(words[..<commandLength].joined(separator: " "))” reads the saved document, without the unsaved changes."
            )
        }
        try await QuireCommand.execute(arguments)
    }
}
