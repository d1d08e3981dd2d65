import Foundation
import Testing

@testable import Quire

@Suite struct ModelBuilderTests {
    @Test func builderMakesTheSameModelAsDescriptions() throws {
        let built = ManagedObjectModel(versionIdentifiers: ["1"]) {
            Entity("Book", inherits: "Item") {
                Attribute("title", .string).required().length(atLeast: 1)
                Attribute("price", .decimal).default(10).minimum(0)
                ToOne("author", "Author", inverse: "books").required()
                Index("byTitle", on: "title", .descending("price"))
                Unique("title", "author")
            }
            Entity("Item").abstract()
            Entity("Author") {
                ToMany("books", "Book", inverse: "author").ordered().deleteRule(.cascade)
                    .count(atMost: 100)
                FetchedProperty("cheap", of: "Book", where: "price < 5")
            }
            ModelConfiguration("Local", entities: ["Item"])
            FetchTemplate("all", of: "Book").limit(10).offset(5).prefetching("author")
                .sorted(by: "price", ascending: false).sorted(by: SortOrdering("title"))
            Composite("Point") { Attribute("x", .double) }
        }

        var title = AttributeDescription(name: "title", type: .string)
        title.isOptional = false
        title.minimum = .integer(1)
        var price = AttributeDescription(name: "price", type: .decimal)
        price.defaultValue = .decimal(10)
        price.minimum = .decimal(0)
        var author = RelationshipDescription(
            name: "author", destination: "Author", inverse: "books")
        author.isOptional = false
        var book = EntityDescription(name: "Book")
        book.superentityName = "Item"
        book.properties = [.attribute(title), .attribute(price), .relationship(author)]
        book.indexes = [
            FetchIndexDescription(
                name: "byTitle",
                elements: [
                    .init(propertyName: "title"), .init(propertyName: "price", isAscending: false),
                ])
        ]
        book.uniquenessConstraints = [["title", "author"]]
        var item = EntityDescription(name: "Item")
        item.isAbstract = true
        var books = RelationshipDescription(name: "books", destination: "Book", inverse: "author")
        books.isToMany = true
        books.isOrdered = true
        books.deleteRule = .cascade
        books.maximumCount = 100
        var request = FetchRequestTemplate(
            name: "fetchedPropertyFetchRequest", entityName: "Book")
        request.predicateFormat = "price < 5"
        var writer = EntityDescription(name: "Author")
        writer.properties = [
            .relationship(books),
            .fetched(FetchedPropertyDescription(name: "cheap", fetchRequest: request)),
        ]
        var template = FetchRequestTemplate(name: "all", entityName: "Book")
        template.fetchLimit = 10
        template.fetchOffset = 5
        template.relationshipKeyPathsForPrefetching = ["author"]
        template.sortOrderings = [SortOrdering("price", ascending: false), SortOrdering("title")]
        var model = ManagedObjectModel(entities: [book, item, writer])
        model.versionIdentifiers = ["1"]
        model.configurations = [.init(name: "Local", entityNames: ["Item"])]
        model.fetchRequestTemplates = [template]
        model.composites = [
            CompositeDescription(
                name: "Point", elements: [AttributeDescription(name: "x", type: .double)])
        ]

        #expect(built == model)
        try built.validate()
    }

    @Test(arguments: [true, false]) func conditionsAndLoopsWork(withNotes: Bool) {
        let model = ManagedObjectModel {
            for name in ["A", "B"] {
                Entity(name) {
                    if withNotes { Attribute("note", .string) } else { Attribute("text", .string) }
                    for number in 1...2 { Attribute("n\(number)", .integer16) }
                    if withNotes { Index("byNote", on: "note") }
                }
            }
            if withNotes { Entity("Note") }
        }
        #expect(model.entities.map(\.name) == (withNotes ? ["A", "B", "Note"] : ["A", "B"]))
        #expect(
            model.entities[1].properties.map(\.name) == [withNotes ? "note" : "text", "n1", "n2"])
        #expect(model.entities[0].indexes.count == (withNotes ? 1 : 0))
    }
}
