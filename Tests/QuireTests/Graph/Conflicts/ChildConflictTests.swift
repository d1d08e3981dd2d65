import Quire
import QuireTestSupport
import Testing

/// What happens when two children of one parent, or a child and its parent, edit the same objects.
@MainActor @Suite struct ChildConflictTests {
    let stack: TestStack
    let parent: QueueConfinedContext
    let first: ManagedObjectContext
    let second: ManagedObjectContext
    /// Knows nothing until the end of a test.
    let fresh: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        parent = QueueConfinedContext(coordinator: stack.coordinator)
        first = .mainQueue(parent: parent)
        second = .mainQueue(parent: parent)
        fresh = stack.mainContext()
    }

    private func new(_ entity: String, _ values: [String: AttributeValue]) throws -> ManagedObject {
        let object = try first.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        return object
    }

    private func saveAll(_ context: ManagedObjectContext) throws {
        try context.save()
        try parent.performAndWait { try $0.save() }
    }

    @Test func theLastChildToSaveWinsPropertyByProperty() throws {
        let book = try new("Book", ["title": "old"])
        try saveAll(first)
        let theirs = second.object(with: book.objectID)
        theirs["title"] = "second"
        theirs["year"] = 2
        book["title"] = "first"
        try second.save()
        try saveAll(first)
        let read = fresh.object(with: book.objectID)
        #expect(read["title", as: String.self] == "first")
        #expect(read["year", as: Int64.self] == 2)
    }

    @Test func aToOneChangedInBothChildrenStaysSymmetricInTheParent() throws {
        let authors = try ["a", "b", "c"].map { try new("Author", ["name": .string($0)]) }
        let book = try new("Book", ["title": "x"])
        book["author"] = authors[0]
        try saveAll(first)
        let theirs = second.object(with: book.objectID)
        theirs["author"] = second.object(with: authors[1].objectID)
        book["author"] = authors[2]
        try second.save()
        try first.save()
        let ids = authors.map(\.objectID)
        let counts = parent.performAndWait { context in
            ids.map { context.object(with: $0).objectIDs("books").count }
        }
        #expect(counts == [0, 0, 1])
        try parent.performAndWait { try $0.save() }
        #expect(ids.map { fresh.object(with: $0).objectIDs("books").count } == [0, 0, 1])
    }

    @Test func ordersOfBothChildrenAreMerged() throws {
        let shelf = try new("Shelf", ["name": "S"])
        let books = try ["a", "b"].map { try new("Book", ["title": .string($0)]) }
        for book in books { shelf.add(book, to: "books") }
        try saveAll(first)
        let added = try second.insertObject(entityName: "Book")
        added["title"] = "c"
        second.object(with: shelf.objectID).add(added, to: "books")
        shelf.insert(books[1], into: "books", at: 0)
        try second.save()
        try saveAll(first)
        let read = fresh.object(with: shelf.objectID)
        #expect(Set(read.objectIDs("books")) == Set((books + [added]).map(\.objectID)))
        let order = read.objectIDs("books").filter { $0 != added.objectID }
        #expect(order == [books[1].objectID, books[0].objectID])
    }

    @Test func deletingOnBothSidesIsNoConflict() throws {
        let book = try new("Book", ["title": "x"])
        try saveAll(first)
        second.delete(second.object(with: book.objectID))
        try second.save()
        first.delete(book)
        try saveAll(first)
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
    }
}
