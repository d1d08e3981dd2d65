import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// A document is killed again and again while it is being saved, and must each time be exactly what the last save that
/// returned has left, or the one that was running.
@Suite(.serialized) @MainActor struct DocumentCrashTests {
    private static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"

    private func skip(_ test: String, _ reason: String) {
        FileHandle.standardError.write(Data("SKIPPED \(test): \(reason).\n".utf8))
    }

    @Test func uninterruptedSavesAreAllThere() async throws {
        let folder = try TemporaryFolder()
        let writer = CrashWriterProcess(path: folder.path("a.quire"), seed: 7)
        let outcome = try await writer.run(from: 1, to: 20)
        #expect(outcome.isClosed)
        #expect(outcome.saved == 20)
        try await expectContent(writer, of: 20...20)
    }

    /// 200 saves, killed at a random call in between, and begun anew from where the document stands, which is recovery under
    /// fire as well: opening writes too.
    @Test func killedDocumentIsThatOfTheLastSaveOrTheOneThatRan() async throws {
        guard CrashWriterProcess.strace != nil else {
            return skip("killedDocument…", "there is no strace that may be used")
        }
        let seed = SeededRandom.baseSeed &+ (Self.isTorture ? UInt64.random(in: 0..<1 << 32) : 0)
        var random = SeededRandom(seed: seed)
        let folder = try TemporaryFolder()
        let writer = CrashWriterProcess(path: folder.path("a.quire"), seed: seed)
        let last = 200
        var saved = 0
        var kills = 0
        while saved < last {
            let call = randomCall(&random)
            // Some calls come too rarely to be reached; the process then ends by itself.
            let outcome = try await writer.run(
                from: saved + 1, to: min(saved + 12, last), injecting: "signal=SIGKILL", at: call)
            try #require(outcome.failure == nil, "seed \(seed): \(outcome.failure ?? "")")
            if !outcome.isClosed { kills += 1 }
            let least = max(saved, outcome.saved)
            let most = max(least, outcome.begun)
            guard FileSystem.exists(writer.path) else {
                // Killed while it was being made.
                try #require(!outcome.isCreated && saved == 0, "seed \(seed)")
                continue
            }
            saved = try await expectContent(
                writer, of: least...most, after: "seed \(seed), killed at \(call)")
        }
        #expect(kills > 20, "seed \(seed)")
        try await expectContent(writer, of: last...last, after: "seed \(seed), at the end")
    }

    /// The same document, killed at each call in turn of its first saves, creation included.
    @Test func killedAtEveryCallOfTheFirstSaves() async throws {
        guard CrashWriterProcess.strace != nil else {
            return skip("killedAtEveryCall…", "there is no strace that may be used")
        }
        var kills = 0
        for (name, _) in CrashWriterProcess.changingCalls {
            var number = 1
            while true {
                let call = CrashWriterProcess.Call(name: name, number: number)
                let folder = try TemporaryFolder()
                let writer = CrashWriterProcess(path: folder.path("a.quire"), seed: 3)
                let outcome = try await writer.run(
                    from: 1, to: 6, injecting: "signal=SIGKILL", at: call)
                if outcome.isClosed { break }
                kills += 1
                if FileSystem.exists(writer.path) {
                    try await expectContent(
                        writer, of: outcome.saved...max(outcome.saved, outcome.begun),
                        after: "killed at \(call)")
                } else {
                    #expect(!outcome.isCreated, "killed at \(call)")
                }
                number += Self.isTorture ? 1 : name == "pwrite64" ? 31 : 5
            }
        }
        #expect(kills > 20)
    }

    /// Calls that fail instead: the save fails, and the document is that of a save before it.
    @Test(arguments: ["ENOSPC", "EIO"])
    func failingCallsFailTheSaveAndNothingElse(error: String) async throws {
        guard CrashWriterProcess.strace != nil else {
            return skip("failingCalls…", "there is no strace that may be used")
        }
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        var failures = 0
        for _ in 0..<(Self.isTorture ? 200 : 6) {
            // Threads are woken by writes as well; a failure there would only make the process wait for ever.
            let call = randomCall(&random, except: "write")
            let folder = try TemporaryFolder()
            let writer = CrashWriterProcess(path: folder.path("a.quire"), seed: 5)
            let outcome = try await writer.run(
                from: 1, to: 12, injecting: "error=\(error)", at: call)
            if outcome.failure != nil { failures += 1 }
            guard FileSystem.exists(writer.path) else {
                #expect(!outcome.isCreated)
                continue
            }
            // After a failed save the process gives up, so nothing can be there that it did not begin.
            try await expectContent(
                writer, of: outcome.saved...max(outcome.saved, outcome.begun),
                after: "\(error) at \(call): \(outcome.failure ?? "no failure")")
        }
        #expect(failures > 0)
    }

    /// - Parameter excluded: A call not to choose.
    private func randomCall(
        _ random: inout SeededRandom, except excluded: String = ""
    ) -> CrashWriterProcess.Call {
        let calls = CrashWriterProcess.changingCalls.filter { $0.name != excluded }
        let (name, usual) = calls[Int.random(in: calls.indices, using: &random)]
        return .init(
            name: name,
            number: .random(in: 1...(Self.isTorture ? max(usual / 4, 2) : usual), using: &random))
    }

    /// Opens the document as a user would, and compares it with what the saves must have left.
    ///
    /// - Returns: The save that it stands at.
    @discardableResult
    private func expectContent(
        _ writer: CrashWriterProcess, of saves: ClosedRange<Int>, after what: String = ""
    ) async throws -> Int {
        let document = ManagedDocument(path: writer.path)
        document.autosavePolicy = .never
        try await document.open()
        let found = try CrashContent(of: document)
        var expected = CrashContent()
        while expected.saves < min(found.saves, saves.upperBound) {
            expected.advance(seed: writer.seed)
        }
        #expect(saves.contains(found.saves), "\(what): stands at \(found.saves), not \(saves)")
        #expect(found == expected, "\(what): the content is not that of save \(found.saves)")
        let problems = try await document.check().map(\.message)
        #expect(problems == [], "\(what)")
        #expect(try document.package.leftovers() == [], "\(what)")
        try await document.close()
        let layout = document.packageLayout
        #expect(
            try FileSystem.names(in: layout.storeFolder).filter {
                $0.hasSuffix("-wal") || $0.hasSuffix("-shm")
            }
                == [], "\(what)")
        #expect(!FileSystem.exists(layout.lock), "\(what)")
        return found.saves
    }
}

extension ManagedDocument {
    fileprivate var packageLayout: DocumentPackageLayout { DocumentPackageLayout(path: path) }
}
