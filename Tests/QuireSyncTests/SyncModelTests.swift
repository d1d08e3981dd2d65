import Foundation
import Quire
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Everything that a model can have is the same on all machines.
@MainActor @Suite struct SyncModelTests {
    private static let model = ManagedObjectModel {
        Composite("Position") {
            Attribute("latitude", .double)
            Attribute("longitude", .double)
        }
        Composite("Place") {
            Attribute("city", .string)
            Attribute("position", composite: "Position")
        }
        Entity("Item") {
            Attribute("title", .string)
            ToOne("parent", "Item", inverse: "children")
            ToMany("children", "Item", inverse: "parent").ordered().deleteRule(.cascade)
        }.abstract()
        Entity("Note", inherits: "Item") {
            Attribute("flag", .boolean).required().default(false)
            Attribute("small", .integer16)
            Attribute("medium", .integer32)
            Attribute("large", .integer64)
            Attribute("single", .float)
            Attribute("double", .double)
            Attribute("price", .decimal)
            Attribute("day", .date)
            Attribute("number", .uuid)
            Attribute("link", .uri)
            Attribute("bytes", .binary)
            Attribute("file", .binary).externalStorage()
            Attribute("object", .transformable)
            Attribute("place", composite: "Place")
            Attribute("length", .string).derived("canonical:(title)")
            Attribute("childCount", .integer64).derived("children.@count")
            Attribute("selection", .string).transient()
            Attribute("local", .string).syncable(false)
        }
        Entity("Task", inherits: "Item") {
            Attribute("isDone", .boolean)
            ToOne("assignee", "Person")
            ToMany("marked", "Item")
        }
        Entity("Task2", inherits: "Task") { Attribute("more", .string) }
        Entity("Person") {
            Attribute("name", .string)
            ToOne("spouse", "Person", inverse: "spouse")
            ToOne("manager", "Person", inverse: "reports")
            ToMany("reports", "Person", inverse: "manager")
            ToMany("playlists", "Playlist", inverse: "people").ordered()
        }
        Entity("Playlist") {
            Attribute("name", .string)
            ToMany("people", "Person", inverse: "playlists").ordered()
        }
    }

