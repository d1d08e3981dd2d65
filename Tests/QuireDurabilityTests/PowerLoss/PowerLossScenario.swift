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
    var kills: [Int: Kill] = [:]
    /// Whether the folder is taken for one on a network file system.
    var isOnNetwork = false

    var testDescription: String { name }

    /// Where a process is killed.
    ///
    /// It is not named by the number of a call: which threads make how many depends on the seed and on how busy the machine is.
    /// The process is recorded to its end instead, and what follows the call is left out.
    enum Kill: CustomStringConvertible, Equatable {
        /// At the middle one of the synchronizations of its saves.
        case middleSynchronization
        /// At a synchronization of the log, so that what it commits is written but not durable.
        case middleCommit
        /// At the creation of a folder.
        case creationOfFolder(String)

        var description: String {
            switch self {
            case .middleSynchronization: "a synchronization"
            case .middleCommit: "a commit"
            case .creationOfFolder(let name): "the creation of a folder “\(name)”"
            }
        }

        /// The index of the operation, among those from `start` on; `nil` if the process does nothing of the kind.
        func index(in operations: [DiskRecording.Operation], from start: Int) -> Int? {
            switch self {
            case .middleSynchronization, .middleCommit:
                let saves = operations[start...].drop {
                    if case .line(let line) = $0 { !line.hasPrefix("begin") } else { true }
                }
                let found = saves.indices.filter {
                    guard case .synchronize(_, let thing) = operations[$0] else { return false }
                    return self == .middleSynchronization || thing == "log"
                }
                return found.isEmpty ? nil : found[found.count / 2]
            case .creationOfFolder(let name):
                return operations[start...].firstIndex {
                    guard case .change(.names(let changes), _) = $0 else { return false }
                    return changes.contains { $0.isFolder && $0.node != nil && $0.name == name }
                }
            }
        }
    }

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
            name: "archiving", before: ["create", "save=3", "archive=a.zip", "save=6", "close"],
            processes: [["open", "archive=a.zip", "extract=a.zip,b.quire", "save=7", "close"]]),
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
            kills: [0: .middleSynchronization]),
        .init(
            name: "saving after a kill in a commit", before: ["create", "close"],
            processes: [["open", "save=9"], ["open", "save=12", "close"]],
            kills: [0: .middleCommit]),
        .init(
            name: "saving first external data after a kill", before: ["create", "close"],
            processes: [["open", "save=20"], ["open", "save=20", "close"]],
            kills: [0: .creationOfFolder("_EXTERNAL_DATA")]),
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
        let key = "\(name) \(seed)"
        if let recorded = Self.recordings[key] { return recorded }
        let folder = try ScratchFolder()
        let documents = folder.path("documents")
        try FileSystem.makeFolder(documents)
        let writer = CrashWriterProcess(folder: documents, seed: seed)
        let progress = try await prepare(writer)
        var recorded = Recorded(recording: try DiskRecording(of: documents), progress: progress)
        for (number, steps) in processes.enumerated() {
            let trace = folder.path("trace-\(number)")
            let ended = try await writer.run(steps, tracingTo: trace, onNetwork: isOnNetwork)
            guard ended.isClosed, ended.wrongs.isEmpty else {
                throw Failure(description: "\(steps): \(ended)")
            }
            let start = recorded.recording.operations.count
            try recorded.recording.add(SystemCallTrace(contentsOf: trace))
            guard let kill = kills[number] else { continue }
            guard let index = kill.index(in: recorded.recording.operations, from: start) else {
                throw Failure(
                    description: "\(steps), seed \(seed): the process is to be killed at \(kill), "
                        + "which it never reaches; give it more to save.")
            }
            recorded.recording.end(before: index)
            try FileSystem.removeTree(documents)
            try recorded.recording.disk.write(to: documents)
        }
        Self.recordings[key] = recorded
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
