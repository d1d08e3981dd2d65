import Foundation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct TypedResultsTests {
    /// A list that writes what it is told.
    private final class List: FetchedResultsControllerDelegate {
        var titles: [String] = []

        func controllerDidChangeContent(_ controller: FetchedResultsController<Book>) {
            titles = controller.fetchedObjects?.map(\.title) ?? []
        }
    }

    @Test func resultsHaveTheirClass() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<Book>(sortOrderings: [SortOrdering(\Book.title)]),
            managedObjectContext: context)
        let list = List()
        controller.delegate = list
        try controller.performFetch()
        let book = Book(context: context)
        book.title = "Emma"
        Book(context: context).title = "Candide"
        context.processPendingChanges()
        #expect(list.titles == ["Candide", "Emma"])
        #expect(controller.indexPath(forObject: book)?.item == 1)
        let first: Book = controller.object(at: IndexPath(item: 0, section: 0))
        #expect(first.title == "Candide")
    }

    @Test func anotherClassIsRefused() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let controller = FetchedResultsController<Author>(
            fetchRequest: FetchRequest(entityName: "Book", sortOrderings: [SortOrdering("title")]),
            managedObjectContext: stack.mainContext())
        let error = #expect(throws: QuireError.self) { try controller.performFetch() }
        #expect(error?.code == .invalidQuery)
    }
}
