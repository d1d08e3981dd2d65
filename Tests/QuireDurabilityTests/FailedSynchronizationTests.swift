import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// After a synchronization has failed the kernel may have dropped what was to be written, and the next one of the same file
/// succeeds all the same. So none follows; what was being written is given up, the store is opened anew and checked, and the
/// next save writes everything again.
@Suite(
    .serialized,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct FailedSynchronizationTests {
    @Test(arguments: ["saving", "saving elsewhere", "reverting to another"])
    func isNeverRepeatedAndNothingIsLost(scenario: String) async throws {
        let scenario = PowerLossScenario.named(scenario)
        var failed = 0
        for name in ["fsync", "fdatasync"] {
            for number in Torture.isOn ? Array(1...40) : [1, 3] {
                let folder = try ScratchFolder()
                let trace = folder.path("trace")
                let documents = folder.path("documents")
                try FileSystem.makeFolder(documents)
                let writer = CrashWriterProcess(folder: documents, seed: 11)
                var progress = try await scenario.prepare(writer)
                progress = try await writer.run(
                    ["retry"] + scenario.processes[0], after: progress,
                    injecting: .init(what: "error=EIO", call: .init(name: name, number: number)),
                    tracingTo: trace, onNetwork: scenario.isOnNetwork)
                let what = "\(name) \(number) while \(scenario.name)"
                #expect(progress.isClosed, "\(what): \(progress.failures)")
                #expect(progress.wrongs == [], "\(what): \(progress.failures)")
                let problems = await CrashCheck(folder: documents, seed: writer.seed)
                    .problems(allowing: progress.allowed)
                #expect(problems == [], "\(what): \(progress.failures)")
                let attempts = try SystemCallTrace(contentsOf: trace).attempts
                failed += attempts.count { $0.name == name && $0.result < 0 }
                expectNoneFollows(attempts, what)
            }
        }
        print("Failed synchronizations while \(scenario.name): \(failed).")
        #expect(failed > 0)
    }

    /// A descriptor that could not be synchronized is closed without having been so again. But for the database itself,
    /// whose pages SQLite writes once more from the log before.
    private func expectNoneFollows(_ attempts: [SystemCallTrace.Call], _ what: String) {
        var failed: Set<Int> = []
        var databases: Set<Int> = []
        for call in attempts {
            if call.name.hasPrefix("open"), call.result >= 0 {
                databases.remove(call.result)
                if call.arguments.contains(where: { $0.text.hasSuffix("/persistentStore") }) {
                    databases.insert(call.result)
                }
            }
            guard let descriptor = call.arguments.first?.number else { continue }
            switch call.name {
            case "close": failed.remove(descriptor)
            case "fsync", "fdatasync":
                #expect(!failed.contains(descriptor), "\(what): synchronized again")
                if call.result < 0, !databases.contains(descriptor) { failed.insert(descriptor) }
            default: break
            }
        }
    }

    /// The transaction of a failed save is in the log, whole, and must not come back when that is read anew.
    @Test func failedSaveIsNotInTheStoreThatIsOpenedAgain() async throws {
        var failed = 0
        for number in 1...(Torture.isOn ? 20 : 4) {
            let folder = try ScratchFolder()
            let writer = CrashWriterProcess(folder: folder.path, seed: 12)
            var progress = try await writer.run(["create", "save=2", "close"])
            progress = try await writer.run(
                ["open", "retry", "save=5", "close"], after: progress,
                injecting: .init(what: "error=EIO", call: .init(name: "fdatasync", number: number)))
            if progress.failures.contains(where: { $0.contains("storeUnavailable") }) {
                failed += 1
            }
            #expect(progress.isClosed && progress.wrongs == [], "\(progress)")
            let problems = await CrashCheck(folder: folder.path, seed: writer.seed)
                .problems(allowing: progress.allowed)
            #expect(problems == [], "\(progress.failures)")
        }
        #expect(failed > 0)
    }
}
