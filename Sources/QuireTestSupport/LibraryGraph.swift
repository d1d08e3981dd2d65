public import Quire
public import Testing

/// A graph of the library model as plain values, by permanent identifier: what contexts under random edits are compared with.
public struct LibraryGraph: Equatable, Sendable {
    private struct Book: Equatable, Sendable {
        var title: String
        var author: ManagedObjectID?
        var tags: Set<ManagedObjectID> = []
    }

    private var books: [ManagedObjectID: Book] = [:]
    /// The names of authors.
    private var authors: [ManagedObjectID: String] = [:]
    private var tags: Set<ManagedObjectID> = []
    private var shelves: [ManagedObjectID: [ManagedObjectID]] = [:]

    /// Makes an empty graph.
    public init() {}

    // MARK: Editing

    /// Makes one random edit in a context, and in the plain values of what it sees.
    public mutating func edit(
        _ context: ManagedObjectContext, _ random: inout SeededRandom
    ) throws {
        func object(_ id: ManagedObjectID) -> ManagedObject { context.object(with: id) }
        func new(_ entity: String) throws -> ManagedObject {
            let object = try context.insertObject(entityName: entity)
            // So that plain values need not follow identifiers.
            try context.obtainPermanentIDs(for: [object])
            return object
        }
        func pick(_ ids: some Collection<ManagedObjectID>) -> ManagedObjectID? {
            ids.sorted { $0.uriRepresentation < $1.uriRepresentation }
                .randomElement(using: &random)
        }
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1:
            let book = try new("Book")
            book["title"] = "new"
            books[book.objectID] = .init(title: "new")
        case 2:
            let author = try new("Author")
            author["name"] = "name"
            authors[author.objectID] = "name"
        case 3: tags.insert(try new("Tag").objectID)
        case 4: shelves[try new("Shelf").objectID] = []
        case 5 where Int.random(in: 0..<3, using: &random) == 0:
            guard let author = pick(authors.keys) else { return }
            let name = ["name", "other name"].randomElement(using: &random) ?? ""
            object(author)["name"] = name
            authors[author] = name
        case 5:
            guard let book = pick(books.keys) else { return }
            let title = "title \(Int.random(in: 0..<1000, using: &random))"
            object(book)["title"] = title
            books[book]?.title = title
        case 6, 7:
            guard let book = pick(books.keys) else { return }
            let author = Bool.random(using: &random) ? pick(authors.keys) : nil
            object(book)["author"] = author.map(object)
            books[book]?.author = author
        case 8:
            guard let book = pick(books.keys), let tag = pick(tags) else { return }
            if books[book]?.tags.contains(tag) == true {
                object(tag).remove(object(book), from: "books")
                books[book]?.tags.remove(tag)
            } else {
                object(book).add(object(tag), to: "tags")
                books[book]?.tags.insert(tag)
            }
        case 9:
            guard let book = pick(books.keys), let shelf = pick(shelves.keys) else { return }
            for shelf in shelves.keys { shelves[shelf]?.removeAll { $0 == book } }
            let index = Int.random(in: 0...(shelves[shelf]?.count ?? 0), using: &random)
            shelves[shelf]?.insert(book, at: index)
            object(shelf).insert(object(book), into: "books", at: index)
        case 10:
            guard let book = pick(books.keys) else { return }
            context.delete(object(book))
            remove(book: book)
        default:
            if Bool.random(using: &random), let author = pick(authors.keys) {
                context.delete(object(author))
                authors[author] = nil
                for (book, values) in books where values.author == author { remove(book: book) }
            } else if let tag = pick(tags) {
                context.delete(object(tag))
                tags.remove(tag)
                for book in books.keys { books[book]?.tags.remove(tag) }
            }
        }
    }

    private mutating func remove(book: ManagedObjectID) {
        books[book] = nil
        for shelf in shelves.keys { shelves[shelf]?.removeAll { $0 == book } }
    }

    // MARK: Comparing

    /// Compares what a context's objects say with the plain values, both sides of relationships.
    ///
    /// - Returns: The context's objects.
    @discardableResult
    public func expect(
        in context: ManagedObjectContext, _ comment: Comment? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> [ManagedObject] {
        func check(_ isRight: Bool) { #expect(isRight, comment, sourceLocation: sourceLocation) }
        var seen = LibraryGraph()
        var all: [ManagedObject] = []
        for book in try context.fetch(FetchRequest("Book")) {
            all.append(book)
            seen.books[book.objectID] = .init(
                title: book["title", as: String.self] ?? "",
                author: book.object("author")?.objectID,
                tags: Set(book.objectIDs("tags")))
            if book.resolvedEntity.slot(named: "authorName") != nil {
                check(
                    book["authorName", as: String.self]
                        == book.object("author")?["name", as: String.self])
            }
        }
        for author in try context.fetch(FetchRequest("Author")) {
            all.append(author)
            seen.authors[author.objectID] = author["name", as: String.self]
            if author.resolvedEntity.slot(named: "bookCount") != nil {
                let books = ids { $0.author == author.objectID }
                check(author["bookCount", as: Int64.self] == Int64(books.count))
            }
            check(Set(author.objectIDs("books")) == ids { $0.author == author.objectID })
        }
        for tag in try context.fetch(FetchRequest("Tag")) {
            all.append(tag)
            seen.tags.insert(tag.objectID)
            check(Set(tag.objectIDs("books")) == ids { $0.tags.contains(tag.objectID) })
        }
        for shelf in try context.fetch(FetchRequest("Shelf")) {
            all.append(shelf)
            seen.shelves[shelf.objectID] = shelf.objectIDs("books")
            for book in shelf.objects("books") { check(book.object("shelf") === shelf) }
        }
        #expect(seen == self, comment, sourceLocation: sourceLocation)
        check(try context.count(for: FetchRequest("Book")) == books.count)
        return all
    }

    /// Compares what a context finds by a condition, in an order, with the plain values.
    public func expectRequest(
        in context: ManagedObjectContext, _ comment: Comment? = nil,
        _ random: inout SeededRandom, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let title = "title \(Int.random(in: 0..<1000, using: &random))"
        var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        // Of the books alone, or of what they lead to, or of what is derived from that.
        let isWide = Bool.random(using: &random)
        let isDerived =
            try context.persistentStoreCoordinator.layout.requireEntity(named: "Book")
            .slot(named: "authorName") != nil && Bool.random(using: &random)
        request.predicate = try QueryPredicate(
            format: !isWide
                ? "title < %@"
                : isDerived
                    ? "title < %@ OR authorName == 'name' AND author.bookCount < 3"
                    : "title < %@ OR author.name == 'name' AND tags.@count < 2", title)
        let titles = books.values.filter { book in
            if book.title < title { return true }
            guard isWide, let author = book.author, authors[author] == "name" else { return false }
            return isDerived ? ids { $0.author == author }.count < 3 : book.tags.count < 2
        }.map(\.title).sorted()
        #expect(
            try context.fetch(request).map { $0["title", as: String.self] } == titles, comment,
            sourceLocation: sourceLocation)
        #expect(
            try context.count(for: request) == titles.count, comment,
            sourceLocation: sourceLocation)
        request.fetchOffset = 1
        request.fetchLimit = 3
        #expect(
            try context.fetch(request).map { $0["title", as: String.self] }
                == Array(titles.dropFirst().prefix(3)), comment, sourceLocation: sourceLocation)
    }

    private func ids(_ isIncluded: (Book) -> Bool) -> Set<ManagedObjectID> {
        Set(books.filter { isIncluded($0.value) }.keys)
    }
}
