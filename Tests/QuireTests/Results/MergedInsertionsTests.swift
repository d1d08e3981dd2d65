import QuireTestSupport
import Testing

@testable import Quire

/// Many objects saved by another context come into a list at once: in one round, whatever the number of saves.
@MainActor @Suite struct MergedInsertionsTests {
    let stack: TestStack
    let context: ManagedObjectContext
    let writer: QueueConfinedContext
    let mirror = ListMirror()

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
        context.automaticallyMergesChangesFromParent = true
        writer = QueueConfinedContext(coordinator: stack.coordinator)
    }

    private func controller(
        section: String? = nil, in context: ManagedObjectContext? = nil,
        _ adjust: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
    ) throws -> FetchedResultsController<ManagedObject> {
        var request = FetchRequest(
            "Book", predicate: try QueryPredicate(format: "year < 10"),
            sortOrderings: [SortOrdering("year"), SortOrdering("title")])
        adjust(&request)
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: context ?? self.context,
            sectionNameKeyPath: section)
        controller.delegate = mirror
        try controller.performFetch()
        mirror.load(controller)
        return controller
    }

    /// Saves new books in the background, a tenth of which are not results.
    private func insert(_ numbers: Range<Int>) throws {
        try writer.performAndWait { writer in
            for number in numbers {
                let book = try writer.insertObject(entityName: "Book")
                book["title"] = "t\(number * 7919 % 100_003)"
                book["year"] = Int64(number % 10) + 1
            }
            try writer.save()
        }
    }

    /// Checks that the list equals a new fetch, and that the delegate was told so.
    private func check(_ controller: FetchedResultsController<ManagedObject>) throws {
        let found = try stack.mainContext().fetch(controller.fetchRequest)
        #expect(controller.fetchedObjects?.objectIDs == found.objectIDs)
        #expect(mirror.flat == found.objectIDs)
        #expect(mirror.sections.map(\.name) == controller.sections?.map(\.name))
        #expect(mirror.sections.flatMap(\.objects) == found.objectIDs)
        #expect(mirror.error == nil)
    }

    @Test(arguments: [1, 5], [nil, "year"])
    func insertionsOfSeveralSavesAreReportedOnce(saves: Int, section: String?) throws {
        try insert(0..<1_000)
        let controller = try controller(section: section)
        for save in 0..<saves {
            let count = 20_000 / saves
            try insert((1_000 + save * count)..<(1_000 + (save + 1) * count))
        }
        let statements = stack.statements { context.mergePendingSaves() }.count
        // One for each 512 objects.
        #expect(statements <= 45)
        #expect(mirror.batchCount == 1)
        #expect(mirror.log.count { $0.hasPrefix("insert –") } == 18_000)
        #expect(mirror.log.count == 18_000)
        try check(controller)
    }

    @Test(arguments: ContextArrangement.allCases)
    func changesAndDeletionsOfSeveralSavesAreReportedWithThem(
        _ arrangement: ContextArrangement
    ) throws {
        let context = stack.context(arrangement)
        context.automaticallyMergesChangesFromParent = true
        let siblings = context.parent.map { QueueConfinedContext(parent: $0) } ?? writer
        func save(_ body: (ManagedObjectContext, [ManagedObject]) throws -> Void) throws {
            try siblings.performAndWait { siblings in
                try body(
                    siblings,
                    Array(
                        siblings.fetch(FetchRequest("Book", sortOrderings: [SortOrdering("title")]))
                    )
                )
                try siblings.save()
            }
        }
        func insert(_ count: Int, into siblings: ManagedObjectContext, year: Int64) throws {
            for number in 0..<count {
                let book = try siblings.insertObject(entityName: "Book")
                book["title"] = "\(number)"
                book["year"] = year
            }
        }
        try save { siblings, _ in try insert(500, into: siblings, year: 5) }
        let controller = try controller(section: "year", in: context)
        defer { withExtendedLifetime(controller) {} }
        let held = controller.fetchedObjects.map(Array.init)
        try save { siblings, books in
            try insert(500, into: siblings, year: 3)
            for book in books[0..<100] { book["year"] = 4 }
            for book in books[100..<200] { book["year"] = 20 }
            for book in books[200..<300] { siblings.delete(book) }
        }
        // New objects that are changed and deleted again before they are merged.
        try save { siblings, books in
            for book in books where book["year", as: Int64.self] == 3 {
                let title = book["title", as: String.self] ?? ""
                if title.hasSuffix("1") { siblings.delete(book) }
                if title.hasSuffix("2") { book["year"] = 5 }
            }
            for book in books where book["year", as: Int64.self] == 4 { book["title"] = "changed" }
        }
        context.mergePendingSaves()
        #expect(mirror.batchCount == 1)
        #expect(mirror.log.contains { $0.hasPrefix("move") })
        #expect(mirror.log.count { $0.hasPrefix("insert –") } == 450)
        #expect(mirror.log.count { $0.hasPrefix("delete [") } == 200)
        let found = try context.fetch(controller.fetchRequest).objectIDs
        #expect(found.count == 750)
        #expect(mirror.flat == found)
        #expect(controller.fetchedObjects?.objectIDs == found)
        #expect(controller.sections?.map(\.numberOfObjects) == [400, 100, 250])
        withExtendedLifetime(held) {}
    }

    @Test func objectsThatComeBackAfterTheirDeletionStay() throws {
        try insert(0..<10)
        let controller = try controller()
        try writer.performAndWait { writer in
            writer.undoManager = UndoManager()
            let books = Array(try writer.fetch(FetchRequest("Book")))
            for book in books { writer.delete(book) }
            try writer.save()
            writer.undo()
            books[0]["title"] = "back"
            try writer.save()
        }
        context.mergePendingSaves()
        #expect(controller.fetchedObjects?.count == 9)
        #expect(
            controller.fetchedObjects?.contains { $0["title", as: String.self] == "back" } == true)
        try check(controller)
    }

    @Test func aLimitReportsTheWindowOnce() throws {
        try insert(0..<1_000)
        let controller = try controller { $0.fetchLimit = 100 }
        for save in 1..<5 { try insert((save * 1_000)..<((save + 1) * 1_000)) }
        context.mergePendingSaves()
        #expect(mirror.batchCount == 1)
        #expect(mirror.log.count <= 200)
        try check(controller)
    }

    @Test func insertionsIntoAListReadInBatchesAreReportedOnce() throws {
        try insert(0..<1_000)
        let controller = try controller(section: "year") {
            $0.fetchBatchSize = 50
            $0.relationshipKeyPathsForPrefetching = ["author"]
        }
        for save in 1..<5 { try insert((save * 1_000)..<((save + 1) * 1_000)) }
        context.mergePendingSaves()
        #expect(mirror.batchCount == 1)
        #expect(mirror.log.count == 3_600)
        try check(controller)
    }
}
