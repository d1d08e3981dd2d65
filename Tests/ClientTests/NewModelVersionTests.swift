import Foundation
import Quire
import Testing

/// A new version of an app, whose model has changed.
@MainActor @Suite struct NewModelVersionTests {
    private static let first = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("name", .string).required()
            Attribute("minutes", .integer16).default(0)
            Attribute("source", .string)
        }
    }
    private static let second = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("title", .string).required().renamed(from: "name")
            Attribute("minutes", .integer16).default(0)
            Attribute("source", .string)
            Attribute("servings", .integer16).required().default(4)
            ToMany("steps", "Step", inverse: "recipe").ordered().deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("text", .string)
            ToOne("recipe", "Recipe", inverse: "steps")
        }
    }
    /// Without the sources.
    private static let lossy = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("name", .string).required()
            Attribute("minutes", .integer16).default(0)
        }
    }

    private func makeContainer(
        _ model: ManagedObjectModel, _ folder: URL, migration: StoreMigrationOptions? = nil
    ) throws -> PersistentContainer {
        let container = try PersistentContainer(name: "Recipes", managedObjectModel: model)
        container.persistentStoreDescriptions[0].url = folder.appendingPathComponent(
            "Recipes.sqlite")
        if let migration { container.persistentStoreDescriptions[0].migration = migration }
        return container
    }

    private func makeFirstStore(in folder: URL) async throws {
        let container = try makeContainer(Self.first, folder)
        try await container.loadPersistentStores()
        let recipe = try container.viewContext.insertObject(entityName: "Recipe")
        recipe["name"] = "Soup"
        recipe["minutes"] = 30
        recipe["source"] = "Grandmother"
        try container.viewContext.save()
        try container.close()
    }

    @Test func renamedAndNewAttributesAreMigrated() async throws {
        try await withProgramFolder { folder in
            try await makeFirstStore(in: folder)
            let container = try makeContainer(Self.second, folder)
            try await container.loadPersistentStores()
            let context = container.viewContext
            let soup = try #require(try context.fetch(FetchRequest("Recipe")).first)
            #expect(soup["title"] as? String == "Soup")
            #expect(soup["minutes"] as? Int == 30)
            #expect(soup["servings"] as? Int == 4)
            let step = try context.insertObject(entityName: "Step")
            step["text"] = "Boil"
            soup["steps"] = [step]
            try context.save()
            #expect(try soup.value(forKeyPath: "steps.text") as? [String] == ["Boil"])
            try container.close()
        }
    }

    @Test func aLossyChangeIsRefusedAndSaysWhatWouldBeLost() async throws {
        try await withProgramFolder { folder in
            try await makeFirstStore(in: folder)
            let container = try makeContainer(Self.lossy, folder)
            let error = await #expect(throws: QuireError.self) {
                try await container.loadPersistentStores()
            }
            #expect(error?.code == .removalDenied)
            #expect(error?.subject.property == "source")
            #expect(error?.message.contains("Recipes.sqlite") == true)
            #expect(error?.message.contains("source") == true)

            // Nothing has happened, and who wants the loss says so.
            var migration = StoreMigrationOptions()
            migration.allowsRemoval = true
            container.persistentStoreDescriptions[0].migration = migration
            try await container.loadPersistentStores()
            let soup = try container.viewContext.fetch(FetchRequest("Recipe")).first
            #expect(soup?["name"] as? String == "Soup")
            try container.close()
        }
    }

    @Test func aDescriptionWithoutMigrationSaysWhatToDo() async throws {
        try await withProgramFolder { folder in
            try await makeFirstStore(in: folder)
            let container = try PersistentContainer(
                name: "Recipes", managedObjectModel: Self.second)
            container.persistentStoreDescriptions = [
                PersistentStoreDescription(url: folder.appendingPathComponent("Recipes.sqlite"))
            ]
            var failure: QuireError?
            container.loadPersistentStores { _, error in failure = error }
            #expect(failure?.code == .incompatibleModel)
            #expect(failure?.message.contains("migration") == true)
            #expect(failure?.message.contains("Recipes.sqlite") == true)
            container.persistentStoreDescriptions[0].migration = StoreMigrationOptions()
            try await container.loadPersistentStores()
            #expect(try container.viewContext.count(for: FetchRequest("Recipe")) == 1)
            try container.close()
        }
    }
}
