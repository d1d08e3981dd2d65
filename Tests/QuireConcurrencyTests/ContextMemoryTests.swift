import QuireTestSupport
import Testing

@testable import Quire

/// What a context that lives long keeps about objects goes when it is not needed any more.
@MainActor @Suite struct ContextMemoryTests {
    private let stack: TestStack

    init() throws { stack = try TestStack() }

    /// Makes, saves and deletes objects in a context, and saves each time to the store.
    private func work(
        in child: ManagedObjectContext, rounds: Int = 300, afterEach: () throws -> Void = {}
    ) throws {
        for round in 0..<rounds {
            let books = try (0..<3).map { number in
                let book = try child.insertObject(entityName: "Book")
                book["title"] = "\(round) \(number)"
                return book
            }
            try stack.save(child)
            for book in books { child.delete(book) }
            try stack.save(child)
            try afterEach()
        }
    }

    private func savedVersions(
        of context: QueueConfinedContext
    ) -> (count: Int, capacity: Int) {
        context.performAndWait {
            $0.writeBehindBuffer.withState { ($0.savedVersions.count, $0.savedVersions.capacity) }
        }
    }

    private func isKnown(_ id: ManagedObjectID, in context: QueueConfinedContext) -> Bool {
        context.performAndWait { $0.savedVersion(of: id.bits) != nil }
    }

    @Test func savedVersionsThatNoChildNeedsAreForgotten() throws {
        try stack.fill(books: 100, authors: 0, tags: 0)
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let held = Array(try child.fetch(FetchRequest("Book")))
        try work(in: child, rounds: 1000)
        #expect(savedVersions(of: parent).count <= 600)
        #expect(savedVersions(of: parent).capacity <= 2048)
        withExtendedLifetime(held) {}
    }

    /// A child that only reads answers by itself, and so do children of children.
    @Test func savedVersionsAreForgottenWhateverOtherChildrenThereAre() throws {
        try stack.fill(books: 100, authors: 0, tags: 0)
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let reader = QueueConfinedContext(parent: parent)
        let readersReader = QueueConfinedContext(parent: reader)
        let count = try readersReader.performAndWait { context in
            context.retainsRegisteredObjects = true
            return try context.fetch(FetchRequest("Book")).map { $0["title"] }.count
        }
        #expect(count == 100)
        try work(in: child) {
            // Each does what is on its queue by then.
            reader.performAndWait { _ in }
            readersReader.performAndWait { _ in }
        }
        #expect(savedVersions(of: parent).count <= 600)
    }

