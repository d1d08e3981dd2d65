import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Rows of batch insertions whose values must be unique and are those of stored objects.
@MainActor @Suite struct BatchUpsertTests {
    private static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Item", unique: [["code"], ["shop", "number"]],
            FixtureModels.attribute("code", .string),
            FixtureModels.attribute("shop", .string), FixtureModels.attribute("number", .integer32),
            FixtureModels.attribute("name", .string, optional: false),
            FixtureModels.attribute("price", .double) { $0.defaultValue = 1.0 },
            FixtureModels.attribute("note", .string),
            FixtureModels.attribute("image", .binary) { $0.allowsExternalBinaryDataStorage = true },
            FixtureModels.toOne("box", "Box", "items")),
        FixtureModels.entity("Special", parent: "Item", FixtureModels.attribute("extra", .string)),
        FixtureModels.entity(
            "Box", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("items", "Item", "box") { $0.isOrdered = true }),
    ])

    let stack: BatchStack

    init() throws { stack = try BatchStack(Self.model) }

    private func insert(
        _ rows: [[String: AttributeValue]], _ policy: MergePolicy, entity: String = "Item"
    ) throws -> BatchResult {
        var request = BatchInsertRequest(entityName: entity, objects: rows)
        request.resultType = .objectIDs
        request.failsOnConstraintConflict = policy.mergeType == .error
        stack.context.mergePolicy = policy
        return try stack.context.execute(request)
    }

    private func stored() throws -> ManagedObjectID {
        let object = try stack.insert(
            "Item", ["code": "a", "name": "old", "price": 5.0])
        try stack.context.save()
        return object.objectID
    }

    private let row: [String: AttributeValue] = ["code": "a", "name": "new", "note": "n"]

    @Test func rowsUpdateStoredObjectsUnderTheDefaultPolicy() throws {
        _ = try stored()
        #expect(stack.context.mergePolicy === MergePolicy.error)
        let rows = [["code": "b", "name": "b"], row]
        #expect(
            try stack.context.execute(BatchInsertRequest(entityName: "Item", objects: rows)).count
                == 2)
        #expect(try stack.values("Item", "name") == ["new", "b"])
        #expect(try stack.values("Item", "price") == [5.0, 1.0])
    }

    @Test func requestThatRefusesInsertsNothing() throws {
        _ = try stored()
        let error = try stack.failure {
            _ = try insert([["code": "b", "name": "b"], row], .error)
        }
        #expect(error.code == .constraintConflict)
        #expect(error.subject.position == 2)
        #expect(error.subject.property == "code")
        #expect(
            error.message
                == "Row 2: Another “Item” has the same “code”, which must be unique; change one of them."
        )
    }

    @Test(arguments: [
        (MergePolicy.mergeByPropertyObjectTrump, "new", 5.0, 2),
        (.overwrite, "new", 1.0, 2), (.mergeByPropertyStoreTrump, "old", 5.0, 2),
        (.rollback, "old", 5.0, 1),
    ])
    func policyDecidesWhatTheStoredObjectTakesOver(
        policy: MergePolicy, name: String, price: Double, version: UInt32
    ) throws {
        let id = try stored()
        let result = try insert([row, ["code": "b", "name": "b"]], policy)
        let isSkipped = version == 1
        #expect(result.count == (isSkipped ? 1 : 2))
        #expect(result.changes.updated == (isSkipped ? [] : [id]))
        #expect(result.changes.inserted.count == 1)
        let found = try #require(try stack.store.row(for: id))
        #expect(found.version == version)
        #expect(try stack.values("Item", "name") == [.string(name), "b"])
        #expect(try stack.values("Item", "price") == [.double(price), 1.0])
        #expect(try stack.values("Item", "note") == [isSkipped ? .null : "n", .null])
        try stack.checkWhole()
    }

    @Test func rowsOfOneRequestMeetEachOther() throws {
        let result = try insert(
            [
                ["code": "a", "name": "1"], ["code": "a", "name": "2"], ["code": "b", "name": "3"],
                ["code": "a", "name": "4"],
            ], .mergeByPropertyObjectTrump)
        #expect(result.count == 4)
        #expect(result.changes.inserted.map(\.primaryKey) == [1, 2])
        #expect(result.changes.updated.isEmpty)
        #expect(try stack.values("Item", "name") == ["4", "3"])
        try stack.checkWhole()
    }

    @Test func missingValuesAreNotUnique() throws {
        _ = try insert(
            [["name": "1"], ["name": "2", "shop": "s"], ["name": "3", "shop": "s"]], .error)
        #expect(try stack.count("Item") == 3)
    }

    @Test func severalPropertiesTogetherAreUnique() throws {
        _ = try insert(
            [["name": "1", "shop": "s", "number": 1], ["name": "2", "shop": "s", "number": 2]],
            .error)
        _ = try insert([["name": "3", "shop": "s", "number": 2]], .mergeByPropertyObjectTrump)
        #expect(try stack.values("Item", "name") == ["1", "3"])
    }

    @Test func valuesOfTwoObjectsAreAConflictUnderEveryPolicyThatWrites() throws {
        _ = try insert(
            [["code": "a", "name": "1"], ["shop": "s", "number": 1, "name": "2"]], .error)
        for policy in [MergePolicy.mergeByPropertyObjectTrump, .overwrite, .error] {
            let error = try stack.failure {
                _ = try insert([["code": "a", "shop": "s", "number": 1, "name": "3"]], policy)
            }
            #expect(error.code == .constraintConflict)
        }
    }

    @Test func rowMayLackWhatOnlyANewObjectNeeds() throws {
        _ = try stored()
        _ = try insert([["code": "a", "price": 7.0]], .mergeByPropertyObjectTrump)
        #expect(try stack.values("Item", "price") == [7.0])
        for (policy, code) in [
            (MergePolicy.mergeByPropertyObjectTrump, "b"), (.overwrite, "a"), (.error, "a"),
        ] {
            let error = try stack.failure {
                _ = try insert([["code": .string(code), "price": 8.0]], policy)
            }
            #expect(error.code == .validation)
            #expect(error.subject.property == "name")
        }
    }

    @Test func objectOfASubentityTakesOverToo() throws {
        try stack.insert("Special", ["code": "a", "name": "old", "extra": "kept"])
        try stack.context.save()
        let result = try insert([row], .overwrite)
        #expect(result.changes.updated.map(\.shortDescription) == ["Special/p1"])
        #expect(try stack.values("Special", "name") == ["new"])
        #expect(try stack.values("Special", "extra") == ["kept"])
    }

    @Test(arguments: [
        MergePolicy.mergeByPropertyObjectTrump, .overwrite, .mergeByPropertyStoreTrump, .error,
    ])
    func objectOfASuperentityTakesNothingOver(policy: MergePolicy) throws {
        let id = try stored()
        for row in [
            ["code": "a", "name": "new", "extra": "lost"], ["code": "a", "name": "new"],
            // The first way to find it: before the row is inserted.
            ["code": "a", "name": "new", "image": .binary(Data([1]))],
        ] as [[String: AttributeValue]] {
            let error = try stack.failure { _ = try insert([row], policy, entity: "Special") }
            #expect(error.code == .constraintConflict)
            #expect(error.subject.position == 1)
            if policy.mergeType == .error { continue }
            #expect(error.subject.object == id.uriRepresentation)
            #expect(
                error.message
                    == "Row 1: Item/p1 has the unique values of the row but is not of entity “Special”, so the row cannot update "
                    + "it; change the row, or delete the object first.")
        }
        #expect(try stack.values("Item", "name") == ["old"])
        #expect(try stack.count("Special") == 0)
        try stack.checkWhole()
    }

    @Test func rowThatMeetsAnObjectOfASuperentityIsLeftOutIfTheStoreWins() throws {
        _ = try stored()
        let result = try insert(
            [["code": "a", "name": "new", "extra": "lost"]], .rollback, entity: "Special")
        #expect(result.count == 0)
        #expect(try stack.values("Item", "name") == ["old"])
    }

    @Test(arguments: [MergePolicy.mergeByPropertyObjectTrump, .overwrite, .rollback])
    func storesInMemoryTakeOverTheSame(policy: MergePolicy) throws {
        let store = try InMemoryStore(model: Self.model)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let item = try context.insertObject(entityName: "Item")
        item["code"] = "a"
        item["name"] = "old"
        try context.save()
        context.mergePolicy = policy
        let row: [String: AttributeValue] = ["code": "a", "name": "new", "extra": "lost"]
        let request = BatchInsertRequest(entityName: "Special", objects: [row])
        if policy.mergeType == .rollback {
            #expect(try context.execute(request).count == 0)
        } else {
            let error = #expect(throws: QuireError.self) { try context.execute(request) }
            #expect(error?.code == .constraintConflict)
            #expect(error?.message.contains("is not of entity “Special”") == true)
        }
        #expect(try store.count(matching: FetchSpecification("Item")) == 1)
        #expect(try store.count(matching: FetchSpecification("Special")) == 0)
    }

    @Test func largeValuesAreReplacedWithTheirFiles() throws {
        let (first, second) = (
            Data(repeating: 1, count: 150_000), Data(repeating: 2, count: 150_000)
        )
        _ = try insert([["code": "a", "name": "1", "image": .binary(first)]], .error)
        let old = try stack.store.externalFiles().map(\.path)
        _ = try insert(
            [["code": "a", "image": .binary(second)]], .mergeByPropertyObjectTrump)
        #expect(try stack.values("Item", "image") == [.binary(second)])
        #expect(try stack.store.externalFiles().map(\.path) != old)
        try stack.checkWhole()
        _ = try insert([["code": "a", "image": .binary(first)]], .rollback)
        #expect(try stack.store.unreferencedExternalFiles() == old)
        try stack.store.close()
        #expect(!FileManager.default.fileExists(atPath: old[0]))
    }

    @Test func movedObjectsComeLastAndOthersKeepTheirPlaces() throws {
        let boxes = try ["A", "B"].map { try stack.insert("Box", ["name": .string($0)]) }
        try stack.context.save()
        let ids = boxes.map { AttributeValue.objectID($0.objectID) }
        _ = try insert(
            ["a", "b", "c"].map { ["code": .string($0), "name": .string($0), "box": ids[0]] }
                + [["code": "d", "name": "d", "box": ids[1]]], .error)
        _ = try insert(
            [["code": "a", "box": ids[1]], ["code": "b", "box": ids[0]]],
            .mergeByPropertyObjectTrump)
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        let contents = boxes.map {
            fresh.object(with: $0.objectID).objects("items").map { $0["name", as: String.self] }
        }
        #expect(contents == [["b", "c"], ["d", "a"]])
        try stack.checkWhole()
    }
}
