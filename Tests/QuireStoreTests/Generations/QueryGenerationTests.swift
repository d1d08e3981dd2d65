import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

/// Contexts that read one commit while others save.
@MainActor @Suite struct QueryGenerationTests {
    private static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author")
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("year", .integer16)
            Attribute("cover", .binary).externalStorage()
            ToOne("author", "Author", inverse: "books")
        }
    }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func coordinator(
        _ type: StoreType = .sqlite, _ change: (inout PersistentStoreDescription) -> Void = { _ in }
    ) throws -> PersistentStoreCoordinator {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        var description = PersistentStoreDescription(
            path: type == .inMemory ? nil : folder.path("store"), type: type)
        change(&description)
        try coordinator.addPersistentStore(description)
        return coordinator
    }

    /// Saves an author with the books A, B and C.
    @discardableResult
    private func fill(_ coordinator: PersistentStoreCoordinator) throws -> ManagedObjectContext {
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane"
        for title in ["A", "B", "C"] {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["cover"] = Data(repeating: title.utf8.first ?? 0, count: 200_000)
            book["author"] = author
        }
        try context.save()
        return context
    }

    private static let byTitle = FetchRequest<ManagedObject>(
        "Book", sortOrderings: [SortOrdering("title")])

    private func titles(_ context: ManagedObjectContext) throws -> [String] {
        try context.fetch(Self.byTitle).map { $0["title", as: String.self] ?? "?" }
    }

    /// Deletes A, renames B, and adds D.
    private func change(_ context: ManagedObjectContext) throws {
        let books = try context.fetch(Self.byTitle)
        context.delete(books[0])
        books[1]["title"] = "Z"
        books[1]["author"] = nil
        books[1]["cover"] = Data(repeating: 0, count: 300_000)
        try context.insertObject(entityName: "Book")["title"] = "D"
        try context.save()
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary, .inMemory])
    func everyReadIsOfThePinnedCommit(_ type: StoreType) throws {
        let coordinator = try coordinator(type)
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        var batched = Self.byTitle
        batched.fetchBatchSize = 1
        let faults = try reader.fetch(batched)
        let author = try #require(try reader.fetch(FetchRequest("Author")).first)
        try change(writer)

        #expect(faults.map { $0["title", as: String.self] } == ["A", "B", "C"])
        #expect(author["books", as: Set<ManagedObject>.self].count == 3)
        #expect(
            faults.map { $0["cover", as: Data.self]?.first }
                == "ABC".utf8.map { UInt8?.some($0) })
        #expect(try titles(reader) == ["A", "B", "C"])
        #expect(try reader.count(for: FetchRequest("Book")) == 3)
        var dictionaries = Self.byTitle
        dictionaries.propertiesToFetch = ["title"]
        #expect(try reader.fetchDictionaries(dictionaries).count == 3)
        let controller = FetchedResultsController(
            fetchRequest: Self.byTitle, managedObjectContext: reader)
        try controller.performFetch()
        #expect(controller.fetchedObjects?.count == 3)
        let child = ManagedObjectContext.mainQueue(parent: reader)
        #expect(try titles(child) == ["A", "B", "C"])
        #expect(try child.fetchDictionaries(dictionaries).count == 3)
        let present = ManagedObjectContext.mainQueue(coordinator: coordinator)
        #expect(try titles(present) == ["C", "D", "Z"])
        #expect(try present.fetchDictionaries(dictionaries).count == 3)
        try reader.setQueryGeneration(from: nil)
        #expect(try titles(reader) == ["C", "D", "Z"])
        try coordinator.close()
    }

    @Test func theNextReadPins() throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        #expect(reader.queryGenerationToken == nil)
        try reader.setQueryGeneration(from: .current)
        #expect(reader.queryGenerationToken == .current)
        try change(writer)
        #expect(try titles(reader) == ["C", "D", "Z"])
        let token = try #require(reader.queryGenerationToken)
        #expect(token != .current)
        try writer.insertObject(entityName: "Book")["title"] = "E"
        try writer.save()
        let second = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try second.setQueryGeneration(from: token)
        #expect(second.queryGenerationToken == token)
        #expect(try titles(second) == ["C", "D", "Z"])
    }

    enum Move: CaseIterable { case save, reset, refresh, merge, unpin }

    @Test(arguments: Move.allCases)
    func aContextMovesOn(by move: Move) throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try titles(reader) == ["A", "B", "C"])
        try change(writer)
        #expect(try titles(reader) == ["A", "B", "C"])
        switch move {
        case .save: try reader.save()
        case .reset: reader.reset()
        case .refresh: reader.refreshAllObjects()
        case .merge: reader.mergeChanges(from: ObjectIDChanges())
        case .unpin: try reader.setQueryGeneration(from: nil)
        }
        #expect(reader.queryGenerationToken == (move == .unpin ? nil : .current))
        #expect(try titles(reader) == ["C", "D", "Z"])
    }

    @Test func aSaveMeetsThePresentContent() throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        let book = try reader.fetch(Self.byTitle)[1]
        book["year"] = 1815
        try change(writer)
        let error = #expect(throws: QuireError.self) { try reader.save() }
        #expect(error?.code == .mergeConflict)
        reader.mergePolicy = .mergeByPropertyObjectTrump
        try reader.save()
        #expect(book["title", as: String.self] == "Z")
        #expect(book["year", as: Int.self] == 1815)
        #expect(try titles(reader) == ["C", "D", "Z"])
    }

    @Test func unsavedChangesAreSeenOverThePinnedCommit() throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        let books = try reader.fetch(Self.byTitle)
        try change(writer)
        books[0]["title"] = "AA"
        try reader.insertObject(entityName: "Book")["title"] = "X"
        #expect(try titles(reader) == ["AA", "B", "C", "X"])
    }

    @Test func aProcessThatWritesIsNotSeen() async throws {
        let coordinator = try coordinator()
        try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try reader.count(for: FetchRequest("Book")) == 3)
        let result = try await ChildProcess.run(
            TestProgram.path(named: "quire"), ["set", folder.path("store"), "Book/p1", "title=Q"])
        try #require(result.status == 0)
        #expect(try titles(reader) == ["A", "B", "C"])
        reader.refreshAllObjects()
        #expect(try titles(reader).contains("Q"))
    }

    @Test func severalStoresArePinnedTogether() throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        try coordinator.addPersistentStore(PersistentStoreDescription(type: .inMemory))
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try titles(reader) == ["A", "B", "C"])
        let book = try writer.insertObject(entityName: "Book")
        book["title"] = "D"
        try writer.assign(book, to: coordinator.persistentStores[1])
        try writer.save()
        try change(writer)
        #expect(try titles(reader) == ["A", "B", "C"])
        #expect(try reader.count(for: FetchRequest("Book")) == 3)
    }

    // MARK: Limits

    @Test func aGenerationThatIsTooOldExpires() throws {
        let coordinator = try coordinator {
            $0.sqliteOptions.maximumQueryGenerationAge = .milliseconds(0)
        }
        try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        let error = #expect(throws: QuireError.self) { try titles(reader) }
        #expect(error?.code == .generationExpired)
        try reader.setQueryGeneration(from: nil)
        #expect(try titles(reader).count == 3)
    }

    @Test func aGenerationExpiresWhenTheLogHasGrown() throws {
        let coordinator = try coordinator {
            $0.sqliteOptions.maximumQueryGenerationLogSize = 100_000
        }
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        let book = try reader.fetch(Self.byTitle)[0]
        let author = try #require(try reader.fetch(FetchRequest("Author")).first)
        var count = 0
        while reader.queryGenerationToken != nil, count < 1000 {
            for number in 0..<100 {
                try writer.insertObject(entityName: "Book")["title"] = "more \(number)"
            }
            try writer.save()
            count += 1
            if (try? reader.count(for: FetchRequest("Book"))) == nil { break }
            #expect(try reader.count(for: FetchRequest("Book")) == 3)
        }
        #expect(count < 1000)
        // Never a mix: nothing is read of a later commit.
        #expect(author["books", as: Set<ManagedObject>.self].isEmpty)
        #expect(reader.takeFaultError()?.code == .generationExpired)
        #expect(book["title", as: String.self] == "A")
        reader.refreshAllObjects()
        #expect(try reader.count(for: FetchRequest("Book")) > 3)
        #expect(author["books", as: Set<ManagedObject>.self].count == 3)
    }

    @Test func theLogIsCheckpointedWhenTheGenerationIsReleased() throws {
        let coordinator = try coordinator()
        let writer = try fill(coordinator)
        func logSize() throws -> Int64 {
            try FileSystem.information(at: folder.path("store-wal"))?.size ?? 0
        }
        var reader: ManagedObjectContext? = .mainQueue(coordinator: coordinator)
        try reader?.setQueryGeneration(from: .current)
        #expect(try reader?.count(for: FetchRequest("Book")) == 3)
        let books = try writer.fetch(Self.byTitle)
        for number in 0..<100 {
            for book in books { book["title"] = String(repeating: "\(number)", count: 10_000) }
            try writer.save()
        }
        #expect(try logSize() > 2_000_000)
        reader = nil
        let store = try #require(coordinator.persistentStores[0] as? SQLiteStore)
        try store.withWriter {
            _ = try $0.connection.integer("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        #expect(try logSize() == 0)
    }

    @Test func aSaveBeyondTheLimitReleasesTheLogThoughNothingIsRead() throws {
        let coordinator = try coordinator {
            $0.sqliteOptions.maximumQueryGenerationLogSize = 100_000
        }
        let writer = try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try reader.count(for: FetchRequest("Book")) == 3)
        let book = try writer.fetch(Self.byTitle)[0]
        book["title"] = String(repeating: "long", count: 50_000)
        try writer.save()
        let store = try #require(coordinator.persistentStores[0] as? SQLiteStore)
        try store.withWriter {
            _ = try $0.connection.integer("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        #expect(try FileSystem.information(at: folder.path("store-wal"))?.size == 0)
        let error = #expect(throws: QuireError.self) { try titles(reader) }
        #expect(error?.code == .generationExpired)
    }

    @Test func aClosedStoreHasNoGenerations() throws {
        let coordinator = try coordinator()
        try fill(coordinator)
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try reader.count(for: FetchRequest("Book")) == 3)
        try coordinator.close()
        let error = #expect(throws: QuireError.self) { try titles(reader) }
        #expect(error?.code == .storeUnavailable)
        #expect(try FileSystem.information(at: folder.path("store-wal")) == nil)
    }

    // MARK: Errors

    @Test func aChildIgnoresOneOfItsOwn() throws {
        let coordinator = try coordinator()
        let parent = try fill(coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        try child.setQueryGeneration(from: .current)
        #expect(child.queryGenerationToken == nil)
        try parent.insertObject(entityName: "Book")["title"] = "D"
        #expect(try child.count(for: FetchRequest("Book")) == 4)
    }

    @Test func aTokenOfAnotherCoordinatorIsRefused() throws {
        let first = try coordinator(.inMemory)
        let second = try coordinator(.inMemory)
        let reader = try fill(first)
        try reader.setQueryGeneration(from: .current)
        _ = try titles(reader)
        let other = try fill(second)
        let error = #expect(throws: QuireError.self) {
            try other.setQueryGeneration(from: reader.queryGenerationToken)
        }
        #expect(error?.code == .invalidValue)
        #expect(other.queryGenerationToken == nil)
    }

    @Test(arguments: ["/dev/null", "rollback"])
    func aStoreWithoutLogIsReadAsItIs(_ name: String) throws {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        var description = PersistentStoreDescription(
            path: name == "rollback" ? folder.path(name) : name)
        description.sqliteOptions.journal = .rollback
        try coordinator.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.setQueryGeneration(from: .current)
        #expect(try titles(context) == [])
        try fill(coordinator)
        #expect(try titles(context) == ["A", "B", "C"])
        let author = try #require(try context.fetch(FetchRequest("Author")).first)
        #expect(author["books", as: Set<ManagedObject>.self].count == 3)
        try context.insertObject(entityName: "Book")["title"] = "D"
        try context.save()
        #expect(try titles(context) == ["A", "B", "C", "D"])
    }

    /// Of two stores one has generations.
    @Test func besideAStoreWithoutThemTheOtherIsPinned() throws {
        let model = ManagedObjectModel {
            Entity("Kept") { Attribute("name", .string) }
            Entity("Passing") { Attribute("name", .string) }
            ModelConfiguration("Kept", entities: ["Kept"])
            ModelConfiguration("Passing", entities: ["Passing"])
        }
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        for (configuration, path) in [("Kept", folder.path("kept")), ("Passing", "/dev/null")] {
            var description = PersistentStoreDescription(path: path)
            description.configuration = configuration
            try coordinator.addPersistentStore(description)
        }
        let writer = ManagedObjectContext.mainQueue(coordinator: coordinator)
        func save(_ name: String) throws {
            for entity in ["Kept", "Passing"] {
                try writer.insertObject(entityName: entity)["name"] = name
            }
            try writer.save()
        }
        try save("one")
        let reader = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try reader.count(for: FetchRequest("Kept")) == 1)
        try save("two")
        #expect(try reader.count(for: FetchRequest("Kept")) == 1)
        #expect(try reader.count(for: FetchRequest("Passing")) == 2)
        let passing = try reader.fetch(FetchRequest("Passing"))
        for object in try writer.fetch(FetchRequest("Passing")) { object["name"] = "changed" }
        try writer.save()
        reader.refreshAllObjects()
        #expect(passing.allSatisfy { $0["name", as: String.self] == "changed" })
        #expect(try reader.count(for: FetchRequest("Kept")) == 2)
    }
}
