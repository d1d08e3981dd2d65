import Foundation
import Quire
import QuireRescue
import QuireTestSupport
import Testing

/// A to-many relationship that is not optional and has no minimum count, as SwiftData declares each `var items: [Item]`.
@MainActor @Suite struct RequiredToManyTests {
    nonisolated static let types: [StoreType] = [.sqlite, .xml, .binary, .inMemory]

    static func model(atLeast least: Int = 0, isOrdered: Bool = false) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("List") {
                Attribute("name", .string)
                ToMany("items", "Item", inverse: "list").required().count(atLeast: least)
                    .ordered(isOrdered)
            }
            Entity("Item") {
                Attribute("name", .string)
                ToOne("list", "List", inverse: "items")
            }
        }
    }

    private func container(
        _ type: StoreType, _ model: ManagedObjectModel, at path: String
    ) throws -> PersistentContainer {
        var description =
            type == .inMemory
            ? PersistentStoreDescription(type: .inMemory)
            : PersistentStoreDescription(path: path, type: type)
        if type != .inMemory { description.migration = StoreMigrationOptions() }
        return try PersistentContainer(
            managedObjectModel: model, persistentStoreDescriptions: [description])
    }

    private func problems(at path: String) throws -> [String] {
        let store = try StoreFile(at: path).open()
        defer { try? store.close() }
        return try StoreCheck.run(on: store).problems.map(\.message)
    }

    @Test(arguments: types) func requiredToManyMayBeEmpty(type: StoreType) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        let container = try container(type, Self.model(), at: path)
        let context = container.viewContext
        let list = try context.insertObject(entityName: "List")
        try context.save()
        let item = try context.insertObject(entityName: "Item")
        item["list"] = list
        try context.save()
        list["items"] = [ManagedObject]()
        try context.save()
        item["list"] = list
        try context.save()
        context.delete(item)
        try context.save()
        #expect(list.objects("items").isEmpty)
        try container.close()
        if type != .inMemory {
            #expect(try problems(at: path) == [])
        }
    }

    @Test(arguments: types) func batchRequestsMayEmptyRequiredToMany(type: StoreType) throws {
        let folder = try TemporaryFolder()
        let container = try container(type, Self.model(), at: folder.path("store"))
        let context = container.viewContext
        _ = try context.execute(BatchInsertRequest(entityName: "List", objects: [["name": "a"]]))
        let list = try #require(try context.fetch(FetchRequest<ManagedObject>("List")).first)
        try context.insertObject(entityName: "Item")["list"] = list
        try context.save()
        let deletion = try BatchDeleteRequest(fetchRequest: FetchRequest<ManagedObject>("Item"))
        #expect(try context.execute(deletion).count == 1)
        try container.close()
    }

    @Test(arguments: types) func minimumCountOfRequiredToManyIsKept(type: StoreType) throws {
        let folder = try TemporaryFolder()
        let container = try container(type, Self.model(atLeast: 1), at: folder.path("store"))
        let context = container.viewContext
        let list = try context.insertObject(entityName: "List")
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.code == .validation)
        try context.insertObject(entityName: "Item")["list"] = list
        try context.save()
        let deletion = try BatchDeleteRequest(fetchRequest: FetchRequest<ManagedObject>("Item"))
        #expect(throws: QuireError.self) { _ = try context.execute(deletion) }
        try container.close()
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    func migrationInfersNewRequiredToMany(type: StoreType) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        let old = ManagedObjectModel { Entity("List") { Attribute("name", .string) } }
        let before = try container(type, old, at: path)
        try before.viewContext.insertObject(entityName: "List")["name"] = "a"
        try before.viewContext.save()
        try before.close()
        let after = try container(type, Self.model(isOrdered: true), at: path)
        #expect(try after.viewContext.fetch(FetchRequest<ManagedObject>("List")).count == 1)
        try after.close()
        #expect(try problems(at: path) == [])
    }

    @Test func recoveryAcceptsEmptyRequiredToMany() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store.sqlite")
        let container = try container(.sqlite, Self.model(), at: path)
        try container.viewContext.insertObject(entityName: "List")["name"] = "a"
        try container.viewContext.save()
        try container.close()
        let recovered = folder.path("recovered.sqlite")
        _ = try StoreRecovery.recover(path, to: recovered)
        #expect(try problems(at: recovered) == [])
    }
}
