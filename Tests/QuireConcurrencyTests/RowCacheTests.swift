import Dispatch
import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct RowCacheTests {
    let stack: TestStack
    let id: ManagedObjectID

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 10)
        id = try stack.coordinator.objectID(for: "Book/p3")
    }

    private func secondCoordinator() throws -> PersistentStoreCoordinator {
        PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: stack.path, model: FixtureModels.library))
    }

    @Test(arguments: ContextArrangement.allCases)
    func aFaultThatFiresAgainDoesNotAskTheStore(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        #expect(stack.statements { context.object(with: id)["title", as: String.self] }.count == 1)
        let again = stack.statements { context.object(with: id)["title", as: String.self] }
        #expect(again.count == 0)
        #expect(again.result == "b2")
        let fresh = stack.mainContext()
        let elsewhere = stack.statements { fresh.object(with: id)["title", as: String.self] }
        #expect(elsewhere.count == 0)
        #expect(elsewhere.result == "b2")
    }

    @Test func theStalenessIntervalDecides() throws {
        let context = stack.mainContext()
        #expect(context.stalenessInterval < 0)
        _ = context.object(with: id)["title", as: String.self]
        context.stalenessInterval = 3600
        #expect(stack.statements { context.object(with: id)["title", as: String.self] }.count == 0)
        context.stalenessInterval = 1e-9
        #expect(stack.statements { context.object(with: id)["title", as: String.self] }.count == 1)
        context.stalenessInterval = 0
        #expect(stack.statements { context.object(with: id)["title", as: String.self] }.count == 1)
    }

    @Test func bulkFetchesAreNotKept() throws {
        _ = try stack.mainContext().fetch(FetchRequest("Book")).map { $0["title", as: String.self] }
        #expect(stack.coordinator.rowCache.count == 0)
    }

    @Test func aSaveForgetsWhatItWrites() throws {
        let (one, two) = (stack.mainContext(), stack.mainContext())
        _ = two.object(with: id)["title", as: String.self]
        one.object(with: id)["title"] = "changed"
        try one.save()
        #expect(two.object(with: id)["title", as: String.self] == "changed")
        one.delete(one.object(with: id))
        try one.save()
        #expect(two.object(with: id)["title", as: String.self] == nil)
    }

    @Test func anotherCoordinatorsSavesAreSeenAsDocumented() throws {
        let other = try secondCoordinator()
        defer { try? other.close() }
        let context = stack.mainContext()
        _ = context.object(with: id)["title", as: String.self]
        let writer = ManagedObjectContext.mainQueue(coordinator: other)
        writer.object(with: id)["title"] = "one"
        try writer.save()
        // Kept, of any age.
        #expect(context.object(with: id)["title", as: String.self] == "b2")
        // A fetch shows the new version, and the old one is forgotten.
        #expect(try context.fetch(FetchRequest("Book"))[2]["title", as: String.self] == "one")
        #expect(context.object(with: id)["title", as: String.self] == "one")
        writer.object(with: id)["title"] = "two"
        try writer.save()
        // A save of our own finds that others have saved.
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "new"
        try context.save()
        #expect(context.object(with: id)["title", as: String.self] == "two")
        writer.object(with: id)["title"] = "three"
        try writer.save()
        context.reset()
        #expect(context.object(with: id)["title", as: String.self] == "three")
        writer.object(with: id)["title"] = "four"
        try writer.save()
        context.stalenessInterval = 0
        #expect(context.object(with: id)["title", as: String.self] == "four")
    }

    @Test func aFetchOfASuperentityShowsWhatIsStale() throws {
        let context = stack.mainContext()
        let manager = try context.insertObject(entityName: "Manager")
        manager["name"] = "Ada"
        try context.save()
        let id = manager.objectID
        let reader = stack.mainContext()
        #expect(reader.object(with: id)["name", as: String.self] == "Ada")
        let other = try secondCoordinator()
        defer { try? other.close() }
        let writer = ManagedObjectContext.mainQueue(coordinator: other)
        writer.object(with: id)["name"] = "Grace"
        try writer.save()
        // Its rows are of another hierarchy.
        _ = try stack.mainContext().fetch(FetchRequest("Book"))
        let contexts = [stack.mainContext(), stack.mainContext()]
        #expect(contexts[0].object(with: id)["name", as: String.self] == "Ada")
        _ = try stack.mainContext().fetch(FetchRequest("Person"))
        #expect(contexts[1].object(with: id)["name", as: String.self] == "Grace")
    }

    @Test func afterAConflictTheNewRowIsRead() throws {
        let other = try secondCoordinator()
        defer { try? other.close() }
        let context = stack.mainContext()
        let book = context.object(with: id)
        book["title"] = "mine"
        let writer = ManagedObjectContext.mainQueue(coordinator: other)
        writer.object(with: id)["title"] = "theirs"
        try writer.save()
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .mergeConflict)
        let fresh = stack.mainContext()
        #expect(fresh.object(with: id)["title", as: String.self] == "theirs")
    }

    @Test func anObjectThatBecomesAFaultIsReadAnew() throws {
        let other = try secondCoordinator()
        defer { try? other.close() }
        let context = stack.mainContext()
        let book = context.object(with: id)
        _ = book["title", as: String.self]
        let writer = ManagedObjectContext.mainQueue(coordinator: other)
        writer.object(with: id)["title"] = "theirs"
        try writer.save()
        book.turnIntoFault()
        #expect(book["title", as: String.self] == "theirs")
    }

    @Test func aRowReadBeforeASaveIsRefusedAfterIt() throws {
        let cache = RowCache(maximumSize: 1 << 20)
        let rows = try stack.coordinator.store.rows(for: [id])
        let ticket = cache.ticket()
        var changes = ChangeSet()
        changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
        cache.remove(changes)
        cache.insert(rows, ticket)
        #expect(cache.count == 0)
        cache.insert(rows, cache.ticket())
        #expect(cache.count == 1)
    }

    @Test func theOldestRowsGo() throws {
        try stack.fill(books: 1000, authors: 0, tags: 0)
        let ids = try stack.coordinator.store.objectIDs(matching: FetchSpecification("Book")).map {
            $0
        }
        let cache = RowCache(maximumSize: 64 << 10)
        for round in 0..<3 {
            for id in ids {
                let rows = try stack.coordinator.store.rows(for: [id])
                cache.insert(rows, cache.ticket())
                #expect(cache.row(id.bits, maximumAge: -1)?.objectID == id, "\(round)")
            }
        }
        #expect(cache.count <= 128)
        #expect(cache.count >= 64)
        #expect(cache.row(ids[0].bits, maximumAge: -1) == nil)
    }

    @Test func contextsOnSeveralThreadsShareTheCache() async throws {
        let coordinator = stack.coordinator
        let ids = try coordinator.store.objectIDs(matching: FetchSpecification("Book")).map { $0 }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                let background = QueueConfinedContext(coordinator: coordinator)
                group.addTask {
                    for round in 0..<50 {
                        try await background.perform { context in
                            for id in ids {
                                let title = context.object(with: id)["title", as: String.self]
                                #expect(title?.hasPrefix("b") == true)
                            }
                            if worker == 0 {
                                context.object(with: ids[round % 10])["title"] = "b-\(round)"
                                try context.save()
                                context.reset()
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let fresh = stack.mainContext()
        #expect(fresh.object(with: ids[9])["title", as: String.self] == "b-49")
    }
}
