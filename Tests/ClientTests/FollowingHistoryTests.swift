import Foundation
import Quire
import Testing

/// A list that follows what another program saves to its store, by the store's history, and leaves out its own saves.
@Suite @MainActor struct FollowingHistoryTests {
    /// An app, or an extension of it, with the store open.
    @MainActor private final class Program {
        let container: PersistentContainer
        private let tokenURL: URL

        init(author: String, in folder: URL) throws {
            var description = PersistentStoreDescription(
                url: folder.appendingPathComponent("Posts.sqlite"))
            description.tracksHistory = true
            description.postsRemoteChanges = true
            let model = ManagedObjectModel {
                Entity("Post") {
                    Attribute("title", .string)
                    Attribute("slug", .string).preservedInHistoryOnDeletion()
                }
            }
            container = try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description])
            container.viewContext.transactionAuthor = author
            tokenURL = folder.appendingPathComponent("\(author).token")
        }

        private var lastToken: PersistentHistoryToken? {
            get throws {
                guard FileManager.default.fileExists(atPath: tokenURL.path) else { return nil }
                return try JSONDecoder().decode(
                    PersistentHistoryToken.self, from: Data(contentsOf: tokenURL))
            }
        }

        /// Merges what others have saved since the last time. Returns it as text.
        func mergeHistory() throws -> [String] {
            let context = container.viewContext
            var lines: [String] = []
            let request = PersistentHistoryChangeRequest.fetchHistory(after: try lastToken)
            for transaction in try context.execute(request).transactions {
                if transaction.author != context.transactionAuthor {
                    context.mergeChanges(from: transaction.objectIDChanges)
                    for change in transaction.changes {
                        let details =
                            change.tombstone?["slug"] as? String
                            ?? change.updatedProperties?.joined(separator: ",") ?? ""
                        lines.append("\(transaction.author ?? "?") \(change.kind) \(details)")
                    }
                }
                try JSONEncoder().encode(transaction.token).write(to: tokenURL)
            }
            return lines
        }
    }

    @Test func anAppMergesWhatItsExtensionHasSaved() async throws {
        try await withProgramFolder { folder in
            let app = try Program(author: "app", in: folder)
            let sharing = try Program(author: "extension", in: folder)
            let post = try app.container.viewContext.insertObject(entityName: "Post")
            post["title"] = "First"
            try app.container.viewContext.save()
            #expect(try sharing.mergeHistory() == ["app insert "])

            let context = sharing.container.viewContext
            let same = try #require(try context.fetch(FetchRequest("Post")).first)
            same["title"] = "Changed"
            let other = try context.insertObject(entityName: "Post")
            other["slug"] = "second"
            try context.save()
            #expect(post["title"] as? String == "First")
            #expect(
                try app.mergeHistory().sorted() == ["extension insert ", "extension update title"])
            #expect(post["title"] as? String == "Changed")

            context.delete(other)
            try context.save()
            #expect(try app.mergeHistory() == ["extension delete second"])
            #expect(try app.mergeHistory().isEmpty)
            #expect(try app.container.viewContext.count(for: FetchRequest("Post")) == 1)
            try app.container.close()
            try sharing.container.close()
        }
    }

    /// “Making Apps with Core Data” (2019): a remote change is met by the history since the last token, filtered by author, and
    /// merged into the view context.
    @Test func aRemoteChangeIsMetByMergingTheHistorySinceTheLastToken() async throws {
        try await withProgramFolder { folder in
            let app = try Program(author: "app", in: folder)
            let sharing = try Program(author: "extension", in: folder)
            let posts = FetchedResultsController(
                fetchRequest: FetchRequest<ManagedObject>(
                    "Post", sortOrderings: [SortOrdering("title")]),
                managedObjectContext: app.container.viewContext)
            try posts.performFetch()

            let (merged, continuation) = AsyncStream.makeStream(of: [String].self)
            let observer = NotificationCenter.default.addObserver(
                forName: PersistentStoreCoordinator.remoteChangeNotification,
                object: app.container.persistentStoreCoordinator, queue: nil
            ) { _ in
                Task { @MainActor in continuation.yield((try? app.mergeHistory()) ?? ["failed"]) }
            }
            defer { NotificationCenter.default.removeObserver(observer) }

            let own = try app.container.viewContext.insertObject(entityName: "Post")
            own["title"] = "Mine"
            try app.container.viewContext.save()
            let post = try sharing.container.viewContext.insertObject(entityName: "Post")
            post["title"] = "Shared"
            try sharing.container.viewContext.save()

            var lines = merged.makeAsyncIterator()
            #expect(await lines.next() == ["extension insert "])
            #expect(posts.fetchedObjects?.map { $0["title"] as? String } == ["Mine", "Shared"])
            try app.container.close()
            try sharing.container.close()
        }
    }
}
