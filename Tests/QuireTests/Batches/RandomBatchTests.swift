import QuireTestSupport
import Testing

@testable import Quire

/// Batch requests against the same changes made object by object in a context, on a copy of the store.
@MainActor @Suite struct RandomBatchTests {
    @Test func batchesDoWhatContextsDo() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        for round in 0..<6 {
            let world = try Self.world(&random)
            for step in 0..<8 {
                let note: Comment = "seed \(seed), round \(round), step \(step)"
                let (batch, graph) = (try world.copy(), try world.copy())
                var fetch = Self.request(&random)
                if random.next() % 2 == 0 {
                    let outcome = Self.outcome {
                        try batch.context.execute(BatchDeleteRequest(fetchRequest: fetch)).count
                    }
                    let expected = Self.outcome { try Self.delete(fetch, in: graph.context) }
                    #expect(outcome == expected, note)
                } else {
                    fetch.fetchLimit = 0
                    fetch.fetchOffset = 0
                    let values = Self.values(of: fetch.entityName, &random)
                    var request = BatchUpdateRequest(
                        entityName: fetch.entityName, predicate: fetch.predicate,
                        propertiesToUpdate: values)
                    request.includesSubentities = fetch.includesSubentities
                    let outcome = Self.outcome { try batch.context.execute(request).count }
                    let expected = Self.outcome {
                        try Self.update(fetch, values, in: graph.context)
                    }
                    // What cannot be set is found out although there is nothing to set it on.
                    if expected != "0" { #expect(outcome == expected, note) }
                }
                let (left, right) = (
                    try StoreInspection(batch.store).dump(), try StoreInspection(graph.store).dump()
                )
                #expect(left == right, note)
                #expect(try StoreInspection(batch.store).problems().isEmpty, note)
                if left != right { return }
            }
        }
    }

    /// The number of objects, or the code of the error.
    private static func outcome(_ body: () throws -> Int) -> String {
        do {
            return String(try body())
        } catch {
            return (error as? QuireError)?.code.rawValue ?? "\(error)"
        }
    }

    // MARK: By contexts

    private static func delete(
        _ fetch: FetchRequest<ManagedObject>, in context: ManagedObjectContext
    ) throws
        -> Int
    {
        for object in try context.fetch(fetch) where !object.isDeleted { context.delete(object) }
        let count = context.deletedObjects.count
        try context.save()
        return count
    }

    private static func update(
        _ fetch: FetchRequest<ManagedObject>, _ values: [String: QueryExpression],
        in context: ManagedObjectContext
    ) throws -> Int {
        let objects = try context.fetch(fetch)
        let new = objects.map { object in
            values.mapValues { expression -> AttributeValue in
                switch expression {
                case .constant(let value): return value
                case .keyPath(let keys):
                    var owner: ManagedObject? = object
                    for key in keys.dropLast() { owner = owner?.object(key) }
                    return owner.flatMap { owner in
                        keys.last.map { owner[$0, as: AttributeValue.self] }
                    } ?? .null
                default: return .null
                }
            }
        }
        for (object, new) in zip(objects, new) {
            for (key, value) in new { try object.setValue(value, forKey: key) }
        }
        // An object that is set the values that it has is of a new version after a batch update, too.
        try context.save()
        return objects.count
    }

    // MARK: Random requests

    private static let conditions: [String: [String]] = [
        "Author": ["name == 'a1'", "ANY books.year > 30", "born < 5", "name ENDSWITH '2'"],
        "Book": [
            "year < 20", "author == nil", "author.name == 'a3'", "ANY tags.name == 't1'",
            "shelf != nil", "title CONTAINS '1'", "cover == nil AND year > 10",
            "ALL tags.name != 't2'", "ANY sequels.year < 25",
        ],
        "Tag": ["name == 't1'", "ANY books.year < 5", "name != 't0'"],
        "Cover": ["book.year < 30", "book == nil"],
        "Shelf": ["name == 's0'", "ANY books.year < 50", "NONE books.year < 50"],
        "Person": [
            "name ENDSWITH '1'", "spouse == nil", "manager.name != nil", "spouse.manager == nil",
        ],
        "Employee": ["salary > 3", "manager == nil"],
        "Manager": ["ANY reports.name CONTAINS '2'", "salary < 5"],
        "Playlist": ["ANY songs.title == 'g1'"],
        "Song": [
            "title == 'g1'", "ANY playlists.songs.title == 'g2'",
            "NONE playlists.songs.title == 'g3'",
        ],
    ]

