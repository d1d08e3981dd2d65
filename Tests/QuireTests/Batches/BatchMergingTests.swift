import QuireTestSupport
import Testing

@testable import Quire

/// What contexts see of batch requests, and when.
@MainActor @Suite struct BatchMergingTests {
    let stack: BatchStack
    let first: ManagedObjectContext
    let second: ManagedObjectContext

    init() throws {
        stack = try BatchStack()
        let author = try stack.insert("Author", ["name": "Jane"])
        for title in ["Emma", "Persuasion"] {
            try stack.insert("Book", ["title": .string(title), "year": 1], ["author": author])
        }
        try stack.context.save()
        first = .mainQueue(coordinator: stack.coordinator)
        second = .mainQueue(coordinator: stack.coordinator)
    }

    private func books(_ context: ManagedObjectContext) throws -> [ManagedObject] {
        try Array(context.fetch(FetchRequest("Book")))
    }

    private func merge(_ result: BatchResult, into contexts: ManagedObjectContext...) {
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: result.changes, into: contexts.map { QueueConfinedContext($0) })
    }

    private func update(_ year: AttributeValue, where format: String? = nil) throws -> BatchResult {
        var request = BatchUpdateRequest(
            entityName: "Book", propertiesToUpdate: ["year": .constant(year)])
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        request.resultType = .objectIDs
        return try first.execute(request)
    }

    @Test func nothingChangesUntilItIsMerged() throws {
        let (mine, theirs) = (try books(first), try books(second))
        second.mergePolicy = .error
        first.automaticallyMergesChangesFromParent = true
        theirs[1]["title"] = "unsaved"
        let result = try update(2)
        #expect((mine + theirs).map { $0["year", as: Int64.self] } == [1, 1, 1, 1])
        merge(result, into: first, second)
        #expect((mine + theirs).map { $0["year", as: Int64.self] } == [2, 2, 2, 2])
        #expect(theirs[1]["title", as: String.self] == "unsaved")
        #expect(!first.hasChanges)
        try second.save()
        #expect(try stack.values("Book", "title") == ["Emma", "unsaved"])
        #expect(try stack.values("Book", "year") == [2, 2])
    }

    @Test func faultsReadWhatTheRequestHasWritten() throws {
        // The coordinator keeps the rows of these.
        let kept = try books(first).map(\.objectID)
        for id in kept { #expect(stack.context.object(with: id)["year", as: Int64.self] == 1) }
        _ = try stack.coordinator.rows(for: kept, maximumAge: -1)
        #expect(stack.coordinator.rowCache.count == 2)
        _ = try update(2)
        #expect(stack.coordinator.rowCache.count == 0)
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        #expect(kept.map { fresh.object(with: $0)["year", as: Int64.self] } == [2, 2])
    }

    @Test func requestThatFailsForgetsRowsToo() throws {
        let kept = try books(first).map(\.objectID)
        _ = try stack.coordinator.rows(for: kept, maximumAge: -1)
        _ = try stack.failure { _ = try update("x") }
        #expect(stack.coordinator.rowCache.count == 0)
    }

    @Test func staleObjectIsAMergeConflictWhenSaved() throws {
        let book = try books(second)[0]
        book["title"] = "stale"
        _ = try update(2, where: "title == 'Emma'")
        let error = #expect(throws: QuireError.self) { try second.save() }
        #expect(error?.code == .mergeConflict)
        #expect(error?.mergeConflicts.first?.propertiesChangedInStore == ["year"])
        second.mergePolicy = .mergeByPropertyObjectTrump
        try second.save()
        #expect(try stack.values("Book", "title") == ["stale", "Persuasion"])
        #expect(try stack.values("Book", "year") == [2, 1])
    }

    @Test func deletedObjectsLeaveAndOthersLoseThem() throws {
        let (mine, theirs) = (try books(first), try books(second))
        let author = try #require(mine[0].object("author"))
        #expect(author.objects("books").count == 2)
        var request = BatchDeleteRequest(objectIDs: [mine[0].objectID])
        request.resultType = .objectIDs
        merge(try first.execute(request), into: first, second)
        #expect(author.objects("books") == [mine[1]])
        #expect(mine[0].isInaccessible || mine[0].context == nil || !mine[0].state.contains(.live))
        #expect(try books(second) == [theirs[1]])
        #expect(!first.hasChanges && !second.hasChanges)
    }

    @Test(arguments: [true, false])
    func bothWaysOfMergingTakeDeletedObjectsOutOfRelationships(isStatic: Bool) throws {
        let (mine, theirs) = (try books(first), try books(second))
        let author = try #require(mine[0].object("author"))
        #expect(author.objects("books").count == 2)
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: FetchRequest(
                "Author", predicate: try QueryPredicate(format: "books.@count > 1"),
                sortOrderings: [SortOrdering("name")]),
            managedObjectContext: first)
        try controller.performFetch()
        #expect(controller.fetchedObjects?.count == 1)
        var request = BatchDeleteRequest(objectIDs: [theirs[0].objectID])
        request.resultType = .objectIDs
        let changes = try second.execute(request).changes
        if isStatic {
            ManagedObjectContext.mergeChanges(
                fromRemoteContextSave: changes, into: [QueueConfinedContext(first)])
        } else {
            first.mergeChanges(from: changes)
        }
        #expect(author.objects("books") == [mine[1]])
        #expect(controller.fetchedObjects?.count == 0)
    }

    @Test(arguments: [true, false])
    func bothWaysOfMergingPutInsertedObjectsIntoRelationships(isStatic: Bool) throws {
        let author = try #require(try first.fetch(FetchRequest("Author")).first)
        #expect(author.objects("books").count == 2)
        var request = BatchInsertRequest(
            entityName: "Book",
            objects: [["title": "Sanditon", "author": .objectID(author.objectID)]])
        request.resultType = .objectIDs
        let changes = try second.execute(request).changes
        if isStatic {
            ManagedObjectContext.mergeChanges(
                fromRemoteContextSave: changes, into: [QueueConfinedContext(first)])
        } else {
            first.mergeChanges(from: changes)
        }
        #expect(author.objects("books").count == 3)
    }

    @Test func objectsWhoseReferenceWasClearedAreMerged() throws {
        let stack = try BatchStack()
        let manager = try stack.insert("Manager", ["name": "m"])
        let person = try stack.insert("Person", ["name": "p"], ["manager": manager])
        try stack.context.save()
        #expect(person.object("manager") === manager)
        var request = try BatchDeleteRequest(fetchRequest: FetchRequest("Manager"))
        request.resultType = .objectIDs
        merge(try stack.context.execute(request), into: stack.context)
        #expect(person.object("manager") == nil)
        person["name"] = "q"
        try stack.context.save()
        #expect(try stack.values("Person", "name") == ["q"])
    }

    @Test func insertedObjectsComeIntoRelationshipsThatWereRead() throws {
        let author = try #require(try first.fetch(FetchRequest("Author")).first)
        #expect(author.objects("books").count == 2)
        var request = BatchInsertRequest(
            entityName: "Book",
            objects: [["title": "Sanditon", "author": .objectID(author.objectID)]])
        request.resultType = .objectIDs
        let result = try first.execute(request)
        #expect(author.objects("books").count == 2)
        merge(result, into: first)
        #expect(author.objects("books").count == 3)
    }

    @Test func requestOfAChildGoesToTheStore() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let unsaved = try child.insertObject(entityName: "Book")
        unsaved["title"] = "unsaved"
        try child.save()
        let result = try child.execute(
            BatchUpdateRequest(entityName: "Book", propertiesToUpdate: ["year": .constant(7)]))
        #expect(result.count == 2)
        #expect(try stack.values("Book", "year") == [7, 7])
        #expect(unsaved["year", as: Int64.self] == nil)
        try parent.performAndWait { try $0.save() }
        #expect(try stack.count("Book") == 3)
    }

    @Test func savesOfTheCoordinatorDoNotTellOfIt() async throws {
        var saves = stack.coordinator.saves.makeAsyncIterator()
        _ = try update(3)
        try stack.insert("Tag", ["name": "t"])
        try stack.context.save()
        let told = await saves.next()
        #expect(told?.inserted.map(\.shortDescription) == ["Tag/p1"])
    }
}
