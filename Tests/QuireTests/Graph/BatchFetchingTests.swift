import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct BatchFetchingTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func request(
        _ size: Int, sort: String? = "title", predicate: String? = nil
    ) throws -> FetchRequest<ManagedObject> {
        var request = FetchRequest("Book")
        request.fetchBatchSize = size
        if let sort { request.sortOrderings = [SortOrdering(sort)] }
        request.predicate = try predicate.map { try QueryPredicate(format: $0) }
        return request
    }

    private func titles(_ request: FetchRequest<ManagedObject>, _ context: ManagedObjectContext)
        throws -> [String]
    {
        try context.fetch(request).map { $0["title", as: String.self] ?? "none" }
    }

    @Test(arguments: ContextArrangement.allCases)
    func findsWhatAFetchAtOnceFinds(arrangement: ContextArrangement) throws {
        try stack.fill(books: 103)
        for sort in ["title", "year", "author.name", nil] {
            for (limit, offset) in [(0, 0), (50, 0), (20, 95), (7, 31)] {
                let context = stack.context(arrangement)
                var batched = try request(10, sort: sort, predicate: "year > 100")
                batched.fetchLimit = limit
                batched.fetchOffset = offset
                var whole = batched
                whole.fetchBatchSize = 0
                #expect(try titles(batched, context) == titles(whole, stack.mainContext()))
                #expect(try context.fetch(batched).objectIDs == context.fetch(whole).objectIDs)
            }
        }
    }

    @Test func readsAsManyRowsAsTheBatchSizeSays() throws {
        try stack.fill(books: 100)
        let context = stack.mainContext()
        let (fetching, books) = try stack.statements { try context.fetch(try request(20)) }
        #expect(fetching == 1)
        #expect(books.count == 100)
        #expect(stack.statements { _ = books[50]["title", as: String.self] }.count == 1)
        #expect(
            stack.statements { for i in 40..<60 { _ = books[i]["title", as: String.self] } }.count
                == 0)
        #expect(
            stack.statements { for i in 0..<20 { _ = books[i]["title", as: String.self] } }.count
                == 1)
    }

    @Test func keepsFewBatches() throws {
        try stack.fill(books: 200)
        let books = try stack.mainContext().fetch(request(10))
        for book in books { #expect(!book.isFault) }
        #expect(books.results.batchCount == 4)
    }

    @Test func touchingAnObjectFillsFaultsOfItsBatch() throws {
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let books = try context.fetch(request(10, sort: nil))
        let last = context.object(with: books.objectIDs[9])
        #expect(last.isFault)
        _ = books[0]
        #expect(!last.isFault)
    }

    @Test(arguments: ContextArrangement.allCases)
    func unsavedChangesAreLaidOver(arrangement: ContextArrangement) throws {
        try stack.fill(books: 60)
        let context = stack.context(arrangement)
        let all = try context.fetch(request(0))
        let changed = all[5]
        changed["title"] = "b999"
        context.delete(all[7])
        let new = try context.insertObject(entityName: "Book")
        new["title"] = "b30a"
        for sort in ["title", "year", nil] {
            for (limit, offset) in [(0, 0), (10, 20), (5, 55)] {
                var batched = try request(8, sort: sort)
                batched.fetchLimit = limit
                batched.fetchOffset = offset
                var whole = batched
                whole.fetchBatchSize = 0
                #expect(try context.fetch(batched).objectIDs == context.fetch(whole).objectIDs)
                #expect(try titles(batched, context) == titles(whole, context))
            }
        }
        #expect(try context.fetch(request(8)).contains { $0 === new })
    }

    @Test func changesOfAParentAreLaidOver() throws {
        try stack.fill(books: 40)
        let context = stack.nestedContext()
        let book = try #require(try context.fetch(request(0)).first)
        book["title"] = "changed"
        context.delete(try context.fetch(request(0))[3])
        let new = try context.insertObject(entityName: "Book")
        new["title"] = "b15a"
        try context.save()
        let child = ManagedObjectContext.mainQueue(parent: try #require(context.parent))
        let found = try child.fetch(request(5))
        #expect(found.count == 40)
        #expect(try titles(request(5), child) == titles(request(0), child))
        #expect(try titles(request(5), child).contains("changed"))
        #expect(try titles(request(5), child).contains("b15a"))
    }

    @Test func aChangeOfARelatedObjectIsLaidOver() throws {
        try stack.fill(books: 20, authors: 2)
        let context = stack.mainContext()
        let author = try #require(
            try context.fetch(
                FetchRequest("Author", predicate: QueryPredicate(format: "name == 'a0'"))
            ).first)
        author["name"] = "z"
        let found = try context.fetch(request(6, predicate: "author.name == 'z'"))
        #expect(found.count == 10)
        #expect(found.allSatisfy { $0.object("author") === author })
    }

    @Test func anObjectWhoseRowVanishedIsInaccessible() throws {
        try stack.fill(books: 20)
        let context = stack.mainContext()
        let books = try context.fetch(request(5))
        let other = stack.mainContext()
        other.delete(other.object(with: books.objectIDs[12]))
        try other.save()
        #expect(books.count == 20)
        #expect(books[11]["title", as: String.self] != nil)
        #expect(books[12]["title", as: String.self] == nil)
        #expect(books[12].isInaccessible || books[12].isFault)
        #expect(context.lastFaultError?.code == .notFound)
    }

    @Test(arguments: [0, 4])
    func aNewObjectIsTheSameAfterASave(size: Int) throws {
        try stack.fill(books: 3)
        let context = stack.mainContext()
        var new: ManagedObject? = try context.insertObject(entityName: "Book")
        new?["title"] = "new"
        let books = try context.fetch(request(size))
        try context.save()
        let position = try #require(books.firstIndex { $0["title", as: String.self] == "new" })
        #expect(books[position] === new)
        let id = try #require(new?.objectID)
        #expect(books.objectIDs[position] == id)
        new = nil
        #expect(books[position].objectID == id)
    }

    @Test(arguments: [0, 4])
    func resultsShowWhatWasSavedSince(size: Int) throws {
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let books = try context.fetch(request(size, sort: nil))
        books[2]["title"] = "changed"
        context.delete(books[3])
        try context.save()
        #expect(books[2]["title", as: String.self] == "changed")
        #expect(books[3]["title", as: String.self] == nil)
        books[2]["title"] = "again"
        try context.save()
        #expect(try stack.stored("Book", "title").contains("string(\"again\")"))
    }

    @Test(arguments: [0, 4])
    func resultsShowNothingOfWhatWasRolledBack(size: Int) throws {
        try stack.fill(books: 5)
        let context = stack.mainContext()
        weak var released: ManagedObject?
        let books: FetchedObjects<ManagedObject>
        do {
            let book = try context.fetch(request(0, sort: nil))[1]
            book["title"] = "changed"
            released = book
            books = try context.fetch(request(size, sort: nil))
            _ = books[1]
        }
        context.rollback()
        #expect(released == nil)
        #expect(books[1]["title", as: String.self] == "b1")
    }

    @Test(arguments: [0, 4])
    func resultsOutliveAReset(size: Int) throws {
        try stack.fill(books: 5)
        let context = stack.mainContext()
        let books = try context.fetch(request(size, sort: nil))
        _ = books[1]
        context.reset()
        let other = stack.mainContext()
        other.object(with: books.objectIDs[1])["title"] = "changed"
        try other.save()
        #expect(books[1]["title", as: String.self] == "changed")
        #expect(books[1].managedObjectContext === context)
    }

    @Test func withoutValuesObjectsAreFaults() throws {
        try stack.fill(books: 10)
        var request = try request(0)
        request.includesPropertyValues = false
        let books = try stack.mainContext().fetch(request)
        let first = books[0]
        #expect(first.isFault)
        #expect(first["title", as: String.self] == "b0")
    }

    @Test(arguments: ContextArrangement.allCases)
    func faultsAreRealizedTogether(arrangement: ContextArrangement) throws {
        try stack.fill(books: 30)
        let ids = try stack.mainContext().fetch(FetchRequest("Book")).objectIDs
        let context = stack.context(arrangement)
        context.stalenessInterval = 0
        let books = ids.map { context.object(with: $0) }
        let people = try stack.mainContext().fetch(FetchRequest("Tag")).objectIDs
            .map { context.object(with: $0) }
        let count = try stack.statements { try context.realizeFaults(of: books + people) }.count
        #expect(count == 2)
        #expect(books.allSatisfy { !$0.isFault })
        #expect(try stack.statements { try context.realizeFaults(of: books) }.count == 0)
    }

    @Test func oneFaultOfARelationshipReadsItsNeighbours() throws {
        try stack.fill(books: 100, authors: 1)
        let context = stack.mainContext()
        context.stalenessInterval = 0
        let author = try #require(try context.fetch(FetchRequest("Author")).first)
        #expect(stack.statements { _ = author.objects("books") }.count == 1)
        let books = author.objects("books")
        #expect(books.allSatisfy { $0.isFault })
        let (count, titles) = stack.statements { books.map { $0["title", as: String.self] } }
        #expect(count == 1)
        #expect(titles == (0..<100).map { "b\($0)" })
    }

    @Test func keysAreAskedForTogether() throws {
        try stack.fill(books: 5000, authors: 0, tags: 0)
        let store = stack.coordinator.store
        let ids = try store.objectIDs(matching: FetchSpecification("Book")).map { $0 }
        for stride in [1, 2, 3, 7] {
            let some = Swift.stride(from: 0, to: ids.count, by: stride).map { ids[$0] }
            let (count, rows) = try stack.statements { try store.rows(for: some.reversed()) }
            #expect(Set(rows.indices.map(rows.objectID)) == Set(some))
            #expect(rows.count == some.count)
            #expect(count == 1)
        }
        #expect(try store.rows(for: []).isEmpty)
        #expect(try store.rows(for: [ids[0], ids[0]]).count == 1)
    }
}
