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

    /// A delegate as programs for Core Data write one.
    private final class PortedList: FetchedResultsControllerDelegate {
        var changes: [String] = []

        func controller(
            _ controller: FetchedResultsController<Book>, didChange anObject: Any,
            at indexPath: IndexPath?, for type: FetchedResultsChangeType,
            newIndexPath: IndexPath?
        ) {
            changes.append("\(type) \((anObject as? Book)?.objectID.entityName ?? "–")")
        }
    }

    /// A delegate with a method of each form.
    private final class CountingList: FetchedResultsControllerDelegate {
        var calls: [String] = []

        func controllerWillChangeContent(_ controller: FetchedResultsController<Book>) {
            calls.append("will")
        }

        func controller(
            _ controller: FetchedResultsController<Book>,
            didChange sectionInfo: FetchedResultsSectionInfo<Book>,
            atSectionIndex sectionIndex: Int,
            for type: FetchedResultsChangeType
        ) {
            calls.append("\(type) section \(sectionInfo.name)")
        }

        func controller(
            _ controller: FetchedResultsController<Book>, didChange anObject: Book,
            at indexPath: IndexPath?, for type: FetchedResultsChangeType,
            newIndexPath: IndexPath?
        ) {
            calls.append("\(type) \(anObject.isDeleted ? "deleted" : anObject.title)")
        }

        func controller(
            _ controller: FetchedResultsController<Book>,
            didChangeContentWith snapshot: FetchedResultsSnapshot
        ) {
            calls.append("snapshot")
        }

        func controller(
            _ controller: FetchedResultsController<Book>,
            didChangeContentWith difference: CollectionDifference<ManagedObjectID>
        ) {
            calls.append("difference")
        }

        func controllerDidChangeContent(_ controller: FetchedResultsController<Book>) {
            calls.append("did")
        }
    }

    @Test func changedObjectsAreGivenAsCoreDataDoes() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<Book>(sortOrderings: [SortOrdering(\Book.title)]),
            managedObjectContext: context)
        let list = PortedList()
        controller.delegate = list
        try controller.performFetch()
        let book = Book(context: context)
        context.processPendingChanges()
        book.title = "Emma"
        context.processPendingChanges()
        context.delete(book)
        context.processPendingChanges()
        #expect(list.changes == ["insert Book", "update Book", "delete Book"])
    }

    @Test func everyMethodOfADelegateIsCalledInCoreDatasOrder() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<Book>(sortOrderings: [SortOrdering(\Book.title)]),
            managedObjectContext: context, sectionNameKeyPath: "title")
        let list = CountingList()
        try controller.performFetch()
        controller.delegate = list
        let book = Book(context: context)
        book.title = "Emma"
        context.processPendingChanges()
        #expect(
            list.calls == [
                "will", "insert section Emma", "insert Emma", "snapshot", "difference", "did",
            ])
        try context.save()
        list.calls = []
        context.delete(book)
        context.processPendingChanges()
        #expect(
            list.calls == [
                "will", "delete section Emma", "delete deleted", "snapshot", "difference", "did",
            ])
    }

    @Test func anObjectDeletedElsewhereIsAFault() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        Book(context: context).title = "Emma"
        try context.save()
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<Book>(sortOrderings: [SortOrdering(\Book.title)]),
            managedObjectContext: context)
        let list = PortedList()
        controller.delegate = list
        try controller.performFetch()
        let other = stack.mainContext()
        let found = try #require(try other.fetch(FetchRequest<Book>()).first)
        other.delete(found)
        try other.save()
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ObjectIDChanges(deleted: [found.objectID]), into: [context])
        #expect(list.changes == ["delete Book"])
    }

    @Test func orderedRelationshipsAreObservedByKeyPath() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let book = Book(context: context)
        var kinds: [RelationshipChange.Kind] = []
        let observation = book.observe(\.chapters) { kinds.append($0.kind) }
        book.chapters.append(Chapter(context: context))
        book.chapters = []
        #expect(kinds == [.insertion, .removal])
        #expect(observation.relationshipName == "chapters")
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
