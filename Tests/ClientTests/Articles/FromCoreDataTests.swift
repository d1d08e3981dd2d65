import Foundation
import Quire
import QuireMacros
import Testing

// snippet: from-core-data-3
@Entity final class Voyage: ManagedObject {
    @Attribute var ship: String
    @Attribute var sailed: Date?
    @Attribute var landed: Date?

    override func awakeFromInsert() {
        super.awakeFromInsert()
        sailed = Date()
    }

    override func validateForInsert() throws {
        try super.validateForInsert()
        if let sailed, let landed, landed < sailed {
            throw QuireError(
                .validation, "“\(ship)” landed before it sailed.",
                subject: QuireError.Subject(entity: "Voyage", property: "landed"))
        }
    }
}
// end

/// The code of the article “From Core Data”.
@MainActor @Suite struct FromCoreDataTests {
    @Test func objectsAreFoundByKey() async throws {
        try await withProgramFolder { folder in
            // snippet: from-core-data-1
            let model = ManagedObjectModel {
                Entity("Author") {
                    Attribute("name", .string).required()
                    ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
                }
                Entity("Book") {
                    Attribute("title", .string).required()
                    Attribute("year", .integer16).default(0)
                    ToOne("author", "Author", inverse: "books")
                }
            }
            let container = try PersistentContainer(name: "Library", managedObjectModel: model)
            container.persistentStoreDescriptions[0].url =
                folder.appendingPathComponent("Library.sqlite")
            try await container.loadPersistentStores()
            let context = container.viewContext
            // end
            // snippet: from-core-data-2
            let austen = try context.insertObject(entityName: "Author")
            austen["name"] = "Jane Austen"
            for (title, year) in [("Persuasion", 1817), ("Emma", 1815)] {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = title
                book["year"] = year
                book["author"] = austen
            }
            try context.save()

            var request = FetchRequest<ManagedObject>(entityName: "Book")
            request.predicate = try QueryPredicate(
                format: "author.name BEGINSWITH[c] %@ AND year < %d", "jane", 1816)
            request.sortOrderings = [SortOrdering("title")]
            let titles = try context.fetch(request).map { $0["title", as: String.self] ?? "" }
            // end
            #expect(titles == ["Emma"])
            #expect(try context.count(for: FetchRequest("Book")) == 2)
            context.delete(austen)
            #expect(try context.count(for: FetchRequest("Book")) == 0)
            try container.close()
        }
    }

    @Test func aFailedSaveSaysWhatIsWrong() throws {
        let model = try ManagedObjectModel(classes: [Voyage.self])
        let container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        let context = container.viewContext
        // snippet: from-core-data-4
        let voyage = Voyage(context: context)
        voyage.ship = "Laconia"
        voyage.landed = .distantPast
        do {
            try context.save()
        } catch let error as QuireError where error.code == .validation {
            print(error.message, error.subject.property ?? "")
            voyage.landed = nil
        }
        try context.save()
        // end
        #expect(voyage.sailed != nil)
        #expect(!context.hasChanges)
        #expect(try context.count(for: Voyage.self) == 1)
    }
}
