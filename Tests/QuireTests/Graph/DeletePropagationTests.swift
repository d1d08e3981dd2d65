import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct DeletePropagationTests {
    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        context = stack.nestedContext()
    }

    private func new(_ entity: String, _ key: String = "name", _ value: String = "x") throws
        -> ManagedObject
    {
        let object = try context.insertObject(entityName: entity)
        object[key] = value
        return object
    }

    @Test func nullifyClearsInverseBeforeSave() throws {
        let (book, tag) = (try new("Book", "title"), try new("Tag"))
        book.add(tag, to: "tags")
        try stack.save(context)
        context.delete(tag)
        #expect(book.objects("tags").isEmpty)
        try stack.save(context)
        let other = stack.mainContext()
        #expect(other.object(with: book.objectID).objectIDs("tags").isEmpty)
    }

    @Test func cascadeDeletesWholeTrees() throws {
        let author = try new("Author")
        for index in 0..<3 {
            let book = try new("Book", "title", "\(index)")
            book["cover"] = try context.insertObject(entityName: "Cover")
            author.add(book, to: "books")
        }
        try stack.save(context)
        context.delete(author)
        #expect(context.deletedObjects.count == 7)
        try stack.save(context)
        for entity in ["Author", "Book", "Cover"] {
            #expect(try stack.mainContext().count(for: FetchRequest(entity)) == 0)
        }
    }

    @Test func denyFailsTheSaveUntilTheRelationshipIsEmpty() throws {
        let (shelf, book) = (try new("Shelf"), try new("Book", "title"))
        shelf.add(book, to: "books")
        try stack.save(context)
        context.delete(shelf)
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .deleteDenied)
        #expect(error?.message.contains("Book/p1") == true)
        book["shelf"] = nil
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Shelf")) == 0)
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 1)
    }

    @Test func denyAllowsDeletingBothSides() throws {
        let (shelf, book) = (try new("Shelf"), try new("Book", "title"))
        shelf.add(book, to: "books")
        try stack.save(context)
        context.delete(shelf)
        context.delete(book)
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Shelf")) == 0)
    }

    @Test func deletingANewObjectLeavesNothingToSave() throws {
        let book = try new("Book", "title")
        context.delete(book)
        #expect(!context.hasChanges)
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
    }
}
