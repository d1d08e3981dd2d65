import QuireTestSupport
import Testing

@testable import Quire

/// Objects that are deleted, or whose rows are gone, and what may still be asked of them.
@MainActor @Suite struct DeletedObjectTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func new(
        _ entity: String, _ key: String, _ text: String, in context: ManagedObjectContext
    ) throws -> ManagedObject {
        let object = try context.insertObject(entityName: entity)
        object[key] = text
        return object
    }

    // MARK: After the save

    @Test(arguments: ContextArrangement.allCases)
    func savedDeletionLeavesTheContext(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let emma = try new("Book", "title", "Emma", in: context)
        try stack.save(context)
        let id = emma.objectID
        context.delete(emma)
        #expect(emma.managedObjectContext === context)
        try stack.save(context)
        #expect(emma.managedObjectContext == nil)
        #expect(!emma.isDeleted && !emma.isInserted && !emma.isUpdated && !emma.hasChanges)
        #expect(context.registeredObject(for: id) == nil)
        #expect(!context.registeredObjects.contains(emma))
        #expect(context.deletedObjects.isEmpty)
        #expect(try context.fetch(FetchRequest("Book")).isEmpty)
        #expect(throws: QuireError.self) { try context.existingObject(with: id) }
        let fault = context.object(with: id)
        #expect(fault !== emma)
        #expect(fault.isFault)
        #expect(fault["title", as: String.self] == nil)
        #expect(fault.isInaccessible)
        #expect(context.takeFaultError()?.code == .notFound)
    }

    @Test(arguments: [true, false])
    func editsOfADeletedObjectAreRefused(isReplaced: Bool) throws {
        let context = stack.mainContext()
        let emma = try new("Book", "title", "Emma", in: context)
        let author = try new("Author", "name", "A", in: context)
        emma["author"] = author
        try context.save()
        context.delete(emma)
        try context.save()
        if isReplaced { _ = context.object(with: emma.objectID)["title", as: String.self] }
        emma["title"] = "x"
        emma["author"] = nil
        emma["author"] = author
        emma.add(try new("Tag", "name", "t", in: context), to: "tags")
        let error = #expect(throws: QuireError.self) { try emma.setValue("y", forKey: "title") }
        #expect(error?.code == .notFound)
        _ = emma.object("author")
        _ = emma.objects("tags")
        context.delete(emma)
        context.refresh(emma, mergeChanges: false)
        context.refresh(emma, mergeChanges: true)
        #expect(author.objects("books") == [])
        try context.save()
        #expect(try stack.stored("Book", "title") == [])
    }

    @Test(arguments: ContextArrangement.allCases, [true, false])
    func undoBringsASavedDeletionBack(arrangement: ContextArrangement, isReplaced: Bool) throws {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        let emma = try new("Book", "title", "Emma", in: context)
        let author = try new("Author", "name", "A", in: context)
        emma["author"] = author
        try stack.save(context)
        let id = emma.objectID
        emma["year"] = 1815
        context.processPendingChanges()
        context.delete(emma)
        try stack.save(context)
        if isReplaced {
            // Another object of the identifier takes its place.
            #expect(context.object(with: id)["title", as: String.self] == nil)
        }
        let other = isReplaced ? context.object(with: id) : emma
        context.undo()
        let back = try context.existingObject(with: id)
        #expect(other === back)
        #expect(back.managedObjectContext === context)
        #expect(back["title", as: String.self] == "Emma" && back["year", as: Int64.self] == 1815)
        #expect(author.objects("books") == [back])
        context.undo()
        #expect(back["year", as: Int64.self] == nil)
        context.redo()
        context.redo()
        #expect(!back.isInserted)
        context.undo()
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"Emma\")"])
        #expect(try stack.stored("Book", "year") == ["integer(1815)"])
    }

    @Test(arguments: [true, false])
    func aDeletionThatTheParentTakesBackIsNoneInTheChild(isReplacedFirst: Bool) throws {
        let parent = stack.mainContext()
        parent.undoManager = UndoManager()
        let id = try new("Book", "title", "Emma", in: parent).objectID
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let emma = try child.existingObject(with: parent.object(with: id).objectID)
        child.delete(emma)
        try child.save()
        parent.processPendingChanges()
        #expect(emma.managedObjectContext == nil)
        if isReplacedFirst { _ = child.object(with: emma.objectID) }
        parent.undo()
        let author = try new("Author", "name", "A", in: child)
        author.add(child.object(with: emma.objectID), to: "books")
        #expect(author.objects("books").map { $0["title", as: String.self] } == ["Emma"])
        let found = try child.existingObject(with: emma.objectID)
        #expect(found === author.objects("books").first && found.managedObjectContext === child)
        try child.save()
        try parent.save()
        #expect(try stack.stored("Book", "title") == ["string(\"Emma\")"])
    }

    @Test func aDeletionThatIsNotSavedIsAnExistingObject() throws {
        let context = stack.mainContext()
        let emma = try new("Book", "title", "Emma", in: context)
        try context.save()
        context.delete(emma)
        #expect(try context.existingObject(with: emma.objectID) === emma)
        #expect(emma.isDeleted)
        // It is there for reading, not for relationships.
        let author = try new("Author", "name", "A", in: context)
        let error = #expect(throws: QuireError.self) {
            try author.add(
                emma, through: #require(author.resolvedEntity.relationship(named: "books")))
        }
        #expect(error?.code == .notFound)
        let child = ManagedObjectContext.mainQueue(parent: context)
        #expect(throws: QuireError.self) { try child.existingObject(with: emma.objectID) }
    }

    // MARK: In relationships

    @Test func relatingWhatIsDeletedIsReportedAndChangesNothing() throws {
        let context = stack.mainContext()
        let author = try new("Author", "name", "A", in: context)
        let shelf = try new("Shelf", "name", "S", in: context)
        let books = try ["a", "b", "c"].map { try new("Book", "title", $0, in: context) }
        try context.save()
        // Deleted and not saved; deleted and saved; gone from the store.
        context.delete(books[1])
        try context.save()
        let other = stack.mainContext()
        other.delete(other.object(with: books[2].objectID))
        try other.save()
        context.refresh(books[2], mergeChanges: false)
        #expect(books[2]["title", as: String.self] == nil)
        context.delete(books[0])
        for book in books {
            _ = context.takeFaultError()
            author.add(book, to: "books")
            #expect(context.takeFaultError()?.code == .notFound)
            shelf.insert(book, into: "books", at: 0)
            #expect(context.takeFaultError()?.code == .notFound)
            author["books"] = [book]
            #expect(context.takeFaultError()?.code == .notFound)
            let cover = try context.insertObject(entityName: "Cover")
            cover["book"] = book
            #expect(context.takeFaultError()?.code == .notFound)
            #expect(cover.object("book") == nil)
            let error = #expect(throws: QuireError.self) {
                try cover.setAttributeValue(.objectID(book.objectID), forKey: "book")
            }
            #expect(error?.code == .notFound)
            context.delete(cover)
        }
        #expect(author.objects("books") == [] && shelf.objects("books") == [])
        // Nor does an owner that is deleted get any.
        context.delete(shelf)
        let kept = try new("Book", "title", "d", in: context)
        shelf.add(kept, to: "books")
        #expect(context.takeFaultError()?.code == .notFound)
        kept["shelf"] = shelf
        #expect(kept.object("shelf") == nil)
        try context.save()
        #expect(try stack.stored("Book", "title") == ["string(\"d\")"])
    }

    // MARK: Never saved

    enum Deletion: CaseIterable, Sendable { case direct, cascade, undo, rollback }

    nonisolated static let heldResults: [(ContextArrangement, Deletion, Int)] =
        ContextArrangement.allCases.flatMap { arrangement in
            Deletion.allCases.flatMap { deletion in [0, 20].map { (arrangement, deletion, $0) } }
        }

    /// Results that are held do not bring a new object back after its deletion.
    @Test(arguments: heldResults)
    func deletedUnsavedObjectsStayDeletedInHeldResults(
        arrangement: ContextArrangement, deletion: Deletion, batchSize: Int
    ) throws {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        func insert(_ count: Int) throws {
            let author = try new("Author", "name", "A", in: context)
            for number in 0..<count {
                try new("Book", "title", "\(number)", in: context)["author"] = author
            }
        }
        try insert(2)
        context.processPendingChanges()
        var request = FetchRequest<ManagedObject>("Book", sortOrderings: [SortOrdering("title")])
        request.fetchBatchSize = batchSize
        let authors = try context.fetch(FetchRequest<ManagedObject>("Author"))
        let books = try context.fetch(request)
        let identifiers = books.objectIDs
        switch deletion {
        case .direct: for book in books { context.delete(book) }
        case .cascade: for author in authors { context.delete(author) }
        case .undo: context.undo()
        case .rollback: context.rollback()
        }
        for book in books {
            #expect(book.isDeleted || book.managedObjectContext == nil)
            #expect(!book.isInserted && !book.isUpdated)
            context.delete(book)
        }
        #expect(try context.count(for: request) == 0)
        try stack.save(context)
        for book in books {
            #expect(book.managedObjectContext == nil && !book.isDeleted)
            context.delete(book)
        }
        for id in identifiers { context.delete(context.object(with: id)) }
        _ = try new("Book", "title", "last", in: context)
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"last\")"])
    }

    /// New objects have permanent identifiers where there are children.
    @Test func deletedUnsavedObjectsOfAParentStayDeletedInHeldResults() throws {
        let context = stack.mainContext()
        _ = try new("Book", "title", "Emma", in: context)
        let child = ManagedObjectContext.mainQueue(parent: context)
        #expect(try child.count(for: FetchRequest("Book")) == 1)
        let books = try context.fetch(FetchRequest<ManagedObject>("Book"))
        #expect(!books.objectIDs[0].isTemporaryID)
        for book in books { context.delete(book) }
        #expect(books[0].isDeleted && !books[0].isUpdated)
        try context.save()
        #expect(books[0].managedObjectContext == nil)
        for book in books { context.delete(book) }
        try context.save()
        #expect(try stack.stored("Book", "title") == [])
    }

    @Test func identifiersOfObjectsThatWereNeverSavedFindNothing() throws {
        let context = stack.mainContext()
        let id: ManagedObjectID
        do {
            let emma = try new("Book", "title", "Emma", in: context)
            id = emma.objectID
            context.delete(emma)
            try context.save()
        }
        let object = context.object(with: id)
        #expect(!object.isInserted && !object.isUpdated && !context.hasChanges)
        #expect(throws: QuireError.self) { try context.existingObject(with: id) }
        #expect(object["title", as: String.self] == nil && object.isInaccessible)
        context.delete(object)
        try context.save()
    }

    // MARK: Inaccessible faults

    @Test func inaccessibleFaultsAreDeletedObjectsUntilTheSave() throws {
        let context = stack.mainContext()
        let emma = try new("Book", "title", "Emma", in: context)
        try context.save()
        context.refreshAllObjects()
        let other = stack.mainContext()
        other.delete(other.object(with: emma.objectID))
        try other.save()
        #expect(context.deletedObjects.isEmpty)
        #expect(emma["title", as: String.self] == nil)
        #expect(emma.isDeleted && emma.isInaccessible)
        #expect(context.deletedObjects == [emma])
        #expect(!context.hasChanges)
        try context.save()
        #expect(context.deletedObjects.isEmpty)
        #expect(!emma.isDeleted && emma.managedObjectContext == nil)
        #expect(context.registeredObject(for: emma.objectID) == nil)
    }

    @Test func keptInaccessibleFaultsAreNoDeletedObjects() throws {
        let context = stack.mainContext()
        context.shouldDeleteInaccessibleFaults = false
        let emma = try new("Book", "title", "Emma", in: context)
        try context.save()
        context.refreshAllObjects()
        let other = stack.mainContext()
        other.delete(other.object(with: emma.objectID))
        try other.save()
        #expect(emma["title", as: String.self] == nil)
        #expect(!emma.isDeleted && context.deletedObjects.isEmpty)
        try context.save()
        #expect(emma.managedObjectContext === context)
    }

    // MARK: Temporary identifiers

    @Test func aTemporaryIdentifierFindsItsObjectAfterAChildsSave() throws {
        let parent = stack.mainContext()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let emma = try new("Book", "title", "Emma", in: child)
        let temporary = emma.objectID
        #expect(temporary.isTemporaryID)
        func check() throws {
            #expect(child.object(with: temporary) === emma)
            #expect(try child.existingObject(with: temporary) === emma)
            #expect(child.registeredObject(for: temporary) === emma)
            let pushed = parent.object(with: temporary)
            #expect(pushed.objectID == emma.objectID)
            #expect(pushed["title", as: String.self] == "Emma")
            #expect(try parent.existingObject(with: temporary) === pushed)
            #expect(parent.registeredObject(for: temporary) === pushed)
        }
        try child.save()
        try check()
        try parent.save()
        try check()
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        #expect(try sibling.existingObject(with: temporary)["title", as: String.self] == "Emma")
    }

    @Test func aTemporaryIdentifierOfAFailedSaveIsTheObjectsOwnAgain() throws {
        let context = stack.mainContext()
        let tags = try (0..<2).map { _ in try new("Tag", "name", "x", in: context) }
        let temporary = tags[0].objectID
        #expect(throws: QuireError.self) { try context.save() }
        #expect(context.object(with: temporary) === tags[0])
        tags[1]["name"] = "y"
        try context.save()
        #expect(context.object(with: temporary) === tags[0])
    }
}
