import ArgumentParser
import Foundation
import Quire

/// The reader of standard output has closed it, as `head` does when it has seen enough: the work ends without a word.
struct OutputClosed: Error {
    /// Makes writing to a closed pipe fail with an error instead of ending the program, so that documents are closed.
    static func ignoreSignal() { signal(SIGPIPE, SIG_IGN) }
}

/// The output of verbs, and its form.
final class Output {
    /// The format of rows.
    let format: RowFormat
    /// Whether tables, CSV and TSV begin with the names of the columns.
    let hasHeader: Bool
    /// Whether JSON stays on one line, for a session that is driven by a program.
    let compact: Bool
    /// Whether the output reports a change that has been made. The exit code says whether it has: output that cannot be
    /// written is only reported then.
    let reportsChanges: Bool
    /// The width of the terminal that is written to; `nil` if lines may have any length.
    let width: Int?
    /// Whether a terminal shows the output.
    private let isOnTerminal: Bool
    private let usesStyles: Bool
    private let write: (UnsafeRawBufferPointer) throws -> Void
    /// Whether that has failed.
    private var hasFailed = false
    private var buffer: [UInt8] = []

    private static let compactness = Lock(false)

    /// Whether all JSON stays on one line, because a session is driven by a program.
    static var isCompact: Bool {
        get { compactness.withLock { $0 } }
        set { compactness.withLock { $0 = newValue } }
    }

    /// The number of bytes written at once.
    private static let maximumBufferSize = 1 << 16

    /// Prints to standard output, or to the pager on the terminal, or gives the bytes to a closure, a block at a time.
    init(
        _ format: RowFormat = .table, hasHeader: Bool = true, compact: Bool = false,
        reportsChanges: Bool = false, width: Int? = nil, pager: Pager? = nil,
        write: ((UnsafeRawBufferPointer) throws -> Void)? = nil
    ) {
        self.format = format
        self.hasHeader = hasHeader
        self.compact = compact || Self.isCompact
        self.reportsChanges = reportsChanges
        self.width = width ?? (write == nil ? Self.terminalWidth : nil)
        isOnTerminal = write == nil && isatty(STDOUT_FILENO) == 1
        usesStyles = write == nil && TextStyle.isUsed(on: STDOUT_FILENO)
        self.write = write ?? pager?.write ?? Output.write
    }

    /// Prints JSON, or text, as ``init(_:hasHeader:compact:reportsChanges:width:pager:write:)`` does.
    convenience init(
        json: Bool, compact: Bool = false, reportsChanges: Bool = false,
        write: ((UnsafeRawBufferPointer) throws -> Void)? = nil
    ) {
        self.init(
            json ? .json : .table, compact: compact, reportsChanges: reportsChanges, write: write)
    }

    /// Whether to print JSON.
    var json: Bool { format == .json || format == .jsonl }

    /// The width of the terminal that standard output goes to; `nil` if it goes elsewhere.
    static var terminalWidth: Int? {
        guard isatty(STDOUT_FILENO) == 1 else { return nil }
        if let width = getenv("COLUMNS").flatMap({ Int(String(cString: $0)) }), width > 0 {
            return width
        }
        return ProgressTerminal.columns(of: STDOUT_FILENO)
    }

    /// Prints a text of one or several lines, or of a part of one. It has no line ends or tabs of names and values.
    func print(raw text: String) throws {
        buffer.append(contentsOf: TerminalText.block(text).utf8)
        if buffer.count >= Self.maximumBufferSize { try flush() }
    }

    /// Prints bytes as they are, unless a terminal could obey them.
    func print(exactly bytes: [UInt8]) throws {
        if isOnTerminal { return try print(raw: String(decoding: bytes, as: UTF8.self)) }
        buffer += bytes
        if buffer.count >= Self.maximumBufferSize { try flush() }
    }

    /// Prints a JSON value on the same line.
    func print(raw value: JSONValue) throws {
        value.write(to: &buffer)
        if buffer.count >= Self.maximumBufferSize { try flush() }
    }

    /// Prints a line. Line ends and tabs in it are those of names and values, and are escaped.
    func print(_ line: String) throws { try print(raw: TerminalText.line(line) + "\n") }

    /// Prints a line with a style, on a terminal.
    func print(_ line: String, _ style: TextStyle?) throws {
        guard usesStyles, let style else { return try print(line) }
        buffer += style.applied(to: TerminalText.line(line)).utf8
        try print(raw: "\n")
    }

    /// Prints a JSON value, spread over lines to a depth where lines are allowed.
    func print(_ value: JSONValue, levels: Int) throws {
        try print(raw: value.text(levels: compact || format == .jsonl ? 0 : levels) + "\n")
    }

