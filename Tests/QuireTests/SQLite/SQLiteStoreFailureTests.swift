import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@Suite struct SQLiteStoreFailureTests {
    // MARK: - Files that are no stores

    @Test func missingFileIsNotFound() throws {
        let folder = try TemporaryFolder()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: folder.path("none.sqlite"))
        }
        #expect(error?.code == .notFound)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test(arguments: [true, false])
    func filesThatAreNoStoresAreInvalid(readOnly: Bool) throws {
        let folder = try TemporaryFolder()
        var options = SQLiteStoreOptions()
        options.isReadOnly = readOnly
        let contents: [(String, Data)] = [
            ("empty", Data()), ("text", Data("Dear diary, this is no database.\n".utf8)),
            ("long text", Data(String(repeating: "text ", count: 5000).utf8)),
            ("header only", Data("SQLite format 3\0".utf8)),
        ]
        for (name, data) in contents {
            let path = folder.path(name)
            try data.write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: QuireError.self, "\(name)") {
                try SQLiteStore.open(
                    at: path, model: SQLiteTestModel.model, options: options)
            }
            #expect(error?.code == .invalidFormat, "\(name)")
            #expect(error?.message.contains(path) == true, "\(name)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == data, "\(name)")
        }
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: folder.path, options: options)
        }
        #expect(error?.code == .invalidFormat)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 4)
    }

    @Test func otherDatabaseIsInvalidAndNamesTheMissingTable() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("other.sqlite")
        let connection = try SQLiteConnection(path: path, mode: .creating)
        try connection.execute("CREATE TABLE notes (text)")
        connection.close()
        let error = #expect(throws: QuireError.self) { try SQLiteStore.open(at: path) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("Z_METADATA") == true)
    }

    @Test func storeWithoutItsOwnModelWantsOne() throws {
        let test = try SQLiteTestStore()
        try test.store.close()
        _ = try SQLiteTestStore.query("DROP TABLE QUIRE_MODEL", path: test.path)
        try SQLiteStore.open(at: test.path).close()  // By Core Data's own copy.
        _ = try SQLiteTestStore.query("DROP TABLE Z_MODELCACHE", path: test.path)
        let error = #expect(throws: QuireError.self) { try SQLiteStore.open(at: test.path) }
        #expect(error?.code == .incompatibleModel)
        let store = try SQLiteStore.open(at: test.path, model: SQLiteTestModel.model)
        try store.close()
    }

    @Test func modelThatDoesNotFitIsRefusedNamingWhatIsMissing() throws {
        let test = try SQLiteTestStore()
        try test.store.close()
        var model = SQLiteTestModel.model
        model.entities[6].properties.append(SQLiteTestModel.attribute("area", .double))
        var error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: test.path, model: model)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("ZAREA") == true)
        model = SQLiteTestModel.model
        model.entities.append(EntityDescription(name: "Extra"))
        error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: test.path, model: model)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("“Extra”") == true)
    }

    @Test func damagedFilesNeverTrap() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Everything", 200)
        try test.save(
            inserted: ids.map { id in
                try test.insertion(
                    id,
                    [
                        "string": .string(String(repeating: "x", count: 50)), "uuid": .uuid(UUID()),
                        "picture": .binary(Data(count: 300)), "decimal": .decimal(1.5),
                    ])
            })
        try test.store.close()
        let whole = try Data(contentsOf: URL(fileURLWithPath: test.path))
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let path = test.folder.path("damaged.sqlite")
        for round in 0..<150 {
            var data = whole
            if round % 3 == 0 {
                data = data.prefix(Int(random.next() % UInt64(whole.count)))
            } else {
                for _ in 0..<(1 + Int(random.next() % 20)) {
                    let offset =
                        round % 3 == 1
                        ? Int(random.next() % UInt64(data.count)) : Int(random.next() % 8192)
                    data[offset] = UInt8(truncatingIfNeeded: random.next())
                }
            }
            try data.write(to: URL(fileURLWithPath: path))
            for suffix in ["-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: path + suffix)
            }
            do {
                let store = try SQLiteStore.open(at: path)
                defer { try? store.close() }
                for entity in store.layout.entities {
                    let rows = try store.rows(matching: FetchSpecification(entity.name))
                    for row in rows {
                        for slot in row.entity.slots { _ = try row.value(at: slot.index) }
                    }
                }
                let id = try store.reserveObjectIDs(
                    for: store.layout.requireEntity(named: "Room"), count: 1, durably: false)[0]
                var changes = ChangeSet()
                let entity = try store.layout.requireEntity(named: "Room")
                changes.inserted = [
                    ObjectChange(
                        objectID: id, entity: entity, version: 0,
                        values: ContiguousArray(repeating: .null, count: entity.slots.count),
                        changedSlots: SlotMask(first: entity.slots.count))
                ]
                try store.save(changes)
            } catch is QuireError {
            } catch {
                Issue.record("\(error) is no QuireError; seed \(seed), round \(round)")
            }
        }
    }

    @Test func valueOfTheWrongStorageClassNamesEntityPropertyAndKey() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Everything")[0]
        try test.save(inserted: [try test.insertion(id)])
        let damages = [
            ("string", "x'00'"), ("uuid", "x'0011'"), ("int16", "'many'"), ("date", "'monday'"),
            ("picture", "x'05'"), ("picture", "x'022F2E2E'"), ("decimal", "'much'"),
        ]
        for (property, value) in damages {
            let column = "Z\(property.uppercased())"
            _ = try test.query("UPDATE ZEVERYTHING SET \(column) = \(value)")
            let error = #expect(throws: QuireError.self) {
                try test.store.rows(matching: FetchSpecification("Everything"))
            }
            #expect(error?.code == .invalidFormat)
            #expect(error?.subject.property == property)
            #expect(error?.message.contains("Everything/p1") == true)
            _ = try test.query("UPDATE ZEVERYTHING SET \(column) = NULL")
        }
        _ = try test.query("UPDATE ZEVERYTHING SET Z_ENT = 99")
        let error = #expect(throws: QuireError.self) { try test.store.row(for: id) }
        #expect(error?.code == .invalidFormat)
        _ = try test.query("UPDATE ZEVERYTHING SET Z_ENT = 3, Z_PK = -5")
        #expect(throws: QuireError.self) {
            try test.store.rows(matching: FetchSpecification("Everything"))
        }
    }

    // MARK: - Saves that fail

    @Test func brokenUniquenessChangesNothingAndNamesTheProperty() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Person", 2)
        try test.save(inserted: [try test.insertion(ids[0], ["email": "a@b.c"])])
        let tag = try test.reserve("Tag")[0]
        let error = #expect(throws: QuireError.self) {
            try test.save(inserted: [
                try test.insertion(tag, ["name": "new"]),
                try test.insertion(ids[1], ["email": "a@b.c"]),
            ])
        }
        #expect(error?.code == .constraintConflict)
        #expect(error?.subject.entity == "Person")
        #expect(error?.subject.property == "email")
        #expect(error?.subject.object == ids[1].uriRepresentation)
        #expect(try test.store.count(matching: FetchSpecification("Tag")) == 0)
        // The keys are not given out again: conflicts may be resolved, and the objects saved, by these.
        #expect(try test.query("SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'Tag'") == [["1"]])
        // The value moves within one save: deletions come first.
        try test.save(
            inserted: [try test.insertion(ids[1], ["email": "a@b.c"])],
            deleted: [ObjectDeletion(objectID: ids[0], version: 1)])
    }

    @Test func changedByAnotherIsAMergeConflict() throws {
        let test = try SQLiteTestStore()
        let ids = try test.reserve("Room", 2)
        try test.save(inserted: ids.map { try test.insertion($0) })
        try test.save(updated: [try test.update(ids[0], ["name": "one"])])
        var error = #expect(throws: QuireError.self) {
            try test.save(updated: [
                try test.update(ids[1], ["name": "lost"]),
                try test.update(ids[0], ["name": "two"]),
            ])
        }
        #expect(error?.code == .mergeConflict)
        #expect(error?.subject.object == ids[0].uriRepresentation)
        let conflict = try #require(error?.mergeConflicts.first)
        #expect(conflict.objectID == ids[0])
        #expect(conflict.newVersionNumber == 2)
        #expect(conflict.persistedSnapshot?["name"] == "one")
        #expect(conflict.objectSnapshot == nil, "Only a context knows it.")
        #expect(try test.value(ids[0], "name") == "one")
        #expect(try test.value(ids[1], "name") == .null)
        error = #expect(throws: QuireError.self) {
            try test.save(deleted: [ObjectDeletion(objectID: ids[0], version: 1)])
        }
        #expect(error?.code == .mergeConflict)
        try test.save(deleted: [ObjectDeletion(objectID: ids[0], version: nil)])
        error = #expect(throws: QuireError.self) {
            try test.save(updated: [try test.update(ids[0], version: 2, ["name": "three"])])
        }
        #expect(error?.code == .mergeConflict)
        #expect(error?.message.contains("has been deleted") == true)
        // Deleting again what is gone, whatever it was, is fine.
        try test.save(deleted: [ObjectDeletion(objectID: ids[0], version: nil)])
    }

    @Test func keysTakenByAnotherProcessAreAConflictOnce() throws {
        let test = try SQLiteTestStore()
        let mine = try test.reserve("Room", 2)
        let other = try SQLiteStore.open(at: test.path)
        let theirs = try other.reserveObjectIDs(
            for: other.layout.requireEntity(named: "Room"), count: 1, durably: false)
        var changes = ChangeSet()
        changes.inserted = [try test.insertion(theirs[0], ["name": "theirs"])]
        try other.save(changes)
        try other.close()
        let error = #expect(throws: QuireError.self) {
            try test.save(inserted: mine.map { try test.insertion($0, ["name": "mine"]) })
        }
        #expect(error?.code == .mergeConflict)
        #expect(try test.store.count(matching: FetchSpecification("Room")) == 1)
        let again = try test.reserve("Room", 2)
        #expect(again.allSatisfy { $0.primaryKey > theirs[0].primaryKey })
        try test.save(inserted: again.map { try test.insertion($0, ["name": "mine"]) })
        #expect(
            try test.query("SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'Room'") == [
                ["\(again[1].primaryKey)"]
            ])
    }

    @Test func fullDiskChangesNothingAndLeavesNoFiles() throws {
        let test = try SQLiteTestStore()
        let external = test.folder.path(".test_SUPPORT/_EXTERNAL_DATA")
        let room = try test.reserve("Room")[0]
        try test.save(inserted: [try test.insertion(room, ["name": "kept"])])
        let pages = try test.store.read { try $0.integer("PRAGMA page_count") ?? 0 }
        try test.store.executeOnWriter("PRAGMA max_page_count = \(pages + 3)")
        let ids = try test.reserve("Everything", 50)
        let error = #expect(throws: QuireError.self) {
            try test.save(
                inserted: ids.map {
                    try test.insertion(
                        $0,
                        [
                            "binary": .binary(Data(count: 10_000)),
                            "picture": .binary(Data(count: 110_000)),
                        ])
                },
                updated: [try test.update(room, ["name": "lost"])])
        }
        #expect(error?.code == .outOfSpace)
        #expect(try FileManager.default.contentsOfDirectory(atPath: external).isEmpty)
        #expect(try test.value(room, "name") == "kept")
        #expect(try test.store.count(matching: FetchSpecification("Everything")) == 0)
        // With room again the same save succeeds.
        try test.store.executeOnWriter("PRAGMA max_page_count = 1000000")
        try test.save(updated: [try test.update(room, ["name": "changed"])])
        try test.reopen()
        #expect(try test.value(room, "name") == "changed")
    }

    @Test func lockedByAnotherProcessIsLockedAndChangesNothing() throws {
        var options = SQLiteStoreOptions()
        options.busyTimeout = .milliseconds(20)
        let test = try SQLiteTestStore(options: options)
        let other = try SQLiteConnection(path: test.path, mode: .writing)
        try other.execute("BEGIN IMMEDIATE")
        let room = try test.reserve("Room")[0]
        let error = #expect(throws: QuireError.self) {
            try test.save(inserted: [try test.insertion(room)])
        }
        #expect(error?.code == .locked)
        try other.execute("ROLLBACK")
        other.close()
        try test.save(inserted: [try test.insertion(room)])
    }

    @Test func valueThatDoesNotFitItsSlotIsRefused() throws {
        let test = try SQLiteTestStore()
        let id = try test.reserve("Everything")[0]
        for (name, value) in [
            ("int16", AttributeValue.string("one")), ("decimal", .double(1)),
            ("uuid", .integer(1)),
        ] {
            let error = #expect(throws: QuireError.self) {
                try test.save(inserted: [try test.insertion(id, [name: value])])
            }
            #expect(error?.code == .invalidValue)
            #expect(error?.subject.property == name)
        }
        #expect(try test.store.count(matching: FetchSpecification("Everything")) == 0)
    }

    @Test func closedStoreIsUnavailable() throws {
        let test = try SQLiteTestStore()
        try test.store.close()
        try test.store.close()
        for call in [
            { _ = try test.store.rows(matching: FetchSpecification("Room")) },
            { try test.save(records: ["a": "b"]) }, { _ = try test.store.records() },
            { _ = try test.reserve("Room") },
        ] as [() throws -> Void] {
            let error = #expect(throws: QuireError.self) { try call() }
            #expect(error?.code == .storeUnavailable)
        }
    }

    /// The one that fails must not remove the files of the other.
    @Test func creatingTwiceAtOnceLeavesOne() throws {
        let folder = try TemporaryFolder()
        for round in 0..<20 {
            let path = folder.path("\(round).sqlite")
            let created = Lock(0)
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                guard let store = try? SQLiteStore.create(at: path, model: SQLiteTestModel.model)
                else { return }
                created.withLock { $0 += 1 }
                try? store.close()
            }
            #expect(created.withLock { $0 } == 1)
            try SQLiteStore.open(at: path).close()
        }
    }

    @Test func creatingOverSomethingIsRefused() throws {
        let test = try SQLiteTestStore()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.create(at: test.path, model: SQLiteTestModel.model)
        }
        #expect(error?.code == .alreadyExists)
        let missing = #expect(throws: QuireError.self) {
            try SQLiteStore.create(
                at: test.folder.path("no/such/folder"), model: SQLiteTestModel.model)
        }
        #expect(missing?.code == .notFound)
    }
}
