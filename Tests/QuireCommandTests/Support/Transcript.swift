import Foundation
import QuireTestSupport

/// What somebody typed and saw: lines that begin with `$ ` are run by a shell (`> ` goes on with a command), those
/// below are what it printed, on standard output and standard error together; `[4]` on a line of its own is an
/// exit code other than 0. Lines that begin with `# ` explain; empty lines before them or before a command are
/// no output.
///
/// The shell starts in a new folder, finds `quire` and the templates, and has the checkout in `$ROOT`. UUIDs of
/// stores and of external data, and names of versions, differ from run to run and are written as `STORE-UUID`, `UUID` and
/// `VERSION`.
struct Transcript {
    /// A command and what it prints.
    struct Step {
        /// What stands before the command: explanations and empty lines.
        var before: [String]
        var command: String
        var output: [String]
    }

    var steps: [Step] = []
    /// What stands after the last command's output.
    var end: [String] = []

    /// Reads a transcript.
    init(_ text: String) {
        var before: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("$ ") {
                steps.append(Step(before: before, command: String(line.dropFirst(2)), output: []))
                before = []
            } else if line.isEmpty || line.hasPrefix("# ") || steps.isEmpty {
                before.append(line)
            } else if line.hasPrefix("> "), steps[steps.count - 1].output.isEmpty {
                steps[steps.count - 1].command += "\n" + line.dropFirst(2)
            } else {
                // Empty lines were the output's after all.
                steps[steps.count - 1].output += before + [line]
                before = []
            }
        }
        end = before
    }

    /// The text it was read from.
    var text: String {
        let lines = steps.flatMap { step in
            let command = step.command.split(separator: "\n", omittingEmptySubsequences: false)
            return step.before
                + command.enumerated().map { ($0.offset == 0 ? "$ " : "> ") + $0.element }
                + step.output
        }
        return (lines + end).joined(separator: "\n")
    }

    /// The same commands with what they print now.
    ///
    /// - Parameter preparation: A command to run before the first.
    func run(after preparation: String? = nil) throws -> Transcript {
        let shell = try CommandShell()
        if let preparation { _ = try shell.run(preparation) }
        var copy = self
        for index in steps.indices {
            copy.steps[index].output = try shell.run(steps[index].command).lines
        }
        return copy
    }
}

/// A folder to run commands in.
final class CommandShell {
    let folder: TemporaryFolder
    private let environment: [String: String]

    /// What a command printed.
    struct Result {
        var output: String
        var code: Int32

        /// The output as a transcript has it.
        var lines: [String] {
            var lines = output.split(separator: "\n", omittingEmptySubsequences: false)
                .map(String.init)
            while lines.last == "" { lines.removeLast() }
            return lines + (code == 0 ? [] : ["[\(code)]"])
        }
    }

    init() throws {
        folder = try TemporaryFolder()
        var environment = ProcessInfo.processInfo.environment
        let programs = TestProgram.folder ?? Checkout.builtProducts
        environment["PATH"] = "\(programs):\(environment["PATH"] ?? "/usr/bin:/bin")"
        environment["ROOT"] = Checkout.path
        environment["QUIRE_TEMPLATES"] =
            Checkout.path + "/Sources/QuireDocuments/Resources/Templates"
        environment["QUIRE_CONFIG"] = ""
        environment["LC_ALL"] = "C.UTF-8"
        environment["COLUMNS"] = "100"
        self.environment = environment
    }

    func path(_ name: String) -> String { folder.path(name) }

    /// What a command prints that must succeed.
    func output(_ command: String) throws -> String {
        let result = try run(command)
        if result.code != 0 { throw Failure(command: command, result: result) }
        return result.output
    }

    /// A command that failed.
    struct Failure: Error {
        var command: String
        var result: Result
    }

    /// Runs a command of the shell.
    func run(_ command: String) throws -> Result {
        let outputPath = folder.path + ".output"
        try Data().write(to: URL(fileURLWithPath: outputPath))
        defer { try? FileManager.default.removeItem(atPath: outputPath) }
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: outputPath))
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", command]
        process.currentDirectoryURL = folder.url
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = handle
        process.standardError = handle
        try process.run()
        process.waitUntilExit()
        try handle.close()
        let output = try String(contentsOfFile: outputPath, encoding: .utf8)
        return Result(output: normal(output), code: process.terminationStatus)
    }

    /// An output without what differs from run to run: the folder, the checkout, the store's UUID and the names
    /// of external data. UUIDs that are values are left alone.
    private func normal(_ output: String) -> String {
        output.replacing(folder.path + "/", with: "").replacing(Checkout.path, with: "$ROOT")
            .replacing(
                #/(x-coredata:\/\/|"storeUUID": "|store SQLite |this store is )[0-9A-F-]{36}/#
            ) { "\($0.output.1)STORE-UUID" }
            .replacing(#/_EXTERNAL_DATA\/[0-9A-F-]{36}/#) { _ in "_EXTERNAL_DATA/UUID" }
            .replacing(#/[0-9]{8}T[0-9]{9}Z-[0-9A-F]{8}/#) { _ in "VERSION" }
    }
}

/// Where the checkout and what was built of it are.
enum Checkout {
    static let path: String = {
        var url = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { url.deleteLastPathComponent() }
        return url.path
    }()

    /// The folder of the running test program, where `quire` is as well.
    static let builtProducts: String = {
        let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(fileURLWithPath: program ?? CommandLine.arguments[0])
            .deletingLastPathComponent().path
    }()
}
