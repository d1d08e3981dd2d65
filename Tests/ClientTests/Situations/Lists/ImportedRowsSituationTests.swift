import Foundation
import Quire
import QuireMacros
import Testing

/// Lists while others change what they show: background imports, batch requests, other contexts.
@MainActor @Suite struct ImportedRowsSituationTests {
    /// A list of the open tasks of a container with six, by category; the even ones are done.
    private func openTasks(
        _ container: PersistentContainer, _ held: HeldRows,
        _ program: @MainActor (MirroredList<ListedTask>, ManagedObjectContext) async throws -> Void
    ) async throws {
        let context = container.viewContext
        let project = context.addProject("Home")
        for number in 0..<6 {
            let task = context.addTask("t\(number)", number < 3 ? "a" : "b", rank: number)
            task.isDone = number.isMultiple(of: 2)
            task.project = project
        }
        try context.save()
        let objects = held == .all ? Array(try context.fetch(ListedTask.self)) : []
        if held == .none { context.reset() }
        let list = try MirroredList(
            context.tasks(
                SortOrdering("category"), SortOrdering("rank"), where: "isDone == NO",
                sections: "category"),
            sectionName: { $0.category ?? "" }, text: { "\($0.title)\($0.rank)" })
        #expect(list.texts == ["a: t11", "b: t33 t55"])
        try await program(list, context)
        withExtendedLifetime(objects) {}
    }

    /// Lets the main queue do what was enqueued.
    private func mainQueueTurn() async {
        await withCheckedContinuation { continuation in
            DispatchQueue.main.async { continuation.resume() }
        }
    }

    // Objects that a background context changes so that they now match the predicate, and that the main context has never
    // loaded, did not come into the list. Source: BPXL Craft, “NSFetchedResultsController Woes” (Medium).
    @Test(arguments: SituationStore.allCases, HeldRows.allCases)
    func importedChangesLetRowsInAndOut(_ store: SituationStore, _ held: HeldRows) async throws {
        try await withSituation(store, .listedTasks) { container in
            container.viewContext.automaticallyMergesChangesFromParent = true
            try await openTasks(container, held) { list, context in
                try await container.performBackgroundTask { background in
                    try background.task("t0").isDone = false
                    try background.task("t1").isDone = true
                    try background.task("t3").rank = 9
                    background.delete(try background.task("t5"))
                    background.addTask("t6", "c", rank: 6)
                    try background.save()
                }
                await mainQueueTurn()
                try list.check()
                #expect(list.texts == ["a: t00", "b: t39", "c: t66"])
                #expect(list.batchCount == 1)
            }
        }
    }

