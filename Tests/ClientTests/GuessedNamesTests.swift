import Foundation
import Quire
import QuireDocuments
import Testing

/// What a programmer who knows Core Data, and has not read this library's documentation, types.
@MainActor @Suite struct GuessedNamesTests {
    private static let model = ManagedObjectModel {
        Entity("Book") {
            Attribute("title", .string)
            Attribute("year", .integer16).default(0)
            Attribute("scan", .binary).externalStorage()
        }
    }
    private static let notAFile = URL(string: "https://example.com/Library")!

    private func addBooks(to context: ManagedObjectContext) throws {
        for (title, year) in [("Persuasion", 1817), ("Emma", 1815)] {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["year"] = year
        }
        try context.save()
    }

    /// Expects a URL that is not of a file to be reported as such.
    private func expectInvalidURL(_ body: () throws -> Void) {
        let error = #expect(throws: QuireError.self) { try body() }
        #expect(error?.code == .invalidValue)
        #expect(error?.message.contains("example.com") == true)
    }

    // MARK: - Stacks and stores

    @Test func containerOpensAStoreInOneLine() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Library.sqlite")
            let container = try PersistentContainer(
                path: url.path, managedObjectModel: Self.model)
            #expect(container.name == "Library")
            try addBooks(to: container.viewContext)
            try container.close()

