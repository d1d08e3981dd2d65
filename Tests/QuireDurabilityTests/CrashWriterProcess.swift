import Foundation
import QuireTestSupport

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Runs `QuireCrashWriter`, under strace if it is to be watched, killed or hindered.
struct CrashWriterProcess {
    /// The folder that its packages are in.
    let folder: String
    let seed: UInt64

    /// The document that it works on.
    var path: String { folder + "/" + CrashSession.name }

    /// A system call of one of the process's threads.
    struct Call: CustomStringConvertible {
        var name: String
        /// Which one of that name in its thread, from 1. strace counts each name and each thread by itself.
        var number: Int
        /// Whether those that follow are meant as well.
        var andAllThatFollow = false

        var description: String {
            "\(name) \(number)\(andAllThatFollow ? " and all after it" : "")"
        }
    }

    /// What strace does at a call: `signal=SIGKILL`, or `error=ENOSPC`.
    struct Injection: CustomStringConvertible {
        var what: String
        var call: Call

        var description: String { "\(what) at \(call)" }
    }

    /// The calls that change files, with how many of each a thread makes in a few saves.
    static let changingCalls: [(name: String, usual: Int)] = [
        ("pwrite64", 50), ("fsync", 12), ("fdatasync", 5), ("write", 10), ("renameat2", 3),
        ("linkat", 3), ("unlinkat", 6), ("mkdirat", 6), ("unlink", 2), ("renameat", 2),
        ("ftruncate", 3), ("copy_file_range", 2),
    ]

    /// The calls that change files in a trace, numbered as strace does, by thread and name.
    static func changingCalls(inTrace trace: String) throws -> [Call] {
        var counts: [String: [Substring: Int]] = [:]
        let names = Set(changingCalls.map(\.name))
        let text = String(
            decoding: try Data(contentsOf: URL(fileURLWithPath: trace)), as: UTF8.self)
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
            guard words.count == 2, let end = words[1].firstIndex(of: "(") else { continue }
            let name = words[1][..<end].trimmingCharacters(in: .whitespaces)
            guard names.contains(name) else { continue }
            counts[name, default: [:]][words[0], default: 0] += 1
        }
        return counts.sorted { $0.key < $1.key }.flatMap { name, threads in
            (1...(threads.values.max() ?? 1)).map { .init(name: name, number: $0) }
        }
    }

    /// Where strace is, if it is there and may be used.
    static let strace: String? = {
        let candidates = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"]
        guard let path = candidates.first(where: FileManager.default.isExecutableFile(atPath:))
        else {
            return nil
        }
        let trial = try? ChildProcess.runAndWait(
            path, ["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "/bin/true"])
        return trial?.status == 0 ? path : nil
    }()

    /// Runs steps.
    ///
    /// - Parameters:
    ///   - steps: The steps; see ``CrashStep``.
    ///   - progress: What is known before.
    ///   - injection: What strace is to do.
    ///   - trace: The file for strace's trace of all calls that change files.
    /// - Returns: What it has done, and if it is not traced, whether a call failed for the injection.
    func run(
        _ steps: [String], after progress: CrashProgress = CrashProgress(),
        injecting injection: Injection? = nil, tracingTo trace: String? = nil,
        onNetwork: Bool = false
    ) async throws -> CrashProgress {
        let writer = try TestProgram.path(named: "QuireCrashWriter")
        let arguments = [folder, String(seed)] + steps
        let log = trace ?? folder + ".calls"
        var options = ["-o", log]
        var calls: Set<String> = []
        if trace != nil {
            options += ["-xx", "-s", "10000000"]
            calls.formUnion(SystemCallTrace.calls)
        } else {
            options += ["-s", "0"]
        }
        if let injection {
            let call = injection.call
            calls.insert(call.name)
            let when = "\(call.number)\(call.andAllThatFollow ? "+" : "")"
            options += ["-e", "inject=\(call.name):\(injection.what):when=\(when)"]
        }
        if onNetwork {
            // What statfs(2) says of NFS.
            calls.insert("fstatfs")
            options += ["-e", "inject=fstatfs:poke_exit=@arg2=6969000000000000"]
        }
        let ended: ChildProcess.Outcome
        if !calls.isEmpty, let strace = Self.strace {
            options += ["-e", "trace=" + calls.sorted().joined(separator: ",")]
            ended = try await ChildProcess.run(
                strace, ["-f", "-qq"] + options + [writer] + arguments)
        } else {
            ended = try await ChildProcess.run(writer, arguments)
        }
        if ended.timedOut { throw Stuck(steps: steps, injection: injection) }
        var result = CrashProgress(ended.output, after: progress)
        result.wasEndedBySignal = ended.status == nil
        if injection != nil, trace == nil {
            let calls = try String(contentsOfFile: log, encoding: .utf8)
            result.wasHindered = calls.contains("(INJECTED)")
            try FileManager.default.removeItem(atPath: log)
        }
        return result
    }

    private struct Stuck: Error, CustomStringConvertible {
        var steps: [String]
        var injection: Injection?
        var description: String {
            "QuireCrashWriter did not end within its time: \(steps.joined(separator: " ")), "
                + (injection?.description ?? "not hindered")
        }
    }
}
