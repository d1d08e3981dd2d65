import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@MainActor @Suite struct PrefetchingTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func fetch(
        _ entity: String, _ keyPaths: String..., batchSize: Int = 0,
        in context: ManagedObjectContext
    ) throws -> FetchedObjects<ManagedObject> {
        var request = FetchRequest(entity)
        request.relationshipKeyPathsForPrefetching = keyPaths
        request.fetchBatchSize = batchSize
        return try context.fetch(request)
    }

    /// What a reader sees of books: titles, the author, the tags.
    private func description(of books: some Sequence<ManagedObject>) -> [String] {
        books.map { book in
            let author = book.object("author")?["name", as: String.self] ?? "-"
            let tags = book.objects("tags").map { $0["name", as: String.self] ?? "-" }
            return "\(book["title", as: String.self] ?? "-") \(author) \(tags)"
        }
    }

    @Test(arguments: ContextArrangement.allCases, [0, 1000])
    func relatedObjectsAreReadByRelationship(arrangement: ContextArrangement, batch: Int) throws {
        try stack.fill(books: 200)
        let expected = description(of: try stack.mainContext().fetch(FetchRequest("Book")))
        let context = stack.context(arrangement)
        context.stalenessInterval = 0
        let (fetching, books) = try stack.statements {
            let books = try fetch("Book", "author", "tags", batchSize: batch, in: context)
            _ = books[0]
            return books
        }
        // The books (identifiers and rows in batches), the authors, the pairs and the tags.
        #expect(fetching == (batch == 0 ? 4 : 5))
        let (reading, found) = stack.statements { description(of: books) }
        #expect(reading == 0)
        #expect(found == expected)
    }

    @Test func toManyOverForeignKeysIsOneQuery() throws {
        try stack.fill(books: 300, authors: 20)
        let context = stack.mainContext()
        context.stalenessInterval = 0
        let (fetching, authors) = try stack.statements {
            try fetch("Author", "books", in: context)
        }
        #expect(fetching == 2)
        let (reading, titles) = stack.statements {
            authors.map { $0.objects("books").map { $0["title", as: String.self] ?? "" } }
        }
        #expect(reading == 0)
        #expect(titles.count == 20)
        #expect(titles[3] == (0..<15).map { "b\($0 * 20 + 3)" })
        #expect(stack.statements { authors.map { $0.objectIDs("books").count } }.count == 0)
    }

    @Test func keyPathsGoThroughSeveralRelationships() throws {
        try stack.fill(books: 50, authors: 5)
        let context = stack.mainContext()
        context.stalenessInterval = 0
        let (fetching, authors) = try stack.statements {
            try fetch("Author", "books.tags.books.author", "books.shelf", in: context)
        }
        #expect(fetching <= 7)
        let (reading, names) = stack.statements {
            authors.flatMap { $0.objects("books") }.flatMap { $0.objects("tags") }
                .flatMap { $0.objects("books") }.map {
                    $0.object("author")?["name", as: String.self]
                }
        }
        #expect(reading == 0)
        #expect(Set(names).count == 5)
    }

    @Test func orderIsKept() throws {
        let context = stack.mainContext()
        let songs = try (0..<6).map { number in
            let song = try context.insertObject(entityName: "Song")
            song["title"] = "s\(number)"
            return song
        }
        for order in [[5, 0, 3], [1, 2], [4, 5, 0, 1, 2, 3], []] {
            let list = try context.insertObject(entityName: "Playlist")
            list["songs"] = order.map { songs[$0] }
            let shelf = try context.insertObject(entityName: "Shelf")
            for number in order.reversed() {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "b\(number)"
                shelf.add(book, to: "books")
            }
        }
        try context.save()
        let fresh = stack.mainContext()
        let lists = try fetch("Playlist", "songs", in: fresh)
        #expect(
            lists.map { $0.objects("songs").compactMap { $0["title", as: String.self] } }
                == [["s5", "s0", "s3"], ["s1", "s2"], ["s4", "s5", "s0", "s1", "s2", "s3"], []])
        let shelves = try fetch("Shelf", "books", in: fresh)
        #expect(
            shelves.map { $0.objects("books").compactMap { $0["title", as: String.self] } }
                == [["b3", "b0", "b5"], ["b2", "b1"], ["b3", "b2", "b1", "b0", "b5", "b4"], []])
    }

    @Test func inheritanceAndSelfRelations() throws {
        let context = stack.mainContext()
        let boss = try context.insertObject(entityName: "Manager")
        boss["name"] = "boss"
        for number in 0..<4 {
            let person = try context.insertObject(
                entityName: number % 2 == 0 ? "Employee" : "Manager")
            person["name"] = "p\(number)"
            person["manager"] = boss
            if number == 3 { person["spouse"] = boss }
        }
        try context.save()
        let fresh = stack.mainContext()
        fresh.stalenessInterval = 0
        let people = try fetch("Person", "spouse.manager", "manager.reports", in: fresh)
        let (reading, names) = stack.statements {
            people.map { person in
                (person.object("manager")?.objects("reports") ?? []).compactMap {
                    $0["name", as: String.self]
                }.sorted() + [person.object("spouse")?["name", as: String.self] ?? "-"]
            }
        }
        #expect(reading == 0)
        let reports = ["p0", "p1", "p2", "p3"]
        #expect(
            Set(names) == [
                ["p3"], reports + ["-"], reports + ["-"], reports + ["-"], reports + ["boss"],
            ]
        )
        let managers = try fetch("Manager", "reports", in: fresh)
        #expect(managers.map { $0.objects("reports").count } == [4, 0, 0])
    }

    @Test(arguments: ContextArrangement.allCases)
    func unsavedChangesAreHonoured(arrangement: ContextArrangement) throws {
        try stack.fill(books: 20)
        let context = stack.context(arrangement)
        let books = try context.fetch(FetchRequest("Book"))
        let tags = try context.fetch(FetchRequest("Tag"))
        let (first, second, tag) = (books[0], books[1], tags[4])
        first.add(tag, to: "tags")
        second.remove(tags[1], from: "tags")
        let new = try context.insertObject(entityName: "Tag")
        new["name"] = "new"
        second.add(new, to: "tags")
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "new"
        books[2]["author"] = author
        context.delete(tags[3])
        let expected = description(of: try context.fetch(FetchRequest("Book")))
        #expect(description(of: try fetch("Book", "tags", "author", in: context)) == expected)
        #expect(expected[1] == "b1 a1 [\"t2\", \"new\"]")
        // The same from below.
        if arrangement == .nested {
            try context.save()
            let child = ManagedObjectContext.mainQueue(parent: try #require(context.parent))
            let found = try fetch("Book", "tags", "author", in: child)
            #expect(description(of: found).sorted() == expected.sorted())
        }
    }

    @Test func contentsFollowChangesAndSavesAfterTheFetch() throws {
        try stack.fill(books: 10)
        let context = stack.mainContext()
        let books = try fetch("Book", "tags", in: context)
        let tags = try context.fetch(FetchRequest("Tag"))
        books[0].add(tags[3], to: "tags")
        #expect(books[0].objects("tags").count == 3)
        books[1].remove(tags[1], from: "tags")
        try context.save()
        #expect(books[0].objects("tags").count == 3)
        #expect(books[1].objects("tags").compactMap { $0["name", as: String.self] } == ["t2"])
        context.rollback()
        #expect(books[1].objects("tags").count == 1)
    }

    @Test func unregisteredRelationshipsAreUntouchedByWhatAnotherContextDid() throws {
        try stack.fill(books: 4, authors: 2)
        let context = stack.mainContext()
        let books = try fetch("Book", "author", in: context)
        let other = stack.mainContext()
        for author in try other.fetch(FetchRequest("Author")) { author["name"] = "changed" }
        try other.save()
        #expect(books[0].object("author")?["name", as: String.self] == "a0")
    }

    @Test func aReferenceWithoutAnObjectLeadsNowhere() throws {
        try stack.fill(books: 6, authors: 2)
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        try store.executeOnWriter("DELETE FROM ZTAG WHERE Z_PK = 1")
        let context = stack.mainContext()
        let expected = try context.fetch(FetchRequest("Book")).map { $0.objectIDs("tags") }
        let fresh = stack.mainContext()
        let books = try fetch("Book", "tags", in: fresh)
        #expect(books.map { $0.objectIDs("tags") } == expected)
        #expect(books.map { $0.objects("tags").count }.reduce(0, +) == 9)
    }

    @Test func whatCannotBePrefetchedIsAnError() throws {
        let context = stack.mainContext()
        for (path, code) in [
            ("title", QuireError.Code.invalidQuery), ("nothing", .unknownKey),
            ("author.name", .invalidQuery), ("", .invalidQuery), ("title.x", .unknownKey),
        ] {
            let error = #expect(throws: QuireError.self) {
                try fetch("Book", path, in: context)
            }
            #expect(error?.code == code, "\(path)")
        }
    }

    @Test func nothingIsKeptWithoutTheResults() throws {
        try stack.fill(books: 10)
        let context = stack.mainContext()
        var books: FetchedObjects<ManagedObject>? = try fetch(
            "Book", "author", "tags", batchSize: 3, in: context)
        _ = books?.map { $0.objects("tags").count }
        #expect(!context.prefetches.isEmpty)
        books = nil
        #expect(context.prefetches.isEmpty)
        #expect(context.identityMap.count == 0)
    }
}
