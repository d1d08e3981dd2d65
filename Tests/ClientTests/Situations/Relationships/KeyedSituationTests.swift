import Foundation
import Quire
import Testing

/// Relationships by key: every form in which programs set them, and predicates about them.
@MainActor @Suite struct KeyedSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Person") {
            Attribute("name", .string)
            Attribute("age", .integer16)
            ToMany("friends", "Person", inverse: "friends")
            ToMany("cars", "Car", inverse: "owner").ordered()
            ToOne("favourite", "Car")
            ToMany("wishes", "Car").ordered()
        }
        Entity("Car") {
            Attribute("name", .string)
            ToOne("owner", "Person", inverse: "cars")
        }
    }

    /// Parsers set relationships to sets, arrays and null, ordered or not; an array with duplicates; wrong things are
    /// errors and change nothing.
    /// Source: RestKit #233 “CoreData and to-many relationships” (illegal container for relationship); SwiftSync #174
    /// “NSMutableSet changed to NSMutableOrderedSet”; Mantle #799 “not deleting the relationship model when value = null”.
    @Test(arguments: SituationStore.allCases, [true, false])
    func relationshipsAreSetToWhateverContainerComes(store: SituationStore, isSaved: Bool)
        async throws
    {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let person = try context.insertNamed("Person", "p")
            let cars = try ["a", "b", "c"].map { try context.insertNamed("Car", $0) }
            let friends = try ["q", "r"].map { try context.insertNamed("Person", $0) }
            if isSaved {
                try context.save()
                context.refreshAllObjects()
            }
            try person.setValue([cars[2], cars[0], cars[2]], forKey: "cars")
            #expect(person.memberNames("cars") == "ca")
            #expect(throws: QuireError.self) { try person.setValue(Set(cars), forKey: "cars") }
            #expect(person.memberNames("cars") == "ca")
            try person.setValue(cars, forKey: "cars")
            try person.setValue(friends, forKey: "friends")
            #expect(
                person.memberNames("friends") == "qr" && friends[0].memberNames("friends") == "p")
            try person.setValue([friends[1], friends[1]] as [Any], forKey: "friends")
            #expect(person.memberNames("friends") == "r" && friends[0].objects("friends").isEmpty)
            try person.setValue(cars[0], forKey: "favourite")
            for (value, key) in [
                (cars[0] as Any, "friends"), ("x", "cars"), ([cars[0], "x"] as [Any], "cars"),
                (friends[0], "favourite"), ([cars[0]], "favourite"), (Set(friends), "cars"),
                (1, "friends"),
            ] {
                #expect(throws: QuireError.self, "\(key)") {
                    try person.setValue(value, forKey: key)
                }
            }
            #expect(person.memberNames("friends") == "r" && person.objects("cars").count == 3)
            #expect(person.destinationName("favourite") == "a")
            try person.setValue(cars.reversed() as [ManagedObject], forKey: "wishes")
            try context.save()
            for (key, value) in [
                ("cars", nil), ("friends", NSNull()), ("favourite", NSNull()), ("wishes", [Any]()),
            ] as [(String, Any?)] {
                try person.setValue(value, forKey: key)
            }
            #expect(person.objects("cars").isEmpty && person.objects("friends").isEmpty)
            #expect(person.object("favourite") == nil && person.objects("wishes").isEmpty)
            try context.save()
            context.reset()
            #expect(try context.foundNames("Car", "owner == nil") == "abc")
            #expect(
                try context.foundNames("Person", "friends.@count == 0 AND favourite == nil")
                    == "pqr")
        }
    }

    /// The usual questions about relationships give the same answers for saved, changed and new objects.
    /// Source: Apple, Predicate Programming Guide, “Using Predicates with Core Data”; newbe.dev “Quick Explanation of
    /// SUBQUERY in NSPredicate Expression”.
    @Test(arguments: SituationStore.allCases, ["new", "saved", "changed", "changed back"])
    func questionsAboutRelationshipsHaveOneAnswer(store: SituationStore, state: String) async throws
    {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            var people: [String: ManagedObject] = [:]
            var cars: [String: ManagedObject] = [:]
            for (name, age) in [("a", 10), ("b", 20), ("c", 30), ("d", 40)] {
                people[name] = try context.insertNamed("Person", name, ["age": age])
            }
            for name in ["1", "2", "3", "4"] { cars[name] = try context.insertNamed("Car", name) }
            func person(_ name: String) throws -> ManagedObject { try #require(people[name]) }
            func car(_ name: String) throws -> ManagedObject { try #require(cars[name]) }
            func relate() throws {
                try person("a")["cars"] = [car("2"), car("1")]
                try person("b")["cars"] = [car("3")]
                try car("4")["owner"] = nil
                try person("a")["friends"] = Set([person("b"), person("c")])
                try person("c")["friends"] = Set([person("a"), person("d"), person("c")])
                try person("b")["friends"] = Set([person("a")])
                for (name, favourite) in [("a", "3"), ("c", "1")] {
                    try person(name)["favourite"] = car(favourite)
                }
                try person("b")["favourite"] = nil
                try person("d")["wishes"] = [car("1"), car("4")]
                try person("c")["wishes"] = [car("2")]
            }
            func disturb() throws {
                try car("4")["owner"] = person("d")
                try person("d")["cars"] = [car("4"), car("1"), car("3")]
                try person("b")["friends"] = Set([person("c"), person("d")])
                try person("b")["favourite"] = car("2")
                try person("c")["wishes"] = nil
            }
            if state == "changed" { try disturb() } else { try relate() }
            if state != "new" { try context.save() }
            if state == "saved" { context.refreshAllObjects() }
            if state == "changed" { try relate() }
            if state == "changed back" {
                try disturb()
                context.processPendingChanges()
                try relate()
            }
            let (a, c) = (try person("a"), try person("c"))
            let (one, four) = (try car("1"), try car("4"))
            let questions: [(String, [(any QueryArgument)?], String)] = [
                ("cars CONTAINS %@", [one], "a"), ("%@ IN cars", [one], "a"),
                ("ANY cars == %@", [one], "a"),
                ("ANY cars IN %@", [[one, try car("3")]], "ab"),
                ("NONE cars.name == '1'", [], "bcd"),
                ("cars.@count > 0 AND ALL cars.name > '1'", [], "b"),
                ("cars.@count == 0", [], "cd"),
                ("favourite.owner == SELF", [], ""), ("favourite.owner.name == 'b'", [], "a"),
                ("favourite IN cars", [], ""), ("favourite.owner IN friends", [], "ac"),
                ("ANY friends.favourite.owner == SELF", [], "ab"),
                ("ANY friends == SELF", [], "c"), ("SELF IN friends", [], "c"),
                ("friends.@count == 3", [], "c"),
                ("ANY friends.friends.name == 'd'", [], "acd"), ("friends.@max.age == 40", [], "c"),
                (
                    "SUBQUERY(friends, $f, $f.age > 15 AND $f.cars.@count == 0).@count > 0", [],
                    "acd"
                ),
                ("SUBQUERY(cars, $c, $c.name == '1' OR $c.name == '2').@count == 2", [], "a"),
                ("ANY wishes.owner.name == 'a'", [], "cd"), ("%@ IN wishes", [four], "d"),
                ("wishes.@count == 2", [], "d"), ("ANY wishes.owner == nil", [], "d"),
                ("SELF IN %@", [a.objects("friends")], "bc"), ("favourite == %@", [one], "c"),
                ("NOT (SELF IN %@)", [Set([a, c])], "bd"),
                ("ANY friends.cars.name == '3'", [], "a"),
                ("cars[0].name == '2'", [], "a"), ("cars[LAST].name == '1'", [], "a"),
                ("wishes[FIRST] == %@", [one], "d"),
                ("favourite.owner.cars.@count == 2", [], "c"),
                ("NONE friends.cars.owner == SELF", [], "abcd"),
            ]
            for (format, arguments, expected) in questions {
                let predicate = try QueryPredicate(format: format, arguments: arguments)
                let found = try context.fetch(
                    FetchRequest<ManagedObject>("Person", predicate: predicate))
                let names = found.map { $0["name"] as? String ?? "-" }.sorted().joined()
                #expect(names == expected, "\(format)")
                #expect(
                    try context.count(for: FetchRequest("Person", predicate: predicate))
                        == expected.count, "\(format)")
                let evaluated = try people.values.filter { try predicate.evaluate(with: $0) }
                #expect(
                    evaluated.map { $0["name"] as? String ?? "-" }.sorted().joined() == expected,
                    "evaluated: \(format)")
            }
        }
    }
}
