import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// ``QueryPredicate/evaluate(with:)`` answers for an object what a fetch from its store answers, or is refused as it is.
@MainActor
@Suite struct EvaluationAsFetchedTests {
    nonisolated static let kinds: [StoreType] = [.sqlite, .xml, .binary, .inMemory]

    nonisolated static let model: ManagedObjectModel = {
        typealias Make = FixtureModels
        var place = AttributeDescription(name: "place", type: .composite)
        place.compositeName = "Place"
        var model = ManagedObjectModel(entities: [
            Make.entity(
                "Person", Make.attribute("name", .string), Make.attribute("nick", .string),
                Make.attribute("born", .integer16), Make.attribute("since", .date),
                Make.attribute("price", .decimal),
                Make.attribute("active", .boolean), Make.attribute("code", .uuid),
                Make.attribute("seal", .binary), .attribute(place),
                Make.toMany("books", "Book", "author"), Make.toOne("friend", "Person", "friends"),
                Make.toMany("friends", "Person", "friend")),
            Make.entity("Poet", parent: "Person", Make.attribute("verse", .string)),
            Make.entity(
                "Book", Make.attribute("title", .string), Make.attribute("year", .integer16),
                Make.toOne("author", "Person", "books")),
        ])
        model.composites = [
            CompositeDescription(
                name: "Place", elements: [AttributeDescription(name: "city", type: .string)])
        ]
        return model
    }()

    /// Ann was born on the first of January 1900 and wrote a book in 1950; Bob, a poet and her friend, has no values.
    private func people(_ kind: StoreType) throws -> (
        context: ManagedObjectContext, people: [ManagedObject], folder: TemporaryFolder
    ) {
        let folder = try TemporaryFolder()
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        let path = kind == .inMemory ? nil : folder.path("store")
        try coordinator.addPersistentStore(PersistentStoreDescription(path: path, type: kind))
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let ann = try context.insertObject(entityName: "Person")
        ann["name"] = "Ann"
        ann["nick"] = ""
        ann["born"] = 1900
        ann["since"] = try AttributeValue(parsing: "1900-01-01", as: .date)
        ann["price"] = try AttributeValue(parsing: "10.1", as: .decimal)
        ann["active"] = true
        ann["code"] = try AttributeValue(parsing: Self.code, as: .uuid)
        ann["seal"] = Data([1, 2])
        ann["place.city"] = "Bath"
        let book = try context.insertObject(entityName: "Book")
        book["year"] = 1950
        book["author"] = ann
        let bob = try context.insertObject(entityName: "Poet")
        bob["friend"] = ann
        try context.save()
        return (context, [ann, bob], folder)
    }

    nonisolated static let code = "00000000-0000-0000-0000-00000000000A"

    /// Conditions, with who satisfies them: `a` for Ann, `b` for Bob.
    nonisolated static let answers: [(String, String)] = [
        ("born == '1900'", "a"), ("born IN {'1900'}", "a"), ("born != '1900'", "b"),
        ("since == '1900-01-01'", "a"), ("since != '1900-01-01'", "b"),
        ("since IN {'1900-01-01'}", "a"), ("since < '1900-01-02'", "a"),
        ("since BETWEEN {'1899-01-01', '1901-01-01'}", "a"), ("'1900-01-01' == since", "a"),
        ("price == '10.1'", "a"), ("price IN {'10.1', '3'}", "a"), ("price > '9'", "a"),
        ("ANY books.year == '1950'", "a"), ("ANY books.year IN {'1950'}", "a"),
        ("ALL books.year == '1950'", "ab"), ("NONE books.year == '1950'", "b"),
        ("active == 'YES'", "a"), ("active == 'yes'", "a"), ("active != 'NO'", "ab"),
        ("code == '\(code)'", "a"), ("code == '\(code.lowercased())'", "a"),
        ("code IN {'\(code)'}", "a"), ("seal == 'AQI='", "a"),
        ("friend == 'ANN'", "b"), ("friend IN {'ANN'}", "b"),
        ("SELF == 'ANN'", "a"), ("ANY friends == 'BOB'", "a"),
        ("friends CONTAINS 'BOB'", "a"), ("'BOB' IN friends", "a"),
        ("nick.length == 0", "a"), ("nick.length == nil", "b"), ("name.length == 3", "a"),
        ("friend.nick.length == 0", "b"), ("place.city == nil", "b"),
        ("place.city ==[c] 'BATH'", "a"), ("place == nil", "b"), ("nil != place", "a"),
        ("friend.place != nil", "b"),
        ("SUBQUERY(books, $b, $b.year == '1950').@count == 1", "a"),
        ("TERNARY(since == '1900-01-01', 1, 2) == 1", "a"),
        ("entity.name == 'Poet'", "b"), ("entity.name IN {'Person', 'Book'}", "a"),
        ("entity.name BEGINSWITH 'P'", "ab"), ("NOT entity.name == 'Person'", "b"),
        ("friend.entity.name == 'Person'", "b"), ("friend.entity.name == nil", "a"),
        ("ANY friends.entity.name == 'Poet'", "a"), ("entity == 'Poet'", "b"),
        ("SUBQUERY(friends, $f, $f.entity.name == 'Poet').@count == 1", "a"),
        ("entity.name == name", ""), ("entity.name != nick", "ab"),
        ("verse == nil AND entity.name == 'Poet'", "b"),
        // Two missing values are equal, as in Core Data's predicates; its SQL says that they are not.
        ("name == nick", "b"), ("name != nick", "a"), ("born == price", "b"),
        ("friend.name == friend.nick", "a"), ("friend == friend.friend", "a"),
    ]

