import Foundation
import Quire
import Testing

/// The code of the article “Changes by other processes”.
@MainActor @Suite struct ChangesByOthersTests {
    private static let model = ManagedObjectModel {
        Entity("Book") { Attribute("title", .string) }
    }

    @Test func aContextThatMergesAutomaticallyNeedsNothingMore() async throws {
        try await withProgramFolder { folder in
            let (path, model) = (folder.appendingPathComponent("Books.sqlite").path, Self.model)
            // snippet: changes-by-others-1
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = true
            description.postsRemoteChanges = true
            let container = try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description])
            container.viewContext.transactionAuthor = "app"
            container.viewContext.automaticallyMergesChangesFromParent = true
            // end
            let book = try container.viewContext.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try container.viewContext.save()
            var merges = container.viewContext.changes.makeAsyncIterator()
            try rename(to: "Persuasion", at: path)
            while book["title"] as? String == "Emma" { _ = await merges.next() }
            #expect(book["title"] as? String == "Persuasion")
            try container.close()
        }
    }

    @Test func aContextLooksAndReadsOneState() async throws {
        try await withProgramFolder { folder in
            let path = folder.appendingPathComponent("Books.sqlite").path
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = true
            description.postsRemoteChanges = true
            let container = try PersistentContainer(
                managedObjectModel: Self.model, persistentStoreDescriptions: [description])
            let context = container.viewContext
            context.transactionAuthor = "app"
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try context.save()
            let coordinator = container.persistentStoreCoordinator
            var lastToken = try coordinator.currentPersistentHistoryToken()
            let following = Task {
                // snippet: changes-by-others-2
                for await _ in coordinator.remoteChanges {
                    let request = PersistentHistoryChangeRequest.fetchHistory(after: lastToken)
                    for transaction in try context.execute(request).transactions {
                        if transaction.author != context.transactionAuthor {
                            context.mergeChanges(from: transaction.objectIDChanges)
                        }
                        lastToken = transaction.token
                    }
                }
                // end
            }
            var merges = context.changes.makeAsyncIterator()
            await Task.yield()
            try rename(to: "Persuasion", at: path)
            while book["title"] as? String == "Emma" { _ = await merges.next() }
            following.cancel()

            // snippet: changes-by-others-3
            try context.execute(.deleteHistory(before: lastToken))
            // end
            #expect(try context.execute(.fetchHistory(after: nil)).transactions.count == 1)

            // snippet: changes-by-others-4
            try context.setQueryGeneration(from: .current)
            let books = try context.fetch(FetchRequest<ManagedObject>("Book"))
            // end
            try rename(to: "Sanditon", at: path)
            #expect(books.map { $0["title"] as? String } == ["Persuasion"])
            let old = try QueryPredicate(format: "title == 'Persuasion'")
            #expect(try context.count(for: FetchRequest("Book", predicate: old)) == 1)
            try container.close()
        }
    }

    /// As another program does.
    private func rename(to title: String, at path: String) throws {
        let container = try PersistentContainer(
            managedObjectModel: Self.model,
            persistentStoreDescriptions: [PersistentStoreDescription(path: path)])
        for book in try container.viewContext.fetch(FetchRequest("Book")) { book["title"] = title }
        try container.viewContext.save()
        try container.close()
    }
}
