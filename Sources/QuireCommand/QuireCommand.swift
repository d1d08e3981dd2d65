import ArgumentParser
import Foundation
import Logging
import Quire

/// The command: parses its arguments, runs a verb and exits with a code of ``ExitStatus``.
@main
struct QuireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quire",
        abstract:
            "Creates, reads, edits, checks and archives Quire documents and Core Data stores.",
        discussion: """
            PATH is a document package, or a Core Data store: SQLite, XML or binary. Objects are \
            identified by Entity/pN or by their URI, x-coredata://STORE-UUID/Entity/pN.

            Exit codes: \(ExitStatus.allCases.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: ", ")). \
            See also: \(HelpTopic.all.map { "quire help \($0.name)" }.joined(separator: ", ")).

            EXAMPLES:
              quire new Library.quire --template Library
              quire import Library.quire Book books.csv
              quire fetch Library.quire Book --where 'year < 1800' --sort year
              quire search Library.quire 'northanger'
              quire show Library.quire Book/p1
              quire set Library.quire Book/p1 rating=4.5
              quire open Library.quire
            """,
        version: "0.1.0",
        groupedSubcommands: [
            CommandGroup(
                name: "Documents",
                subcommands: [
                    TemplatesCommand.self, NewCommand.self, OnDocument<InfoVerb>.self,
                    ModelCommand.self, OnDocument<CheckVerb>.self, DiffCommand.self,
                    MigrateCommand.self, OnDocument<StatsVerb>.self, CompactCommand.self,
                    OpenCommand.self, StatusCommand.self, LibraryCommand.self, ContentCommand.self,
                    VersionsCommand.self, ProtectCommand.self, KeysCommand.self,
                    UnlockCommand.self, LockCommand.self, SyncCommand.self,
                    SaveAsCommand.self, DuplicateCommand.self, RevertCommand.self,
                ]),
            CommandGroup(
                name: "Objects",
                subcommands: [
                    OnDocument<FetchVerb>.self, OnDocument<ShowVerb>.self,
                    OnDocument<SearchVerb>.self, OnDocument<ExplainVerb>.self,
                    OnDocument<InsertVerb>.self,
                    OnDocument<SetVerb>.self, OnDocument<DeleteVerb>.self,
                    OnDocument<ImportVerb>.self, OnDocument<DumpVerb>.self,
                    OnDocument<LoadVerb>.self,
                    OnDocument<LogVerb>.self, WatchCommand.self, HistoryCommand.self,
                    DataCommand.self,
                ]),
            CommandGroup(
                name: "Rescue", subcommands: [RepairCommand.self, RecoverCommand.self]),
            CommandGroup(name: "Conversion", subcommands: [ConvertCommand.self]),
            CommandGroup(
                name: "Archives",
                subcommands: [ExportCommand.self, ExtractCommand.self, VerifyCommand.self]),
            CommandGroup(
                name: "Shell",
                subcommands: [
                    CompletionCommand.self, CompleteWordsCommand.self, ManualCommand.self,
                    MergeDriverCommand.self,
                ]),
        ])

    static func main() async {
        StandardStreams.openClosed()
        StandardStreams.widenHelp()
        LogOutput.begin()
        OutputClosed.ignoreSignal()
        // A write beyond the limit of `ulimit -f` fails instead, and is reported, as on a full disk.
        signal(SIGXFSZ, SIG_IGN)
        Interruption.begin()
        ProtectionDomain.usesUserKeyring = true
        let arguments = CommandLine.arguments
        if arguments.isEmpty {
            // Swift reads them from /proc/self/cmdline. They are no command line with nothing on it, which asks for help. And
            // libdispatch, which looks into /proc once a second, would stop the program in the middle of what it does.
            Output.report(
                "The command line cannot be read, because /proc is not mounted; nothing was done. "
                    + "Mount it and try again.")
            Foundation.exit(ExitStatus.failed.rawValue)
        }
        let status: ExitStatus
        do {
            try CommandText.checkArguments()
            status = await run(Array(arguments.dropFirst()))
        } catch {
            status = report(error, of: [])
        }
        // If a signal is ending the process, it does.
        TerminationCleanup.uninterrupted { Foundation.exit(status.rawValue) }
    }

    /// Runs one command line, and throws what it throws.
    static func execute(_ arguments: [String]) async throws {
        var command = try parseAsRoot(Assignment.withoutLeadingDashes(arguments))
        if var command = command as? any AsyncParsableCommand {
            try await command.run()
        } else {
            try command.run()
        }
    }

    /// Runs one command line, and reports what it throws.
    static func run(_ arguments: [String]) async -> ExitStatus {
        if let topic = HelpTopic.asked(for: arguments) { return show(topic.text) }
        do {
            try await execute(arguments)
            return .success
        } catch is OutputClosed {
            // The reader of the output has closed it.
            return .success
        } catch {
            // The parser ignores words after `help` that are not commands.
            let words = arguments.first == "help" ? arguments.dropFirst() : arguments[...]
            if let failure = Corrections.unknownCommand(words, after: QuireCommand.self) {
                return report(failure, of: arguments)
            }
            if exitCode(for: error) == .success {
                // Help and the version are asked for, not errors.
                return show(
                    HelpText.printed(
                        fullMessage(for: error), for: arguments, of: QuireCommand.self))
            }
            return report(error, of: arguments)
        }
    }

    /// Reports the failure of a command line.
    private static func report(_ error: any Error, of arguments: [String]) -> ExitStatus {
        let failure = Failure(error, of: QuireCommand.self)
        failure.report(asJSON: Failure.isJSON(arguments))
        return failure.status
    }

    /// Prints help or the version.
    private static func show(_ text: String) -> ExitStatus {
        do {
            try Array(text.utf8).withUnsafeBytes { try Output.write($0) }
            return .success
        } catch is OutputClosed {
            return .success
        } catch {
            return report(error, of: [])
        }
    }
}

