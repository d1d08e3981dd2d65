import Foundation
import Quire
import Testing

/// Groups of changes that become one step, or should: sheets, typing, agents, shortcuts pressed at the wrong time.
@MainActor @Suite struct UndoGroupingSituationTests {
    /// A sheet edits several fields in several events inside of one group; Done closes the group, Cancel closes and undoes it.
    /// “Core Data and the Undo Manager” (cimgf.com, 2011).
    @Test(arguments: SituationStore.allCases, [false, true])
    func anEditSheetIsOneStepAndCancelUndoesAllOfIt(
        store: SituationStore, isSaved: Bool
    ) async throws {
        try await withUndo(store) { container, context, undoManager in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("Milk", in: context)
            if isSaved { try context.save() } else { context.processPendingChanges() }
            let count = undoManager.undoCount

            @MainActor func editInSheet() throws {
                undoManager.beginUndoGrouping()
                undoManager.setActionName("Edit Note")
                note["text"] = "Oat milk"
                context.processPendingChanges()
                note["folder"] = folder
                context.processPendingChanges()
                let line = try context.insertObject(entityName: "Line")
                line["note"] = note
                context.processPendingChanges()
                undoManager.endUndoGrouping()
            }
            try editInSheet()
            #expect(undoManager.undoCount == count + 1)
            #expect(undoManager.undoMenuItemTitle == "Undo Edit Note")
            // Cancel
            context.undo()
            #expect(note.label == "Milk" && note["folder"] == nil && note.labels("lines").isEmpty)
            #expect(context.hasChanges == !isSaved)
            // Done
            try editInSheet()
            #expect(undoManager.redoCount == 0)
            try context.save()
            #expect(try UndoSituation.stored(container) == ["Oat milk"])
            context.undo()
            try context.save()
            #expect(try UndoSituation.stored(container) == ["Milk"])
            #expect(try UndoSituation.stored(container, "Line").isEmpty)
        }
    }

    /// Each key is an event of its own; the program joins them in a group that stays open over turns of the queue, while the
    /// program saves. “How should undo typing behave?” (softwareengineering.stackexchange.com 188543).
    @Test func typingOverSeveralEventsAndASaveIsOneStep() async throws {
        try await withUndo(.sqlite) { container, context, undoManager in
            let note = try UndoSituation.note("", in: context)
            try context.save()
            undoManager.removeAllActions()
            undoManager.beginUndoGrouping()
            undoManager.setActionName("Typing")
            for end in 1...5 {
                note["text"] = String("hello".prefix(end))
                await Task.yield()
                if end == 3 { try context.save() }
            }
            undoManager.endUndoGrouping()
            note["pages"] = 2
            undoManager.setActionName("Set Pages")
            context.processPendingChanges()
            #expect(undoManager.undoCount == 2)
            context.undo()
            #expect(note.label == "hello" && undoManager.undoActionName == "Typing")
            context.undo()
            #expect(note.label == "" && !undoManager.canUndo)
            context.redo()
            #expect(note.label == "hello")
            #expect(try UndoSituation.stored(container) == ["hel"])
        }
    }

    /// The user presses Ctrl+Z while a group is open: an agent or a typing group has begun, and has not ended yet.
    /// palmier-io/palmier-pro pull request 324; Foundation raises an exception, which AppKit logs.
    @Test(arguments: SituationStore.allCases, [1, 2, 3])
    func undoWithinOpenGroupsUndoesWhatTheyHaveSoFar(
        store: SituationStore, depth: Int
    ) async throws {
        try await withUndo(store) { container, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            for level in 0..<depth {
                undoManager.beginUndoGrouping()
                note["pages"] = level + 1
            }
            note["text"] = "two"
            #expect(undoManager.canUndo)
            context.undo()
            #expect(note.label == "one" && note["pages"] as? Int == 0 && !context.hasChanges)
            #expect(undoManager.canRedo)
            context.redo()
            #expect(note.label == "two" && note["pages"] as? Int == depth)
            context.undo()
            // Whoever had opened the groups goes on, and closes them.
            note["text"] = "three"
            for _ in 0..<depth { undoManager.endUndoGrouping() }
            context.processPendingChanges()
            #expect(undoManager.groupingLevel == 0)
            context.undo()
            #expect(note.label == "one")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
        }
    }

