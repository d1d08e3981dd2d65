import Foundation
import Quire
import QuireTestSupport
import Testing

/// Fetches by class, with Foundation's predicates and sort descriptors.
@MainActor @Suite struct TypedFetchTests {
    private let stack: TestStack
    private let context: ManagedObjectContext

    init() throws {
        stack = try TestStack(try #require(TypedObjectTests.model))
        context = stack.mainContext()
        for (title, year) in [("Emma", 1815), ("Candide", 1759), ("Persuasion", 1817)] {
            let book = Book(context: context)
            book.title = title
            book.year = Int16(year)
        }
        try context.save()
        let unsaved = Book(context: context)
        unsaved.title = "Zadig"
        unsaved.year = 1747
    }

    private static let unsupported = SortDescriptor(\Book.label)

    @Test func aClassIsEnoughForAFetch() throws {
        let books: FetchedObjects<Book> = try context.fetch(Book.self)
        #expect(Set(books.map(\.title)) == ["Emma", "Candide", "Persuasion", "Zadig"])
        #expect(try context.count(for: Book.self) == 4)
        #expect(try context.fetch(Author.self).isEmpty)
    }

    @Test func aFetchIsAnArrayWhereOneIsAskedFor() throws {
        let request = Book.fetchRequest()
        let books: [Book] = try context.fetch(request)
        #expect(Set(books.map(\.title)) == ["Emma", "Candide", "Persuasion", "Zadig"])
        let sorted: [Book] = try context.fetch(Book.self, sortBy: [SortDescriptor(\.title)])
        #expect(sorted.map(\.title) == ["Candide", "Emma", "Persuasion", "Zadig"])
        let fetched = try context.fetch(request)
        #expect(type(of: fetched) == FetchedObjects<Book>.self)
    }

    @Test func aFetchTakesAPredicateAndSortDescriptors() throws {
        let early = try context.fetch(
            Book.self, where: #Predicate { $0.year < 1800 }, sortBy: [SortDescriptor(\.year)])
        #expect(early.map(\.title) == ["Zadig", "Candide"])
        #expect(try context.count(for: Book.self, where: #Predicate { $0.year < 1800 }) == 2)
        let all = try context.fetch(Book.self, sortBy: [SortDescriptor(\.title, order: .reverse)])
        #expect(all.map(\.title) == ["Zadig", "Persuasion", "Emma", "Candide"])
    }

    @Test func aRequestTakesThemToo() throws {
        var request = try FetchRequest<Book>(
            predicate: #Predicate { $0.year > 1750 }, sortBy: [SortDescriptor(\.year)])
        request.fetchLimit = 2
        #expect(try context.fetch(request).map(\.title) == ["Candide", "Emma"])
        request.sortDescriptors = [SortDescriptor(\.title, order: .reverse)]
        #expect(try context.fetch(request).map(\.title) == ["Persuasion", "Emma"])
        let format = FetchRequest<Book>(
            predicate: try QueryPredicate(format: "title BEGINSWITH 'E'"),
            sortBy: [SortDescriptor(\.title)])
        #expect(try context.count(for: format) == 1)
    }

    @Test func sortDescriptorsComeAfterSortOrderings() throws {
        Book(context: context).title = "Emma"
        var request = FetchRequest<Book>(sortBy: [SortDescriptor(\.year, order: .reverse)])
        request.sortOrderings = [SortOrdering(\Book.title)]
        request.fetchLimit = 3
        #expect(try context.fetch(request).map(\.year) == [1759, 1815, 1800])
        request.sortDescriptors = [SortDescriptor(\.year)]
        #expect(try context.fetch(request).map(\.year) == [1759, 1800, 1815])
    }

    @Test func controllersTakeSortDescriptors() throws {
        let controller = FetchedResultsController(
            fetchRequest: FetchRequest<Book>(sortBy: [SortDescriptor(\.year)]),
            managedObjectContext: context)
        try controller.performFetch()
        #expect(controller.fetchedObjects?.first?.title == "Zadig")
    }

    @Test func whatCannotBeTranslatedIsAnErrorOfTheFetch() throws {
        var request = Book.fetchRequest()
        request.sortDescriptors = [Self.unsupported]
        let failures: [(any Error)?] = [
            #expect(throws: QuireError.self) { try context.fetch(request) },
            #expect(throws: QuireError.self) { try context.count(for: request) },
            #expect(throws: QuireError.self) { try context.fetchObjectIDs(request) },
            #expect(throws: QuireError.self) {
                try context.fetch(Book.self, sortBy: [Self.unsupported])
            },
            #expect(throws: QuireError.self) { try BatchDeleteRequest(fetchRequest: request) },
            #expect(throws: QuireError.self) {
                try context.fetch(Book.self, where: #Predicate { $0.label == "x" })
            },
            #expect(throws: QuireError.self) {
                try FetchRequest<Book>(predicate: #Predicate { $0.label == "x" })
            },
        ]
        #expect(failures.allSatisfy { ($0 as? QuireError)?.code == .unsupported })
    }

    @Test func aBatchDeletionKeepsToTheOrderOfSortDescriptors() throws {
        try context.save()
        var request = FetchRequest<Book>(sortBy: [SortDescriptor(\.year)])
        request.fetchLimit = 2
        #expect(try context.execute(BatchDeleteRequest(fetchRequest: request)).count == 2)
        context.reset()
        #expect(
            try context.fetch(Book.self, sortBy: [SortDescriptor(\.year)]).map(\.title)
                == ["Emma", "Persuasion"])
    }

    @Test func aClassWithoutAnEntityIsAnError() throws {
        let error = #expect(throws: QuireError.self) { try context.fetch(Everything.self) }
        #expect(error?.code == .unknownEntity)
    }
}
