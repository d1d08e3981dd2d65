import Foundation
import Observation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ObservationTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func observable(
        _ arrangement: ContextArrangement = .direct
    ) -> ManagedObjectContext {
        let context = stack.context(arrangement)
        context.isObservable = true
        context.undoManager = UndoManager()
        return context
    }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test func aChangeIsSeenOfThePropertyReadOnly() throws {
        let context = observable()
        let emma = try book("Emma", context)
        let other = try book("Other", context)
        let watch = Watch { _ = emma["title", as: String.self] }
        emma["year"] = 1815
        other["title"] = "Changed"
        emma["title"] = "Emma"  // No change.
        #expect(watch.sawNothing)
        emma["title"] = "Changed"
        #expect(watch.sawChange)
        emma["title"] = "Changed again"
        #expect(watch.sawChange)
    }

    @Test func everyFormOfReadingIsTheSameProperty() throws {
        let context = observable()
        let everything = try TestStack(FixtureModels.everyType)
        let typed = everything.mainContext()
        typed.isObservable = true
        let emma = try book("Emma", context)
        let title = try #require(emma.resolvedEntity.slot(named: "title"))
        let author = try #require(emma.resolvedEntity.slot(named: "author"))
        let watches: [Watch] = [
            Watch { _ = emma["title"] }, Watch { _ = emma["title", as: String.self] },
            Watch { _ = emma.string(at: title) }, Watch { _ = emma.value(at: title) },
            Watch { _ = try? emma.readValue(at: title) },
            Watch { _ = try? emma.attributeValue(forKey: "title") },
        ]
        let references: [Watch] = [
            Watch { _ = emma.object("author") }, Watch { _ = emma.objectID(at: author) },
            Watch { _ = emma["author"] },
        ]
        try emma.setValue(.string("Changed"), at: title)
        #expect(watches.filter { !$0.sawChange }.isEmpty)
        #expect(references.filter { !$0.sawNothing }.isEmpty)
        emma["author"] = try context.insertObject(entityName: "Author")
        #expect(references.filter { !$0.sawChange }.isEmpty)

        let object = try typed.insertObject(entityName: "Everything")
        func slot(_ name: String) throws -> Int {
            try #require(object.resolvedEntity.slot(named: name))
        }
        let slots = try (
            slot("int32"), slot("double"), slot("boolean"), slot("date"), slot("uuid"),
            slot("note")
        )
        let typedWatches: [Watch] = [
            Watch { _ = object.integer(at: slots.0) }, Watch { _ = object.double(at: slots.1) },
            Watch { _ = object.boolean(at: slots.2) }, Watch { _ = object.date(at: slots.3) },
            Watch { _ = object.uuid(at: slots.4) }, Watch { _ = object.string(at: slots.5) },
        ]
        object["int32"] = 1
        object["double"] = 1
        object["boolean"] = true
        object["date"] = Date(timeIntervalSinceReferenceDate: 0)
        object["uuid"] = UUID()
        object["note"] = "transient"
        #expect(typedWatches.filter { !$0.sawChange }.isEmpty)
    }

    @Test func undoAndRedoAreSeen() throws {
        let context = observable()
        let emma = try book("Emma", context)
        context.processPendingChanges()
        emma["title"] = "Changed"
        context.processPendingChanges()
        let undone = Watch { _ = emma["title", as: String.self] }
        let unaffected = Watch { _ = emma["year", as: Int64.self] }
        context.undo()
        #expect(undone.sawChange)
        #expect(emma["title", as: String.self] == "Emma")
        let redone = Watch { _ = emma["title", as: String.self] }
        context.redo()
        #expect(redone.sawChange)
        #expect(unaffected.sawNothing)
    }

    @Test(arguments: ContextArrangement.allCases)
    func aRollbackIsSeenOfWhatHadChanged(arrangement: ContextArrangement) throws {
        let context = observable(arrangement)
        let emma = try book("Emma", context)
        let tag = try context.insertObject(entityName: "Tag")
        try stack.save(context)
        emma["title"] = "Changed"
        emma.add(tag, to: "tags")
        let title = Watch { _ = emma["title", as: String.self] }
        let tags = Watch { _ = emma.objects("tags") }
        let state = Watch { _ = emma.hasChanges }
        let year = Watch { _ = emma["year", as: Int64.self] }
        context.rollback()
        #expect(title.sawChange && tags.sawChange && state.sawChange)
        #expect(year.sawNothing)
    }

    @Test func inversesAreSeen() throws {
        let context = observable()
        let emma = try book("Emma", context)
        let jane = try context.insertObject(entityName: "Author")
        let other = try context.insertObject(entityName: "Author")
        let books = Watch { _ = jane.objects("books") }
        let otherBooks = Watch { _ = other.objectIDs("books") }
        let author = Watch { _ = emma.object("author") }
        jane.add(emma, to: "books")
        #expect(books.sawChange && author.sawChange)
        #expect(otherBooks.sawNothing)
        let left = Watch { _ = jane.objects("books") }
        emma["author"] = other
        #expect(left.sawChange && otherBooks.sawChange)
        let cleared = Watch { _ = emma.object("author") }
        other.remove(emma, from: "books")
        #expect(cleared.sawChange)
    }

    @Test func orderIsSeen() throws {
        let context = observable()
        let shelf = try context.insertObject(entityName: "Shelf")
        let books = try ["a", "b", "c"].map { try book($0, context) }
        shelf["books"] = books
        let order = Watch { _ = shelf.objects("books") }
        shelf.insert(books[2], into: "books", at: 0)
        #expect(order.sawChange)
    }

    @Test func deletionIsSeen() throws {
        let context = observable()
        let jane = try context.insertObject(entityName: "Author")
        jane["name"] = "Jane"
        let emma = try book("Emma", context)
        jane.add(emma, to: "books")
        try context.save()
        let state = Watch { _ = emma.isDeleted }
        let title = Watch { _ = emma["title", as: String.self] }
        let books = Watch { _ = jane.objects("books") }
        let name = Watch { _ = jane["name", as: String.self] }
        context.delete(emma)
        #expect(state.sawChange && title.sawChange && books.sawChange)
        #expect(name.sawNothing)
        let revived = Watch { _ = emma.isDeleted }
        context.undo()
        #expect(revived.sawChange)
    }

    @Test func theStateIsSeen() throws {
        let context = observable()
        let emma = try book("Emma", context)
        let inserted = Watch { _ = emma.isInserted }
        try context.save()
        #expect(inserted.sawChange)
        let updated = Watch { _ = emma.hasChanges }
        emma["year"] = 1815
        #expect(updated.sawChange)
        context.processPendingChanges()
        let clean = Watch { _ = emma.isUpdated }
        context.undo()
        #expect(!emma.hasChanges)
        #expect(clean.sawChange)
    }

    @Test func theContextsChangesAreSeenWhenAnEventEnds() throws {
        let context = observable()
        let changed = Watch { _ = context.hasChanges }
        let inserted = Watch { _ = context.insertedObjects }
        _ = try book("Emma", context)
        context.processPendingChanges()
        #expect(changed.sawChange && inserted.sawChange)
        let saved = Watch { _ = context.hasChanges }
        try context.save()
        #expect(saved.sawChange)
    }

    /// What finds the objects of a request.
    enum Finding: CaseIterable {
        case fetch, batches, count, dictionaries, identifiers
    }

    /// Which objects a fetch finds cannot be followed, so it follows nothing of what it looks at either.
    @Test(arguments: ContextArrangement.allCases, Finding.allCases)
    func aFetchFollowsNoObject(arrangement: ContextArrangement, finding: Finding) throws {
        let context = observable(arrangement)
        let saved = try book("Saved", context)
        try context.save()
        let new = try book("New", context)
        saved["year"] = 1815
        let gone = try book("Gone", context)
        try context.save()
        context.delete(gone)
        new["year"] = 1816
        let later = try book("Later", context)
        later["year"] = 1817
        let predicate = try QueryPredicate(format: "year > 1000 AND title != 'x'")
        var request = FetchRequest("Book", predicate: predicate)
        request.sortOrderings = [SortOrdering("title")]
        if finding == .batches { request.fetchBatchSize = 2 }
        if finding == .dictionaries { request.propertiesToFetch = ["title"] }
        let question = request
        let watch = Watch {
            switch finding {
            case .fetch, .batches: _ = try? context.fetch(question)
            case .count: _ = try? context.count(for: question)
            case .dictionaries: _ = try? context.fetchDictionaries(question)
            case .identifiers: _ = try? context.fetchObjectIDs(question)
            }
        }
        new["year"] = 1900
        later["title"] = "Latest"
        saved["title"] = "Changed"
        try context.save()
        new["title"] = "Newest"
        #expect(watch.sawNothing)
    }

    /// What a context does, and reads objects and asks for changes on the way.
    enum Doing: CaseIterable {
        case save, saveInConflict, delete, undo, redo, rollback, refresh, refreshAll, merge, set,
            relate, endEvent
        case identifiers, existing, faults, draft, results
    }

    /// An observer depends on what it reads, not on what the context reads for itself.
    @Test(arguments: ContextArrangement.allCases, Doing.allCases)
    func whatAContextDoesFollowsNothing(arrangement: ContextArrangement, doing: Doing) throws {
        let context = observable(arrangement)
        context.mergePolicy = .mergeByPropertyObjectTrump
        let (emma, other) = (try book("Emma", context), try book("Other", context))
        let jane = try context.insertObject(entityName: "Author")
        let tag = try context.insertObject(entityName: "Tag")
        jane["name"] = "Jane"
        tag["name"] = "novel"
        jane.add(emma, to: "books")
        other["author"] = jane
        emma.add(tag, to: "tags")
        try stack.save(context)
        if doing == .saveInConflict {
            let rival = stack.mainContext()
            rival.object(with: emma.objectID)["title"] = "Rival"
            try rival.save()
        }
        if doing == .faults { context.refreshAllObjects() } else { emma["year"] = 1815 }
        let new = try book("New", context)
        new["author"] = jane
        if doing == .redo {
            context.processPendingChanges()
            context.undo()
        }
        var request = FetchRequest("Book")
        request.predicate = try QueryPredicate(format: "author.name != 'x'")
        request.sortOrderings = [SortOrdering("author.name"), SortOrdering("title")]
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context,
            sectionNameKeyPath: "author.name")

        var failure: (any Error)?
        let watch = Watch {
            do {
                switch doing {
                case .save, .saveInConflict: try context.save()
                case .delete: context.delete(other)
                case .undo: context.undo()
                case .redo: context.redo()
                case .rollback: context.rollback()
                case .refresh:
                    context.refresh(emma, mergeChanges: true)
                    context.refresh(jane, mergeChanges: false)
                case .refreshAll: context.refreshAllObjects()
                case .merge:
                    context.mergeChanges(
                        from: ObjectIDChanges(updated: [emma.objectID, jane.objectID]))
                case .set: emma["title"] = "Set"
                case .relate:
                    jane.remove(emma, from: "books")
                    emma["tags"] = [ManagedObject]()
                    emma["author"] = jane
                    jane["books"] = [emma, other]
                case .endEvent: context.processPendingChanges()
                case .identifiers: try context.obtainPermanentIDs(for: [new])
                case .existing: _ = try context.existingObject(with: other.objectID)
                case .faults: try context.realizeFaults(of: [emma, other, jane, tag])
                case .draft: _ = context.makeDraft()
                case .results: try controller.performFetch()
                }
            } catch { failure = error }
        }
        #expect(failure == nil)
        emma["title"] = "Changed"
        emma["year"] = 1816
        if doing != .delete { other["isbn"] = "1" }
        jane["name"] = "Austen"
        emma["tags"] = [ManagedObject]()
        jane["books"] = [ManagedObject]()
        context.delete(jane)
        context.processPendingChanges()
        try context.save()
        #expect(watch.sawNothing)
    }

    @Test func aChildsSaveIsSeenInItsParent() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let emma = try book("Emma", child)
        let author = try child.insertObject(entityName: "Author")
        author["name"] = "Jane"
        try child.save()
        let id = emma.objectID
        let authorID = author.objectID
        // The parent's objects are held, so that what follows them stays.
        let watches = parent.performAndWait { context in
            context.isObservable = true
            let emma = context.object(with: id)
            let author = context.object(with: authorID)
            return [
                Watch { _ = emma["title", as: String.self] }, Watch { _ = emma.object("author") },
                Watch { _ = author.objects("books") }, Watch { _ = emma["year", as: Int64.self] },
            ]
        }
        emma["title"] = "Changed"
        emma["author"] = author
        try child.save()
        #expect(watches[0].sawChange && watches[1].sawChange && watches[2].sawChange)
        #expect(watches[3].sawNothing)
        let deleted = parent.performAndWait { context in
            let emma = context.object(with: id)
            return Watch { _ = emma.isDeleted }
        }
        child.delete(emma)
        try child.save()
        #expect(deleted.sawChange)
    }

    @Test(arguments: [false, true])
    func aMergeIsSeenOfWhatDiffers(hasChanges: Bool) throws {
        let context = observable()
        let emma = try book("Emma", context)
        let jane = try context.insertObject(entityName: "Author")
        jane["name"] = "Jane"
        let tag = try context.insertObject(entityName: "Tag")
        emma.add(tag, to: "tags")
        try context.save()
        if hasChanges { emma["isbn"] = "1" }
        let seen: [Watch] = [
            Watch { _ = emma["title", as: String.self] }, Watch { _ = emma.object("author") },
            Watch { _ = jane.objects("books") },
        ]
        let unseen: [Watch] = [
            Watch { _ = emma["year", as: Int64.self] }, Watch { _ = emma["isbn", as: String.self] },
            Watch { _ = emma.objects("tags") }, Watch { _ = jane["name", as: String.self] },
        ]
        let other = stack.mainContext()
        let theirs = other.object(with: emma.objectID)
        theirs["title"] = "Changed"
        theirs["author"] = other.object(with: jane.objectID)
        try other.save()
        context.mergeChanges(
            from: ObjectIDChanges(updated: [emma.objectID, jane.objectID]))
        #expect(emma["title", as: String.self] == "Changed")
        #expect(seen.filter { !$0.sawChange }.isEmpty)
        #expect(unseen.filter { !$0.sawNothing }.isEmpty)
        other.delete(theirs)
        try other.save()
        let deleted = Watch { _ = emma["title", as: String.self] }
        context.mergeChanges(from: ObjectIDChanges(deleted: [emma.objectID]))
        #expect(deleted.sawChange)
    }

    @Test func aRefreshIsSeen() throws {
        let context = observable()
        let emma = try book("Emma", context)
        try context.save()
        let other = stack.mainContext()
        other.object(with: emma.objectID)["title"] = "Changed"
        try other.save()
        let title = Watch { _ = emma["title", as: String.self] }
        let year = Watch { _ = emma["year", as: Int64.self] }
        context.refresh(emma, mergeChanges: true)
        #expect(title.sawChange && year.sawNothing)
        let again = Watch { _ = emma["title", as: String.self] }
        context.refresh(emma, mergeChanges: false)
        #expect(emma.isFault)
        #expect(again.sawChange)
    }

    @Test func aResetIsSeen() throws {
        let context = observable()
        let emma = try book("Emma", context)
        let watch = Watch { _ = emma["title", as: String.self] }
        context.reset()
        #expect(watch.sawChange)
    }

    @Test func nothingIsSeenWhereObservationIsOff() throws {
        let context = stack.mainContext()
        #expect(!context.isObservable)
        let emma = try book("Emma", context)
        let before = Watch { _ = emma["title", as: String.self] }
        emma["title"] = "1"
        #expect(before.sawNothing)
        context.isObservable = true
        let during = Watch { _ = emma["title", as: String.self] }
        let pending = Watch { _ = emma["title", as: String.self] }
        emma["title"] = "2"
        #expect(during.sawChange && pending.sawChange)
        let last = Watch { _ = emma["title", as: String.self] }
        context.isObservable = false
        emma["title"] = "3"
        // It was recorded before.
        #expect(last.sawChange)
        let after = Watch { _ = emma["title", as: String.self] }
        emma["title"] = "4"
        #expect(after.sawNothing)
    }

    @Test func aViewContextIsObservable() throws {
        let container = PersistentContainer(store: stack.coordinator.store)
        let emma = try book("Emma", container.viewContext)
        let watch = Watch { _ = emma["title", as: String.self] }
        emma["title"] = "Changed"
        #expect(watch.sawChange)
    }

    @Test func objectsAndWhatFollowsThemGo() throws {
        final class Token: Sendable {}
        let context = observable()
        context.undoManager = nil
        weak var weakBook: ManagedObject?
        weak var weakToken: Token?
        do {
            let emma = try book("Emma", context)
            try context.save()
            weakBook = emma
            let token = Token()
            weakToken = token
            withObservationTracking {
                _ = emma["title", as: String.self]
            } onChange: {
                withExtendedLifetime(token) {}
            }
        }
        #expect(weakBook == nil)
        // Something is read outside of tracking, or an event ends.
        _ = try book("Other", context)
        context.processPendingChanges()
        #expect(weakToken == nil)
    }

    @Test func contextsGoAlthoughFollowed() throws {
        weak var weakContext: ManagedObjectContext?
        let emma: ManagedObject
        let watch: Watch
        do {
            let context = observable()
            weakContext = context
            let inner = try book("Emma", context)
            try context.save()
            emma = inner
            watch = Watch {
                _ = inner["title", as: String.self]
                _ = inner.managedObjectContext?.hasChanges
            }
        }
        #expect(weakContext == nil)
        #expect(emma.managedObjectContext == nil)
        withExtendedLifetime(watch) {}
    }

    @Test func nestedTrackingIsSeenByBoth() throws {
        let context = observable()
        let emma = try book("Emma", context)
        var inner: Watch?
        let outer = Watch {
            _ = emma["year", as: Int64.self]
            inner = Watch { _ = emma["title", as: String.self] }
        }
        emma["title"] = "Changed"
        #expect(inner?.sawChange == true)
        #expect(outer.sawChange)
    }

    @Test func observationsGiveEachNewValue() async throws {
        let context = observable()
        let emma = try book("Emma", context)
        nonisolated(unsafe) let observed = emma
        let titles = Observations { observed["title", as: String.self] ?? "" }
        var iterator = titles.makeAsyncIterator()
        #expect(await iterator.next() == "Emma")
        emma["title"] = "Second"
        #expect(await iterator.next() == "Second")
        context.processPendingChanges()
        emma["title"] = "Third"
        context.undo()
        emma["year"] = 1815
        emma["title"] = "Fourth"
        #expect(await iterator.next() == "Fourth")
    }
}
