import Testing

@testable import Quire
@testable import QuireTestSupport

/// User events as steps of undo, and what they cost.
@MainActor @Suite struct UndoEventTests {
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

    @Test func anEventIsOneStepWhateverItChanges() throws {
        let (author, shelf) = (
            try context.insertObject(entityName: "Author"),
            try context.insertObject(entityName: "Shelf")
        )
        let (first, gone) = (try book("first"), try book("gone"))
        author["name"] = "A"
        shelf["books"] = [first, gone]
        try context.save()
        let count = undoManager.undoCount
        first["title"] = "changed"
        first["author"] = author
        context.delete(gone)
        let new = try book("new")
        shelf.insert(new, into: "books", at: 0)
        context.processPendingChanges()
        #expect(undoManager.undoCount == count + 1)
        context.undo()
        #expect(first["title", as: String.self] == "first")
        #expect(first.object("author") == nil && author.objects("books").isEmpty)
        #expect(!gone.isDeleted && !new.isInserted)
        #expect(shelf.objects("books") == [first, gone])
        #expect(!context.hasChanges)
        context.redo()
        #expect(first["title", as: String.self] == "changed")
        #expect(author.objects("books") == [first])
        #expect(gone.isDeleted && new.isInserted)
        #expect(shelf.objects("books") == [new, first])
    }

    @Test func aLongEventCostsWhatItChanges() throws {
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try (0..<4).map { try book("\($0)") }
        shelf["books"] = books
        context.processPendingChanges()
        for index in 0..<20_000 {
            books[index % 2]["year"] = Int64(index % 1000)
            books[index % 2]["title"] = "\(index)"
            shelf.moveObject(in: "books", from: index % 4, to: (index + 1) % 4)
        }
        #expect(context.event.log.count < 4096)
        let order = shelf.objects("books")
        context.undo()
        #expect(books.map { $0["title", as: String.self] } == ["0", "1", "2", "3"])
        #expect(books.allSatisfy { $0["year", as: Int64.self] == nil })
        #expect(shelf.objects("books") == books)
        context.redo()
        #expect(books.map { $0["title", as: String.self] } == ["19998", "19999", "2", "3"])
        #expect(shelf.objects("books") == order)
    }

    @Test func stepsWithOtherChangesBetweenThemAreKept() throws {
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try (0..<6).map { try book("\($0)") }
        shelf["books"] = books
        context.processPendingChanges()
        for index in 0..<2000 {
            let moved = shelf.objects("books")[index % 6]
            shelf.remove(moved, from: "books")
            shelf.insert(moved, into: "books", at: (index * 5) % 6)
            books[index % 3]["year"] = Int64(index)
        }
        let order = shelf.objects("books")
        #expect(order != books)
        context.undo()
        #expect(shelf.objects("books") == books)
        #expect(books.allSatisfy { $0["year", as: Int64.self] == nil })
        context.redo()
        #expect(shelf.objects("books") == order)
    }

    @Test func levelsBoundWhatIsKept() throws {
        undoManager.levelsOfUndo = 3
        for round in 0..<50 {
            _ = try (0..<20).map { try book("\(round) \($0)") }
            try context.save()
        }
        #expect(context.registeredObjects.count == 60)
        context.processPendingChanges()
        undoManager.removeAllActions()
        #expect(context.registeredObjects.isEmpty)
    }

    @Test func whatIsChangedWhileRegistrationIsDisabledIsNotUndone() throws {
        let book = try book("one")
        context.processPendingChanges()
        book["year"] = 1
        undoManager.disableUndoRegistration()
        book["isbn"] = "i"
        undoManager.enableUndoRegistration()
        book["title"] = "two"
        #expect(undoManager.isUndoRegistrationEnabled)
        context.undo()
        #expect(book["title", as: String.self] == "one")
        #expect(book["isbn", as: String.self] == "i")
        #expect(undoManager.redoCount == 1)
    }

    @Test func whatWasChangedBeforeANestedGroupIsNotInIt() throws {
        let book = try book("one")
        context.processPendingChanges()
        book["year"] = 1
        undoManager.beginUndoGrouping()
        book["year"] = 2
        undoManager.endUndoGrouping()
        undoManager.undoNestedGroup()
        #expect(book["year", as: Int64.self] == 1)
        context.undo()
        #expect(book["year", as: Int64.self] == nil)
    }

    @Test func groupsNestWithinAContextsEvents() throws {
        let book = try book("one")
        context.processPendingChanges()
        undoManager.beginUndoGrouping()
        undoManager.setActionName("Edit")
        book["year"] = 1
        undoManager.beginUndoGrouping()
        book["year"] = 2
        undoManager.endUndoGrouping()
        undoManager.undoNestedGroup()
        #expect(book["year", as: Int64.self] == 1)
        book["isbn"] = "i"
        undoManager.endUndoGrouping()
        context.processPendingChanges()
        #expect(undoManager.undoMenuItemTitle == "Undo Edit")
        context.undo()
        #expect(book["year", as: Int64.self] == nil && book["isbn", as: String.self] == nil)
        #expect(undoManager.redoMenuItemTitle == "Redo Edit")
        context.redo()
        #expect(book["year", as: Int64.self] == 1 && book["isbn", as: String.self] == "i")
    }

    @Test(arguments: ContextArrangement.allCases, [false, true])
    func aDeletionsUndoBringsBackPositionsAndPartners(
        arrangement: ContextArrangement, saved: Bool
    ) throws {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        func new(_ entity: String) throws -> ManagedObject {
            try context.insertObject(entityName: entity)
        }
        let (author, shelf, list) = (try new("Author"), try new("Shelf"), try new("Playlist"))
        author["name"] = "A"
        let (books, songs) = (
            try (0..<5).map { _ in try new("Book") }, try (0..<3).map { _ in try new("Song") }
        )
        for (index, book) in books.enumerated() {
            book["title"] = "\(index)"
            book["cover"] = try new("Cover")
        }
        author["books"] = [books[1], books[3]]
        shelf["books"] = books
        books[1].add(books[0], to: "sequels")
        books[1].add(books[1], to: "sequels")
        list["songs"] = songs
        try stack.save(context)
        let all = context.registeredObjects
        let ids = Set(all.map(\.objectID))
        let covers = books.map { $0.object("cover") }
        context.delete(author)
        context.delete(songs[1])
        context.processPendingChanges()
        #expect(context.deletedObjects.count == 6)
        #expect(shelf.objects("books") == [books[0], books[2], books[4]])
        #expect(books[0].objects("prequels").isEmpty)
        if saved { try stack.save(context) }
        context.undo()
        #expect(Set(all.map(\.objectID)) == ids)
        #expect(all.allSatisfy { !$0.isDeleted })
        #expect(shelf.objects("books") == books)
        #expect(list.objects("songs") == songs)
        #expect(Set(author.objects("books")) == [books[1], books[3]])
        #expect(books.map { $0.object("cover") } == covers)
        #expect(Set(books[1].objects("sequels")) == [books[0], books[1]])
        #expect(books[1].objects("prequels") == [books[1]])
        #expect(context.hasChanges == saved)
        try stack.save(context)
        let fresh = stack.mainContext()
        let stored = fresh.object(with: shelf.objectID)
        #expect(stored.objectIDs("books") == books.map(\.objectID))
        #expect(
            fresh.object(with: list.objectID).objectIDs("songs") == songs.map(\.objectID))
        #expect(
            stored.objects("books").map { $0.object("cover")?.objectID }
                == covers.map { $0?.objectID })
    }
}
