import Foundation
import Quire
import QuireTestSupport
import Testing

/// A store whose protection is being changed when the process is killed, or a call fails.
@Suite(
    .serialized, .inClear,
    .needs(CrashWriterProcess.strace != nil, or: "strace is not installed, or may not trace")
)
struct ProtectionChangeTests {
    /// A way to change the protection of a store.
    struct Change: CustomTestStringConvertible, Sendable {
        let type: String
        /// Whether it is in clear before; else it is afterwards.
        let protects: Bool

        var testDescription: String { "\(type), \(protects ? "protecting" : "in clear again")" }
    }

    private static let changes = ["sqlite", "xml", "binary"].flatMap { type in
        [true, false].map { Change(type: type, protects: $0) }
    }
    private static let canary = "CANARY-c01d"
    private static let model = ManagedObjectModel {
        Entity("Book") {
            Attribute("title", .string)
            Attribute("cover", .binary).externalStorage()
        }
    }

    private let folder: TemporaryFolder
    private let quire: String
    private var key: String { folder.path("key") }

    init() throws {
        folder = try TemporaryFolder()
        quire = try TestProgram.path(named: "quire")
        try Data(repeating: 7, count: 32).write(to: URL(fileURLWithPath: key))
        chmod(key, 0o600)
    }

    @MainActor private func make(_ change: Change, at path: String) async throws {
        let types: [String: StoreType] = ["sqlite": .sqlite, "xml": .xml, "binary": .binary]
        let container = try PersistentContainer(
            managedObjectModel: Self.model,
            persistentStoreDescriptions: [
                PersistentStoreDescription(path: path, type: types[change.type] ?? .sqlite)
            ])
        for number in 0..<3 {
            let book = try container.viewContext.insertObject(entityName: "Book")
            book["title"] = "\(Self.canary) \(number)"
            book["cover"] = Data((Self.canary + String(repeating: "-", count: 200_000)).utf8)
        }
        try container.viewContext.save()
        try container.close()
        if !change.protects {
            let made = try await ChildProcess.run(
                quire, ["protect", path, "--class", "complete", "--key-file", key])
            #expect(made.status == 0)
        }
    }

    /// Changes the protection, with something done to a call; `nil` if there is no such call.
    private func change(
        _ change: Change, at path: String, injecting what: String, at call: String, _ number: Int
    ) async throws -> Bool {
        let log = folder.path("calls")
        let arguments = [
            "-f", "-qq", "-o", log, "-e", "trace=\(call)", "-e",
            "inject=\(call):\(what):when=\(number)", quire, "protect", path, "--class",
            change.protects ? "complete" : "none", "--key-file", key,
        ]
        let outcome = try await ChildProcess.run(
            try #require(CrashWriterProcess.strace), arguments, deadline: 120)
        #expect(!outcome.timedOut)
        let text = try String(contentsOfFile: log, encoding: .utf8)
        try FileManager.default.removeItem(atPath: log)
        return text.contains("INJECTED") || text.contains("killed by SIGKILL")
    }

    /// All of the store is there, and its class is one of the two.
    private func expectIntact(
        _ path: String, _ comment: String, isReadable: Bool
    ) async throws -> String {
        let shown = try await ChildProcess.run(
            quire, ["protect", path, "--show", "--json"])
        let checked = try await ChildProcess.run(
            quire, ["check", path, "--key-file", key])
        let counted = try await ChildProcess.run(
            quire,
            [
                "fetch", path, "Book", "--where", "title BEGINSWITH '\(Self.canary)'", "--count",
                "--key-file", key,
            ])
        #expect(checked.status == 0, "\(comment): \(checked.output)")
        #expect(counted.output == "3\n", "\(comment): \(counted.output)")
        let name = try #require(
            ["complete", "none"].first { shown.output.contains("\"class\": \"\($0)\"") },
            "\(comment): \(shown.output)")
        // Who wants it in clear, and is killed, may have some of it in clear.
        if name == "complete" && !isReadable {
            for file in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
                let bytes = FileManager.default.contents(atPath: folder.path(file))
                #expect(bytes?.range(of: Data(Self.canary.utf8)) == nil, "\(comment): \(file)")
            }
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".protection") }
        #expect(left == [], "\(comment)")
        return name
    }

    private static let calls = [
        "renameat2", "renameat", "unlinkat", "fsync", "fdatasync", "mkdirat", "pwrite64",
    ]

    @Test(arguments: changes)
    func aKillLeavesTheOldOrTheNewClass(_ change: Change) async throws {
        var names: Set<String> = []
        try await forEachCall { call, number in
            let path = folder.path("\(change.type)-\(call)-\(number)")
            try await make(change, at: path)
            guard
                try await self.change(
                    change, at: path, injecting: "signal=SIGKILL", at: call, number)
            else {
                try removeAll()
                return false
            }
            let comment = "killed at \(call) \(number)"
            names.insert(try await expectIntact(path, comment, isReadable: !change.protects))
            // Another attempt does what the first was to do.
            let again = try await ChildProcess.run(
                quire,
                [
                    "protect", path, "--class", change.protects ? "complete" : "none",
                    "--key-file", key,
                ])
            #expect(again.status == 0, "\(comment): \(again.output)")
            #expect(
                try await expectIntact(path, comment, isReadable: !change.protects)
                    == (change.protects ? "complete" : "none"))
            try removeAll()
            return true
        }
        #expect(names == ["complete", "none"])
    }

    @Test(arguments: changes)
    func aFullDiskLeavesTheOldClassOrTheNewOne(_ change: Change) async throws {
        try await forEachCall { call, number in
            let path = folder.path("\(change.type)-\(call)-\(number)")
            try await make(change, at: path)
            let isInjected = try await self.change(
                change, at: path, injecting: "error=ENOSPC", at: call, number)
            if isInjected {
                _ = try await expectIntact(path, "ENOSPC at \(call) \(number)", isReadable: false)
            }
            try removeAll()
            return isInjected
        }
    }

    /// The first calls of each kind, or in the short form some of them.
    private func forEachCall(
        _ body: (_ call: String, _ number: Int) async throws -> Bool
    ) async throws {
        for call in Self.calls {
            let some = SeededRandom.sample(of: Array(2...40), 2, for: call)
            for number in [1] + some.sorted() where try await !body(call, number) { break }
        }
    }

    private func removeAll() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
        where name != "key" {
            try FileManager.default.removeItem(atPath: folder.path(name))
        }
    }
}