    /// A group is open while the program saves asynchronously and its end comes after the save.
    /// palmier-io/palmier-pro issue 320 and pull request 359: “endUndoGrouping called with no matching begin”.
    @Test(arguments: SituationStore.files)
    func aGroupMayBeOpenWhileOthersSave(store: SituationStore) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            let undoManager = UndoManager()
            context.undoManager = undoManager
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            let id = note.objectID
            undoManager.beginUndoGrouping()
            note["text"] = "two"
            try await container.performBackgroundTask { other in
                other.object(with: id)["pages"] = 7
                let second = try other.insertObject(entityName: "Note")
                second["text"] = "imported"
                try other.save()
            }
            #expect(note["pages"] as? Int == 7)
            context.mergePolicy = .mergeByPropertyObjectTrump
            try context.save()
            note["text"] = "three"
            undoManager.endUndoGrouping()
            context.undo()
            #expect(note.label == "one" && note["pages"] as? Int == 7)
            try context.save()
            #expect(try UndoSituation.stored(container) == ["imported", "one"])
        }
    }

    /// `removeAllActions()` in the middle of an event leaves the event's own changes to be registered at its end.
    /// cappuccino/cappuccino issue 1002.
    @Test func removeAllActionsForgetsTheChangesOfThisEventToo() async throws {
        try await withUndo(.sqlite) { _, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            undoManager.registerUndo(withTarget: note) { $0["text"] = "wrong" }
            undoManager.removeAllActions()
            #expect(!undoManager.canUndo)
            context.processPendingChanges()
            #expect(!undoManager.canUndo)
            context.undo()
            #expect(note.label == "one" && note.isInserted)
            note["text"] = "two"
            context.undo()
            #expect(note.label == "one")
        }
    }

    /// A Cancel button undoes step by step until nothing can be undone, and expects the objects as they were.
    /// JohnEstropia/CoreStore issue 21.
    @Test(arguments: SituationStore.allCases)
    func undoingEverythingSinceASaveLeavesNoChanges(store: SituationStore) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let notes = try ["a", "b", "c"].map {
                try UndoSituation.note($0, in: context, folder: folder)
            }
            try context.save()
            let undoManager = UndoManager()
            context.undoManager = undoManager
            notes[0]["text"] = "changed"
            context.processPendingChanges()
            context.delete(notes[1])
            context.processPendingChanges()
            _ = try UndoSituation.note("new", in: context, folder: folder)
            context.processPendingChanges()
            notes[2]["folder"] = nil
            context.processPendingChanges()
            context.delete(folder)
            context.processPendingChanges()
            while undoManager.canUndo { context.undo() }
            #expect(folder.labels("notes") == ["a", "b", "c"])
            #expect(!context.hasChanges)
            #expect(context.insertedObjects.isEmpty && context.deletedObjects.isEmpty)
            #expect(notes.allSatisfy { !$0.hasChanges && !$0.isDeleted })
            #expect(try UndoSituation.texts(context) == ["a", "b", "c"])
            while undoManager.canRedo { context.redo() }
            try context.save()
            #expect(try UndoSituation.stored(container) == ["c"])
        }
    }

    /// Several changes with a manager that does not group by event, outside any group.
    /// palmier-io/palmier-pro issue 320: “must begin a group before registering undo”.
    @Test func withoutGroupingByEventExplicitGroupsAreTheSteps() async throws {
        try await withSituation(.sqlite, UndoSituation.model) { container in
            let context = container.viewContext
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            let undoManager = UndoManager()
            undoManager.groupsByEvent = false
            context.undoManager = undoManager
            for text in ["two", "three"] {
                undoManager.beginUndoGrouping()
                note["text"] = text
                undoManager.endUndoGrouping()
            }
            #expect(undoManager.undoCount == 2)
            context.undo()
            #expect(note.label == "two")
            context.undo()
            #expect(note.label == "one" && !context.hasChanges)
        }
    }
}
