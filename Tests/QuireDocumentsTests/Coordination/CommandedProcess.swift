import Foundation
import QuireTestSupport
import Testing

/// Another process that has a document open for writing; see `CommandedWriter`.
final class CommandedProcess: @unchecked Sendable {
    // `@unchecked`: the process is started before others see it; signals and pipes may be used from any thread.
    private let process = Process()
    private let input = Pipe()
    private let lines = EventRecorder<String>()

    var processIdentifier: Int32 { process.processIdentifier }

    /// Starts it, and waits until it has the document open.
    init(opening path: String) async throws {
        let output = Pipe()
        process.executableURL = URL(
            fileURLWithPath: try TestProgram.path(named: "QuireCrashWriter"))
        process.arguments = [path, "commands"]
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        let lines = lines
        try process.run()
        DispatchQueue.global().async {
            var rest = Data()
            while true {
                let data = output.fileHandleForReading.availableData
                if data.isEmpty { return }
                rest += data
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    lines.record(String(decoding: rest[..<end], as: UTF8.self))
                    rest = Data(rest[(end + 1)...])
                }
            }
        }
        try #require(await lines.next(within: 60) == "open")
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// Has it do something, and waits until it has.
    func perform(_ line: String) async throws {
        input.fileHandleForWriting.write(Data((line + "\n").utf8))
        try #require(await lines.next(within: 60) == "done \(line)")
    }

    /// Kills it, and waits until it is gone.
    func killAndWait() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
