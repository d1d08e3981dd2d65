import QuireTestSupport
import Synchronization
import Testing

@testable import Quire

/// Counting objects in a context that has unsaved changes.
@MainActor @Suite struct CountTests {
    let stack: TestStack

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 600, authors: 3, tags: 3)
    }

    /// Whether rows are read.
    private final class Reports: Sendable {
        private let total = Atomic(0)
        var count: Int { total.load(ordering: .relaxed) }

        func add(_ rows: Int) { total.wrappingAdd(rows, ordering: .relaxed) }
    }

    private func count(
        _ entity: String, _ format: String? = nil, in context: ManagedObjectContext,
        _ adjust: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
    ) throws -> (Int, hasReadRows: Bool) {
        let reports = Reports()
        var request = FetchRequest(entity)
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        adjust(&request)
        // Reports come every 256 rows.
        request.monitor = FetchMonitor { reports.add($0) }
        return (try context.count(for: request), reports.count > 0)
    }

    @Test(arguments: ContextArrangement.allCases)
    func unsavedObjectsOfOtherEntitiesReadNoRows(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        _ = try context.insertObject(entityName: "Shelf")
        #expect(try count("Book", in: context) == (600, false))
        #expect(try count("Book", "author.name == 'a0'", in: context) == (200, false))
    }

    @Test(arguments: ContextArrangement.allCases)
    func unsavedObjectsAreCountedWithoutReadingTheRest(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let stored = try #require(
            try context.fetch(
                FetchRequest("Book", predicate: QueryPredicate(format: "title == 'b1'"))
            ).first)
        let gone = try #require(
            try context.fetch(
                FetchRequest("Book", predicate: QueryPredicate(format: "title == 'b2'"))
            ).first)
        stored["title"] = "x"
        context.delete(gone)
        let new = try context.insertObject(entityName: "Book")
        new["title"] = "x"
        #expect(try count("Book", in: context) == (600, false))
        #expect(try count("Book", "title BEGINSWITH 'b'", in: context) == (598, false))
        #expect(try count("Book", "title == 'x'", in: context) == (2, false))
        #expect(try count("Book", "title != 'x'", in: context) == (598, false))
        #expect(
            try count("Book", in: context) {
                $0.fetchOffset = 550
                $0.fetchLimit = 100
            } == (50, false))
        #expect(try count("Book", in: context) { $0.fetchLimit = 10 } == (10, false))
        #expect(try count("Book", in: context) { $0.includesPendingChanges = false }.0 == 600)
        // The order of what is counted makes no difference, whatever it looks at.
        #expect(
            try count("Book", in: context) {
                $0.sortOrderings = [SortOrdering("author.name")]
            } == (600, false))
        #expect(throws: QuireError.self) {
            try count("Book", in: context) { $0.sortOrderings = [SortOrdering("nothing")] }
        }
        try stack.save(context)
        #expect(try count("Book", "title == 'x'", in: context) == (2, false))
    }

    @Test func manyUnsavedObjectsAreCounted() throws {
        let context = stack.mainContext()
        for (number, book) in Array(try context.fetch(FetchRequest("Book"))).enumerated()
        where number.isMultiple(of: 2) {
            book["title"] = "x"
        }
        // Of so many, the identifiers are read instead of being named.
        #expect(try count("Book", "title == 'x'", in: context).0 == 300)
        #expect(try count("Book", "title != 'x'", in: context).0 == 300)
        #expect(try count("Book", in: context).0 == 600)
    }

    @Test func unsavedObjectsThatAConditionLooksAtDecide() throws {
        let context = stack.mainContext()
        let author = try #require(
            try context.fetch(
                FetchRequest("Author", predicate: QueryPredicate(format: "name == 'a0'"))
            ).first)
        author["name"] = "z"
        #expect(try count("Book", "author.name == 'z'", in: context).0 == 200)
        #expect(try count("Book", "author.name == 'a1'", in: context).0 == 200)
        #expect(try count("Book", "title == 'b1'", in: context) == (1, false))
    }
}
