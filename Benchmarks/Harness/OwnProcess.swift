import Foundation

/// This program once more, in a process that does one thing, so that what it needs is what that needs.
enum OwnProcess {
    static let path = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().path

    /// Has it do a task, and returns what it prints; see ``OwnTask``.
    static func run(_ task: String, _ arguments: [String]) throws -> String {
        try output(of: path, [OwnTask.argument, task] + arguments)
    }

    /// Runs a program and returns what it prints. Sets and dictionaries of Swift have the same order in each run.
    static func output(of program: String, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["SWIFT_DETERMINISTIC_HASHING=1", program] + arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkFailure(
                "\(([program] + arguments).joined(separator: " ")) failed with code \(process.terminationStatus)."
            )
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// The greatest amount of memory that this process has used so far.
    static func peakKilobytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        for line in status.split(separator: "\n") where line.hasPrefix("VmHWM:") {
            let fields = line.split(whereSeparator: \.isWhitespace)
            if fields.count > 1, let kilobytes = Int(fields[1]) { return kilobytes }
        }
        throw BenchmarkFailure("/proc/self/status does not tell the peak of memory.")
    }
}