    /// Conditions that make no sense, with the code of the error.
    nonisolated static let refusals: [(String, QuireError.Code)] = [
        ("name == 5", .invalidQuery), ("name IN {5}", .invalidQuery),
        ("name BEGINSWITH 5", .invalidQuery), ("since == 'soon'", .invalidQuery),
        ("since == 1900", .invalidQuery), ("born == 'soon'", .invalidQuery),
        ("price == 'much'", .invalidQuery),
        ("active == 'perhaps'", .invalidQuery), ("code == 'x'", .invalidQuery),
        ("place == 5", .invalidQuery), ("place > nil", .invalidQuery),
        ("books.year == 1950", .invalidQuery), ("ANY name == 'Ann'", .invalidQuery),
        ("friend == 5", .invalidQuery), ("friend < 'ANN'", .invalidQuery),
        ("friend == 'Nobody/p1'", .unknownEntity), ("nothing == 1", .unknownKey),
        ("books.nothing == 1", .unknownKey), ("name == born", .invalidQuery),
        ("since == born", .invalidQuery),
        ("price BEGINSWITH '1'", .invalidQuery), ("name == $x", .invalidQuery),
        ("name MATCHES '('", .invalidQuery), ("entity.nothing == 1", .unknownKey),
        ("entity.name == 5", .invalidQuery), ("entity.name.length.x == 5", .unknownKey),
    ]

