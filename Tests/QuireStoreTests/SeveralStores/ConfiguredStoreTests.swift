import Foundation
import Quire
import QuireRescue
import QuireTestSupport
import Testing

/// Stores that keep the objects of one configuration only, used by who does not say so.
@MainActor
@Suite struct ConfiguredStoreTests {
    let folder: TemporaryFolder
    let path: String

    /// A store of settings and notes, with one of each.
    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("user.sqlite")
        var options = SQLiteStoreOptions()
        options.configuration = "User"
        let coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(
                at: path, model: SeveralStoresTests.model, options: options))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Setting")["key"] = "colour"
        try context.insertObject(entityName: "Remark")["text"] = "blue"
        try context.save()
        try coordinator.close()
    }

    /// A description's own properties do not take back what these say.
    @Test func optionsOfASQLiteStoreHoldInADescription() throws {
        var description = PersistentStoreDescription(path: path)
        description.sqliteOptions.busyTimeout = .seconds(60)
        description.sqliteOptions.isReadOnly = true
        description.sqliteOptions.configuration = "User"
        #expect(description.timeout == .seconds(60))
        let coordinator = try PersistentStoreCoordinator(
            managedObjectModel: SeveralStoresTests.model)
        let store = try #require(try coordinator.addPersistentStore(description) as? SQLiteStore)
        #expect(store.options.busyTimeout == .seconds(60))
        #expect(store.isReadOnly)
        #expect(store.configurationName == "User")
        try coordinator.close()
    }

    /// Checks that a store holds what was saved, by the model and not by its tables.
    private func expectWhole(_ store: any PersistentStore) throws {
        #expect(store.configurationName == "User")
        #expect((store as? SQLiteStore)?.hasInferredModel == false)
        #expect(store.layout.entities.count == 5)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        #expect(
            try context.fetch(FetchRequest("Setting")).map { $0["key", as: String.self] } == [
                "colour"
            ])
        #expect(
            try context.fetch(FetchRequest("Note")).map { $0["text", as: String.self] } == ["blue"])
        try store.close()
    }

    @Test func openedBareItHasItsConfiguration() throws {
        try expectWhole(SQLiteStore.open(at: path))
        try expectWhole(SQLiteStore.open(at: path, model: SeveralStoresTests.model))
        try expectWhole(StoreFile(at: path).open())
        let store = try SQLiteStore.open(at: path)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        try context.insertObject(entityName: "Setting")["key"] = "size"
        try context.save()
        try store.close()
        #expect(try SQLiteStore.metadata(at: path).entityVersionHashes.count == 3)
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    func convertedItKeepsTheSame(_ type: StoreType) throws {
        let copy = folder.path("copy")
        try StoreFile(at: path).convert(to: copy, type: type)
        let store = try StoreFile(at: copy).open()
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        #expect(try context.count(for: FetchRequest("Setting")) == 1)
        #expect(try context.count(for: FetchRequest("Remark")) == 1)
        try store.close()
        if type == .sqlite { try expectWhole(SQLiteStore.open(at: copy)) }
    }

    @Test func replacedItIsWhole() throws {
        let place = folder.path("place.sqlite")
        try SQLiteStore.replace(at: place, withStoreAt: path)
        try expectWhole(SQLiteStore.open(at: place))
        try StoreFile(at: place).replace(with: StoreFile(at: path))
        try expectWhole(SQLiteStore.open(at: place))
    }

    @Test func checkedAndRepairedNothingIsMissing() throws {
        let store = try SQLiteStore.open(at: path)
        #expect(try StoreCheck.run(store).problems.isEmpty)
        try store.close()
        _ = try StoreRepair.repair(path)
        try expectWhole(SQLiteStore.open(at: path))
    }

    @Test func aStoreThatLacksAnEntityOfNoConfigurationIsRefused() throws {
        let older = folder.path("older.sqlite")
        let smaller = ManagedObjectModel(entities: [
            FixtureModels.entity("Setting", FixtureModels.attribute("key", .string))
        ])
        try SQLiteStore.create(at: older, model: smaller).close()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: older, model: SeveralStoresTests.model)
        }
        #expect(error?.code == .incompatibleModel)
    }
}
