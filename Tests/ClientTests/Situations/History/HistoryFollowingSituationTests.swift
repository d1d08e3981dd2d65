import Foundation
import Quire
import Testing

/// Contexts that look at one state of a store while others change it, and batch requests that nobody's context has seen.
@MainActor @Suite struct HistoryFollowingSituationTests {
    private typealias Books = HistorySituationTests

    /// A list is scrolled while the background deletes what it has not loaded yet: faults of a pinned context are filled
    /// (cocoacasts.com, What Are Core Data Query Generations).
    @Test func faultsOfAPinnedContextAreFilledAfterOthersDeletedTheRows() async throws {
        try await withProgramFolder { folder in
            let app = try await Books.open(folder, as: "app")
            let context = app.viewContext
            let author = try context.insertObject(entityName: "Author")
            author["name"] = "Jane"
            for number in 0..<60 {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = String(format: "%02d", number)
                book["author"] = author
            }
            try context.save()
            context.reset()
            try context.setQueryGeneration(from: .current)
            var request = FetchRequest<ManagedObject>(
                "Book", sortOrderings: [SortOrdering("title")])
            request.fetchBatchSize = 10
            let list = try context.fetch(request)
            #expect(list[0]["title"] as? String == "00")
            try await app.performBackgroundTask { background in
                _ = try background.execute(BatchDeleteRequest(fetchRequest: FetchRequest("Book")))
                for author in try background.fetch(FetchRequest<ManagedObject>("Author")) {
                    background.delete(author)
                }
                try background.save()
            }
            #expect(list.count == 60)
            #expect(list[59]["title"] as? String == "59")
            let owner = try #require(list[30]["author"] as? ManagedObject)
            #expect(owner["name"] as? String == "Jane")
            #expect((owner["books"] as? Set<ManagedObject>)?.count == 60)
            try context.setQueryGeneration(from: nil)
            context.refreshAllObjects()
            #expect(try context.count(for: FetchRequest<ManagedObject>("Book")) == 0)
            try app.close()
        }
    }

    /// A pinned context that saves meets what others have saved since: a conflict, and not their loss
    /// (dduraz.com, Query Generations: the context moves to the store's state when it saves).
    @Test func aPinnedContextThatSavesMeetsTheChangesOfOthers() async throws {
        try await withProgramFolder { folder in
            let app = try await Books.open(folder, as: "app")
            let context = app.viewContext
            let book = try Books.insertBook("A", in: context)
            try context.setQueryGeneration(from: .current)
            #expect(try Books.titles(context) == ["A"])
            try await app.performBackgroundTask { background in
                for same in try background.fetch(FetchRequest<ManagedObject>("Book")) {
                    same["title"] = "Theirs"
                    same["slug"] = "theirs"
                }
                try background.save()
            }
            context.refresh(book, mergeChanges: false)
            #expect(book["title"] as? String == "A")
            book["title"] = "Mine"
            let error = try #require(throws: QuireError.self) { try context.save() }
            #expect(error.code == .mergeConflict)
            context.mergePolicy = .mergeByPropertyObjectTrump
            try context.save()
            context.refreshAllObjects()
            #expect(book["title"] as? String == "Mine")
            #expect(book["slug"] as? String == "theirs")
            try app.close()
        }
    }

