import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// Reading stores that another process has open, and writes.
@Suite struct LiveStoreTests {
    /// SQLite's shell with a database open: a real other process.
    private final class Shell {
        private let process = Process()
        private let input = Pipe()
        private let output = Pipe()

        init(_ path: String) throws {
            process.executableURL = URL(fileURLWithPath: "/usr/bin/sqlite3")
            process.arguments = [path]
            process.standardInput = input
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            try process.run()
        }

        /// Runs statements, and waits until they are done.
        func run(_ sql: String) throws {
            try start(sql + ";\nSELECT 'done';\n")
            var text = ""
            while !text.contains("done") {
                let data = output.fileHandleForReading.availableData
                if data.isEmpty { throw POSIXError(.EPIPE) }
                text += String(decoding: data, as: UTF8.self)
            }
        }

        /// Has statements run, and does not wait.
        func start(_ sql: String) throws {
            try input.fileHandleForWriting.write(contentsOf: Data(sql.utf8))
        }

        func end() {
            try? input.fileHandleForWriting.close()
            process.terminate()
            process.waitUntilExit()
        }
    }

    private func open(_ path: String) throws -> SQLiteStore {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        return try SQLiteStore.open(at: path, options: options)
    }

    private func names(_ store: SQLiteStore) throws -> Set<String> {
        let slot = try #require(
            store.layout.entity(named: "Author")?.slots.first { $0.name == "name" })
        return Set(
            try store.rows(matching: FetchSpecification("Author")).map {
                guard case .string(let name) = try $0.value(at: slot.index) else { return "" }
                return name
            })
    }

    @Test @MainActor func aStoreThatAnotherProcessHasOpenIsNotReplaced() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 30)
        let shell = try Shell(path)
        // Something to mend, and a log that is empty, so that nothing but the open file tells of the other process.
        try shell.run("UPDATE Z_PRIMARYKEY SET Z_MAX = 0; PRAGMA wal_checkpoint(TRUNCATE)")
        let error = #expect(throws: QuireError.self) { try StoreRepair.repair(path) }
        #expect(error?.code == .locked)
        try shell.run("UPDATE ZAUTHOR SET ZNAME = 'One', Z_OPT = Z_OPT + 1")
        shell.end()
        let report = try StoreRepair.repair(path)
        #expect(!report.actions.isEmpty && report.after.isWhole)
        let store = try open(path)
        #expect(try names(store) == ["One"])
        try store.close()
    }

    @Test @MainActor func whatAnotherProcessSavesIsRead() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 30)
        let shell = try Shell(path)
        defer { shell.end() }
        try shell.run("UPDATE ZAUTHOR SET ZNAME = 'One', Z_OPT = Z_OPT + 1")
        let files = try FileSystem.names(in: folder.path)
        let store = try open(path)
        #expect(try names(store) == ["One"])
        // It does not get in the other's way, and sees what it saves later.
        try shell.run("UPDATE ZAUTHOR SET ZNAME = 'Two', Z_OPT = Z_OPT + 1")
        #expect(try names(store) == ["Two"])
        #expect(try StoreCheck.run(store).isWhole)
        // Nor does a transaction that is not finished.
        try shell.run("BEGIN IMMEDIATE; UPDATE ZAUTHOR SET ZNAME = 'Three'")
        #expect(try names(store) == ["Two"])
        let second = try open(path)
        #expect(try names(second) == ["Two"])
        try second.close()
        #expect(try names(store) == ["Two"])
        try shell.run("COMMIT")
        #expect(try names(store) == ["Three"])
        try store.close()
        #expect(try FileSystem.names(in: folder.path) == files)
    }

    /// What cannot be read along is copied, and what is copied belongs together however much is written meanwhile.
    @Test @MainActor func copiesOfBusyStoresAreOfOneMoment() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 30)
        let shell = try Shell(path)
        defer { shell.end() }
        try shell.run("PRAGMA synchronous = OFF")
        // Each transaction gives all authors one name.
        for number in 0..<400 {
            try shell.start("UPDATE ZAUTHOR SET ZNAME = 'Name \(number)', Z_OPT = Z_OPT + 1;\n")
        }
        for round in 0..<10 {
            let copy = folder.path("copy\(round)")
            try SQLiteDatabaseFile.copy(path, to: copy)
            #expect(try Damage.query(copy, "PRAGMA integrity_check") == [["ok"]])
            #expect(
                try Damage.query(
                    copy, "SELECT count(DISTINCT ZNAME) FROM ZAUTHOR WHERE ZNAME LIKE 'Name%'")[0][
                        0] <= "1")
            #expect(try Damage.query(copy, "SELECT count(DISTINCT Z_OPT) FROM ZAUTHOR") == [["1"]])
        }
        try shell.run("SELECT 1")
    }

    @Test @MainActor func storesWithoutMemoryFileAreReadFromACopy() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 30)
        let shell = try Shell(path)
        try shell.run("UPDATE ZAUTHOR SET ZNAME = 'One', Z_OPT = Z_OPT + 1")
        let other = try TemporaryFolder()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: path + suffix, toPath: other.path("b.sqlite") + suffix)
            // Whoever only may read, may read.
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o444], ofItemAtPath: other.path("b.sqlite") + suffix)
        }
        shell.end()
        try FileManager.default.setAttributes([.posixPermissions: 0o555], ofItemAtPath: other.path)
        defer {
            try? FileManager.default.setAttributes(
                [.posixPermissions: 0o755], ofItemAtPath: other.path)
        }
        let store = try open(other.path("b.sqlite"))
        #expect(try names(store) == ["One"])
        // The files with external data have stayed behind.
        #expect(try StoreCheck.run(store).problems.allSatisfy { $0.kind == .externalData })
        try store.close()
        #expect(try FileSystem.names(in: other.path) == ["b.sqlite", "b.sqlite-wal"])
    }
}