    private static func request(_ random: inout SeededRandom) -> FetchRequest<ManagedObject> {
        let entity = pick(conditions.keys.sorted(), &random)
        var request = FetchRequest(entity)
        if random.next() % 6 > 0, let formats = conditions[entity] {
            request.predicate = try? QueryPredicate(format: pick(formats, &random))
        }
        if random.next() % 4 == 0 { request.includesSubentities = false }
        if random.next() % 3 == 0 {
            request.fetchLimit = Int(random.next() % 6)
            request.fetchOffset = Int(random.next() % 3)
        }
        return request
    }

    private static func values(
        of entity: String, _ random: inout SeededRandom
    ) -> [String: QueryExpression] {
        // Each with a number of its own, so that no update sets what is there.
        let text = QueryExpression.constant(.string("n\(random.next() % 1_000_000)"))
        let number = QueryExpression.constant(.integer(1000 + Int64(random.next() % 10_000)))
        let choices: [[String: QueryExpression]] =
            switch entity {
            case "Author": [["name": text], ["born": number], ["born": .constant("x")]]
            case "Book":
                [
                    ["isbn": text, "year": number], ["isbn": text, "price": number],
                    ["isbn": text, "year": .key("author.born")], ["title": .constant(.null)],
                    ["title": text, "isbn": .key("shelf.name")],
                ]
            case "Tag": [["name": text]]
            case "Person": [["name": text]]
            case "Employee", "Manager":
                [["salary": number, "name": .key("manager.name")], ["salary": number]]
            case "Song": [["title": text]]
            case "Shelf": [["name": text]]
            default: [["nothing": number]]
            }
        return pick(choices, &random)
    }

    private static func pick<Element>(_ list: [Element], _ random: inout SeededRandom) -> Element {
        list[Int(random.next() % UInt64(list.count))]
    }

    // MARK: A world

    private static func world(_ random: inout SeededRandom) throws -> BatchStack {
        let stack = try BatchStack()
        func objects(
            _ entity: String, _ count: Int, _ key: String?, _ prefix: String
        ) throws -> [ManagedObject] {
            try (0..<count).map { index in
                try stack.insert(entity, key.map { [$0: .string("\(prefix)\(index)")] } ?? [:])
            }
        }
        let authors = try objects("Author", 6, "name", "a")
        for author in authors { author["born"] = Int64(random.next() % 10) }
        let tags = try objects("Tag", 4, "name", "t")
        let shelves = try objects("Shelf", 4, "name", "s")
        let books = try objects("Book", 24, "title", "b")
        let covers = try objects("Cover", 10, nil, "")
        let people =
            try objects("Person", 6, "name", "p") + objects("Employee", 4, "name", "e")
            + objects("Manager", 4, "name", "m")
        let playlists = try objects("Playlist", 4, nil, "")
        let songs = try objects("Song", 8, "title", "g")
        for book in books {
            book["year"] = Int64(random.next() % 60)
            if random.next() % 4 > 0 { book["author"] = pick(authors, &random) }
            if random.next() % 3 == 0 { book["cover"] = pick(covers, &random) }
            // One shelf stays empty, so that something can be deleted.
            if random.next() % 3 == 0 {
                book["shelf"] = pick(Array(shelves.dropLast()), &random)
            }
            for _ in 0..<random.next() % 3 { book.add(pick(tags, &random), to: "tags") }
            if random.next() % 3 == 0 { book.add(pick(books, &random), to: "sequels") }
        }
        shelves[0].add(pick(tags, &random), to: "favourites")
        for person in people {
            if person.resolvedEntity.name != "Person" {
                person["salary"] = Double(random.next() % 9)
            }
            if random.next() % 2 == 0 { person["spouse"] = pick(people, &random) }
            if random.next() % 2 == 0 {
                person["manager"] = pick(Array(people.suffix(4)), &random)
            }
        }
        for playlist in playlists {
            for _ in 0..<random.next() % 6 {
                let song = pick(songs, &random)
                playlist.add(song, to: "songs")
            }
        }
        try stack.context.save()
        return stack
    }
}
