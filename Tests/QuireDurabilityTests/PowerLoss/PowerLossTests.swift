import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The power fails at any moment while documents are used, and disks lose what was not synchronized, in any combination.
/// Every document must open by itself, be exactly that of one save, and not an older one than the last that returned.
@Suite(
    .serialized,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct PowerLossTests {
    private static let seed = SeededRandom.baseSeed &+ 40

    @Test(arguments: PowerLossScenario.all)
    func documentIsThatOfOneSave(scenario: PowerLossScenario) async throws {
        let recorded = try await scenario.record(seed: Self.seed)
        var random = SeededRandom(seed: Self.seed)
        let states = CrashStates(recording: recorded.recording, progress: recorded.progress)
            .states(limit: Torture.isOn ? Torture.states : 10, random: &random)
        var violations: [String] = []
        for state in states {
            for problem in try await check(state, seed: Self.seed) {
                violations.append("\(problem) — \(state.story)")
            }
        }
        print(
            "Power loss while \(scenario.name): \(recorded.recording.operations.count) operations, "
                + "\(states.count) states, \(violations.count) violations.")
        #expect(violations.isEmpty, "seed \(Self.seed): \(violations.prefix(10))")
    }

    /// What is wrong with the documents of a state.
    private func check(_ state: CrashState, seed: UInt64) async throws -> [String] {
        let folder = try ScratchFolder()
        try state.disk.write(to: folder.path("documents"))
        return await CrashCheck(folder: folder.path("documents"), seed: seed)
            .problems(allowing: state.allowed)
    }

    /// Shows what each kind of synchronization is good for: without it the disks of some power loss hold no such document.
    @Test(
        arguments: Torture.isOn
            ? SynchronizedThing.needed.filter { Torture.scenario ?? $0.1 == $0.1 }
            : Array(SynchronizedThing.needed.prefix(5)))
    func withoutSynchronizationDocumentsAreLost(thing: String, scenario: String) async throws {
        var tried = 0
        // Not everything that is recorded needs it: what is lost may be what nobody uses any more.
        for seed in Self.seed..<Self.seed + 6 {
            let recorded = try await PowerLossScenario.named(scenario).record(seed: seed)
            var random = SeededRandom(seed: seed)
            var states = CrashStates(recording: recorded.recording, progress: recorded.progress)
            states.ignored = thing
            for state in states.states(limit: 500, random: &random) {
                tried += 1
                if let problem = try await check(state, seed: seed).first {
                    print("Without synchronizing \(thing), after \(tried) states: \(problem)")
                    return
                }
            }
        }
        Issue.record(
            "Nothing is lost without synchronizing the \(thing) while \(scenario); \(tried) states."
        )
    }

    /// Every synchronization is one that ``withoutSynchronizationDocumentsAreLost(thing:scenario:)`` shows to be needed, or
    /// one of which it is said why it is made all the same.
    @Test(arguments: PowerLossScenario.all)
    func everySynchronizationIsAccountedFor(scenario: PowerLossScenario) async throws {
        let known = Set(SynchronizedThing.needed.map(\.0)).union(SynchronizedThing.others.keys)
        for operation in try await scenario.record(seed: Self.seed).recording.operations {
            if case .synchronize(_, let thing) = operation {
                if !known.contains(thing) {
                    Issue.record("Why is the \(thing) synchronized?")
                }
            }
        }
    }
}

extension SynchronizedThing {
    /// Things whose synchronization documents depend on, with a scenario in which they do.
    static let needed: [(String, String)] =
        [
            ("external file", "saving"),
            ("external folder", "saving"),
            ("content file", "saving"),
            ("generation folder", "saving"),
            ("log", "saving"),
            ("folder of documents", "copying"),
            ("support folder", "creating"),
            ("content folder", "saving"),
            ("package", "saving"),
            ("metadata", "saving"),
            ("store", "saving"),
            ("store folder", "saving"),
            ("new package", "creating"),
            ("new store", "creating"),
            ("new store folder", "creating"),
            ("new metadata", "creating"),
            ("new content file", "copying"),
            ("new content folder", "copying"),
            ("new generation folder", "copying"),
            ("new external file", "copying"),
            ("new external folder", "copying"),
            ("new support folder", "copying"),
            ("journal", "saving on a network"),
            ("version file", "keeping versions"),
            ("version folder", "keeping versions"),
            ("versions folder", "keeping versions"),
            ("archive", "archiving"),
            ("staged content file", "reverting to another"),
            ("staged generation folder", "reverting to another"),
            ("staged external file", "reverting to another"),
        ] + (TestProtection.isOn ? [("new keybag", "creating")] : [])

    private static let staged = "It is made as every package is; only parts of it are used."
    private static let sqlite =
        "SQLite does so by itself, in a database that nothing depends on before it is one file."

    /// Things that are synchronized although no document is lost without, and why.
    static let others = [
        "new log": sqlite,
        "new journal": sqlite,
        "staged log": sqlite,
        "staged journal": sqlite,
        "staged store": sqlite,
        "staged store folder": sqlite,
        "staged metadata": staged,
        "staged package": staged,
        "staged keybag": staged,
        "copy to archive": "It is made as every copy of a package is; only the archive stays.",
        "new lock": "It goes with the rest of the new package.",
    ]
}
