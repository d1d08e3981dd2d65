import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// What contexts do with values that are in files: everything, without reading them.
@Suite struct ExternalDataGraphTests {
    private typealias Fixture = ExternalDataFixture
    private let bytes = ExternalDataFixture.bytes(300_000)

    @Test @MainActor func rollbackAndForgettingRemoveTheFile() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        do {
            let cover = try fixture.cover(context)
            try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
            #expect(try fixture.files.count == 1)
            context.rollback()
        }
        #expect(try fixture.files.isEmpty)
    }

    @Test @MainActor func undoBringsAValueBackUnread() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()

        let (other, stored) = try fixture.stored()
        other.undoManager = UndoManager()
        stored["image"] = Data([1])
        other.processPendingChanges()
        try other.save()
        other.undo()
        guard case .external(let data)? = stored.changedValues()["image"]?.value else {
            Issue.record("The value was read.")
            return
        }
        #expect(data.size == bytes.count)
        try other.save()
        #expect(stored["image", as: Data.self] == bytes)
        other.redo()
        try other.save()
        #expect(stored["image", as: Data.self] == Data([1]))
        other.undo()
        try other.save()
        #expect(try StoreCheck.run(on: fixture.store).problems.isEmpty)
        try fixture.coordinator.close()
        let again = try fixture.reopened()
        let last: ManagedObjectContext = .mainQueue(coordinator: again)
        #expect(try last.fetch(FetchRequest("Cover"))[0]["image", as: Data.self] == bytes)
        // What nobody refers to is gone, what the others hold is there.
        #expect(try StoreCheck.run(on: again.store).notes.count <= 1)
        try again.close()
    }

    @Test @MainActor func fetchingReadsNoFile() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        cover["name"] = "a"
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        try FileSystem.removeFile(fixture.onlyFile)

        let (other, stored) = try fixture.stored()
        other.undoManager = UndoManager()
        #expect(stored["name", as: String.self] == "a")
        stored["name"] = "b"
        try stored.validate()
        #expect(
            try other.count(
                for: FetchRequest("Cover", predicate: try QueryPredicate(format: "image != nil")))
                == 1)
        #expect(
            try other.fetch(
                FetchRequest("Cover", predicate: try QueryPredicate(format: "image != nil"))
            ).count == 1)
        #expect(stored.changedValues().keys.sorted() == ["name"])
        _ = try stored.committedValues(forKeys: nil)
        try other.save()
        other.refresh(stored, mergeChanges: false)
        #expect(stored["name", as: String.self] == "b")
        #expect(other.lastFaultError == nil)
        let error = #expect(throws: QuireError.self) { try stored.attributeValue(forKey: "image") }
        #expect(error?.code == .invalidFormat)
        #expect(error?.subject.property == "image")
        #expect(error?.subject.entity == "Cover")
        #expect(error?.subject.object == stored.objectID.uriRepresentation)
        #expect(error?.subject.file?.contains("_EXTERNAL_DATA") == true)
        #expect(throws: QuireError.self) { try stored.externalData(forKey: "image") }
    }

    @Test @MainActor func aHandleOutlivesItsValue() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let data = try #require(try cover.externalData(forKey: "image"))
        let path = try #require(data.path)
        cover["image"] = nil
        try context.save()
        context.reset()
        try fixture.coordinator.close()
        #expect(FileSystem.exists(path))
        #expect(try data.data() == bytes)
        #expect(try data.verify())
        try FileSystem.removeFile(path)
        #expect(try data.data() == bytes)
        #expect(try data.withFileHandle { try $0.readToEnd() } == bytes)
    }

    @Test @MainActor func parentsCarryValuesUnread() async throws {
        let fixture = try Fixture()
        let parent = QueueConfinedContext(coordinator: fixture.coordinator)
        let context = ManagedObjectContext.mainQueue(parent: parent)
        let cover = try fixture.cover(context)
        try await cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        // A sibling sees it in the parent, where it is not saved yet.
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        let seen = try #require(try sibling.fetch(FetchRequest("Cover")).first)
        #expect(try seen.externalData(forKey: "image")?.size == bytes.count)
        guard case .external? = try seen.committedValues(forKeys: ["image"])["image"]?.value else {
            Issue.record("The value was read.")
            return
        }
        #expect(seen["image", as: Data.self] == bytes)
        seen["name"] = "b"
        try sibling.save()
        try await parent.perform { try $0.save() }
        #expect(try fixture.files.count == 1)
        let (other, stored) = try fixture.stored()
        #expect(stored["image", as: Data.self] == bytes)
        #expect(stored["name", as: String.self] == "b")
        withExtendedLifetime(other) {}
    }

    @Test @MainActor func valuesAreGivenToOtherObjectsAndStores() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let copy = try fixture.cover(context)
        try copy.setExternalData(cover.externalData(forKey: "image"), forKey: "image")
        try context.save()
        let files = try fixture.files
        #expect(files.count == 2)
        let information = try files.map {
            try FileSystem.information(
                at: FileSystem.path(fixture.store.externalData.folder, $0))
        }
        #expect(information[0]?.inode == information[1]?.inode)

        let second = try Fixture()
        let there = second.context()
        let far = try second.cover(there)
        try far.setExternalData(cover.externalData(forKey: "image"), forKey: "image")
        try there.save()
        #expect(far["image", as: Data.self] == bytes)
        #expect(try second.files.count == 1)

        context.delete(cover)
        try context.save()
        #expect(try copy.externalData(forKey: "image")?.verify() == true)
    }

    @Test @MainActor func aSaveThatFailsCanBeTriedAgain() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        for _ in 0..<2 {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
        }
        let cover = try fixture.cover(context)
        let moved = try fixture.file(bytes)
        try cover.setExternalData(contentsOf: moved, forKey: "image", taking: .moving)
        let other = try fixture.cover(context)
        other["image"] = ExternalDataFixture.bytes(200_000, seed: 9)
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .constraintConflict || error?.code == .validation)
        #expect(try fixture.files.count == 1)
        #expect(FileSystem.exists(moved))
        #expect(cover["image", as: Data.self] == bytes)
        try context.fetch(FetchRequest("Book"))[0]["title"] = "Persuasion"
        try context.save()
        #expect(try fixture.files.count == 2)
        #expect(!FileSystem.exists(moved))
        #expect(try StoreCheck.run(on: fixture.store).problems.isEmpty)
    }

    @Test @MainActor func conflictsAreMergedUnread() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let other = fixture.context()
        let theirs = try #require(try other.fetch(FetchRequest("Cover")).first)
        let new = ExternalDataFixture.bytes(400_000, seed: 3)
        try theirs.setExternalData(contentsOf: fixture.file(new, "new"), forKey: "image")
        theirs["name"] = "theirs"
        try other.save()
        cover["name"] = "mine"
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.save()
        #expect(cover["image", as: Data.self] == new)
        #expect(cover["name", as: String.self] == "mine")
        try cover.setExternalData(contentsOf: fixture.file(bytes, "again"), forKey: "image")
        theirs["image"] = nil
        other.mergePolicy = .mergeByPropertyObjectTrump
        try other.save()
        try context.save()
        let (third, stored) = try fixture.stored()
        #expect(stored["image", as: Data.self] == bytes)
        #expect(try StoreCheck.run(on: fixture.store).problems.isEmpty)
        withExtendedLifetime(third) {}
    }

    @Test @MainActor func aValueSetBackByHandIsNoChange() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        try cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let (other, stored) = try fixture.stored()
        stored["image"] = bytes
        #expect(stored.changedValues().isEmpty)
        stored["image"] = Data(count: bytes.count)
        #expect(!stored.changedValues().isEmpty)
        withExtendedLifetime(other) {}
    }

    @Test(arguments: ["xml", "binary", "memory", "sqlite"]) @MainActor
    func storesWithoutFilesTakeTheBytes(_ kind: String) throws {
        let folder = try TemporaryFolder()
        let model = ExternalDataFixture.model
        let store: any PersistentStore =
            switch kind {
            case "xml": try XMLStore.create(at: folder.path("a.xml"), model: model)
            case "binary": try BinaryStore.create(at: folder.path("a.bin"), model: model)
            case "memory": try InMemoryStore(model: model)
            default: try SQLiteStore.create(at: "/dev/null", model: model)
            }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let cover = try context.insertObject(entityName: "Cover")
        let path = folder.path("source")
        try bytes.write(to: URL(fileURLWithPath: path))
        try cover.setExternalData(contentsOf: path, forKey: "image")
        try context.save()
        let other = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        #expect(try other.fetch(FetchRequest("Cover"))[0]["image", as: Data.self] == bytes)
    }

    @Test @MainActor func batchInsertsTakeValuesInFiles() async throws {
        let fixture = try Fixture()
        let data = try await fixture.coordinator.makeExternalData(contentsOf: fixture.file(bytes))
        let context = fixture.context()
        var rows = [["image": AttributeValue.external(data)], ["image": .external(data)]]
        let request = BatchInsertRequest(entityName: "Cover", objects: rows)
        rows = []
        _ = try context.execute(request)
        for cover in try context.fetch(FetchRequest("Cover")) {
            #expect(cover["image", as: Data.self] == bytes)
        }
        #expect(try fixture.files.count == 2)
        #expect(try StoreCheck.run(on: fixture.store).problems.isEmpty)
    }
}

extension PropertyValue {
    fileprivate var value: AttributeValue? {
        if case .value(let value) = self { return value }
        return nil
    }
}
