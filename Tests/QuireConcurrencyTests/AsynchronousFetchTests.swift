import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Requests that are carried out on another thread.
@MainActor @Suite struct AsynchronousFetchTests {
    @Test(arguments: ContextArrangement.allCases)
    func objectsArriveOnTheMainQueue(_ arrangement: ContextArrangement) async throws {
        let stack = try TestStack()
        try stack.fill(books: 600)
        let context = stack.context(arrangement)
        let new = try context.insertObject(entityName: "Book")
        new["title"] = "new"
        let progress = Progress(totalUnitCount: 0)
        let books = try await context.fetchAsynchronously(FetchRequest("Book"), progress: progress)
        #expect(books.count == 601)
        #expect(books.last === new)
        #expect(progress.completedUnitCount == 601 && progress.isFinished)
    }

    @Test(arguments: [0, 3], [true, false])
    func rowsAndBatchesShowUnsavedChanges(batchSize: Int, hasChanges: Bool) async throws {
        let stack = try TestStack()
        try stack.fill(books: 10)
        let context = stack.mainContext()
        if hasChanges { try context.insertObject(entityName: "Book")["title"] = "new" }
        var request = FetchRequest("Book")
        request.fetchBatchSize = batchSize
        let titles = try await context.fetchAsynchronously(request).map {
            $0["title", as: String.self]
        }
        #expect(titles.count == (hasChanges ? 11 : 10))
        #expect(titles.contains("new") == hasChanges)
    }

    @Test nonisolated func theCompletionIsCalledOnThePrivateQueue() async throws {
        let stack = try TestStack()
        try await stack.fill(books: 10)
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        let titles = await withCheckedContinuation { continuation in
            background.performAndWait { context in
                var request = AsynchronousFetchRequest(
                    fetchRequest: FetchRequest("Book", sortOrderings: [SortOrdering("title")])
                ) { result in
                    guard let books = result.finalResult else {
                        return continuation.resume(returning: [String]())
                    }
                    continuation.resume(returning: books.map { $0["title", as: String.self] ?? "" })
                }
                request.estimatedResultCount = 10
                #expect(context.execute(request).progress.totalUnitCount == 10)
            }
        }
        #expect(titles.count == 10)
        #expect(titles.first == "b0")
    }

    @Test func aRequestThatMakesNoSenseFailsInItsCompletion() async throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let code = await withCheckedContinuation { continuation in
            let request = AsynchronousFetchRequest(
                fetchRequest: FetchRequest("Book", sortOrderings: [SortOrdering("titel")])
            ) { continuation.resume(returning: $0.operationError?.code) }
            context.execute(request)
        }
        #expect(code == .unknownKey)
    }

    @Test func cancellingBeforeTheReadingBeginsFails() async throws {
        let stack = try TestStack()
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let code = await withCheckedContinuation { continuation in
            let request = AsynchronousFetchRequest(fetchRequest: FetchRequest("Book")) {
                continuation.resume(returning: $0.operationError?.code)
            }
            let result = context.execute(request)
            result.cancel()
            #expect(result.progress.isCancelled)
        }
        #expect(code == .cancelled)
        #expect(try context.count(for: FetchRequest("Book")) == 10)
    }

    @Test func cancellingInterruptsTheDatabase() throws {
        let stack = try TestStack()
        try stack.fill(books: 300)
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        let monitor = FetchMonitor { _ in }
        // Endless, for all that a test can wait.
        let endless = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n
            """
        let started = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            started.wait()
            monitor.cancel()
        }
        #expect {
            try store.connections.read(watchedBy: monitor) { connection in
                started.signal()
                return try connection.integer(endless)
            }
        } throws: {
            ($0 as? QuireError)?.code == .cancelled
        }
        // The connection is as good as before.
        #expect(try store.count(matching: FetchSpecification("Book")) == 300)
    }

    @Test func aCancelledTaskIsAnError() async throws {
        let stack = try TestStack()
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let task = Task { @MainActor in
            try await context.fetchAsynchronously(FetchRequest("Book")).count
        }
        task.cancel()
        await #expect { try await task.value } throws: {
            ($0 as? QuireError)?.code == .cancelled
        }
    }

    @Test func whatIsSavedMeanwhileIsFound() async throws {
        let stack = try TestStack()
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let fetch = try BackgroundFetch(FetchRequest("Book"), context: context) { _ in }
        let payload = try fetch.reading()
        let book = try #require(try context.fetch(FetchRequest("Book")).first)
        book["title"] = "changed"
        try context.insertObject(entityName: "Book")["title"] = "new"
        let found = try fetch.finish(payload)
        #expect(found.count == 11)
        #expect(found.first?["title", as: String.self] == "changed")
    }
}
