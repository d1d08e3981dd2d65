import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Documents and the process's descriptors: none is kept, and a document that gets none loses nothing.
@Suite(.serialized) @MainActor struct DescriptorTests {
    @Test func openingAndClosingLeavesNothingOpen() async throws {
        let folder = try ScratchFolder()
        let path = folder.path("a.quire")
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        var content = CrashContent()
        try await document.create(model: CrashContent.model)
        for _ in 0..<3 { try content.advance(seed: 1, in: document) }
        try await document.close()
        let cycles = Torture.isOn ? 10_000 : 200
        for cycle in 0..<cycles {
            try await document.open(readOnly: cycle % 3 == 2)
            if cycle % 50 == 0 {
                #expect(try document.managedObjectContext.fetch(FetchRequest("Note")).count > 0)
            }
            try await document.close()
        }
        let threads = try FileSystem.names(in: "/proc/self/task").count
        print("Opened and closed \(cycles) times: \(threads) threads.")
        // In the short form other suites run beside it.
        if Torture.isOn { #expect(threads < 150) }
        #expect(open(below: folder.path) == [])
        #expect(try FileSystem.names(in: folder.path) == ["a.quire"])
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
    }

    private func open(below folder: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
        }
        .filter { $0.hasPrefix(folder) }
    }

    /// What became of a package in a folder.
    private struct Outcome {
        let folder: ScratchFolder
        let writer: CrashWriterProcess
        let progress: CrashProgress

        /// What is wrong with what was left.
        @MainActor var problems: [String] {
            get async {
                await CrashCheck(folder: folder.path, seed: writer.seed)
                    .problems(allowing: progress.allowed)
            }
        }
    }

    /// Makes a package and runs steps on it, some of which get few descriptors.
    ///
    /// Once a second Dispatch counts the running threads of a queue whose work waits, opens a file for that, and ends the process
    /// if it cannot (`_dispatch_workq_count_runnable_workers`). On a busy machine that happens; then all is done anew.
    private func run(
        _ steps: [String], seed: UInt64, attempts: Int = 5
    ) async throws -> Outcome {
        let folder = try ScratchFolder()
        let writer = CrashWriterProcess(folder: folder.path, seed: seed)
        var progress = try await writer.run(["create", "save=2", "close"])
        progress = try await writer.run(steps, after: progress)
        if progress.wasEndedBySignal, attempts > 1 {
            return try await run(steps, seed: seed, attempts: attempts - 1)
        }
        return Outcome(folder: folder, writer: writer, progress: progress)
    }

    /// `EMFILE` at each opening of a file in turn.
    @Test(arguments: [
        "open save=3 close", "open copy=b.quire close", "open saveAs=b.quire close",
        "migrate save=3 close",
    ])
    func withoutDescriptorsNothingIsLost(steps: String) async throws {
        var failed = 0
        let counts = Torture.isOn ? Array(0...24) : [0, 2, 5]
        for count in counts {
            var steps = steps.split(separator: " ").map(String.init)
            // Sometimes the first step already, sometimes the second.
            steps.insert("descriptors=\(count)", at: count % 2)
            let outcome = try await run(["retry"] + steps, seed: 21)
            let progress = outcome.progress
            if !progress.failures.isEmpty { failed += 1 }
            let what = "\(steps)"
            #expect(progress.isClosed, "\(what): \(progress.failures)")
            #expect(progress.wrongs == [], "\(what): \(progress.failures)")
            #expect(await outcome.problems == [], "\(what): \(progress.failures)")
        }
        #expect(failed > 0, "\(steps)")
    }

    /// As the article on documents says; the socket is not below the folder.
    @Test func documentHasEightDescriptors() async throws {
        let folder = try ScratchFolder()
        let document = ManagedDocument(path: folder.path("a.quire"))
        try await document.create(model: CrashContent.model)
        _ = try document.managedObjectContext.fetch(FetchRequest("Note"))
        #expect(open(below: folder.path).count == 7)
        try await document.save()
        #expect(open(below: folder.path).count == 7)
        try await document.close()
        #expect(open(below: folder.path) == [])
    }

    @Test func savingAndClosingNeedNoFreeDescriptor() async throws {
        let outcome = try await run(["open", "descriptors=0", "save=5", "close"], seed: 22)
        #expect(outcome.progress.failures == [])
        #expect(outcome.progress.isClosed)
        #expect(outcome.progress.wrongs == [])
        #expect(await outcome.problems == [])
    }

    @Test func openingWithoutDescriptorsSaysHowToGetMore() async throws {
        let progress = try await run(["retry", "descriptors=0", "open", "close"], seed: 23).progress
        #expect(progress.failures.count == 1)
        #expect(progress.failures.first?.contains("raise the limit with “ulimit -n”") == true)
        #expect(progress.isClosed)
    }
}
