import QuireTestSupport
import Testing

@testable import Quire

/// What the children of a document's parent context read and save while that is busy.
@MainActor @Suite struct PendingChangesTests {
    let stack: TestStack
    let parent: QueueConfinedContext
    let child: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        parent = stack.documentParent()
        child = .mainQueue(parent: parent)
    }

    private func insert(_ title: String) throws -> ManagedObject {
        let book = try child.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    private func titles(_ context: ManagedObjectContext) throws -> [String] {
        try context.fetch(FetchRequest("Book", sortOrderings: [SortOrdering("title")])).map {
            $0["title", as: String.self] ?? ""
        }
    }

    private func storedTitles() throws -> [String] { try titles(stack.mainContext()) }

    /// Runs a closure while another thread saves the parent, which stops before or after it writes until the closure has run.
    ///
    /// - Returns: What the save threw.
    private func whileSaving(
        failingWith failure: QuireError? = nil, hasWritten: Bool = false, _ body: () throws -> Void
    ) rethrows -> (any Error)? {
        let save = HeldSave(parent) { context, stop in
            try context.save(evenIfUnchanged: true) { changes in
                let derived = hasWritten ? try context.source.save(changes) : []
                stop()
                if let failure { throw failure }
                return hasWritten ? derived : try context.source.save(changes)
            }
        }
        save.waitUntilStopped()
        do {
            try body()
        } catch {
            _ = save.end()
            throw error
        }
        return save.end()
    }

    @Test func childrenReadAndSaveWhileTheParentWrites() throws {
        let emma = try insert("Emma")
        let persuasion = try insert("Persuasion")
        let author = try child.insertObject(entityName: "Author")
        author["name"] = "Jane Austen"
        emma["author"] = author
        try child.save()
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        let error = try whileSaving {
            #expect(try titles(sibling) == ["Emma", "Persuasion"])
            let seen = sibling.object(with: author.objectID)
            #expect(seen.objects("books").map { $0["title", as: String.self] } == ["Emma"])
            // Changed, deleted and new while the first state is being written.
            emma["title"] = "Emma, changed"
            child.delete(persuasion)
            try insert("Sanditon")["author"] = author
            try child.save()
            let other = ManagedObjectContext.mainQueue(parent: parent)
            #expect(try titles(other) == ["Emma, changed", "Sanditon"])
            #expect(try other.count(for: FetchRequest("Book")) == 2)
            #expect(other.object(with: author.objectID).objects("books").count == 2)
            #expect(throws: QuireError.self) {
                try other.existingObject(with: persuasion.objectID)
            }
        }
        #expect(error == nil)
        #expect(try storedTitles() == ["Emma", "Persuasion"])
        #expect(try titles(sibling) != [])
        #expect(parent.writeBehindBuffer.isBuffering)
        try parent.performWithoutObjectsAndWait { try $0.save() }
        #expect(try storedTitles() == ["Emma, changed", "Sanditon"])
        // The versions are known without reading anything: another change is no conflict.
        emma["title"] = "Emma again"
        try stack.save(child)
        #expect(try storedTitles() == ["Emma again", "Sanditon"])
        #expect(parent.writeBehindBuffer.isBuffering)
    }

    @Test(arguments: [false, true])
    func derivedAttributesAreReadWhileTheParentWrites(hasWritten: Bool) throws {
        let stack = try TestStack(FixtureModels.derivedLibrary)
        let parent = stack.documentParent()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let author = try child.insertObject(entityName: "Author")
        author["name"] = "Jane Austen"
        try child.insertObject(entityName: "Book")["author"] = author
        author.objects("books")[0]["title"] = "Emma"
        try stack.save(child)
        author["name"] = "Austen"
        let sanditon = try child.insertObject(entityName: "Book")
        sanditon["title"] = "Sanditon"
        sanditon["author"] = author
        try child.save()
        let save = HeldSave(parent) { context, stop in
            try context.save(evenIfUnchanged: true) { changes in
                let derived = hasWritten ? try context.source.save(changes) : []
                stop()
                return hasWritten ? derived : try context.source.save(changes)
            }
        }
        save.waitUntilStopped()
        func check() throws {
            let reader = ManagedObjectContext.mainQueue(parent: parent)
            let books = try reader.fetch(
                FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
            #expect(books.map { $0["authorName", as: String.self] } == ["Austen", "Austen"])
            #expect(books[0].object("author")?["bookCount", as: Int64.self] == 2)
            var request = FetchRequest("Book")
            request.predicate = try QueryPredicate(
                format: "authorName == 'Austen' AND author.bookCount == 2")
            #expect(try reader.count(for: request) == 2)
            #expect(try reader.fetch(request).count == 2)
        }
        try check()
        #expect(save.end() == nil)
        #expect(parent.writeBehindBuffer.isBuffering)
        try check()
        // Derived values are read from the store again, not computed.
        #expect(!child.derived!.unsaved.containsAbove(author.resolvedEntity))
    }

    @Test func whatTheStoreHasAlreadyIsCountedOnce() throws {
        let emma = try insert("Emma")
        _ = try insert("Persuasion")
        try stack.save(child)
        emma["title"] = "A"
        _ = try insert("B")
        try child.save()
        let error = try whileSaving(hasWritten: true) {
            var request = FetchRequest("Book")
            let other = ManagedObjectContext.mainQueue(parent: parent)
            #expect(try other.count(for: request) == 3)
            #expect(try titles(other) == ["A", "B", "Persuasion"])
            request.predicate = try QueryPredicate(format: "title < 'C'")
            #expect(try other.count(for: request) == 2)
        }
        #expect(error == nil)
    }

    @Test(arguments: [true, false])
    func whatIsBeingSavedIsTakenBackWhetherItIsWrittenOrNot(hasWritten: Bool) throws {
        let emma = try insert("Emma")
        let tag = try child.insertObject(entityName: "Tag")
        try stack.save(child)
        let sanditon = try insert("Sanditon")
        emma.add(tag, to: "tags")
        try child.save()
        let error = try whileSaving(hasWritten: hasWritten) {
            child.delete(sanditon)
            emma.remove(tag, from: "tags")
            try child.save()
            let other = ManagedObjectContext.mainQueue(parent: parent)
            #expect(try titles(other) == ["Emma"])
            #expect(try other.count(for: FetchRequest("Book")) == 1)
            #expect(other.object(with: emma.objectID).objects("tags").isEmpty)
            #expect(other.object(with: tag.objectID).objects("books").isEmpty)
        }
        #expect(error == nil)
        try stack.save(child)
        #expect(try storedTitles() == ["Emma"])
        let fresh = stack.mainContext()
        #expect(fresh.object(with: tag.objectID).objects("books").isEmpty)
    }

    @Test func whatCouldNotBeWrittenStaysWithWhatCameAfterIt() throws {
        let emma = try insert("Emma")
        let sanditon = try insert("Sanditon")
        try stack.save(child)
        emma["title"] = "1"
        let new = try insert("2")
        child.delete(sanditon)
        try child.save()
        let error = try whileSaving(failingWith: QuireError(.outOfSpace, "full")) {
            emma["title"] = "3"
            child.delete(new)
            _ = try insert("4")
            try child.save()
        }
        #expect(error != nil)
        #expect(try storedTitles() == ["Emma", "Sanditon"])
        #expect(try titles(.mainQueue(parent: parent)) == ["3", "4"])
        #expect(parent.performAndWait { $0.hasChanges })
        try parent.performAndWait { try $0.save() }
        #expect(try storedTitles() == ["3", "4"])
    }

    @Test func whoeverUsesTheParentsObjectsFindsTheChanges() throws {
        let emma = try insert("Emma")
        try child.save()
        #expect(parent.writeBehindBuffer.isBuffering)
        parent.performAndWait { context in
            #expect(context.insertedObjects.map(\.objectID) == [emma.objectID])
            context.object(with: emma.objectID)["title"] = "Emma, edited in the parent"
        }
        #expect(try titles(.mainQueue(parent: parent)) == ["Emma, edited in the parent"])
        try parent.performAndWait { try $0.save() }
        #expect(try storedTitles() == ["Emma, edited in the parent"])
        #expect(parent.writeBehindBuffer.isBuffering)
    }

    @Test func conflictsWithTheStoreAreThoseOfObjects() throws {
        let emma = try insert("Emma")
        try stack.save(child)
        let other = stack.mainContext()
        other.object(with: emma.objectID)["title"] = "Theirs"
        try other.save()
        emma["title"] = "Ours"
        try child.save()
        let error = #expect(throws: QuireError.self) {
            try parent.performWithoutObjectsAndWait { try $0.save() }
        }
        #expect(error?.code == .mergeConflict)
        #expect(error?.mergeConflicts.map(\.objectID) == [emma.objectID])
        try parent.performAndWait { context in
            context.mergePolicy = .mergeByPropertyObjectTrump
            try context.save()
        }
        #expect(try storedTitles() == ["Ours"])
    }

    /// What two children have changed at once is for the parent's objects to bring together.
    @Test func changesOfTheSameObjectByTwoChildrenCountPropertyByProperty() throws {
        let emma = try insert("Emma")
        try stack.save(child)
        let sibling = ManagedObjectContext.mainQueue(parent: parent)
        let theirs = sibling.object(with: emma.objectID)
        #expect(theirs["title", as: String.self] == "Emma")
        emma["title"] = "Ours"
        theirs["year"] = 1815
        try child.save()
        try sibling.save()
        let third = ManagedObjectContext.mainQueue(parent: parent)
        let seen = third.object(with: emma.objectID)
        #expect(seen["title", as: String.self] == "Ours")
        #expect(seen["year", as: Int64.self] == 1815)
        #expect(!parent.writeBehindBuffer.isBuffering)
        try parent.performWithoutObjectsAndWait { try $0.save() }
        #expect(try storedTitles() == ["Ours"])
        #expect(parent.writeBehindBuffer.isBuffering)
    }
}
