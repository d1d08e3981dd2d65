import Observation
import Quire
import QuireTestSupport
import Testing

/// What those see who follow objects that others change: other contexts, merge policies, children.
@MainActor @Suite struct ObservationFromOutsideTests {
    let stack: TestStack
    /// The context whose objects are followed.
    let context: ManagedObjectContext
    let other: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
        context.isObservable = true
        other = stack.mainContext()
    }

    private func book(_ title: String) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    private func author(_ name: String) throws -> ManagedObject {
        let author = try context.insertObject(entityName: "Author")
        author["name"] = name
        return author
    }

    private func theirs(_ object: ManagedObject) -> ManagedObject {
        other.object(with: object.objectID)
    }

    // MARK: Merge policies

    @Test(arguments: [false, true])
    func aMergePolicyIsSeenWhereValuesBecomeOthers(storeTrumps: Bool) throws {
        let emma = try book("Emma")
        try context.save()
        theirs(emma)["title"] = "Theirs"
        theirs(emma)["year"] = 1815
        try other.save()
        emma["title"] = "Ours"
        emma["isbn"] = "1"
        let title = Watch { _ = emma["title", as: String.self] }
        let year = Watch { _ = emma["year", as: Int64.self] }
        let isbn = Watch { _ = emma["isbn", as: String.self] }
        context.mergePolicy = storeTrumps ? .mergeByPropertyStoreTrump : .mergeByPropertyObjectTrump
        try context.save()
        #expect(emma["title", as: String.self] == (storeTrumps ? "Theirs" : "Ours"))
        #expect(title.sawChange == storeTrumps)
        #expect(year.sawChange)
        #expect(isbn.sawNothing)
    }

    @Test func aMergePolicyIsSeenWhereRelationshipsBecomeOthers() throws {
        let emma = try book("Emma")
        let authors = try ["a", "b", "c"].map(author)
        emma["author"] = authors[0]
        let new = try book("New")
        new["author"] = authors[0]
        try context.save()
        theirs(emma)["author"] = theirs(authors[1])
        try other.save()
        emma["author"] = authors[2]
        let watches: [Watch] = [
            Watch { _ = emma.object("author") }, Watch { _ = authors[1].objects("books") },
            Watch { _ = authors[2].objectIDs("books") },
        ]
        context.mergePolicy = .mergeByPropertyStoreTrump
        try context.save()
        #expect(emma.object("author") === authors[1])
        #expect(watches.filter { !$0.sawChange }.isEmpty)
    }

    @Test func anObjectThatAMergePolicyLetsGoIsSeen() throws {
        let emma = try book("Emma")
        try context.save()
        other.delete(theirs(emma))
        try other.save()
        emma["title"] = "Ours"
        let title = Watch { _ = emma["title", as: String.self] }
        let state = Watch { _ = emma.hasChanges }
        context.mergePolicy = .rollback
        try context.save()
        #expect(title.sawChange && state.sawChange)
    }

    @Test func aNewObjectThatLosesItsLinkToAMergePolicyIsSeen() throws {
        let jane = try author("Jane")
        try context.save()
        let emma = try book("Emma")
        emma["author"] = jane
        jane["born"] = 1775
        other.delete(theirs(jane))
        try other.save()
        let link = Watch { _ = emma.object("author") }
        context.mergePolicy = .rollback
        try context.save()
        #expect(emma.object("author") == nil)
        #expect(link.sawChange)
    }

    @Test func aUniquenessConflictIsSeenByBothObjects() throws {
        let emma = try book("Emma")
        try context.save()
        let tag = try other.insertObject(entityName: "Tag")
        tag["name"] = "novel"
        try other.save()
        let mine = try context.insertObject(entityName: "Tag")
        mine["name"] = "novel"
        emma.add(mine, to: "tags")
        let tags = Watch { _ = emma.objectIDs("tags") }
        let life = Watch { _ = mine.isInserted }
        context.mergePolicy = .mergeByPropertyStoreTrump
        try context.save()
        #expect(emma.objectIDs("tags") == [tag.objectID])
        #expect(tags.sawChange && life.sawChange)
    }

    // MARK: Merging and refreshing

    @Test func anAutomaticMergeIsSeen() async throws {
        let emma = try book("Emma")
        try context.save()
        context.automaticallyMergesChangesFromParent = true
        var changes = context.changes.makeAsyncIterator()
        let title = Watch { _ = emma["title", as: String.self] }
        let year = Watch { _ = emma["year", as: Int64.self] }
        let id = emma.objectID
        try await QueueConfinedContext(coordinator: stack.coordinator).perform { context in
            context.object(with: id)["title"] = "Changed"
            try context.save()
        }
        #expect(await changes.next() == ObjectIDChanges(refreshed: [id]))
        #expect(title.sawChange && year.sawNothing)
        #expect(emma["title", as: String.self] == "Changed")
    }

    @Test func anObjectThatIsThereAgainIsSeen() throws {
        let emma = try book("Emma")
        try context.save()
        other.undoManager = UndoManager()
        other.delete(theirs(emma))
        try other.save()
        context.mergeChanges(from: ObjectIDChanges(deleted: [emma.objectID]))
        let title = Watch { _ = emma["title", as: String.self] }
        other.undo()
        try other.save()
        context.mergeChanges(from: ObjectIDChanges(inserted: [emma.objectID]))
        #expect(title.sawChange)
        #expect(emma["title", as: String.self] == "Emma")
    }

    @Test func contentsReadAheadAreFollowed() throws {
        let jane = try author("Jane")
        let books = try ["a", "b"].map(book)
        jane.add(books[0], to: "books")
        try context.save()
        let view = stack.mainContext()
        view.isObservable = true
        var request = FetchRequest("Author")
        request.relationshipKeyPathsForPrefetching = ["books"]
        let found = try view.fetch(request)
        let followed = try #require(found.first)
        let merged = Watch { _ = followed.objects("books") }
        books[1]["author"] = jane
        try context.save()
        view.mergeChanges(from: ObjectIDChanges(updated: [jane.objectID, books[1].objectID]))
        #expect(merged.sawChange)
        #expect(followed.objects("books").count == 2)
        let set = Watch { _ = followed.objects("books") }
        view.object(with: books[0].objectID)["author"] = nil
        #expect(set.sawChange)
        withExtendedLifetime(found) {}
    }

    @Test func aRemoteSaveIsSeenInTheContents() throws {
        let jane = try author("Jane")
        try context.save()
        let books = Watch { _ = jane.objects("books") }
        let name = Watch { _ = jane["name", as: String.self] }
        let emma = try other.insertObject(entityName: "Book")
        emma["title"] = "Emma"
        emma["author"] = theirs(jane)
        try other.save()
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ObjectIDChanges(inserted: [emma.objectID]),
            into: [QueueConfinedContext(context)])
        #expect(books.sawChange && name.sawNothing)
    }

    @Test func refreshingAllIsSeen() throws {
        let emma = try book("Emma")
        try context.save()
        theirs(emma)["title"] = "Changed"
        try other.save()
        let title = Watch { _ = emma["title", as: String.self] }
        context.refreshAllObjects()
        #expect(title.sawChange)
        #expect(emma["title", as: String.self] == "Changed")
    }

    @Test func findingThatAnObjectIsGoneIsSeen() throws {
        let emma = try book("Emma")
        try context.save()
        context.refresh(emma, mergeChanges: false)
        let state = Watch { _ = emma.isDeleted }
        other.delete(theirs(emma))
        try other.save()
        #expect(emma["title", as: String.self] == nil)
        #expect(emma.isDeleted && state.sawChange)
    }

    // MARK: Undo and children

    @Test func undoAfterAMergeIsSeen() throws {
        context.undoManager = UndoManager()
        let emma = try book("Emma")
        let authors = try ["a", "b"].map(author)
        try context.save()
        emma["author"] = authors[0]
        context.processPendingChanges()
        theirs(emma)["year"] = 1815
        try other.save()
        context.mergeChanges(from: ObjectIDChanges(updated: [emma.objectID]))
        let link = Watch { _ = emma.object("author") }
        let books = Watch { _ = authors[0].objects("books") }
        let rest = Watch {
            _ = emma["year", as: Int64.self]
            _ = authors[1].objects("books")
        }
        context.undo()
        #expect(emma.object("author") == nil)
        #expect(link.sawChange && books.sawChange && rest.sawNothing)
    }

    @Test func theSaveOfAGrandchildIsSeenLevelByLevel() throws {
        let emma = try book("Emma")
        let jane = try author("Jane")
        try context.save()
        let child = ManagedObjectContext.mainQueue(parent: context)
        let grandchild = ManagedObjectContext.mainQueue(parent: child)
        let title = Watch { _ = emma["title", as: String.self] }
        let books = Watch { _ = jane.objects("books") }
        let year = Watch { _ = emma["year", as: Int64.self] }
        let changes = Watch { _ = context.hasChanges }
        let edited = grandchild.object(with: emma.objectID)
        edited["title"] = "Changed"
        edited["author"] = grandchild.object(with: jane.objectID)
        try grandchild.save()
        #expect(title.sawNothing && books.sawNothing && changes.sawNothing)
        try child.save()
        #expect(title.sawChange && books.sawChange)
        context.processPendingChanges()
        #expect(changes.sawChange)
        #expect(year.sawNothing)
    }
}
