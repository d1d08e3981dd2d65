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

    /// Each version renames `a` to `b` and `b` to `c` by the name before, so that `b` is both a name and an identifier.
    @Test(arguments: [StoreType.sqlite, .xml, .binary]) @MainActor
    func renamingAChainTwiceLosesNothing(type: StoreType) throws {
        func model(_ names: [(name: String, before: String?)]) -> ManagedObjectModel {
            var thing = EntityDescription(name: "Thing")
            thing.properties = names.map { name, before in
                FixtureModels.attribute(name, .string) { $0.renamingIdentifier = before }
            }
            return ManagedObjectModel(
                entities: [thing]
                    + names.map { name, before in
                        var entity = FixtureModels.entity(
                            name.uppercased(), FixtureModels.attribute("text", .string))
                        entity.renamingIdentifier = before?.uppercased()
                        return entity
                    })
        }
        let versions = [
            [("a", nil), ("b", nil)], [("b", "a"), ("c", "b")], [("x", "b"), ("y", "c")],
        ]
        let folder = try TemporaryFolder()
        let path = folder.path("store.\(type.rawValue)")
        for (number, names) in versions.enumerated() {
            let container = try PersistentContainer(
                managedObjectModel: model(names),
                persistentStoreDescriptions: [Self.description(path, type)])
            let context = container.viewContext
            if number == 0 {
                let thing = try context.insertObject(entityName: "Thing")
                for (name, _) in names {
                    thing[name] = name
                    try context.insertObject(entityName: name.uppercased())["text"] = name
                }
                try context.save()
            } else {
                let thing = try #require(try context.fetch(FetchRequest("Thing")).first)
                #expect(names.map { thing[$0.0, as: String.self] } == ["a", "b"])
                let texts = try names.map {
                    try context.fetch(FetchRequest($0.0.uppercased())).map {
                        $0["text", as: String.self]
                    }
                }
                #expect(texts == [["a"], ["b"]])
            }
            try container.close()
        }
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
