import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct SQLiteStoreLifecycleTests {
    private func files(in folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test func oneFileIsLeftAfterClosing() throws {
        let test = try SQLiteTestStore()
        #expect(try files(in: test.folder).contains("test.sqlite-wal"))
        let ids = try test.reserve("Room", 10)
        try test.save(inserted: ids.map { try test.insertion($0) })
        // Readers have been at work too.
        #expect(try test.store.count(matching: FetchSpecification("Room")) == 10)
        try test.store.close()
        #expect(try files(in: test.folder) == ["test.sqlite"])
    }

    @Test func freshStoreHasCoreDatasHeader() throws {
        let test = try SQLiteTestStore()
        let pragmas = ["page_size", "auto_vacuum", "encoding", "journal_mode", "user_version"]
        #expect(
            try pragmas.map { try test.query("PRAGMA \($0)")[0][0] }
                == ["4096", "2", "UTF-8", "wal", "0"])
        #expect(try test.store.read { try $0.integer("PRAGMA synchronous") } == 2)
        let metadata = try test.store.metadata()
        #expect(metadata.storeUUID == test.store.identity.uuid)
        #expect(metadata.entityVersionHashes.count == test.layout.entities.count)
        let plist = try PropertyListSerialization.propertyList(
            from: try metadata.propertyList, format: nil)
        let dictionary = try #require(plist as? [String: Any])
        #expect(dictionary["NSStoreType"] as? String == "SQLite")
        #expect(dictionary["_NSAutoVacuumLevel"] as? String == "2")
        #expect(dictionary["NSStoreModelVersionHashesVersion"] as? Int == 3)
        #expect(
            try test.query("SELECT Z_ENT, Z_NAME, Z_SUPER, Z_MAX FROM Z_PRIMARYKEY ORDER BY Z_ENT")
                == [
                    ["1", "Desk", "0", "0"], ["2", "Everything", "0", "0"],
                    ["3", "Letter", "0", "0"], ["4", "party", "0", "0"],
                    ["5", "Company", "4", "0"], ["6", "Person", "4", "0"], ["7", "Room", "0", "0"],
                    ["8", "Tag", "0", "0"],
                ])
    }

    @Test func storeCarriesItsModel() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Person")[0]
        try test.save(inserted: [try test.insertion(id, ["name": "Ada"])])
        try test.store.close()
        let store = try SQLiteStore.open(at: test.path)
        #expect(store.layout.model == SQLiteTestModel.model)
        #expect(try store.rows(matching: FetchSpecification("Person")).count == 1)
        try store.close()
    }

    @Test func readingOnlyLeavesNoTrace() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Room")[0]
        try test.save(inserted: [try test.insertion(id, ["name": "hall"])])
        try test.store.close()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let before = try Data(contentsOf: URL(fileURLWithPath: test.path))
        let store = try SQLiteStore.open(at: test.path, options: options)
        #expect(store.isReadOnly)
        #expect(try store.rows(matching: FetchSpecification("Room")).count == 1)
        #expect(try files(in: test.folder) == ["test.sqlite"])
        var changes = ChangeSet()
        changes.records = ["a": "b"]
        let error = #expect(throws: QuireError.self) { try store.save(changes) }
        #expect(error?.code == .readOnly)
        try store.close()
        #expect(try files(in: test.folder) == ["test.sqlite"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: test.path)) == before)
    }

    @Test func readingOnlySeesWhatIsStillInTheLogAndLeavesItThere() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Room")[0]
        try test.save(inserted: [try test.insertion(id, ["name": "in the log"])])
        // As a killed process leaves it.
        let folder = try TemporaryFolder()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: test.path + suffix, toPath: folder.path("dead.sqlite" + suffix))
        }
        let log = try Data(contentsOf: folder.url.appendingPathComponent("dead.sqlite-wal"))
        #expect(!log.isEmpty)
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: folder.path("dead.sqlite"), options: options)
        #expect(try store.rows(matching: FetchSpecification("Room")).count == 1)
        try store.close()
        #expect(try files(in: folder) == ["dead.sqlite", "dead.sqlite-wal"])
        #expect(try Data(contentsOf: folder.url.appendingPathComponent("dead.sqlite-wal")) == log)
    }

    @Test func readingOnlyBesideTheWriterOfThisProcessSeesItsSaves() throws {
        let test = try SQLiteTestStore()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let reader = try SQLiteStore.open(at: test.path, options: options)
        let id = try test.reserve("Room")[0]
        try test.save(inserted: [try test.insertion(id)])
        #expect(try reader.count(matching: FetchSpecification("Room")) == 1)
        try reader.close()
        try test.store.close()
        #expect(try files(in: test.folder) == ["test.sqlite"])
    }

    @Test func storeWithoutLogGetsOneOnlyWhenItIsSaved() throws {
        let test = try SQLiteTestStore()
        try test.store.close()
        _ = try SQLiteTestStore.query("PRAGMA journal_mode = DELETE", path: test.path)
        let before = try Data(contentsOf: URL(fileURLWithPath: test.path))
        var store = try SQLiteStore.open(at: test.path)
        #expect(try store.count(matching: FetchSpecification("Room")) == 0)
        try store.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: test.path)) == before)

        store = try SQLiteStore.open(at: test.path)
        var changes = ChangeSet()
        changes.records = ["key": "value"]
        try store.save(changes)
        #expect(try store.records() == ["key": "value"])
        #expect(try SQLiteTestStore.query("PRAGMA journal_mode", path: test.path) == [["wal"]])
        try store.close()
        #expect(try files(in: test.folder) == ["test.sqlite"])
    }

    @Test func rollbackJournalWorksAndIsLeftEmptyOrAbsent() throws {
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let test = try SQLiteTestStore(options: options)
        let id = try test.reserve("Room")[0]
        try test.save(inserted: [try test.insertion(id, ["name": "a"])])
        #expect(try test.value(id, "name") == "a")
        #expect(!FileManager.default.fileExists(atPath: test.path + "-wal"))
        try test.reopen(options: options)
        #expect(try test.value(id, "name") == "a")
        // And a store that had a log gives it up.
        try test.reopen()
        try test.save(updated: [try test.update(id, ["name": "b"])])
        try test.reopen(options: options)
        #expect(try test.query("PRAGMA journal_mode")[0][0] != "wal")
        #expect(try test.value(id, "name") == "b")
        try test.store.close()
        let journal = try? FileManager.default.attributesOfItem(atPath: test.path + "-journal")
        #expect(journal?[.size] as? Int ?? 0 == 0)
    }

    @Test func recordsAreSavedReplacedAndRemoved() throws {
        let test = try SQLiteTestStore()
        #expect(try test.store.records() == [:])
        #expect(
            try test.query("SELECT count(*) FROM sqlite_schema WHERE name = 'QUIRE_DOCUMENT'") == [
                ["0"]
            ])
        try test.save(records: ["generation": "1", "other": ""])
        try test.save(records: ["generation": "2", "other": nil])
        try test.reopen()
        #expect(try test.store.records() == ["generation": "2"])
    }

    @Test func readersSeeEachSaveWholeWhileItIsWritten() async throws {
        let test = try SQLiteTestStore()
        let store = test.store
        let ids = try test.reserve("Room", 2)
        try test.save(inserted: ids.map { try test.insertion($0, ["name": "0"]) })
        let entity = try test.entity("Room")
        let slot = try test.slot("name", entity)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    for _ in 0..<200 {
                        let names = try store.rows(matching: FetchSpecification("Room"))
                            .map { try $0.value(at: slot) }
                        #expect(Set(names).count == 1)
                    }
                }
            }
            for round in 1...50 {
                try test.save(
                    updated: ids.map {
                        try test.update($0, version: UInt32(round), ["name": .string("\(round)")])
                    })
            }
            try await group.waitForAll()
        }
        #expect(try test.value(ids[1], "name") == "50")
    }

    @Test func savesOfManyThreadsAreOrdered() async throws {
        let test = try SQLiteTestStore()
        let store = test.store
        let entity = try test.entity("Room")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<10 {
                        var changes = ChangeSet()
                        changes.inserted = try store.reserveObjectIDs(
                            for: entity, count: 3, durably: false
                        ).map {
                            ObjectChange(
                                objectID: $0, entity: entity, version: 0,
                                values: ContiguousArray(
                                    repeating: .null, count: entity.slots.count),
                                changedSlots: SlotMask(first: entity.slots.count))
                        }
                        try store.save(changes)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.count(matching: FetchSpecification("Room")) == 240)
        #expect(
            try test.query("SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'Room'") == [["240"]])
    }
}
