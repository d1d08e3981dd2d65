import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct UndoTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func editor(_ arrangement: ContextArrangement) -> ManagedObjectContext {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        return context
    }

    @Test(arguments: ContextArrangement.allCases)
    func valuesGoBackAndForth(arrangement: ContextArrangement) throws {
        let context = editor(arrangement)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "one"
        try stack.save(context)
        book["title"] = "two"
        book["year"] = 2
        context.processPendingChanges()
        book["title"] = "three"
        context.undo()
        #expect(book["title", as: String.self] == "two")
        context.undo()
        #expect(book["title", as: String.self] == "one")
        #expect(book["year", as: Int64.self] == nil)
        #expect(!context.hasChanges)
        context.redo()
        context.redo()
        #expect(book["title", as: String.self] == "three")
        #expect(book["year", as: Int64.self] == 2)
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"three\")"])
    }

    @Test func undoingAnInsertionTakesTheObjectAndItsInversesAway() throws {
        let context = editor(.direct)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        context.processPendingChanges()
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "B"
        book["author"] = author
        context.undo()
        #expect(author.objects("books").isEmpty)
        #expect(context.insertedObjects == [author])
        context.redo()
        #expect(author.objects("books") == [book])
        #expect(book["title", as: String.self] == "B")
    }

    @Test(arguments: ContextArrangement.allCases, [false, true])
    func undoingACascadeRestoresEveryObject(arrangement: ContextArrangement, saved: Bool) throws {
        let context = editor(arrangement)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        let tag = try context.insertObject(entityName: "Tag")
        tag["name"] = "T"
        let books = try ["x", "y", "z"].map { title in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            author.add(book, to: "books")
            book.add(tag, to: "tags")
            return book
        }
        try stack.save(context)
        let ids = books.map(\.objectID)
        context.delete(author)
        context.processPendingChanges()
        if saved { try stack.save(context) }
        #expect(tag.objects("books").isEmpty)
        context.undo()
        #expect(author.objects("books") == books)
        #expect(tag.objects("books") == books)
        #expect(books.map(\.objectID) == ids)
        try stack.save(context)
        let other = stack.mainContext()
        let read = other.object(with: author.objectID)
        #expect(read["name", as: String.self] == "A")
        #expect(Set(read.objectIDs("books")) == Set(ids))
        #expect(Set(other.object(with: tag.objectID).objectIDs("books")) == Set(ids))
        context.redo()
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
    }

    @Test func undoAcrossASaveReachesTheStore() throws {
        let context = editor(.nested)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "one"
        try stack.save(context)
        context.undo()
        #expect(book.isDeleted)
        try stack.save(context)
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        context.redo()
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"one\")"])
    }

    @Test func orderGoesBack() throws {
        let context = editor(.direct)
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try ["a", "b", "c"].map { title in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            shelf.add(book, to: "books")
            return book
        }
        try context.save()
        shelf.insert(books[2], into: "books", at: 0)
        context.processPendingChanges()
        shelf.remove(books[0], from: "books")
        context.undo()
        #expect(shelf.objects("books") == [books[2], books[0], books[1]])
        context.undo()
        #expect(shelf.objects("books") == books)
        #expect(!context.hasChanges)
    }

    @Test func levelsBoundTheStack() throws {
        let context = editor(.direct)
        let undoManager = try #require(context.undoManager)
        undoManager.levelsOfUndo = 2
        let book = try context.insertObject(entityName: "Book")
        for year in 1...4 {
            book["year"] = Int64(year)
            context.processPendingChanges()
        }
        for _ in 0..<4 { context.undo() }
        #expect(book["year", as: Int64.self] == 2)
        #expect(!undoManager.canUndo)
    }

    @Test func groupsAreTakenBackAsOne() throws {
        let context = editor(.direct)
        let undoManager = try #require(context.undoManager)
        let book = try context.insertObject(entityName: "Book")
        context.processPendingChanges()
        undoManager.beginUndoGrouping()
        for year in 1...3 {
            book["year"] = Int64(year)
            context.processPendingChanges()
        }
        undoManager.setActionName("Set Year")
        undoManager.endUndoGrouping()
        context.processPendingChanges()
        context.undo()
        #expect(book["year", as: Int64.self] == nil)
        context.redo()
        #expect(book["year", as: Int64.self] == 3)
    }

    @Test func aNewChangeForgetsWhatCouldBeRedone() throws {
        let context = editor(.direct)
        let book = try context.insertObject(entityName: "Book")
        context.processPendingChanges()
        book["year"] = 1
        context.undo()
        book["year"] = 2
        context.processPendingChanges()
        context.redo()
        #expect(book["year", as: Int64.self] == 2)
    }

    @Test func theEventEndsAtTheNextTurnOfTheMainQueue() async throws {
        let context = editor(.direct)
        let book = try context.insertObject(entityName: "Book")
        await withCheckedContinuation { continuation in
            context.changeHandler = {
                context.changeHandler = nil
                continuation.resume()
            }
        }
        #expect(context.undoManager?.canUndo == true)
        #expect(book.isInserted)
    }
}
