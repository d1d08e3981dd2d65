import Foundation
import Quire
import Testing

/// Predicates about related objects, and about objects that are not saved yet.
@MainActor @Suite struct RelationshipQuestionSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Apartment") {
            Attribute("name", .string)
            ToMany("residents", "Resident", inverse: "apartment")
            ToMany("tags", "Tag", inverse: "apartments")
            ToMany("rooms", "Room", inverse: "apartment").ordered()
        }
        Entity("Resident") {
            Attribute("first", .string)
            Attribute("last", .string)
            Attribute("age", .integer16)
            ToOne("apartment", "Apartment", inverse: "residents")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("apartments", "Apartment", inverse: "tags")
        }
        Entity("Room") {
            Attribute("name", .string)
            ToOne("apartment", "Apartment", inverse: "rooms")
        }
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        var tags: [String: ManagedObject] = [:]
        for name in ["quiet", "sunny"] {
            tags[name] = try context.insertObject(entityName: "Tag")
            tags[name]?["name"] = name
        }
        for (name, residents, labels, rooms) in [
            ("A", [("Jane", "Doe", 30), ("John", "Smith", 50)], ["quiet"], ["hall", "attic"]),
            (
                "B", [("Jane", "Smith", 20), ("John", "Doe", 40)], ["quiet", "sunny"],
                ["attic", "hall"]
            ),
            ("C", [], [], ["hall"]), ("D", [("Ann", "Lee", 70)], ["sunny"], []),
        ] {
            let apartment = try context.insertObject(entityName: "Apartment")
            apartment["name"] = name
            apartment["tags"] = Set(labels.compactMap { tags[$0] })
            apartment["rooms"] = try rooms.map {
                let room = try context.insertObject(entityName: "Room")
                room["name"] = $0
                return room
            }
            for (first, last, age) in residents {
                let resident = try context.insertObject(entityName: "Resident")
                resident["first"] = first
                resident["last"] = last
                resident["age"] = age
                resident["apartment"] = apartment
            }
        }
    }

    /// “All apartments inhabited by Jane Doe”: two ANY conditions may hold for two residents, a subquery's hold for one. Apple,
    /// NSExpression `init(forSubquery:usingIteratorVariable:predicate:)`; Stack Overflow “How to use AND with ANY in NSPredicates
    /// while staying efficient”. ALL and NONE of nobody; aggregates of nobody.
    @Test(arguments: SituationCase.all)
    func subqueryAndAnyDifferAboutOneResident(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (format, names) in [
                ("ANY residents.first == 'Jane' AND ANY residents.last == 'Doe'", "AB"),
                (
                    "SUBQUERY(residents, $r, $r.first == 'Jane' AND $r.last == 'Doe').@count > 0",
                    "A"
                ),
                (
                    "SUBQUERY(residents, $r, $r.first == 'Jane' AND $r.last == 'Doe').@count == 0",
                    "BCD"
                ),
                ("SUBQUERY(residents, $r, $r.age > 25).@count == residents.@count", "ACD"),
                ("ALL residents.age > 25", "ACD"), ("NONE residents.age > 25", "C"),
                ("NOT ALL residents.age > 25", "B"), ("residents.@count == 0", "C"),
                ("residents.@avg.age == 40", "A"), ("residents.@max.age == nil", "C"),
                ("residents.@sum.age == 0", "C"), ("residents.@min.age < 25", "B"),
                ("ANY tags.apartments.residents.last == 'Lee'", "BD"),
                ("ANY tags.apartments.name == 'A' AND NOT ANY residents.first == 'Ann'", "AB"),
                (
                    "SUBQUERY(tags, $t, SUBQUERY($t.apartments, $a, $a.residents.@count == 1).@count > 0).@count > 0",
                    "BD"
                ),
                ("'sunny' IN tags.name", "BD"),
                ("ANY tags.name IN {'quiet', 'sunny'}", "ABD"),
                ("SUBQUERY(tags, $t, $t.name IN {'quiet', 'sunny'}).@count == 2", "B"),
                ("rooms[FIRST].name == 'hall'", "AC"), ("rooms[LAST].name == 'hall'", "BC"),
                ("rooms[1].name == 'attic'", "A"), ("rooms[FIRST] == nil", "D"),
                ("rooms.@count > residents.@count", "C"),
                ("ANY residents.apartment.name == name", "ABD"),
                ("SUBQUERY(residents, $r, $r.last BEGINSWITH[c] 's').@max.age > 40", "A"),
            ] {
                let found = try context.texts("name", of: "Apartment", where: format)
                #expect(found.joined() == names, "\(format)")
            }
        }
    }

    /// An object that is not in the store yet, in a predicate: project-imas/encrypted-core-data#51 (a syntax error), #335 (in
    /// collections of unsaved objects too), and dkharrat/NexusData#13. Also by its identifier, in lists and sets, and negated:
    /// lionheart/openradar-mirror#5659 (“NOT (%@ CONTAINS SELF)” in memory).
    @Test(arguments: SituationCase.all)
    func objectsAreConstants(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            func object(_ entity: String, _ key: String, _ value: String) throws -> ManagedObject {
                let predicate = try QueryPredicate(format: "%K == %@", key, value)
                return try #require(
                    try context.fetch(FetchRequest(entity, predicate: predicate)).first)
            }
            let quiet = try object("Tag", "name", "quiet")
            let a = try object("Apartment", "name", "A")
            let d = try object("Apartment", "name", "D")
            let ann = try object("Resident", "first", "Ann")
            let new = try context.insertObject(entityName: "Apartment")
            new["name"] = "E"
            let bob = try context.insertObject(entityName: "Resident")
            bob["first"] = "Bob"
            bob["apartment"] = new
            for (format, arguments, names) in [
                ("ANY tags == %@", [quiet], "AB"), ("%@ IN tags", [quiet], "AB"),
                ("tags CONTAINS %@", [quiet], "AB"), ("NOT %@ IN tags", [quiet], "CDE"),
                ("NONE tags == %@", [quiet], "CDE"), ("ANY tags IN %@", [[quiet]], "AB"),
                ("ANY residents == %@", [ann], "D"), ("ANY residents IN %@", [[ann, bob]], "DE"),
                ("ANY residents == %@", [bob], "E"), ("SELF == %@", [new], "E"),
                ("SELF IN %@", [[a, new]], "AE"), ("SELF IN %@", [Set([d, new])], "DE"),
                ("SELF == %@", [a.objectID], "A"),
                ("SELF IN %@", [[a.objectID, new.objectID]], "AE"),
                ("NOT SELF IN %@", [[a, new]], "BCD"),
                ("NOT (%@ CONTAINS SELF)", [[a, new]], "BCD"),
                ("SELF IN %@", [[ManagedObject]()], ""), ("SELF != %@", [new], "ABCD"),
                ("SELF == %@", [ann], ""), ("SELF IN %@", [[ann, bob]], ""),
                ("ANY residents.apartment == %@", [new], "E"),
                ("objectID == %@", [d.objectID], "D"),
                ("SUBQUERY(residents, $r, $r == %@).@count == 1", [bob], "E"),
                ("SUBQUERY(tags, $t, $t IN %@).@count == 0", [[quiet]], "CDE"),
                ("SUBQUERY(tags, $t, %@ IN $t.apartments).@count > 0", [a], "AB"),
            ] as [(String, [(any QueryArgument)?], String)] {
                var request = FetchRequest("Apartment", sortOrderings: [SortOrdering("name")])
                request.predicate = try QueryPredicate(format: format, arguments: arguments)
                let found = try context.fetch(request).map { $0["name", as: String.self] ?? "nil" }
                #expect(found.joined() == names, "\(format)")
                #expect(try context.count(for: request) == names.count, "\(format)")
            }
            for (format, argument, names) in [
                ("apartment == %@", a, ["Jane", "John"]), ("apartment == %@", new, ["Bob"]),
                ("apartment != %@", new, ["Ann", "Jane", "Jane", "John", "John"]),
                ("ANY apartment.tags == %@", quiet, ["Jane", "Jane", "John", "John"]),
            ] as [(String, ManagedObject?, [String])] {
                let found = try context.texts("first", of: "Resident", where: format, argument)
                #expect(found == names, "\(format)")
            }
        }
    }

    /// A list of objects of another entity found objects that happened to have the same primary keys:
    /// lionheart/openradar-mirror#5736 (“returns objects not in RHS of IN pred”).
    @Test(arguments: SituationStore.allCases)
    func objectsOfAnotherEntityAreNoneOfThese(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            try context.save()
            let tags: [ManagedObject] = try context.fetch(FetchRequest("Tag"))
            let rooms: [ManagedObject] = try context.fetch(FetchRequest("Room"))
            for _ in 0..<2 {
                for strangers in [tags, rooms] {
                    for format in ["SELF IN %@", "objectID IN %@", "%@ CONTAINS SELF"] {
                        let predicate = try QueryPredicate(
                            format: format, strangers.map(\.objectID))
                        #expect(
                            try context.count(for: FetchRequest("Apartment", predicate: predicate))
                                == 0)
                    }
                    let first = try #require(strangers.first)
                    let same = try QueryPredicate(format: "SELF == %@", first)
                    #expect(try context.count(for: FetchRequest("Apartment", predicate: same)) == 0)
                    #expect(try context.fetch(FetchRequest("Apartment", predicate: same)).isEmpty)
                }
                // And with an unsaved change, which makes the context ask in memory too.
                let apartment = try #require(try context.fetch(FetchRequest("Apartment")).first)
                apartment["name"] = "changed"
            }
        }
    }
}
