import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// What a delegate is told of single changes, and what a controller refuses.
@MainActor @Suite struct FetchedResultsControllerTests {
    let stack: TestStack
    let context: ManagedObjectContext
    let mirror = ListMirror()

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
    }

    @discardableResult
    private func book(
        _ title: String, year: Int64? = nil, author: ManagedObject? = nil
    ) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        book["year"] = year
        book["author"] = author
        return book
    }

    private func author(_ name: String) throws -> ManagedObject {
        let author = try context.insertObject(entityName: "Author")
        author["name"] = name
        return author
    }

    private func controller(
        _ orderings: String..., section: String? = nil, where predicate: String? = nil,
        cache: String? = nil, _ adjust: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
    ) throws -> FetchedResultsController<ManagedObject> {
        var request = FetchRequest("Book", sortOrderings: orderings.map { SortOrdering($0) })
        request.predicate = try predicate.map { try QueryPredicate(format: $0) }
        adjust(&request)
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context, sectionNameKeyPath: section,
            cacheName: cache)
        controller.delegate = mirror
        try controller.performFetch()
        mirror.load(controller)
        return controller
    }

    /// What the delegate is told of what a closure does.
    private func told(_ body: () throws -> Void) rethrows -> [String] {
        mirror.forget()
        try body()
        context.processPendingChanges()
        return mirror.log
    }

    // MARK: Objects

    @Test func objectsComeMoveChangeAndGo() throws {
        let controller = try controller("title")
        defer { withExtendedLifetime(controller) {} }
        #expect(controller.fetchedObjects?.count == 0)
        #expect(
            try told { for title in ["a", "c", "e"] { try book(title) } }
                == ["insert – [0, 0]", "insert – [0, 1]", "insert – [0, 2]"])
        let objects = try #require(controller.fetchedObjects)
        #expect(told { objects[0]["year"] = 1 } == ["update [0, 0] [0, 0]"])
        #expect(told { objects[0]["title"] = "b" } == ["update [0, 0] [0, 0]"])
        #expect(told { objects[0]["title"] = "d" } == ["move [0, 0] [0, 1]"])
        #expect(told { context.delete(objects[1]) } == ["delete [0, 0] –"])
        #expect(told {} == [])
        #expect(
            mirror.flat.map { context.object(with: $0)["title", as: String.self] } == ["d", "e"])
    }

    @Test func onlyWhatHasPassedOthersMoves() throws {
        let books = try ["a", "b", "c", "d", "e"].map { try book($0) }
        let controller = try controller("title")
        defer { withExtendedLifetime(controller) {} }
        // The first becomes the last; the others change, but not their order.
        let log = told {
            for (object, title) in zip(books, ["z", "b1", "c1", "d1", "e1"]) {
                object["title"] = title
            }
        }
        #expect(log.filter { $0.hasPrefix("move") } == ["move [0, 0] [0, 4]"])
        #expect(log.filter { $0.hasPrefix("update") }.count == 4)
    }

    /// As when a list is fetched while another context imports: rows come before the merges of their saves.
    @Test func mergedInsertionsThatTheListHasAreNotUpdates() throws {
        let other = stack.mainContext()
        func save(_ titles: [String]) throws -> ObjectIDChanges {
            let books = try titles.map { title in
                let book = try other.insertObject(entityName: "Book")
                book["title"] = title
                return book
            }
            try other.save()
            return ObjectIDChanges(inserted: books.map(\.objectID))
        }
        let early = [try save(["a", "c"]), try save(["e"])]
        let controller = try controller("title")
        // Objects that nobody holds: a held one is refreshed, and reported.
        let first = try #require(controller.fetchedObjects?.objectIDs.first)
        #expect(
            told {
                for changes in early { context.merge(changes, isByRows: false) }
            } == [])
        let late = try save(["b", "d"])
        #expect(
            told { context.merge(late, isByRows: false) } == [
                "insert – [0, 1]", "insert – [0, 3]",
            ])
        #expect(told { context.merge(late, isByRows: false) } == [])
        other.object(with: first)["title"] = "z"
        try other.save()
        let update = ObjectIDChanges(inserted: early[1].inserted, updated: [first])
        #expect(told { context.merge(update, isByRows: false) } == ["move [0, 0] [0, 4]"])
        #expect(mirror.flat == controller.fetchedObjects?.objectIDs)
    }

    @Test func undoAndRollbackAreTold() throws {
        context.undoManager = UndoManager()
        try book("a")
        try context.save()
        let controller = try controller("title")
        defer { withExtendedLifetime(controller) {} }
        #expect(try told { try book("b") } == ["insert – [0, 1]"])
        #expect(told { context.undo() } == ["delete [0, 1] –"])
        #expect(told { context.redo() } == ["insert – [0, 1]"])
        #expect(told { context.rollback() } == ["delete [0, 1] –"])
    }

    @Test func savingGivesIdentifiersWithoutTellingOfObjects() throws {
        let first = try book("a")
        try book("b")
        let controller = try controller("title")
        #expect(mirror.flat[0].isTemporaryID)
        #expect(try told { try context.save() } == [])
        #expect(mirror.batchCount == 0)
        let temporary = mirror.flat.filter(\.isTemporaryID)
        #expect(temporary.isEmpty)
        #expect(mirror.flat == controller.fetchedObjects?.objectIDs)
        #expect(controller.indexPath(forObject: first) == IndexPath(item: 0, section: 0))
    }

    @Test func aSaveThatFailsMayHaveGivenIdentifiers() throws {
        let tags = try (0..<2).map { _ in
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = "x"
            return tag
        }
        let controller = try controller("name") { $0.entityName = "Tag" }
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .constraintConflict)
        #expect(mirror.flat == tags.map(\.objectID))
        #expect(controller.snapshot?.itemIdentifiers == mirror.flat)
        tags[0]["name"] = "y"
        try context.save()
        #expect(mirror.flat == [tags[1].objectID, tags[0].objectID])
    }

    @Test func identifiersThatOthersHaveTakenAreGivenBack() throws {
        let rivals = try Rivals(.store)
        let first = try rivals.new("Book", ["title": "a"])
        try rivals.save()
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: FetchRequest("Book", sortOrderings: [SortOrdering("title")]),
            managedObjectContext: rivals.here)
        controller.delegate = mirror
        try controller.performFetch()
        mirror.load(controller)
        try rivals.there.insertObject(entityName: "Book")["title"] = "c"
        try rivals.there.save()
        let second = try rivals.new("Book", ["title": "b"])
        try rivals.save()
        #expect(mirror.flat == [first.objectID, second.objectID])
        #expect(controller.snapshot?.itemIdentifiers == mirror.flat)
    }

    @Test func resetLeavesWhatIsSaved() throws {
        try book("a")
        try context.save()
        let controller = try controller("title")
        #expect(try told { try book("b") } == ["insert – [0, 1]"])
        #expect(told { context.reset() } == ["delete [0, 1] –", "update [0, 0] [0, 0]"])
        let place = IndexPath(item: 0, section: 0)
        #expect(controller.object(at: place)["title", as: String.self] == "a")
    }

    @Test func objectsThatNobodyHoldsAreFollowed() throws {
        try stack.fill(books: 20)
        let controller = try controller("year", "title")
        let other = stack.mainContext()
        var request = FetchRequest("Book")
        request.predicate = try QueryPredicate(format: "title == 'b3'")
        let book = try #require(try other.fetch(request).first)
        book["year"] = 999
        try other.save()
        #expect(context.registeredObjects.isEmpty)
        #expect(
            told { context.mergeChanges(from: ObjectIDChanges(updated: [book.objectID])) }
                == ["move [0, 3] [0, 19]"])
        #expect(controller.snapshot?.itemIdentifiers.last == book.objectID)
    }

    // MARK: Sections

    @Test func sectionsComeAndGo() throws {
        let controller = try controller("year", "title", section: "year")
        #expect(controller.sections?.isEmpty == true)
        var second: ManagedObject?
        #expect(
            try told {
                try book("a", year: 1)
                second = try book("b", year: 2)
            } == [
                "insert section 1 0", "insert section 2 1", "insert – [0, 0]", "insert – [1, 0]",
            ])
        #expect(
            told { second?["year"] = 1 } == ["delete section 2 1", "move [1, 0] [0, 1]"])
        #expect(
            told { second?["year"] = nil }
                == ["insert section  0", "move [0, 1] [0, 0]"])
        #expect(controller.sections?.map(\.name) == ["", "1"])
        #expect(controller.sections?.map(\.numberOfObjects) == [1, 1])
    }

    @Test func aSectionWhoseOnlyObjectChangesStays() throws {
        let books = try (1...3).map { try book("x", year: $0) }
        let controller = try controller("year", "title", section: "year")
        defer { withExtendedLifetime(controller) {} }
        #expect(told { books[1]["title"] = "y" } == ["update [1, 0] [1, 0]"])
        #expect(
            told { books[1]["year"] = 4 } == [
                "delete section 2 1", "insert section 4 2", "move [1, 0] [2, 0]",
            ])
    }

    @Test func aRelatedObjectMovesItsSection() throws {
        let (austen, borges) = (try author("Austen"), try author("Borges"))
        try book("Emma", author: austen)
        try book("Persuasion", author: austen)
        try book("Ficciones", author: borges)
        let controller = try controller("author.name", "title", section: "author.name")
        #expect(
            told { austen["name"] = "Jane Austen" } == [
                "delete section Austen 0", "insert section Jane Austen 1", "move [0, 0] [1, 0]",
                "move [0, 1] [1, 1]",
            ])
        #expect(controller.sections?.map(\.name) == ["Borges", "Jane Austen"])
    }

    @Test func aRelatedObjectDecidesWhoIsInIt() throws {
        let authors = try (0..<3).map { try author("a\($0)") }
        for number in 0..<9 { try book("b\(number)", author: authors[number % 3]) }
        try context.save()
        let controller = try controller("title", where: "author.name == 'x'")
        #expect(
            told { authors[1]["name"] = "x" }
                == ["insert – [0, 0]", "insert – [0, 1]", "insert – [0, 2]"])
        #expect(
            controller.fetchedObjects?.map { $0["title", as: String.self] } == ["b1", "b4", "b7"])
        #expect(told { context.delete(authors[1]) }.count == 3)
        #expect(controller.fetchedObjects?.isEmpty == true)
    }

    @Test func theIndexHasFirstCharacters() throws {
        for title in ["apple", "Ärger", "avocado", "Banana"] { try book(title) }
        let controller = try controller("title", section: "title")
        controller.delegate = nil
        #expect(controller.sections?.map(\.name) == ["Banana", "apple", "avocado", "Ärger"])
        #expect(controller.sectionIndexTitles == ["B", "A", "Ä"])
        #expect(controller.section(forSectionIndexTitle: "A", at: 1) == 1)
        #expect(controller.section(forSectionIndexTitle: "A", at: 0) == nil)
        #expect(controller.sectionIndexTitle(forSectionName: "") == nil)
        #expect(controller.sections?[1].objects.first?["title", as: String.self] == "apple")
    }

    // MARK: Windows, batches

    @Test func aLimitLetsOthersIn() throws {
        let books = try ["a", "b", "c", "d"].map { try book($0) }
        let controller = try controller("title") { $0.fetchLimit = 2 }
        defer { withExtendedLifetime(controller) {} }
        #expect(
            told { context.delete(books[0]) }.sorted() == ["delete [0, 0] –", "insert – [0, 1]"])
        #expect(told { books[3]["title"] = "e" } == [])
        #expect(
            told { books[3]["title"] = "a" }.sorted() == ["delete [0, 1] –", "insert – [0, 0]"])
    }

    @Test func objectsAreReadInBatches() throws {
        try stack.fill(books: 50, authors: 1)
        var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        request.fetchBatchSize = 10
        request.relationshipKeyPathsForPrefetching = ["author"]
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context)
        try controller.performFetch()
        let count = try stack.statements {
            for object in try #require(controller.fetchedObjects) {
                _ = object.object("author")?["name", as: String.self]
            }
        }.count
        // Five batches, and the author once.
        #expect(count == 6)
    }

    // MARK: Refusals

    private func refusal(
        section: String? = nil, _ adjust: (inout FetchRequest<ManagedObject>) -> Void
    ) throws -> QuireError? {
        var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        adjust(&request)
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context, sectionNameKeyPath: section)
        let error = #expect(throws: QuireError.self) { try controller.performFetch() }
        #expect(controller.fetchedObjects == nil)
        #expect(controller.sections == nil)
        return error
    }

    @Test func impossibleRequestsAreRefused() throws {
        for year: Int64 in [1, 2, 1] { try book("b\(year)", year: year) }
        try book("c", year: 1)
        #expect(try refusal { $0.sortOrderings = [] }?.code == .invalidQuery)
        #expect(try refusal { $0.includesPendingChanges = false }?.code == .invalidQuery)
        #expect(try refusal { $0.resultType = .count }?.code == .invalidQuery)
        #expect(try refusal { $0.entityName = "Bok" }?.code == .unknownEntity)
        #expect(try refusal { $0.sortOrderings = [SortOrdering("tytle")] }?.code == .unknownKey)
        #expect(try refusal(section: "yaer") { _ in }?.code == .unknownKey)
        #expect(try refusal(section: "tags.name") { _ in }?.code == .invalidQuery)
        #expect(try refusal(section: "author") { _ in }?.code == .invalidQuery)
        let error = try refusal(section: "year") { _ in }
        #expect(error?.code == .invalidQuery)
        #expect(
            error?.message
                == "The results are sorted by “title” first, which does not keep section “1” together; sort first by "
                + "the section key path, or by a key with the same order.")
    }

    @Test func sectionsThatComeApartEndTheFollowing() throws {
        try book("a", year: 1)
        try book("b", year: 2)
        let controller = try controller("title", section: "year")
        try book("c", year: 1)
        context.processPendingChanges()
        #expect(mirror.error?.code == .invalidQuery)
        #expect(controller.fetchedObjects == nil)
        controller.fetchRequest.sortOrderings = [SortOrdering("year")]
        try controller.performFetch()
        #expect(controller.sections?.map(\.numberOfObjects) == [2, 1])
    }

    @Test func aStoreThatCannotBeReadEndsTheFollowing() throws {
        try stack.fill(books: 5)
        let controller = try controller("title") { $0.fetchLimit = 2 }
        let id = try #require(controller.snapshot?.itemIdentifiers.first)
        try stack.coordinator.close()
        context.mergeChanges(from: ObjectIDChanges(updated: [id]))
        #expect(mirror.error?.code == .storeUnavailable)
        #expect(controller.snapshot == nil)
    }

    // MARK: Following

    @Test func aDelegateMayChangeAndSaveObjects() throws {
        let controller = try controller("title")
        var steps = 0
        mirror.didChange = { [context] in
            steps += 1
            if steps == 1 {
                controller.fetchedObjects?[0]["title"] = "z"
                try? context.save()
            }
        }
        #expect(try told { try book("a") }.first == "insert – [0, 0]")
        #expect(!context.hasChanges)
        let first = try #require(controller.fetchedObjects?.first)
        #expect(first["title", as: String.self] == "z")
        #expect(mirror.flat == [first.objectID])
        mirror.didChange = nil
    }

    @Test func aControllerThatIsGoneCostsNothing() throws {
        do {
            let controller = try controller("title")
            #expect(!context.followers.isEmpty)
            withExtendedLifetime(controller) {}
        }
        try book("a")
        context.processPendingChanges()
        #expect(context.followers.isEmpty)
    }

    @Test func snapshotsAreTheLatest() async throws {
        try book("a")
        let controller = try controller("title")
        var snapshots = controller.snapshots.makeAsyncIterator()
        #expect(await snapshots.next()?.numberOfItems == 1)
        for title in ["b", "c", "d"] {
            try book(title)
            context.processPendingChanges()
        }
        let latest = try #require(await snapshots.next())
        #expect(latest == controller.snapshot)
        #expect(latest.numberOfItems == 4)
        #expect(
            latest[IndexPath(item: 3, section: 0)] == controller.fetchedObjects?[3].objectID)
    }

    @Test func privateQueuesHaveControllersToo() throws {
        try stack.fill(books: 10)
        let context = QueueConfinedContext(coordinator: stack.coordinator)
        let counts = try context.performAndWait { context in
            let controller = FetchedResultsController<ManagedObject>(
                fetchRequest: FetchRequest("Book", sortOrderings: [SortOrdering("title")]),
                managedObjectContext: context)
            try controller.performFetch()
            let before = controller.fetchedObjects?.count ?? 0
            context.delete(controller.object(at: IndexPath(item: 4, section: 0)))
            context.processPendingChanges()
            return [before, controller.fetchedObjects?.count ?? 0]
        }
        #expect(counts == [10, 9])
    }

    // MARK: Cache

    @Test func theCacheServesTheSameContentsOnly() throws {
        defer { FetchedResultsController<ManagedObject>.deleteCache(withName: nil) }
        try stack.fill(books: 10)
        var found: FetchedResultsController<ManagedObject>?
        func statements() throws -> Int {
            let controller = FetchedResultsController<ManagedObject>(
                fetchRequest: FetchRequest("Book", sortOrderings: [SortOrdering("year")]),
                managedObjectContext: context, sectionNameKeyPath: "year", cacheName: "years")
            found = controller
            return try stack.statements { try controller.performFetch() }.count
        }
        // One to ask the version, and one to fetch.
        #expect(try statements() == 2)
        #expect(try statements() == 1)
        try stack.fill(books: 1, tags: 0)
        #expect(try statements() == 2)
        #expect(found?.sections?.count == 10)
        #expect(found?.fetchedObjects?.count == 11)
        #expect(try statements() == 1)
        #expect(found?.fetchedObjects?.count == 11)
        FetchedResultsController<ManagedObject>.deleteCache(withName: "years")
        #expect(try statements() == 2)
        try book("unsaved", year: 5000)
        #expect(try statements() == 1)
        #expect(found?.fetchedObjects?.count == 12)
    }
}
