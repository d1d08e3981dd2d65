import Dispatch
import Foundation
import Quire
import QuireTestSupport
import Testing

@Suite struct QueueTests {
    @Test func performGivesValuesOut() async throws {
        let stack = try TestStack()
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        let id = try await background.perform { context in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try context.save()
            return book.objectID
        }
        let title = background.performAndWait { context in
            // Re-entrant: a block may call code that waits for the same queue.
            background.performAndWait { _ in context.object(with: id)["title", as: String.self] }
        }
        #expect(title == "Emma")
    }

    @Test func performPassesErrorsOn() async throws {
        let stack = try TestStack()
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        await #expect(throws: QuireError.self) {
            try await background.perform { _ = try $0.insertObject(entityName: "Nothing") }
        }
        #expect(throws: QuireError.self) {
            try background.performAndWait { _ = try $0.insertObject(entityName: "Nothing") }
        }
    }

    /// Only optimized code used to stay on the context's queue.
    @Test @MainActor func anErrorOfAnotherQueueIsThrownOnTheCallersQueue() async throws {
        struct Failure: Error {}
        let stack = try TestStack()
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        for schedule in [QueueConfinedContext.ScheduledTaskType.immediate, .enqueued] {
            do {
                try await background.perform(schedule: schedule) { _ throws -> Void in
                    throw Failure()
                }
            } catch {
                MainActor.preconditionIsolated()
                _ = try stack.mainContext().insertObject(entityName: "Book")
            }
        }
        do {
            try await background.performWithoutObjects { _ throws -> Void in throw Failure() }
        } catch {
            MainActor.preconditionIsolated()
        }
    }

    @Test @MainActor func aMainQueueChildSeesItsParentsUnsavedChanges() async throws {
        let stack = try TestStack()
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let book = try child.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try child.save()
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        let seen = try #require(try sibling.fetch(FetchRequest("Book")).first)
        #expect(seen.objectID == book.objectID)
        #expect(seen["title", as: String.self] == "Emma")
        try await parent.perform { try $0.save() }
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 1)
        // The version the parent has saved is the one the child's next change builds on.
        for year in 1...3 {
            book["year"] = Int64(year)
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
                    let context = QueueConfinedContext(coordinator: stack.coordinator)
                    for number in 0..<20 {
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
        let context = QueueConfinedContext(coordinator: stack.coordinator)
        #expect(try context.performAndWait { try $0.count(for: FetchRequest("Book")) } == 160)
    }

    @Test func valuesComeOutWithoutTryIfNothingThrows() async throws {
        let stack = try TestStack()
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        let changed = await background.perform { $0.hasChanges }
        #expect(!changed)
        #expect(background.performAndWait { $0.insertedObjects.count } == 0)
        let container = await PersistentContainer(store: stack.coordinator.store)
        #expect(await container.performBackgroundTask { $0.hasChanges } == false)
    }

    @Test @MainActor func mainQueueContextsAreReachedFromAnywhere() async throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let handle = QueueConfinedContext(context)
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        let id = try await Task.detached {
            try await handle.perform { context in
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "Emma"
                try context.save()
                return book.objectID
            }
        }.value
        let title = await background.perform { _ in
            handle.performAndWait { $0.object(with: id)["title", as: String.self] }
        }
        #expect(title == "Emma")
        // On the queue already: at once, or in turn.
        var order: [String] = []
        let later = Task { @MainActor in
            await handle.perform(schedule: .enqueued) { _ in }
            return "enqueued"
        }
        await handle.perform { _ in }
        order.append("immediate")
        order.append(await later.value)
        #expect(order == ["immediate", "enqueued"])
    }

    @Test @MainActor func aUserEventEndsWithItsBlock() async throws {
        let stack = try TestStack()
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        await background.perform { $0.undoManager = UndoManager() }
        let id = try await background.perform { context in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            return book.objectID
        }
        background.performAndWait { $0.object(with: id)["title"] = "Emma!" }
        await background.perform { $0.undo() }
        #expect(
            background.performAndWait { $0.object(with: id)["title", as: String.self] } == "Emma")
    }

    @Test @MainActor func aWaitingQueueIsThereForWhatItWaitsFor() throws {
        let stack = try TestStack()
        let view = stack.mainContext()
        let book = try view.insertObject(entityName: "Book")
        book["title"] = "Emma"
        let child = QueueConfinedContext(parent: view)
        let grandchild = QueueConfinedContext(parent: child)
        // The main queue waits for a grandchild, which reads from and saves to the main queue's context.
        try grandchild.performAndWait { context in
            let copy = try #require(try context.fetch(FetchRequest("Book")).first)
            copy["title"] = "Emma!"
            try context.save()
            try context.parent?.performAndWait { try $0.save() }
        }
        #expect(book["title", as: String.self] == "Emma!")
    }

    @Test func savingWhileOthersRead() async throws {
        let stack = try TestStack()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let writer = QueueConfinedContext(coordinator: stack.coordinator)
                for _ in 0..<20 {
                    try await writer.perform { context in
                        // Two at a time: nobody may see one without the other.
                        for _ in 0..<2 {
                            let book = try context.insertObject(entityName: "Book")
                            book["title"] = "t"
                        }
                        try context.save()
                    }
                }
            }
            for _ in 0..<3 {
                group.addTask {
                    let reader = QueueConfinedContext(coordinator: stack.coordinator)
                    for _ in 0..<30 {
                        let (count, titles) = try await reader.perform { context in
                            let books = try context.fetch(FetchRequest("Book"))
                            return (
                                books.count,
                                books.filter { $0["title", as: String.self] == "t" }.count
                            )
                        }
                        #expect(count.isMultiple(of: 2))
                        #expect(count == titles)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// What is done on the wrong queue, by name.
    enum Misuse: String, CaseIterable, Codable {
        case insert, fetch, hasChanges, undo, registered, read, readBySlot, relationship, write
        case fault, flags, delete, fetchedObjects

        /// Whether the message names the object.
        var isOfObject: Bool {
            switch self {
            case .read, .readBySlot, .relationship, .write, .fault, .flags, .delete: true
            default: false
            }
        }
    }

    @Test(arguments: Misuse.allCases)
    func useOnTheWrongQueueStopsWithASentence(misuse: Misuse) async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) { [misuse] in
            let stack = try TestStack()
            let background = QueueConfinedContext(coordinator: stack.coordinator)
            nonisolated(unsafe) var leaked: ManagedObjectContext?
            nonisolated(unsafe) var object: ManagedObject?
            nonisolated(unsafe) var found: FetchedObjects<ManagedObject>?
            try background.performAndWait { context in
                leaked = context
                context.name = "import"
                object = try context.insertObject(entityName: "Book")
                object?["title"] = "Emma"
                try context.save()
                if misuse == .fault { context.refreshAllObjects() }
                found = try context.fetch(FetchRequest("Book"))
            }
            let book = try #require(object)
            switch misuse {
            case .insert: _ = try leaked?.insertObject(entityName: "Book")
            case .fetch: _ = try leaked?.fetch(FetchRequest("Book"))
            case .hasChanges: _ = leaked?.hasChanges
            case .undo: leaked?.undo()
            case .registered: _ = leaked?.registeredObjects
            case .read: _ = book["title"]
            case .readBySlot: _ = book.string(at: book.resolvedEntity.slot(named: "title") ?? 0)
            case .relationship: _ = book.objects("tags")
            case .write: book["title"] = "x"
            case .fault: _ = book["title", as: String.self]
            case .flags: _ = book.isUpdated
            case .delete: leaked?.delete(book)
            case .fetchedObjects: _ = found?.first
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(
            text.contains(
                misuse.isOfObject
                    ? "Book/p1 of the managed object context “import” was used on the wrong queue"
                    : "The managed object context “import” was used on the wrong queue"),
            "\(text.prefix(400))")
        #expect(
            text.contains("it belongs to a private queue, but was used outside all contexts'"))
    }

    @Test func theMessageSaysWhichQueuesWereInvolved() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            let stack = try TestStack()
            nonisolated(unsafe) var view: ManagedObjectContext?
            await MainActor.run { view = stack.mainContext() }
            QueueConfinedContext(coordinator: stack.coordinator).performAndWait { _ in
                _ = view?.hasChanges
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(
            text.contains(
                "it belongs to the main queue, but was used on the queue of another context"),
            "\(text.prefix(400))")
    }

    @Test func aBreachWhileTheQueueIsBusyIsSaid() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            let stack = try TestStack()
            QueueConfinedContext(coordinator: stack.coordinator).performAndWait { context in
                nonisolated(unsafe) let context = context
                Thread.detachNewThread { _ = context.hasChanges }
                // Until the other thread has ended the process.
                DispatchSemaphore(value: 0).wait()
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(
            text.contains("Its queue was running a block at that moment."), "\(text.prefix(400))")
    }
}
