import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

/// Models as text: what is written is read as the same model, and mistakes have a place and a hint.
@Suite struct ModelTextTests {
    private static func parse(_ text: String) throws -> ManagedObjectModel {
        try ManagedObjectModel(modelText: Data(text.utf8), name: "M.quiremodel")
    }

    private static func message(of text: String) -> String {
        do {
            _ = try parse(text)
            return "no error"
        } catch let error as QuireError where error.code == .invalidModel {
            return error.message
        } catch {
            return "another error: \(error)"
        }
    }

    @Test func textReadsAsThePartsItNames() throws {
        let model = try Self.parse(
            """
            version "Library 1"
            usedWith cloudKit

            # People who write.
            entity Author: Person, class Library.Author, was Writer
              name: string = "Anonymous", required, min 1, max 80
              born: Int16, max 2010
              age: integer 32 = -1  # in years
              books: ->> Book.author, ordered, max 100, delete cascade
              unique name, born
              index name, born descending
              index recent: born, where 'born > 1900'

            entity Person, abstract
            entity Book
              "odd name": bool
              code: text, matches '^\\d+"$', check "length < 9" message "is too long"
              size: composite Size
              bookCount: integer64, derived author.books
              author: -> Author.books,
                required, delete deny
              similar: fetched Book, where "author == $FETCH_SOURCE.author", sort title descending
                comparing cd, limit 5
            composite Size
              width: double
            request byName: Book, where "author.name == $NAME", distinct
            configuration Local, cloudKit: Author, Person
            """.replacing("descending\n    comparing", with: "descending comparing"))
        #expect(model.versionIdentifiers == ["Library 1"])
        #expect(model.usedWithCloudKit && !model.usedWithSwiftData)
        #expect(model.entities.map(\.name) == ["Author", "Person", "Book"])
        let author = model.entities[0]
        #expect(author.superentityName == "Person")
        #expect(author.managedObjectClassName == "Library.Author")
        #expect(author.renamingIdentifier == "Writer")
        #expect(author.attributes[0].defaultValue == "Anonymous")
        #expect(!author.attributes[0].isOptional)
        #expect(author.attributes[1].type == .integer16)
        #expect(author.attributes[2].type == .integer32)
        #expect(author.attributes[2].defaultValue == -1)
        #expect(author.relationships[0].isToMany && author.relationships[0].isOrdered)
        #expect(author.relationships[0].inverseName == "author")
        #expect(author.relationships[0].maximumCount == 100)
        #expect(author.uniquenessConstraints == [["name", "born"]])
        #expect(author.indexes.map(\.name) == ["byNameBorn", "recent"])
        #expect(author.indexes[1].partialIndexPredicate == "born > 1900")
        #expect(model.entities[1].isAbstract)
        let book = model.entities[2]
        #expect(book.properties[0].name == "odd name")
        #expect(book.attributes[1].regularExpression == "^\\d+\"$")
        #expect(book.attributes[1].validationPredicates[0].message == "is too long")
        #expect(book.attributes[2].compositeName == "Size")
        #expect(book.attributes[3].derivationExpression == "author.books")
        #expect(book.relationships[0].maximumCount == 1)
        #expect(book.relationships[0].deleteRule == .deny)
        #expect(model.fetchRequestTemplates[0].returnsDistinctResults)
        #expect(model.configurations[0].usedWithCloudKit)
        #expect(try Self.parse(model.modelText()) == model)
    }

