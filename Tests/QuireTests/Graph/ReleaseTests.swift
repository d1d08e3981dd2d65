import Dispatch
import QuireTestSupport
import Testing

@testable import Quire

/// Objects live as long as somebody holds them or they have changes, and rows as long as their objects.
@MainActor @Suite struct ReleaseTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    @Test(arguments: ContextArrangement.allCases)
    func readObjectsGoWithTheirLastHolder(arrangement: ContextArrangement) throws {
        try stack.fill(books: 50)
        let context = stack.context(arrangement)
        do {
            let books = try context.fetch(FetchRequest("Book"))
            let held = books.map { $0 }
            for book in held {
                _ = book.object("author")?.objects("books")
                _ = book.objects("tags")
            }
            #expect(context.identityMap.count >= 50)
        }
        #expect(context.identityMap.count == 0)
    }

    @Test(arguments: ContextArrangement.allCases)
    func savedObjectsGoWithTheirLastHolder(arrangement: ContextArrangement) throws {
        try stack.fill(books: 10)
        let context = stack.context(arrangement)
        do {
            let book = try #require(try context.fetch(FetchRequest("Book")).first)
            let author = try context.insertObject(entityName: "Author")
            author["name"] = "new"
            book["author"] = author
            book.objects("tags").forEach { context.delete($0) }
        }
        // The book, both authors, two tags, and the other books of these tags.
        #expect(context.identityMap.count >= 5)
        try stack.save(context)
        #expect(context.identityMap.count == 0)
        #expect(try stack.stored("Tag", "name").count == 3)
    }

    @Test func whatCanBeUndoneKeepsItsObjects() throws {
        try stack.fill(books: 2)
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        do { try context.fetch(FetchRequest("Book")).forEach { $0["title"] = "changed" } }
        try context.save()
        #expect(context.identityMap.count == 2)
        context.undoManager?.removeAllActions()
        #expect(context.identityMap.count == 0)
    }

    @Test func aPassOverManyObjectsInBatchesKeepsFew() throws {
        try stack.fill(books: 5000, authors: 0, tags: 0)
        let context = stack.mainContext()
        var request = FetchRequest("Book")
        request.fetchBatchSize = 100
        let books = try context.fetch(request)
        var count = 0
        for book in books {
            count += book["title", as: String.self]?.count ?? 0
            #expect(books.results.batchByteCount < 1 << 20)
            #expect(context.identityMap.count <= 2)
        }
        #expect(count > 5000)
        #expect(stack.coordinator.rowCache.byteCount <= 8 << 20)
    }

    @Test func insertingSavingAndResettingKeepsNothing() throws {
        let context = stack.mainContext()
        let results = try context.fetch(FetchRequest("Book"))
        for round in 0..<20 {
            for number in 0..<200 {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "b\(round * 200 + number)"
            }
            #expect(context.identityMap.count == 200)
            try context.save()
            #expect(context.identityMap.count == 0)
            context.reset()
            #expect(context.tracked.isEmpty)
        }
        #expect(results.isEmpty)
        #expect(try context.count(for: FetchRequest("Book")) == 4000)
    }

    /// Each task of a server has one.
    @Test func privateQueueContextGoesWithItsQueueAndMark() throws {
        weak var marker: QueueMarker?
        weak var queue: DispatchQueue?
        do {
            let context = QueueConfinedContext(coordinator: stack.coordinator)
            (marker, queue) = (context.marker, context.marker.queue)
            let count = try context.performAndWait { try $0.count(for: FetchRequest("Book")) }
            #expect(count == 0)
            #expect(context.performAndWait { _ in context.marker.isCurrent })
        }
        #expect(marker == nil)
        #expect(queue == nil)
    }
}
