import Dispatch
import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// A merge examines the objects whose relationships were read, however many objects are registered.
@MainActor @Suite struct MergeScopeTests {
    private let stack: TestStack
    private let context: ManagedObjectContext
    private let writer: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 300, authors: 10)
        context = stack.mainContext()
        writer = stack.mainContext()
    }

    private func all(_ entity: String) throws -> [ManagedObject] {
        Array(try context.fetch(FetchRequest(entity)))
    }

    /// Moves the first book of the first author to the last author, and merges the book's row.
    private func moveABook() throws -> ManagedObjectID {
        let authors = Array(
            try writer.fetch(FetchRequest("Author")))
        let book = authors[0].objects("books")[0]
        book["author"] = authors[authors.count - 1]
        try writer.save()
        context.mergeChanges(from: ObjectIDChanges(updated: [book.objectID]))
        return book.objectID
    }

    private var ownerCount: Int { context.relationshipOwners.count }

    @Test func readingAttributesAddsNoObjectToAMerge() throws {
        let books = try all("Book")
        for book in books { _ = book["title", as: String.self] }
        for book in books { _ = book.object("author") }
        #expect(ownerCount == 0)
        _ = try moveABook()
        #expect(ownerCount == 0 && context.registeredObjects.count >= 300)
    }

    @Test func contentsReadBeforeAreReadAgain() throws {
        let (books, authors) = (try all("Book"), try all("Author"))
        let first = authors[0].objects("books").count
        let last = authors[9].objects("books").count
        _ = books[0].objects("tags")
        #expect(ownerCount == 3)
        let moved = try moveABook()
        #expect(authors[0].objects("books").count == first - 1)
        #expect(authors[9].objects("books").count == last + 1)
        #expect(authors[9].objects("books").contains(context.object(with: moved)))
    }

    @Test func ownAdditionsAndRemovalsAreKept() throws {
        let authors = try all("Author")
        let own = try context.insertObject(entityName: "Book")
        own["title"] = "own"
        let taken = authors[1].objects("books")[0]
        own["author"] = authors[0]
        taken["author"] = nil
        let moved = try moveABook()
        #expect(authors[0].objects("books").contains(own))
        #expect(!authors[0].objects("books").contains(context.object(with: moved)))
        #expect(!authors[1].objects("books").contains(taken))
        try context.save()
        let fresh = stack.mainContext()
        #expect(fresh.object(with: own.objectID).object("author") != nil)
    }

    @Test func objectsThatBecameFaultsLeave() throws {
        let authors = try all("Author")
        for author in authors { _ = author.objects("books") }
        #expect(ownerCount == 10)
        context.refreshAllObjects()
        _ = try moveABook()
        #expect(ownerCount == 0)
        #expect(authors.reduce(0) { $0 + $1.objects("books").count } == 300)
        #expect(ownerCount == 10)
    }

    @Test func releasedObjectsLeave() throws {
        var authors = try all("Author")
        for author in authors { _ = author.objects("books") }
        authors.removeAll()
        #expect(ownerCount == 0)
    }

    @Test func objectsReleasedOnAnotherThreadLeave() async throws {
        final class Carrier: @unchecked Sendable { var objects: [ManagedObject] = [] }
        let carrier = Carrier()
        carrier.objects = try all("Author")
        for author in carrier.objects { _ = author.objects("books") }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                carrier.objects = []
                continuation.resume()
            }
        }
        // Whether or not the queue has taken them out already.
        _ = try moveABook()
        await withCheckedContinuation { continuation in
            DispatchQueue.main.async { continuation.resume() }
        }
        #expect(ownerCount == 0)
    }

    @Test func objectsOfAResetLeave() throws {
        let authors = try all("Author")
        for author in authors { _ = author.objects("books") }
        context.reset()
        #expect(ownerCount == 0)
        withExtendedLifetime(authors) {}
    }

    @Test func rolledBackInsertionsLeave() throws {
        let author = try context.insertObject(entityName: "Author")
        let book = try context.insertObject(entityName: "Book")
        book["author"] = author
        #expect(ownerCount > 0)
        context.rollback()
        #expect(ownerCount == 0)
        withExtendedLifetime((author, book)) {}
    }

    @Test func aNewObjectStaysAfterItsIdentifierIsReplaced() throws {
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "new"
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "new"
        book["author"] = author
        try context.save()
        let theirs = writer.object(with: book.objectID)
        theirs["author"] = nil
        try writer.save()
        context.mergeChanges(from: ObjectIDChanges(updated: [book.objectID]))
        #expect(author.objects("books").isEmpty)
    }

    @Test func undoRestoresContentsAfterAMerge() throws {
        context.undoManager = UndoManager()
        let authors = try all("Author")
        let book = authors[2].objects("books")[0]
        book["author"] = authors[3]
        context.processPendingChanges()
        _ = try moveABook()
        context.undo()
        #expect(authors[2].objects("books").contains(book))
        #expect(!authors[3].objects("books").contains(book))
        #expect(book.object("author") === authors[2])
    }

    @Test func aDeletionSavedElsewhereLeavesTheContents() throws {
        let authors = try all("Author")
        let book = authors[0].objects("books")[0]
        let id = book.objectID
        writer.delete(writer.object(with: id))
        try writer.save()
        context.mergeChanges(from: ObjectIDChanges(deleted: [id]))
        #expect(!authors[0].objects("books").contains(book))
        #expect(book.managedObjectContext == nil)
        // The fault that replaces it has no part of it.
        #expect(context.object(with: id) !== book)
    }
}
