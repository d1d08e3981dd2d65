import Quire
import QuireTestSupport
import Testing

@Suite struct QueueTests {
    @Test func performGivesValuesOut() async throws {
        let stack = try TestStack()
        let background = PrivateQueueContext(coordinator: stack.coordinator)
        let id = try await background.perform { context in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try context.save()
            return book.objectID
        }
        let title = try background.performAndWait { context in
            // Re-entrant: a block may call code that waits for the same queue.
            try background.performAndWait { _ in context.object(with: id).string("title") }
        }
        #expect(title == "Emma")
    }

    @Test func performPassesErrorsOn() async throws {
        let stack = try TestStack()
        let background = PrivateQueueContext(coordinator: stack.coordinator)
        await #expect(throws: QuireError.self) {
            try await background.perform { _ = try $0.insertObject(entityName: "Nothing") }
        }
        #expect(throws: QuireError.self) {
            try background.performAndWait { _ = try $0.insertObject(entityName: "Nothing") }
        }
    }

    @Test @MainActor func aMainQueueChildSeesItsParentsUnsavedChanges() async throws {
        let stack = try TestStack()
        let parent = PrivateQueueContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let book = try child.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try child.save()
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        let seen = try #require(try sibling.fetch(FetchRequest("Book")).first)
        #expect(seen.objectID == book.objectID)
        #expect(seen.string("title") == "Emma")
        try await parent.perform { try $0.save() }
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 1)
        // The version the parent has saved is the one the child's next change builds on.
        for year in 1...3 {
            book["year"] = .integer(Int64(year))
            try child.save()
            try await parent.perform { try $0.save() }
        }
        #expect(try stack.stored("Book", "year") == ["integer(3)"])
    }

    @Test func contextsOnManyQueuesSaveAtOnce() async throws {
        let stack = try TestStack()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    let context = PrivateQueueContext(coordinator: stack.coordinator)
                    for number in 0..<20 {
                        try await context.perform { context in
                            let book = try context.insertObject(entityName: "Book")
                            book["title"] = .string("\(worker)-\(number)")
                            try context.save()
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let context = PrivateQueueContext(coordinator: stack.coordinator)
        #expect(try context.performAndWait { try $0.count(for: FetchRequest("Book")) } == 160)
    }

    @Test func useOnTheWrongQueueStopsWithASentence() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            let stack = try TestStack()
            let background = PrivateQueueContext(coordinator: stack.coordinator)
            nonisolated(unsafe) var leaked: ManagedObjectContext?
            try background.performAndWait { leaked = $0 }
            _ = try leaked?.insertObject(entityName: "Book")
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("on another queue than its own"))
    }
}