    @Test func everythingSurvivesWritingAndReading() throws {
        var model = ModelXMLTests.everything
        model.entities[0].userInfo["nested"] = [
            "list": [1, 2.5, true, "it's \"so\"\n\u{202E}", .data(Data([0, 255]))],
            "date": .date(Date(timeIntervalSinceReferenceDate: 0.1)), "": .real(.infinity),
        ]
        model.entities[0].leftOutNames = ["oldIndex"]
        guard case .attribute(var attribute) = model.entities[0].properties[0] else { return }
        attribute.validationPredicates = [
            ValidationPredicate("SELF != 3"), ValidationPredicate("SELF != 4", message: "is four"),
        ]
        attribute.compositeName = "Place"
        model.entities[0].properties[0] = .attribute(attribute)
        var relationship = RelationshipDescription(name: "of", destination: "no name")
        relationship.inverseName = "of"
        model.entities[0].properties.append(.relationship(relationship))
        relationship.name = "unknown"
        (relationship.inverseName, relationship.inverseEntityName) = (nil, "Sub")
        model.entities[0].properties.append(.relationship(relationship))
        var index = FetchIndexDescription(name: "where", elements: [.init(propertyName: "where")])
        index.elements[0].kind = .fullText
        model.entities[0].indexes += [
            index, .init(name: "", elements: [.init(propertyName: "expression")]),
            .init(name: "none", elements: []),
        ]
        let text = model.modelText()
        let read = try Self.parse(text)
        #expect(read == model)
        for (left, right) in zip(read.entities, model.entities) {
            for (left, right) in zip(left.properties, right.properties) { #expect(left == right) }
        }
        #expect(read.entities[0].leftOutNames == ["oldIndex"])
        #expect(read.modelText() == text)
        // Everything is on lines that a terminal shows as they are.
        #expect(!text.unicodeScalars.contains { $0 != "\n" && TerminalText.isObeyed($0) })
    }

    @Test func fixtureModelsSurvive() throws {
        for model in [FixtureModels.library, FixtureModels.derivedLibrary, FixtureModels.everyType]
        {
            #expect(try Self.parse(model.modelText()) == model)
        }
    }

    @Test(.corpus) func everyModelOfTheCorpusSurvives() throws {
        let files = Corpus.files {
            $0.hasSuffix("/contents") || $0.hasSuffix(".mom") || $0.hasSuffix("/elements")
        }
        try #require(!files.isEmpty)
        for file in files {
            guard let model = try? ManagedObjectModel(contentsOf: file.path) else { continue }
            let text = model.modelText()
            #expect(try Self.parse(text) == model, "\(file.path)")
            #expect(try Self.parse(text).modelText() == text, "\(file.path)")
        }
    }

    @Test(arguments: [
        (
            "entity A\n  title: strng",
            "line 2, column 10: “strng” is not a type; did you mean “string”?"
        ),
        (
            "entity A\n  a: string, requird",
            "line 2, column 14: “requird” is not an option of an attribute; did you mean “required”?"
        ),
        (
            "entity A\n  a: string required",
            "line 2, column 13: “required” is unexpected; separate options with commas."
        ),
        (
            "entiti A",
            "line 1, column 1: “entiti” is not a keyword (a property requires a colon after its name); did you mean “entity”?"
        ),
        ("title: string", "line 1, column 1: The property “title” is outside an entity"),
        ("entity A\n  a: integer16 = 1.5", "line 2, column 18: “1.5” is not an integer"),
        ("entity A\n  a: integer16 = 40000", "line 2, column 18: “40000” is out of the range"),
        ("entity A\n  b: -> B, delete casade", "did you mean “cascade”?"),
        ("entity A\n  b: B", "“B” is not a type (a relationship is “-> B”)"),
        ("entity A\n  unique: isbn", "write “unique isbn”, without a colon"),
        ("entity A\n  a: string = \"open", "line 2, column 15: The text has no closing \""),
        ("entity A\n  a: string = \"\\q\"", "line 2, column 16: The escape is unknown"),
        ("entity A\n  a: string;", "line 2, column 12: The character “;” is unexpected"),
        ("composite C\n  a: -> B", "A composite can contain only attributes."),
        ("unique a", "“unique” is outside an entity"),
        ("entity", "The end of the text is unexpected; a name or a text is expected here."),
        ("entity A\n  a: string, info k = [1", "“]” is expected at the end of the values."),
        (
            "entity A, info k = \(String(repeating: "[", count: 100_000))",
            "Values are nested more than 64 deep."
        ),
    ])
    func mistakeHasItsPlaceAndAHint(_ text: String, _ expected: String) {
        let message = Self.message(of: text)
        #expect(message.hasPrefix("M.quiremodel, line"))
        #expect(message.contains(expected), "\(message)")
    }

    @Test func sizeAndEncodingAreChecked() {
        let large = String(repeating: "#", count: ModelTextParser.maximumSize + 1)
        #expect(Self.message(of: large).contains("a model in text form has at most"))
        #expect(throws: QuireError.self) {
            try ManagedObjectModel(modelText: Data([0xFF, 0xFE, 0]), name: "m")
        }
    }

    @Test func damagedTextsAreErrorsOrModels() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let scalars = Array(ModelXMLTests.everything.modelText().unicodeScalars)
        let replacements = Array("\",:=[]{}->.'\\#\n aé0".unicodeScalars)
        for _ in 0..<300 {
            var damaged = scalars
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<damaged.count, using: &random)
                if Bool.random(using: &random) {
                    damaged[place] = replacements.randomElement(using: &random) ?? "a"
                } else {
                    damaged.removeSubrange(
                        place..<min(damaged.count, place + Int.random(in: 1...40, using: &random)))
                }
            }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: damaged)
            do {
                let model = try Self.parse(String(text))
                #expect(try Self.parse(model.modelText()) == model, "seed \(seed)")
                try? model.validate()
            } catch is QuireError {
            } catch {
                Issue.record("seed \(seed): \(error)")
            }
        }
    }

    @Test func modelFilesOfTextAreReadAndModelsAreWrittenForXcode() throws {
        let folder = try TemporaryFolder()
        let model = ModelXMLTests.everything
        try Data(model.modelText().utf8).write(
            to: URL(fileURLWithPath: folder.path("M.quiremodel")))
        #expect(try ManagedObjectModel(contentsOf: folder.path("M.quiremodel")) == model)
        try model.write(to: folder.path("M.xcdatamodeld"))
        let versions = try ModelVersions(contentsOf: folder.path("M.xcdatamodeld"))
        #expect(versions.names == ["M"] && versions.currentName == "M")
        #expect(try versions.currentModel() == model)
        #expect(throws: QuireError.self) { try model.write(to: folder.path("M.xcdatamodeld")) }
    }
}
