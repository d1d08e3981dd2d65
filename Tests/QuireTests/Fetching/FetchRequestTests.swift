import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// What a request can say besides its condition.
@MainActor @Suite struct FetchRequestTests {
    @Test(arguments: ContextArrangement.allCases)
    func objectsIdentifiersAndCountsAgree(_ arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        try stack.fill(books: 5)
        let context = stack.context(arrangement)
        let new = try context.insertObject(entityName: "Book")
        new["title"] = "z"
        let request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        let objects = try context.fetch(request)
        #expect(objects.last === new)
        #expect(try context.fetchObjectIDs(request) == objects.map(\.objectID))
        #expect(try context.count(for: request) == 6)
    }

    @Test func storesThatAreNotAffectedAreNotAsked() throws {
        let stack = try TestStack()
        try stack.fill(books: 5)
        let context = stack.mainContext()
        _ = try context.insertObject(entityName: "Book")
        var request = FetchRequest("Book")
        request.affectedStores = [UUID().uuidString]
        #expect(try context.fetch(request).isEmpty)
        #expect(try context.count(for: request) == 0)
        #expect(try context.fetchObjectIDs(request).isEmpty)
        #expect(try context.fetchDictionaries(request).isEmpty)
        request.affectedStores = [stack.coordinator.store.identity.uuid]
        #expect(try context.count(for: request) == 6)
    }

    @Test(arguments: ContextArrangement.allCases)
    func objectsAreSortedByExpressions(_ arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        try stack.fill(books: 7, authors: 3)
        let context = stack.context(arrangement)
        var request = FetchRequest("Author")
        request.sortOrderings = [
            SortOrdering("books.@count"), SortOrdering("name", ascending: false),
        ]
        #expect(
            try context.fetch(request).map { $0["name", as: String.self] } == ["a2", "a1", "a0"])
        let authors = Array(try context.fetch(request))
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "x"
        book["author"] = authors[0]
        #expect(
            try context.fetch(request).map { $0["name", as: String.self] } == ["a1", "a2", "a0"])
        for title in ["y", "z"] {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["author"] = authors[1]
        }
        #expect(try context.fetch(request).last?["name", as: String.self] == "a1")
        try stack.save(context)
        #expect(try stack.mainContext().fetch(request).last?["name", as: String.self] == "a1")
        request.sortOrderings = [SortOrdering("length(name)"), SortOrdering("uppercase(name)")]
        #expect(try context.fetch(request).first?["name", as: String.self] == "a0")
    }

    @Test func ordersThatSQLCannotSayAreMadeInMemory() throws {
        let stack = try TestStack()
        try stack.fill(books: 10, authors: 2, tags: 5)
        let context = stack.mainContext()
        var request = FetchRequest("Book")
        request.sortOrderings = [SortOrdering("tags[FIRST].name"), SortOrdering("title")]
        request.fetchOffset = 1
        request.fetchLimit = 3
        #expect(try context.explain(request).sortsInMemory)
        #expect(
            try context.fetch(request).map { $0["title", as: String.self] } == ["b4", "b5", "b9"])
        #expect(try context.fetchObjectIDs(request) == context.fetch(request).map(\.objectID))
        request.fetchOffset = 0
        request.fetchLimit = 0
        let all = try context.fetch(request).map { $0["title", as: String.self] }
        #expect(all.count == 10 && all[1...3] == ["b4", "b5", "b9"])
    }

    @Test(arguments: ["books", "author.", "books.@count +", "books.@sum"])
    func ordersThatMakeNoSenseAreErrors(_ text: String) throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let error = #expect(throws: QuireError.self) {
            try context.fetch(FetchRequest("Author", sortOrderings: [SortOrdering(text)]))
        }
        #expect(error?.code != .storeUnavailable)
    }

    @Test(arguments: ContextArrangement.allCases)
    func refetchedObjectsAreRefreshedOnRequest(_ arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        try stack.fill(books: 2)
        let context = stack.context(arrangement)
        let byTitle = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        let books = Array(try context.fetch(byTitle))
        _ = books.map { $0["year"] }
        books[1]["isbn"] = "mine"
        let other = QueueConfinedContext(coordinator: stack.coordinator)
        try other.performAndWait { other in
            for book in try other.fetch(byTitle) { book["year"] = 2000 }
            try other.save()
        }
        _ = try context.fetch(byTitle)
        #expect(books.map { $0["year", as: AttributeValue.self] } == [0, 7])
        var request = byTitle
        request.shouldRefreshRefetchedObjects = true
        if arrangement == .nested { context.parent?.performAndWait { $0.refreshAllObjects() } }
        let found = try context.fetch(request)
        #expect(found.map { $0["year", as: AttributeValue.self] } == [2000, 2000])
        #expect(found[0] === books[0])
        #expect(books[1]["isbn", as: AttributeValue.self] == "mine")
    }

    @Test func explanationsShowStatementValuesAndPlan() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let explanation = try context.explain(
            FetchRequest(
                "Book", predicate: QueryPredicate(format: "author.name == 'x' AND year < 3")))
        #expect(explanation.sql.contains("WHERE t1.ZNAME = ? AND t0.ZYEAR < ?"))
        #expect(explanation.bindings == ["x", 3])
        #expect(explanation.inMemory == nil)
        #expect(!explanation.plan.isEmpty)
        #expect(explanation.plan.contains { $0.detail.contains("t0") })
    }
}
