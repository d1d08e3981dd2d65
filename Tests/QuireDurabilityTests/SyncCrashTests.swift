import Crypto
import Foundation
import Quire
import QuireRescue
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments
@testable import QuireSync

/// A process that synchronizes a store is killed at any of its calls, or the power fails: the next rounds make it good.
@Suite(
    .serialized, .inClear,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
@MainActor
struct SyncCrashTests {
    /// A step of the process, and the state before it.
    enum Scenario: String, CaseIterable {
        /// It makes the shared document.
        case create
        /// It joins one, with objects of its own.
        case join
        /// It sends saves, with a large value, a change and a deletion.
        case export
        /// It merges the same of another replica.
        case apply
        /// There are so many segments that it writes a snapshot.
        case compact
        /// It writes a snapshot in the place of another one.
        case repair
        /// It makes itself anew, after a save.
        case rebuild

        var step: CrashReplica.Step {
            switch self {
            case .create: .create
            case .join: .join
            case .export, .apply, .compact: .synchronize
            case .repair: .repair
            case .rebuild: .rebuild
            }
        }
    }

    /// A state before the process runs, and what is there when all is done.
    struct Prepared {
        let folder: ScratchFolder
        let content: [String]
        /// The calls that change files of an undisturbed process.
        let calls: [CrashWriterProcess.Call]
    }

    private static var prepared: [Scenario: Prepared] = [:]

    // MARK: - Preparing

    private func edit(_ replica: CrashReplica, _ name: String) throws {
        try replica.insert("new of \(name)")
        try replica.insert("large of \(name)", cover: 150_000 + name.utf8.count)
        try replica.book("second")?["pages"] = 200
        if let author = try replica.book("first")?.object("author") {
            replica.context.delete(author)
        }
        try replica.context.save()
    }

    /// Makes two replicas in a folder, and what comes before the process.
    private func prepare(_ scenario: Scenario, in folder: String) async throws {
        let replica = try CrashReplica("a", in: folder)
        try replica.insert("own", cover: 120_000)
        if scenario == .create { return try replica.close() }
        let other = try CrashReplica("b", in: folder)
        if scenario == .join {
            try other.insert("first")
            try await other.perform(.create)
            try await other.perform(.synchronize)
        } else {
            // The one that writes snapshots is the first.
            try replica.insert("first")
            try replica.insert("second")
            try await replica.perform(.create)
            try await replica.perform(.synchronize)
            try await other.perform(.join)
        }
        switch scenario {
        case .create, .join: break
        case .export: try edit(replica, "a")
        case .apply:
            try edit(other, "b")
            try await other.perform(.synchronize)
        case .compact:
            for number in 0..<66 {
                try replica.book("second")?["pages"] = Int32(number)
                try replica.context.save()
                if number < 65 { try await replica.perform(.synchronize) }
            }
        case .repair:
            try edit(other, "b")
            try await other.perform(.repair)
            try edit(replica, "a")
        case .rebuild:
            try edit(other, "b")
            try await other.perform(.synchronize)
            try replica.insert("unsent", cover: 130_000)
        }
        try replica.close()
        try other.close()
    }

    private func prepared(_ scenario: Scenario) async throws -> Prepared {
        if let known = Self.prepared[scenario] { return known }
        let folder = try ScratchFolder()
        let start = folder.path("start")
        try FileSystem.makeFolder(start)
        try await prepare(scenario, in: start)
        let trial = folder.path("trial")
        try FileManager.default.copyItem(atPath: start, toPath: trial)
        let writer = CrashWriterProcess(folder: trial, seed: 1)
        let progress = try await writer.run(
            ["share", scenario.step.rawValue], tracingTo: folder.path("trace"))
        try #require(progress.isClosed, "\(progress)")
        let problems = try incompleteFiles(in: trial)
        #expect(problems == [])
        let content = try await settle(in: trial)
        let known = Prepared(
            folder: folder, content: content,
            calls: try CrashWriterProcess.changingCalls(inTrace: folder.path("trace")))
        Self.prepared[scenario] = known
        return known
    }

    // MARK: - Checking

    /// The files in the shared folder that have final names and are not whole.
    private func incompleteFiles(in folder: String) throws -> [String] {
        let shared = folder + "/shared"
        guard FileSystem.exists(shared) else { return [] }
        var problems: [String] = []
        for (path, information) in try FileSystem.contentsOfTree(shared)
        where information.kind == .regular {
            guard let file = SyncFileName(path) else { continue }
            let bytes = try FileSystem.contents(of: FileSystem.path(shared, path))
            do {
                if let name = SyncSegmentName(file.lastPart) {
                    _ = try SyncSegment(Array(bytes), name: name)
                } else if let digest = SyncBlob.digest(of: file.lastPart) {
                    if Data(SHA256.hash(data: bytes)) != digest { problems.append(path) }
                } else if path == "container.json" {
                    _ = try SyncContainerDescription(bytes).identifier()
                } else {
                    _ = try ManagedObjectModel(modelXML: bytes, name: path)
                }
            } catch {
                problems.append("\(path): \(error)")
            }
        }
        return problems
    }

    /// Segments that a replica takes for sent, and that the folder has neither as files nor in a snapshot.
    private func unsentSegments(_ replica: CrashReplica, in folder: String) async throws -> [Int64]
    {
        let names = { (name: String) throws -> [SyncSegmentName] in
            let path = folder + "/shared/" + name
            guard FileSystem.exists(path) else { return [] }
            return try FileManager.default.contentsOfDirectory(atPath: path).compactMap {
                SyncSegmentName($0)
            }
        }
        let store = await replica.sync.replica
        guard let settings = try store.settings(), settings.sequence > 0 else { return [] }
        var there = SyncVector()
        for name in try names("log") { there.insert(name.peer, name.sequence) }
        for names in SyncSegmentName.wholeSnapshots(try names("base")) {
            let path = folder + "/shared/base/" + names[0].fileName
            let bytes = Array(try FileSystem.contents(of: path))
            there.formUnion(try SyncSegment(bytes, name: names[0]).seen)
        }
        let outbox = try store.reading([]) { try $0.outbox().map(\.sequence) }
        return (1...settings.sequence).filter {
            !outbox.contains($0) && !there.contains(settings.peer, $0)
        }
    }

    /// Opens both replicas, joins those that are none, and runs rounds until nothing is sent.
    ///
    /// - Returns: What both have.
    private func settle(in folder: String, _ comment: String = "") async throws -> [String] {
        let replicas = [try CrashReplica("a", in: folder), try CrashReplica("b", in: folder)]
        for replica in replicas {
            let unsent = try await unsentSegments(replica, in: folder)
            #expect(unsent == [], "\(comment)")
            if try await replica.sync.status() != nil { continue }
            let isThere = FileSystem.exists(folder + "/shared/container.json")
            try await replica.perform(isThere ? .join : .create)
        }
        var sent = 1
        for _ in 0..<5 where sent > 0 {
            sent = 0
            for replica in replicas {
                let result = try await replica.sync.synchronize()
                #expect(result.problems.isEmpty, "\(comment): \(result.problems)")
                #expect(result.missingFileCount == 0, "\(comment)")
                sent += result.sentCount
            }
        }
        #expect(sent == 0, "\(comment): it does not come to an end")
        let contents = try replicas.map { try $0.content() }
        #expect(contents[0] == contents[1], "\(comment)")
        for replica in replicas {
            let status = try await replica.sync.status()
            #expect(status?.outgoingCount == 0 && status?.hasNewChanges == false, "\(comment)")
            for store in replica.context.persistentStoreCoordinator.persistentStores {
                #expect(try StoreCheck.run(on: store).problems.isEmpty, "\(comment)")
            }
            try replica.close()
        }
        #expect(try incompleteFiles(in: folder) == [], "\(comment)")
        return contents[0]
    }

    /// Nothing is half written, and the next rounds lead to what an undisturbed process would have led to.
    private func expectMadeGood(
        _ folder: String, _ prepared: Prepared, _ comment: String
    ) async {
        do {
            #expect(try incompleteFiles(in: folder) == [], "\(comment)")
            #expect(try await settle(in: folder, comment) == prepared.content, "\(comment)")
        } catch {
            Issue.record(error, "\(comment)")
        }
    }

    // MARK: - Tests

    @Test(arguments: Scenario.allCases)
    func aRoundThatIsKilledAnywhereIsMadeGood(_ scenario: Scenario) async throws {
        let prepared = try await prepared(scenario)
        let sample = SeededRandom.sample(
            of: prepared.calls, 4, for: "kill \(scenario.rawValue)")
        var kills = 0
        for call in sample {
            let scratch = try ScratchFolder()
            let folder = scratch.path("documents")
            try FileManager.default.copyItem(
                atPath: prepared.folder.path("start"), toPath: folder)
            let progress = try await CrashWriterProcess(folder: folder, seed: 1).run(
                ["share", scenario.step.rawValue],
                injecting: .init(what: "signal=SIGKILL", call: call))
            let comment = "killed at \(call) while \(scenario.rawValue)"
            #expect(progress.failures == [] && progress.wrongs == [], "\(comment)")
            if !progress.isClosed { kills += 1 }
            await expectMadeGood(folder, prepared, comment)
        }
        print(
            "Killed while \(scenario.rawValue): \(kills) times at \(sample.count) of \(prepared.calls.count) calls."
        )
        // Calls are made by other threads each time, so not all are reached.
        #expect(kills > 0)
    }

    @Test(arguments: Scenario.allCases)
    func whatWasSentIsThereAfterAPowerLoss(_ scenario: Scenario) async throws {
        let prepared = try await prepared(scenario)
        let scratch = try ScratchFolder()
        let folder = scratch.path("documents")
        try FileManager.default.copyItem(atPath: prepared.folder.path("start"), toPath: folder)
        var recording = try DiskRecording(of: folder)
        let progress = try await CrashWriterProcess(folder: folder, seed: 1).run(
            ["share", scenario.step.rawValue], tracingTo: scratch.path("trace"))
        try #require(progress.isClosed, "\(progress)")
        try recording.add(SystemCallTrace(contentsOf: scratch.path("trace")))
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let states = CrashStates(recording: recording, progress: CrashProgress())
            .states(limit: Torture.isOn ? Torture.states : 8, random: &random)
        for state in states {
            let scratch = try ScratchFolder()
            let folder = scratch.path("documents")
            try state.disk.write(to: folder)
            let comment = "seed \(seed), \(scenario.rawValue): \(state.story)"
            await expectMadeGood(folder, prepared, comment)
        }
        print(
            "Power loss while \(scenario.rawValue): \(recording.operations.count) operations, \(states.count) states."
        )
        #expect(!states.isEmpty)
    }
}