    /// Writes out what is buffered.
    ///
    /// - Throws: `OutputClosed`, or `QuireError` with code `inputOutput`: a full disk must not look like success. Nothing if
    ///   it reports a change.
    func flush() throws {
        if buffer.isEmpty { return }
        defer { buffer.removeAll(keepingCapacity: true) }
        guard reportsChanges else {
            try Interruption.check()
            return try buffer.withUnsafeBytes(write)
        }
        if hasFailed { return }
        do {
            try buffer.withUnsafeBytes(write)
        } catch {
            hasFailed = true
            if let error = error as? QuireError {
                Self.report("\(error.message) The operation completed; only its output is lost.")
            }
        }
    }

    /// Writes bytes to standard output.
    ///
    /// - Throws: As ``flush()``.
    static func write(_ bytes: UnsafeRawBufferPointer) throws {
        try ProgressBar.hiding { try write(bytes, to: STDOUT_FILENO) }
    }

    /// Writes bytes to a descriptor.
    ///
    /// - Throws: As ``flush()``.
    static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = Glibc.write(
                descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count >= 0 {
                rest = rest.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR: continue
            case EPIPE: throw OutputClosed()
            case let number:
                throw QuireError(
                    .inputOutput,
                    "The output could not be written: \(String(cString: strerror(number))).")
            }
        }
    }

    /// Prints a sentence on standard error, and lines below it.
    static func report(_ sentence: String, _ style: TextStyle? = nil, excerpt: [String] = []) {
        var first = TerminalText.line("quire: \(sentence)")
        if let style, TextStyle.isUsed(on: STDERR_FILENO) { first = style.applied(to: first) }
        writeError(([first] + excerpt.map(TerminalText.line)).map { $0 + "\n" }.joined())
    }

    /// Writes a text to standard error, after what was printed before.
    static func writeError(_ text: String) {
        // What fails because a signal ends the process is not reported. If this fails, the exit code remains.
        TerminationCleanup.uninterrupted {
            ProgressBar.hiding {
                try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
            }
        }
    }
}

// MARK: - Results

/// Options, or a command, with the flag `--json`.
protocol ResultPrinting {
    var json: Bool { get }
}

extension ResultPrinting {
    /// Prints the result of a command on standard output and writes it out: JSON if the user asked for it, otherwise lines.
    ///
    /// - Parameters:
    ///   - reportsChanges: Whether the result reports a change that has been made; see ``Output/reportsChanges``.
    ///   - levels: How many levels of the JSON are spread over lines.
    /// - Throws: As ``Output/flush()``.
    func printResult(
        reportsChanges: Bool = true, levels: Int = 1, _ lines: @autoclosure () -> [String],
        _ value: () throws -> JSONValue
    ) throws {
        let output = Output(json: json, reportsChanges: reportsChanges)
        try output.printResult(levels: levels, lines(), value)
        try output.flush()
    }

    /// Prints a sentence about a new path, or the path as JSON.
    func printResult(_ sentence: String, path: String, levels: Int = 1) throws {
        try printResult(levels: levels, [sentence]) { .object(["path": .string(path)]) }
    }
}

extension Output {
    /// Prints a JSON value if the output is JSON, otherwise lines.
    func printResult(
        levels: Int = 1, _ lines: @autoclosure () -> [String], _ value: () throws -> JSONValue
    ) throws {
        if json { return try print(value(), levels: levels) }
        for line in lines() { try print(line) }
    }
}

extension [String] {
    /// The sentences without those that were there before.
    var withoutRepeats: [String] {
        var known: Set<String> = []
        return filter { known.insert($0).inserted }
    }
}

// MARK: - Styles

/// The look of a line on a terminal: headings are bold, additions green, removals and errors red.
enum TextStyle: String {
    case bold = "1"
    case red = "31"
    case green = "32"

    /// A text with the codes that a terminal obeys.
    func applied(to text: String) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }

    /// Whether lines that are written to a descriptor have styles: on a terminal, unless `NO_COLOR` is set, and with
    /// `CLICOLOR_FORCE` anywhere.
    static func isUsed(
        on descriptor: Int32,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> Bool {
        switch ColorOption.chosen {
        case .always: return true
        case .never: return false
        case .auto, nil: break
        }
        let isSet = { (name: String) in environment[name]?.isEmpty == false }
        if isSet("NO_COLOR") { return false }
        if isSet("CLICOLOR_FORCE"), environment["CLICOLOR_FORCE"] != "0" { return true }
        return isatty(descriptor) == 1 && isSet("TERM") && environment["TERM"] != "dumb"
    }
}

/// `--color`
struct ColorOption: ParsableArguments {
    /// The use of colours.
    enum Use: String, CaseIterable, ExpressibleByArgument {
        case auto, always, never
    }

    private static let choice = Lock<Use?>(nil)

    /// The use that the command line asks for.
    static var chosen: Use? { choice.withLock { $0 } }

    @Option(help: ArgumentHelp("Use colours, by default on a terminal.", valueName: "WHEN"))
    var color: Use?

    func validate() throws { Self.choice.withLock { $0 = color } }
}
