import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// `SQLiteStore.compact()`.
@Suite struct CompactionTests {
    /// A store with one room of forty, and the pages of the others.
    private func makeStore(_ journal: SQLiteStoreOptions.Journal) throws -> (
        SQLiteTestStore, room: ManagedObjectID
    ) {
        var options = SQLiteStoreOptions()
        options.journal = journal
        options.busyTimeout = .milliseconds(20)
        let test = try SQLiteTestStore(options: options)
        let rooms = try test.reserve("Room", 40)
        let long = String(repeating: "x", count: 20_000)
        try test.save(
            inserted: rooms.map { try test.insertion($0, ["name": .string(long)]) })
        try test.save(
            updated: [try test.update(rooms[20], ["name": "kept"])],
            deleted: rooms.filter { $0 != rooms[20] }.map {
                ObjectDeletion(objectID: $0, version: 1)
            })
        return (test, rooms[20])
    }

    private func size(_ test: SQLiteTestStore) throws -> Int64 {
        try #require(try FileSystem.information(at: test.path)).size
    }

    @Test(arguments: [SQLiteStoreOptions.Journal.automatic, .rollback])
    func compactShrinksTheFileAndKeepsTheContent(_ journal: SQLiteStoreOptions.Journal) throws {
        let (test, room) = try makeStore(journal)
        let reader = try SQLiteStore.open(
            at: test.path, model: test.layout.model, options: .reading())
        #expect(try test.store.read { try $0.integer("PRAGMA page_count") ?? 0 } > 50)
        try test.store.compact()
        #expect(try size(test) < 50 * 4096)
        #expect(try test.store.spaceUse()?.free == 0)
        #expect(try reader.row(for: room) != nil)
        try reader.close()
        #expect(try test.value(room, "name") == "kept")
        #expect(try test.store.integrityProblems() == [])
        #expect(try test.query("PRAGMA auto_vacuum") == [["2"]])
        try test.save(updated: [try test.update(room, version: 2, ["name": "changed"])])
        let new = try test.reserve("Room")[0]
        #expect(new.primaryKey == 41)
        try test.reopen()
        #expect(try test.value(room, "name") == "changed")
        #expect(try size(test) < 50 * 4096)
    }

    @Test func compactingDuringAReadShrinksTheFileWhenTheStoreIsClosed() throws {
        let (test, room) = try makeStore(.automatic)
        let pinned = try test.store.pinned()
        #expect(try pinned.row(for: room) != nil)
        try test.store.compact()
        #expect(try pinned.row(for: room) != nil)
        try pinned.close()
        try test.reopen()
        #expect(try size(test) < 50 * 4096)
        #expect(try test.value(room, "name") == "kept")
    }

    @Test func readOnlyAndLockedStoresAreNotCompacted() throws {
        let (test, room) = try makeStore(.automatic)
        let other = try SQLiteConnection(path: test.path, mode: .writing)
        try other.execute("BEGIN IMMEDIATE")
        let locked = #expect(throws: QuireError.self) { try test.store.compact() }
        #expect(locked?.code == .locked)
        try other.execute("ROLLBACK")
        other.close()
        try test.reopen(options: .reading())
        let readOnly = #expect(throws: QuireError.self) { try test.store.compact() }
        #expect(readOnly?.code == .readOnly)
        #expect(try test.value(room, "name") == "kept")
        #expect(try size(test) > 50 * 4096)
    }

    @Test func damagedStoreStaysAsItWas() throws {
        let (test, _) = try makeStore(.rollback)
        let rooms = try test.reserve("Room", 200)
        try test.save(
            inserted: rooms.map {
                try test.insertion($0, ["name": .string(String(repeating: "y", count: 500))])
            })
        try test.store.close()
        let page = try #require(
            try SQLiteTestStore.query(
                "SELECT pageno FROM dbstat WHERE name = 'ZROOM' AND pagetype = 'leaf' LIMIT 1 OFFSET 3",
                path: test.path
            ).first.flatMap { Int($0[0]) })
        var bytes = try Data(contentsOf: URL(fileURLWithPath: test.path))
        let start = (page - 1) * 4096
        bytes.replaceSubrange(start..<start + 4096, with: Data(repeating: 0xFF, count: 4096))
        try bytes.write(to: URL(fileURLWithPath: test.path))
        let store = try SQLiteStore.open(at: test.path, model: test.layout.model)
        let error = #expect(throws: QuireError.self) { try store.compact() }
        #expect(error?.code == .invalidFormat)
        try store.close()
        let after = try Data(contentsOf: URL(fileURLWithPath: test.path))
        #expect(after.count == bytes.count)
        // SQLite counts changes, and when it could, in the first page.
        #expect(after.dropFirst(4096) == bytes.dropFirst(4096))
    }

    @Test(.smallDisk) func fullDiskLeavesTheStoreAsItWas() throws {
        let (test, room) = try makeStore(.automatic)
        try test.store.close()
        let before = try Data(contentsOf: URL(fileURLWithPath: test.path))
        let disk = try #require(SmallDisk(megabytes: 4))
        let path = disk.path("test.sqlite")
        try before.write(to: URL(fileURLWithPath: path))
        let store = try SQLiteStore.open(at: path, model: test.layout.model)
        #expect(try store.row(for: room) != nil)
        try disk.fill(disk.path("full"), leaving: 0)
        let error = #expect(throws: QuireError.self) { try store.compact() }
        #expect(error?.code == .outOfSpace)
        #expect(try store.row(for: room) != nil)
        try store.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
    }
}