            let newer = ManagedObjectModel {
                Entity("Book") {
                    Attribute("title", .string)
                    Attribute("year", .integer16).default(0)
                    Attribute("scan", .binary).externalStorage()
                    Attribute("pages", .integer32)
                }
            }
            let migrated = try PersistentContainer(url: url, managedObjectModel: newer)
            #expect(try migrated.viewContext.count(for: FetchRequest("Book")) == 2)
            try migrated.close()
            expectInvalidURL {
                _ = try PersistentContainer(url: Self.notAFile, managedObjectModel: newer)
            }
        }
    }

    @Test func containerHasAStoreInMemory() throws {
        let container = try PersistentContainer(
            managedObjectModel: Self.model, persistentStoreDescriptions: [.inMemory])
        try addBooks(to: container.viewContext)
        #expect(try container.viewContext.count(for: FetchRequest("Book")) == 2)
        #expect(container.persistentStoreCoordinator.persistentStores.first?.path == nil)
        try container.close()
    }

    @Test func coordinatorAddsReplacesAndDestroysStores() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Library.sqlite")
            let backup = folder.appendingPathComponent("Backup.sqlite")
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
            var options = SQLiteStoreOptions()
            options.tracksHistory = true
            let store = try coordinator.addPersistentStore(
                type: .sqlite, configuration: nil, at: url, options: options)
            #expect(coordinator.persistentStore(for: url) === store)
            #expect(coordinator.persistentStore(for: Self.notAFile) == nil)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            try addBooks(to: context)
            #expect(try coordinator.currentPersistentHistoryToken() != nil)
            try coordinator.replacePersistentStore(at: backup, withPersistentStoreFrom: url)

            try addBooks(to: context)
            let open = #expect(throws: QuireError.self) {
                try coordinator.destroyPersistentStore(at: url)
            }
            #expect(open?.code == .locked)
            try coordinator.replacePersistentStore(at: backup, withPersistentStoreFrom: url)
            #expect(try StoreFile(at: backup).metadata().storeUUID == store.identity.uuid)
            try coordinator.remove(store)
            try coordinator.destroyPersistentStore(at: url)
            #expect(!FileManager.default.fileExists(atPath: url.path))

            let missing = #expect(throws: QuireError.self) {
                try coordinator.destroyPersistentStore(at: url)
            }
            #expect(missing?.code == .notFound)
            let source = #expect(throws: QuireError.self) {
                try coordinator.replacePersistentStore(at: backup, withPersistentStoreFrom: url)
            }
            #expect(source?.code == .notFound)
            expectInvalidURL { try coordinator.destroyPersistentStore(at: Self.notAFile) }
            expectInvalidURL {
                try coordinator.replacePersistentStore(
                    at: Self.notAFile, withPersistentStoreFrom: backup)
            }

            let again = try PersistentContainer(url: backup, managedObjectModel: Self.model)
            #expect(try again.viewContext.count(for: FetchRequest("Book")) == 4)
            try again.close()
        }
    }

    @Test func coordinatorAddsAStoreInMemory() throws {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        #expect(try coordinator.addPersistentStore(type: .inMemory).path == nil)
        try coordinator.close()
    }

    // MARK: - Objects and requests

    @Test func predicateNeedsNoLabel() throws {
        #expect(
            try QueryPredicate("year < %d", 1816) == QueryPredicate(format: "year < %d", 1816))
        #expect(try QueryPredicate("year < 1816") == QueryPredicate(format: "year < 1816"))
        let error = #expect(throws: QuireError.self) { try QueryPredicate("year <") }
        #expect(error?.code == .invalidQuery)
    }

    @Test func batchDeleteTakesAnEntityName() async throws {
        try await withProgramFolder { folder in
            let container = try PersistentContainer(
                path: folder.path + "/Library.sqlite", managedObjectModel: Self.model)
            let context = container.viewContext
            try addBooks(to: context)
            var request = BatchDeleteRequest(
                entityName: "Book", predicate: try QueryPredicate("title == 'Emma'"))
            request.resultType = .count
            #expect(try context.execute(request).count == 1)
            request = BatchDeleteRequest(entityName: "Book")
            request.resultType = .count
            #expect(try context.execute(request).count == 1)
            #expect(try context.count(for: FetchRequest("Book")) == 0)
            #expect(throws: QuireError.self) {
                try context.execute(BatchDeleteRequest(entityName: "Magazine"))
            }
            try container.close()
        }
    }

    @Test func contextHasUserInfo() throws {
        let container = try PersistentContainer(
            managedObjectModel: Self.model, persistentStoreDescriptions: [.inMemory])
        let context = container.viewContext
        #expect(context.userInfo.isEmpty)
        context.userInfo["importer"] = "CSV"
        #expect(context.userInfo["importer"] as? String == "CSV")
        try container.close()
    }

    @Test func historyHasCoreDatasNames() async throws {
        try await withProgramFolder { folder in
            var description = PersistentStoreDescription(
                url: folder.appendingPathComponent("Library.sqlite"))
            description.tracksHistory = true
            let container = try PersistentContainer(
                managedObjectModel: Self.model, persistentStoreDescriptions: [description])
            try addBooks(to: container.viewContext)
            let transactions = try container.viewContext
                .execute(.fetchHistory(after: nil as PersistentHistoryToken?)).transactions
            let transaction = try #require(transactions.first)
            #expect(transaction.timestamp == transaction.date)
            #expect(transaction.transactionNumber == transaction.number)
            #expect(transaction.storeID == transaction.storeUUID)
            let change = try #require(transaction.changes.first)
            #expect(change.changeType == .insert)
            #expect(change.changedObjectID == change.objectID)
            #expect(change.changeID == change.number)
            try container.close()
        }
    }

    // MARK: - URLs

    @Test func modelsAreReadAndWrittenAtURLs() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Library.xcdatamodel")
            try Self.model.write(to: url)
            #expect(try ManagedObjectModel(contentsOf: url).entities.map(\.name) == ["Book"])
            #expect(try ModelVersions(contentsOf: url).names == ["Library"])
            expectInvalidURL { try Self.model.write(to: Self.notAFile) }
            expectInvalidURL { _ = try ManagedObjectModel(contentsOf: Self.notAFile) }
            expectInvalidURL { _ = try ModelVersions(contentsOf: Self.notAFile) }
        }
    }

    @Test func externalDataComesFromAndGoesToURLs() async throws {
        try await withProgramFolder { folder in
            let scan = folder.appendingPathComponent("scan.tiff")
            try Data("scan".utf8).write(to: scan)
            let store = folder.appendingPathComponent("Library.sqlite")
            let container = try PersistentContainer(url: store, managedObjectModel: Self.model)
            let book = try container.viewContext.insertObject(entityName: "Book")
            try await book.setExternalData(contentsOf: scan, forKey: "scan")
            try setExternalDataAtOnce(of: book, to: scan)
            expectInvalidURL { try setExternalDataAtOnce(of: book, to: Self.notAFile) }
            let value = try await container.persistentStoreCoordinator.makeExternalData(
                contentsOf: scan, forEntity: "Book")
            let copy = folder.appendingPathComponent("copy.tiff")
            try value.copy(to: copy)
            #expect(try Data(contentsOf: copy) == Data("scan".utf8))
            try container.viewContext.save()

            let xml = folder.appendingPathComponent("Library.xml")
            try StoreFile(at: store).convert(to: xml, type: .xml)
            #expect(try StoreFile(at: xml).type == .xml)
            expectInvalidURL { _ = try StoreFile(at: Self.notAFile) }
            expectInvalidURL { try StoreFile(at: store).convert(to: Self.notAFile, type: .xml) }
            expectInvalidURL { try value.copy(to: Self.notAFile) }
            try container.close()
        }
    }

    private func setExternalDataAtOnce(of book: ManagedObject, to url: URL) throws {
        try book.setExternalData(contentsOf: url, forKey: "scan")
        #expect(book["scan"] as? Data == Data("scan".utf8))
    }

    // MARK: - Documents

    @Test func additionalContentIsRemovedAtAPath() async throws {
        try await withProgramFolder { folder in
            let file = folder.appendingPathComponent("style.css")
            try Data("p {}".utf8).write(to: file)
            let pages = folder.appendingPathComponent("pages")
            try FileManager.default.createDirectory(
                at: pages, withIntermediateDirectories: false)
            try Data("1".utf8).write(to: pages.appendingPathComponent("1"))
            let document = ManagedDocument(
                fileURL: folder.appendingPathComponent("Home.quire"))
            try await document.create(model: Self.model)
            let content = document.additionalContent
            try await content.write(contentsOf: file, at: "style.css")
            #expect(try await content.write(contentsOfFolder: pages, at: "p") == ["p/1"])
            #expect(content.paths == ["p/1", "style.css"])
            try content.remove(at: "style.css")
            #expect(content.paths == ["p/1"])
            let error = #expect(throws: QuireError.self) { try content.remove(at: "style.css") }
            #expect(error?.code == .notFound)
            let invalid = await #expect(throws: QuireError.self) {
                try await content.write(contentsOf: Self.notAFile, at: "a")
            }
            #expect(invalid?.code == .invalidValue)
            try await document.close()
        }
    }

    @Test func documentsAreExportedAndOpenedByPathOrURL() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Home.quire")
            let archive = folder.appendingPathComponent("Home.zip")
            let copy = folder.appendingPathComponent("Copy.quire")
            let package = try DocumentPackage.create(at: url, model: Self.model)
            try package.close()
            let document = ManagedDocument(path: url.path)
            try await document.open()
            try addBooks(to: document.managedObjectContext)
            try await document.export(to: archive.path)
            try await document.close()

            #expect(try DocumentPackage.extract(archive, to: copy).isStoreChecked)
            try DocumentPackage.open(at: copy, readOnly: true).close()
            let library = DocumentLibrary(folder: folder)
            #expect(try await library.entries().map(\.title) == ["Copy", "Home"])
            expectInvalidURL { _ = try DocumentPackage.open(at: Self.notAFile) }
            expectInvalidURL {
                _ = try DocumentPackage.create(at: Self.notAFile, model: Self.model)
            }
            expectInvalidURL { try DocumentPackage.extract(Self.notAFile, to: copy) }
            expectInvalidURL { _ = try DocumentTemplate(contentsOf: Self.notAFile) }
            let elsewhere = DocumentLibrary(folder: Self.notAFile)
            await #expect(throws: QuireError.self) { try await elsewhere.entries() }
        }
    }
}
