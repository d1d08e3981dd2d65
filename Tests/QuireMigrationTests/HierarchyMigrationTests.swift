import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

/// Entities that leave a hierarchy take their objects along, and nobody else's.
@Suite struct HierarchyMigrationTests {
    /// A change of a hierarchy: the sub-entities of `B` before and afterwards, with their superentities.
    struct Change: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let old: KeyValuePairs<String, String>
        let new: KeyValuePairs<String, String>
        /// Whether `B` gets another attribute, and one of its attributes another name.
        var changesRoot = false
        /// Whether sub-entities have attributes of their own.
        var hasAttributes = false

        static let all = [
            Change(testDescription: "a leaf goes", old: ["C": "B"], new: [:]),
            Change(testDescription: "another takes its place", old: ["C": "B"], new: ["Cat": "B"]),
            Change(
                testDescription: "one before another goes", old: ["C": "B", "D": "B"],
                new: ["D": "B"]),
            Change(
                testDescription: "a middle one goes", old: ["C": "B", "D": "C"], new: ["D": "B"]),
            Change(
                testDescription: "all sub-entities go", old: ["C": "B", "D": "C", "E": "B"],
                new: [:]),
            Change(
                testDescription: "a leaf and an attribute of the root", old: ["C": "B", "D": "B"],
                new: ["C": "B"], changesRoot: true),
            Change(
                testDescription: "a leaf with attributes", old: ["C": "B", "D": "C"],
                new: ["C": "B"], hasAttributes: true),
        ]

        func model(_ entities: KeyValuePairs<String, String>, isNew: Bool) -> ManagedObjectModel {
            var root = FixtureModels.entity(
                "B", FixtureModels.attribute("x", .string),
                FixtureModels.attribute("image", .binary) {
                    $0.allowsExternalBinaryDataStorage = true
                },
                FixtureModels.toMany("items", "Item", "owner"),
                FixtureModels.toMany("friends", "B", "friendOf"),
                FixtureModels.toMany("friendOf", "B", "friends"),
                FixtureModels.attribute("count", .integer64) {
                    $0.derivationExpression = "items.@count"
                })
            if changesRoot && isNew {
                root.properties[0] = FixtureModels.attribute("name", .string) {
                    $0.renamingIdentifier = "x"
                }
                root.properties.append(FixtureModels.attribute("y", .integer32))
            }
            let item = FixtureModels.entity(
                "Item", FixtureModels.attribute("x", .string),
                FixtureModels.toOne("owner", "B", "items"))
            let others = entities.map { name, parent in
                var entity = FixtureModels.entity(name, parent: parent)
                if hasAttributes {
                    entity.properties = [FixtureModels.attribute("of\(name)", .string)]
                }
                return entity
            }
            return ManagedObjectModel(entities: [root, item] + others)
        }
    }

    private static func counts(of store: any PersistentStore) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            counts[entity.name] = try store.count(matching: request.specification)
        }
        return counts
    }

    @Test(arguments: Change.all, [SQLiteMigration.Method.automatic, .rowByRow])
    @MainActor func objectsOfRemovedEntitiesGoAndOthersStay(
        change: Change, method: SQLiteMigration.Method
    ) throws {
        let stack = try TestStack(change.model(change.old, isNew: false))
        let context = stack.mainContext()
        let names = ["B"] + change.old.map(\.key)
        var objects: [ManagedObject] = []
        for (number, name) in names.enumerated() {
            let object = try context.insertObject(entityName: name)
            object["x"] = name
            object["image"] = Data(repeating: UInt8(number), count: 120_000)
            let item = try context.insertObject(entityName: "Item")
            item["x"] = name
            item["owner"] = object
            objects.append(object)
        }
        for object in objects {
            for other in objects { object.add(other, to: "friends") }
        }
        try context.save()
        try stack.coordinator.close()

        let model = change.model(change.new, isNew: true)
        let manager = MigrationManager()
        manager.allowsRemoval = true
        var migration = SQLiteMigration(
            path: stack.path, sourceModel: nil, model: model, manager: manager,
            options: SQLiteStoreOptions())
        migration.method = method
        try migration.run()

        let store = try SQLiteStore.open(at: stack.path)
        defer { try? store.close() }
        let kept = ["B"] + change.new.map(\.key).filter { name in names.contains(name) }
        var expected = Dictionary(uniqueKeysWithValues: model.entities.map { ($0.name, 0) })
        for name in kept { expected[name] = 1 }
        expected["Item"] = names.count
        #expect(try Self.counts(of: store) == expected)
        #expect(try StoreCheck.run(store).problems.map(\.message) == [])
        #expect(try store.externalFiles().count == kept.count)
        #expect(try store.unreferencedExternalFiles().isEmpty)
        let root = try store.layout.requireEntity(named: "B")
        let count = try #require(root.slot(named: "count"))
        for row in try store.rows(matching: FetchSpecification("B")) {
            for (name, number) in [("items", 1), ("friends", kept.count), ("friendOf", kept.count)]
            {
                let relationship = try #require(root.relationship(named: name))
                #expect(
                    try store.relatedRows(of: row.objectID, through: relationship).count == number)
            }
            #expect(try row.value(at: count) == 1)
        }
        let owner = try #require(store.layout.requireEntity(named: "Item").slot(named: "owner"))
        let owners = try store.rows(matching: FetchSpecification("Item")).map {
            try $0.value(at: owner)
        }
        #expect(owners.filter { !$0.isNull }.count == kept.count)
        let columns = try store.read { connection in
            try connection.withStatement("SELECT count(*) FROM ZITEM WHERE ZOWNER NOT NULL") {
                try $0.step() ? $0.integer(0) : 0
            }
        }
        #expect(columns == Int64(kept.count))
        let identifiers = try store.rows(matching: FetchSpecification("B")).map(
            \.objectID.entityName)
        #expect(identifiers.sorted() == kept.sorted())
    }
}