    @Test func nothingIsKeptWithoutChildren() throws {
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        var child: ManagedObjectContext? = .mainQueue(parent: parent)
        try work(in: #require(child), rounds: 20)
        #expect(savedVersions(of: parent).count > 0)
        child = nil
        try parent.performAndWait { context in
            try context.insertObject(entityName: "Book")["title"] = "last"
            try context.save()
        }
        #expect(savedVersions(of: parent).count == 0)
    }

    /// What a child or one of its own has, as an object or as a row only, is still known to be old.
    @Test(arguments: [true, false], [true, false])
    func oldRowsOfOtherChildrenAreStillKnown(asObjects: Bool, ofChildsChild: Bool) throws {
        try stack.fill(books: 10, authors: 0, tags: 0)
        let parent = QueueConfinedContext(coordinator: stack.coordinator)
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let between = ManagedObjectContext.mainQueue(parent: parent)
        let reader =
            ofChildsChild ? ManagedObjectContext.mainQueue(parent: between) : between
        let rows = try reader.fetch(FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
        let objects = asObjects ? Array(rows) : []
        let id = rows.objectIDs[0]
        child.object(with: id)["title"] = "new"
        try stack.save(child)
        #expect(isKnown(id, in: parent))
        try work(in: child) {
            try between.save()
            try reader.save()
        }
        #expect(savedVersions(of: parent).count <= 600)
        #expect(isKnown(id, in: parent))
        // Only the year is new, and that is all that is saved.
        rows[0]["year"] = 1999
        try reader.save()
        if ofChildsChild { try between.save() }
        try parent.performAndWait { try $0.save() }
        let fresh = stack.mainContext()
        let saved = fresh.object(with: id)
        #expect(
            saved["title", as: AttributeValue.self] == "new"
                && saved["year", as: AttributeValue.self] == 1999)
        withExtendedLifetime((objects, fresh)) {}
    }

    @Test(arguments: ContextArrangement.allCases)
    func notesAboutRowsThatNobodyHoldsAreForgotten(arrangement: ContextArrangement) throws {
        try stack.fill(books: 50, authors: 0, tags: 0)
        let context = stack.context(arrangement)
        let held = try context.fetch(FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
        held[0]["title"] = "new"
        try stack.save(context)
        try work(in: context)
        #expect(context.staleRows.count <= 600)
        #expect(held[0]["title", as: AttributeValue.self] == "new")
    }

    @Test func identifiersOfUndoGoWithTheActions() throws {
        let context = stack.mainContext()
        let undoManager = UndoManager()
        context.undoManager = undoManager
        func insert() throws {
            for _ in 0..<50 { try context.insertObject(entityName: "Book")["title"] = "new" }
            try context.save()
        }
        for _ in 0..<100 { try insert() }
        #expect(context.undoIdentifiers.count == 5000)
        undoManager.levelsOfUndo = 3
        #expect(context.undoIdentifiers.count == 150)
        #expect(context.undoIdentifiers.capacity <= 2048)
        for _ in 0..<100 { try insert() }
        #expect(context.undoIdentifiers.count == 150)
        for _ in 0..<3 { undoManager.undo() }
        try context.save()
        #expect(try context.count(for: FetchRequest("Book")) == 197 * 50)
        undoManager.removeAllActions()
        #expect(context.undoIdentifiers.count == 0)
        #expect(context.undoIdentifiers.capacity <= 16)
    }

    @Test func contextsThatAreGoneLeaveTheirUndoManager() {
        let undoManager = UndoManager()
        for _ in 0..<100 { stack.mainContext().undoManager = undoManager }
        #expect(undoManager.clients.count <= 2)
    }

    @Test func derivedValuesOfManyObjectsAreNotToldApart() {
        let names = ["A", "B"]
        let store = StoreIdentity(uuid: "1", entityNames: names)
        func id(_ entity: Int, _ key: Int) -> ManagedObjectID {
            ManagedObjectID(entityNumber: entity, primaryKey: Int64(key), store: store)
        }
        let stale = StaleDerivedValues(entities: [1])
        stale.sourceDidSave(ObjectIDChanges(updated: (1...100).map { id(2, $0) }))
        #expect(stale.isEmpty && !stale.contains(id(1, 1)))
        stale.sourceDidSave(ObjectIDChanges(updated: [id(1, 1)]))
        #expect(stale.contains(id(1, 1)) && !stale.contains(id(1, 2)))
        for start in stride(from: 1, to: 3 * StaleDerivedValues.maximumCount, by: 100) {
            stale.sourceDidSave(
                ObjectIDChanges(updated: (start..<start + 100).map { id(1, $0) }))
        }
        #expect(stale.contains(id(1, 1_000_000)) && !stale.contains(id(2, 1)))
        guard case .all = stale.take() else {
            Issue.record("More than \(StaleDerivedValues.maximumCount) are kept.")
            return
        }
        #expect(stale.isEmpty && !stale.contains(id(1, 1)))
    }

    @Test func collectionsGiveMemoryBack() {
        var dictionary = Dictionary(uniqueKeysWithValues: (0..<10_000).map { ($0, $0) })
        for key in 10..<10_000 {
            dictionary[key] = nil
            dictionary.giveBackMemory()
        }
        #expect(dictionary.capacity <= 128 && dictionary.count == 10 && dictionary[7] == 7)
        var set = Set(0..<10_000)
        for member in 10..<10_000 {
            set.remove(member)
            set.giveBackMemory()
        }
        #expect(set.capacity <= 128 && set == Set(0..<10))
    }
}
