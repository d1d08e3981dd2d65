import Foundation
import QuireTestSupport

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Runs `QuireCrashWriter`, under strace if it is to be killed or hindered.
struct CrashWriterProcess {
    /// How far the process came.
    struct Outcome {
        /// Whether the document was complete.
        var isCreated = false
        /// The last save that returned.
        var saved = 0
        /// The last save that began.
        var begun = 0
        /// Whether it came to its end.
        var isClosed = false
        /// What it said about a failure.
        var failure: String?
    }

    let path: String
    let seed: UInt64

    /// A system call of one of the process's threads.
    struct Call: CustomStringConvertible {
        var name: String
        /// Which one of that name in its thread, from 1. strace counts each name and each thread by itself.
        var number: Int

        var description: String { "\(name) \(number)" }
    }

    /// The calls that change files, with how many of each a thread makes in a few saves.
    static let changingCalls: [(name: String, usual: Int)] = [
        ("pwrite64", 50), ("fsync", 12), ("fdatasync", 5), ("write", 10), ("renameat2", 3),
        ("linkat", 3), ("unlinkat", 6), ("mkdir", 6), ("unlink", 2), ("rename", 2),
        ("rmdir", 2), ("ftruncate", 3),
    ]

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

    /// The program, which lies beside the tests.
    static func program() throws -> URL {
        let folders = [
            Bundle.main.executableURL?.deletingLastPathComponent(),
            URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent(),
        ]
        for folder in folders {
            guard let url = folder?.appendingPathComponent("QuireCrashWriter"),
                FileManager.default.isExecutableFile(atPath: url.path)
            else { continue }
            return url
        }
        throw Missing()
    }

    private struct Missing: Error, CustomStringConvertible {
        var description: String { "QuireCrashWriter is not beside the tests." }
    }

    /// Makes the saves from `first` to `last`.
    ///
    /// - Parameters:
    ///   - injection: What strace does at the call: `signal=SIGKILL`, or `error=ENOSPC`.
    ///   - call: The call.
    func run(
        from first: Int, to last: Int, injecting injection: String? = nil, at call: Call? = nil
    ) async throws -> Outcome {
        let writer = try Self.program()
        let arguments = [path, String(seed), String(last), String(first)]
        let ended: ChildProcess.Outcome
        if let injection, let call, let strace = Self.strace {
            ended = try await ChildProcess.run(
                strace,
                [
                    "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call.name)", "-e",
                    "inject=\(call.name):\(injection):when=\(call.number)", writer.path,
                ] + arguments)
        } else {
            ended = try await ChildProcess.run(writer.path, arguments)
        }
        if ended.timedOut { throw Stuck(call: call) }
        return Self.outcome(of: ended.output)
    }

    private struct Stuck: Error, CustomStringConvertible {
        var call: Call?
        var description: String {
            "QuireCrashWriter did not end within its time; \(call.map { "hindered at \($0)" } ?? "")"
        }
    }

    private static func outcome(of text: String) -> Outcome {
        var outcome = Outcome()
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            switch words.first {
            case "created": outcome.isCreated = true
            case "saving": outcome.begun = Int(words[1]) ?? 0
            case "saved": outcome.saved = Int(words[1]) ?? 0
            case "closed": outcome.isClosed = true
            case "failed": outcome.failure = String(line)
            default: break
            }
        }
        return outcome
    }
}
