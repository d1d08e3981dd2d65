import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Something that documents are used for, during which the power may fail.
struct PowerLossScenario: CustomTestStringConvertible, Sendable {
    var name: String
    /// Steps of `QuireCrashWriter` that are over and durable when the recording begins.
    var before: [String] = []
    /// The steps of the processes that are recorded, one after the other.
    var processes: [[String]]
    /// Where the processes are killed that do not come to their end, by their number.
    var kills: [Int: (name: String, number: Int)] = [:]
    /// Whether the folder is taken for one on a network file system.
    var isOnNetwork = false

    var testDescription: String { name }

    /// Adding one is adding a line; ``CrashStep`` lists what can be done.
    static let all = table.filter { Torture.scenario == nil || $0.name == Torture.scenario }

    private static let table: [PowerLossScenario] = [
        .init(
            name: "saving", before: ["create", "save=2", "close"],
            processes: [["open", "save=7", "close"]]),
        .init(name: "creating", processes: [["create", "save=2", "close"]]),
        .init(
            name: "autosaving", before: ["create", "save=2", "close"],
            processes: [["open", "autosave=5", "close"]]),
        .init(
            name: "importing", before: ["create", "save=3", "close"],
            processes: [["open", "import", "save=1005", "close"]]),
        .init(
            name: "copying", before: ["create", "save=6", "close"],
            processes: [["open", "copy=b.quire", "save=7", "replace=b.quire", "close"]]),
        .init(
            name: "migrating", before: ["create", "save=6", "close"],
            processes: [["migrate", "save=7", "close"]]),
        .init(
            name: "saving elsewhere", before: ["create", "save=6", "close"],
            processes: [["open", "export=b.quire", "saveAs=c.quire", "save=9", "close"]]),
        .init(
            name: "reverting to another",
            before: ["create", "save=3", "copy=b.quire", "save=14", "close"],
            processes: [["open", "save=15", "revertTo=b.quire", "save=4", "close"]]),
        .init(
            name: "keeping versions", before: ["create", "save=3", "close"],
            processes: [["open", "keep", "save=6", "keep", "restore", "save=5", "close"]]),
        .init(
            name: "moving", before: ["create", "save=3", "close"],
            processes: [["open", "move=b.quire", "save=5", "close"]]),
        .init(
            name: "saving after a kill", before: ["create", "close"],
            processes: [["open", "save=9"], ["open", "save=12", "close"]],
            kills: [0: ("fsync", 8)]),
        .init(
            name: "saving first external data after a kill", before: ["create", "close"],
            processes: [["open", "save=9"], ["open", "save=9", "close"]],
            kills: [0: ("mkdirat", 2)]),
        .init(
            name: "saving on a network", before: ["create", "save=2", "close"],
            processes: [["open", "save=6", "close"]], isOnNetwork: true),
    ]

    static func named(_ name: String) -> PowerLossScenario {
        table.first { $0.name == name } ?? PowerLossScenario(name: name, processes: [])
    }

    /// What was recorded, and what was known before.
    struct Recorded {
        var recording: DiskRecording
        var progress: CrashProgress
    }

    @MainActor private static var starts: [String: (Disk, CrashProgress)] = [:]
    @MainActor private static var recordings: [String: Recorded] = [:]

    /// Puts what is there before into an empty folder.
    @MainActor
    func prepare(_ writer: CrashWriterProcess) async throws -> CrashProgress {
        if before.isEmpty { return CrashProgress() }
        let key = "\(isOnNetwork) \(before) \(writer.seed)"
        if let (disk, progress) = Self.starts[key] {
            try disk.write(to: writer.folder)
            return progress
        }
        let progress = try await writer.run(before, onNetwork: isOnNetwork)
        guard progress.isClosed else { throw Failure(description: "\(before): \(progress)") }
        Self.starts[key] = (try Disk(contentsOf: writer.folder), progress)
        return progress
    }

    private struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs it, unless it has been recorded already.
    @MainActor
    func record(seed: UInt64) async throws -> Recorded {
        if let recorded = Self.recordings[name] { return recorded }
        let folder = try ScratchFolder()
        let documents = folder.path("documents")
        try FileSystem.makeFolder(documents)
        let writer = CrashWriterProcess(folder: documents, seed: seed)
        let progress = try await prepare(writer)
        var recorded = Recorded(recording: try DiskRecording(of: documents), progress: progress)
        for (number, steps) in processes.enumerated() {
            let trace = folder.path("trace-\(number)")
            let kill = kills[number].map {
                CrashWriterProcess.Injection(
                    what: "signal=SIGKILL", call: .init(name: $0.name, number: $0.number))
            }
            let ended = try await writer.run(
                steps, injecting: kill, tracingTo: trace, onNetwork: isOnNetwork)
            guard ended.isClosed == (kill == nil), ended.wrongs.isEmpty else {
                throw Failure(description: "\(steps): \(ended)")
            }
            try recorded.recording.add(SystemCallTrace(contentsOf: trace))
        }
        Self.recordings[name] = recorded
        return recorded
    }
}

/// A temporary folder in memory, where there is one: what is in it is made durable thousands of times.
final class ScratchFolder {
    let path: String

    init() throws {
        _ = TestProtection.isOn
        let place =
            access("/dev/shm", W_OK) == 0 ? "/dev/shm" : FileManager.default.temporaryDirectory.path
        path = "\(place)/quire-test-\(UUID().uuidString)"
        try FileSystem.makeFolder(path)
    }

    deinit { try? FileSystem.removeTree(path) }

    func path(_ name: String) -> String { path + "/" + name }
}
