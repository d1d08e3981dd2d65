import ArgumentParser
import Foundation
import Quire

/// A line of a session, parsed.
protocol SessionLine: ParsableCommand {
    @MainActor func run(in session: InteractiveSession) async throws
}

/// A document that is kept open while lines come in, from somebody at a terminal or from a pipe.
///
/// An error is reported and the next line is read. The session's exit code is that of the first error, unless
/// it is somebody at a terminal who has seen it.
@MainActor
final class InteractiveSession {
    let document: DocumentSession
    /// Whether every answer is JSON.
    private let json: Bool
    private let isTerminal: Bool
    private(set) var status = ExitStatus.success
    private var isFinished = false
    private var isOutputClosed = false

    init(document: DocumentSession, json: Bool, isTerminal: Bool) {
        self.document = document
        self.json = json
        self.isTerminal = isTerminal
    }

    /// Whether somebody at a terminal has ended it, who can go on instead.
    var canGoOn: Bool { isTerminal && isFinished && !isOutputClosed }

    /// Reads and runs lines until there are no more or one says to quit.
    ///
    /// Between lines the main queue is free, so that the document saves itself when it is time.
    func run(_ lines: LineReader) async {
        isFinished = false
        while !isFinished {
            if isTerminal { prompt() }
            guard let line = await lines.next() else { break }
            await run(line: line)
        }
        if isTerminal && !isFinished {
            try? FileHandle.standardOutput.write(contentsOf: Data("\n".utf8))
        }
    }

    private func prompt() {
        let name = URL(fileURLWithPath: document.path).lastPathComponent
        let mark = document.hasUnsavedChanges ? "*" : ""
        try? FileHandle.standardOutput.write(
            contentsOf: Data(Output.escaped("\(name)\(mark)> ").utf8))
    }

    private func run(line: String) async {
        do {
            let words = try ShellWords.split(line)
            if words.isEmpty { return }
            let command = try SessionCommand.parseAsRoot(words)
            guard let command = command as? any SessionLine else {
                // The parser's own commands, which print help.
                var command = command
                try command.run()
                return
            }
            try await command.run(in: self)
        } catch is OutputClosed {
            // Whoever reads the answers has gone.
            isOutputClosed = true
            finish()
        } catch {
            if SessionCommand.exitCode(for: error) == .success {
                try? answer(json: false) { try $0.print(SessionCommand.fullMessage(for: error)) }
                return
            }
            report(Failure(error, of: SessionCommand.self))
        }
    }

    /// Tells about a failure; the session goes on.
    func report(_ failure: Failure) {
        Output.report(failure.sentence)
        if status == .success && !isTerminal { status = failure.status }
    }

    /// Ends the session after this line.
    func finish() { isFinished = true }

    /// Prints an answer, in the form the line or the session asks for.
    func answer(
        json: Bool, tellsOfChange: Bool = false, _ body: (Output) throws -> Void
    ) throws {
        let output = Output(
            json: json || self.json, compact: true, tellsOfChange: tellsOfChange)
        try body(output)
        try output.flush()
    }
}

/// Reads lines without keeping the main queue waiting.
final class LineReader: Sendable {
    private let queue = DispatchQueue(label: "quire.lines")
    private let read: @Sendable () -> String?

    /// Reads lines of standard input.
    convenience init() { self.init { readLine(strippingNewline: true) } }

    init(_ read: @escaping @Sendable () -> String?) { self.read = read }

    /// The next line, or `nil` after the last.
    func next() async -> String? {
        await withCheckedContinuation { continuation in
            queue.async { [read] in continuation.resume(returning: read()) }
        }
    }
}
