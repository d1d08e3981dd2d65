import Foundation
import Quire
import QuireTestSupport
import Testing

/// Derived attributes are right after batch requests, which change rows without a change set.
@MainActor @Suite struct DerivedBatchTests {
    private func makeStack() throws -> (TestStack, [ManagedObjectID]) {
        let stack = try TestStack(DerivedWorld.model)
        let context = stack.mainContext()
        var request = BatchInsertRequest(
            entityName: "Author",
            objects: [["name": "Émile"], ["name": "straße"], ["name": "Ω"]])
        request.resultType = .objectIDs
        let authors = try context.execute(request).changes.inserted
        let books: [[String: AttributeValue]] = (0..<6).map { number in
            [
                "title": .string("Book \(number)"), "pages": .integer(Int64(number * 10)),
                "price": .decimal(Decimal(number) / 10), "stars": .double(0.5),
                "author": .objectID(authors[number % 2]),
            ]
        }
        _ = try context.execute(BatchInsertRequest(entityName: "Book", objects: books))
        return (stack, authors)
    }

    @Test func insertedRowsDerive() throws {
        let (stack, _) = try makeStack()
        try DerivedWorld.check(stack.mainContext())
        let author = try stack.mainContext().fetch(FetchRequest("Author"))[0]
        #expect(author["saved", as: AttributeValue.self] != .null)
    }

    @Test func updatedRowsDeriveAndSoDoThoseThatReferToThem() throws {
        let (stack, authors) = try makeStack()
        let context = stack.mainContext()
        let books = try context.fetch(FetchRequest("Book"))
        #expect(books.map { $0["authorUpper", as: String.self] }.contains("ÉMILE"))
        var request = BatchUpdateRequest(entityName: "Author")
        request.propertiesToUpdate = ["name": QueryExpression.function(.lowercase, [.key("name")])]
        request.resultType = .objectIDs
        let result = try context.execute(request)
        #expect(Set(result.changes.updated) == Set(authors))
        try DerivedWorld.check(stack.mainContext())
        var other = BatchUpdateRequest(entityName: "Author")
        other.propertiesToUpdate = ["name": "zoë"]
        other.resultType = .objectIDs
        let changes = try context.execute(other).changes
        #expect(changes.refreshed.count == books.count)
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: changes, into: [QueueConfinedContext(context)])
        #expect(Set(books.map { $0["authorUpper", as: String.self] }) == ["ZOË"])
        try DerivedWorld.check(context)
    }

    @Test func deletedRowsCountNoMore() throws {
        let (stack, _) = try makeStack()
        let context = stack.mainContext()
        let author = try context.fetch(FetchRequest("Author"))[0]
        #expect(author["bookCount", as: Int64.self] == 3)
        let fetch = FetchRequest(
            "Book", predicate: try QueryPredicate(format: "pages IN {0, 20, 30}"))
        var request = try BatchDeleteRequest(fetchRequest: fetch)
        request.resultType = .objectIDs
        let changes = try context.execute(request).changes
        #expect(changes.deleted.count == 3)
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: changes, into: [QueueConfinedContext(context)])
        #expect(author["bookCount", as: Int64.self] == 1)
        #expect(author["income", as: AttributeValue.self] == .decimal(Decimal(4) / 10))
        try DerivedWorld.check(stack.mainContext())
    }
}
