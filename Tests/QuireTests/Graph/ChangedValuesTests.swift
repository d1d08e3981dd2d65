import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct ChangedValuesTests {
    let stack: TestStack
    let context: ManagedObjectContext
    let book: ManagedObject
    let shelf: ManagedObject

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
        book = try context.insertObject(entityName: "Book")
        book["title"] = "one"
        shelf = try context.insertObject(entityName: "Shelf")
        try context.save()
    }

    private func new(_ title: String) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test func changedValuesAreTheNewOnes() throws {
        book["title"] = "two"
        shelf.add(book, to: "books")
        #expect(
            book.changedValues() == [
                "title": .value("two"), "shelf": .value(.objectID(shelf.objectID)),
            ])
        #expect(shelf.changedValues() == ["books": .objectIDs([book.objectID])])
        #expect(
            try book.committedValues(forKeys: ["title", "shelf"]) == [
                "title": .value("one"), "shelf": .value(.null),
            ])
        #expect(try shelf.committedValues(forKeys: ["books"]) == ["books": .objectIDs([])])
        try context.save()
        #expect(book.changedValues().isEmpty)
        #expect(try book.committedValues(forKeys: nil)["title"] == .value("two"))
    }

    @Test func settingBackByHandLeavesTheObjectUpdatedWithoutChangedValues() {
        book["title"] = "two"
        #expect(book.hasPersistentChangedValues)
        book["title"] = "one"
        #expect(book.isUpdated)
        #expect(!book.hasPersistentChangedValues)
        #expect(book.changedValues().isEmpty)
    }

    @Test func aNewObjectsChangesAreThoseFromItsDefaults() throws {
        let new = try context.insertObject(entityName: "Book")
        #expect(!new.hasPersistentChangedValues)
        new["title"] = "x"
        #expect(new.changedValues() == ["title": .value("x")])
        #expect(
            try new.committedValues(forKeys: ["title", "tags"]) == [
                "title": .value(.null), "tags": .objectIDs([]),
            ])
        #expect(new.changedValuesForCurrentEvent() == ["title": .value(.null)])
    }

    @Test func theCurrentEventsValuesAreTheOldOnes() throws {
        book["title"] = "two"
        #expect(book.changedValuesForCurrentEvent() == ["title": .value("one")])
        context.processPendingChanges()
        #expect(book.changedValuesForCurrentEvent().isEmpty)
        book["title"] = "three"
        book["title"] = "four"
        book["year"] = 4
        #expect(
            book.changedValuesForCurrentEvent() == ["title": .value("two"), "year": .value(.null)])
        #expect(book.changedValues()["title"] == .value("four"))
    }

    @Test func theCurrentEventsRelationshipsAreTheOldOnes() throws {
        let books = try (0..<4).map { try new("\($0)") }
        for book in books[0..<3] { shelf.add(book, to: "books") }
        context.processPendingChanges()
        shelf.add(books[3], to: "books")
        shelf.remove(books[1], from: "books")
        shelf.insert(books[2], into: "books", at: 0)
        #expect(
            shelf.changedValuesForCurrentEvent() == [
                "books": .objectIDs(books[0..<3].map(\.objectID))
            ])
        context.processPendingChanges()
        shelf.remove(books[0], from: "books")
        #expect(
            shelf.changedValuesForCurrentEvent() == [
                "books": .objectIDs([books[2], books[0], books[3]].map(\.objectID))
            ])
    }

    @Test func unknownKeysAreRefused() {
        let error = #expect(throws: QuireError.self) {
            try book.committedValues(forKeys: ["titel"])
        }
        #expect(error?.code == .unknownKey)
    }

    @Test func transientValuesLiveInMemoryOnly() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let object = try context.insertObject(entityName: "Everything")
        try context.save()
        let other = stack.mainContext()
        let twin = other.object(with: object.objectID)
        twin["int16"] = 1
        object["note"] = "a"
        #expect(object.hasChanges && context.hasChanges)
        #expect(!object.hasPersistentChangedValues)
        #expect(object.changedValues().isEmpty)
        try context.save()
        #expect(!context.hasChanges)
        #expect(object["note", as: String.self] == "a")
        try other.save()  // No conflict: the row has the version it had.
        context.undo()
        #expect(object["note", as: String.self] == nil)
        context.redo()
        #expect(object["note", as: String.self] == "a")
        #expect(stack.mainContext().object(with: object.objectID)["note", as: String.self] == nil)
    }

    @Test func transientValuesDoNotGoToTheParent() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.nestedContext()
        let object = try context.insertObject(entityName: "Everything")
        object["note"] = "a"
        try context.save()
        object["note"] = "b"
        try context.save()
        #expect(object["note", as: String.self] == "b")
        let id = object.objectID
        let note = try #require(context.parent).performAndWait { parent in
            parent.object(with: id)["note", as: String.self]
        }
        #expect(note == nil)
        try stack.save(context)
        #expect(object["note", as: String.self] == "b")
    }

    @Test func faultsAreKnownWithoutReading() throws {
        shelf.add(book, to: "books")
        try context.save()
        let other = stack.mainContext()
        let read = other.object(with: shelf.objectID)
        #expect(read.faultingState != 0)
        #expect(read.hasFault(forRelationshipNamed: "books"))
        #expect(read.isFault)
        #expect(read.objectIDs(forRelationshipNamed: "books") == [book.objectID])
        #expect(!read.hasFault(forRelationshipNamed: "books"))
        let other2 = stack.mainContext()
        let readBook = other2.object(with: book.objectID)
        #expect(readBook.hasFault(forRelationshipNamed: "shelf"))
        #expect(readBook.objectIDs(forRelationshipNamed: "shelf") == [shelf.objectID])
        #expect(readBook.hasFault(forRelationshipNamed: "shelf"))
        let readShelf = try #require(readBook.object("shelf"))
        readShelf.willAccessValue(forKey: nil)
        #expect(readShelf.faultingState == 0)
        #expect(!readBook.hasFault(forRelationshipNamed: "shelf"))
    }

    @Test func primitiveValuesAreSavedButNotUndone() throws {
        context.undoManager = UndoManager()
        try book.setPrimitiveValue("primitive", forKey: "title")
        #expect(try book.primitiveValue(forKey: "title") as? String == "primitive")
        context.processPendingChanges()
        #expect(context.undoManager?.canUndo == false)
        #expect(book.isUpdated)
        try context.save()
        #expect(try stack.stored("Book", "title") == ["string(\"primitive\")"])
        book.willChangeValue(forKey: "title")
        try book.setPrimitiveValue("accessor", forKey: "title")
        book.didChangeValue(forKey: "title")
        #expect(book.changedValuesForCurrentEvent() == ["title": .value("primitive")])
        context.undo()
        #expect(book["title", as: String.self] == "primitive")
        #expect(!book.hasChanges)
        #expect(throws: QuireError.self) { try book.setPrimitiveValue(nil, forKey: "shelf") }
        #expect(throws: QuireError.self) { try book.setPrimitiveValue(1, forKey: "title") }
    }

    @Test(arguments: ContextArrangement.allCases)
    func setToTheSavedValueIsNotWritten(arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        let context = stack.context(arrangement)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "one"
        try stack.save(context)
        func version() throws -> UInt32 {
            try stack.mainContext().existingObject(with: book.objectID).version
        }
        let saved = try version()
        book["title"] = "one"
        try stack.save(context)
        #expect(try version() == saved)
        book["title"] = "two"
        try context.save()
        book["title"] = "one"
        try stack.save(context)
        #expect(!context.hasChanges)
        #expect(try stack.stored("Book", "title") == ["string(\"one\")"])
        book["title"] = "three"
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"three\")"])
    }

    @Test func childSavesOnlyWhatDiffers() throws {
        let child = ManagedObjectContext.mainQueue(parent: context)
        let copy = child.object(with: book.objectID)
        copy["title"] = copy["title"]
        copy["year"] = 7
        book["title"] = "parent's"
        try child.save()
        #expect(book["title"] as? String == "parent's")
        #expect(book["year"] as? Int == 7)
        copy["title"] = "child's"
        copy["title"] = "one"
        try child.save()
        #expect(book["title"] as? String == "parent's")
    }
}
