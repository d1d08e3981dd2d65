import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Stores that are written as a whole, opened with another version of their model.
@Suite struct FileStoreMigrationTests {
    private static func description(
        _ path: String, _ type: StoreType, migrates: Bool = true
    ) -> PersistentStoreDescription {
        var description = PersistentStoreDescription(path: path, type: type)
        if migrates { description.migration = StoreMigrationOptions() }
        return description
    }

    @MainActor private static func fill(_ description: PersistentStoreDescription) throws -> String
    {
        let container = try PersistentContainer(
            managedObjectModel: FixtureModels.library, persistentStoreDescriptions: [description])
        let context = container.viewContext
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        let tag = try context.insertObject(entityName: "Tag")
        tag["name"] = "novel"
        for title in ["Emma", "Persuasion"] {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["author"] = author
            book.add(tag, to: "tags")
        }
        try context.save()
        let store = try #require(container.persistentStoreCoordinator.persistentStores.first)
        try store.setMetadata("here", forKey: "com.example.note")
        defer { try? container.close() }
        return store.identity.uuid
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary]) @MainActor
    func aDescriptionsMigrationIsHonouredByEveryType(type: StoreType) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store.\(type.rawValue)")
        let uuid = try Self.fill(Self.description(path, type))
        let model = InPlaceTests.newModel()
        let file = try Data(contentsOf: URL(fileURLWithPath: path))
        let error = #expect(throws: QuireError.self) {
            try PersistentContainer(
                managedObjectModel: model,
                persistentStoreDescriptions: [Self.description(path, type, migrates: false)])
        }
        #expect(error?.code == .incompatibleModel)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == file)

        let container = try PersistentContainer(
            managedObjectModel: model, persistentStoreDescriptions: [Self.description(path, type)])
        let store = try #require(container.persistentStoreCoordinator.persistentStores.first)
        #expect(store.identity.uuid == uuid)
        #expect(try store.metadata()["com.example.note"]?.string == "here")
        let books = try container.viewContext.fetch(FetchRequest("Book"))
        #expect(Set(books.map { $0["title", as: String.self] }) == ["Emma", "Persuasion"])
        #expect(books.allSatisfy { $0["publisher", as: String.self] == "unknown" })
        #expect(
            books.allSatisfy { $0.objects("tags").map { $0["word", as: String.self] } == ["novel"] }
        )
        #expect(books.allSatisfy { $0.object("author")?["name", as: String.self] == "Austen" })
        books[0]["publisher"] = "Egerton"
        let key = books.map(\.objectID.primaryKey).max() ?? 0
        let added = try container.viewContext.insertObject(entityName: "Book")
        added["title"] = "Lady Susan"
        try container.viewContext.save()
        #expect(added.objectID.primaryKey > key)
        try container.close()
        // It carries the new model.
        let again = try StoreFile(at: path).open()
        #expect(again.layout.model.entity(named: "Tag")?.property(named: "word") != nil)
        #expect(try again.count(matching: FetchSpecification("Book")) == 3)
        try again.close()
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path)
                == ["store.\(type.rawValue)"])
    }

    /// That a file cannot be opened now says nothing about the model it was made with.
    @Test func onlyAModelThatDoesNotFitIsAnotherVersion() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        // As Core Data writes it: without the model.
        let text = """
            <?xml version="1.0" standalone="yes"?>
            <!DOCTYPE database SYSTEM "file:///System/Library/DTDs/CoreData.dtd">
            <database><databaseInfo>
                <version>134481920</version>
                <UUID>6C5D8B0E-7A0F-4E0C-9B55-0C7B0F1E2D3A</UUID>
                <nextObjectID>101</nextObjectID>
                <metadata><plist version="1.0"><dict>
                    <key>NSStoreModelVersionHashes</key><dict></dict>
                </dict></plist></metadata>
            </databaseInfo></database>
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        let (model, migration) = (FixtureModels.library, StoreMigrationOptions())
        try XMLStore.migrate(at: path, to: model, migration, AtomicStoreOptions())
        var options = AtomicStoreOptions()
        options.fileProtection = .complete
        let error = #expect(throws: QuireError.self) {
            try XMLStore.migrate(at: path, to: model, migration, options)
        }
        #expect(error?.code == .protectionUnavailable)
    }
}
