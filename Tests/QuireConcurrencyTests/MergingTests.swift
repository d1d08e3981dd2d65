import Dispatch
import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// A notification that stays on its queue.
private struct Received: @unchecked Sendable { let notification: Notification }

/// Bringing contexts up to date with what others save, and refreshing objects.
@MainActor @Suite struct MergingTests {
    let stack: TestStack
    let context: ManagedObjectContext
    /// Another context over the same store, on the same queue for short.
    let other: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
        other = stack.mainContext()
    }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
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

    /// Saves the other context and merges that here.
    private func saveAndMerge() throws {
        let (inserted, updated, deleted) = (
            other.insertedObjects, other.updatedObjects, other.deletedObjects
        )
        try other.save()
        context.mergeChanges(
            from: ObjectIDChanges(
                inserted: inserted.map(\.objectID), updated: updated.map(\.objectID),
                deleted: deleted.map(\.objectID)))
    }

    /// Lets the main queue do what waits on it.
    private func mainQueueTurn() async {
        await withCheckedContinuation { continuation in
            DispatchQueue.main.async { continuation.resume() }
        }
    }

    // MARK: Merging

    @Test(arguments: [
        ManagedObjectContext.didSaveObjectsNotification,
        ManagedObjectContext.didSaveObjectIDsNotification,
    ])
    func aSavesNotificationCanBeMerged(_ name: Notification.Name) throws {
        let emma = try book("Emma", context)
        let austen = try author("Austen")
        try context.save()
        #expect(austen.objects("books").isEmpty)
        let token = NotificationCenter.default.addObserver(forName: name, object: other, queue: nil)
        {
            let received = Received(notification: $0)
            MainActor.assumeIsolated {
                self.context.mergeChanges(fromContextDidSave: received.notification)
            }
        }
        defer { NotificationCenter.default.removeObserver(token) }
        theirs(emma)["title"] = "Emma, a novel"
        theirs(emma)["author"] = theirs(austen)
        try other.save()
        #expect(emma["title"] as? String == "Emma, a novel")
        #expect(austen.objects("books") == [emma])
    }

    @Test func otherNotificationsAreNotMerged() throws {
        let emma = try book("Emma", context)
        try context.save()
        theirs(emma)["title"] = "Persuasion"
        try other.save()
        let changes = ObjectIDChanges(updated: [emma.objectID])
        let key = ManagedObjectContext.NotificationKey.objectIDs.rawValue
        func merge(_ name: Notification.Name, _ object: Any?) {
            context.mergeChanges(
                fromContextDidSave: Notification(
                    name: name, object: object, userInfo: [key: changes]))
        }
        merge(ManagedObjectContext.didSaveObjectIDsNotification, context)
        merge(ManagedObjectContext.didMergeChangesObjectIDsNotification, other)
        context.mergeChanges(
            fromContextDidSave: Notification(
                name: ManagedObjectContext.didSaveObjectsNotification, object: other))
        #expect(emma["title"] as? String == "Emma")
        merge(ManagedObjectContext.didSaveObjectIDsNotification, other)
        #expect(emma["title"] as? String == "Persuasion")
    }

    @Test func updatedObjectsTakeOverWhatWasSaved() throws {
        let emma = try book("Emma", context)
        try context.save()
        theirs(emma)["title"] = "Emma!"
        try saveAndMerge()
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(!context.hasChanges)
        emma["year"] = 1815
        try context.save()
        #expect(try stack.stored("Book", "title") == ["string(\"Emma!\")"])
    }

    @Test func unsavedChangesAreKeptPropertyByProperty() throws {
        let emma = try book("Emma", context)
        emma["year"] = 1
        try context.save()
        emma["year"] = 1815
        theirs(emma)["title"] = "Emma!"
        theirs(emma)["year"] = 2
        theirs(emma)["isbn"] = "i"
        try saveAndMerge()
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(emma["isbn", as: String.self] == "i")
        #expect(emma["year", as: Int64.self] == 1815)
        #expect(emma.isUpdated)
        // The save builds on what was merged.
        try context.save()
        #expect(try stack.stored("Book", "year") == ["integer(1815)"])
        // And a rollback goes back to it.
        theirs(emma).managedObjectContext?.refreshAllObjects()
        emma["title"] = "x"
        theirs(emma)["title"] = "theirs"
        try saveAndMerge()
        #expect(emma["title", as: String.self] == "x")
        context.rollback()
        #expect(emma["title", as: String.self] == "theirs")
        #expect(emma["year", as: Int64.self] == 1815)
    }

    @Test func deletedObjectsGoWithoutCountingAsUnsavedDeletions() throws {
        let (emma, persuasion) = (try book("Emma", context), try book("Persuasion", context))
        let writer = try author("A")
        emma["author"] = writer
        try context.save()
        #expect(writer.objects("books") == [emma])
        emma["year"] = 1
        other.delete(theirs(emma))
        try saveAndMerge()
        #expect(!context.hasChanges)
        #expect(context.deletedObjects.isEmpty)
        #expect(writer.objects("books") == [])
        #expect(throws: QuireError.self) { try context.existingObject(with: emma.objectID) }
        #expect(try context.fetch(FetchRequest("Book")).map { $0 } == [persuasion])
        try context.save()
    }

    @Test func whatOnlyUnsavedChangesRelatedToADeletedObjectLeavesIt() throws {
        let writer = try author("A")
        let emma = try book("Emma", context)
        try context.save()
        emma["author"] = writer
        let new = try book("New", context)
        new["author"] = writer
        other.delete(theirs(writer))
        try saveAndMerge()
        #expect(emma.object("author") == nil)
        #expect(new.object("author") == nil)
        try context.save()
        #expect(try stack.stored("Book", "author") == ["null", "null"])
    }

    @Test func insertedObjectsAreKnownAsFaults() throws {
        let new = try book("New", other)
        var registered: ManagedObject?
        context.retainsRegisteredObjects = true
        try saveAndMerge()
        context.mergeChanges(from: ObjectIDChanges(inserted: [new.objectID]))
        registered = context.registeredObject(for: new.objectID)
        #expect(registered?.isFault == true)
        #expect(registered?["title", as: String.self] == "New")
    }

    @Test func objectsThatAreNotThereAreNotRead() throws {
        let id = try {
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        other.object(with: id)["year"] = 1
        try saveAndMerge()
        #expect(context.registeredObjects.isEmpty)
    }

    @Test func contentsOfRelationshipsAreReadAgainAndOwnAdditionsKept() throws {
        let writer = try author("A")
        let (a, b, c) = (try book("a", context), try book("b", context), try book("c", context))
        a["author"] = writer
        b["author"] = writer
        try context.save()
        #expect(writer.objects("books") == [a, b])
        c["author"] = writer
        b["author"] = nil
        let new = try book("d", other)
        new["author"] = theirs(writer)
        theirs(a)["author"] = nil
        try saveAndMerge()
        #expect(writer.objects("books").map { $0["title", as: String.self] } == ["d", "c"])
        #expect(a.object("author") == nil)
        try context.save()
        let fresh = stack.mainContext()
        #expect(fresh.object(with: writer.objectID).objectIDs("books").count == 2)
    }

    @Test func anOwnOrderIsKeptAndWhatIsNewComesLast() throws {
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try ["a", "b", "c"].map { try book($0, context) }
        shelf["books"] = books
        try context.save()
        shelf.insert(books[2], into: "books", at: 0)
        theirs(shelf).add(try book("d", other), to: "books")
        theirs(shelf).remove(theirs(books[0]), from: "books")
        try saveAndMerge()
        #expect(shelf.objects("books").map { $0["title", as: String.self] } == ["c", "b", "d"])
        try context.save()
        let fresh = stack.mainContext()
        #expect(
            fresh.object(with: shelf.objectID).objects("books").map { $0["title", as: String.self] }
                == ["c", "b", "d"])
    }

    @Test func undoGoesOnAfterAMerge() throws {
        context.undoManager = UndoManager()
        let (one, two, three) = (try author("1"), try author("2"), try author("3"))
        let emma = try book("Emma", context)
        emma["author"] = one
        context.processPendingChanges()
        try context.save()
        emma["author"] = two
        context.processPendingChanges()
        try context.save()
        theirs(emma)["author"] = theirs(three)
        try saveAndMerge()
        #expect(three.objects("books") == [emma])
        context.undo()
        #expect(emma.object("author") === one)
        #expect([one, two, three].map { $0.objects("books") } == [[emma], [], []])
        context.redo()
        #expect(emma.object("author") === three)
        #expect([one, two, three].map { $0.objects("books") } == [[], [], [emma]])
        // What was deleted elsewhere does not come back by an undo of something else.
        other.refreshAllObjects()
        other.delete(theirs(one))
        try saveAndMerge()
        context.undo()
        #expect(emma.object("author") == nil)
        try context.save()
        #expect(try stack.stored("Book", "author") == ["null"])
    }

    @Test func anOwnDeletionStaysAndSaves() throws {
        let emma = try book("Emma", context)
        try context.save()
        context.delete(emma)
        theirs(emma)["year"] = 1
        try saveAndMerge()
        #expect(emma.isDeleted)
        try context.save()
        #expect(try stack.stored("Book", "title") == [])
    }

    @Test func deletedOnBothSides() throws {
        let emma = try book("Emma", context)
        try context.save()
        context.delete(emma)
        other.delete(theirs(emma))
        try saveAndMerge()
        #expect(!context.hasChanges)
        try context.save()
    }

    @Test func changesFromElsewhereFindRelationshipsByTheirRows() throws {
        let writer = try author("A")
        let emma = try book("Emma", context)
        try context.save()
        #expect(writer.objects("books") == [])
        theirs(emma)["author"] = theirs(writer)
        try other.save()
        // As another process's history has it: only the row that was written.
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ObjectIDChanges(updated: [emma.objectID]),
            into: [QueueConfinedContext(context)])
        #expect(writer.objects("books") == [emma])
    }

    // MARK: Automatic merging

    @Test func contextsOverOneStoreFollowEachOther() async throws {
        context.automaticallyMergesChangesFromParent = true
        let emma = try book("Emma", context)
        try context.save()
        let id = emma.objectID
        let background = QueueConfinedContext(coordinator: stack.coordinator)
        try await background.perform { context in
            context.object(with: id)["title"] = "Emma!"
            try context.save()
        }
        await mainQueueTurn()
        #expect(emma["title", as: String.self] == "Emma!")
        context.automaticallyMergesChangesFromParent = false
        try await background.perform { context in
            context.object(with: id)["title"] = "unseen"
            try context.save()
        }
        await mainQueueTurn()
        #expect(emma["title", as: String.self] == "Emma!")
    }

    @Test func aContainersBackgroundTaskReachesTheViewContext() async throws {
        let container = PersistentContainer(store: stack.coordinator.store)
        let view = container.viewContext
        view.automaticallyMergesChangesFromParent = true
        let emma = try book("Emma", view)
        try view.save()
        let id = emma.objectID
        let count = try await container.performBackgroundTask { context in
            context.delete(context.object(with: id))
            try context.save()
            return try context.count(for: FetchRequest("Book"))
        }
        #expect(count == 0)
        await mainQueueTurn()
        #expect(view.deletedObjects.isEmpty)
        #expect(throws: QuireError.self) { try view.existingObject(with: id) }
    }

    @Test func childrenFollowSiblingsAndTheirParent() async throws {
        let emma = try book("Emma", context)
        try context.save()
        let one = ManagedObjectContext.mainQueue(parent: context)
        let two = ManagedObjectContext.mainQueue(parent: context)
        two.automaticallyMergesChangesFromParent = true
        let seen = two.object(with: emma.objectID)
        #expect(seen["title", as: String.self] == "Emma")
        one.object(with: emma.objectID)["title"] = "from a sibling"
        try one.save()
        await mainQueueTurn()
        #expect(seen["title", as: String.self] == "from a sibling")
        emma["title"] = "from the parent"
        try context.save()
        await mainQueueTurn()
        #expect(seen["title", as: String.self] == "from the parent")
        // And what the parent merges.
        theirs(emma)["title"] = "from elsewhere"
        try saveAndMerge()
        await mainQueueTurn()
        #expect(seen["title", as: String.self] == "from elsewhere")
        emma["title"] = "given up"
        seen.managedObjectContext?.refreshAllObjects()
        #expect(seen["title", as: String.self] == "given up")
        context.rollback()
        await mainQueueTurn()
        #expect(seen["title", as: String.self] == "from elsewhere")
    }

    /// A child that saves meanwhile, on its own queue, has to wait: it is told when the parent has merged.
    @Test func aSaveIsPendingUntilItIsMerged() async throws {
        context.automaticallyMergesChangesFromParent = true
        let emma = try book("Emma", context)
        try context.save()
        let merge = try #require(context.parentSaveMerger)
        let wasMerged = Lock<Bool?>(nil)
        let token = NotificationCenter.default.addObserver(
            forName: ManagedObjectContext.didChangeObjectsNotification, object: context, queue: nil
        ) { _ in
            wasMerged.withLock { $0 = merge.isEmpty }
        }
        defer { NotificationCenter.default.removeObserver(token) }
        theirs(emma)["title"] = "Emma!"
        try other.save()
        #expect(!merge.isEmpty)
        await mainQueueTurn()
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(wasMerged.withLock { $0 } == false)
        #expect(merge.isEmpty)
    }

    @Test func aContextThatMergesByItselfIsNotRetainedByThat() async throws {
        weak var gone: ManagedObjectContext?
        do {
            let context = stack.mainContext()
            context.automaticallyMergesChangesFromParent = true
            gone = context
        }
        #expect(gone == nil)
        _ = try book("Emma", context)
        try context.save()
        await mainQueueTurn()
    }

    // MARK: Refreshing

    @Test func refreshWithMergeKeepsUnsavedChanges() throws {
        let emma = try book("Emma", context)
        try context.save()
        emma["year"] = 1815
        theirs(emma)["title"] = "Emma!"
        try other.save()
        context.refresh(emma, mergeChanges: true)
        #expect(!emma.isFault)
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(emma["year", as: Int64.self] == 1815)
        try context.save()
    }

    @Test func refreshWithoutMergeLosesChangesOnBothSides() throws {
        context.undoManager = UndoManager()
        let (one, two) = (try author("1"), try author("2"))
        let (emma, tag) = (try book("Emma", context), try context.insertObject(entityName: "Tag"))
        emma["author"] = one
        try context.save()
        emma["title"] = "Changed"
        emma["author"] = two
        emma.add(tag, to: "tags")
        context.refresh(emma, mergeChanges: false)
        #expect(emma.isFault)
        #expect(!context.hasChanges)
        #expect(emma["title", as: String.self] == "Emma")
        #expect(one.objects("books") == [emma])
        #expect(two.objects("books") == [])
        #expect(tag.objects("books") == [])
        context.undo()
        #expect(emma["title", as: String.self] == "Changed")
        #expect(two.objects("books") == [emma])
        #expect(tag.objects("books") == [emma])
    }

    @Test func refreshWithoutMergeBringsADeletedObjectBack() throws {
        let emma = try book("Emma", context)
        try context.save()
        context.delete(emma)
        context.refresh(emma, mergeChanges: false)
        #expect(!context.hasChanges)
        #expect(emma["title", as: String.self] == "Emma")
    }

    @Test func refreshAllMakesFaultsOfWhatHasNoChanges() throws {
        let (emma, persuasion) = (try book("Emma", context), try book("Persuasion", context))
        try context.save()
        emma["year"] = 1
        theirs(emma)["title"] = "Emma!"
        theirs(persuasion)["title"] = "Persuasion!"
        try other.save()
        context.refreshAllObjects()
        #expect(persuasion.isFault)
        #expect(emma.isUpdated)
        #expect(emma["title", as: String.self] == "Emma!")
        #expect(persuasion["title", as: String.self] == "Persuasion!")
        try context.save()
    }

    @Test func refreshKeepsTransientValues() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Everything")
        object["string"] = "s"
        object["note"] = "n"
        try context.save()
        context.refreshAllObjects()
        #expect(object.isFault)
        #expect(object["note", as: String.self] == "n")
        #expect(object["string", as: String.self] == "s")
        context.refresh(object, mergeChanges: false)
        context.refresh(object, mergeChanges: true)
        #expect(object["string", as: String.self] == "s")
    }

    @Test(arguments: [true, false])
    func aFaultWhoseRowIsGone(deletes: Bool) throws {
        context.shouldDeleteInaccessibleFaults = deletes
        let emma = try book("Emma", context)
        try context.save()
        context.refreshAllObjects()
        other.delete(theirs(emma))
        try other.save()
        #expect(emma["title", as: String.self] == nil)
        #expect(emma.objects("tags") == [])
        #expect(emma.isInaccessible)
        #expect(emma.isDeleted == deletes)
        #expect(!emma.hasChanges)
        #expect(!context.hasChanges)
        try context.save()
        #expect(throws: QuireError.self) { try context.existingObject(with: emma.objectID) }
    }

    // MARK: Registering

    @Test func retainedObjectsStay() throws {
        context.retainsRegisteredObjects = true
        let id = try {
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        #expect(context.registeredObject(for: id) != nil)
        #expect(context.registeredObjects.map(\.objectID) == [id])
        context.retainsRegisteredObjects = false
        #expect(context.registeredObject(for: id) == nil)
    }
}
