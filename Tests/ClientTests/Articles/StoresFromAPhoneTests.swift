import Foundation
import Quire
import Testing

/// The code of the article “Stores from a phone”. The stores of Apple's frameworks that are read elsewhere in the tests are
/// not at hand in a user's program; one in the same layout stands for them.
@MainActor @Suite struct StoresFromAPhoneTests {
    @Test func aStoreIsExaminedReadAndConverted() async throws {
        try await withProgramFolder { folder in
            let path = folder.appendingPathComponent("Recipes.sqlite").path
            let model = ManagedObjectModel {
                Entity("Recipe") {
                    Attribute("name", .string).required()
                    Attribute("minutes", .integer16)
                }
            }
            let maker = try PersistentContainer(
                managedObjectModel: model,
                persistentStoreDescriptions: [PersistentStoreDescription(path: path)])
            let soup = try maker.viewContext.insertObject(entityName: "Recipe")
            soup["name"] = "Soup"
            try maker.viewContext.save()
            try maker.close()

            // snippet: stores-from-a-phone-1
            let file = try StoreFile(at: path)
            let metadata = try file.metadata()
            print(file.type.rawValue, metadata.storeUUID)
            print(metadata.entityVersionHashes.keys.sorted())
            // end
            #expect(file.type == .sqlite)
            #expect(metadata.entityVersionHashes.keys.sorted() == ["Recipe"])

            // snippet: stores-from-a-phone-2
            let store = try file.open()
            let reader = PersistentContainer(store: store)
            for entity in reader.managedObjectModel.entities {
                let request = FetchRequest<ManagedObject>(entityName: entity.name)
                print(entity.name, try reader.viewContext.count(for: request))
            }
            // end
            #expect(store.isReadOnly)
            #expect(try reader.viewContext.count(for: FetchRequest("Recipe")) == 1)
            try reader.close()

            // snippet: stores-from-a-phone-3
            let container = try PersistentContainer(
                managedObjectModel: model,
                persistentStoreDescriptions: [PersistentStoreDescription(path: path)])
            let recipes = try container.viewContext.fetch(FetchRequest("Recipe"))
            recipes.first?["minutes"] = 45
            try container.viewContext.save()
            try container.close()
            // end

            let copy = folder.appendingPathComponent("Recipes.xml").path
            // snippet: stores-from-a-phone-4
            try file.convert(to: copy, type: .xml, model: model)
            // end
            #expect(try StoreFile(at: copy).type == .xml)
            let converted = PersistentContainer(store: try StoreFile(at: copy).open())
            let first = try converted.viewContext.fetch(FetchRequest("Recipe")).first
            #expect(first?["minutes"] as? Int == 45)
            try converted.close()
        }
    }
}
