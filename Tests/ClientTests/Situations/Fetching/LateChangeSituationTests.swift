import Foundation
import Quire
import QuireDocuments
import Testing

/// Requests while other contexts, and a document's own parent, have newer values.
@MainActor @Suite struct LateChangeSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Project") {
            Attribute("name", .string)
            Attribute("rank", .integer16)
            ToMany("items", "Item", inverse: "project").deleteRule(.nullify)
        }
        Entity("Item") {
            Attribute("text", .string)
            Attribute("price", .decimal)
            ToOne("project", "Project", inverse: "items")
        }
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        for rank in 0..<6 {
            let project = try context.insertObject(entityName: "Project")
            project["name"] = "p\(rank)"
            project["rank"] = rank
            for number in 0..<rank {
                let item = try context.insertObject(entityName: "Item")
                item["text"] = "i\(rank)\(number)"
                item["price"] = Decimal(number) / 10
                item["project"] = project
            }
        }
    }

    private static func change(_ context: ManagedObjectContext) throws {
        let all: [ManagedObject] = try context.fetch(
            FetchRequest("Project", sortOrderings: [SortOrdering("rank")]))
        all[0]["rank"] = 10
        all[1]["name"] = nil
        context.delete(all[5])
        let item = try context.insertObject(entityName: "Item")
        item["text"] = "new"
        item["project"] = all[0]
        let moved: [ManagedObject] = try context.fetch(
            FetchRequest("Item", predicate: try QueryPredicate(format: "text == 'i42'")))
        moved.first?["project"] = all[1]
    }

    private static func answers(_ context: ManagedObjectContext) throws -> [[String]] {
        [
            try context.texts("name", of: "Project") { $0.sortOrderings = [SortOrdering("rank")] },
            try context.texts("name", of: "Project", where: "items.@count > 1"),
            try context.texts("text", of: "Item", where: "project == nil OR project.rank > 5"),
            try context.texts("text", of: "Item", where: "project.name == nil AND project != nil"),
            try context.texts(
                "name", of: "Project", where: "ANY items.text IN {'new', 'i42'} OR rank == 2"),
            try context.texts("name", of: "Project", where: "items.@sum.price == 0.1") {
                $0.fetchBatchSize = 1
                $0.fetchLimit = 2
            },
        ]
    }

    private static let before = [
        ["p0", "p1", "p2", "p3", "p4", "p5"], ["p2", "p3", "p4", "p5"], [], [], ["p2", "p4"],
        ["p2"],
    ]
    private static let after = [
        ["nil", "p2", "p3", "p4", "p0"], ["nil", "p2", "p3", "p4"],
        ["i50", "i51", "i52", "i53", "i54", "new"], ["i10", "i42"], ["nil", "p0", "p2"], ["p2"],
    ]

    /// In a document changes wait in the parent until they are in the store; lists must not go back meanwhile. The same in a
    /// document's background context and after reopening: magicalpanda/MagicalRecord#1326 (pending changes), and
    /// lhunath/UbiquityStoreManager#76 (fetches returned the old values).
    @Test func aDocumentAnswersTheSameInEveryStage() async throws {
        try await withProgramFolder { folder in
            let document = ManagedDocument(fileURL: folder.appendingPathComponent("Shop.quire"))
            try await document.create(model: Self.model)
            let context = document.managedObjectContext
            try Self.fill(context)
            #expect(try Self.answers(context) == Self.before)
            try context.save()
            #expect(try Self.answers(context) == Self.before)
            try await document.save()
            #expect(try Self.answers(context) == Self.before)
            try Self.change(context)
            #expect(try Self.answers(context) == Self.after)
            // To the parent only.
            try context.save()
            #expect(try Self.answers(context) == Self.after)
            context.reset()
            #expect(try Self.answers(context) == Self.after)
            try await document.save()
            #expect(try Self.answers(context) == Self.after)
            try await document.close()

            let again = ManagedDocument(fileURL: folder.appendingPathComponent("Shop.quire"))
            try await again.open()
            #expect(try Self.answers(again.managedObjectContext) == Self.after)
            try await again.close()
        }
    }

    /// Values that another context saved, in a context that has the objects, with and without unsaved changes of its own:
    /// lhunath/UbiquityStoreManager#76 and JohnEstropia/CoreStore#62 (a fetch returned the old values). Merged automatically,
    /// by `shouldRefreshRefetchedObjects`, or not at all; the context's own changes stay.
    @Test(arguments: SituationStore.allCases)
    func aRefetchShowsWhatOthersSavedIfAskedTo(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            try context.save()
            context.automaticallyMergesChangesFromParent = false
            let mine: [ManagedObject] = try context.fetch(
                FetchRequest("Project", sortOrderings: [SortOrdering("rank")]))
            mine[3]["name"] = "mine"
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let theirs: [ManagedObject] = try other.fetch(
                FetchRequest("Project", sortOrderings: [SortOrdering("rank")]))
            for project in theirs { project["rank"] = 20 - (project["rank", as: Int.self] ?? 0) }
            theirs[2]["name"] = "theirs"
            theirs[3]["name"] = "theirs too"
            try other.save()

            var request = FetchRequest("Project", sortOrderings: [SortOrdering("rank")])
            request.shouldRefreshRefetchedObjects = true
            let refreshed: [ManagedObject] = try context.fetch(request)
            #expect(
                refreshed.map { $0["name"] as? String } == [
                    "p5", "p4", "mine", "theirs", "p1", "p0",
                ])
            #expect(mine[3]["rank", as: Int.self] == 17)
            #expect(mine[2]["name"] as? String == "theirs")
            #expect(
                try context.texts(
                    "name", of: "Project", where: "name BEGINSWITH 'theirs' OR rank > 18") == [
                        "p0", "p1", "theirs",
                    ])
            #expect(try context.texts("name", of: "Project", where: "name == 'mine'") == ["mine"])
            context.mergePolicy = .mergeByPropertyObjectTrump
            try context.save()
            other.refreshAllObjects()
            #expect(
                try other.texts("name", of: "Project") { $0.sortOrderings = [SortOrdering("rank")] }
                    == ["p5", "p4", "mine", "theirs", "p1", "p0"])
        }
    }

    /// A fetch in the background, with unsaved objects before it, and one that is made while it runs; in batches, and cancelled.
    /// Apple, NSAsynchronousFetchRequest; cloudant/CDTDatastore#125 and yapstudios/YapDatabase#449 ask for cancelling.
    @Test(arguments: SituationStore.allCases, [0, 2])
    func anAsynchronousFetchSeesUnsavedChanges(_ store: SituationStore, batch: Int) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            try context.save()
            try Self.change(context)
            var request = FetchRequest("Project", sortOrderings: [SortOrdering("rank")])
            request.predicate = try QueryPredicate(format: "items.@count > 0 OR rank > 9")
            request.fetchBatchSize = batch
            let names: [String] = await withCheckedContinuation { continuation in
                context.execute(
                    AsynchronousFetchRequest(fetchRequest: request) { result in
                        #expect(result.operationError == nil)
                        continuation.resume(
                            returning: result.finalResult?.map {
                                $0["name", as: String.self] ?? "nil"
                            } ?? [])
                    })
                // While it runs.
                let late = try? context.insertObject(entityName: "Project")
                late?["name"] = "late"
                late?["rank"] = 11
            }
            #expect(names == ["nil", "p2", "p3", "p4", "p0", "late"])
            let again = try await context.fetchAsynchronously(request)
            #expect(
                again.map { $0["name", as: String.self] ?? "nil" } == [
                    "nil", "p2", "p3", "p4", "p0", "late",
                ])

            let progress = Progress(totalUnitCount: 0)
            progress.cancel()
            let error = await #expect(throws: QuireError.self) {
                _ = try await context.fetchAsynchronously(request, progress: progress)
            }
            #expect(error?.code == .cancelled)
            #expect(try context.fetch(request).count == 6)
        }
    }
}
