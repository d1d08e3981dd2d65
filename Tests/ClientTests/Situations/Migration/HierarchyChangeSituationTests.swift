import Foundation
import Quire
import Testing

/// A new version of a program changes which entity inherits from which.
@MainActor @Suite struct HierarchyChangeSituationTests {
    /// Documents and pictures without a common parent, in a folder.
    private static let flat = ManagedObjectModel {
        Entity("Text") {
            Attribute("name", .string)
            Attribute("body", .string)
            ToOne("box", "Box", inverse: "texts")
        }
        Entity("Picture") {
            Attribute("name", .string)
            Attribute("data", .binary).externalStorage()
            ToOne("box", "Box", inverse: "pictures")
        }
        Entity("Box") {
            Attribute("label", .string)
            ToMany("texts", "Text", inverse: "box")
            ToMany("pictures", "Picture", inverse: "box")
        }
    }
    /// The same with a parent, which has what both have.
    private static let parented = ManagedObjectModel {
        Entity("Item") { Attribute("name", .string) }.abstract()
        Entity("Text", inherits: "Item") {
            Attribute("body", .string)
            ToOne("box", "Box", inverse: "texts")
        }
        Entity("Picture", inherits: "Item") {
            Attribute("data", .binary).externalStorage()
            ToOne("box", "Box", inverse: "pictures")
        }
        Entity("Box") {
            Attribute("label", .string)
            ToMany("texts", "Text", inverse: "box")
            ToMany("pictures", "Picture", inverse: "box")
        }
    }

    private static let large = Data(repeating: 9, count: 200_000)

    private func makeFlat(_ program: MigratedProgram) async throws {
        try await program.run(Self.flat) { context in
            let box = try context.add("Box", ["label": "box"])
            for name in ["a", "b"] {
                try context.add("Text", ["name": name, "body": "body \(name)", "box": box])
                try context.add("Picture", ["name": name, "data": Self.large, "box": box])
            }
            try context.save()
        }
    }

    private func check(_ context: ManagedObjectContext) throws {
        let texts = try context.sorted("Text", by: "name")
        #expect(texts.map { $0["name"] as? String } == ["a", "b"])
        #expect(texts.map { $0["body"] as? String } == ["body a", "body b"])
        let pictures = try context.sorted("Picture", by: "name")
        #expect(pictures.map { $0["name"] as? String } == ["a", "b"])
        #expect(pictures.allSatisfy { $0["data"] as? Data == Self.large })
        let box = try context.one("Box", "texts.@count == 2 AND pictures.@count == 2")
        #expect(try (box.value(forKeyPath: "texts.name") as? [String])?.sorted() == ["a", "b"])
        #expect(pictures.allSatisfy { $0["box"] as? ManagedObject == box })
    }

