import Foundation
import Quire
import Testing

/// Who follows undo and redo, and which undo manager has the steps: lists, the history, managers that are replaced or outlive a
/// context.
@MainActor @Suite struct UndoManagersSituationTests {
    /// A list shows what is undone and redone as insertions, deletions and moves, and an observer hears the same sets.
    /// Nexus-Mods issue 2953 asks for undo in a database app; Apple's documentation of `NSFetchedResultsController`.
    @Test(arguments: SituationStore.allCases)
    func aListFollowsUndoAndRedo(store: SituationStore) async throws {
        try await withUndo(store) { _, context, _ in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let notes = try ["b", "d"].map {
                try UndoSituation.note($0, in: context, folder: folder)
            }
            try context.save()
            context.undoManager?.removeAllActions()
            var request = FetchRequest<ManagedObject>("Note")
            request.sortOrderings = [SortOrdering("text", ascending: true)]
            let controller = FetchedResultsController(
                fetchRequest: request, managedObjectContext: context)
            try controller.performFetch()
            @MainActor func shown() -> [String] {
                (controller.fetchedObjects.map(Array.init) ?? []).map { $0.label ?? "nil" }
            }
            nonisolated(unsafe) var heard: [String] = []
            let observer = NotificationCenter.default.addObserver(
                forName: ManagedObjectContext.didChangeObjectsNotification, object: context,
                queue: nil
            ) { notification in
                let counts = [
                    notification.insertedObjects.count, notification.updatedObjects.count,
                    notification.deletedObjects.count,
                ]
                heard.append(counts.map(String.init).joined(separator: " "))
            }
            defer { NotificationCenter.default.removeObserver(observer) }
            _ = try UndoSituation.note("c", in: context)
            context.processPendingChanges()
            notes[1]["text"] = "a"
            context.processPendingChanges()
            context.delete(folder)
            context.processPendingChanges()
            #expect(shown() == ["c"])
            context.undo()
            #expect(shown() == ["a", "b", "c"])
            context.undo()
            #expect(shown() == ["b", "c", "d"])
            try context.save()
            context.undo()
            #expect(shown() == ["b", "d"])
            context.redo()
            context.redo()
            context.redo()
            #expect(shown() == ["c"])
            #expect(
                heard == [
                    "1 0 0", "0 1 0", "0 0 3", "3 0 0", "0 1 0", "0 0 1", "1 0 0", "0 1 0", "0 0 3",
                ])
        }
    }

    /// Undo after a save is a change like any other for those who follow the history.
    /// bbkane/enventory issue 5 (undo by history).
    @Test func aSavedUndoIsATransactionOfTheHistory() async throws {
        try await withProgramFolder { folder in
            let container = try await SituationStore.sqlite.container(
                UndoSituation.model, in: folder
            ) { $0.tracksHistory = true }
            let context = container.viewContext
            context.transactionAuthor = "app"
            context.undoManager = UndoManager()
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            let token = try context.execute(
                PersistentHistoryChangeRequest.fetchHistory(after: nil)
            ).transactions.last?.token
            note["text"] = "two"
            try context.save()
            context.undo()
            try context.save()
            context.delete(note)
            try context.save()
            context.undo()
            try context.save()
            let transactions = try context.execute(
                PersistentHistoryChangeRequest.fetchHistory(after: token)
            ).transactions
            let lines = transactions.map { transaction in
                transaction.changes.map {
                    "\(transaction.author ?? "?") \($0.kind) "
                        + "\(($0.updatedProperties ?? []).sorted().joined(separator: ","))"
                }.joined(separator: "; ")
            }
            #expect(lines == ["app update text", "app update text", "app delete ", "app insert "])
            #expect(transactions.allSatisfy { $0.changes.first?.objectID == note.objectID })
            try container.close()
        }
    }

    /// A window is closed: its context is released while the application's undo manager still has its steps.
    /// groue/GRDB.swift issue 786: a document with an undo manager of its window.
    @Test func anUndoManagerOutlivesAContext() async throws {
        try await withSituation(.sqlite, UndoSituation.model) { container in
            let undoManager = UndoManager()
            container.viewContext.undoManager = undoManager
            let kept = try UndoSituation.note("kept", in: container.viewContext)
            try container.viewContext.save()
            undoManager.removeAllActions()
            kept["text"] = "changed"
            container.viewContext.processPendingChanges()
            weak var released: ManagedObjectContext?
            do {
                let window = ManagedObjectContext.mainQueue(
                    coordinator: container.persistentStoreCoordinator)
                window.undoManager = undoManager
                _ = try UndoSituation.note("lost", in: window)
                window.processPendingChanges()
                _ = try UndoSituation.note("pending", in: window)
                released = window
            }
            #expect(released == nil)
            undoManager.undo()
            undoManager.undo()
            #expect(kept.label == "kept")
            undoManager.redo()
            #expect(kept.label == "changed")
            try container.viewContext.save()
            #expect(try UndoSituation.stored(container) == ["changed"])
        }
    }

    /// The undo manager is replaced in the middle of an event, and the old one used again.
    /// karelia/BSManagedDocument issue 50: “Where did my UndoManager gone?”.
    @Test(arguments: SituationStore.allCases)
    func aReplacedUndoManagerKeepsItsSteps(store: SituationStore) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            let (first, second) = (UndoManager(), UndoManager())
            context.undoManager = first
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            first.removeAllActions()
            note["text"] = "two"
            context.undoManager = second
            note["pages"] = 2
            #expect(second.canUndo && first.canUndo)
            context.undo()
            #expect(note["pages"] as? Int == 0 && note.label == "two")
            #expect(!second.canUndo)
            first.undo()
            #expect(note.label == "one" && !context.hasChanges)
            context.undoManager = nil
            note["text"] = "three"
            context.undo()
            #expect(note.label == "three")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["three"])
        }
    }
}