    /// A generation kept from the last start, or of another coordinator, is an error to pin and not a crash
    /// (objcio/core-data#53: “Invalid generation token”).
    @Test func aGenerationOfAnotherCoordinatorIsAnError() async throws {
        try await withProgramFolder { folder in
            let first = try await Books.open(folder, as: "app")
            try Books.insertBook("A", in: first.viewContext)
            try first.viewContext.setQueryGeneration(from: .current)
            _ = try Books.titles(first.viewContext)
            let token = try #require(first.viewContext.queryGenerationToken)
            let second = try await Books.open(folder, as: "app")
            #expect(throws: QuireError.self) {
                try second.viewContext.setQueryGeneration(from: token)
            }
            try second.close()
            try first.close()
        }
    }

    /// Stores without generations, and children of contexts, read what is saved, as Apple's documentation says of theirs
    /// (“Accessing Data When the Store Has Changed”).
    @Test(arguments: [SituationStore.xml, .binary, .inMemory])
    func pinningAStoreWithoutGenerationsReadsWhatIsSaved(_ store: SituationStore) async throws {
        try await withSituation(store, Books.model) { container in
            let context = container.viewContext
            try context.setQueryGeneration(from: .current)
            let book = try Books.insertBook("A", in: context)
            let id = book.objectID
            try await container.performBackgroundTask { background in
                try background.existingObject(with: id)["title"] = "B"
                try background.save()
            }
            context.refreshAllObjects()
            #expect(book["title"] as? String == "B")
        }
    }

    /// Rows that a batch insert or update has made are shown after its result is merged, in the order asked for
    /// (onmyway133/blog#783: a batch operation posts no didSave and the view misses it).
    @Test func batchRequestsAreFollowedByTheirTransactions() async throws {
        try await withProgramFolder { folder in
            let app = try await Books.open(folder, as: "app")
            let context = app.viewContext
            let kept = try Books.insertBook("B", in: context)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            try await app.performBackgroundTask { background in
                background.transactionAuthor = "import"
                _ = try background.execute(
                    BatchInsertRequest(
                        entityName: "Book", objects: [["title": "A"], ["title": "C"]]))
                var update = BatchUpdateRequest(entityName: "Book")
                update.propertiesToUpdate = ["slug": "batch"]
                _ = try background.execute(update)
                let some = FetchRequest<ManagedObject>(
                    "Book", predicate: try QueryPredicate(format: "title == 'C'"))
                _ = try background.execute(BatchDeleteRequest(fetchRequest: some))
            }
            #expect(kept["slug"] as? String == nil)
            let found = try context.execute(.fetchHistory(after: token)).transactions
            #expect(
                found.map { $0.changes.map(\.kind) } == [
                    [.insert, .insert], [.update, .update, .update], [.delete],
                ])
            #expect(found.allSatisfy { $0.author == "import" })
            #expect(found[1].changes.allSatisfy { $0.updatedProperties == ["slug"] })
            for transaction in found { context.mergeChanges(from: transaction.objectIDChanges) }
            #expect(kept["slug"] as? String == "batch")
            #expect(try Books.titles(context) == ["A", "B"])
            try app.close()
        }
    }

    /// History is switched on for a store that has had none, and off again later: nothing is refused, and tokens stay true
    /// (mjtsai.com, Turning Off Core Data Persistent History Tracking: the store was read-only without a word).
    @Test func trackingMayBeSwitchedOnAndOff() async throws {
        try await withProgramFolder { folder in
            var app = try await Books.open(folder, as: "app", tracking: false)
            try Books.insertBook("Before", in: app.viewContext)
            #expect(try app.persistentStoreCoordinator.currentPersistentHistoryToken() == nil)
            let error = try #require(throws: QuireError.self) {
                try app.viewContext.execute(.fetchHistory(after: nil as PersistentHistoryToken?))
            }
            #expect(error.code == .unsupported)
            try app.close()
            app = try await Books.open(folder, as: "app", tracking: true)
            try Books.insertBook("During", in: app.viewContext)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            try app.close()
            app = try await Books.open(folder, as: "app", tracking: false)
            try Books.insertBook("After", in: app.viewContext)
            let found = try app.viewContext.execute(.fetchHistory(after: token)).transactions
            #expect(found.count == 1)
            #expect(try Books.titles(app.viewContext) == ["After", "Before", "During"])
            try app.close()
        }
    }

    /// A history that nobody reads grows for ever; deleting what is old keeps the rows, and a later token still works
    /// (p0deje/Maccy#1534, EricAndrechek/Pacer#44).
    @Test func historyThatIsDeletedAtLaunchLeavesTheRows() async throws {
        try await withProgramFolder { folder in
            var app = try await Books.open(folder, as: "app")
            let first = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            for number in 0..<50 { try Books.insertBook("\(number)", in: app.viewContext) }
            try app.close()
            app = try await Books.open(folder, as: "app")
            var all = PersistentHistoryChangeRequest.fetchHistory(
                after: nil as PersistentHistoryToken?)
            all.resultType = .count
            #expect(try app.viewContext.execute(all).count == 50)
            try app.viewContext.execute(
                .deleteHistory(before: nil as PersistentHistoryToken?))
            #expect(try app.viewContext.execute(all).count == 0)
            let error = try #require(throws: QuireError.self) {
                try app.viewContext.execute(.fetchHistory(after: first))
            }
            #expect(error.code == .historyTokenExpired)
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            try Books.insertBook("new", in: app.viewContext)
            #expect(
                try app.viewContext.execute(.fetchHistory(after: token)).transactions.count == 1)
            #expect(try Books.titles(app.viewContext).count == 51)
            try app.close()
        }
    }

    /// A child context's save is no transaction; its parent's is, once. Before that, in a new store, the history is empty, which is
    /// no error (deeje/CloudCore#5 uploads each transaction from the first launch on).
    @Test func savesOfChildrenAreOneTransactionOfTheirParent() async throws {
        try await withProgramFolder { folder in
            let app = try await Books.open(folder, as: "app")
            let token = try app.persistentStoreCoordinator.currentPersistentHistoryToken()
            let child = ManagedObjectContext.mainQueue(parent: app.viewContext)
            try Books.insertBook("A", in: child)
            try Books.insertBook("B", in: child)
            @MainActor func transactions() throws -> [PersistentHistoryTransaction] {
                try app.viewContext.execute(.fetchHistory(after: token)).transactions
            }
            #expect(token?.transactionNumbers.values.first == 0)
            #expect(try transactions().isEmpty)
            try app.viewContext.execute(.deleteHistory(before: Date()))
            try app.viewContext.save()
            #expect(try transactions().map(\.changes.count) == [2])
            #expect(try transactions().first?.author == "app")
            try app.close()
        }
    }

    /// Programs follow by date, by transaction, by token or by a predicate (avanderlee.com, Persistent History Tracking in Core
    /// Data, follows by date; later versions by token).
    @Test func followingByTransactionAndByDateAgree() async throws {
        try await withProgramFolder { folder in
            let app = try await Books.open(folder, as: "app")
            for title in ["A", "B", "C"] { try Books.insertBook(title, in: app.viewContext) }
            let all = try app.viewContext.execute(
                .fetchHistory(after: nil as PersistentHistoryToken?)
            ).transactions
            #expect(all.map(\.number) == [1, 2, 3])
            #expect(zip(all, all.dropFirst()).allSatisfy { $0.date <= $1.date })
            let byTransaction = try app.viewContext.execute(.fetchHistory(after: all[0]))
                .transactions
            let byToken = try app.viewContext.execute(.fetchHistory(after: all[0].token))
                .transactions
            #expect(byTransaction == Array(all.dropFirst()))
            #expect(byToken == byTransaction)
            var request = PersistentHistoryTransaction.fetchRequest
            request.predicate = try QueryPredicate(format: "token > %@", all[0].token)
            #expect(
                try app.viewContext.execute(.fetchHistory(matching: request)).transactions
                    == byToken)
            #expect(
                all.last?.token
                    == (try app.persistentStoreCoordinator.currentPersistentHistoryToken()))
            try app.close()
        }
    }
}
