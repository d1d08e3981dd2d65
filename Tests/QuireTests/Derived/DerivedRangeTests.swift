import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Derived values that the attribute's type cannot hold fail the save, in stores of every kind: committed, they would make
/// their objects unreadable.
@MainActor @Suite struct DerivedRangeTests {
    enum Kind: CaseIterable, Sendable { case sqlite, memory, xml }

    private static let model = ManagedObjectModel {
        Entity("Box") {
            Attribute("name", .string)
            Attribute("total", .integer64).derived("items.@sum.n")
            Attribute("small", .integer16).derived("items.@sum.m")
            Attribute("weight", .integer64).derived("labels.@sum.weight")
            ToMany("items", "Item", inverse: "box")
            ToMany("labels", "Label", inverse: "boxes")
        }
        Entity("Item") {
            Attribute("n", .integer64)
            Attribute("m", .integer16)
            ToOne("box", "Box", inverse: "items")
        }
        Entity("Label") {
            Attribute("weight", .integer64)
            ToMany("boxes", "Box", inverse: "labels")
        }
    }

    private static func coordinator(
        _ kind: Kind, in folder: TemporaryFolder
    ) throws -> PersistentStoreCoordinator {
        switch kind {
        case .sqlite:
            PersistentStoreCoordinator(
                store: try SQLiteStore.create(at: folder.path("a.sqlite"), model: model))
        case .memory: PersistentStoreCoordinator(store: try InMemoryStore(model: model))
        case .xml:
            PersistentStoreCoordinator(
                store: try XMLStore.create(at: folder.path("a.xml"), model: model))
        }
    }

    /// Expects that a save fails and names a property, and that the objects can still be read.
    private static func expectFailure(_ property: String, _ context: ManagedObjectContext) throws {
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .invalidValue)
        #expect(error?.subject.property == property)
        context.rollback()
        let fresh = ManagedObjectContext.mainQueue(
            coordinator: context.persistentStoreCoordinator)
        for box in try fresh.fetch(FetchRequest("Box")) { _ = box["total", as: Int64.self] }
    }

    @Test(arguments: Kind.allCases)
    func derivedSumBeyondItsTypeFailsTheSave(kind: Kind) throws {
        let folder = try TemporaryFolder()
        let context = ManagedObjectContext.mainQueue(
            coordinator: try Self.coordinator(kind, in: folder))
        let box = try context.insertObject(entityName: "Box")
        let first = try context.insertObject(entityName: "Item")
        first["n"] = Int64.max
        first["m"] = Int64(30_000)
        first["box"] = box
        let heavy = try context.insertObject(entityName: "Label")
        heavy["weight"] = Int64.max
        box.add(heavy, to: "labels")
        try context.save()

        let second = try context.insertObject(entityName: "Item")
        second["n"] = Int64(1)
        second["box"] = box
        try Self.expectFailure("total", context)

        let third = try context.insertObject(entityName: "Item")
        third["m"] = Int64(10_000)
        third["box"] = box
        try Self.expectFailure("small", context)

        let light = try context.insertObject(entityName: "Label")
        light["weight"] = Int64(1)
        box.add(light, to: "labels")
        try Self.expectFailure("weight", context)

        // A new object of many that are saved already.
        let other = try context.insertObject(entityName: "Label")
        other["weight"] = Int64.max
        try context.save()
        let late = try context.insertObject(entityName: "Box")
        late.add(heavy, to: "labels")
        late.add(other, to: "labels")
        try Self.expectFailure("weight", context)

        box["name"] = "whole"
        try context.save()
        #expect(box["total", as: Int64.self] == .max)
        #expect(box["small", as: Int64.self] == 30_000)
        #expect(box["weight", as: Int64.self] == .max)
    }

    /// SQL adds and subtracts one row after the other.
    @Test(arguments: Kind.allCases)
    func derivedSumMayPassTheLimitWithinASave(kind: Kind) throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(kind, in: folder)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let box = try context.insertObject(entityName: "Box")
        let items = try (0..<3).map { _ in
            let item = try context.insertObject(entityName: "Item")
            let label = try context.insertObject(entityName: "Label")
            item["box"] = box
            box.add(label, to: "labels")
            return (item, label)
        }
        for most in items.indices {
            for (index, (item, label)) in items.enumerated() {
                let value = index == most ? Int64.max - 3 : 1
                item["n"] = value
                label["weight"] = value
            }
            try context.save()
            let fresh = ManagedObjectContext.mainQueue(coordinator: coordinator)
            let stored = try #require(try fresh.fetch(FetchRequest("Box")).first)
            #expect(stored["total", as: Int64.self] == Int64.max - 1)
            #expect(stored["weight", as: Int64.self] == Int64.max - 1)
        }
    }

    @Test(arguments: Kind.allCases)
    func derivedSumBeyondItsTypeFailsABatchUpdate(kind: Kind) throws {
        let folder = try TemporaryFolder()
        let coordinator = try Self.coordinator(kind, in: folder)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let box = try context.insertObject(entityName: "Box")
        for _ in 0..<2 {
            let item = try context.insertObject(entityName: "Item")
            item["n"] = Int64(1)
            item["box"] = box
        }
        try context.save()
        var request = BatchUpdateRequest(entityName: "Item")
        request.propertiesToUpdate = ["n": QueryExpression.constant(.integer(.max))]
        let error = #expect(throws: QuireError.self) { try context.execute(request) }
        #expect(error?.code == .invalidValue)
        #expect(error?.subject.property == "total")
        let fresh = ManagedObjectContext.mainQueue(coordinator: coordinator)
        #expect(try fresh.fetch(FetchRequest("Box")).map { $0["total", as: Int64.self] } == [2])
        #expect(try fresh.fetch(FetchRequest("Item")).map { $0["n", as: Int64.self] } == [1, 1])
    }
}
