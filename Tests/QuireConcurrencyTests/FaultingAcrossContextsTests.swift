import Quire
import QuireTestSupport
import Testing

/// Results of fetches and what was read ahead, while other contexts save and objects are refreshed.
@MainActor @Suite struct FaultingAcrossContextsTests {
    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 12, authors: 3)
        context = stack.mainContext()
    }

    private func fetch(
        _ batchSize: Int, _ keyPaths: String..., in context: ManagedObjectContext? = nil
    ) throws -> FetchedObjects<ManagedObject> {
        var request = FetchRequest("Book")
        request.fetchBatchSize = batchSize
        request.relationshipKeyPathsForPrefetching = keyPaths
        return try (context ?? self.context).fetch(request)
    }

    @Test(arguments: [0, 5])
    func resultsShowWhatWasMerged(batchSize: Int) throws {
        let books = try fetch(batchSize, "author", "tags")
        #expect(books[2]["title", as: String.self] == "b2")
        let other = stack.mainContext()
        let theirs = other.object(with: books.objectIDs[2])
        theirs["title"] = "changed"
        theirs.objects("tags").forEach { theirs.remove($0, from: "tags") }
        theirs.object("author")?["name"] = "changed"
        let updated = other.updatedObjects.map(\.objectID)
        try other.save()
        context.mergeChanges(from: ObjectIDChanges(updated: updated))
        #expect(books[2]["title", as: String.self] == "changed")
        #expect(books[2].objects("tags").isEmpty)
        #expect(books[2].object("author")?["name", as: String.self] == "changed")
    }

    @Test(arguments: [0, 5], [true, false])
    func resultsShowWhatARefreshRead(batchSize: Int, mergesChanges: Bool) throws {
        let books = try fetch(batchSize)
        let other = stack.mainContext()
        other.object(with: books.objectIDs[2])["title"] = "changed"
        try other.save()
        context.refresh(books[2], mergeChanges: mergesChanges)
        #expect(books[2]["title", as: String.self] == "changed")
        other.object(with: books.objectIDs[3])["title"] = "changed"
        try other.save()
        context.refreshAllObjects()
        #expect(books[3]["title", as: String.self] == "changed")
    }

    @Test func readingInBatchesAndAheadGoesThroughThreeLevels() throws {
        let top = QueueConfinedContext(coordinator: stack.coordinator)
        let middle = QueueConfinedContext(parent: top)
        let bottom = ManagedObjectContext.mainQueue(parent: middle)
        let ids = try fetch(0).objectIDs
        func change(_ context: ManagedObjectContext, _ position: Int, _ title: String) throws {
            let book = try context.existingObject(with: ids[position])
            book["title"] = title
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = title
            book.add(tag, to: "tags")
            let author = try context.insertObject(entityName: "Author")
            author["name"] = title
            book["author"] = author
        }
        try top.performAndWait { try change($0, 0, "top") }
        try middle.performAndWait { try change($0, 1, "middle") }
        try change(bottom, 2, "bottom")
        for batchSize in [0, 2] {
            let books = try fetch(batchSize, "tags", "author", in: bottom)
            let found = books.map { book in
                let tags = book.objects("tags").compactMap { $0["name", as: String.self] }
                return
                    "\(book["title", as: String.self] ?? "") \(book.object("author")?["name", as: String.self] ?? "") "
                    + "\(tags.count) \(tags.last ?? "")"
            }
            #expect(found.count == 12)
            #expect(
                found.prefix(4) == [
                    "top top 3 top", "middle middle 3 middle", "bottom bottom 3 bottom",
                    "b3 a0 2 t4",
                ])
        }
        try bottom.save()
        try middle.performAndWait { try $0.save() }
        try top.performAndWait { try $0.save() }
        #expect(
            try fetch(4, in: stack.mainContext()).prefix(3).map { $0["title", as: String.self] }
                == ["top", "middle", "bottom"])
    }

    @Test func aParentReadsWhatItDoesNotHoldOfWhatAChildSavesAtOnce() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let books = Array(try child.fetch(FetchRequest("Book")))
        for round in 0..<3 {
            for book in books { book["title"] = "\(round)" }
            // From the second round on, the child does not know which versions the parent has.
            let statements = try stack.statements { try child.save() }.count
            #expect(statements <= 1)
            try parent.performAndWait { try $0.save() }
        }
        #expect(try stack.stored("Book", "title") == books.map { _ in "string(\"2\")" })
    }

    @Test func aParentSavesTheRestOfAChildsChangesWhenThePolicyGivesUpAnObjectThatIsGone() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let books = Array(try child.fetch(FetchRequest("Book")))
        for book in books { book["title"] = "1" }
        try child.save()
        try parent.performAndWait { try $0.save() }
        let other = stack.mainContext()
        other.delete(other.object(with: books[3].objectID))
        try other.save()
        for book in books { book["title"] = "2" }
        try child.save()
        let error = #expect(throws: QuireError.self) {
            try parent.performAndWait { try $0.save() }
        }
        #expect(error?.code == .mergeConflict)
        #expect(error?.mergeConflicts.map(\.objectID) == [books[3].objectID])
        try parent.performAndWait {
            $0.mergePolicy = .rollback
            try $0.save()
        }
        #expect(try stack.stored("Book", "title") == Array(repeating: "string(\"2\")", count: 11))
    }
}
