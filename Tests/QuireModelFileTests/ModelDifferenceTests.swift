import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct ModelDifferenceTests {
    private func book() -> ManagedObjectModel {
        var book = EntityDescription(name: "Book")
        book.properties = [
            .attribute(.init(name: "title", type: .string)),
            .relationship(.init(name: "author", destination: "Author", inverse: "books")),
        ]
        var author = EntityDescription(name: "Author")
        var books = RelationshipDescription(name: "books", destination: "Book", inverse: "author")
        books.isToMany = true
        author.properties = [.relationship(books)]
        return ManagedObjectModel(entities: [book, author])
    }

    /// A compiled model has the predicate, not its text.
    @Test func predicatesAreComparedHoweverTheyAreWritten() throws {
        func model(_ format: String) -> ManagedObjectModel {
            var request = FetchRequestTemplate(
                name: "fetchedPropertyFetchRequest", entityName: "A")
            request.predicateFormat = format
            var done = AttributeDescription(name: "done", type: .boolean)
            done.validationPredicates = [
                ValidationPredicate(
                    format.replacing("done", with: "SELF"), message: "is not valid")
            ]
            var entity = EntityDescription(name: "A")
            entity.properties = [
                .attribute(done),
                .fetched(FetchedPropertyDescription(name: "f", fetchRequest: request)),
            ]
            var model = ManagedObjectModel(entities: [entity])
            model.fetchRequestTemplates = [request]
            return model
        }
        let source = model("(done == false) && done != nil")
        let compiled = try ManagedObjectModel(
            compiledModel: source.compiledModel().data, name: "test")
        #expect(ModelDifference(from: source, to: compiled).changes == [])
        #expect(
            ModelDifference(from: source, to: model("done = NO AND done <> NULL")).changes == [])
        #expect(
            ModelDifference(from: source, to: model("done == true && done != nil")).changes.count
                == 3)
        #expect(ModelDifference(from: source, to: model("done ==")).changes.count == 3)
    }

    @Test func equalModelsDoNotDiffer() {
        let difference = ModelDifference(from: book(), to: book())
        #expect(difference.changes == [])
        #expect(!difference.changesStores)
    }

    @Test func renamedEntitiesAndPropertiesAreRecognised() {
        var new = book()
        new.entities[1].name = "Writer"
        new.entities[1].renamingIdentifier = "Author"
        var writer = RelationshipDescription(
            name: "writer", destination: "Writer", inverse: "books")
        writer.renamingIdentifier = "author"
        new.entities[0].properties[1] = .relationship(writer)
        var books = RelationshipDescription(name: "books", destination: "Book", inverse: "writer")
        books.isToMany = true
        new.entities[1].properties = [.relationship(books)]
        let difference = ModelDifference(from: book(), to: new)
        #expect(
            difference.changes.map(\.description) == [
                "~ relationship Book.writer (was author)", "~ entity Writer (was Author)",
                "~ relationship Writer.books: inverse: author → writer",
            ])
        #expect(difference.changesStores)
    }

    @Test func everyKindOfChangeIsTold() {
        var new = book()
        var title = AttributeDescription(name: "title", type: .integer16)
        title.isOptional = false
        title.defaultValue = 3
        new.entities[0].properties = [
            .attribute(title), .attribute(.init(name: "isbn", type: .string)),
        ]
        new.entities[0].isAbstract = true
        new.entities[1] = EntityDescription(name: "Tag")
        new.versionIdentifiers = ["2"]
        new.fetchRequestTemplates = [.init(name: "all", entityName: "Book")]
        let difference = ModelDifference(from: book(), to: new)
        #expect(
            difference.changes.map(\.description) == [
                "~ model: version: none → 2", "~ entity Book: abstract: no → yes",
                "+ attribute Book.isbn",
                "~ attribute Book.title: type: \(AttributeType.string.title) → "
                    + "\(AttributeType.integer16.title); optional: yes → no; default: none → 3",
                "- relationship Book.author", "+ entity Tag", "- entity Author",
                "+ fetch request “all”",
            ])
    }

    @Test func whatStoresDoNotKeepDoesNotChangeThem() {
        var new = book()
        new.entities[0].userInfo = ["a": "b"]
        new.entities[0].indexes = [.init(name: "byTitle", elements: [.init(propertyName: "title")])]
        let difference = ModelDifference(from: book(), to: new)
        #expect(difference.changes.map(\.description) == ["~ entity Book: indexes; user info"])
        #expect(!difference.changesStores)
    }

    @Test(.corpus) func versionsOfTheCorpusDiffer() throws {
        let folders = Corpus.files { $0.hasSuffix("SampleModel.momd") }
        let folder = try #require(folders.first)
        let versions = try ModelVersions(contentsOf: folder.path)
        let difference = try ModelDifference(
            from: versions.model(named: "SampleModel"), to: versions.model(named: "SampleModel2"))
        #expect(
            difference.changes.contains {
                $0.entity == "LuxuryCar" && $0.formerName == "ExpensiveSportCar"
            })
        #expect(difference.changesStores)
    }
}
