import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Calls that fail: what was being done fails, the documents are what they were, nothing is lost in memory, and once calls
/// succeed again everything can be done.
@Suite(
    .serialized,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct FailingCallTests {
    /// Threads are woken by `write` as well; a failure there would only make the process wait for ever. What a full disk
    /// does to `write` is in DocumentFailureTests.
    private static let calls = CrashWriterProcess.changingCalls.map(\.name)
        .filter { $0 != "write" }

    private static let errors = ["ENOSPC", "EIO", "EDQUOT", "EMFILE"]

    /// Calls that give up what is not needed any more. Where they fail there is something left that the next one removes.
    private static let removals: Set<String> = ["unlink", "unlinkat", "rmdir"]

    /// Not on network file systems: without a log a save that was told to have failed may have succeeded, which the next
    /// one takes for somebody else's.
    @Test(arguments: PowerLossScenario.all.filter { $0.kills.isEmpty && !$0.isOnNetwork })
    func callThatFailsOnceFailsOneStep(scenario: PowerLossScenario) async throws {
        var tried = 0
        var failed = 0
        try await forEachCall(of: scenario) { call, error, seed in
            let (progress, writer, folder) = try await run(
                scenario, seed: seed, retrying: true, .init(what: "error=\(error)", call: call))
            defer { withExtendedLifetime(folder) {} }
            tried += 1
            if !progress.failures.isEmpty { failed += 1 }
            let what = "\(error) at \(call) while \(scenario.name), seed \(seed)"
            #expect(progress.isClosed, "\(what): \(progress.failures)")
            #expect(progress.wrongs == [], "\(what): \(progress.failures)")
            if !Self.removals.contains(call.name) {
                let left = try FileSystem.names(in: writer.folder)
                    .filter(FileSystem.isTemporaryName)
                #expect(left == [], "\(what)")
            }
            try await expectIntact(writer, progress, what)
            return progress
        }
        print("Failing once while \(scenario.name): \(tried) calls, \(failed) failed steps.")
    }

    @Test(arguments: PowerLossScenario.all.filter(\.kills.isEmpty))
    func callsThatFailFromOneOnLeaveDocumentsIntact(scenario: PowerLossScenario) async throws {
        var tried = 0
        try await forEachCall(of: scenario) { call, error, seed in
            var call = call
            call.andAllThatFollow = true
            let (progress, writer, folder) = try await run(
                scenario, seed: seed, retrying: false, .init(what: "error=\(error)", call: call))
            defer { withExtendedLifetime(folder) {} }
            tried += 1
            let what = "\(error) at \(call) while \(scenario.name), seed \(seed)"
            // Without a log nothing can be read until the disk takes what rolls the failed save back.
            let wrongs = progress.wrongs.filter {
                !scenario.isOnNetwork || !$0.contains(CrashSession.unreadable)
            }
            #expect(wrongs == [], "\(what): \(progress.failures)")
            try await expectIntact(writer, progress, what)
            return progress
        }
        print("Failing from one on while \(scenario.name): \(tried) calls.")
    }

    /// When the log can be synchronized no more nobody knows whether what it holds has been saved, also if the disk is full:
    /// until the next to open the document has found out, nothing is removed that it may need.
    @Test(arguments: ["keeping versions", "reverting to another"])
    func synchronizationsThatFailFromOneOnLeaveTheOldOrTheNewContent(name: String) async throws {
        let scenario = PowerLossScenario.named(name)
        let seed = SeededRandom.baseSeed
        for number in 1... {
            let call = CrashWriterProcess.Call(
                name: "fdatasync", number: number, andAllThatFollow: true)
            let (progress, writer, folder) = try await run(
                scenario, seed: seed, retrying: false, .init(what: "error=ENOSPC", call: call))
            defer { withExtendedLifetime(folder) {} }
            try await expectIntact(writer, progress, "\(call) while \(name), seed \(seed)")
            if !progress.wasHindered {
                #expect(number > 10)
                break
            }
        }
    }

    /// Each call in turn, as often as there are seeds, each time with another error; without torture some of them.
    private func forEachCall(
        of scenario: PowerLossScenario,
        _ body: (CrashWriterProcess.Call, String, UInt64) async throws -> CrashProgress
    ) async throws {
        if Torture.isOn {
            for round in 0..<min(Int(Torture.seeds), Self.errors.count) {
                for name in Self.calls {
                    for number in 1... {
                        let progress = try await body(
                            .init(name: name, number: number),
                            Self.errors[(number + round) % Self.errors.count],
                            SeededRandom.baseSeed + UInt64(round))
                        if !progress.wasHindered { break }
                    }
                }
            }
        } else {
            var random = SeededRandom(seed: SeededRandom.baseSeed)
            for name in Self.calls.shuffled(using: &random).prefix(1) {
                _ = try await body(
                    .init(name: name, number: .random(in: 1...6, using: &random)),
                    Self.errors.randomElement(using: &random)!, SeededRandom.baseSeed)
            }
        }
    }

    private func run(
        _ scenario: PowerLossScenario, seed: UInt64, retrying: Bool,
        _ injection: CrashWriterProcess.Injection
    ) async throws -> (CrashProgress, CrashWriterProcess, ScratchFolder) {
        let folder = try ScratchFolder()
        let writer = CrashWriterProcess(folder: folder.path, seed: seed)
        var progress = try await scenario.prepare(writer)
        progress = try await writer.run(
            (retrying ? ["retry"] : []) + scenario.processes[0], after: progress,
            injecting: injection, onNetwork: scenario.isOnNetwork)
        return (progress, writer, folder)
    }

    private func expectIntact(
        _ writer: CrashWriterProcess, _ progress: CrashProgress, _ what: String
    ) async throws {
        let problems = await CrashCheck(folder: writer.folder, seed: writer.seed)
            .problems(allowing: progress.allowed)
        #expect(problems == [], "\(what): \(progress.failures)")
    }
}
