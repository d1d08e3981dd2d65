import Foundation
import Quire
import QuireMacros
import Testing

/// Lists of what the program itself edits: undo, rollback, reset, refresh, saves and what happens within them.
@MainActor @Suite struct EditedRowsSituationTests {
    /// A list of the tasks of a container, by category and rank; b1 and b2 are of a project.
    private func tasks(
        _ store: SituationStore,
        _ program: @MainActor (MirroredList<ListedTask>, ManagedObjectContext) async throws -> Void
    ) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            let project = context.addProject("Home")
            context.addTask("a1", "a", rank: 1)
            context.addTask("a2", "a", rank: 2)
            context.addTask("b1", "b", rank: 1, to: project)
            context.addTask("b2", "b", rank: 2, to: project)
            try context.save()
            context.reset()
            let list = try MirroredList(
                context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"),
                sectionName: { $0.category ?? "" },
                text: { $0.title + ($0.isDone ? "!" : "") })
            try await program(list, context)
        }
    }

    // Undo of a deletion, of a move and of several edits; each must be one animation, and redo the same. Sources:
    // cimgf.com, “Core Data and the Undo Manager”; JohnEstropia/CoreStore issue 21.
    @Test(arguments: SituationStore.allCases)
    func undoAndRedoAreShownStepByStep(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            let undoManager = UndoManager()
            undoManager.groupsByEvent = false
            context.undoManager = undoManager
            @MainActor func step(_ edit: () throws -> Void) throws {
                undoManager.beginUndoGrouping()
                try edit()
                context.processPendingChanges()
                undoManager.endUndoGrouping()
            }
            let before = list.texts
            try step { context.delete(try context.project("Home")) }
            try list.check("cascade")
            try step {
                try context.task("a1").category = "c"
                try context.task("a2").isDone = true
                context.addTask("new", "b", rank: 9)
            }
            try list.check("edited")
            let after = list.texts
            #expect(after == ["a: a2!", "b: new", "c: a1"])
            for round in 0..<3 {
                list.forget()
                undoManager.undo()
                try list.check("undo \(round)")
                #expect(list.batchCount == 1)
                undoManager.undo()
                try list.check("undo \(round)")
                #expect(list.texts == before)
                #expect(try context.task("b1").project?.name == "Home")
                if round == 1 { try context.save() }
                undoManager.redo()
                undoManager.redo()
                try list.check("redo \(round)")
                #expect(list.texts == after)
                if round == 0 { try context.save() }
                try list.check("saved \(round)")
            }
        }
    }

    // Cancel: a rollback takes back an insertion, a deletion, a move and a text that is not sorted by. Source:
    // blindingskies/BSFetchedResultsController issue 6.
    @Test(arguments: SituationStore.allCases)
    func aRollbackIsShownWithEveryText(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            let before = list.texts
            context.addTask("new", "b", rank: 0)
            try context.task("a1").title = "A"
            try context.task("a2").category = "b"
            context.delete(try context.task("b2"))
            try list.check("edited")
            #expect(list.texts == ["a: A", "b: new b1 a2"])
            context.rollback()
            try list.check("rolled back")
            #expect(list.texts == before)
            // Without an event in between.
            let task = try context.task("a1")
            context.addTask("new", "b", rank: 0)
            (task.title, task.rank) = ("A", 7)
            context.rollback()
            try list.check("rolled back at once")
            #expect(list.texts == before)
        }
    }

    // The context is reset, on low memory or to drop everything: rows whose text only was changed must be drawn again.
    // Source: woocommerce/woocommerce-ios pull request 2821.
    @Test(arguments: SituationStore.allCases)
    func aResetIsShownWithEveryText(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            let before = list.texts
            let held = Array(try context.fetch(ListedTask.self))
            for task in held { task.title += "?" }
            context.addTask("new", "c")
            try context.task("b1?").category = "a"
            try list.check("edited")
            context.reset()
            try list.check("reset")
            #expect(list.texts == before)
            // It goes on from there.
            try context.task("a1").title = "A1"
            try context.save()
            try list.check("edited again")
            #expect(list.texts == ["a: A1 a2", "b: b1 b2"])
        }
    }

    // `refresh(_:mergeChanges: false)` discards what was typed; the cell kept the discarded text. With `true` it stays.
    // Source: wireapp/wire-ios-data-model pull request 129.
    @Test(arguments: SituationStore.allCases, [false, true])
    func refreshingAnEditedRowIsShown(_ store: SituationStore, mergesChanges: Bool) async throws {
        try await tasks(store) { list, context in
            let task = try context.task("a1")
            (task.title, task.category) = ("edited", "c")
            try list.check("edited")
            #expect(list.texts == ["a: a2", "b: b1 b2", "c: edited"])
            context.refresh(task, mergeChanges: mergesChanges)
            try list.check("refreshed")
            #expect(
                list.texts
                    == (mergesChanges
                        ? ["a: a2", "b: b1 b2", "c: edited"] : ["a: a1 a2", "b: b1 b2"]))
            try context.save()
            try list.check("saved")
        }
    }

    // Another process, or a coordinator of its own, writes the file; the program refreshes everything when it is told so.
    // Rows that the program does not hold must change too. Source: JohnEstropia/CoreStore issue 309.
    @Test(arguments: HeldRows.allCases)
    func refreshingEverythingShowsWhatAnotherProcessWrote(_ held: HeldRows) async throws {
        try await withProgramFolder { folder in
            let container = try await SituationStore.sqlite.container(.listedTasks, in: folder)
            let context = container.viewContext
            for number in 0..<4 { context.addTask("t\(number)", "a", rank: number) }
            try context.save()
            let objects = held == .all ? Array(try context.fetch(ListedTask.self)) : []
            if held == .none { context.reset() }
            let list = try MirroredList(
                tasks: context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"))
            try context.task("t3").title = "mine"
            try list.check("edited")
            let other = try await SituationStore.sqlite.container(.listedTasks, in: folder)
            try other.viewContext.task("t0").isDone = true
            try other.viewContext.task("t1").category = "b"
            other.viewContext.delete(try other.viewContext.task("t2"))
            other.viewContext.addTask("t4", "a", rank: 4)
            try other.viewContext.save()
            try other.close()
            context.refreshAllObjects()
            try list.check("refreshed")
            #expect(list.texts == ["a: t0! mine t4", "b: t1"])
            withExtendedLifetime(objects) {}
            try container.close()
        }
    }

    // `willSave()` sets the date of the last change, by which the list is sorted: the row must move with the save. Source:
    // Apple, NSManagedObject.willSave() (a last-modified timestamp).
    @Test(arguments: SituationStore.allCases)
    func aDateSetByWillSaveMovesTheRow(_ store: SituationStore) async throws {
        let model = try ManagedObjectModel(classes: [ListedPage.self])
        try await withSituation(store, model) { container in
            let context = container.viewContext
            var pages: [ListedPage] = []
            for number in 0..<3 {
                let page = ListedPage(context: context)
                page.title = "p\(number)"
                pages.append(page)
                try context.save()
            }
            let list = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedPage>(sortOrderings: [
                        SortOrdering("modified", ascending: false)
                    ]), managedObjectContext: context),
                text: { "\($0.title)@\($0.modified)" })
            #expect(list.texts == ["p2@3 p1@2 p0@1"])
            pages[0].title = "P0"
            try context.save()
            #expect(list.texts == ["P0@4 p2@3 p1@2"])
            try list.check("an old page")
            let new = ListedPage(context: context)
            new.title = "p3"
            pages[1].title = "P1"
            try list.check("before the save")
            try context.save()
            try list.check("after the save")
            #expect(list.texts.first?.hasSuffix(" P0@4 p2@3") == true)
            #expect(list.snapshot?.itemIdentifiers.contains { $0.isTemporaryID } == false)
        }
    }

    // A delegate that edits and saves in `controllerDidChangeContent`, so that each change causes the next; the program
    // ended in a loop or an exception. Source: openradar 24205241.
    @Test(arguments: SituationStore.allCases)
    func aDelegateMayEditAndSave(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            list.didChange = {
                // Numbers each section anew, and saves.
                for section in list.controller.sections ?? [] {
                    for (rank, task) in section.objects.enumerated() where task.rank != rank + 1 {
                        task.rank = rank + 1
                    }
                }
                if context.hasChanges { try context.save() }
            }
            context.addTask("new", "a", rank: -4)
            try context.task("b2").category = "a"
            try list.check("edited")
            #expect(!context.hasChanges)
            #expect(
                list.texts == ["a: new a1 a2 b2", "b: b1"]
                    || list.texts == ["a: new a1 b2 a2", "b: b1"])
            #expect(try context.fetch(ListedTask.self).map(\.rank).sorted() == [1, 1, 2, 3, 4])
            context.delete(try context.task("a1"))
            try context.save()
            try list.check("deleted and saved")
            #expect(try context.fetch(ListedTask.self).map(\.rank).sorted() == [1, 1, 2, 3])
        }
    }

    // Two lists of one context: selecting in one changes the other; the delegate of each deletes what the other shows.
    // Source: aplus.rs, “Using NSFetchedResultsController's diffable snapshot with UICollectionView's diffable data
    // source”.
    @Test(arguments: SituationStore.allCases)
    func twoListsOfAContextStayInStep(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            let done = try MirroredList(
                tasks: context.tasks(SortOrdering("title"), where: "isDone == YES"))
            let projects = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedProject>(
                        predicate: QueryPredicate(format: "ANY tasks.isDone == NO"),
                        sortOrderings: [SortOrdering("name")]), managedObjectContext: context),
                text: \.name)
            #expect(projects.texts == ["Home"])
            // What is done leaves its project; a project with nothing to do goes.
            done.didChange = {
                done.controller.fetchedObjects?.forEach { task in
                    if task.project != nil { task.project = nil }
                }
            }
            projects.didChange = {
                for project in try context.fetch(ListedProject.self) where project.tasks.isEmpty {
                    context.delete(project)
                }
            }
            try context.task("b1").isDone = true
            for mirror in [list, done] { try mirror.check("one is done") }
            try projects.check("one is done")
            #expect(projects.texts == ["Home"])
            try context.task("b2").isDone = true
            for mirror in [list, done] { try mirror.check("all are done") }
            try projects.check("all are done")
            #expect(projects.texts == [""])
            #expect(try context.count(for: ListedProject.self) == 0)
            #expect(done.texts == ["b1! b2!"])
            try context.save()
            for mirror in [list, done] { try mirror.check("saved") }
        }
    }

    // New objects get permanent identifiers before the save, so that the snapshots do not change with it; then the save
    // fails, because something else is invalid. Source: newbe.dev, “How to get a diffable snapshot from an
    // NSFetchResultsController in iOS 13?”.
    @Test(arguments: SituationStore.allCases)
    func obtainedIdentifiersStayInSnapshots(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            let task = context.addTask("new", "b", rank: 0)
            try list.check("inserted")
            try context.obtainPermanentIDs(for: [task])
            #expect(!task.objectID.isTemporaryID)
            #expect(list.snapshot?.itemIdentifiers.contains(task.objectID) == true)
            try list.check("identified")
            list.forget()
            let invalid = context.addProject("")
            try invalid.setValue(nil, forKey: "name")
            #expect(throws: QuireError.self) { try context.save() }
            try list.check("failed")
            #expect(list.controller.indexPath(forObject: task) == IndexPath(item: 0, section: 1))
            context.delete(invalid)
            try context.save()
            try list.check("saved")
            #expect(list.log == [])
            #expect(list.texts == ["a: a1 a2", "b: new b1 b2"])
        }
    }

    // Objects that are changed and saved in the same turn, and deleted in the next, before the interface has run. Source:
    // Apple Developer Forums thread 692357; alexj.org, “Fetched Results Controller & Diffable Data Source Snapshot Issues”.
    @Test(arguments: SituationStore.allCases)
    func changingAndSavingAtOnceIsOneBatch(_ store: SituationStore) async throws {
        try await tasks(store) { list, context in
            context.addTask("new", "a", rank: 3)
            try context.task("a1").title = "A1"
            try context.save()
            #expect(list.batchCount == 1)
            #expect(list.snapshot?.itemIdentifiers.contains { $0.isTemporaryID } == false)
            #expect(list.texts == ["a: A1 a2 new", "b: b1 b2"])
            try list.check("saved")
            list.forget()
            let brief = context.addTask("brief", "a", rank: 4)
            context.delete(brief)
            try context.save()
            #expect(list.log == [])
            context.addTask("short", "a", rank: 5)
            try context.save()
            context.delete(try context.task("short"))
            try context.save()
            try list.check("gone")
            #expect(list.texts == ["a: A1 a2 new", "b: b1 b2"])
        }
    }
}

/// A page whose saves are counted, as a date of the last change.
@Entity final class ListedPage: ManagedObject {
    @Attribute var title: String
    @Attribute(default: 0) var modified: Int

    override func willSave() {
        super.willSave()
        guard !isDeleted, changedValues()["modified"] == nil, let context = managedObjectContext
        else { return }
        let pages = (try? context.fetch(ListedPage.self)).map(Array.init) ?? []
        modified = (pages.map(\.modified).max() ?? 0) + 1
    }
}