// MARK: - Standard streams

/// Standard input, output and error, any of which may be closed when the command starts, as by `>&-`.
enum StandardStreams {
    /// The narrowest help that the parser can make.
    private static let leastWidth = 40

    /// The width of help: that of `COLUMNS` or of the terminal, if there is one.
    static var helpWidth: Int {
        let width = getenv("COLUMNS").flatMap { Int(String(cString: $0)) }
        return max(width ?? ProgressTerminal.columns(of: STDOUT_FILENO) ?? 80, leastWidth)
    }

    /// Gives the parser a width that it can wrap help to, if the terminal or `COLUMNS` is narrower: it would stop the program.
    static func widenHelp() {
        if helpWidth == leastWidth { setenv("COLUMNS", String(leastWidth), 1) }
    }

    /// Opens those that are closed, so that no file gets their descriptors: messages would be written to it. They remain
    /// unusable: what reads or writes them fails, and is reported, as before. To be called once, before anything is opened.
    static func openClosed() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO]
        where fcntl(descriptor, F_GETFD) == -1 && errno == EBADF {
            // It gets the lowest free descriptor, which is this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}

// MARK: - Interruption

/// The handling of Ctrl-C, SIGTERM and SIGHUP: files that are being built are removed, and the command ends by the signal.
enum Interruption {
    /// Begins to handle the signals. To be called once, before anything is done.
    static func begin() {
        handle {
            if $0 == SIGINT, Pager.isShowing { return }
            TerminationCleanup.end(by: $0)
        }
    }

    private static func handle(_ body: @escaping @Sendable (Int32) -> Void) {
        // Not the main queue, which waits while a command works.
        let queue = DispatchQueue(label: "quire.interruption")
        for number in [SIGINT, SIGTERM, SIGHUP] {
            TerminationCleanup.handle(number, on: queue) { body(number) }
        }
    }

    /// Has the signals cancel a task from now on. Another signal ends the command if the task has not ended it yet, as when
    /// its output is not read.
    static func cancel(_ task: Task<some Sendable, some Error>) {
        handle {
            if task.isCancelled { TerminationCleanup.end(by: $0) }
            task.cancel()
        }
    }

    // MARK: - A line

    private static let request = Lock(false)

    /// Whether Ctrl-C was pressed while the present line of a session runs.
    static var isRequested: Bool {
        get { request.withLock { $0 } }
        set { request.withLock { $0 = newValue } }
    }

    /// Has Ctrl-C drop the line that is edited, or stop the one that runs; and Ctrl-Z suspend the program.
    static func drop(linesOf editor: LineEditor) {
        let queue = DispatchQueue(label: "quire.interruption")
        TerminationCleanup.handle(SIGINT, on: queue) {
            if Pager.isShowing || editor.interrupt() { return }
            if isRequested {
                Output.report("The session ended; unsaved changes were not saved.")
                TerminationCleanup.end(by: SIGINT)
            }
            isRequested = true
            Output.report("Interrupting; Ctrl-C again ends the session without saving.")
        }
        TerminationCleanup.handle(SIGTSTP, on: queue) { editor.suspend() }
    }

    /// - Throws: `Failure` if the line is to stop.
    static func check() throws {
        if isRequested { throw Failure(sentence: "Interrupted.", status: .failed) }
    }
}

// MARK: - Arguments

/// Texts that users type, which must be UTF-8: repaired, the name of a file would be that of another one.
enum CommandText {
    /// - Throws: `Failure` if the command line is not UTF-8.
    static func checkArguments() throws {
        for index in 1..<max(Int(CommandLine.argc), 1) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            let bytes = UnsafeRawBufferPointer(start: argument, count: strlen(argument))
            _ = try string(bytes[...], of: "An argument")
        }
    }

    /// A text.
    ///
    /// - Throws: `Failure`, with what shows where, if it is not UTF-8.
    static func string(_ bytes: Slice<UnsafeRawBufferPointer>, of name: String) throws -> String {
        if let text = String(validating: bytes, as: UTF8.self) { return text }
        throw Failure.usage(
            "\(name) is not valid UTF-8: “\(String(decoding: bytes, as: UTF8.self))”. If it is a file name, rename the file. Nothing was done."
        )
    }
}

// MARK: - Log messages

/// The destination of the library's log: none, because the command reports errors itself, unless
/// `QUIRE_LOG` names a level (`debug`, `info`, …), or `QUIRE_SQL_DEBUG` asks for the SQL statements; then to standard error.
enum LogOutput {
    /// Sets the log up. To be called once.
    static func begin() {
        let environment = ProcessInfo.processInfo.environment
        let level = Logger.Level(rawValue: environment["QUIRE_LOG"] ?? "")
        let logsStatements = environment["QUIRE_SQL_DEBUG"]?.isEmpty == false
        LoggingSystem.bootstrap { label in
            let isOfStatements = logsStatements && label == "quire.sql"
            guard level != nil || isOfStatements else { return SwiftLogNoOpLogHandler() }
            var handler = StreamLogHandler(label: label, stream: EscapedStandardError())
            handler.logLevel = min(level ?? .critical, isOfStatements ? .info : .critical)
            return handler
        }
    }
}

/// Standard error, for texts with names in them that a terminal must not obey; see ``TerminalText``.
private struct EscapedStandardError: TextOutputStream, Sendable {
    mutating func write(_ text: String) {
        ProgressBar.hiding {
            try? FileHandle.standardError.write(contentsOf: Data(TerminalText.block(text).utf8))
        }
    }
}
