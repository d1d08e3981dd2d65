import Foundation
import Quire
import Testing

/// Core Data's getting started, without classes: a container, objects by key, a fetch, a deletion, and the next start.
@MainActor @Suite struct UntypedLibraryTests {
    private static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string).required()
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
        }
        Entity("Book") {
            Attribute("title", .string).required()
            Attribute("year", .integer16).default(0)
            Attribute("added", .date)
            ToOne("author", "Author", inverse: "books")
        }
    }

    private func makeContainer(in folder: URL) throws -> PersistentContainer {
        let container = try PersistentContainer(name: "Library", managedObjectModel: Self.model)
        let description = PersistentStoreDescription(
            url: folder.appendingPathComponent("Library.sqlite"))
        container.persistentStoreDescriptions = [description]
        container.loadPersistentStores { description, error in
            #expect(error == nil)
            #expect(description.url?.lastPathComponent == "Library.sqlite")
        }
        return container
    }

    /// The optimizer sees that nobody reads the array, and must not take the objects in it away.
    @Test func arraysOfFetchedObjectsMayBeThrownAway() async throws {
        try await withProgramFolder { folder in
            let container = try makeContainer(in: folder)
            let context = container.viewContext
            for number in 0..<100 {
                try context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            }
            try context.save()
            let request = FetchRequest<ManagedObject>("Author")
            for _ in 0..<5 { _ = try context.fetch(request) as [ManagedObject] }
            for _ in 0..<5 { _ = Array(try context.fetch(request)) }
            for _ in 0..<5 { _ = try context.fetch(request).map { $0 } }
            #expect(try context.fetch(request).count == 100)
            try container.close()
        }
    }

    @Test func objectsAreThereAtTheNextStart() async throws {
        try await withProgramFolder { folder in
            let container = try makeContainer(in: folder)
            let context = container.viewContext

            let austen = try context.insertObject(entityName: "Author")
            austen["name"] = "Jane Austen"
            for (title, year) in [("Emma", 1815), ("Persuasion", 1817), ("Sanditon", 1925)] {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = title
                book["year"] = year
                book["added"] = Date()
                book["author"] = austen
            }
            let voltaire = try context.insertObject(entityName: "Author")
            try voltaire.setValue("Voltaire", forKey: "name")
            let candide = try context.insertObject(entityName: "Book")
            candide["title"] = "Candide"
            candide["year"] = 1759
            voltaire["books"] = Set([candide])
            #expect(context.hasChanges)
            try context.save()
            #expect(!context.hasChanges)
            #expect(!austen.objectID.isTemporaryID)

            var request = FetchRequest<ManagedObject>(entityName: "Book")
            request.predicate = try QueryPredicate(
                format: "author == %@ AND year BETWEEN {%d, %d}", austen, 1810, 1900)
            request.sortOrderings = [SortOrdering("title", ascending: false)]
            let books = try context.fetch(request)
            #expect(books.map { $0["title"] as? String } == ["Persuasion", "Emma"])
            #expect(books.first?["year"] as? Int == 1817)
            #expect((books.first?["author"] as? ManagedObject)?["name"] as? String == "Jane Austen")
            #expect((austen["books"] as? Set<ManagedObject>)?.count == 3)
            #expect(try austen.value(forKeyPath: "books.@avg.year") as? Double == 1852 + 1.0 / 3)
            #expect(try austen.value(forKeyPath: "books.@max.year") as? Int == 1925)
            #expect(try candide.value(forKeyPath: "author.name") as? String == "Voltaire")

            let named = try QueryPredicate(format: "title IN %@", ["Emma", "Candide"])
            #expect(try context.count(for: FetchRequest("Book", predicate: named)) == 2)

            let authors = try context.fetch(FetchRequest("Author"))
            let theirs = try QueryPredicate(format: "author IN %@", authors)
            #expect(try context.count(for: FetchRequest("Book", predicate: theirs)) == 4)
            let hers = try QueryPredicate(format: "author IN %@", [austen])
            #expect(try context.count(for: FetchRequest("Book", predicate: hers)) == 3)
            // An object that is not saved yet.
            let burney = try context.insertObject(entityName: "Author")
            candide["author"] = burney
            let unsaved = try QueryPredicate(format: "author == %@", burney)
            #expect(try context.fetch(FetchRequest("Book", predicate: unsaved)).first === candide)
            context.rollback()

            context.delete(voltaire)
            #expect(candide.isDeleted)
            try context.save()
            try container.close()

            let next = try makeContainer(in: folder)
            let found = try next.viewContext.fetch(FetchRequest("Author"))
            #expect(found.map { $0["name"] as? String } == ["Jane Austen"])
            #expect(try next.viewContext.count(for: FetchRequest("Book")) == 3)
            try next.close()
        }
    }

    @Test func whatIsMissingIsSaidWhenSaving() async throws {
        try await withProgramFolder { folder in
            let container = try makeContainer(in: folder)
            let context = container.viewContext
            let book = try context.insertObject(entityName: "Book")
            book["year"] = 1815
            do {
                try context.save()
                Issue.record("A book without a title was saved.")
            } catch let error as QuireError {
                #expect(error.code == .validation)
                #expect(error.subject.property == "title")
                #expect(error.localizedDescription.contains("title"))
            }
            #expect(book.isInserted)
            book["title"] = "Emma"
            try context.save()
            #expect(throws: QuireError.self) { try book.setValue("x", forKey: "colour") }
            #expect(throws: QuireError.self) { try context.insertObject(entityName: "Magazine") }
            try container.close()
        }
    }
}
