import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Decimal numbers with more digits than a SQLite store keeps: they are rounded, or refused if an option says so.
@MainActor
@Suite struct LongDecimalTests {
    nonisolated static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Item", FixtureModels.attribute("name", .string),
            FixtureModels.attribute("price", .decimal),
            FixtureModels.toOne("box", "Box", "items")),
        FixtureModels.entity(
            "Box", FixtureModels.attribute("size", .integer16),
            FixtureModels.attribute("total", .decimal) {
                $0.derivationExpression = "items.@sum.price"
            }, FixtureModels.toMany("items", "Item", "box")),
    ])

    nonisolated static let exact = [
        "0.1", "-1234567890.12345", "9223372036854775807", "1e20", "1.5e100", "0.30000000000000004",
        "123456789012345e-30",
    ]
    nonisolated static let inexact = [
        "12345678901234567890123456789012345678", "0.33333333333333333333333333333333333333",
        "9223372036854775809", "1234567890.123456789", "-0.1000000000000000000000001",
    ]

    private let folder: TemporaryFolder
    private let coordinator: PersistentStoreCoordinator

    init() throws {
        folder = try TemporaryFolder()
        var options = SQLiteStoreOptions()
        options.refusesInexactDecimals = true
        coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(
                at: folder.path("store"), model: Self.model, options: options))
    }

    private func context() -> ManagedObjectContext { .mainQueue(coordinator: coordinator) }

    private func stored(_ key: String) throws -> [AttributeValue] {
        try context().fetch(FetchRequest("Item")).map { $0[key, as: AttributeValue.self] }
    }

    private func decimal(_ text: String) throws -> AttributeValue {
        try AttributeValue(parsing: text, as: .decimal)
    }

    @Test(arguments: exact)
    func oneThatTheColumnCanSayComesBack(_ text: String) throws {
        let context = context()
        let item = try context.insertObject(entityName: "Item")
        item["price"] = try decimal(text)
        try context.save()
        context.reset()
        #expect(
            try context.fetch(FetchRequest("Item"))[0]["price", as: AttributeValue.self]
                == decimal(text))
    }

    @Test(arguments: inexact)
    func oneThatItCannotSayFailsTheSave(_ text: String) throws {
        let context = context()
        let item = try context.insertObject(entityName: "Item")
        item["name"] = "a"
        try context.save()
        item["name"] = "b"
        item["price"] = try decimal(text)
        let error = #expect(throws: QuireError.self) { try context.save() }
        try expectRefused(error, item.objectID)
        #expect(context.hasChanges)
        #expect(try stored("name") == ["a"])
        item["price"] = try decimal("0.5")
        try context.save()
        #expect(try stored("name") == ["b"])
    }

    @Test(arguments: inexact)
    func itFailsBatchRequests(_ text: String) throws {
        let context = context()
        let number = try decimal(text)
        var error = #expect(throws: QuireError.self) {
            try context.execute(
                BatchInsertRequest(
                    entityName: "Item", objects: [["price": 1], ["price": number]]))
        }
        try expectRefused(error, nil)
        #expect(error?.subject.position == 2)
        #expect(try context.count(for: FetchRequest("Item")) == 0)
        try context.execute(BatchInsertRequest(entityName: "Item", objects: [["price": 1]]))
        error = #expect(throws: QuireError.self) {
            try context.execute(
                BatchUpdateRequest(
                    entityName: "Item", propertiesToUpdate: ["price": .constant(number)]))
        }
        try expectRefused(error, nil)
        #expect(try stored("price") == [.decimal(1)])
    }

    @Test(arguments: [StoreType.xml, .binary])
    func itFailsTheConversionOfAStoreThatHasIt(_ type: StoreType) throws {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        let store = try coordinator.addPersistentStore(
            PersistentStoreDescription(path: folder.path("a"), type: type))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let item = try context.insertObject(entityName: "Item")
        item["price"] = try decimal(Self.inexact[0])
        try context.save()
        context.reset()
        #expect(
            try context.fetch(FetchRequest("Item"))[0]["price", as: AttributeValue.self]
                == decimal(Self.inexact[0]))
        var target = PersistentStoreDescription(path: folder.path("b.sqlite"))
        target.sqliteOptions.refusesInexactDecimals = true
        let error = #expect(throws: QuireError.self) {
            try coordinator.migratePersistentStore(store, to: target)
        }
        try expectRefused(error, nil)
        #expect(!FileManager.default.fileExists(atPath: folder.path("b.sqlite")))
    }

    @Test(
        arguments: zip(
            inexact,
            [
                "12345678901234568000000000000000000000", "0.3333333333333333",
                "9223372036854776000",
                "1234567890.1234567", "-0.1",
            ]))
    func usuallyItIsRoundedAsCoreDataRoundsIt(_ text: String, _ rounded: String) throws {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        let item = try context.insertObject(entityName: "Item")
        item["price"] = try decimal(text)
        try context.save()
        context.reset()
        #expect(
            try context.fetch(FetchRequest("Item"))[0]["price", as: AttributeValue.self]
                == decimal(rounded))
    }

    /// What a store computes has the digits that it keeps.
    @Test func computedNumbersAreRounded() throws {
        let context = context()
        let box = try context.insertObject(entityName: "Box")
        for price in ["123456789012345", "0.0000123456789"] {
            let item = try context.insertObject(entityName: "Item")
            item["price"] = try decimal(price)
            item["box"] = box
        }
        try context.save()
        context.reset()
        #expect(
            try context.fetch(FetchRequest("Box"))[0]["total", as: AttributeValue.self]
                == decimal("123456789012345"))
    }

    private func expectRefused(_ error: QuireError?, _ id: ManagedObjectID?) throws {
        let error = try #require(error)
        #expect(error.code == .invalidValue)
        #expect(error.message.contains("“Item.price”"), "\(error.message)")
        #expect(error.message.contains("round it"), "\(error.message)")
        #expect(error.subject.property == "price")
        if let id { #expect(error.subject.object == id.uriRepresentation) }
    }
}
