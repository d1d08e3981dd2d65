import Dispatch
import Quire
import QuireTestSupport
import Testing

/// Many contexts at once. What it finds beside wrong values, it finds under the thread sanitizer: `make test-threads`.
@Suite struct ContextStressTests {
    @Test func writersReadersChildrenAndMergesAtOnce() async throws {
        let stack = try TestStack()
        let coordinator = stack.coordinator
        let seed = QueueConfinedContext(coordinator: coordinator)
        let authors = try await seed.perform { context in
            let authors = try (0..<4).map { number in
                let author = try context.insertObject(entityName: "Author")
                author["name"] = "\(number)"
                return author
            }
            try context.save()
            return authors.map(\.objectID)
        }
        let view = await MainActor.run { QueueConfinedContext(stack.mainContext()) }
        await view.perform { $0.automaticallyMergesChangesFromParent = true }
        let parent = QueueConfinedContext(coordinator: coordinator)
        await parent.perform { $0.automaticallyMergesChangesFromParent = true }
        let rounds = 12
        try await withThrowingTaskGroup(of: Void.self) { group in
            // Writers over the store add books to the same authors.
            for writer in 0..<2 {
                group.addTask {
                    let context = QueueConfinedContext(coordinator: coordinator)
                    for round in 0..<rounds {
                        try await context.perform { context in
                            let book = try context.insertObject(entityName: "Book")
                            book["title"] = "w\(writer) \(round)"
                            let author = context.object(with: authors[round % authors.count])
                            book["author"] = author
                            try context.save()
                        }
                    }
                }
            }
            // Children of one parent, one level and two levels below it, which follow each other.
            for child in 0..<3 {
                group.addTask {
                    let context =
                        child == 0
                        ? QueueConfinedContext(parent: QueueConfinedContext(parent: parent))
                        : QueueConfinedContext(parent: parent)
                    await context.perform { $0.automaticallyMergesChangesFromParent = true }
                    for round in 0..<rounds {
                        try await context.perform { context in
                            let book = try context.insertObject(entityName: "Book")
                            book["title"] = "c\(child) \(round)"
                            let author = context.object(with: authors[round % authors.count])
                            book["author"] = author
                            _ = author.objects("books").map { $0["title", as: String.self] }
                            try context.save()
                            try context.parent?.performAndWait { parent in
                                if parent.parent != nil { try parent.save() }
                            }
                        }
                    }
                }
            }
            // Scratch pads of the main queue's context, on private queues and discarded.
            group.addTask {
                for _ in 0..<rounds {
                    let pad = QueueConfinedContext(parent: view)
                    try await pad.perform { context in
                        for book in try context.fetch(FetchRequest("Book")) { book["year"] = 1 }
                        let book = try context.insertObject(entityName: "Book")
                        book["title"] = "given up"
                        _ = try context.count(for: FetchRequest("Book"))
                    }
                }
            }
            // The main queue reads all along.
            group.addTask {
                for _ in 0..<rounds {
                    try await view.perform { context in
                        for book in try context.fetch(FetchRequest("Book")) {
                            #expect(book["title", as: String.self] != nil)
                            #expect(book.object("author") != nil)
                        }
                        for author in authors {
                            for book in context.object(with: author).objects("books") {
                                _ = book["title", as: String.self]
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await parent.perform { try $0.save() }
        let total = 5 * rounds
        let fresh = QueueConfinedContext(coordinator: coordinator)
        let (count, related) = try await fresh.perform { context in
            (
                try context.count(for: FetchRequest("Book")),
                authors.map { context.object(with: $0).objectIDs("books").count }.reduce(0, +)
            )
        }
        #expect(count == total)
        #expect(related == total)
        // The main queue has merged all of it by now.
        await view.perform(schedule: .enqueued) { context in
            let seen = authors.map { context.object(with: $0).objectIDs("books").count }
            #expect(seen.reduce(0, +) == total)
            #expect(!context.hasChanges)
        }
    }

    @Test func contextsEndOnAnyQueueWhileWordIsOnItsWay() async throws {
        let stack = try TestStack()
        let coordinator = stack.coordinator
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    for round in 0..<10 {
                        let context = QueueConfinedContext(coordinator: coordinator)
                        let child = QueueConfinedContext(parent: context)
                        let view = await MainActor.run { QueueConfinedContext(stack.mainContext()) }
                        for listener in [context, child, view] {
                            await listener.perform { context in
                                context.automaticallyMergesChangesFromParent = true
                            }
                        }
                        try await child.perform { context in
                            let tag = try context.insertObject(entityName: "Tag")
                            tag["name"] = "\(number) \(round)"
                            try context.save()
                        }
                        try await context.perform { try $0.save() }
                    }
                }
            }
            try await group.waitForAll()
        }
        let fresh = QueueConfinedContext(coordinator: coordinator)
        #expect(try await fresh.perform { try $0.count(for: FetchRequest("Tag")) } == 40)
    }
}
