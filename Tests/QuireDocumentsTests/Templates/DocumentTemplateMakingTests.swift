import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

@MainActor
@Suite(.inClear) struct DocumentTemplateMakingTests {
    private static let model = ManagedObjectModel {
        Composite("Position") {
            Attribute("x", .double)
            Attribute("y", .double).default(2.0)
        }
        Entity("Work") {
            Attribute("id", .string)
            Attribute("title", .string)
            Attribute("folded", .string).derived("canonical:(title)")
            Attribute("scratch", .string).transient()
            Attribute("number", .integer32).default(7)
            Attribute("rate", .float)
            Attribute("weight", .double)
            Attribute("price", .decimal)
            Attribute("isFinished", .boolean)
            Attribute("date", .date)
            Attribute("uuid", .uuid)
            Attribute("link", .uri)
            Attribute("data", .binary).externalStorage()
            Attribute("position", composite: "Position")
            ToMany("parts", "Part", inverse: "work").ordered().deleteRule(.cascade)
            ToMany("readers", "Reader", inverse: "works").ordered()
            ToOne("next", "Work", inverse: "previous")
            ToOne("previous", "Work", inverse: "next")
        }
        Entity("Part") {
            Attribute("name", .string)
            ToOne("work", "Work", inverse: "parts")
        }
        Entity("Reader") {
            Attribute("name", .string)
            ToMany("works", "Work", inverse: "readers").ordered()
        }
        Entity("Critic", inherits: "Reader") { Attribute("paper", .string) }
    }

    /// A document with values of all types, and relationships of all kinds.
    private func makeDocument(in folder: TemporaryFolder) async throws -> String {
        let path = folder.path("Works.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: Self.model)
        let context = document.managedObjectContext
        func insert(_ entity: String, _ name: String) throws -> ManagedObject {
            let object = try context.insertObject(entityName: entity)
            object["name"] = name
            return object
        }
        let first = try context.insertObject(entityName: "Work")
        func relate(_ object: ManagedObject, _ key: String, _ others: [ManagedObject]) throws {
            let relationship = try #require(object.resolvedEntity.relationship(named: key))
            if relationship.isToMany {
                try object.setObjects(others, through: relationship)
            } else {
                try object.setObject(others.first, through: relationship)
            }
        }
        let values: [String: AttributeValue] = [
            "id": "an id", "title": "“É\"\\\n\u{1}/", "number": .null,
            "rate": .double(Double(Float(0.1))), "weight": 1e-7,
            "price": .decimal(try #require(Decimal(string: "12.345"))),
            "isFinished": false, "date": .date(Date(timeIntervalSinceReferenceDate: 0.25)),
            "uuid": .uuid(UUID()),
            "link": .uri(try #require(URL(string: "https://example.org/a?b"))),
            "data": .binary(Self.largeValue), "position.x": .double(.infinity),
            "position.y": .null,
        ]
        for (key, value) in values { try first.setAttributeValue(value, forKey: key) }
        let second = try context.insertObject(entityName: "Work")
        second["title"] = "Second"
        try relate(first, "next", [second])
        let parts = try ["b", "a", "c"].map { try insert("Part", $0) }
        try relate(first, "parts", [parts[2], parts[0], parts[1]])
        let readers = try [insert("Reader", "R"), insert("Critic", "C")]
        try relate(first, "readers", [readers[1], readers[0]])
        try relate(second, "readers", readers)
        try relate(readers[1], "works", [second, first])
        try document.additionalContent.write(Data("content".utf8), at: "Folder/É.txt")
        try await document.close()
        return path
    }

    private static let largeValue = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0) })

    private func change(_ document: String, _ statement: String) throws {
        let connection = try SQLiteConnection(
            path: DocumentPackageLayout(path: document).store, mode: .writing)
        defer { connection.close() }
        try connection.execute(statement)
    }

    /// An object by its entity and its name or title: in another document it has another key.
    private func key(_ object: ManagedObject) throws -> String {
        let name = object.resolvedEntity.name
        let value = try object.attributeValue(forKey: name == "Work" ? "title" : "name")
        return "\(name) \(value)"
    }

    /// All stored values of a document.
    private func values(of path: String) throws -> [String: [String]] {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        let context = QueueConfinedContext(
            coordinator: PersistentStoreCoordinator(store: package.store))
        return try context.performAndWait { context in
            var values: [String: [String]] = [:]
            for object in try ["Work", "Part", "Reader"].flatMap({
                try context.fetch(FetchRequest($0))
            }) {
                for slot in object.resolvedEntity.slots where slot.attribute != nil {
                    let place = "\(try key(object)).\(slot.name)"
                    values[place] = ["\(try object.attributeValue(forKey: slot.name))"]
                }
                for relationship in object.resolvedEntity.relationships {
                    let place = "\(try key(object)).\(relationship.name)"
                    let related =
                        relationship.isToMany
                        ? Array(object.objects(relationship.name))
                        : [object.object(relationship.name)].compactMap(\.self)
                    let keys = try related.map(key)
                    values[place] = relationship.isOrdered ? keys : keys.sorted()
                }
            }
            return values
        }
    }

    @Test func templateOfADocumentMakesAnEqualDocument() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        let before = try contents(ofFolder: path)
        let template = try DocumentTemplate.make(
            from: path, name: "Works", summary: "All of it", in: folder.path("Templates"))
        #expect(template.name == "Works")
        #expect(template.summary == "All of it")
        #expect(try template.model().entities.count == 4)
        #expect(try contents(ofFolder: path) == before)
        #expect(try FileSystem.names(in: folder.path("Templates")) == ["Works"])

