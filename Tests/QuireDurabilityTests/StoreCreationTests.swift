import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Stores that are created by processes that are killed meanwhile, or by several at once.
@Suite(.serialized) struct StoreCreationTests {
    static let types: [StoreType] = [.sqlite, .xml, .binary]

    /// Opens the store, writes an object, and reads it.
    private func expectUsable(_ path: String, _ type: StoreType, _ comment: String) throws {
        let coordinator = try CrashStore.coordinator(at: path, type: type)
        let context = QueueConfinedContext(coordinator: coordinator)
        let count = try context.performAndWait { context in
            try context.insertObject(entityName: "Topic")["number"] = 7
            try context.save()
            return try context.count(for: FetchRequest("Topic"))
        }
        #expect(count == 1, "\(comment)")
        try coordinator.close()
        try CrashStore.coordinator(at: path, type: type).close()
        let names = try FileManager.default.contentsOfDirectory(
            atPath: FileSystem.folder(of: path))
        #expect(
            names.filter { !$0.contains(".keybag") } == [FileSystem.name(of: path)], "\(comment)")
    }

    @Test(
        .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace"),
        arguments: types)
    func creationThatIsKilledIsFinishedByTheNextStart(_ type: StoreType) async throws {
        let writer = try TestProgram.path(named: "QuireCrashWriter")
        let strace = try #require(CrashWriterProcess.strace)
        var kills = 0
        for call in ["pwrite64", "write", "fdatasync", "fsync", "unlink", "renameat2", "ftruncate"]
        {
            for number in [1, 2, 3, 5, 8, 13] {
                let folder = try ScratchFolder()
                let path = folder.path("store")
                let ended = try await ChildProcess.run(
                    strace,
                    [
                        "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call)",
                        "-e", "inject=\(call):signal=SIGKILL:when=\(number)",
                        writer, path, "1", "store", type.rawValue,
                    ])
                if ended.status == 0 { break }
                kills += 1
                try expectUsable(path, type, "killed at \(call) \(number)")
            }
        }
        #expect(kills > 0)
    }

    @Test(arguments: types)
    func creationByTwoProcessesOpensOneStore(_ type: StoreType) async throws {
        let writer = try TestProgram.path(named: "QuireCrashWriter")
        for _ in 0..<8 {
            let folder = try ScratchFolder()
            let arguments = [folder.path("store"), "1", "store", type.rawValue]
            async let one = ChildProcess.run(writer, arguments)
            async let two = ChildProcess.run(writer, arguments)
            for ended in try await [one, two] {
                #expect(ended.status == 0, "\(ended.output)")
            }
            try expectUsable(folder.path("store"), type, "created by two")
        }
    }

    @Test(arguments: types)
    func creationByTwoThreadsOpensOneStore(_ type: StoreType) throws {
        for _ in 0..<8 {
            let folder = try ScratchFolder()
            let path = folder.path("store")
            let results = Lock<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 2) { _ in
                do {
                    let coordinator = try CrashStore.coordinator(at: path, type: type)
                    let uuid = coordinator.persistentStores[0].identity.uuid
                    try coordinator.close()
                    results.withLock { $0.append(uuid) }
                } catch {
                    results.withLock { $0.append("\(error)") }
                }
            }
            let found = results.withLock { $0 }
            #expect(found.count == 2 && Set(found).count == 1, "\(found)")
            try expectUsable(path, type, "created by two")
        }
    }

    @Test(arguments: types) func creationFillsAnEmptyFile(_ type: StoreType) throws {
        let folder = try ScratchFolder()
        try Data().write(to: URL(fileURLWithPath: folder.path("store")))
        try expectUsable(folder.path("store"), type, "empty file")
    }

    @Test(
        .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace"))
    @MainActor func templateIsWhollyThereOrNotAtAllAfterAKill() async throws {
        let folder = try ScratchFolder()
        let writer = try TestProgram.path(named: "QuireCrashWriter")
        let strace = try #require(CrashWriterProcess.strace)
        var kills = 0
        for (call, step) in [("pwrite64", 7), ("fsync", 2), ("renameat2", 1), ("fdatasync", 1)] {
            for number in stride(from: 1, through: 10 * step, by: step) {
                let path = folder.path("\(call)\(number).quire")
                let ended = try await ChildProcess.run(
                    strace,
                    [
                        "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call)",
                        "-e", "inject=\(call):signal=SIGKILL:when=\(number)",
                        writer, path, "1", "template", Self.template,
                    ])
                if ended.status == 0 { break }
                kills += 1
                guard FileManager.default.fileExists(atPath: path) else { continue }
                let document = ManagedDocument(path: path)
                try await document.open()
                let count = try document.managedObjectContext.count(for: FetchRequest("Friend"))
                #expect(count > 0, "killed at \(call) \(number)")
                try await document.close()
            }
        }
        #expect(kills > 0)
    }

    private static let template = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../Sources/QuireDocuments/Resources/Templates/Library")
        .standardizedFileURL.path
}
