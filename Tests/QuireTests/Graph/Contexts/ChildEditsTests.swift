import QuireTestSupport
import Testing

@testable import Quire

/// A parent that has nothing of an object adopts a child's edits as they are. Both stay independent.
@MainActor @Suite struct ChildEditsTests {
    private let stack: TestStack
    private let top: QueueConfinedContext
    private let middle: QueueConfinedContext
    private let child: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 20)
        top = QueueConfinedContext(coordinator: stack.coordinator)
        middle = QueueConfinedContext(parent: top)
        child = .mainQueue(parent: middle)
    }

    private func books() throws -> [ManagedObject] {
        Array(try child.fetch(FetchRequest("Book")))
    }

    private func title(_ id: ManagedObjectID, in context: QueueConfinedContext) -> String? {
        context.performAndWait { $0.object(with: id)["title", as: String.self] }
    }

    private func saveAll() throws {
        try child.save()
        try middle.performAndWait { try $0.save() }
        try top.performAndWait { try $0.save() }
    }

    @Test func everyLevelHasTheChangesAndTheSavedValues() throws {
        let books = try books()
        for (number, book) in books.enumerated() {
            book["title"] = "new \(number)"
            book["year"] = Int64(number)
        }
        try child.save()
        try middle.performAndWait { middle in
            #expect(middle.updatedObjects.count == 20)
            let book = try #require(middle.updatedObjects.first)
            #expect(book.changedValues()["title"] == .value("new 0"))
            #expect(book.changedValues().keys.sorted() == ["title"])
            #expect(
                try book.committedValues(forKeys: ["title"])["title"] == .value("b0"))
            try middle.save()
            #expect(!middle.hasChanges)
        }
        try top.performAndWait { top in
            #expect(top.updatedObjects.count == 20)
            try top.save()
        }
        let titles = (0..<20).map { "\(AttributeValue.string("new \($0)"))" }.sorted()
        #expect(try stack.stored("Book", "title") == titles)
    }

    @Test func laterChangesOfEachLevelStayThere() throws {
        let book = try books()[3]
        let id = book.objectID
        book["title"] = "child"
        try child.save()
        middle.performAndWait { $0.object(with: id)["title"] = "middle" }
        #expect(book["title", as: String.self] == "child")
        book["title"] = "child again"
        #expect(title(id, in: middle) == "middle")
        child.rollback()
        #expect(book["title", as: String.self] == "child")
        try middle.performAndWait { try $0.save() }
        top.performAndWait { $0.object(with: id)["title"] = "top" }
        // It has nothing unsaved, so that it reads the parent's.
        #expect(title(id, in: middle) == "top")
        #expect(book["title", as: String.self] == "child")
        try top.performAndWait { try $0.save() }
        #expect(try stack.stored("Book", "title").contains("\(AttributeValue.string("top"))"))
    }

    @Test func aRollbackOfTheParentRestoresItsValues() throws {
        let book = try books()[0]
        let id = book.objectID
        book["title"] = "child"
        try child.save()
        middle.performAndWait { middle in
            let book = middle.object(with: id)
            #expect(book["title", as: String.self] == "child")
            middle.rollback()
            #expect(book["title", as: String.self] == "b0")
            #expect(!middle.hasChanges && !book.isUpdated)
        }
    }

    @Test func theParentCanUndoAChildsSave() throws {
        middle.performAndWait { $0.undoManager = UndoManager() }
        let books = try books()
        for book in books { book["title"] = "child" }
        try child.save()
        middle.performAndWait { middle in
            #expect(middle.updatedObjects.count == 20)
            middle.undo()
            #expect(!middle.hasChanges)
            #expect(middle.object(with: books[0].objectID)["title", as: String.self] == "b0")
            middle.redo()
            #expect(middle.updatedObjects.count == 20)
        }
        try middle.performAndWait { try $0.save() }
        try top.performAndWait { try $0.save() }
        #expect(Set(try stack.stored("Book", "title")).count == 1)
    }

    @Test func aChildSavesTheSameObjectAgainAndAgain() throws {
        let book = try books()[0]
        for round in 0..<4 {
            book["year"] = Int64(round)
            if round % 2 == 0 { book["title"] = "round \(round)" }
            try child.save()
            if round == 1 { try middle.performAndWait { try $0.save() } }
            if round == 2 { try saveAll() }
        }
        try saveAll()
        let fresh = stack.mainContext()
        let stored = fresh.object(with: book.objectID)
        #expect(stored["year", as: Int64.self] == 3)
        #expect(stored["title", as: String.self] == "round 2")
    }

    @Test func aSaveElsewhereIsAConflictOfTheTopmostSaveOnly() throws {
        let book = try books()[0]
        let id = book.objectID
        _ = book["title", as: String.self]
        let other = stack.mainContext()
        other.object(with: id)["title"] = "other"
        try other.save()
        book["title"] = "child"
        try child.save()
        try middle.performAndWait { try $0.save() }
        top.performAndWait { top in
            #expect(throws: QuireError.self) { try top.save() }
            #expect(top.updatedObjects.map(\.objectID) == [id])
            #expect(top.object(with: id)["title", as: String.self] == "child")
            top.mergePolicy = .mergeByPropertyObjectTrump
        }
        try top.performAndWait { try $0.save() }
        #expect(try stack.stored("Book", "title").contains("\(AttributeValue.string("child"))"))
    }

    @Test func anErrorOfTheParentLeavesTheChildsChanges() throws {
        let book = try books()[0]
        book["title"] = "child"
        let block = QuireError(.invalidState, "The parent takes nothing.")
        middle.performAndWait { $0.saveBlock = block }
        #expect(throws: QuireError.self) { try child.save() }
        #expect(child.updatedObjects == [book] && book["title", as: String.self] == "child")
        middle.performAndWait {
            $0.saveBlock = nil
            #expect(!$0.hasChanges)
        }
        try saveAll()
        #expect(try stack.stored("Book", "title").contains("\(AttributeValue.string("child"))"))
    }

    @Test func anObjectDeletedInTheParentStaysDeleted() throws {
        let books = try books()
        middle.performAndWait { $0.delete($0.object(with: books[0].objectID)) }
        for book in books { book["title"] = "child" }
        try saveAll()
        #expect(try stack.stored("Book", "title").count == 19)
    }

    @Test func ownChangesOfTheParentAreKept() throws {
        let book = try books()[0]
        let id = book.objectID
        middle.performAndWait { $0.object(with: id)["year"] = 5 as Int64 }
        _ = book["title", as: String.self]
        book["title"] = "child"
        try saveAll()
        let fresh = stack.mainContext()
        let stored = fresh.object(with: id)
        #expect(stored["year", as: Int64.self] == 5)
        #expect(stored["title", as: String.self] == "child")
    }

    @Test func valuesAndRelationshipsArriveTogether() throws {
        let books = try books()
        let new = try child.insertObject(entityName: "Author")
        new["name"] = "new"
        for (number, book) in books.enumerated() {
            book["title"] = "new \(number)"
            if number % 2 == 0 { book["author"] = new }
            if number % 3 == 0 {
                for tag in book.objects("tags") { book.remove(tag, from: "tags") }
            }
        }
        child.delete(books[19])
        try child.save()
        #expect(!new.objectID.isTemporaryID)
        let id = new.objectID
        let count = middle.performAndWait { $0.object(with: id).objects("books").count }
        #expect(count == 10)
        try saveAll()
        let fresh = stack.mainContext()
        #expect(fresh.object(with: id).objects("books").count == 10)
        #expect(fresh.object(with: books[3].objectID).objects("tags").isEmpty)
        #expect(try fresh.count(for: FetchRequest("Book")) == 19)
    }
}
