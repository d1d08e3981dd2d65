import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// A process that exports a document to an archive, or extracts one, is killed at any of its calls: the destination is what it
/// was, or the whole new thing, and the next process removes what was left beside it.
@Suite(
    .serialized,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct ArchiveCrashTests {
    /// What the process does, and what comes before it.
    struct Scenario: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var before: [String]
        var step: String
    }

    nonisolated static let scenarios: [Scenario] = [
        .init(
            testDescription: "exporting", before: ["create", "save=6", "close"],
            step: "archive=a.zip"),
        .init(
            testDescription: "replacing an archive",
            before: ["create", "save=3", "archive=a.zip", "save=6", "close"],
            step: "archive=a.zip"),
        .init(
            testDescription: "extracting",
            before: ["create", "save=6", "close", "archive=a.zip"], step: "extract=a.zip,b.quire"),
    ]

    @Test(arguments: scenarios)
    func destinationIsOldOrWholeAfterAKill(_ scenario: Scenario) async throws {
        let seed = SeededRandom.baseSeed
        let folder = try ScratchFolder()
        let start = folder.path("start")
        try FileSystem.makeFolder(start)
        let before = try await CrashWriterProcess(folder: start, seed: seed).run(scenario.before)
        try #require(before.isClosed && before.wrongs == [], "\(before)")

        /// Runs the process in a copy of what comes before it.
        func run(
            in place: String, _ injection: CrashWriterProcess.Injection?, tracingTo trace: String?
        ) async throws -> CrashProgress {
            try FileSystem.copyTree(start, to: folder.path(place))
            return try await CrashWriterProcess(folder: folder.path(place), seed: seed).run(
                [scenario.step], after: before, injecting: injection, tracingTo: trace)
        }

        let undisturbed = try await run(in: "undisturbed", nil, tracingTo: folder.path("trace"))
        try #require(undisturbed.isClosed && undisturbed.failures == [], "\(undisturbed)")
        let calls = try CrashWriterProcess.changingCalls(inTrace: folder.path("trace"))
        var kills = 0
        let sample = SeededRandom.sample(of: calls, 4, for: "kill \(scenario.testDescription)")
        for (number, call) in sample.enumerated() {
            let injection = CrashWriterProcess.Injection(what: "signal=SIGKILL", call: call)
            let comment = "seed \(seed), \(injection) while \(scenario.testDescription)"
            let place = "killed \(number)"
            let progress = try await run(in: place, injection, tracingTo: nil)
            #expect(progress.failures == [] && progress.wrongs == [], "\(comment)")
            if !progress.isClosed { kills += 1 }
            try await expectMadeGood(
                in: folder.path(place), progress, scenario, seed: seed, comment)
            try FileSystem.removeTree(folder.path(place))
        }
        print(
            "Killed while \(scenario.testDescription): \(kills) times at \(sample.count) of \(calls.count) calls."
        )
        // Other threads may make a call than in the undisturbed process, so not all are reached.
        #expect(kills > 0)
    }

    /// Runs the step again, which removes what the killed process has left, and then looks at everything.
    private func expectMadeGood(
        in folder: String, _ progress: CrashProgress, _ scenario: Scenario, seed: UInt64,
        _ comment: String
    ) async throws {
        let check = CrashCheck(folder: folder, seed: seed)
        let copy = folder + " again"
        try FileSystem.copyTree(folder, to: copy)
        // Looking at an archive extracts it, which removes what is left as well.
        #expect(await check.problems(allowing: progress.allowed) == [], "\(comment)")

        let extracted = copy + "/b.quire"
        if FileSystem.exists(extracted) { try FileSystem.removeTree(extracted) }
        let again = try await CrashWriterProcess(folder: copy, seed: seed)
            .run([scenario.step], after: progress)
        #expect(again.isClosed && again.failures == [] && again.wrongs == [], "\(comment)")
        #expect(
            try FileSystem.names(in: copy).filter(FileSystem.isTemporaryName) == [], "\(comment)")
        let problems = await CrashCheck(folder: copy, seed: seed)
            .problems(allowing: again.allowed)
        #expect(problems == [], "again, \(comment)")
        try FileSystem.removeTree(copy)
    }
}
