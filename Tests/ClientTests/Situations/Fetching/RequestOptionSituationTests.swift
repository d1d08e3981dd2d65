import Foundation
import Quire
import Testing

/// What a request may ask for besides a predicate, in contexts with unsaved changes.
@MainActor @Suite struct RequestOptionSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            Attribute("born", .integer16)
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
            FetchedProperty(
                "contemporaries", of: "Author",
                where: "born == $FETCH_SOURCE.born AND SELF != $FETCH_SOURCE"
            )
            .sorted(by: SortOrdering("name"))
            FetchedProperty("early", of: "Book", where: "author == $FETCH_SOURCE AND year < 1815")
                .sorted(by: SortOrdering("title"))
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("year", .integer16)
            ToOne("author", "Author", inverse: "books")
            ToMany("tags", "Tag", inverse: "books")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "tags")
        }
        FetchTemplate("booksBy", of: "Book", where: "author == $AUTHOR AND year IN $YEARS").limit(2)
        FetchTemplate("titled", of: "Book", where: "title BEGINSWITH[c] $TEXT OR title == $TITLE")
    }

    private static func insert(
        _ title: String, _ year: Int?, by author: ManagedObject?, in context: ManagedObjectContext
    )
        throws -> ManagedObject
    {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        book["year"] = year
        book["author"] = author
        return book
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        for (name, born, books) in [
            ("Austen", 1775, [("Emma", 1815), ("Lady Susan", 1794), ("Persuasion", 1817)]),
            ("Lamb", 1775, [("Elia", 1823)]), ("Scott", 1771, []),
            ("Nobody", nil, [("Fragment", nil)]),
        ] as [(String, Int?, [(String, Int?)])] {
            let author = try context.insertObject(entityName: "Author")
            author["name"] = name
            author["born"] = born
            for (title, year) in books { _ = try insert(title, year, by: author, in: context) }
        }
    }

    private func author(_ name: String, in context: ManagedObjectContext) throws -> ManagedObject {
        try #require(
            try context.fetch(
                FetchRequest("Author", predicate: try QueryPredicate(format: "name == %@", name))
            ).first)
    }

    /// A fetch of saved objects only, between an insertion and the save, made the new child lose its parent:
    /// feedback-assistant/reports#658 (SwiftData).
    @Test(arguments: SituationStore.allCases)
    func aFetchWithoutPendingChangesLeavesThemAlone(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            try context.save()
            let austen = try author("Austen", in: context)
            let new = try Self.insert("Sanditon", 1817, by: austen, in: context)
            let emma = try #require(
                try context.fetch(
                    FetchRequest("Book", predicate: try QueryPredicate(format: "title == 'Emma'"))
                ).first)
            emma["title"] = "Emma, revised"
            emma["author"] = nil
            let lamb = try author("Lamb", in: context)
            context.delete(lamb)
            for batch in [0, 2] {
                var authors = FetchRequest(
                    "Author", sortOrderings: [SortOrdering("books.@count"), SortOrdering("name")])
                authors.includesPendingChanges = false
                authors.fetchBatchSize = batch
                authors.relationshipKeyPathsForPrefetching = ["books"]
                let found: [ManagedObject] = try context.fetch(authors)
                #expect(
                    found.compactMap { $0["name"] as? String }
                        == ["Scott", "Lamb", "Nobody", "Austen"])
                var books = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
                books.includesPendingChanges = false
                books.fetchBatchSize = batch
                books.predicate = try QueryPredicate(
                    format: "title BEGINSWITH 'Emma' OR title == 'Sanditon'")
                #expect(try context.count(for: books) == 1)
                let saved: [ManagedObject] = try context.fetch(books)
                #expect(saved == [emma])
                books.predicate = try QueryPredicate(format: "author.name == 'Austen'")
                #expect(try context.count(for: books) == 3)
                #expect(try context.fetchObjectIDs(books).count == 3)
            }
            #expect(new["author"] as? ManagedObject === austen)
            #expect(emma["title"] as? String == "Emma, revised")
            #expect(emma["author"] == nil)
            try context.save()
            context.reset()
            #expect(
                try context.texts("title", of: "Book", where: "author.name == 'Austen'")
                    == ["Lady Susan", "Persuasion", "Sanditon"])
            #expect(
                try context.texts("title", of: "Book", where: "author == nil") == ["Emma, revised"])
            #expect(try context.texts("name", of: "Author") == ["Austen", "Nobody", "Scott"])
        }
    }

    /// Prefetching relationships replaced unsaved changes of them by what the store has: apache/cayenne#457 and #390; in child
    /// contexts it was not done: lionheart/openradar-mirror#15332.
    @Test(arguments: SituationStore.allCases, [0, 2])
    func prefetchingKeepsUnsavedRelationships(_ store: SituationStore, batch: Int) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            let red = try context.insertObject(entityName: "Tag")
            red["name"] = "red"
            let books: [ManagedObject] = try context.fetch(
                FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
            for book in books { book["tags"] = Set([red]) }
            try context.save()
            context.reset()
            func names(_ context: ManagedObjectContext) throws -> [String] {
                var request = FetchRequest("Author", sortOrderings: [SortOrdering("name")])
                request.relationshipKeyPathsForPrefetching = ["books.tags", "books.author"]
                request.fetchBatchSize = batch
                return try context.fetch(request).map { author in
                    let books = (author["books"] as? Set<ManagedObject> ?? []).map { book in
                        let tags = (book["tags"] as? Set<ManagedObject> ?? []).compactMap {
                            $0["name"] as? String
                        }
                        #expect(book["author"] as? ManagedObject === author)
                        return (book["title"] as? String ?? "")
                            + tags.sorted().map { "#\($0)" }.joined()
                    }
                    return
                        "\(author["name"] as? String ?? ""): \(books.sorted().joined(separator: ", "))"
                }
            }
            let changes: @MainActor (ManagedObjectContext) throws -> Void = { context in
                let austen = try self.author("Austen", in: context)
                let scott = try self.author("Scott", in: context)
                let found: [ManagedObject] = try context.fetch(
                    FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
                let byTitle = Dictionary(
                    uniqueKeysWithValues: found.map { ($0["title"] as? String ?? "", $0) })
                byTitle["Elia"]?["author"] = austen
                byTitle["Emma"]?["author"] = scott
                byTitle["Emma"]?["tags"] = Set<ManagedObject>()
                let blue = try context.insertObject(entityName: "Tag")
                blue["name"] = "blue"
                byTitle["Persuasion"]?.add(blue, to: "tags")
                if let susan = byTitle["Lady Susan"] { context.delete(susan) }
                _ = try Self.insert("Waverley", 1814, by: scott, in: context)
            }
            let expected = [
                "Austen: Elia#red, Persuasion#blue#red", "Lamb: ", "Nobody: Fragment#red",
                "Scott: Emma, Waverley",
            ]
            let child = ManagedObjectContext.mainQueue(parent: context)
            try changes(child)
            #expect(try names(child) == expected)
            child.rollback()
            try changes(context)
            #expect(try names(context) == expected)
            #expect(try names(child) == expected)
            try context.save()
            context.reset()
            #expect(try names(context) == expected)
        }
    }

    /// Hundreds of pairs “(a = x AND b = y) OR …” for compound keys: groue/GRDB.swift#871 (“Expression tree is too large
    /// (maximum depth 1000)”). As a text, and as a predicate made by a program.
    @Test(arguments: [SituationStore.sqlite, .inMemory], [true, false])
    func thousandsOfCompoundKeysAreOneQuestion(_ store: SituationStore, saved: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for number in 0..<40 {
                _ = try Self.insert("t\(number % 4)", number / 4, by: nil, in: context)
            }
            if saved {
                try context.save()
                context.reset()
            }
            let pairs = (0..<1_050).map { ("t\($0 % 8)", $0 / 8) }
            let inFormat = try QueryPredicate(
                format: pairs.map { _ in "(title == %@ AND year == %d)" }.joined(separator: " OR "),
                arguments: pairs.flatMap { [$0.0, $0.1] as [any QueryArgument] })
            let made = QueryPredicate.or(
                try pairs.map {
                    try QueryPredicate(format: "title == %@ AND year == %d", $0.0, $0.1)
                })
            for predicate in [inFormat, made] {
                #expect(try context.count(for: FetchRequest("Book", predicate: predicate)) == 40)
                let negated = FetchRequest("Book", predicate: .not(predicate))
                #expect(try context.fetch(negated).isEmpty)
            }
            let conditions = QueryPredicate.and(
                try (0..<1_050).map { try QueryPredicate(format: "year != %d", $0 + 3) })
            #expect(try context.count(for: FetchRequest("Book", predicate: conditions)) == 12)
        }
    }

    /// More identifiers in a list than SQLite has variables: project-imas/encrypted-core-data#274, sqlcipher/sqlcipher#213,
    /// groue/GRDB.swift#924, and NOT IN: magicalpanda/MagicalRecord#1055. Among them objects that are not saved.
    @Test(arguments: SituationStore.allCases, [true, false])
    func longListsAreNotCutOff(_ store: SituationStore, saved: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for number in 0..<300 {
                _ = try Self.insert("t\(number)", number, by: nil, in: context)
            }
            if saved { try context.save() }
            let unsaved = try (300..<310).map { (number: Int) in
                try Self.insert("t\(number)", number, by: nil, in: context)
            }
            let titles = (0..<33_000).map { "t\($0 * 2)" }
            #expect(
                try context.texts("title", of: "Book", where: "title IN %@", titles).count == 155)
            #expect(
                try context.texts("title", of: "Book", where: "NOT title IN %@", titles).count
                    == 155)
            #expect(
                try context.texts(
                    "title", of: "Book", where: "title IN[c] %@",
                    titles.prefix(200).map { $0.uppercased() }
                ).count == 155)
            let years = Set((0..<2_000).map { $0 + 5 })
            #expect(try context.texts("title", of: "Book", where: "year IN %@", years).count == 305)
            let all: [ManagedObject] = try context.fetch(FetchRequest("Book"))
            #expect(all.count == 310)
            #expect(try context.texts("title", of: "Book", where: "SELF IN %@", all).count == 310)
            #expect(try context.texts("title", of: "Book", where: "NOT SELF IN %@", all).isEmpty)
            #expect(
                try context.texts("title", of: "Book", where: "SELF IN %@", unsaved).count == 10)
            let many = Array(repeatElement(all.map(\.objectID), count: 3).joined())
            #expect(try context.texts("title", of: "Book", where: "SELF IN %@", many).count == 310)
        }
    }

    /// A predicate made before a save has objects' temporary identifiers: project-imas/encrypted-core-data#335; it still means
    /// the same objects afterwards, in every context.
    @Test(arguments: SituationStore.allCases)
    func aPredicateOfUnsavedObjectsHoldsAfterTheSave(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            let austen = try author("Austen", in: context)
            let scott = try author("Scott", in: context)
            let predicates = [
                try QueryPredicate(format: "author == %@", austen),
                try QueryPredicate(format: "author IN %@", [austen, scott]),
                try QueryPredicate(format: "author == %@", austen.objectID),
                try QueryPredicate(
                    format: "NOT author IN %@ AND author != nil",
                    Set([scott, try author("Lamb", in: context)])),
            ]
            let books: [ManagedObject] = try context.fetch(FetchRequest("Book"))
            // Longer lists are searched in another way.
            let long = [
                try QueryPredicate(format: "SELF IN %@", books),
                try QueryPredicate(format: "SELF IN %@ AND author != nil", books.map(\.objectID)),
                try QueryPredicate(format: "NOT SELF IN %@", Set(books)),
                try QueryPredicate(
                    format: "author IN %@",
                    try context.fetch(FetchRequest("Author")) as [ManagedObject] + [austen]),
                try QueryPredicate(format: "author.books CONTAINS SELF AND SELF IN %@", books),
            ]
            let asked = predicates + long
            let before = try asked.map {
                try context.count(for: FetchRequest("Book", predicate: $0))
            }
            #expect(before == [3, 3, 3, 4, 5, 5, 0, 5, 5])
            let child = ManagedObjectContext.mainQueue(parent: context)
            for state in ["unsaved", "saved", "reset"] {
                if state == "saved" { try context.save() }
                if state == "reset" { context.reset() }
                for asking in [
                    context, child,
                    ManagedObjectContext.mainQueue(
                        coordinator: container.persistentStoreCoordinator),
                ] {
                    if state == "unsaved" && asking !== context && asking !== child { continue }
                    let counts = try asked.map {
                        try asking.count(for: FetchRequest("Book", predicate: $0))
                    }
                    #expect(counts == before, "\(state)")
                    let titles = try asked.map {
                        try asking.fetch(FetchRequest("Book", predicate: $0)).count
                    }
                    #expect(titles == before, "\(state)")
                }
            }
        }
    }

    /// Templates of the model with variables that are objects, lists and missing values: lionheart/openradar-mirror#13802
    /// (templates lost their limit).
    @Test(arguments: SituationCase.all)
    func templatesTakeObjectsListsAndNothing(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            let austen = try author("Austen", in: context)
            @MainActor func titles(_ name: String, _ variables: [String: any QueryArgument]) throws
                -> [String]
            {
                var request = FetchRequest<ManagedObject>(
                    try Self.model.fetchRequestFromTemplate(
                        withName: name, substitutionVariables: variables))
                request.sortOrderings = [SortOrdering("title")]
                let found = try context.fetch(request).map { $0["title", as: String.self] ?? "nil" }
                #expect(try context.count(for: request) == found.count)
                return found
            }
            #expect(
                try titles("booksBy", ["AUTHOR": austen, "YEARS": [1815, 1817, 1900]]) == [
                    "Emma", "Persuasion",
                ])
            #expect(
                try titles("booksBy", ["AUTHOR": austen, "YEARS": Set([1794, 1815, 1817])]) == [
                    "Emma", "Lady Susan",
                ])
            #expect(try titles("booksBy", ["AUTHOR": austen.objectID, "YEARS": [Int]()]).isEmpty)
            #expect(
                try titles("titled", ["TEXT": "E", "TITLE": "Fragment"]) == [
                    "Elia", "Emma", "Fragment",
                ])
            #expect(try titles("titled", ["TEXT": "e%", "TITLE": String?.none]).isEmpty)
        }
    }

    /// A fetched property of an object that is not saved, of one whose values are not, and after the objects it finds have
    /// changed: Apple's Core Data Programming Guide, “Fetched properties” (evaluated once, until the object is refreshed).
    @Test(arguments: SituationCase.all)
    func fetchedPropertiesUseUnsavedValues(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (name, others, books) in [
                ("Austen", ["Lamb"], ["Lady Susan"]), ("Lamb", ["Austen"], []), ("Scott", [], []),
                ("Nobody", [], []),
            ] {
                let author = try author(name, in: context)
                let found = try author.fetchedObjects("contemporaries").map {
                    $0["name"] as? String
                }
                #expect(found == others, "\(name)")
                let early = try author.fetchedObjects("early").map { $0["title"] as? String }
                #expect(early == books, "\(name)")
            }
        }
    }
}
