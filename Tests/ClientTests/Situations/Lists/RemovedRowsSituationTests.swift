import Foundation
import Quire
import QuireMacros
import Testing

/// Rows whose objects are deleted, come back, or belong to a store that goes.
@MainActor @Suite struct RemovedRowsSituationTests {
    // Two related objects are in the list; deleting one changes the other in the same batch, and the table view raised an exception.
    // Source: openradar 23257758.
    @Test(arguments: SituationStore.allCases, [false, true])
    func deletingARowThatAnotherRefersTo(_ store: SituationStore, isSaved: Bool) async throws {
        try await withSituation(store, ManagedObjectModel(classes: [ListedFolder.self])) {
            container in
            let context = container.viewContext
            let names = ["a", "b", "c"]
            let folders = names.map { name in
                let folder = ListedFolder(context: context)
                folder.name = name
                return folder
            }
            folders[1].parent = folders[0]
            if isSaved { try context.save() }
            let list = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedFolder>(sortOrderings: [
                        SortOrdering("parent.name"), SortOrdering("name"),
                    ]), managedObjectContext: context, sectionNameKeyPath: "parent.name"),
                sectionName: { $0.parent?.name ?? "" }, text: { "\($0.name)\($0.childCount)" })
            #expect(list.texts == ["a1 c0", "a: b0"])
            context.delete(folders[1])
            try list.check("the child")
            #expect(list.texts == ["a0 c0"])
            context.rollback()
            if isSaved {
                try list.check("rolled back")
                #expect(list.texts == ["a1 c0", "a: b0"])
                context.delete(folders[0])
                try list.check("the parent")
                #expect(list.texts == ["c0"])
                try context.save()
            }
            try list.check("at the end")
        }
    }

    // The object of a deletion's callback: its index path and its identifier are those that the list knows, even if it was never saved,
    // and reading it does no harm. Source: wikimedia/wikipedia-ios pull request 2613.
    @Test(arguments: SituationStore.allCases)
    func theObjectOfADeletionCanBeAskedForItsIdentifier(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.addTask("old", rank: 1)
            try context.save()
            context.reset()
            let list = try MirroredList(tasks: context.tasks(SortOrdering("rank")))
            context.addTask("new", rank: 2)
            try list.check("inserted")
            var read: [String] = []
            list.willApply = { read += list.deletedObjects.map { "\($0.isDeleted) \($0.title)" } }
            let known = try #require(list.snapshot?.itemIdentifiers)
            for task in try context.fetch(ListedTask.self) { context.delete(task) }
            context.processPendingChanges()
            #expect(list.deletedObjects.map(\.objectID) == known)
            #expect(read.count == 2)
            try list.check("deleted")
            context.undoManager = nil
            context.rollback()
            try list.check("rolled back")
            let changes = try await container.performBackgroundTask { background in
                var request = BatchDeleteRequest(entityName: "ListedTask")
                request.resultType = .objectIDs
                return try background.execute(request).changes
            }
            context.mergeChanges(from: changes)
            try list.check("deleted elsewhere")
            #expect(list.deletedObjects.map(\.objectID) == [known[0]])
        }
    }

    // The rows of two stores, one of which is removed when the user logs out, and the context reset.
    // Source: jessesquires/JSQCoreDataKit issue 123 (an SQLite and an in-memory stack, reset when a user logs out).
    @Test(arguments: [SituationStore.xml, .inMemory])
    func rowsOfARemovedStoreGoWithTheReset(_ second: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try PersistentContainer(
                name: "Two", managedObjectModel: .listedTasks)
            container.persistentStoreDescriptions = [SituationStore.sqlite, second].map { store in
                var description = PersistentStoreDescription(
                    url: folder.appendingPathComponent(store.rawValue))
                description.type = StoreType(rawValue: store.rawValue)
                return description
            }
            try await container.loadPersistentStores()
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            let stores = container.persistentStoreCoordinator.persistentStores
            @MainActor func add(_ titles: [String], _ rank: Int) throws {
                for title in titles {
                    let task = context.addTask(title, "all", rank: rank)
                    try context.assign(task, to: stores[title.hasPrefix("a") ? 0 : 1])
                }
            }
            // All are ordered alike but for their stores.
            try add(["b0", "a0", "b1", "a1"], 1)
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"))
            try list.check("unsaved")
            try context.save()
            try list.check("saved")
            #expect(list.texts == ["all: a0 a1 b0 b1"])
            try add(["b2", "a2"], 1)
            try list.check("more")
            try context.task("b0").rank = 0
            try list.check("moved")
            try context.save()
            try context.task("b0").rank = 1
            try list.check("moved back")
            try await container.performBackgroundTask { background in
                let task = background.addTask("b3", "all", rank: 1)
                try background.assign(
                    task, to: background.persistentStoreCoordinator.persistentStores[1])
                try background.task("a0").title = "A0"
                try background.save()
            }
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            try list.check("imported")
            #expect(list.texts == ["all: A0 a1 a2 b0 b1 b2 b3"])
            try context.save()
            try container.persistentStoreCoordinator.remove(stores[1])
            context.reset()
            try list.check("removed")
            #expect(list.texts == ["all: A0 a1 a2"])
            context.addTask("a3", "all", rank: 0)
            try context.save()
            try list.check("goes on")
            try container.close()
        }
    }

    // A row that another context deletes while it is edited here is inserted again by the save, under “object trumps”: it
    // comes back. Source: Simperium/simperium-ios issue 436.
    @Test(arguments: SituationStore.allCases)
    func aRowDeletedElsewhereGoesWithTheMerge(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            context.undoManager = UndoManager()
            for number in 0..<3 { context.addTask("t\(number)", rank: number) }
            try context.save()
            context.undoManager?.removeAllActions()
            let list = try MirroredList(tasks: context.tasks(SortOrdering("rank")))
            let edited = try context.task("t1")
            edited.rank = 7
            try list.check("edited")
            try await container.performBackgroundTask { background in
                background.delete(try background.task("t1"))
                try background.task("t2").isDone = true
                try background.save()
            }
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            try list.check("merged")
            #expect(list.texts == ["t0 t2!"])
            context.undoManager?.undo()
            try list.check("undone")
            #expect(list.texts == ["t0 t2!"])
            try context.save()
            try list.check("saved")
            #expect(edited.managedObjectContext == nil || edited.isDeleted)
        }
    }

    // A deletion is saved, and undone. Then the program merges the history, in which is its own deletion, or its parent's
    // save arrives: what undo has brought back must stay, with its relationships, and be saved. Source: Apple, “Consuming
    // relevant store changes” (all transactions since the last token are merged into the view context).
    @Test(arguments: SituationStore.allCases, ["history", "parent"])
    func undoneDeletionsOutlastTheMergeOfTheirSave(
        _ store: SituationStore, _ way: String
    ) async throws {
        let model = ManagedObjectModel {
            Entity("Owner") {
                Attribute("name", .string)
                ToMany("pets", "Pet", inverse: "owner")
            }
            Entity("Pet") {
                Attribute("name", .string)
                ToOne("owner", "Owner", inverse: "pets")
            }
        }
        try await withSituation(store, model) { container in
            let parent = container.viewContext
            let context = way == "parent" ? ManagedObjectContext.mainQueue(parent: parent) : parent
            if way == "parent" { context.automaticallyMergesChangesFromParent = true }
            @MainActor func saveAll() throws {
                try context.save()
                try parent.save()
            }
            let owner = try context.insertObject(entityName: "Owner")
            owner["name"] = "Ann"
            for name in ["Cat", "Dog"] {
                let pet = try context.insertObject(entityName: "Pet")
                pet["name"] = name
                pet["owner"] = owner
            }
            try saveAll()
            await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            let name: (ManagedObject) -> String = { $0["name", as: String.self] ?? "" }
            let owners = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest("Owner", sortOrderings: [SortOrdering("name")]),
                    managedObjectContext: context), text: name)
            let pets = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest(
                        "Pet", sortOrderings: [SortOrdering("owner.name"), SortOrdering("name")]),
                    managedObjectContext: context, sectionNameKeyPath: "owner.name"),
                sectionName: { $0.object("owner").map(name) ?? "" }, text: name)
            let dog = try #require(pets.controller.fetchedObjects?.last)
            @MainActor func check(_ step: String, _ ownerNames: String, _ petNames: [String]) throws
            {
                try owners.check(step)
                try pets.check(step)
                #expect(owners.texts == [ownerNames], "\(step)")
                #expect(pets.texts == petNames, "\(step)")
            }
            let undoManager = UndoManager()
            undoManager.groupsByEvent = false
            context.undoManager = undoManager
            undoManager.beginUndoGrouping()
            context.delete(owner)
            context.delete(dog)
            context.processPendingChanges()
            undoManager.endUndoGrouping()
            let deleted = [owner.objectID, dog.objectID]
            let updated = pets.controller.fetchedObjects?.first.map { [$0.objectID] } ?? []
            try saveAll()
            try check("deleted", "", ["Cat"])
            undoManager.undo()
            try check("undone", "Ann", ["Ann: Cat Dog"])
            switch way {
            case "history":
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: ObjectIDChanges(updated: updated, deleted: deleted),
                    into: [context])
            default:
                await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
            }
            try check("merged", "Ann", ["Ann: Cat Dog"])
            try saveAll()
            try check("saved", "Ann", ["Ann: Cat Dog"])
            let stored = try await container.performBackgroundTask { background in
                try background.fetch(FetchRequest("Pet", sortOrderings: [SortOrdering("name")])).map
                {
                    $0.object("owner")?["name", as: String.self]
                }
            }
            #expect(stored == ["Ann", "Ann"])
        }
    }
}
