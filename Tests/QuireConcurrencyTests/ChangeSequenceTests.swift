import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ChangeSequenceTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test func everyConsumerGetsEveryChangeInOrder() async throws {
        let context = stack.mainContext()
        var first = context.changes.makeAsyncIterator()
        let emma = try book("Emma", context)
        let temporary = emma.objectID
        context.processPendingChanges()
        var second = context.changes.makeAsyncIterator()
        emma["year"] = 1
        context.processPendingChanges()
        context.delete(emma)
        context.processPendingChanges()
        #expect(await first.next() == ObjectIDChanges(inserted: [temporary]))
        let update = ObjectIDChanges(updated: [temporary])
        #expect(await first.next() == update)
        #expect(await second.next() == update)
        let deletion = ObjectIDChanges(deleted: [temporary])
        #expect(await first.next() == deletion)
        #expect(await second.next() == deletion)
    }

    @Test func savesHavePermanentIdentifiers() async throws {
        let context = stack.mainContext()
        var saves = context.saves.makeAsyncIterator()
        var stored = stack.coordinator.saves.makeAsyncIterator()
        let emma = try book("Emma", context)
        try context.save()
        #expect(await saves.next() == ObjectIDChanges(inserted: [emma.objectID]))
        #expect(await stored.next() == ObjectIDChanges(inserted: [emma.objectID]))
        emma["year"] = 1815
        try context.save()
        #expect(await saves.next() == ObjectIDChanges(updated: [emma.objectID]))
        #expect(await stored.next() == ObjectIDChanges(updated: [emma.objectID]))
    }

    @Test func theCoordinatorTellsOfWhatReachedTheStoreOnly() async throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        var stored = stack.coordinator.saves.makeAsyncIterator()
        var parentChanges = parent.changes.makeAsyncIterator()
        var parentSaves = parent.saves.makeAsyncIterator()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let emma = try book("Emma", child)
        try child.save()
        #expect(await parentChanges.next() == ObjectIDChanges(inserted: [emma.objectID]))
        _ = try child.insertObject(entityName: "Book")
        #expect(throws: QuireError.self) { try child.save() }
        child.rollback()
        try await parent.perform { try $0.save() }
        #expect(await stored.next() == ObjectIDChanges(inserted: [emma.objectID]))
        #expect(await parentSaves.next() == ObjectIDChanges(inserted: [emma.objectID]))
    }

    @Test func aConfinedContextIsFollowedFromElsewhere() async throws {
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        let changes = background.changes
        let saves = background.saves
        let writer = Task {
            for number in 0..<3 {
                try await background.perform { context in
                    let book = try context.insertObject(entityName: "Book")
                    book["title"] = "\(number)"
                }
            }
            try await background.perform { try $0.save() }
        }
        var inserted = 0
        for await change in changes {
            #expect(change.inserted.count == 1 && change.updated.isEmpty)
            inserted += 1
            if inserted == 3 { break }
        }
        var iterator = saves.makeAsyncIterator()
        let saved = try #require(await iterator.next())
        try await writer.value
        #expect(saved.inserted.count == 3)
        #expect(saved.inserted.allSatisfy { !$0.isTemporaryID })
    }

    @Test func aMergeIsAChangeOfTheContextThatMerges() async throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        try context.save()
        let id = emma.objectID
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        // Held there, so that there is something to refresh.
        await background.perform {
            $0.retainsRegisteredObjects = true
            _ = $0.object(with: id)["title", as: String.self]
        }
        var changes = background.changes.makeAsyncIterator()
        var handle = QueueConfinedContext(context).saves.makeAsyncIterator()
        emma["year"] = 1815
        try context.save()
        let saved = try #require(await handle.next())
        #expect(saved == ObjectIDChanges(updated: [id]))
        await background.perform { $0.mergeChanges(from: saved) }
        #expect(await changes.next() == ObjectIDChanges(refreshed: [id]))
    }

    @Test func aResetInvalidatesWhatWasThere() async throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        try context.save()
        var changes = context.changes.makeAsyncIterator()
        context.reset()
        #expect(await changes.next() == ObjectIDChanges(invalidated: [emma.objectID]))
    }

    @Test func aSequenceEndsWithItsContextAndDoesNotKeepIt() async throws {
        weak var weakContext: ManagedObjectContext?
        let changes: AsyncStream<ObjectIDChanges>
        do {
            let context = stack.mainContext()
            weakContext = context
            changes = context.changes
            _ = try book("Emma", context)
            context.processPendingChanges()
        }
        #expect(weakContext == nil)
        var count = 0
        for await _ in changes { count += 1 }
        #expect(count == 1)
    }

    @Test func aSequenceOfAHandleEndsWithIt() async throws {
        let changes = QueueConfinedContext(coordinator: stack.coordinator).changes
        for await _ in changes { Issue.record("nothing was changed") }
        let saves = {
            let container = PersistentContainer(store: stack.coordinator.store)
            return container.saves
        }()
        for await _ in saves { Issue.record("nothing was saved") }
    }

    @Test func aCancelledConsumerStopsWithoutOthers() async throws {
        let context = stack.mainContext()
        let changes = context.changes
        var other = context.changes.makeAsyncIterator()
        let task = Task {
            var count = 0
            for await _ in changes { count += 1 }
            return count
        }
        task.cancel()
        #expect(await task.value == 0)
        _ = try book("Emma", context)
        context.processPendingChanges()
        #expect(await other.next()?.inserted.count == 1)
    }

    @Test func savesOfManyContextsAllArrive() async throws {
        let saves = stack.coordinator.saves
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                let coordinator = stack.coordinator
                group.addTask {
                    let context = QueueConfinedContext(coordinator: coordinator)
                    for number in 0..<10 {
                        try await context.perform { context in
                            let book = try context.insertObject(entityName: "Book")
                            book["title"] = "\(worker)-\(number)"
                            try context.save()
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        var ids: Set<ManagedObjectID> = []
        var iterator = saves.makeAsyncIterator()
        while ids.count < 40, let save = await iterator.next() { ids.formUnion(save.inserted) }
        #expect(ids.count == 40)
    }
}