    // Two entities get a common parent, to which an attribute moves up; objects had wrong identifiers or lost their links.
    // project-imas/encrypted-core-data#218, #163; Starcounter/Home#217
    @Test(arguments: SituationStore.files)
    func aCommonParentIsAddedAndRemoved(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await makeFlat(program)
            try await program.run(Self.parented) { context in
                try check(context)
                let items = try context.sorted("Item", by: "name")
                #expect(items.map { $0["name"] as? String } == ["a", "a", "b", "b"])
                #expect(Set(items.map(\.objectID)).count == 4)
            }
            try await program.run(Self.flat) { context in
                try check(context)
                try context.add("Text", ["name": "c"])
                try context.add("Picture", ["name": "c"])
                try context.save()
            }
            try await program.run(Self.parented) { context in
                #expect(try context.count(for: FetchRequest("Item")) == 6)
                let identifiers = try context.sorted("Item", by: "name").map(\.objectID)
                #expect(Set(identifiers).count == 6)
            }
        }
    }

    // The relationships move up too: two relationships of the box become one to the parent, and one relationship to the parent
    // is restricted to a child again.
    // Apple, “Migrating your data model automatically”
    @Test(arguments: SituationStore.files)
    func aRelationshipMovesToTheParent(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await makeFlat(program)
            let shared = ManagedObjectModel {
                Entity("Item") {
                    Attribute("name", .string)
                    ToOne("box", "Box", inverse: "items")
                }.abstract()
                Entity("Text", inherits: "Item") { Attribute("body", .string) }
                Entity("Picture", inherits: "Item") {
                    Attribute("data", .binary).externalStorage()
                }
                Entity("Box") {
                    Attribute("label", .string)
                    ToMany("items", "Item", inverse: "box")
                }
            }
            try await program.run(shared) { context in
                let box = try context.one("Box", "items.@count == 4")
                let names = try box.value(forKeyPath: "items.name") as? [String]
                #expect(names?.sorted() == ["a", "a", "b", "b"])
                var request = FetchRequest("Item")
                request.predicate = try QueryPredicate(format: "box == %@", box)
                #expect(try context.count(for: request) == 4)
            }
            try await program.run(Self.flat) { context in try check(context) }
        }
    }

    // An entity gets a new parent, a level is put between, the parent becomes abstract, or is renamed with an attribute of it.
    // errorhandle.ai/migrate-entity-parent-in-coredata; Apple, “Migrating your data model automatically”
    @Test(arguments: SituationStore.files)
    func aLevelIsPutBetweenAndThingsAreRenamed(_ store: SituationStore) async throws {
        let old = ManagedObjectModel {
            Entity("Person") {
                Attribute("name", .string).required()
                ToOne("boss", "Person", inverse: "staff")
                ToMany("staff", "Person", inverse: "boss")
            }
            Entity("Employee", inherits: "Person") { Attribute("salary", .integer32) }
            Entity("Guest", inherits: "Person")
        }
        let new = ManagedObjectModel {
            Entity("Human") {
                Attribute("title", .string).required().renamed(from: "name")
                ToOne("chief", "Human", inverse: "staff").renamed(from: "boss")
                ToMany("staff", "Human", inverse: "chief")
            }.renamed(from: "Person")
            Entity("Member", inherits: "Human") {
                Attribute("joined", .date)
                Attribute("level", .integer16).required().default(2)
            }.abstract()
            Entity("Employee", inherits: "Member") {
                Attribute("income", .integer64).renamed(from: "salary")
            }
            Entity("Visitor", inherits: "Human").renamed(from: "Guest")
        }
        try await withMigration(store) { program in
            try await program.run(old) { context in
                let ada = try context.add("Employee", ["name": "Ada", "salary": 70_000])
                let bob = try context.add("Person", ["name": "Bob", "boss": ada])
                try context.add("Guest", ["name": "Eve", "boss": bob])
                try context.save()
            }
            try await program.run(new) { context in
                let all = try context.sorted("Human", by: "title")
                #expect(all.map { $0.entity.name } == ["Employee", "Human", "Visitor"])
                #expect(all[0]["income"] as? Int == 70_000)
                #expect(all[0]["level"] as? Int == 2)
                #expect(all[2].value(of: "chief.chief.title") == "Ada")
                #expect(try context.count(for: FetchRequest("Member")) == 1)
                all[1]["chief"] = nil
                try context.save()
            }
            // A level is taken away; the parent cannot become abstract while it has objects.
            let without = ManagedObjectModel {
                Entity("Human") {
                    Attribute("title", .string).required()
                    ToOne("chief", "Human", inverse: "staff")
                    ToMany("staff", "Human", inverse: "chief")
                }.abstract()
                Entity("Employee", inherits: "Human") {
                    Attribute("joined", .date)
                    Attribute("level", .integer16).required().default(2)
                    Attribute("income", .integer64)
                }
                Entity("Visitor", inherits: "Human")
            }
            let error = try await program.refused(without)
            #expect(error.message.contains("Human"))
            try await program.run(new) { context in
                context.delete(try context.one("Human", "title == 'Bob'"))
                try context.save()
            }
            try await program.run(without) { context in
                let all = try context.sorted("Human", by: "title")
                #expect(all.map { $0["title"] as? String } == ["Ada", "Eve"])
                #expect(all[1]["chief"] == nil)
                #expect(all[0]["level"] as? Int == 2)
            }
        }
    }

    // One entity is split in two, and two are made one.
    // objc.io issue 4 “Custom Core Data Migrations”; WWDC 2022 session 10120 “Evolve your Core Data schema”
    @Test(arguments: SituationStore.files)
    func anEntityIsSplitByAPolicyAndMergedAgain(_ store: SituationStore) async throws {
        let old = ManagedObjectModel {
            Entity("Flight") {
                Attribute("number", .string)
                Attribute("airline", .string)
                Attribute("plane", .binary).externalStorage()
            }
        }
        let new = ManagedObjectModel {
            Entity("Flight") {
                Attribute("number", .string)
                ToOne("airline", "Airline", inverse: "flights").required()
            }
            Entity("Airline") {
                Attribute("name", .string)
                Attribute("logo", .binary).externalStorage()
                ToMany("flights", "Flight", inverse: "airline").deleteRule(.cascade)
                Unique("name")
            }
        }
        try await withMigration(store) { program in
            try await program.run(old) { context in
                for (number, airline) in [("1", "A"), ("2", "B"), ("3", "A")] {
                    try context.add(
                        "Flight", ["number": number, "airline": airline, "plane": Self.large])
                }
                try context.save()
            }
            try await program.refused(new)
            var mapping = MappingModel()
            var flights = EntityMapping(
                name: "FlightToFlight", type: .transform, from: "Flight", to: "Flight")
            flights.attributeMappings = [
                PropertyMapping(name: "number", valueExpression: .sourceValue("number"))
            ]
            flights.entityMigrationPolicyName = "Split"
            mapping.entityMappings = [flights]
            var options = StoreMigrationOptions()
            options.mappings = [CustomMapping(from: old, to: new, mapping: mapping)]
            options.policies["Split"] = { SplitPolicy() }
            try await program.run(new, migration: options) { context in
                let airlines = try context.sorted("Airline", by: "name")
                #expect(airlines.map { $0["name"] as? String } == ["A", "B"])
                #expect(airlines.allSatisfy { $0["logo"] as? Data == Self.large })
                let numbers = try airlines[0].value(forKeyPath: "flights.number") as? [String]
                #expect(numbers?.sorted() == ["1", "3"])
                context.delete(airlines[1])
                try context.save()
                #expect(try context.count(for: FetchRequest("Flight")) == 2)
            }
            // Merged: both old entities become one.
            var merged = MappingModel()
            var airlines = EntityMapping(
                name: "AirlineToFlight", type: .transform, from: "Airline", to: "Flight")
            airlines.attributeMappings = [
                PropertyMapping(name: "number", valueExpression: .constant("none")),
                PropertyMapping(name: "airline", valueExpression: .sourceValue("name")),
                PropertyMapping(name: "plane", valueExpression: .sourceValue("logo")),
            ]
            var again = EntityMapping(
                name: "FlightToFlight", type: .transform, from: "Flight", to: "Flight")
            again.attributeMappings = [
                PropertyMapping(name: "number", valueExpression: .sourceValue("number")),
                PropertyMapping(name: "airline", valueExpression: .sourceValue("airline.name")),
            ]
            merged.entityMappings = [again, airlines]
            options.mappings = [CustomMapping(from: new, to: old, mapping: merged)]
            try await program.run(old, migration: options) { context in
                let flights = try context.sorted("Flight", by: "number")
                #expect(flights.map { $0["number"] as? String } == ["1", "3", "none"])
                #expect(flights.map { $0["airline"] as? String } == ["A", "A", "A"])
                #expect(flights.map { $0["plane"] as? Data } == [nil, nil, Self.large])
            }
        }
    }
}

extension ManagedObject {
    /// The text at a key path.
    fileprivate func value(of keyPath: String) -> String? {
        try? value(forKeyPath: keyPath) as? String
    }
}

/// Makes one airline for the flights that name it.
private final class SplitPolicy: EntityMigrationPolicy {
    override func createDestinationObjects(
        for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
    ) throws {
        let flight = try session.makeObject(for: source, mapping: mapping)
        let name = try source["airline"]
        let airline =
            try session.objects(of: "Airline").first { $0["name"] == name }
            ?? session.makeObject(
                of: "Airline", values: ["name": name, "logo": source["plane"]])
        try flight.setObjects([airline.objectID], for: "airline")
    }
}
