import Foundation
import Quire
import Testing

/// Programs that follow the history of a store which others write too, as people reported them of other products.
@MainActor @Suite struct HistorySituationTests {
    static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("slug", .string).preservedInHistoryOnDeletion()
            Attribute("number", .uuid).preservedInHistoryOnDeletion()
            Attribute("added", .date).preservedInHistoryOnDeletion()
            ToOne("author", "Author", inverse: "books")
        }
    }

    /// Opens the store of a folder as one of the programs that share it.
    static func open(
        _ folder: URL, as author: String, named name: String = "Books", tracking: Bool = true
    ) async throws -> PersistentContainer {
        let container = try await SituationStore.sqlite.container(model, in: folder, named: name) {
            $0.tracksHistory = tracking
        }
        container.viewContext.transactionAuthor = author
        return container
    }

    /// Inserts a book and saves.
    @discardableResult
    static func insertBook(_ title: String, in context: ManagedObjectContext) throws
        -> ManagedObject
    {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        try context.save()
        return book
    }

    static func titles(_ context: ManagedObjectContext) throws -> [String] {
        try context.fetch(
            FetchRequest<ManagedObject>("Book", sortOrderings: [SortOrdering("title")])
        ).compactMap { $0["title"] as? String }
    }

    /// A phone that was not used for months: what it asks for is deleted. It gets the error that says so, reads the store anew and
    /// continues (nightscout/Trio#1247, fatbobman/PersistentHistoryTrackingKit#7).
    @Test func anExpiredTokenIsAnErrorAndTheCurrentOneContinues() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let widget = try await Self.open(folder, as: "widget")
            try Self.insertBook("A", in: app.viewContext)
            let old = try #require(
                try app.persistentStoreCoordinator.currentPersistentHistoryToken())
            let shown = try widget.viewContext.fetch(FetchRequest<ManagedObject>("Book"))[0]
            for title in ["B", "C"] { try Self.insertBook(title, in: app.viewContext) }
            shown["title"] = "A, edited"
            try widget.viewContext.save()
            // The app takes its own place for everybody's.
            try app.viewContext.execute(
                .deleteHistory(
                    before: app.persistentStoreCoordinator.currentPersistentHistoryToken())
            )
            let error = try #require(throws: QuireError.self) {
                try widget.viewContext.execute(.fetchHistory(after: old))
            }
            #expect(error.code == .historyTokenExpired)
            app.viewContext.refreshAllObjects()
            #expect(try Self.titles(app.viewContext) == ["A, edited", "B", "C"])
            let current = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            try Self.insertBook("D", in: app.viewContext)
            let found = try widget.viewContext.execute(.fetchHistory(after: current)).transactions
            #expect(found.map(\.author) == ["app"])
            try app.close()
            try widget.close()
        }
    }

    /// A token's file that was cut, or is of another program, is an error to decode, and one with nonsense in it an error to use
    /// (quran/quran-ios#989: launch after launch crashed).
    @Test func aDamagedTokenIsAnErrorAndNotACrash() async throws {
        for text in ["", "{", "null", "[]", #"{"transactionNumbers": {"x": "y"}}"#, "7"] {
            #expect(throws: (any Error).self) {
                try JSONDecoder().decode(PersistentHistoryToken.self, from: Data(text.utf8))
            }
        }
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            try Self.insertBook("A", in: app.viewContext)
            let current = try #require(
                try app.persistentStoreCoordinator.currentPersistentHistoryToken())
            let uuid = try #require(current.transactionNumbers.keys.first)
            for number in [Int64.max, 1_000_000] {
                let token = PersistentHistoryToken(transactionNumbers: [uuid: number])
                let error = try #require(throws: QuireError.self) {
                    try app.viewContext.execute(.fetchHistory(after: token))
                }
                #expect(error.code == .historyTokenExpired)
            }
            for number in [Int64.min, -1, 0] {
                let token = PersistentHistoryToken(transactionNumbers: [uuid: number])
                #expect(
                    try app.viewContext.execute(.fetchHistory(after: token)).transactions.count == 1
                )
            }
            try app.close()
        }
    }

    /// The user restores yesterday’s backup and works on: numbers are given again, and a token of the time between must not
    /// skip what they now stand for (deeje/CloudCore#5 restores a backup; drewmccormack/ensembles#14 keeps tokens for this).
    @Test func aTokenOfBeforeARestoredBackupExpires() async throws {
        try await withProgramFolder { folder in
            var app = try await Self.open(folder, as: "app")
            try Self.insertBook("A", in: app.viewContext)
            let early = try #require(
                try app.persistentStoreCoordinator.currentPersistentHistoryToken())
            try app.close()
            let file = folder.appendingPathComponent("Books.sqlite")
            let backup = folder.appendingPathComponent("Backup.sqlite")
            try FileManager.default.copyItem(at: file, to: backup)

            app = try await Self.open(folder, as: "app")
            for title in ["B", "C"] { try Self.insertBook(title, in: app.viewContext) }
            let seen = try #require(
                try app.persistentStoreCoordinator.currentPersistentHistoryToken())
            let last = try #require(
                try app.viewContext.execute(.fetchHistory(after: early)).transactions.last)
            try app.close()
            try FileManager.default.removeItem(at: file)
            try FileManager.default.copyItem(at: backup, to: file)

            app = try await Self.open(folder, as: "app")
            for title in ["X", "Y", "Z"] { try Self.insertBook(title, in: app.viewContext) }
            // Encoded, as it was kept.
            let kept = try JSONDecoder().decode(
                PersistentHistoryToken.self, from: JSONEncoder().encode(seen))
            for token in [kept, seen, last.token] {
                let error = try #require(throws: QuireError.self) {
                    try app.viewContext.execute(.fetchHistory(after: token))
                }
                #expect(error.code == .historyTokenExpired)
            }
            let error = try #require(throws: QuireError.self) {
                try app.viewContext.execute(.fetchHistory(after: last))
            }
            #expect(error.code == .historyTokenExpired)
            // A place that both have is still one.
            #expect(
                try app.viewContext.execute(.fetchHistory(after: early)).transactions.count == 3)
            try app.close()
        }
    }

    /// `author != 'app'` is to find what nobody signed: an importer that names no author
    /// (avanderlee.com, Persistent History Tracking in Core Data).
    @Test func transactionsWithoutAnAuthorAreOthers() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            try Self.insertBook("Mine", in: app.viewContext)
            try await app.performBackgroundTask { context in
                context.name = "importer"
                try context.insertObject(entityName: "Book")["title"] = "Imported"
                try context.save()
            }
            _ = try app.viewContext.execute(
                BatchInsertRequest(entityName: "Book", objects: [["title": "Batch"]]))
            var request = PersistentHistoryTransaction.fetchRequest
            request.predicate = try QueryPredicate(format: "author != %@", "app")
            let found = try app.viewContext.execute(.fetchHistory(matching: request)).transactions
            // The batch request is that of the context, which has an author.
            #expect(found.map(\.contextName) == ["importer"])
            request.predicate = try QueryPredicate(format: "author == nil OR NOT author == 'app'")
            #expect(
                try app.viewContext.execute(.fetchHistory(matching: request)).transactions.count
                    == 1)
            try app.close()
        }
    }

    /// What was inserted and deleted between two looks, and a transaction whose object later ones changed, merge without a fault
    /// that cannot be filled (brightdigit/DataThespian#49, quran/quran-ios#989).
    @Test func transactionsMergeOneByOneAlthoughLaterOnesDeletedTheirObjects() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let other = try await Self.open(folder, as: "other")
            let kept = try Self.insertBook("Kept", in: app.viewContext)
            let doomed = try Self.insertBook("Doomed", in: app.viewContext)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            let context = other.viewContext
            let passing = try Self.insertBook("Passing", in: context)
            passing["title"] = "Passing on"
            try context.save()
            for book in try context.fetch(FetchRequest<ManagedObject>("Book")) {
                if book.objectID == kept.objectID {
                    book["title"] = "Kept, edited"
                } else {
                    book["title"] = "Edited before its end"
                }
            }
            try context.save()
            for book in try context.fetch(FetchRequest<ManagedObject>("Book"))
            where book.objectID != kept.objectID { context.delete(book) }
            try context.save()

            let request = PersistentHistoryChangeRequest.fetchHistory(after: token)
            for transaction in try app.viewContext.execute(request).transactions {
                app.viewContext.mergeChanges(from: transaction.objectIDChanges)
                for change in transaction.changes where change.kind != .delete {
                    // A row that is no more is an error that says so, or nothing, and never a crash.
                    let object = try? app.viewContext.existingObject(with: change.objectID)
                    _ = object?["title"] as? String
                }
            }
            #expect(kept["title"] as? String == "Kept, edited")
            #expect(doomed.isDeleted || doomed.managedObjectContext == nil)
            #expect(try Self.titles(app.viewContext) == ["Kept, edited"])
            #expect(!app.viewContext.hasChanges)
            try app.close()
            try other.close()
        }
    }

    /// A program that is killed between merging and writing down its token merges the same once more
    /// (quran/quran-ios#989 replays all of the history).
    @Test func mergingTheSameTransactionsAgainChangesNothing() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let other = try await Self.open(folder, as: "other")
            let book = try Self.insertBook("A", in: app.viewContext)
            let edited = try Self.insertBook("B", in: app.viewContext)
            let gone = try Self.insertBook("C", in: app.viewContext)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            for same in try other.viewContext.fetch(FetchRequest<ManagedObject>("Book")) {
                switch same["title"] as? String {
                case "C": other.viewContext.delete(same)
                case let title?: same["title"] = title + "2"
                case nil: break
                }
            }
            try Self.insertBook("D", in: other.viewContext)
            // An edit that is not saved stays through every merge.
            edited["slug"] = "mine"
            let request = PersistentHistoryChangeRequest.fetchHistory(after: token)
            for _ in 0..<3 {
                for transaction in try app.viewContext.execute(request).transactions {
                    app.viewContext.mergeChanges(from: transaction.objectIDChanges)
                }
                #expect(book["title"] as? String == "A2")
                #expect(edited["title"] as? String == "B2")
                #expect(edited["slug"] as? String == "mine")
                #expect(gone.managedObjectContext == nil || gone.isDeleted)
                #expect(try Self.titles(app.viewContext) == ["A2", "B2", "D"])
            }
            #expect(app.viewContext.updatedObjects == [edited])
            app.viewContext.mergePolicy = .mergeByPropertyObjectTrump
            try app.viewContext.save()
            #expect(try Self.titles(app.viewContext) == ["A2", "B2", "D"])
            try app.close()
            try other.close()
        }
    }

    /// What others deleted while it was edited here: the edit is not saved to nowhere without a word
    /// (wireapp/wire-ios-data-model#130 hands saves of an extension to the app).
    @Test func aDeletionByOthersOfWhatIsEditedHereIsMergedOrReported() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let other = try await Self.open(folder, as: "other")
            let book = try Self.insertBook("A", in: app.viewContext)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            let same = try other.viewContext.fetch(FetchRequest<ManagedObject>("Book"))[0]
            other.viewContext.delete(same)
            try other.viewContext.save()
            book["title"] = "Edited"
            let error = try #require(throws: QuireError.self) { try app.viewContext.save() }
            #expect(error.code == .mergeConflict)
            for transaction in try app.viewContext.execute(.fetchHistory(after: token)).transactions
            {
                app.viewContext.mergeChanges(from: transaction.objectIDChanges)
            }
            #expect(try Self.titles(app.viewContext) == [])
            try app.viewContext.save()
            #expect(try other.viewContext.count(for: FetchRequest<ManagedObject>("Book")) == 0)
            try app.close()
            try other.close()
        }
    }

    /// A relationship set on one side only: followers see both sides of it (fatbobman/CoreDataEvolution#11 asks which properties a
    /// relationship's change names).
    @Test func mergingARelationshipRefreshesBothOfItsSides() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let other = try await Self.open(folder, as: "other")
            let author = try app.viewContext.insertObject(entityName: "Author")
            author["name"] = "Jane"
            let second = try app.viewContext.insertObject(entityName: "Author")
            second["name"] = "Ann"
            let book = try Self.insertBook("Emma", in: app.viewContext)
            book["author"] = author
            try app.viewContext.save()
            #expect((author["books"] as? Set<ManagedObject>)?.count == 1)
            #expect((second["books"] as? Set<ManagedObject>)?.isEmpty == true)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            let context = other.viewContext
            let same = try context.fetch(FetchRequest<ManagedObject>("Book"))[0]
            same["author"] = try context.existingObject(with: second.objectID)
            try context.save()
            let found = try app.viewContext.execute(.fetchHistory(after: token)).transactions
            let names = found.flatMap(\.changes).first { $0.objectID == book.objectID }?
                .updatedProperties
            #expect(names == ["author"])
            for transaction in found {
                app.viewContext.mergeChanges(from: transaction.objectIDChanges)
            }
            #expect(book["author"] as? ManagedObject == second)
            #expect((author["books"] as? Set<ManagedObject>)?.isEmpty == true)
            #expect(second["books"] as? Set<ManagedObject> == [book])
            #expect(!app.viewContext.hasChanges)
            try app.close()
            try other.close()
        }
    }

    /// Saves that change nothing leave nothing to follow: the same value, an undone change, a rollback, a row inserted and deleted
    /// before the save (3lvis/SwiftSync#156: notified although nothing has changed).
    @Test func savesWithoutChangesAreNoTransactions() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let context = app.viewContext
            context.undoManager = UndoManager()
            let book = try Self.insertBook("A", in: context)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            func transactions() throws -> Int {
                try context.execute(.fetchHistory(after: token)).transactions.count
            }
            book["title"] = "A"
            try context.save()
            #expect(try transactions() == 0)
            book["title"] = "B"
            book["title"] = "A"
            try context.save()
            #expect(try transactions() == 0)
            book["title"] = "B"
            context.processPendingChanges()
            context.undo()
            try context.save()
            #expect(try transactions() == 0)
            context.delete(try context.insertObject(entityName: "Book"))
            try context.save()
            #expect(try transactions() == 0)
            context.delete(book)
            context.rollback()
            try context.save()
            #expect(try transactions() == 0)
            try app.close()
        }
    }

    /// What the server must be told of a deletion is what was saved last, whatever was edited before the deletion, for each type
    /// (Apple, “Track model changes with SwiftData history”: preserveValueOnDeletion).
    @Test func aTombstoneHasTheSavedValues() async throws {
        try await withProgramFolder { folder in
            let app = try await Self.open(folder, as: "app")
            let number = UUID()
            let added = Date(timeIntervalSinceReferenceDate: 800_000_000.25)
            let author = try app.viewContext.insertObject(entityName: "Author")
            let book = try Self.insertBook("A", in: app.viewContext)
            book["slug"] = "saved"
            book["number"] = number
            book["added"] = added
            book["author"] = author
            try app.viewContext.save()
            try Self.insertBook("Plain", in: app.viewContext)["author"] = author
            try app.viewContext.save()
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            book["slug"] = "never saved"
            app.viewContext.delete(author)
            try app.viewContext.save()
            let changes = try app.viewContext.execute(.fetchHistory(after: token)).transactions
                .flatMap(\.changes)
            #expect(changes.count == 3)
            #expect(changes.allSatisfy { $0.kind == .delete })
            let tombstone = try #require(
                changes.first { $0.objectID == book.objectID }?.tombstone)
            #expect(tombstone["slug"] as? String == "saved")
            #expect(tombstone["number"] as? UUID == number)
            #expect(tombstone["added"] as? Date == added)
            try app.close()
        }
    }

    /// A store that joins later has all of its history to be followed, and one that left is left out (deeje/CloudCore#5: “Store not
    /// found in token”).
    @Test func aTokenIsForTheStoresThatItNamesAndThoseThatJoin() async throws {
        try await withProgramFolder { folder in
            let first = try await Self.open(folder, as: "app", named: "First")
            let second = try await Self.open(folder, as: "app", named: "Second")
            try Self.insertBook("1", in: first.viewContext)
            try Self.insertBook("2", in: second.viewContext)
            let token = try #require(
                try first.persistentStoreCoordinator.currentPersistentHistoryToken())
            try second.close()
            var description = PersistentStoreDescription(
                url: folder.appendingPathComponent("Second.sqlite"))
            description.tracksHistory = true
            let store = try first.persistentStoreCoordinator.addPersistentStore(description)
            let context = first.newBackgroundContext()
            try await context.perform { context in
                let joined = try context.execute(.fetchHistory(after: token)).transactions
                #expect(joined.map(\.storeUUID) == [store.identity.uuid])
            }
            let both = try #require(
                try first.persistentStoreCoordinator.currentPersistentHistoryToken())
            #expect(both.transactionNumbers.count == 2)
            try first.persistentStoreCoordinator.remove(store)
            try Self.insertBook("3", in: first.viewContext)
            let left = try first.viewContext.execute(.fetchHistory(after: both)).transactions
            #expect(left.count == 1)
            #expect(left.first?.storeUUID != store.identity.uuid)
            try first.close()
        }
    }
}
