import Quire
import QuireTestSupport
import Testing

/// Children of children, on the main queue and on private ones.
@MainActor @Suite struct NestingTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    /// How three levels are arranged. The test works in the lowest.
    enum Levels: CaseIterable {
        case mainOverPrivateOverPrivate
        case mainOverMainOverPrivate
        case mainOverMainOverMain
        case mainOverPrivateOverMain
    }

    /// The contexts from the lowest to the topmost.
    func contexts(_ levels: Levels) -> (ManagedObjectContext, middle: QueueConfinedContext) {
        let middle: QueueConfinedContext =
            switch levels {
            case .mainOverPrivateOverPrivate:
                QueueConfinedContext(parent: QueueConfinedContext(coordinator: stack.coordinator))
            case .mainOverMainOverPrivate:
                QueueConfinedContext(
                    .mainQueue(parent: QueueConfinedContext(coordinator: stack.coordinator)))
            case .mainOverMainOverMain:
                QueueConfinedContext(.mainQueue(parent: stack.mainContext()))
            case .mainOverPrivateOverMain: QueueConfinedContext(parent: stack.mainContext())
            }
        return (.mainQueue(parent: middle), middle)
    }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test(arguments: Levels.allCases)
    func changesGoUpLevelByLevel(levels: Levels) throws {
        let (context, middle) = contexts(levels)
        let emma = try book("Emma", context)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane Austen"
        emma["author"] = author
        try context.save()
        let id = emma.objectID
        #expect(!id.isTemporaryID)
        func seen(_ context: ManagedObjectContext) throws -> [String] {
            try context.fetch(FetchRequest("Book")).map {
                "\($0.objectID == id) \($0["title", as: String.self] ?? "") "
                    + ($0.object("author")?["name", as: String.self] ?? "")
            }
        }
        let expected = ["true Emma Jane Austen"]
        #expect(try middle.performAndWait { try seen($0) } == expected)
        #expect(try middle.performAndWait { try $0.parent!.performAndWait { try seen($0) } } == [])
        try middle.performAndWait { try $0.save() }
        #expect(
            try middle.performAndWait { try $0.parent!.performAndWait { try seen($0) } } == expected
        )
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        try middle.performAndWait { try $0.parent!.performAndWait { try $0.save() } }
        #expect(try seen(stack.mainContext()) == expected)
        // Again, as an update and a deletion of what all levels have by now.
        emma["title"] = "Emma!"
        context.delete(author)
        try context.save()
        try middle.performAndWait { try $0.save() }
        try middle.performAndWait { try $0.parent!.performAndWait { try $0.save() } }
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        #expect(try stack.mainContext().count(for: FetchRequest("Author")) == 0)
    }

    @Test(arguments: Levels.allCases)
    func everyLevelsUnsavedChangesAreSeen(levels: Levels) throws {
        let (context, middle) = contexts(levels)
        let stored = stack.mainContext()
        let author = try stored.insertObject(entityName: "Author")
        author["name"] = "A"
        for title in ["a", "b", "c"] {
            try book(title, stored)["author"] = author
        }
        try stored.save()
        let authorID = author.objectID
        try middle.performAndWait { middle in
            try middle.parent!.performAndWait { top in
                let book = try #require(
                    try top.fetch(
                        FetchRequest("Book", predicate: QueryPredicate(format: "title == 'a'"))
                    ).first)
                book["title"] = "A of the top"
                let new = try top.insertObject(entityName: "Book")
                new["title"] = "new of the top"
                new["author"] = top.object(with: authorID)
            }
            let book = try #require(
                try middle.fetch(
                    FetchRequest("Book", predicate: QueryPredicate(format: "title == 'b'"))
                ).first)
            middle.delete(book)
            let new = try middle.insertObject(entityName: "Book")
            new["title"] = "new of the middle"
            new["author"] = middle.object(with: authorID)
        }
        let new = try book("new here", context)
        new["author"] = context.object(with: authorID)
        let expected = ["A of the top", "c", "new here", "new of the middle", "new of the top"]
        let request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        #expect(try context.fetch(request).map { $0["title", as: String.self] } == expected)
        #expect(try context.count(for: request) == 5)
        let books = context.object(with: authorID).objects("books")
        #expect(books.compactMap { $0["title", as: String.self] }.sorted() == expected)
        for book in books { #expect(book.object("author")?.objectID == authorID) }
    }

    @Test func anObjectThatIsOnlyNewInAnAncestorIsFoundByItsTemporaryIdentifier() throws {
        let top = stack.mainContext()
        let emma = try book("Emma", top)
        let temporary = emma.objectID
        let middle = QueueConfinedContext(parent: top)
        let context = ManagedObjectContext.mainQueue(parent: middle)
        let found = context.object(with: temporary)
        #expect(found["title", as: String.self] == "Emma")
        #expect(found.objectID == emma.objectID)
        #expect(!found.objectID.isTemporaryID)
        #expect(!found.isInserted)
        #expect(try context.existingObject(with: temporary) === found)
        #expect(try context.existingObject(with: emma.objectID) === found)
        #expect(emma.isInserted)
        // A relationship from below to it, saved all the way.
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        found["author"] = author
        try context.save()
        try middle.performAndWait { try $0.save() }
        #expect(emma.object("author")?["name", as: String.self] == "A")
        try top.save()
        #expect(try stack.stored("Author", "name") == ["string(\"A\")"])
        #expect(throws: QuireError.self) {
            let other = try stack.mainContext().insertObject(entityName: "Book")
            _ = try context.existingObject(with: other.objectID)
        }
    }

    /// The ways to ask for objects.
    enum Way: CaseIterable {
        case objects, batches, faults, identifiers, prefetching, asynchronously
        case asynchronousBatches
    }

    /// The objects of a request, asked for in one way.
    private func objects(
        _ way: Way, _ request: FetchRequest<ManagedObject>, in context: ManagedObjectContext
    ) async throws -> [ManagedObject] {
        var request = request
        switch way {
        case .objects: return Array(try context.fetch(request))
        case .batches:
            request.fetchBatchSize = 2
            return Array(try context.fetch(request))
        case .faults:
            request.includesPropertyValues = false
            return Array(try context.fetch(request))
        case .identifiers: return try context.fetchObjectIDs(request).map(context.object(with:))
        case .prefetching:
            request.relationshipKeyPathsForPrefetching = ["author", "tags"]
            return Array(try context.fetch(request))
        case .asynchronously: return Array(try await context.fetchAsynchronously(request))
        case .asynchronousBatches:
            request.fetchBatchSize = 2
            return Array(try await context.fetchAsynchronously(request))
        }
    }

    @Test(arguments: Way.allCases, [true, false])
    func aChildsFetchShowsItsParentsUnsavedValues(
        way: Way, includesPendingChanges: Bool
    ) async throws {
        let parent = stack.mainContext()
        let (one, two) = (
            try parent.insertObject(entityName: "Author"),
            try parent.insertObject(entityName: "Author")
        )
        one["name"] = "1"
        two["name"] = "2"
        let books = try ["a", "b", "c", "d"].map { try book($0, parent) }
        for book in books { book["author"] = one }
        try parent.save()
        books[0]["title"] = "a!"
        books[0]["author"] = two
        books[1]["year"] = 2000
        parent.delete(books[2])
        _ = try book("e", parent)
        var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        request.includesPendingChanges = includesPendingChanges
        // From a grandchild, too.
        let child = ManagedObjectContext.mainQueue(parent: parent)
        for context in [child, .mainQueue(parent: child)] {
            let found = try await objects(way, request, in: context)
            let texts = found.map {
                "\($0["title", as: String.self] ?? "") \($0["year", as: Int64.self] ?? 0) "
                    + ($0.object("author")?["name", as: String.self] ?? "")
            }
            #expect(
                texts
                    == ["a! 0 2", "b 2000 1", "d 0 1"] + (includesPendingChanges ? ["e 0 "] : []))
            #expect(try context.count(for: request) == texts.count)
        }
    }

    @Test func aChildsFaultsAndRelationshipsShowItsParentsUnsavedValues() throws {
        let parent = stack.mainContext()
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        let books = try ["a", "b", "c"].map { try book($0, parent) }
        for book in books { book["author"] = author }
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let mine = child.object(with: author.objectID)
        var request = FetchRequest("Book")
        request.includesPendingChanges = false
        request.includesPropertyValues = false
        let faults = Array(try child.fetch(request))
        books[0]["title"] = "a!"
        parent.delete(books[1])
        let new = try book("d", parent)
        new["author"] = author
        #expect(faults[0]["title", as: String.self] == "a!")
        #expect(throws: QuireError.self) { try child.existingObject(with: books[1].objectID) }
        #expect(mine.objects("books").map { $0["title", as: String.self] } == ["a!", "c", "d"])
        author.remove(books[2], from: "books")
        let fresh = ManagedObjectContext.mainQueue(parent: parent)
        #expect(
            fresh.object(with: author.objectID).objects("books").map {
                $0["title", as: String.self]
            }
                == ["a!", "d"])
    }

    @Test func unsavedChangesOfAParentAreSharedByItsChildren() throws {
        let parent = stack.mainContext()
        let emma = try book("Emma", parent)
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        #expect(try one.fetch(FetchRequest("Book")).first?["title", as: String.self] == "Emma")
        #expect(try two.fetch(FetchRequest("Book")).first?.objectID == emma.objectID)
        emma["title"] = "Emma 2"
        let three = ManagedObjectContext.mainQueue(parent: parent)
        #expect(three.object(with: emma.objectID)["title", as: String.self] == "Emma 2")
        #expect(try three.count(for: FetchRequest("Book")) == 1)
    }

    @Test func siblingsEditDifferentObjects() throws {
        let parent = stack.mainContext()
        let (emma, persuasion) = (try book("Emma", parent), try book("Persuasion", parent))
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        one.object(with: emma.objectID)["year"] = 1815
        two.object(with: persuasion.objectID)["year"] = 1817
        try one.save()
        try two.save()
        #expect(emma["year", as: Int64.self] == 1815)
        #expect(persuasion["year", as: Int64.self] == 1817)
        try parent.save()
        #expect(try stack.stored("Book", "year") == ["integer(1815)", "integer(1817)"])
    }

    @Test func siblingsEditTheSameObjectPropertyByProperty() throws {
        let parent = stack.mainContext()
        let emma = try book("Emma", parent)
        try parent.save()
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        let (first, second) = (
            one.object(with: emma.objectID), two.object(with: emma.objectID)
        )
        first["year"] = 1815
        first["isbn"] = "1"
        second["title"] = "Emma!"
        second["isbn"] = "2"
        try one.save()
        try two.save()
        #expect(emma["year", as: Int64.self] == 1815)
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(emma["isbn", as: String.self] == "2")
        try parent.save()
        #expect(try stack.stored("Book", "isbn") == ["string(\"2\")"])
    }

    @Test func siblingsThatMoveTheSameBookLeaveBothSidesInStep() throws {
        let parent = stack.mainContext()
        let authors = try (0..<3).map {
            let author = try parent.insertObject(entityName: "Author")
            author["name"] = "\($0)"
            return author
        }
        let emma = try book("Emma", parent)
        emma["author"] = authors[0]
        try parent.save()
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        for (child, author) in [(one, authors[1]), (two, authors[2])] {
            child.object(with: emma.objectID)["author"] = child.object(with: author.objectID)
        }
        try one.save()
        try two.save()
        #expect(emma.object("author") === authors[2])
        #expect(authors.map { $0.objects("books") } == [[], [], [emma]])
        try parent.save()
        let fresh = stack.mainContext()
        #expect(
            authors.map { fresh.object(with: $0.objectID).objectIDs("books").count } == [0, 0, 1])
    }

    @Test func whatOneSiblingDeletesTheOtherCannotBringBack() throws {
        let parent = stack.mainContext()
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        let (emma, tag) = (try book("Emma", parent), try parent.insertObject(entityName: "Tag"))
        try parent.save()
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        let theirs = two.object(with: emma.objectID)
        theirs["author"] = two.object(with: author.objectID)
        theirs.add(two.object(with: tag.objectID), to: "tags")
        let new = try book("New", two)
        new["author"] = two.object(with: author.objectID)
        one.delete(one.object(with: emma.objectID))
        one.delete(one.object(with: author.objectID))
        try one.save()
        try two.save()
        #expect(emma.isDeleted)
        #expect(tag.objects("books") == [])
        let pushed = parent.object(with: new.objectID)
        #expect(pushed.object("author") == nil)
        try parent.save()
        #expect(try stack.stored("Book", "title") == ["string(\"New\")"])
        #expect(try stack.mainContext().count(for: FetchRequest("Author")) == 0)
    }

    @Test func deletingWhatASiblingAddedToCascadesToTheAddition() throws {
        let parent = stack.mainContext()
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        try parent.save()
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        let theirs = one.object(with: author.objectID)
        #expect(theirs.objects("books") == [])
        try book("New", two)["author"] = two.object(with: author.objectID)
        try two.save()
        one.delete(theirs)
        try one.save()
        try parent.save()
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
    }

    @Test func aDiscardedChildLeavesNoTrace() throws {
        let parent = stack.mainContext()
        let emma = try book("Emma", parent)
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        try parent.save()
        do {
            let child = ManagedObjectContext.mainQueue(parent: parent)
            let copy = child.object(with: emma.objectID)
            copy["title"] = "Changed"
            copy["author"] = child.object(with: author.objectID)
            _ = try book("New", child)
            child.delete(copy)
        }
        #expect(!parent.hasChanges)
        #expect(emma["title", as: String.self] == "Emma")
        #expect(author.objects("books") == [])
        #expect(try parent.count(for: FetchRequest("Book")) == 1)
    }

    @Test func ordersAndCascadesOfAChildReachTheStore() throws {
        let parent = stack.mainContext()
        let shelf = try parent.insertObject(entityName: "Shelf")
        let books = try ["a", "b", "c"].map { try book($0, parent) }
        shelf["books"] = books
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: QueueConfinedContext(parent: parent))
        let mine = child.object(with: shelf.objectID)
        #expect(mine.objectIDs("books") == books.map(\.objectID))
        mine.insert(child.object(with: books[2].objectID), into: "books", at: 0)
        mine.insert(try book("d", child), into: "books", at: 1)
        try stack.save(child)
        #expect(
            shelf.objects("books").map { $0["title", as: String.self] } == ["c", "d", "a", "b"])
        try parent.save()
        let fresh = stack.mainContext()
        let stored = fresh.object(with: shelf.objectID)
        #expect(
            stored.objects("books").map { $0["title", as: String.self] } == ["c", "d", "a", "b"])
    }

    @Test func siblingsOrdersAreBothKeptAsFarAsTheyCan() throws {
        let parent = stack.mainContext()
        let shelf = try parent.insertObject(entityName: "Shelf")
        let books = try ["a", "b"].map { try book($0, parent) }
        shelf["books"] = books
        try parent.save()
        let one = ManagedObjectContext.mainQueue(parent: parent)
        let two = ManagedObjectContext.mainQueue(parent: parent)
        let theirs = two.object(with: shelf.objectID)
        theirs.insert(two.object(with: books[1].objectID), into: "books", at: 0)
        one.object(with: shelf.objectID).add(try book("c", one), to: "books")
        try one.save()
        try two.save()
        #expect(shelf.objects("books").map { $0["title", as: String.self] } == ["b", "a", "c"])
        try parent.save()
        let fresh = stack.mainContext()
        let stored = fresh.object(with: shelf.objectID)
        #expect(stored.objects("books").map { $0["title", as: String.self] } == ["b", "a", "c"])
    }

    @Test func undoInAChildIsItsOwn() throws {
        let parent = stack.mainContext()
        parent.undoManager = UndoManager()
        let emma = try book("Emma", parent)
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        child.undoManager = UndoManager()
        let copy = child.object(with: emma.objectID)
        copy["title"] = "Changed"
        child.processPendingChanges()
        try child.save()
        #expect(emma["title", as: String.self] == "Changed")
        child.undo()
        #expect(copy["title", as: String.self] == "Emma")
        #expect(emma["title", as: String.self] == "Changed")
        try child.save()
        #expect(emma["title", as: String.self] == "Emma")
    }

    @Test func aParentsUndoTakesBackWhatAChildSaved() throws {
        let parent = stack.mainContext()
        parent.undoManager = UndoManager()
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        let (emma, tag) = (try book("Emma", parent), try parent.insertObject(entityName: "Tag"))
        emma["author"] = author
        try parent.save()
        parent.processPendingChanges()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let copy = child.object(with: emma.objectID)
        copy["title"] = "Changed"
        copy["author"] = nil
        let new = try book("New", child)
        new["author"] = child.object(with: author.objectID)
        child.delete(child.object(with: tag.objectID))
        try child.save()
        parent.processPendingChanges()
        #expect(author.objects("books").map { $0["title", as: String.self] } == ["New"])
        parent.undo()
        #expect(emma["title", as: String.self] == "Emma")
        #expect(emma.object("author") === author)
        #expect(author.objects("books") == [emma])
        #expect(!tag.isDeleted)
        #expect(!parent.hasChanges)
        parent.redo()
        #expect(author.objects("books").map { $0["title", as: String.self] } == ["New"])
        #expect(tag.isDeleted)
        try parent.save()
        #expect(try stack.stored("Book", "title") == ["string(\"Changed\")", "string(\"New\")"])
    }

    @Test func aParentsRollbackDropsWhatAChildSaved() throws {
        let parent = stack.mainContext()
        let emma = try book("Emma", parent)
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        child.object(with: emma.objectID)["title"] = "Changed"
        let new = try book("New", child)
        try child.save()
        child.delete(child.object(with: emma.objectID))
        try child.save()
        #expect(emma.isDeleted)
        parent.rollback()
        #expect(emma["title", as: String.self] == "Emma")
        #expect(try parent.count(for: FetchRequest("Book")) == 1)
        // The child still has what it saved; what it saves of that again comes to nothing.
        new["year"] = 1
        try child.save()
        try parent.save()
        #expect(try stack.stored("Book", "title") == ["string(\"Emma\")"])
    }

    @Test func deletionsUpToTheRootOfObjectsNobodyRead() throws {
        let id = try {
            let context = stack.mainContext()
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        let (context, middle) = contexts(.mainOverPrivateOverPrivate)
        context.delete(context.object(with: id))
        try context.save()
        #expect(
            try middle.performAndWait { try $0.count(for: FetchRequest("Book")) } == 0)
        middle.performAndWait { $0.rollback() }
        #expect(
            middle.performAndWait { $0.object(with: id)["title", as: String.self] } == "Emma")
    }

    @Test func savingAChildIsBoundedByWhatItChanged() throws {
        let parent = stack.mainContext()
        let author = try parent.insertObject(entityName: "Author")
        author["name"] = "A"
        for number in 0..<200 {
            try book("\(number)", parent)["author"] = author
        }
        try parent.save()
        let id = author.objectID
        let other = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: other)
        let books = try child.fetch(FetchRequest("Book")).map { $0 }
        #expect(books.count == 200)
        // The parent passes rows on; it makes no objects of them.
        #expect(other.performAndWait { $0.registeredObjects.count } == 0)
        books[0]["year"] = 1
        books[1]["author"] = nil
        try child.save()
        let known = other.performAndWait { $0.registeredObjects.map(\.objectID) }
        #expect(Set(known) == [books[0].objectID, books[1].objectID, id])
        // Nor does asking again, with those changes, make more.
        let sibling = ManagedObjectContext.mainQueue(parent: other)
        #expect(sibling.object(with: id).objects("books").count == 199)
        #expect(try sibling.fetch(FetchRequest("Book")).count == 200)
        #expect(other.performAndWait { $0.registeredObjects.count } == 3)
    }

    @Test func aReadOnlyStoresNewObjectsAreSharedByTemporaryIdentifiers() throws {
        try stack.coordinator.close()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: stack.path, options: options)
        let parent = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let emma = try book("Emma", parent)
        let author = try parent.insertObject(entityName: "Author")
        emma["author"] = author
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let copy = try #require(try child.fetch(FetchRequest("Book")).first)
        #expect(copy.objectID == emma.objectID)
        #expect(copy.object("author")?.objectIDs("books") == [emma.objectID])
        try store.close()
    }
}
