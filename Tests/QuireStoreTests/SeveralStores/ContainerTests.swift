import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Containers that open their stores, options of SQLite stores, and stores whose files move.
@MainActor
@Suite struct ContainerTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func container(_ names: String...) throws -> PersistentContainer {
        try PersistentContainer(
            managedObjectModel: FixtureModels.library,
            persistentStoreDescriptions: names.map {
                PersistentStoreDescription(path: folder.path($0))
            })
    }

    @Test func aContainerMakesItsStoresAndOpensThemAgain() throws {
        let first = try container("a.sqlite")
        let song = try first.viewContext.insertObject(entityName: "Song")
        song["title"] = "Fidelio"
        try first.viewContext.save()
        try first.close()
        let second = try container("a.sqlite")
        #expect(
            try second.viewContext.fetch(FetchRequest("Song")).map {
                $0["title", as: AttributeValue.self]
            } == ["Fidelio"])
        try second.close()
    }

    @Test func whereOneStoreCannotBeOpenedNoneStaysOpen() throws {
        try Data("no store".utf8).write(to: folder.url.appendingPathComponent("b.sqlite"))
        let error = #expect(throws: QuireError.self) { try container("a.sqlite", "b.sqlite") }
        #expect(error?.code == .invalidFormat)
        #expect(!FileManager.default.fileExists(atPath: folder.path("a.sqlite-wal")))
    }

    @Test func aTypeThatNobodyHasRegisteredIsRefused() throws {
        let error = #expect(throws: QuireError.self) {
            try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [
                    PersistentStoreDescription(path: "x", type: StoreType(rawValue: "Clay"))
                ])
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("“Clay”") == true)
    }

    @Test func registeredTypesAreOpenedByTheirClosure() throws {
        let type = StoreType(rawValue: "Registered")
        PersistentStoreCoordinator.registerStoreType(type) { description, layout in
            try SQLiteStore.create(at: description.requirePath(), model: layout.model)
        }
        let container = try PersistentContainer(
            managedObjectModel: FixtureModels.library,
            persistentStoreDescriptions: [
                PersistentStoreDescription(path: folder.path("r.sqlite"), type: type)
            ])
        #expect(container.persistentStoreCoordinator.persistentStores.count == 1)
        try container.close()
    }

    @Test func aDescribedStoreOfAnOlderModelIsMigratedIfThatIsSaid() throws {
        let path = folder.path("old.sqlite")
        var older = FixtureModels.library
        older.entities.removeAll { $0.name == "Song" || $0.name == "Playlist" }
        let old = try PersistentContainer(
            managedObjectModel: older,
            persistentStoreDescriptions: [PersistentStoreDescription(path: path)])
        let author = try old.viewContext.insertObject(entityName: "Author")
        author["name"] = "Austen"
        try old.viewContext.save()
        try old.close()

        var description = PersistentStoreDescription(path: path)
        func open() throws -> PersistentContainer {
            try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [description])
        }
        let error = #expect(throws: QuireError.self) { try open() }
        #expect(error?.code == .incompatibleModel)
        description.migration = StoreMigrationOptions()
        description.isReadOnly = true
        #expect(throws: QuireError.self) { try open() }
        description.isReadOnly = false
        let container = try open()
        let names = try container.viewContext.fetch(FetchRequest("Author"))
        #expect(names.map { $0["name", as: String.self] } == ["Austen"])
        _ = try container.viewContext.insertObject(entityName: "Song")
        try container.viewContext.save()
        try container.close()
        // There is nothing to migrate any more, and a new store needs none.
        try open().close()
        description.path = folder.path("new.sqlite")
        try open().close()
    }

    @Test func aDescriptionsSwitchesAreThoseOfItsMigration() throws {
        var description = PersistentStoreDescription(path: folder.path("a.sqlite"))
        #expect(!description.shouldMigrateStoreAutomatically)
        #expect(description.shouldInferMappingModelAutomatically)
        description.shouldMigrateStoreAutomatically = false
        description.shouldInferMappingModelAutomatically = true
        #expect(description.migration == nil)
        description.shouldInferMappingModelAutomatically = false
        #expect(!description.shouldMigrateStoreAutomatically)
        description.shouldMigrateStoreAutomatically = true
        #expect(description.migration?.migratesAutomatically == true)
        #expect(description.migration?.infersMappingModel == false)
        description.migration?.allowsRemoval = true
        description.shouldMigrateStoreAutomatically = false
        #expect(description.migration?.allowsRemoval == true)
    }

    @Test func aDescriptionThatIsNotToMigrateFailsAsOneWithoutMigration() throws {
        let path = folder.path("old.sqlite")
        var older = FixtureModels.library
        older.entities.removeAll { $0.name == "Song" || $0.name == "Playlist" }
        try PersistentContainer(
            managedObjectModel: older,
            persistentStoreDescriptions: [PersistentStoreDescription(path: path)]
        ).close()
        var description = PersistentStoreDescription(path: path)
        func open() throws {
            try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [description]
            ).close()
        }
        description.migration = StoreMigrationOptions()
        description.shouldMigrateStoreAutomatically = false
        let error = #expect(throws: QuireError.self) { try open() }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("shouldMigrateStoreAutomatically") == true)
        description.shouldMigrateStoreAutomatically = true
        try open()
    }

    @Test func storesOfTheLibrarysPageAreThere() throws {
        let model = FixtureModels.library
        let (books, file) = (folder.path("books.sqlite"), folder.path("archive.xml"))
        let archive = PersistentStoreDescription(path: file, type: .xml)
        let container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(path: books), archive])
        #expect(container.persistentStoreCoordinator.persistentStores.count == 2)
        try container.close()
        // The same, word for word, in the page of the library.
        let readme = try String(
            contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appendingPathComponent("Sources/Quire/README.md"),
            encoding: .utf8)
        #expect(
            readme.contains(
                """
                ```swift
                let archive = PersistentStoreDescription(path: "archive.xml", type: .xml)
                let container = try PersistentContainer(
                    managedObjectModel: model,
                    persistentStoreDescriptions: [PersistentStoreDescription(path: "books.sqlite"), archive])
                ```
                """))
    }

    // MARK: - Places

    @Test func aStoreThatWasMovedIsGoneOnWithUnderItsIdentifiers() throws {
        let container = try container("a.sqlite")
        let coordinator = container.persistentStoreCoordinator
        let context = container.viewContext
        let song = try context.insertObject(entityName: "Song")
        song["title"] = "Fidelio"
        try context.save()
        let store = try #require(coordinator.persistentStores.first)
        #expect(throws: QuireError.self) { try coordinator.setPath(folder.path("no"), for: store) }
        let other = try SQLiteStore.create(
            at: folder.path("other.sqlite"), model: FixtureModels.library)
        try other.close()
        let error = #expect(throws: QuireError.self) {
            try coordinator.setPath(folder.path("other.sqlite"), for: store)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(try context.count(for: FetchRequest("Song")) == 1)
        for suffix in ["", "-wal", "-shm"] {
            try FileManager.default.moveItem(
                atPath: folder.path("a.sqlite" + suffix), toPath: folder.path("b.sqlite" + suffix))
        }
        let moved = try coordinator.setPath(folder.path("b.sqlite"), for: store)
        #expect(coordinator.persistentStore(at: folder.path("b.sqlite")) === moved)
        song["title"] = "Leonore"
        try context.save()
        context.reset()
        #expect(
            try context.existingObject(with: song.objectID)["title", as: AttributeValue.self]
                == "Leonore")
        try container.close()
        #expect(!FileManager.default.fileExists(atPath: folder.path("a.sqlite")))
    }

    // MARK: - Options of SQLite stores

    private func open(_ adjust: (inout SQLiteStoreOptions) -> Void) throws -> SQLiteStore {
        var options = SQLiteStoreOptions()
        adjust(&options)
        let path = folder.path("o.sqlite")
        if !FileManager.default.fileExists(atPath: path) {
            try SQLiteStore.create(at: path, model: FixtureModels.library).close()
        }
        return try SQLiteStore.open(at: path, options: options)
    }

    @Test(arguments: ["journal_mode", "synchronous", "writable_schema", "Locking_Mode"])
    func pragmasThatBreakPromisesAreRefused(_ name: String) throws {
        let error = #expect(throws: QuireError.self) { try open { $0.pragmas = [name: "OFF"] } }
        #expect(error?.code == .invalidValue)
        #expect(error?.message.contains(name) == true)
    }

    @Test func whatIsNoPragmaIsRefused() throws {
        #expect(throws: QuireError.self) {
            try open { $0.pragmas = ["mmap_size": "1; DROP TABLE x"] }
        }
        try open { $0.pragmas = ["mmap_size": "1048576"] }.close()
    }

    @Test func aStoreIsAnalyzedAndBuiltAnewWhenThatIsAskedFor() throws {
        let store = try open { _ in }
        var request = BatchInsertRequest(
            entityName: "Song", objects: (0..<2000).map { ["title": .string("song \($0)")] })
        request.resultType = .statusOnly
        _ = try store.insert(request, onConflict: .error)
        _ = try store.delete(BatchDeleteRequest(fetchRequest: FetchRequest("Song")))
        try store.close()
        func size() throws -> Int {
            try FileManager.default.attributesOfItem(atPath: folder.path("o.sqlite"))[.size] as? Int
                ?? 0
        }
        let before = try size()
        try open {
            $0.analyzesWhenOpened = true
            $0.vacuumsWhenOpened = true
        }.close()
        #expect(try size() < before)
        #expect(try open { _ in }.count(matching: FetchSpecification("Song")) == 0)
    }
}
