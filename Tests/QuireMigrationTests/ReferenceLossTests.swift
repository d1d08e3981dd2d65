import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireAtomicStores
@testable import QuireMigration

/// What is converted or migrated has all its objects, values and references afterwards, or it is not done.
@Suite struct ReferenceLossTests {
    typealias Models = FixtureModels

    /// A person is a friend of many, and a member of several groups; neither relationship has an inverse.
    static func model(subentities: Bool) -> ManagedObjectModel {
        ManagedObjectModel(
            entities: [
                Models.entity(
                    "Person", Models.attribute("name", .string),
                    Models.toMany("friends", "Person", nil),
                    Models.toMany("items", "Item", "owner"),
                    Models.toOne("spouse", "Person", "spouse")),
                Models.entity(
                    "Group", Models.attribute("name", .string),
                    Models.toMany("members", "Person", nil)),
                Models.entity(
                    "Item", Models.attribute("title", .string),
                    Models.toOne("owner", "Person", "items"), Models.toMany("tags", "Tag", "items")),
                Models.entity(
                    "Tag", Models.attribute("name", .string), Models.toMany("items", "Item", "tags")
                ),
            ]
                + (subentities
                    ? [
                        Models.entity(
                            "Book", parent: "Item", Models.attribute("pages", .integer32)),
                        Models.entity(
                            "Film", parent: "Item", Models.attribute("minutes", .integer32)),
                    ] : []))
    }

    /// A store like Core Data's, which carries no model.
    @MainActor private func makeStore<Store: AtomicStore>(
        _ type: Store.Type, at path: String, _ model: ManagedObjectModel
    ) throws {
        let options = AtomicStoreOptions()
        let opening = try Store.opening(
            model.layout(), file: AtomicStoreFile(path: path, protection: nil), options: options)
        var contents = opening.contents
        contents.carriesModel = false
        let store = Store(
            AtomicStoreOpening(contents: contents, file: opening.file, options: options))
        try store.writeFirst()
        try fill(PersistentStoreCoordinator(store: store), model)
        try store.close()
    }

    @MainActor private func fill(
        _ coordinator: PersistentStoreCoordinator, _ model: ManagedObjectModel
    ) throws {
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let itemNames = ["Item", "Book", "Film"].filter { name in
            model.entities.contains { $0.name == name }
        }
        func insert(_ entity: String, _ key: String, _ count: Int) throws -> [ManagedObject] {
            try (0..<count).map {
                let object = try context.insertObject(entityName: entity)
                object[key] = "\(entity) \($0)"
                return object
            }
        }
        let people = try insert("Person", "name", 9)
        let groups = try insert("Group", "name", 3)
        let tags = try insert("Tag", "name", 4)
        for (index, person) in people.enumerated() {
            for step in 1...3 { person.add(people[(index + step) % 9], to: "friends") }
            for group in groups.prefix(1 + index % 3) { group.add(person, to: "members") }
        }
        people[0]["spouse"] = people[1]
        for (index, name) in itemNames.enumerated() {
            for (place, item) in try insert(name, "title", 5).enumerated() {
                item["owner"] = people[(index + place) % 9]
                for tag in tags.prefix(1 + place % 4) { item.add(tag, to: "tags") }
            }
        }
        try context.save()
    }

    /// How many references each relationship has, by the names of the relationship and, in small letters, of its entity.
    private func references(_ store: any PersistentStore) throws -> [String: Int] {
        var result: [String: Int] = [:]
        for entity in store.layout.entities where !entity.isAbstract {
            let relationships = entity.relationships.map {
                CountedRelationship(
                    relationship: $0,
                    members: Set(store.layout.destination(of: $0).subtree))
            }
            let count = try RowContentCounter(store: store)
                .count(of: entity, slots: [], relationships: relationships)
            for (relationship, count) in zip(relationships, count.references) {
                let key = "\(entity.name.lowercased()).\(relationship.relationship.name)"
                result[key, default: 0] += count
            }
            let other = try store.counting {
                try $0.count(of: entity, slots: [], relationships: relationships)
            }
            #expect(other == count, "\(entity.name) of \(store.type.rawValue)")
        }
        return result
    }

    /// The inverses of a model, by the names of relationships.
    private func inverses(_ model: ManagedObjectModel) -> [String: String] {
        var result: [String: String] = [:]
        for entity in model.entities {
            for case .relationship(let relationship) in entity.properties {
                let name = "\(entity.name).\(relationship.name)".lowercased()
                result[name] = relationship.inverseName
            }
        }
        return result
    }