    private func object(_ entity: String, _ key: String, _ value: String, _ site: SyncSite) throws
        -> ManagedObject
    {
        site.context.refreshAllObjects()
        return try #require(
            try site.objects(entity).first { $0[key, as: String.self] == value }, "\(value)")
    }

    @discardableResult
    private func insert(
        _ entity: String, _ values: [String: Any], _ site: SyncSite
    ) throws -> ManagedObject {
        let object = try site.context.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        return object
    }

    /// Values at the limits of their types; each set changes all of them.
    private static let values: [[String: Any]] = [
        [
            "flag": true, "small": Int16.min, "medium": Int32.min, "large": Int64.min,
            "single": Float(0.1), "double": 0.1 + 0.2,
            "price": Decimal(string: "-79228162.33759")!,
            "day": Date(timeIntervalSinceReferenceDate: -1.25),
            "number": UUID(), "link": URL(string: "https://example.org/ä?b=c#d")!,
            "bytes": Data([0, 255]), "file": Data(repeating: 9, count: 400_000),
            "object": Data("plist".utf8),
            "place.city": "Zürich", "place.position.latitude": 47.37,
            "place.position.longitude": -8.54,
        ],
        [
            "flag": false, "small": Int16.max, "medium": Int32.max, "large": Int64.max,
            "single": -Float.greatestFiniteMagnitude, "double": Double.leastNonzeroMagnitude,
            "price": Decimal(0), "day": Date(timeIntervalSinceReferenceDate: 5e9),
            "number": UUID(), "link": URL(string: "mailto:a@b.c")!,
            "bytes": Data(), "file": Data(), "object": Data(),
            "place.city": "", "place.position.latitude": -0.0, "place.position.longitude": 1e300,
        ],
    ]

    @Test func valuesOfAllTypesArrive() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let note = try insert("Note", ["title": "Déjà vu", "local": "here"], first)
        let keys = Self.values[0].keys.sorted()
        for values in Self.values {
            for (key, value) in values { note[key] = value }
            try first.context.save()
            try await sites.exchange()
            let other = try object("Note", "title", "Déjà vu", second)
            for key in keys {
                let value = try #require(other[key] as? AnyHashable, "\(key)")
                #expect(value == note[key] as? AnyHashable, "\(key)")
                #expect(value == values[key] as? AnyHashable, "\(key)")
            }
            #expect(other["length", as: String.self] == "deja vu")
            #expect(other["local"] == nil)
        }
        for key in keys where key != "flag" { note[key] = nil }
        try first.context.save()
        try await sites.exchange()
        let other = try object("Note", "title", "Déjà vu", second)
        for key in keys where key != "flag" { #expect(other[key] == nil, "\(key)") }
        try sites.close()
    }

    @Test func hierarchiesArrive() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let root = try insert("Note", ["title": "root"], first)
        for entity in ["Task2", "Note", "Task"] {
            try insert(entity, ["title": "a \(entity)", "parent": root], first)
        }
        try first.context.save()
        try await sites.exchange()
        let other = try object("Note", "title", "root", second)
        #expect(
            other["children", as: [ManagedObject].self].map { $0["title", as: String.self] }
                == ["a Task2", "a Note", "a Task"])
        #expect(other["childCount", as: Int64.self] == 3)
        // Another order here, a deeper tree there.
        root["children"] = root["children", as: [ManagedObject].self].reversed()
        try first.context.save()
        let task = try object("Task", "title", "a Task", second)
        task["parent"] = try object("Note", "title", "a Note", second)
        try insert("Task2", ["title": "b Task2", "parent": task], second)
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        let titles = try object("Note", "title", "root", first)[
            "children", as: [ManagedObject].self]
        #expect(titles.map { $0["title", as: String.self] } == ["a Note", "a Task2"])
        #expect(try object("Note", "title", "root", first)["childCount", as: Int64.self] == 2)
        second.context.delete(try object("Note", "title", "root", second))
        try second.context.save()
        try await sites.exchange()
        #expect(try first.objects("Item").isEmpty)
        try await sites.expectSame()
        try sites.close()
    }

    @Test func relationshipsWithoutInversesAndToOnesOwnEntityArrive() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let people = try ["Ada", "Bob", "Cy", "Di"].map {
            try insert("Person", ["name": $0], first)
        }
        people[0]["spouse"] = people[1]
        people[2]["spouse"] = people[3]
        for person in people.dropFirst() { person["manager"] = people[0] }
        let task = try insert("Task", ["title": "task", "assignee": people[1]], first)
        let notes = try (0..<3).map { try insert("Note", ["title": "note \($0)"], first) }
        let marked = try task.mutableSetValue(forKey: "marked")
        for note in notes { marked.add(note) }
        marked.add(task)
        try first.context.save()
        try await sites.exchange()
        try await sites.expectSame()

        // Bob and Di marry here, Ada and Cy there.
        people[1]["spouse"] = people[3]
        marked.remove(notes[0])
        first.context.delete(people[1])
        try first.context.save()
        try object("Person", "name", "Ada", second)["spouse"] = try object(
            "Person", "name", "Cy", second)
        let other = try object("Task", "title", "task", second)
        try other.mutableSetValue(forKey: "marked").add(
            try insert("Task2", ["title": "new"], second))
        second.context.delete(try object("Note", "title", "note 2", second))
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            let ada = try object("Person", "name", "Ada", site)
            #expect(ada["spouse", as: ManagedObject.self]?["name", as: String.self] == "Cy")
            #expect(ada["reports", as: Set<ManagedObject>.self].count == 2)
            let task = try object("Task", "title", "task", site)
            #expect(task["assignee", as: ManagedObject.self] == nil)
            let titles = task["marked", as: Set<ManagedObject>.self]
                .map { $0["title", as: String.self] ?? "" }.sorted()
            #expect(titles == ["new", "note 1", "task"])
        }
        try sites.close()
    }

    @Test func manyToManyRelationshipsThatAreOrderedOnBothSidesArrive() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let people = try ["Ada", "Bob", "Cy"].map { try insert("Person", ["name": $0], first) }
        let lists = try ["x", "y"].map { try insert("Playlist", ["name": $0], first) }
        lists[0]["people"] = [people[2], people[0], people[1]]
        lists[1]["people"] = [people[1], people[0]]
        people[0]["playlists"] = [lists[1], lists[0]]
        try first.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        lists[0]["people"] = [people[0], people[1]]
        people[1]["playlists"] = [lists[1], lists[0]]
        try first.context.save()
        let other = try object("Playlist", "name", "x", second)
        var members = other["people", as: [ManagedObject].self]
        members.append(try insert("Person", ["name": "Di"], second))
        other["people"] = members
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(
            try object("Playlist", "name", "x", first)["people", as: [ManagedObject].self]
                .map { $0["name", as: String.self] } == ["Ada", "Bob", "Di"])
        try sites.close()
    }

    @Test func batchRequestsAreSentAndAreNotUndone() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let rows: [[String: Any]] = (0..<100).map { ["name": "Person \($0)"] }
        let insertion = BatchInsertRequest(entityName: "Person", objects: rows)
        _ = try first.context.execute(insertion)
        try await sites.exchange()
        #expect(try second.objects("Person").count == 100)
        var update = BatchUpdateRequest(entityName: "Person")
        update.predicate = try QueryPredicate(format: "name ENDSWITH '7'")
        update.propertiesToUpdate = ["name": "Seven"]
        _ = try second.context.execute(update)
        var eights = FetchRequest("Person")
        eights.predicate = try QueryPredicate(format: "name ENDSWITH '8'")
        _ = try first.context.execute(BatchDeleteRequest(fetchRequest: eights))
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try first.objects("Person").count == 90)
        #expect(try first.objects("Person").count { $0["name", as: String.self] == "Seven" } == 10)
        try sites.close()
    }
}
