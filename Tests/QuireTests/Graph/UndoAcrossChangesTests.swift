import Testing

@testable import Quire
@testable import QuireTestSupport

/// Undo among saves, resets, and what others do to the objects.
@MainActor @Suite struct UndoAcrossChangesTests {
    let stack: TestStack
    let context: ManagedObjectContext
    let undoManager = UndoManager()

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
        context.undoManager = undoManager
    }

    private func book(_ title: String) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test func aChangeOfThisEventCanBeUndone() throws {
        let book = try book("one")
        #expect(undoManager.canUndo)
        undoManager.setActionName("Add Book")
        #expect(undoManager.undoMenuItemTitle == "Undo Add Book")
        context.undo()
        #expect(!book.isInserted)
        #expect(undoManager.redoMenuItemTitle == "Redo Add Book")
    }

    @Test func anInsertionThatIsRedoneIsOneObjectForAChildBeforeAndAfterItIsSaved() throws {
        let book = try book("one")
        context.undo()
        let child = ManagedObjectContext.mainQueue(parent: context)
        #expect(try child.fetch(FetchRequest("Book")).isEmpty)
        context.redo()
        let seen = try #require(try child.fetch(FetchRequest("Book")).first)
        #expect(!seen.objectID.isTemporaryID)
        try context.save()
        #expect(seen.objectID == book.objectID)
        #expect(child.object(with: book.objectID) === seen)
    }

    @Test func permanentIdentifiersAreForgottenWithTheLogs() throws {
        undoManager.levelsOfUndo = 5
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        for round in 0..<40 {
            for index in 0..<10 { author.add(try book("\(round) \(index)"), to: "books") }
            try context.save()
            #expect(context.undoIdentifiers.count <= 80)
        }
        while undoManager.canUndo { context.undo() }
        #expect(author.objects("books").count == 350)
        try context.save()
        undoManager.removeAllActions()
        _ = try book("last")
        undoManager.removeAllActions()
        context.processPendingChanges()
        undoManager.removeAllActions()
        try context.save()
        #expect(context.undoIdentifiers.count == 0)
    }

    @Test func logsFindObjectsByTheirPermanentIdentifiers() throws {
        let (first, second) = (
            try context.insertObject(entityName: "Author"),
            try context.insertObject(entityName: "Author")
        )
        first["name"] = "1"
        second["name"] = "2"
        let book = try book("b")
        book["author"] = first
        context.processPendingChanges()
        book["author"] = second
        try context.save()
        context.undo()
        #expect(book.object("author") === first)
        #expect(first.objects("books") == [book] && second.objects("books").isEmpty)
        try context.save()
        let other = stack.mainContext()
        let read = other.object(with: book.objectID)
        #expect(read.object("author")?.objectID == first.objectID)
    }

    @Test func undoAfterAResetDoesNothing() throws {
        let book = try book("one")
        context.processPendingChanges()
        context.undoManager = nil
        context.reset()
        undoManager.undo()
        #expect(book.managedObjectContext == nil)
        #expect(!context.hasChanges)
    }

    @Test func undoOfAnObjectWhoseRowIsGoneIsSkipped() throws {
        let (gone, kept) = (try book("gone"), try book("kept"))
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        try context.save()
        gone["year"] = 1
        kept["year"] = 1
        gone["author"] = author
        try context.save()
        let other = stack.mainContext()
        other.delete(other.object(with: gone.objectID))
        try other.save()
        gone.turnIntoFault()
        context.undo()
        #expect(kept["year", as: Int64.self] == nil)
        #expect(gone.isInaccessible && !gone.hasChanges)
        #expect(author.objects("books").isEmpty)
        context.redo()
        #expect(kept["year", as: Int64.self] == 1)
        #expect(author.objects("books").isEmpty)
        try context.save()
    }

    @Test func oneUndoManagerCanServeTwoContexts() throws {
        let second = stack.mainContext()
        second.undoManager = undoManager
        let book = try book("one")
        let author = try second.insertObject(entityName: "Author")
        undoManager.undo()
        #expect(!book.isInserted && !author.isInserted)
        second.undoManager = nil
        undoManager.redo()
        #expect(book.isInserted)
        #expect(author.isInserted)
    }

    @Test func groupsSpanEventsAndSaves() throws {
        let book = try book("one")
        try context.save()
        undoManager.beginUndoGrouping()
        book["title"] = "two"
        try context.save()
        book["title"] = "three"
        context.processPendingChanges()
        undoManager.endUndoGrouping()
        context.undo()
        #expect(book["title", as: String.self] == "one")
        try context.save()
        #expect(try stack.stored("Book", "title") == ["string(\"one\")"])
    }
}
