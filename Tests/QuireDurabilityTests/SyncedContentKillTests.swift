import Foundation
import QuireTestSupport
import Testing

/// A round that writes additional content of another machine when the process is killed, or the disk is full.
@Suite(
    .serialized, .inClear,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
struct SyncedContentKillTests {
    private let folder: TemporaryFolder
    private let quire: String

    init() throws {
        folder = try TemporaryFolder()
        quire = try TestProgram.path(named: "quire")
        try Data(repeating: 7, count: 200_000).write(to: URL(fileURLWithPath: folder.path("large")))
        try Data("small".utf8).write(to: URL(fileURLWithPath: folder.path("small")))
        try Data("mine".utf8).write(to: URL(fileURLWithPath: folder.path("mine")))
    }

    @discardableResult
    private func run(_ arguments: String...) async throws -> String {
        let outcome = try await ChildProcess.run(quire, arguments)
        #expect(outcome.status == 0, "\(arguments): \(outcome.output)")
        return outcome.output
    }

    /// Two replicas, of which the first has files that the second is to write.
    private func make(_ name: String) async throws -> (a: String, b: String) {
        let (a, b) = (folder.path(name + "/a.quire"), folder.path(name + "/b.quire"))
        try FileManager.default.createDirectory(
            atPath: folder.path(name), withIntermediateDirectories: true)
        try await run("new", a, "--template", "Blank")
        try await run("sync", "init", a, folder.path(name + "/shared"))
        try await run("sync", "join", folder.path(name + "/shared"), b)
        try await run("content", "add", b, folder.path("mine"))
        try await run("content", "add", a, folder.path("small"), folder.path("large"))
        try await run("sync", "run", a)
        return (a, b)
    }

    private static let calls = ["renameat2", "linkat", "fsync", "fdatasync", "mkdirat", "pwrite64"]

    @Test(arguments: ["signal=SIGKILL", "error=ENOSPC"])
    func theFilesAreThoseOfOneSaveAndTheNextRoundWritesTheRest(_ what: String) async throws {
        let strace = try #require(CrashWriterProcess.strace)
        for call in Self.calls {
            let some = SeededRandom.sample(of: Array(2...30), 2, for: call)
            for number in [1] + some.sorted() {
                let (a, b) = try await make("\(call)-\(number)")
                let log = folder.path("calls")
                let outcome = try await ChildProcess.run(
                    strace,
                    [
                        "-f", "-qq", "-o", log, "-e", "trace=\(call)", "-e",
                        "inject=\(call):\(what):when=\(number)", quire, "sync", "run", b,
                    ], deadline: 120)
                #expect(!outcome.timedOut)
                let text = try String(contentsOfFile: log, encoding: .utf8)
                let isInjected = text.contains("INJECTED") || text.contains("killed by SIGKILL")
                let comment = "\(what) at \(call) \(number)"
                try await run("check", b)
                let files = try await run("content", "list", b)
                #expect(files.contains("mine"), "\(comment): \(files)")
                #expect(files.contains("small") == files.contains("large"), "\(comment): \(files)")
                for replica in [b, a, b] { try await run("sync", "run", replica) }
                for replica in [a, b] {
                    let files = try await run("content", "list", replica)
                    for name in ["mine", "small", "large"] {
                        #expect(files.contains(name), "\(comment): \(replica): \(files)")
                    }
                }
                try FileManager.default.removeItem(atPath: folder.path("\(call)-\(number)"))
                if !isInjected { break }
            }
        }
    }
}