    // The main context has unsaved changes of the same objects. Both kinds must be shown. Source:
    // magicalpanda/MagicalRecord issue 210.
    @Test(arguments: SituationStore.allCases)
    func importedChangesAreShownBesideUnsavedOnes(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            container.viewContext.automaticallyMergesChangesFromParent = true
            try await openTasks(container, .none) { list, context in
                try context.task("t0").isDone = false
                try context.task("t3").title = "mine"
                context.addTask("new", "b", rank: 4)
                context.delete(try context.task("t5"))
                try list.check("edited")
                try await container.performBackgroundTask { background in
                    try background.task("t0").rank = 7
                    try background.task("t3").rank = 8
                    try background.task("t3").title = "theirs"
                    try background.task("t1").isDone = true
                    try background.task("t2").isDone = false
                    try background.save()
                }
                await mainQueueTurn()
                try list.check("merged")
                #expect(list.texts == ["a: t22 t07", "b: new4 mine8"])
                try context.save()
                try list.check("saved")
                #expect(list.texts == ["a: t22 t07", "b: new4 mine8"])
            }
        }
    }

    // A batch update, a batch insert and a batch delete are merged with `mergeChanges(fromRemoteContextSave:into:)`; rows
    // that only change their text must be drawn again. Source: Big Nerd Ranch, “New in Core Data and iOS 8: Batch
    // Updating”.
    @Test(arguments: SituationStore.allCases, HeldRows.allCases)
    func mergedBatchRequestsAreShown(_ store: SituationStore, _ held: HeldRows) async throws {
        try await withSituation(store, .listedTasks) { container in
            try await openTasks(container, held) { list, context in
                var update = BatchUpdateRequest(
                    entityName: "ListedTask", predicate: try QueryPredicate(format: "rank < 4"))
                update.propertiesToUpdate = ["title": "u", "isDone": false]
                update.resultType = .objectIDs
                context.mergeChanges(from: try context.execute(update).changes)
                try list.check("batch update")
                #expect(list.texts == ["a: u0 u1 u2", "b: u3 t55"])
                var number = 6
                var insert = try BatchInsertRequest(ListedTask.self) { row in
                    if number == 9 { return true }
                    try row.set(\.title, to: "i")
                    try row.set(\.category, to: number == 8 ? "c" : "a")
                    try row.set(\.rank, to: number)
                    try row.set(\.isDone, to: number == 6)
                    number += 1
                    return false
                }
                insert.resultType = .objectIDs
                context.mergeChanges(from: try context.execute(insert).changes)
                try list.check("batch insert")
                #expect(list.texts == ["a: u0 u1 u2 i7", "b: u3 t55", "c: i8"])
                var delete = BatchDeleteRequest(
                    entityName: "ListedTask", predicate: try QueryPredicate(format: "rank > 2"))
                delete.resultType = .objectIDs
                context.mergeChanges(from: try context.execute(delete).changes)
                try list.check("batch delete")
                #expect(list.texts == ["a: u0 u1 u2"])
                // All of a project, by the cascade of a batch delete.
                var cascade = BatchDeleteRequest(entityName: "ListedProject")
                cascade.resultType = .objectIDs
                context.mergeChanges(from: try context.execute(cascade).changes)
                try list.check("cascade")
                #expect(list.texts == [])
            }
        }
    }

    // A delegate that fetches while the rest of a merge is still to be processed: an insertion is reported, then the cells'
    // fetch makes the context process deletions and updates in between. Source: peymano/CoreDataFetchedResultsController (a
    // sample with the crash).
    @Test(arguments: HeldRows.allCases)
    func fetchingInTheDelegateDoesNotDisturbAMerge(_ held: HeldRows) async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            try await openTasks(container, held) { list, context in
                var counts: [Int] = []
                list.willApply = {
                    for number in 0..<7 {
                        let title = "t\(number)"
                        _ = try context.fetch(
                            ListedTask.self, where: #Predicate { $0.title == title })
                    }
                    counts.append(try context.count(for: ListedTask.self))
                }
                let changes = try await container.performBackgroundTask { background in
                    background.addTask("t6", "a", rank: -1)
                    background.delete(try background.task("t1"))
                    for number in [0, 2, 3, 4, 5] {
                        let task = try background.task("t\(number)")
                        task.rank = 20 - number
                        task.isDone = false
                    }
                    var changes = ObjectIDChanges()
                    background.processPendingChanges()
                    changes.updated = background.updatedObjects.map(\.objectID)
                    changes.deleted = background.deletedObjects.map(\.objectID)
                    let inserted = background.insertedObjects
                    try background.save()
                    changes.inserted = inserted.map(\.objectID)
                    return changes
                }
                ManagedObjectContext.mergeChanges(fromRemoteContextSave: changes, into: [context])
                try list.check()
                #expect(list.texts == ["a: t6-1 t218 t020", "b: t515 t416 t317"])
                #expect(counts == [6])
            }
        }
    }

    // Deleting every record without a condition was not noticed. Source: groue/GRDB.swift issue 156.
    @Test(arguments: SituationStore.allCases)
    func deletingEverythingEmptiesTheList(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            container.viewContext.automaticallyMergesChangesFromParent = true
            try await openTasks(container, .none) { list, context in
                let draft = context.addTask("draft", "b", rank: 1)
                try list.check("with a draft")
                let changes = try await container.performBackgroundTask { background in
                    var request = BatchDeleteRequest(entityName: "ListedTask")
                    request.resultType = .objectIDs
                    return try background.execute(request).changes
                }
                ManagedObjectContext.mergeChanges(fromRemoteContextSave: changes, into: [context])
                try list.check("deleted")
                #expect(list.texts == ["b: draft1"])
                try context.save()
                try list.check("saved")
                #expect(list.snapshot?.itemIdentifiers == [draft.objectID])
                for task in try context.fetch(ListedTask.self) { context.delete(task) }
                try list.check("and the draft")
                #expect(list.snapshot?.numberOfSections == 0)
            }
        }
    }

    // Root context, main context with the list, and a scratch context: saving all three reported the changes twice. Source:
    // magicalpanda/MagicalRecord issue 726.
    @Test(arguments: SituationStore.allCases)
    func savingThroughThreeContextsIsReportedOnce(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let root = QueueConfinedContext(
                coordinator: container.persistentStoreCoordinator)
            let main = ManagedObjectContext.mainQueue(parent: root)
            main.automaticallyMergesChangesFromParent = true
            main.addTask("old", "a")
            try main.save()
            try await root.perform { try $0.save() }
            await mainQueueTurn()
            let list = try MirroredList(
                tasks: main.tasks(
                    SortOrdering("category"), SortOrdering("title"), sections: "category"))
            let scratch = ManagedObjectContext.mainQueue(parent: main)
            let task = scratch.addTask("new", "b")
            try scratch.task("old").isDone = true
            try scratch.save()
            try list.check("scratch saved")
            #expect(
                list.takeLog().sorted()
                    == ["insert - 1.0", "insert section 1 b", "update 0.0 0.0"])
            try main.save()
            #expect(list.takeLog() == [])
            try await root.perform { try $0.save() }
            await mainQueueTurn()
            try list.check("all saved")
            // The merge of the root's save may have a row drawn again, and changes nothing.
            #expect(list.takeLog().allSatisfy { $0 == "update 0.0 0.0" })
            #expect(list.texts == ["a: old!", "b: new"])
            // What is in the scratch context is the same object, whatever identifier it had.
            task.title = "newer"
            try scratch.save()
            try list.check("scratch saved again")
            #expect(list.takeLog() == ["update 1.0 1.0"])
        }
    }

    // A child context with a list of its own is not told what its parent changes. It is if it merges automatically.
    // Sources: magicalpanda/MagicalRecord issue 863; drewmccormack/ensembles issue 74.
    @Test(arguments: SituationStore.allCases)
    func aListInAChildFollowsSavesOfItsParent(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            try await openTasks(container, .none) { _, context in
                let child = ManagedObjectContext.mainQueue(parent: context)
                child.automaticallyMergesChangesFromParent = true
                let list = try MirroredList(
                    tasks: child.tasks(
                        SortOrdering("category"), SortOrdering("rank"), sections: "category"))
                try child.task("t1").rank = 40
                try context.task("t1").isDone = true
                try context.task("t2").category = "b"
                context.delete(try context.task("t3"))
                context.addTask("t6", "c")
                try context.save()
                await mainQueueTurn()
                try list.check("merged")
                #expect(list.texts == ["a: t0! t1!", "b: t2! t4! t5", "c: t6"])
                try child.save()
                try list.check("saved")
                #expect(try context.task("t1").rank == 40)
                #expect(try context.task("t1").isDone)
            }
        }
    }

    // An import takes stories that exist already, by a unique value, while the user's unsaved favourites are shown. Source:
    // Stack Overflow: “How to avoid changing property values in an NSBatchInsertRequest?”
    @Test(arguments: SituationStore.allCases)
    func importedStoriesKeepTheUsersFavourites(_ store: SituationStore) async throws {
        let model = try ManagedObjectModel(classes: [ListedStory.self])
        try await withSituation(store, model) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            context.mergePolicy = .mergeByPropertyObjectTrump
            for number in 0..<3 {
                let story = ListedStory(context: context)
                (story.address, story.title) = ("s\(number)", "old\(number)")
            }
            try context.save()
            let list = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedStory>(sortOrderings: [
                        SortOrdering("isFavorite", ascending: false), SortOrdering("title"),
                    ]), managedObjectContext: context, sectionNameKeyPath: "isFavorite"),
                sectionName: { String($0.isFavorite) },
                text: { $0.title + ($0.isFavorite ? "*" : "") })
            #expect(list.texts == ["false: old0 old1 old2"])
            try #require(list.controller.fetchedObjects?.last).isFavorite = true
            try list.check("a favourite")
            #expect(list.texts == ["true: old2*", "false: old0 old1"])
            // One that the user has added and not saved yet is imported too.
            let own = ListedStory(context: context)
            (own.address, own.title, own.isFavorite) = ("s4", "own", true)
            try list.check("an own story")
            let changes = try await container.performBackgroundTask { background in
                background.mergePolicy = .mergeByPropertyObjectTrump
                var number = 1
                var request = try BatchInsertRequest(ListedStory.self) { row in
                    if number == 6 { return true }
                    try row.set(\.address, to: "s\(number)")
                    try row.set(\.title, to: "new\(number)")
                    number += 1
                    return false
                }
                request.resultType = .objectIDs
                return try background.execute(request).changes
            }
            ManagedObjectContext.mergeChanges(fromRemoteContextSave: changes, into: [context])
            try list.check("imported")
            #expect(list.texts == ["true: new2* own*", "false: new1 new3 new4 new5 old0"])
            list.forget()

            try context.save()

            try list.check("saved")
            #expect(list.texts == ["true: new2* own*", "false: new1 new3 new5 old0"])
        }
    }
}