        let document = ManagedDocument(path: folder.path("Copy.quire"))
        try await document.create(from: .named("Works", in: folder.path("Templates")))
        #expect(document.additionalContent.paths == ["Folder/É.txt"])
        #expect(
            try document.additionalContent.data(at: "Folder/É.txt") == Data("content".utf8))
        try await document.close()
        let copied = try values(of: folder.path("Copy.quire"))
        let original = try values(of: path)
        for (place, value) in original { #expect(copied[place] == value, "\(place)") }
        #expect(copied.count == original.count)
    }

    @Test func templateOfAnEmptyDocumentHasNoObjects() async throws {
        let folder = try TemporaryFolder()
        let document = ManagedDocument(path: folder.path("Notes.quire"))
        try await document.create(model: notesModel)
        try await document.close()
        try DocumentTemplate.make(
            from: document.path, name: "T", in: folder.path)
        let copy = ManagedDocument(path: folder.path("Copy.quire"))
        try await copy.create(from: .named("T", in: folder.path))
        #expect(try copy.managedObjectContext.count(for: FetchRequest("Note")) == 0)
        try await copy.close()
    }

    @Test func existingNameIsRefusedAndTheTemplateStays() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        try DocumentTemplate.make(from: path, name: "T", in: folder.path("Templates"))
        let before = try contents(ofFolder: folder.path("Templates"))
        let error = failure {
            try DocumentTemplate.make(from: path, name: "T", in: folder.path("Templates"))
        }
        #expect(error?.code == .alreadyExists)
        #expect(error?.message.contains("choose another name") == true)
        #expect(try contents(ofFolder: folder.path("Templates")) == before)
    }

    @Test(arguments: [
        "", ".", "..", ".hidden", "a/b", "/a", "../a", "a\nb", "a\0b", "a\u{7F}", "a\\b",
        String(repeating: "x", count: 256),
    ])
    func badNameIsRefused(_ name: String) async throws {
        let folder = try TemporaryFolder()
        let error = failure {
            try DocumentTemplate.make(
                from: folder.path("Works.quire"), name: name, in: folder.path("Templates"))
        }
        #expect(error?.code == .invalidValue, "\(error?.message ?? "")")
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }

    @Test func templateInADocumentIsRefused() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        let before = try contents(ofFolder: path)
        #expect(failure { try DocumentTemplate.make(from: path, name: "T", in: path) } != nil)
        #expect(try contents(ofFolder: path) == before)
    }

    @Test func protectedDocumentBecomesATemplateOnlyWhenAllowed() async throws {
        let fixture = try await ProtectedDocumentFixture(.complete)
        let folder = fixture.folder.path("Templates")
        let error = failure {
            try DocumentTemplate.make(from: fixture.path, name: "T", in: folder)
        }
        #expect(error?.code == .protectionUnavailable)
        #expect(!FileSystem.exists(folder))
        let template = try DocumentTemplate.make(
            from: fixture.path, name: "T", in: folder, allowsUnprotectedCopy: true)
        let copy = ManagedDocument(path: fixture.folder.path("Copy.quire"))
        try await copy.create(from: template)
        #expect(copy.additionalContent.paths == ["folder/attachment"])
        let notes = try copy.managedObjectContext.fetch(FetchRequest("Note"))
        #expect(
            notes.map { $0["title", as: String.self] }
                == [ProtectedDocumentFixture.canary + "title"])
        try await copy.close()
    }

    @Test func lockedDocumentIsRefused() async throws {
        let fixture = try await ProtectedDocumentFixture(.complete)
        fixture.domain.lockNow()
        let error = failure {
            try DocumentTemplate.make(
                from: fixture.path, name: "T", in: fixture.folder.path("Templates"),
                allowsUnprotectedCopy: true)
        }
        #expect(error?.code == .protectedDataUnavailable)
        #expect(!FileSystem.exists(fixture.folder.path("Templates")))
    }

    @Test func missingLargeValueIsAnErrorAndLeavesNothing() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        let files = DocumentPackageLayout(path: path).externalData
        for name in try FileSystem.names(in: files) {
            try FileSystem.removeFile(FileSystem.path(files, name))
        }
        let templates = folder.path("Templates")
        let error = failure { try DocumentTemplate.make(from: path, name: "T", in: templates) }
        #expect(error != nil)
        #expect(try FileSystem.names(in: templates).isEmpty)
    }

    @Test func danglingReferenceIsAnError() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        try change(path, "UPDATE ZPART SET ZWORK = 99 WHERE Z_PK = 1")
        let error = failure {
            try DocumentTemplate.make(from: path, name: "T", in: folder.path("Templates"))
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("refers to Work/p99, which does not exist") == true)
        #expect(try FileSystem.names(in: folder.path("Templates")).isEmpty)
    }

    @Test func valueThatASeedCannotExpressIsAnError() async throws {
        let folder = try TemporaryFolder()
        let path = try await makeDocument(in: folder)
        try change(path, "UPDATE ZWORK SET ZNUMBER = 5000000000 WHERE Z_PK = 1")
        let error = failure {
            try DocumentTemplate.make(from: path, name: "T", in: folder.path("Templates"))
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("Work/p1.number") == true)
        #expect(try FileSystem.names(in: folder.path("Templates")).isEmpty)
    }
}
