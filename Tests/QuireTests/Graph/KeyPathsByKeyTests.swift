import Foundation
import Quire
import QuireTestSupport
import Testing

private enum Genre: String, CaseIterable, Codable { case novel, poetry }

/// As `quire model generate --template accessors` writes classes, and as people do by hand.
private final class Writer: ManagedObject {
    var name: String {
        get { self["name", as: String.self] ?? "" }
        set { self["name"] = newValue }
    }
    var volumes: Set<Volume> { self["volumes", as: Set<Volume>.self] }
}

private final class Volume: ManagedObject {
    var title: String? { self["title", as: String.self] }
    var year: Int16 { self["year", as: Int16.self] ?? 0 }
    var genre: Genre { self["genre", as: Genre.self] ?? .poetry }
    var writer: Writer? { self["writer", as: Writer.self] }
    var isLent: Bool { self["isLent", as: Bool.self] ?? false }
    // Without a type.
    var plainTitle: String { self["title"] as? String ?? "" }
    var plainYear: Int? { (try? value(forKey: "year")) as? Int }
    var plainWriter: Writer? { object("writer") as? Writer }
    // No property of the model.
    var shout: String { (title ?? "").uppercased() }
    var isOld: Bool { year < 1816 }
}

/// Key paths of classes without macros, whose properties read by key.
@MainActor @Suite struct KeyPathsByKeyTests {
    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel {
            Entity("Writer") {
                Attribute("name", .string)
                ToMany("volumes", "Volume", inverse: "writer")
            }
            Entity("Volume") {
                Attribute("title", .string)
                Attribute("year", .integer16)
                Attribute("genre", .string)
                Attribute("isLent", .boolean)
                ToOne("writer", "Writer", inverse: "volumes")
            }
        }
        model.entities[0].objectClass = Writer.self
        model.entities[1].objectClass = Volume.self
        return model
    }()

    @Test func keyPathsOfReadsByKeyHaveNames() {
        #expect(Volume.propertyName(for: \.title) == "title")
        #expect(Volume.propertyName(for: \.year) == "year")
        #expect(Volume.propertyName(for: \.genre) == "genre")
        #expect(Volume.propertyName(for: \.isLent) == "isLent")
        #expect(Volume.propertyName(for: \.writer?.name) == "writer.name")
        #expect(Volume.propertyName(for: \.writer?.objectID) == "writer.objectID")
        #expect(Writer.propertyName(for: \.volumes) == "volumes")
        #expect(Volume.propertyName(for: \.plainTitle) == "title")
        #expect(Volume.propertyName(for: \.plainYear) == "year")
        #expect(Volume.propertyName(for: \.plainWriter) == "writer")
    }

    @Test func computedPropertiesHaveNone() {
        #expect(Volume.propertyName(for: \.shout) == nil)
        #expect(Volume.propertyName(for: \.isOld) == nil)
        #expect(Volume.propertyName(for: \.title?.count) == nil)
        // What is read without a type can only be the last.
        #expect(Volume.propertyName(for: \.plainWriter?.name) == nil)
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary, .inMemory])
    func theyCanBeFetchedBySortedAndAsked(_ type: StoreType) throws {
        let folder = try TemporaryFolder()
        let container = try PersistentContainer(
            managedObjectModel: Self.model,
            persistentStoreDescriptions: [
                type == .inMemory
                    ? PersistentStoreDescription(type: type)
                    : PersistentStoreDescription(path: folder.path("store"), type: type)
            ])
        let context = container.viewContext
        let austen = Writer(context: context)
        austen.name = "Jane Austen"
        for (title, year, genre) in [("Persuasion", 1817, "novel"), ("Emma", 1815, "novel")] {
            let volume = Volume(context: context)
            volume["title"] = title
            volume["year"] = year
            volume["genre"] = genre
            volume["writer"] = austen
        }
        try context.save()

        var request = FetchRequest<Volume>()
        request.sortOrderings = [
            SortOrdering(\Volume.writer?.name), SortOrdering(\Volume.year),
        ]
        #expect(try context.fetch(request).map(\.title) == ["Emma", "Persuasion"])
        let early = try context.fetch(
            Volume.self,
            where: #Predicate {
                $0.year < 1816 && $0.writer?.name == "Jane Austen" && $0.plainTitle == "Emma"
            }, sortBy: [SortDescriptor(\.year)])
        #expect(early.map(\.title) == ["Emma"])
        #expect(
            try context.fetch(
                Writer.self, where: #Predicate { $0.volumes.contains { $0.year == 1817 } }
            ).count == 1)
        #expect(throws: QuireError.self) {
            try context.fetch(Volume.self, where: #Predicate { $0.shout == "EMMA" })
        }
        try container.close()
    }
}
