import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

/// Changes that others make to a store: another process, another coordinator, those that share a store in memory.
@MainActor @Suite struct RemoteChangeTests {
    private static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author")
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("year", .integer16)
            ToOne("author", "Author", inverse: "books")
        }
    }

    /// A coordinator of the store with a context.
    @MainActor private final class User {
        let coordinator: PersistentStoreCoordinator
        let context: ManagedObjectContext
        let reports = EventRecorder<RemoteChange>()
        private var task: Task<Void, Never>?

        init(at path: String, tracksHistory: Bool = true, reports: Bool = true) throws {
            coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = tracksHistory
            description.postsRemoteChanges = reports
            try coordinator.addPersistentStore(description)
            context = .mainQueue(coordinator: coordinator)
            context.automaticallyMergesChangesFromParent = true
            let (changes, recorder) = (coordinator.remoteChanges, self.reports)
            task = Task { for await change in changes { recorder.record(change) } }
        }

        deinit { task?.cancel() }

        @discardableResult
        func add(_ title: String) throws -> ManagedObject {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            try context.save()
            return book
        }

        func titles() throws -> [String] {
            var request = FetchRequest("Book")
            request.sortOrderings = [SortOrdering("title")]
            return try context.fetch(request).map { $0["title", as: String.self] ?? "" }
        }

        /// The next report, when the context has merged it.
        func nextReport() async throws -> RemoteChange {
            let report = try #require(await reports.next())
            context.mergePendingSaves()
            return report
        }
    }

    enum Place: String, CaseIterable {
        case file, memory

        func path(in folder: TemporaryFolder) -> String {
            self == .file
                ? folder.path("books.sqlite") : "/dev/null/\(UUID().uuidString)"
        }
    }

    private static func title(_ book: ManagedObject) -> String? { book["title", as: String.self] }

    /// Runs the command, which is another process.
    private func quire(_ arguments: String...) async throws {
        let result = try await ChildProcess.run(TestProgram.path(named: "quire"), arguments)
        try #require(result.status == 0, "\(result.output)")
    }

    @Test(arguments: Place.allCases, [true, false])
    func whatAnotherCoordinatorSavesIsReported(_ place: Place, _ tracksHistory: Bool) async throws {
        let folder = try TemporaryFolder()
        let path = place.path(in: folder)
        let other = try User(at: path, tracksHistory: tracksHistory)
        let book = try other.add("Emma")
        let user = try User(at: path, tracksHistory: tracksHistory)
        let mine = try user.context.existingObject(with: book.objectID)
        #expect(Self.title(mine) == "Emma")
        book["title"] = "Persuasion"
        try other.context.save()
        let report = try await user.nextReport()
        #expect(report.store === user.coordinator.persistentStores[0])
        #expect(report.url == (place == .file ? URL(fileURLWithPath: path) : nil))
        #expect((report.historyToken != nil) == tracksHistory)
        #expect(try report.historyToken == user.coordinator.currentPersistentHistoryToken())
        #expect(Self.title(mine) == "Persuasion")
    }

    @Test(arguments: [true, false])
    func whatAnotherProcessSavesIsReported(_ tracksHistory: Bool) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path, tracksHistory: tracksHistory)
        let emma = try user.add("Emma")
        let other = try user.add("Other")
        let notifications = EventRecorder<String>()
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.remoteChangeNotification, object: user.coordinator,
            queue: nil
        ) { notification in
            let keys = notification.userInfo?.keys.compactMap { $0 as? String } ?? []
            notifications.record(keys.sorted().joined(separator: " "))
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try await quire("insert", path, "Book", "title=Persuasion")
        _ = try await user.nextReport()
        #expect(try user.titles() == ["Emma", "Other", "Persuasion"])
        try await quire("set", path, "Book/p1", "title=Sanditon")
        while Self.title(emma) == "Emma" { _ = try await user.nextReport() }
        #expect(Self.title(emma) == "Sanditon")
        try await quire("delete", path, "Book/p2")
        // A fetch finds it gone before the report has come.
        while try user.titles().contains("Other")
            || tracksHistory && other.managedObjectContext != nil
        { _ = try await user.nextReport() }
        #expect(
            await notifications.next()
                == (tracksHistory ? "NSStoreUUID historyToken storeURL" : "NSStoreUUID storeURL"))
    }

    @Test func ownSavesAreNotReported() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        for number in 0..<20 { try user.add("own \(number)") }
        let background = QueueConfinedContext(coordinator: user.coordinator)
        try await background.perform { context in
            try context.insertObject(entityName: "Book")["title"] = "background"
            try context.save()
        }
        let other = try User(at: path)
        try other.add("other")
        let last = try user.coordinator.currentPersistentHistoryToken()
        #expect(try await user.nextReport().historyToken == last)
        #expect(user.reports.events.count == 1)
    }

    @Test func ownBatchRequestsAreReportedAndMerged() async throws {
        let folder = try TemporaryFolder()
        let user = try User(at: folder.path("books.sqlite"))
        let book = try user.add("Emma")
        var update = BatchUpdateRequest(entityName: "Book")
        update.propertiesToUpdate = ["year": 1815]
        try user.context.execute(update)
        _ = try await user.nextReport()
        #expect(book["year", as: Int.self] == 1815)
    }

    @Test func onlyWhatTheHistoryNamesIsTouched() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let books = try (0..<50).map { try user.add("book \($0)") }
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<ManagedObject>(
                "Book", sortOrderings: [SortOrdering("title")]),
            managedObjectContext: user.context)
        try controller.performFetch()
        let delegate = Recorder()
        controller.delegate = delegate
        let other = try User(at: path)
        for bits in [3, 7] {
            let book = try other.context.existingObject(with: books[bits].objectID)
            book["title"] = "changed \(bits)"
        }
        try other.context.save()
        for book in books { _ = book["title", as: String.self] }
        _ = try await user.nextReport()
        #expect(delegate.changed == [books[3].objectID, books[7].objectID])
        #expect(books.filter(\.isFault).count <= 2)
        #expect(Self.title(books[3]) == "changed 3")
        #expect(controller.fetchedObjects?.last?.objectID == books[7].objectID)
    }

    @MainActor private final class Recorder: FetchedResultsControllerDelegate {
        var changed: Set<ManagedObjectID> = []

        func controller(
            _ controller: FetchedResultsController<ManagedObject>, didChange object: ManagedObject,
            at indexPath: IndexPath?, for type: FetchedResultsChangeType, newIndexPath: IndexPath?
        ) { changed.insert(object.objectID) }
    }

    @Test func relationshipsThatOthersChangeAreReadAgain() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let author = try user.context.insertObject(entityName: "Author")
        let book = try user.add("Emma")
        #expect(author["books", as: Set<ManagedObject>.self].isEmpty)
        let other = try User(at: path)
        let theirs = try other.context.existingObject(with: book.objectID)
        theirs["author"] = try other.context.existingObject(with: author.objectID)
        try other.context.save()
        _ = try await user.nextReport()
        #expect(author["books", as: Set<ManagedObject>.self] == [book])
        #expect(book["author", as: ManagedObject.self] == author)
    }

    @Test func unsavedChangesAreKept() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let book = try user.add("Emma")
        book["year"] = 1815
        try await quire("set", path, "Book/p1", "title=Sanditon")
        while Self.title(book) != "Sanditon" { _ = try await user.nextReport() }
        #expect(book["year", as: Int.self] == 1815)
        try user.context.save()
        #expect(Self.title(book) == "Sanditon")
    }

    @Test func quickSavesAreReportedTogetherAndTheLastOneAlways() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let other = try User(at: path, reports: false)
        let book = try other.add("0")
        let mine = try user.context.existingObject(with: book.objectID)
        for number in 1...100 {
            book["title"] = "\(number)"
            try other.context.save()
        }
        var count = 0
        while Self.title(mine) != "100" {
            _ = try await user.nextReport()
            count += 1
        }
        #expect(count <= 101)
    }

    @Test func aHistoryThatIsDeletedMeanwhileLeadsToReadingEverything() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let other = try User(at: path, reports: false)
        let book = try other.add("Emma")
        let user = try User(at: path)
        let mine = try user.context.existingObject(with: book.objectID)
        #expect(Self.title(mine) == "Emma")
        let store = try #require(other.coordinator.persistentStores[0] as? SQLiteStore)
        // In one transaction, so that no report comes between.
        try store.saveInOneTransaction {
            book["title"] = "Persuasion"
            try other.context.save()
            try store.withWriter(joining: true) {
                try $0.connection.execute("DELETE FROM ACHANGE; DELETE FROM ATRANSACTION")
            }
        }
        _ = try await user.nextReport()
        #expect(Self.title(mine) == "Persuasion")
    }

    /// A writer that begins the log anew changes the database's version before it commits, which is no change of objects.
    @Test func whatIsReportedIsWhatTheHistoryNames() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let other = try User(at: path, reports: false)
        let book = try other.add("0")
        let mine = try user.context.existingObject(with: book.objectID)
        let untouched = try user.add("untouched")
        #expect(Self.title(mine) == "0" && Self.title(untouched) == "untouched")
        _ = try await user.nextReport()
        // More than a log holds before SQLite restarts it, several times.
        for number in 1...150 {
            book["title"] = String(repeating: "\(number % 10)", count: 100_000)
            try other.context.save()
        }
        let last = try user.coordinator.currentPersistentHistoryToken()
        _ = Self.title(untouched)
        repeat {
            let report = try await user.nextReport()
            #expect(!untouched.isFault)
            if report.historyToken == last { break }
        } while true
        #expect(Self.title(mine)?.first == "0")
    }

    @Test func whatAnotherProgramWritesWithoutHistoryIsRead() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let book = try user.add("Emma")
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try connection.execute("UPDATE ZBOOK SET ZTITLE = 'Persuasion', Z_OPT = Z_OPT + 1")
        _ = try await user.nextReport()
        #expect(Self.title(book) == "Persuasion")
    }

    @Test func childrenOfAContextFollow() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        for tracksHistory in [true, false] {
            let user = try User(at: path, tracksHistory: tracksHistory)
            let book = try user.add("Emma")
            let child = ManagedObjectContext.mainQueue(parent: user.context)
            child.automaticallyMergesChangesFromParent = true
            let copy = try child.existingObject(with: book.objectID)
            #expect(Self.title(copy) == "Emma")
            let other = try User(at: path)
            let theirs = try other.context.existingObject(with: book.objectID)
            theirs["title"] = "Persuasion"
            try other.context.save()
            _ = try await user.nextReport()
            child.mergePendingSaves()
            #expect(Self.title(copy) == "Persuasion")
        }
    }

    @Test func nothingIsReportedOfARemovedStore() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("books.sqlite")
        let user = try User(at: path)
        let other = try User(at: path)
        try user.coordinator.remove(user.coordinator.persistentStores[0])
        try other.add("Emma")
        // A later save, whose report the other coordinator gets.
        let third = try User(at: path)
        try third.add("Persuasion")
        _ = try await other.nextReport()
        #expect(user.reports.events.isEmpty)
    }

    @Test func theSequenceEndsWithTheCoordinator() async throws {
        let folder = try TemporaryFolder()
        var user: User? = try User(at: folder.path("books.sqlite"))
        let changes = try #require(user?.coordinator.remoteChanges)
        user = nil
        for await _ in changes { Issue.record("There is nothing to report.") }
    }
}