    @Test(arguments: [StoreType.xml, .binary])
    @MainActor func aStoreWithoutAModelKeepsAllReferencesInEveryType(_ type: StoreType) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("old")
        let model = Self.model(subentities: type == .xml)
        if type == .xml {
            try makeStore(XMLStore.self, at: path, model)
        } else {
            try makeStore(BinaryStore.self, at: path, model)
        }
        let store = try StoreFile(at: path).open()
        let expected = try references(store)
        #expect(expected["person.friends"] == 27 && expected["group.members"] == 18)
        #expect(
            inverses(store.layout.model) == [
                "person.items": "owner", "item.owner": "items", "item.tags": "items",
                "tag.items": "tags", "person.spouse": "spouse",
            ])
        try store.close()
        for target in [StoreType.sqlite, .xml, .binary] {
            let new = folder.path("new.\(target.rawValue)")
            try StoreFile(at: path).convert(to: new, type: target)
            let converted = try StoreFile(at: new).open()
            let found = try references(converted)
            for (name, count) in expected { #expect(found[name] == count, "\(name)") }
            if target == .sqlite {
                #expect(inverses(converted.layout.model)["person.friends"] == "person_friends")
                #expect(inverses(converted.layout.model)["group.members"] == "group_members")
                #expect(try StoreCheck.run(on: converted).problems.isEmpty)
            }
            try converted.close()
        }
    }

    @Test @MainActor func aGivenModelThatLosesReferencesIsRefusedAndLeavesNothing() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("old.xml")
        let model = Self.model(subentities: true)
        try makeStore(XMLStore.self, at: path, model)
        let file = try StoreFile(at: path)
        let error = #expect(throws: QuireError.self) {
            try file.convert(to: folder.path("new.sqlite"), type: .sqlite, model: model)
        }
        #expect(error?.code == .removalDenied)
        #expect(error?.message.contains("18 values of “Person.friends”") == true)
        #expect(error?.message.contains("9 values of “Group.members”") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["old.xml"])
        try file.convert(
            to: folder.path("new.sqlite"), type: .sqlite, model: model, allowsRemoval: true)
        let store = try StoreFile(at: folder.path("new.sqlite")).open()
        #expect(try references(store)["person.friends"] == 9)
    }

    @Test(arguments: [SQLiteMigration.Method.automatic, .rowByRow])
    @MainActor func aMigrationToARelationshipThatHoldsLessIsRefused(
        _ method: SQLiteMigration.Method
    ) throws {
        let stack = try TestStack(Self.model(subentities: true))
        try fill(stack.coordinator, Self.model(subentities: true))
        try stack.coordinator.close()
        let before = try InPlaceTests.lines(at: stack.path)
        // Tags that are members of several items' lists, which will have no inverse to say so.
        var model = Self.model(subentities: true)
        for index in model.entities.indices {
            for place in model.entities[index].properties.indices {
                if case .relationship(var relationship) = model.entities[index].properties[place],
                    ["tags", "items"].contains(relationship.name),
                    relationship.inverseName != "owner"
                {
                    relationship.inverseName = nil
                    model.entities[index].properties[place] = .relationship(relationship)
                }
            }
        }
        func migrate(allowingRemoval: Bool) throws {
            let manager = MigrationManager()
            manager.allowsRemoval = allowingRemoval
            try SQLiteMigration(
                path: stack.path, sourceModel: nil, model: model, manager: manager,
                options: SQLiteStoreOptions(), method: method
            ).run()
        }
        let error = #expect(throws: QuireError.self) { try migrate(allowingRemoval: false) }
        #expect(error?.code == .removalDenied, "\(String(describing: error))")
        #expect(error?.subject.property == "tags" || error?.subject.property == "items")
        #expect(try InPlaceTests.lines(at: stack.path) == before)
        try migrate(allowingRemoval: true)
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    func nullInARequiredAttributeStaysNull(_ type: StoreType) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("old.sqlite")
        let model = ManagedObjectModel(entities: [
            Models.entity(
                "Thing", Models.attribute("name", .string),
                Models.attribute("count", .integer32) {
                    $0.isOptional = false
                    $0.defaultValue = 7
                })
        ])
        try SQLiteStore.create(at: path, model: model).close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute(
            "INSERT INTO ZTHING (Z_PK, Z_ENT, Z_OPT, ZNAME) VALUES (1, 1, 1, 'first'); UPDATE Z_PRIMARYKEY SET Z_MAX = 1"
        )
        connection.close()
        try StoreFile(at: path).convert(to: folder.path("new"), type: type)
        let store = try StoreFile(at: folder.path("new")).open()
        let entity = try #require(store.layout.entity(named: "Thing"))
        let row = try #require(
            try store.rows(matching: FetchSpecification("Thing")).first { _ in true })
        #expect(try row.value(at: entity.slot(named: "count") ?? 0).isNull)
    }
}
