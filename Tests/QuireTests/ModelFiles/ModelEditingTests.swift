import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

/// Changes of single parts of a model.
@Suite struct ModelEditingTests {
    private func model(_ text: String) throws -> ManagedObjectModel {
        try ManagedObjectModel(modelText: Data(text.utf8), name: "M")
    }

    private func library() throws -> ManagedObjectModel {
        try model(
            """
            entity Book
              title: string, required, max 10
              author: -> Author.books
              unique title
              index byTitle: title, author
              found: fetched Author

            entity Novel: Book
              hero: string
              unique title, hero

            entity Author, class Author
              books: ->> Book.author
            request all: Author
            configuration C: Author, Book
            """)
    }

    @Test func additionMakesTheInverse() throws {
        var model = try library()
        try model.add(self.model("entity Tag\n\nentity Book\n  tags: ->> Tag.book\n  unique tags"))
        let tag = try #require(model.entity(named: "Tag"))
        #expect(tag.relationships.map(\.name) == ["book"])
        #expect(!tag.relationships[0].isToMany)
        #expect(model.entities[0].uniquenessConstraints == [["title"], ["tags"]])
        #expect(throws: QuireError.self) { try model.add(self.model("entity Tag")) }
        #expect(throws: QuireError.self) {
            try model.add(self.model("entity Book\n  title: string"))
        }
    }

    @Test func renamingFollowsReferences() throws {
        var model = try library()
        try model.renameEntity("Author", to: "Writer")
        try model.renameProperty("title", of: "Book", to: "name")
        try model.renameProperty("books", of: "Writer", to: "works")
        try model.validate()
        #expect(
            model.modelText() == """
                entity Book
                  name: string, required, max 10, was title
                  author: -> Writer.works
                  found: fetched Writer
                  unique name
                  index byTitle: name, author

                entity Novel: Book
                  hero: string
                  unique name, hero

                entity Writer, class Writer, was Author
                  works: ->> Book.author, was books

                request all: Writer

                configuration C: Writer, Book

                """)
        let mapping = try MappingModel.inferred(from: library(), to: model)
        #expect(mapping.entityMappings.allSatisfy { $0.mappingType != .remove })
    }

    @Test func removalTakesWhatRefersToIt() throws {
        var model = try library()
        try model.removeProperty("title", of: "Book")
        #expect(model.entities[0].uniquenessConstraints.isEmpty)
        #expect(model.entities[0].indexes.isEmpty)
        #expect(model.entities[1].uniquenessConstraints.isEmpty)
        try model.removeEntity("Author")
        try model.validate()
        #expect(model.entities[0].properties.isEmpty)
        #expect(model.fetchRequestTemplates.isEmpty)
        #expect(model.configurations[0].entityNames == ["Book"])
        #expect(throws: QuireError.self) { try model.removeEntity("Book") }
        var other = try library()
        try other.removeProperty("author", of: "Book")
        #expect(other.entities[2].properties.isEmpty)
    }

    @Test func partsThatMentionANameAreFound() throws {
        let model = try model(
            """
            entity Book
              title: string, check "length(title) > 1"
              upper: string, derived "uppercase:(title)"
              entitled: string
              similar: fetched Book, where "title == $FETCH_SOURCE.title"
              index partial: entitled where "title != nil"
            request named: Book, where "author.title == $NAME OR entitled == 1"
            request sorted: Book, sort title
            """)
        #expect(
            model.parts(mentioning: "title") == [
                "request “named”", "request “sorted”", "property “Book.title”",
                "property “Book.upper”", "property “Book.similar”",
                "index “partial” of “Book”",
            ])
        #expect(model.parts(mentioning: "titl").isEmpty)
    }

    @Test func settingsChangeOptions() throws {
        var model = try library()
        try model.set(
            [("required", "false"), ("max", "20"), ("matches", #"[a-z ]+"#), ("was", "heading")],
            ofProperty: "title", of: "Book")
        try model.set([("ordered", nil), ("delete", "cascade")], ofProperty: "books", of: "Author")
        try model.set([("abstract", "yes"), ("class", "")], ofProperty: nil, of: "Author")
        let text = model.modelText()
        #expect(text.contains("title: string, max 20, matches \"[a-z ]+\", was heading\n"))
        #expect(text.contains("entity Author, abstract\n  books: ->> Book.author, ordered, delete"))
        try model.set(
            [("type", "integer 32"), ("default", "5"), ("matches", "")], ofProperty: "title",
            of: "Book")
        #expect(model.modelText().contains("title: integer32 = 5, was heading\n"))
        for (name, value) in [
            ("requird", nil), ("required", "maybe"), ("max", "x"), ("default", "y"),
            ("type", "none"), ("delete", "all"), ("info", "a"),
        ] as [(String, String?)] {
            #expect(throws: QuireError.self, "\(name)") {
                try model.set([(name, value)], ofProperty: "title", of: "Book")
            }
        }
        #expect(throws: QuireError.self) {
            try model.set([("required", nil)], ofProperty: "title", of: "Novel")
        }
    }
}
