import QuireTestSupport
import Testing

@testable import Quire

/// Results whose order or condition is about derived attributes.
@MainActor @Suite struct DerivedResultsTests {
    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack(DerivedWorld.model)
        context = stack.mainContext()
    }

    private func controller(_ request: FetchRequest<ManagedObject>) throws
        -> FetchedResultsController<ManagedObject>
    {
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context)
        try controller.performFetch()
        return controller
    }

    @Test func aSumIsFollowedWhereItsValuesChange() throws {
        let authors = try ["a", "b"].map {
            let author = try context.insertObject(entityName: "Author")
            author["name"] = $0
            return author
        }
        let books = try authors.map {
            let book = try context.insertObject(entityName: "Book")
            book["pages"] = 1
            book["author"] = $0
            return book
        }
        let controller = try controller(
            FetchRequest("Author", sortOrderings: [SortOrdering("pages"), SortOrdering("name")]))
        func names() -> [String?]? {
            controller.fetchedObjects?.map { $0["name", as: String.self] }
        }
        #expect(names() == ["a", "b"])
        books[0]["pages"] = 2
        context.processPendingChanges()
        #expect(names() == ["b", "a"])
        try context.save()
        #expect(names() == ["b", "a"])
        books[0]["author"] = authors[1]
        context.processPendingChanges()
        #expect(names() == ["a", "b"])
        context.rollback()
        #expect(names() == ["b", "a"])
    }

    @Test func aCopyBeyondARelationshipIsFollowed() throws {
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "a"
        let book = try context.insertObject(entityName: "Book")
        book["author"] = author
        try context.save()
        let controller = try controller(
            FetchRequest(
                "Book", predicate: try QueryPredicate(format: "authorName == 'b'"),
                sortOrderings: [SortOrdering("title")]))
        #expect(controller.fetchedObjects?.count == 0)
        author["name"] = "b"
        context.processPendingChanges()
        #expect(controller.fetchedObjects?.count == 1)
    }
}
