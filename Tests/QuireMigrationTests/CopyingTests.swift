import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

@Suite struct CopyingTests {
    @Test @MainActor func aCopyHasTheSameObjects() throws {
        let stack = try TestStack()
        try stack.fill(books: 2500)
        let context = stack.mainContext()
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try context.fetch(FetchRequest("Book"))
        for book in books.prefix(10).reversed() { shelf.add(book, to: "books") }
        shelf.add(try context.fetch(FetchRequest("Tag"))[0], to: "favourites")
        let manager = try context.insertObject(entityName: "Manager")
        manager["name"] = "Ada"
        let person = try context.insertObject(entityName: "Person")
        person["manager"] = manager
        person["spouse"] = manager
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Data((0..<300_000).map { UInt8($0 % 251) })
        cover["book"] = books[0]
        try context.save()
        books[3]["title"] = "changed"
        context.delete(books[5])
        try context.save()

        let old = stack.coordinator.store
        let copy = try SQLiteStore.create(
            at: stack.folder.path("copy.sqlite"), model: FixtureModels.library)
        let migration = MigrationManager()
        try migration.migrateStore(from: old, to: copy)
        #expect(try StoreDump.lines(of: old) == StoreDump.lines(of: copy))
        #expect(try copy.integrityProblems().isEmpty)
        #expect(migration.progress.isFinished)
        let file = try #require(try copy.externalFiles().first)
        #expect(file.size == 300_000 && file.path.contains(".copy_SUPPORT"))
        // Keys go on where they were.
        let entity = try copy.layout.requireEntity(named: "Book")
        let next = try copy.reserveObjectIDs(for: entity, count: 1, durably: false)
        #expect(next[0].primaryKey == 2501)
        try copy.close()
    }

    @Test @MainActor func aCopyHasValuesOfEveryType() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Everything")
        object["int16"] = -3
        object["int64"] = Int64.max
        object["decimal"] = Decimal(string: "12.345") ?? 0
        object["double"] = 1.5
        object["float"] = 0.25
        object["string"] = "é\0x"
        object["boolean"] = true
        object["date"] = Date(timeIntervalSinceReferenceDate: 123.5)
        object["binary"] = Data([0, 1, 2])
        object["external"] = Data()
        object["uuid"] = UUID()
        let uri: URL = try #require(URL(string: "https://example.org/a"))
        object["uri"] = uri
        object["transformable"] = Data([9])
        _ = try context.insertObject(entityName: "Everything")
        try context.save()
        let old = stack.coordinator.store
        let copy = try SQLiteStore.create(
            at: stack.folder.path("copy.sqlite"), model: FixtureModels.everyType)
        try MigrationManager().migrateStore(from: old, to: copy)
        #expect(try StoreDump.lines(of: old) == StoreDump.lines(of: copy))
        try copy.close()
    }

    @Test @MainActor func aStoreWithObjectsIsNoDestination() throws {
        let stack = try TestStack()
        try stack.fill(books: 1)
        let other = try TestStack()
        try other.fill(books: 1)
        let error = #expect(throws: QuireError.self) {
            try MigrationManager().migrateStore(
                from: stack.coordinator.store, to: other.coordinator.store)
        }
        #expect(error?.code == .alreadyExists)
    }

    @Test @MainActor func aCancelledCopyLeavesNothing() throws {
        let stack = try TestStack()
        try stack.fill(books: 1200)
        let copy = try SQLiteStore.create(
            at: stack.folder.path("copy.sqlite"), model: FixtureModels.library)
        let migration = MigrationManager()
        migration.progress.cancel()
        let error = #expect(throws: QuireError.self) {
            try migration.migrateStore(from: stack.coordinator.store, to: copy)
        }
        #expect(error?.code == .cancelled)
        #expect(try StoreDump.lines(of: copy).isEmpty)
        try copy.close()
    }

    @Test @MainActor func externalDataThatIsNotWhatWasSavedIsNotCopied() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Data(repeating: 7, count: 200_000)
        try context.save()
        let old = try #require(stack.coordinator.store as? SQLiteStore)
        let file = try #require(try old.externalFiles().first)
        try Data(repeating: 8, count: 200_000).write(to: URL(fileURLWithPath: file.path))
        let copy = try SQLiteStore.create(
            at: stack.folder.path("copy.sqlite"), model: FixtureModels.library)
        let error = #expect(throws: QuireError.self) {
            try MigrationManager().migrateStore(from: old, to: copy)
        }
        #expect(error?.code == .invalidFormat && error?.subject.file == file.path)
        #expect(try copy.unreferencedExternalFiles().isEmpty)
        try copy.close()
    }

    @Test @MainActor func aStoreThatOnlySavesGetsTheSameObjects() throws {
        let stack = try TestStack()
        try stack.fill(books: 60)
        let context = stack.mainContext()
        let shelf = try context.insertObject(entityName: "Shelf")
        for book in try context.fetch(FetchRequest("Book")).prefix(10).reversed() {
            shelf.add(book, to: "books")
        }
        try context.save()
        let old = stack.coordinator.store
        let copy = try SQLiteStore.create(
            at: stack.folder.path("copy.sqlite"), model: FixtureModels.library)
        let loading = ChangeSetLoading(copy)
        var plan = try TransferPlan(
            .identity(of: FixtureModels.library), from: old.layout, to: copy.layout)
        try plan.assignKeys { try MigrationManager.maximumKey(of: $0, in: old) }
        try ObjectTransfer(plan, from: old, identity: copy.identity, into: loading) { _ in }.run()
        try loading.finish()
        #expect(
            try StoreDump.lines(of: old, versions: false)
                == StoreDump.lines(of: copy, versions: false))
        try copy.close()
    }
}
