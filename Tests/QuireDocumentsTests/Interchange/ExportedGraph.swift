import Foundation
import Quire
import QuireAtomicStores
import QuireDocuments
import QuireSQLite
import QuireStore
import QuireTestSupport

/// A store with everything that an export has to express.
struct ExportedGraph {
    let store: any PersistentStore
    let coordinator: PersistentStoreCoordinator

    enum Kind: String, CaseIterable, Sendable {
        case sqlite, xml, binary, inMemory

        func create(_ model: ManagedObjectModel, in folder: TemporaryFolder) throws
            -> any PersistentStore
        {
            let path = folder.path("store-\(UUID().uuidString).\(rawValue)")
            var model = model
            // XML stores refuse names that differ only in case.
            if self == .xml {
                for index in model.entities.indices {
                    model.entities[index].properties.removeAll { $0.name == "Group" }
                }
            }
            switch self {
            case .sqlite: return try SQLiteStore.create(at: path, model: model)
            case .xml: return try XMLStore.create(at: path, model: model)
            case .binary: return try BinaryStore.create(at: path, model: model)
            case .inMemory: return try InMemoryStore(model: model)
            }
        }
    }

    static let model = ManagedObjectModel {
        Composite("Place") {
            Attribute("latitude", .double)
            Attribute("name", .string)
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("place", composite: "Place")
            Attribute("chapterCount", .integer32).derived("chapters.@count")
            ToOne("author", "Person", inverse: "books")
            ToOne("cover", "Cover", inverse: "book")
            ToMany("chapters", "Chapter", inverse: "book").ordered()
            ToMany("tags", "Tag", inverse: "books")
            ToMany("similar", "Book", inverse: "similar")
            ToMany("shelves", "Shelf", inverse: "books").ordered()
        }
        Entity("Chapter") {
            Attribute("picture", .binary).externalStorage()
            Attribute("thumbnail", .binary).externalStorage()
            Attribute("title", .string)
            ToOne("book", "Book", inverse: "chapters")
        }
        Entity("Cover") { ToOne("book", "Book", inverse: "cover") }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "tags")
        }
        Entity("Shelf") { ToMany("books", "Book", inverse: "shelves").ordered() }
        Entity("Person") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author")
        }
        Entity("Author", inherits: "Person") {
            Attribute("rank", .integer32)
            Attribute("country", .string)
        }
        Entity("Poet", inherits: "Author") { Attribute("meter", .string) }
        Entity("Translator", inherits: "Person") {
            Attribute("rank", .string)
            Attribute("country", .string)
        }
        Entity("Everything") {
            for type in types { Attribute(name(of: type), type) }
            Attribute("external", .binary).externalStorage()
            Attribute("unsaved", .string).transient()
        }
        Entity("Order") {
            Attribute("id", .string)
            Attribute("select", .string)
            Attribute("group", .integer16)
            Attribute("Group", .integer16)
        }
        Entity("select") {}
        Entity("Größe") { Attribute("maß", .decimal) }
        Entity("sqlite_things") { Attribute("rowid", .string) }
    }

    static let types: [AttributeType] = [
        .integer16, .integer32, .integer64, .decimal, .double, .float, .string, .boolean, .date,
        .binary, .uuid, .uri, .transformable,
    ]

    static func name(of type: AttributeType) -> String { "\(type)Value" }

    /// A text that is difficult for SQL, CSV and JSON.
    static let text = "“a” \"b\", 'c';\r\n\td\\e \u{1F4DA} é"
    static let date = Date(timeIntervalSinceReferenceDate: 123.25)
    static let uuid = "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70"
    /// Larger than a value kept in its row.
    static let large = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })

    init(_ store: any PersistentStore) throws {
        self.store = store
        coordinator = PersistentStoreCoordinator(store: store)
    }

    /// Fills a new store of a kind.
    @MainActor static func make(_ kind: Kind, in folder: TemporaryFolder) throws -> ExportedGraph {
        let graph = try ExportedGraph(kind.create(model, in: folder))
        try fill(.mainQueue(coordinator: graph.coordinator))
        return graph
    }

    /// Adds the objects.
    @MainActor static func fill(_ context: ManagedObjectContext) throws {
        func insert(_ entity: String, _ values: [String: AttributeValue] = [:]) throws
            -> ManagedObject
        {
            let object = try context.insertObject(entityName: entity)
            for (key, value) in values { try object.setAttributeValue(value, forKey: key) }
            return object
        }
        let author = try insert("Author", ["name": "Jane", "rank": 3, "country": "GB"])
        _ = try insert("Person", ["name": "Nobody"])
        _ = try insert("Translator", ["name": "Luis", "rank": "first", "country": "ES"])
        let poet = try insert("Poet", ["name": "Ovid", "rank": 1, "meter": "hexameter"])
        let books = try ["Emma", "Ars", "Empty"].map { try insert("Book", ["title": .string($0)]) }
        let chapters = try ["one", "two", "three", "loose"].map {
            try insert("Chapter", ["title": .string($0)])
        }
        chapters[0]["picture"] = large
        chapters[0]["thumbnail"] = Data([1, 2])
        chapters[1]["thumbnail"] = large
        let cover = try insert("Cover")
        let tags = try ["a", "b"].map { try insert("Tag", ["name": .string($0)]) }
        let shelves = try (0..<2).map { _ in try insert("Shelf") }
        books[0]["author"] = author
        books[1]["author"] = poet
        books[0]["cover"] = cover
        try books[0].setAttributeValue(
            .composite(["latitude": 51.5, "name": .string(text)]), forKey: "place")
        books[0]["chapters"] = [chapters[2], chapters[0], chapters[1]]
        books[0]["tags"] = [tags[0], tags[1]]
        books[1]["tags"] = [tags[1]]
        books[0]["similar"] = [books[1]]
        books[0]["shelves"] = [shelves[1], shelves[0]]
        shelves[0]["books"] = [books[2], books[0]]
        _ = try insert("Everything")
        _ = try insert("Everything", greatest)
        _ = try insert("Everything", least)
        let order = try insert("Order", ["id": "x", "select": "*", "group": 1])
        if order.entity.attributesByName["Group"] != nil { order["Group"] = 2 }
        _ = try insert("sqlite_things", ["rowid": "r"])
        try context.save()
    }

    private static var greatest: [String: AttributeValue] {
        [
            "integer16Value": 32767, "integer32Value": 2_147_483_647,
            "integer64Value": .integer(.max), "decimalValue": .decimal(Decimal(string: "1234.50")!),
            "doubleValue": .double(.greatestFiniteMagnitude), "floatValue": .double(0.1),
            "stringValue": .string(text), "booleanValue": true, "dateValue": .date(date),
            "binaryValue": .binary(Data([0, 255, 10, 13, 34])),
            "uuidValue": .uuid(UUID(uuidString: uuid)!),
            "uriValue": .uri(URL(string: "https://example.org/%C3%A9?a=b,c")!),
            "transformableValue": .binary(Data("transformed".utf8)), "external": .binary(large),
            "unsaved": "gone",
        ]
    }

    private static var least: [String: AttributeValue] {
        [
            "integer16Value": -32768, "integer32Value": -2_147_483_648,
            "integer64Value": .integer(.min), "decimalValue": .decimal(Decimal(string: "-0.001")!),
            "doubleValue": .double(-.infinity),
            "floatValue": .double(Double(-Float.greatestFiniteMagnitude)),
            "stringValue": "", "booleanValue": false,
            "dateValue": .date(Date(timeIntervalSinceReferenceDate: -63_114_076_800)),
            "binaryValue": .binary(Data()), "uriValue": .uri(URL(string: "urn:x")!),
            "external": .binary(Data([7])),
        ]
    }
}