    @Test(arguments: kinds)
    func answersAsAFetch(_ kind: StoreType) throws {
        let (context, people, folder) = try people(kind)
        defer { withExtendedLifetime(folder) {} }
        for (format, expected) in Self.answers {
            // Only poets have verse.
            let entity = format.contains("verse") ? "Poet" : "Person"
            let asked = entity == "Poet" ? [people[1]] : people
            let predicate = try Self.predicate(format, people)
            for includesPending in [true, false] {
                var request = FetchRequest(entity, predicate: predicate)
                request.includesPendingChanges = includesPending
                let fetched = try context.fetch(request).map(\.objectID)
                #expect(Self.names(people, fetched) == expected, "fetched: \(format)")
            }
            let evaluated = try asked.filter { try predicate.evaluate(with: $0) }
            #expect(
                Self.names(people, evaluated.map(\.objectID)) == expected, "evaluated: \(format)")
        }
    }

    @Test(arguments: kinds)
    func refusesAsAFetch(_ kind: StoreType) throws {
        let (context, people, folder) = try people(kind)
        defer { withExtendedLifetime(folder) {} }
        for (format, code) in Self.refusals {
            let predicate = try Self.predicate(format, people)
            let fetched = #expect(throws: QuireError.self, "\(format)") {
                try context.fetch(FetchRequest("Person", predicate: predicate))
            }
            let evaluated = #expect(throws: QuireError.self, "\(format)") {
                try predicate.evaluate(with: people[0])
            }
            #expect(fetched?.code == code, "\(format)")
            #expect(evaluated?.message == fetched?.message, "\(format)")
            #expect(evaluated?.code == code, "\(format)")
        }
    }

    @Test(arguments: kinds)
    func unsavedObjectsAreTestedAlike(_ kind: StoreType) throws {
        let (context, people, folder) = try people(kind)
        defer { withExtendedLifetime(folder) {} }
        let eve = try context.insertObject(entityName: "Poet")
        eve["since"] = try AttributeValue(parsing: "1900-01-01", as: .date)
        eve["friend"] = people[0]
        for format in [
            "since == '1900-01-01'", "friend == 'ANN'", "entity.name == 'Poet'",
            "entity.name == 'Person'", "friend.entity.name == 'Person'",
        ] {
            let predicate = try Self.predicate(format, people)
            let fetched = try context.fetch(FetchRequest("Person", predicate: predicate))
            #expect(
                try predicate.evaluate(with: eve) == fetched.contains(eve), "\(format)")
        }
    }

    @Test func nowIsTheTimeOfTheEvaluation() throws {
        let (context, people, folder) = try people(.inMemory)
        defer { withExtendedLifetime((context, folder)) {} }
        let predicate = try QueryPredicate(format: "since <= now()")
        for _ in 0..<3 {
            people[1]["since"] = Date()
            #expect(try predicate.evaluate(with: people[1]))
        }
        people[1]["since"] = Date(timeIntervalSinceNow: 60)
        #expect(try !predicate.evaluate(with: people[1]))
    }

    /// Texts that are equal to Swift may be of different bytes, and so may predicates that have them.
    @Test func equalPredicatesOfDifferentBytesAreToldApart() throws {
        let work = try QueryFixture.object("Work", 1, ["title": "\u{E9}"])
        for _ in 0..<2 {
            for (text, isTrue) in [("\u{E9}", true), ("e\u{301}", false)] {
                for format in ["title == %@", "TERNARY(title IN {%@}, 1, 2) == 1"] {
                    let predicate = try QueryPredicate(format: format, text)
                    #expect(try predicate.isSatisfied(by: work) == isTrue, "\(text.utf8.count)")
                }
            }
        }
    }

    @Test func transientAttributesCanBeTested() throws {
        let work = try QueryFixture.object("Work", 1, ["draft": "x"])
        #expect(try QueryPredicate(format: "draft == 'x'").isSatisfied(by: work))
    }

    @Test(arguments: kinds)
    func entitiesOrderAndGroup(_ kind: StoreType) throws {
        let (context, people, folder) = try people(kind)
        defer { withExtendedLifetime(folder) {} }
        var request = FetchRequest(
            "Person", sortOrderings: [SortOrdering("entity.name", ascending: false)])
        #expect(try context.fetch(request).map(\.resolvedEntity.name) == ["Poet", "Person"])
        request = FetchRequest(
            "Person", predicate: try QueryPredicate(format: "entity.name == %@", "Poet"))
        #expect(try context.count(for: request) == 1)
        let entity = people[1].resolvedEntity
        request.predicate = try QueryPredicate(
            format: "entity == %@ OR entity IN %@", entity, [entity])
        #expect(try context.fetch(request).map { $0 } == [people[1]])
        request.predicate = nil
        request.propertiesToGroupBy = ["entity.name"]
        request.propertiesToFetch = [
            "entity.name", try ExpressionDescription("n", format: "count(SELF)"),
        ]
        request.sortOrderings = [SortOrdering("entity.name", ascending: false)]
        let rows = try context.fetchDictionaries(request)
        #expect(rows.map { $0["entity.name"] } == ["Poet", "Person"])
        #expect(rows.map { $0["n"] } == [1, 1])
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: FetchRequest(
                "Person", predicate: try QueryPredicate(format: "entity.name == 'Poet'"),
                sortOrderings: [SortOrdering("name")]),
            managedObjectContext: context)
        try controller.performFetch()
        _ = try context.insertObject(entityName: "Poet")
        try context.save()
        #expect(controller.fetchedObjects?.count == 2)
    }

    /// `ANN` and `BOB` in a condition stand for their URIs.
    private static func predicate(_ format: String, _ people: [ManagedObject]) throws
        -> QueryPredicate
    {
        let uris = people.map(\.objectID.uriRepresentation)
        return try QueryPredicate(
            format: format.replacingOccurrences(of: "ANN", with: uris[0])
                .replacingOccurrences(of: "BOB", with: uris[1]))
    }

    private static func names(_ people: [ManagedObject], _ found: [ManagedObjectID]) -> String {
        zip("ab", people).filter { found.contains($0.1.objectID) }.map { String($0.0) }.joined()
    }
}
