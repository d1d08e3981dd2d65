import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// A process that works on documents is killed at any of its calls, and the documents must each time be exactly what the
/// last save that returned has left, or the one that was running.
@Suite(
    .serialized,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct DocumentCrashTests {
    @Test func uninterruptedSavesAreAllThere() async throws {
        let folder = try ScratchFolder()
        let writer = CrashWriterProcess(folder: folder.path, seed: 7)
        let progress = try await writer.run(["create", "save=20", "close"])
        #expect(progress.isClosed && progress.wrongs == [])
        #expect(progress.allowed == [CrashSession.name: [20]])
        try await expectIntact(writer, progress)
    }

    /// Saves, killed at a random call in between, and begun anew from where the document stands, which is recovery under
    /// fire as well: opening writes too.
    @Test(arguments: 0..<(Torture.isOn ? 20 : 1))
    func killedDocumentIsThatOfTheLastSaveOrTheOneThatRan(round: Int) async throws {
        let seed = SeededRandom.baseSeed &+ UInt64(round)
        var random = SeededRandom(seed: seed)
        let folder = try ScratchFolder()
        let writer = CrashWriterProcess(folder: folder.path, seed: seed)
        var last = Torture.isOn ? 200 : 24
        let wanted = Torture.isOn ? 21 : 3
        var progress = CrashProgress()
        var kills = 0
        var stand = 0
        while !progress.isClosed || stand < last {
            let (name, usual) = CrashWriterProcess.changingCalls.randomElement(using: &random)!
            let call = CrashWriterProcess.Call(
                name: name, number: .random(in: 1...max(usual / 3, 2), using: &random))
            // Some calls come too rarely to be reached; the process then ends by itself.
            progress = try await writer.run(
                ["open", "save=\(min(stand + 12, last))", "close"], after: progress,
                injecting: .init(what: "signal=SIGKILL", call: call))
            try #require(progress.failures == [] && progress.wrongs == [], "seed \(seed)")
            if !progress.isClosed { kills += 1 }
            stand = try await expectIntact(
                writer, progress, after: "seed \(seed), killed at \(call)")
            if stand == last, kills < wanted { last += 24 }
            try #require(last < 2000, "seed \(seed): killed \(kills) times only")
        }
    }

    /// The same steps, killed at each call in turn.
    @Test(arguments: PowerLossScenario.all.filter(\.kills.isEmpty))
    func killedAtEveryCall(scenario: PowerLossScenario) async throws {
        var kills = 0
        for seed in SeededRandom.baseSeed..<SeededRandom.baseSeed + Torture.seeds {
            var random = SeededRandom(seed: seed)
            let calls = CrashWriterProcess.changingCalls.shuffled(using: &random)
            for (name, usual) in Torture.isOn ? calls : Array(calls.prefix(1)) {
                var number = Torture.isOn ? 1 : .random(in: 1...max(usual / 4, 2), using: &random)
                while true {
                    let call = CrashWriterProcess.Call(name: name, number: number)
                    let progress = try await interrupt(
                        scenario, seed: seed, by: .init(what: "signal=SIGKILL", call: call))
                    if progress.isClosed { break }
                    kills += 1
                    if !Torture.isOn { break }
                    number += 1
                }
            }
        }
        print("Killed while \(scenario.name): \(kills) times.")
        #expect(kills > 0 || !Torture.isOn)
    }

    /// Runs a scenario's steps, disturbed, and looks at what they leave.
    @discardableResult
    private func interrupt(
        _ scenario: PowerLossScenario, seed: UInt64, by injection: CrashWriterProcess.Injection
    ) async throws -> CrashProgress {
        let folder = try ScratchFolder()
        let writer = CrashWriterProcess(folder: folder.path, seed: seed)
        var progress = try await scenario.prepare(writer)
        progress = try await writer.run(
            scenario.processes[0], after: progress, injecting: injection,
            onNetwork: scenario.isOnNetwork)
        #expect(progress.failures == [] && progress.wrongs == [], "\(injection), seed \(seed)")
        try await expectIntact(
            writer, progress, after: "\(injection) while \(scenario.name), seed \(seed)")
        return progress
    }

    /// Looks at what there is.
    ///
    /// - Returns: The save that the document stands at; 0 if it is not there.
    @discardableResult
    private func expectIntact(
        _ writer: CrashWriterProcess, _ progress: CrashProgress, after what: String = ""
    ) async throws -> Int {
        let check = CrashCheck(folder: writer.folder, seed: writer.seed)
        let problems = await check.problems(allowing: progress.allowed)
        #expect(problems == [], "\(what)")
        return await check.look(at: CrashSession.name).stand ?? 0
    }
}
