import Foundation
import Quire
import Testing

// snippet: migration-4
final class FullNamePolicy: EntityMigrationPolicy {
    override func createDestinationObjects(
        for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
    ) throws {
        let person = try session.makeObject(for: source, mapping: mapping)
        guard case .string(let first) = try source["first"],
            case .string(let last) = try source["last"]
        else { return }
        try person.setValue(.string("\(first) \(last)"), for: "name")
    }
}
// end

/// The code of the article “Migration”.
@MainActor @Suite struct MigrationTests {
    private static let first = ManagedObjectModel {
        Entity("Person") {
            Attribute("first", .string).required()
            Attribute("last", .string).required()
            Attribute("notes", .string)
        }
    }

    private func makeStore(in folder: URL) throws -> URL {
        let url = folder.appendingPathComponent("People.sqlite")
        let container = try PersistentContainer(
            managedObjectModel: Self.first,
            persistentStoreDescriptions: [PersistentStoreDescription(url: url)])
        let person = try container.viewContext.insertObject(entityName: "Person")
        person["first"] = "Ada"
        person["last"] = "Lovelace"
        person["notes"] = "Wrote the first program."
        try container.viewContext.save()
        try container.close()
        return url
    }

    @Test func anInferredMigrationKeepsEverything() async throws {
        try await withProgramFolder { folder in
            let url = try makeStore(in: folder)
            // snippet: migration-1
            let model = ManagedObjectModel {
                Entity("Person") {
                    Attribute("givenName", .string).required().renamed(from: "first")
                    Attribute("last", .string).required()
                    Attribute("notes", .string)
                    Attribute("visits", .integer32).required().default(0)
                }
            }
            let container = try PersistentContainer(name: "People", managedObjectModel: model)
            container.persistentStoreDescriptions[0].url = url
            try await container.loadPersistentStores()
            // end
            let ada = try #require(
                try container.viewContext.fetch(FetchRequest("Person")).first)
            #expect(ada["givenName"] as? String == "Ada")
            #expect(ada["visits"] as? Int == 0)
            try container.close()
        }
    }

    @Test func aRemovalIsRefusedUnlessItIsAllowed() async throws {
        try await withProgramFolder { folder in
            let url = try makeStore(in: folder)
            let model = ManagedObjectModel {
                Entity("Person") {
                    Attribute("first", .string).required()
                    Attribute("last", .string).required()
                }
            }
            let container = try PersistentContainer(name: "People", managedObjectModel: model)
            container.persistentStoreDescriptions[0].url = url
            // snippet: migration-2
            do {
                try await container.loadPersistentStores()
            } catch let error as QuireError where error.code == .removalDenied {
                print(error.message)
                var migration = StoreMigrationOptions()
                migration.allowsRemoval = true
                migration.copyPath = StoreMigrationOptions.copyPath(beside: url.path)
                container.persistentStoreDescriptions[0].migration = migration
                try await container.loadPersistentStores()
            }
            // end
            #expect(try container.viewContext.count(for: FetchRequest("Person")) == 1)
            #expect(container.persistentStoreDescriptions[0].migration?.allowsRemoval == true)
            let copies = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                .filter { $0.contains("before-migration") }
            #expect(copies.count == 1)
            try container.close()
        }
    }

    @Test func stagesAndPoliciesAreAppliedInOrder() async throws {
        try await withProgramFolder { folder in
            let url = try makeStore(in: folder)
            let first = Self.first
            let second = ManagedObjectModel {
                Entity("Person") {
                    Attribute("first", .string).required()
                    Attribute("last", .string).required()
                    Attribute("sortName", .string)
                    Attribute("notes", .string)
                }
            }
            // snippet: migration-3
            let staged = StagedMigration([
                .custom(
                    "sort names", from: first, to: second,
                    didMigrate: { store in
                        var update = BatchUpdateRequest(entityName: "Person")
                        update.propertiesToUpdate["sortName"] = try QueryExpression(format: "last")
                        _ = try store.update(update)
                    })
            ])
            try staged.migrateStore(at: url.path)
            // end
            #expect(
                try second.matches(
                    versionHashes: StoreFile(at: url.path).metadata().entityVersionHashes))

            // snippet: migration-5
            let newest = ManagedObjectModel {
                Entity("Person") {
                    Attribute("name", .string)
                    Attribute("sortName", .string)
                    Attribute("notes", .string)
                }
            }
            var mapping = try MappingModel.inferred(from: second, to: newest)
            mapping["Person"]?.entityMigrationPolicyName = "FullNamePolicy"
            var migration = StoreMigrationOptions()
            migration.mappings = [CustomMapping(from: second, to: newest, mapping: mapping)]
            migration.policies["FullNamePolicy"] = { FullNamePolicy() }
            var description = PersistentStoreDescription(url: url)
            description.migration = migration
            let container = try PersistentContainer(
                managedObjectModel: newest, persistentStoreDescriptions: [description])
            // end
            let ada = try container.viewContext.fetch(FetchRequest("Person")).first
            #expect(ada?["name"] as? String == "Ada Lovelace")
            #expect(ada?["sortName"] as? String == "Lovelace")
            #expect(ada?["notes"] as? String == "Wrote the first program.")
            try container.close()
        }
    }
}
