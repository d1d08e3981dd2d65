import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Another process has given its rows the identifiers that are reserved here.
@MainActor @Suite struct TakenIdentifierTests {
    @Test func anIdentifierKnownFromAnothersRowIsNotGivenToANewObject() throws {
        let rivals = try Rivals(.store)
        let first = try rivals.new("Book", ["title": "first"])
        try rivals.save()
        for title in ["theirs 1", "theirs 2"] {
            let book = try rivals.there.insertObject(entityName: "Book")
            book["title"] = title
        }
        try rivals.there.save()
        let read = try rivals.here.fetch(FetchRequest("Book")).map { $0 }
        #expect(read.count == 3)
        for round in 0..<3 {
            let new = try rivals.new("Book", ["title": .string("ours \(round)")])
            first.add(new, to: "sequels")
            try rivals.save()
            #expect(!read.contains(new) && !read.map(\.objectID).contains(new.objectID))
            #expect(rivals.here.object(with: new.objectID) === new)
        }
        #expect(rivals.here.registeredObjects.count <= 6)
        #expect(
            read.map { $0["title", as: String.self] ?? "" }.sorted() == [
                "first", "theirs 1", "theirs 2",
            ])
        try rivals.expectWhole(rivals.here)
    }

    @Test func whatIsGivenBeforeASaveIsNobodyElses() throws {
        let rivals = try Rivals(.store)
        var ids: Set<ManagedObjectID> = []
        for round in 0..<20 {
            for context in [rivals.here, rivals.there] {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "\(round)"
                try context.obtainPermanentIDs(for: [book])
                #expect(ids.insert(book.objectID).inserted)
            }
        }
        try rivals.there.save()
        try rivals.here.save()
        #expect(try rivals.stack.mainContext().count(for: FetchRequest("Book")) == 40)
    }

    @Test func childrenOfTwoProcessesSaveNewObjects() throws {
        let rivals = try Rivals(.storeBesideNested)
        let theirs = ManagedObjectContext.mainQueue(
            parent: QueueConfinedContext(coordinator: rivals.other))
        var ids: Set<ManagedObjectID> = []
        for _ in 0..<3 {
            for context in [rivals.here, theirs] {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "new"
                // To the parent: the identifier is for good before the store has the object.
                try context.save()
                #expect(ids.insert(book.objectID).inserted)
            }
        }
        try theirs.parent?.performAndWait { try $0.save() }
        try rivals.save()
        #expect(try rivals.stack.mainContext().count(for: FetchRequest("Book")) == 6)
        try rivals.expectWhole(rivals.stack.mainContext())
    }

    @Test func aSaveThatFailsTakesIdentifiersBack() throws {
        let rivals = try Rivals(.store)
        let book = try rivals.new("Book", ["title": "ours"])
        let author = try rivals.new("Author", ["name": "A"])
        book["author"] = author
        let temporary = book.objectID
        let store = try #require(rivals.stack.coordinator.store as? SQLiteStore)
        try store.executeOnWriter(
            "CREATE INDEX no ON ZBOOK (abs(-9223372036854775807 - Z_OPT)) WHERE ZTITLE = 'ours'")
        #expect(throws: QuireError.self) { try rivals.save() }
        #expect(book.objectID == temporary)
        #expect(author.objects("books") == [book])
        #expect(rivals.here.insertedObjects.count == 2)
        let theirs = try rivals.there.insertObject(entityName: "Author")
        theirs["name"] = "theirs"
        try rivals.there.save()
        try store.executeOnWriter("DROP INDEX no")
        try rivals.save()
        #expect(author.objectID != theirs.objectID)
        try rivals.expectWhole(rivals.here)
    }
}
