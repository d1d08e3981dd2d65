import Foundation
import Quire
import Testing

/// Undo with several contexts: scratch pads, imports that are merged, refreshes, rollbacks, lists, history.
@MainActor @Suite struct UndoContextsSituationTests {
    /// An edit view with a scratch pad of its own: undo and redo in it, then Save; the main window undoes that as one step.
    /// “Core Data object creation/edition view with undo capabilities but without headache” (dulacp.com, 2013).
    @Test(arguments: SituationStore.allCases)
    func aScratchPadUndoesItsEditsAndItsParentTheWhole(store: SituationStore) async throws {
        try await withUndo(store) { container, context, undoManager in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            undoManager.removeAllActions()

            let child = ManagedObjectContext.mainQueue(parent: context)
            child.undoManager = UndoManager()
            let edited = child.object(with: note.objectID)
            edited["text"] = "two"
            child.processPendingChanges()
            edited["lines"] = try ["x", "y"].map { text in
                let line = try child.insertObject(entityName: "Line")
                line["text"] = text
                return line
            }
            child.processPendingChanges()
            edited["folder"] = nil
            child.undo()
            #expect((edited["folder"] as? ManagedObject)?.label == "Home")
            child.undo()
            child.redo()
            #expect(edited.labels("lines") == ["x", "y"])
            try child.save()
            #expect(note.label == "two" && note.labels("lines") == ["x", "y"])
            context.processPendingChanges()
            #expect(undoManager.undoCount == 1)
            context.undo()
            #expect(note.label == "one" && note.labels("lines").isEmpty)
            #expect(!context.hasChanges)
            context.redo()
            #expect(note.label == "two" && note.labels("lines") == ["x", "y"])
            try context.save()
            #expect(try UndoSituation.stored(container, "Line") == ["x", "y"])
            context.undo()
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
            #expect(try UndoSituation.stored(container, "Line").isEmpty)
        }
    }

    /// The edit view stays open after Save: its own undo still works, and the next Save takes it to the parent and the store.
    /// “Core Data Growing Pains” (wbyoung.tumblr.com, 2012).
    @Test(arguments: SituationStore.allCases, [false, true])
    func aScratchPadUndoesWhatItHasSavedToItsParent(
        store: SituationStore, parentIsSaved: Bool
    ) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            let child = ManagedObjectContext.mainQueue(parent: context)
            child.undoManager = UndoManager()
            @MainActor func save() throws {
                try child.save()
                if parentIsSaved { try context.save() }
            }
            let edited = child.object(with: note.objectID)
            edited["text"] = "two"
            try save()
            let new = try UndoSituation.note(
                "new", in: child, folder: child.object(with: folder.objectID))
            try save()
            child.delete(edited)
            try save()
            #expect(folder.labels("notes") == ["new"])
            child.undo()
            try save()
            #expect(folder.labels("notes") == ["new", "two"])
            child.undo()
            #expect(!new.isInserted)
            try save()
            #expect(folder.labels("notes") == ["two"])
            child.undo()
            try save()
            #expect(folder.labels("notes") == ["one"])
            child.redo()
            child.redo()
            try save()
            try context.save()
            #expect(try UndoSituation.stored(container) == ["new", "two"])
        }
    }

    /// The main window undoes while an edit view has unsaved changes of the same object, and of one that undo removes.
    /// “Core Data Growing Pains” (wbyoung.tumblr.com, 2012).
    @Test(arguments: SituationStore.allCases)
    func aParentsUndoLeavesAScratchPadUsable(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            note["text"] = "two"
            note["pages"] = 2
            context.processPendingChanges()
            let added = try UndoSituation.note("added", in: context)
            context.processPendingChanges()
            let child = ManagedObjectContext.mainQueue(parent: context)
            child.automaticallyMergesChangesFromParent = true
            let (edited, editedAdded) = (
                child.object(with: note.objectID), child.object(with: added.objectID)
            )
            #expect(edited.label == "two" && editedAdded.label == "added")
            edited["text"] = "mine"
            editedAdded["text"] = "mine too"
            context.undo()
            context.undo()
            #expect(note.label == "one" && !added.isInserted)
            #expect(edited.label == "mine")
            try child.save()
            #expect(note.label == "mine")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["mine"])
        }
    }

    /// Another program changes another property of the same object, and other objects, between a change and its undo.
    /// realm/realm-swift issue 1572: what happens in a scenario of several threads?
    @Test(arguments: SituationStore.files, [false, true])
    func undoKeepsWhatOthersHaveSaved(store: SituationStore, isSaved: Bool) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            context.mergePolicy = .mergeByPropertyObjectTrump
            context.undoManager = UndoManager()
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            note["text"] = "two"
            _ = try UndoSituation.note("mine", in: context, folder: folder)
            if isSaved { try context.save() } else { context.processPendingChanges() }
            let (noteID, folderID) = (note.objectID, folder.objectID)
            try await container.performBackgroundTask { other in
                let theirs = other.object(with: noteID)
                theirs["pages"] = 50
                let new = try other.insertObject(entityName: "Note")
                new["text"] = "theirs"
                new["folder"] = other.object(with: folderID)
                try other.save()
            }
            #expect(note["pages"] as? Int == 50)
            context.undo()
            #expect(note.label == "one" && note["pages"] as? Int == 50)
            #expect(folder.labels("notes") == ["one", "theirs"])
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one", "theirs"])
            context.redo()
            #expect(folder.labels("notes") == ["mine", "theirs", "two"])
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let read = try other.existingObject(with: noteID)
            #expect(read.label == "two" && read["pages"] as? Int == 50)
        }
    }

    /// The object whose deletion is undone was deleted by another program as well, or its folder was. baserow/baserow issue 1004: undo of what was restored otherwise.
    @Test(arguments: SituationStore.files, ["object", "owner", "owner, saved"])
    func undoOfADeletionWhenOthersDeletedToo(
        store: SituationStore, deleted: String
    ) async throws {
        let (isOwner, isSaved) = (deleted.hasPrefix("owner"), deleted.hasSuffix("saved"))
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            context.undoManager = UndoManager()
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            context.delete(note)
            if isSaved { try context.save() } else { context.processPendingChanges() }
            let ids = (note.objectID, folder.objectID)
            try await container.performBackgroundTask { other in
                other.delete(other.object(with: isOwner ? ids.1 : ids.0))
                try other.save()
            }
            context.undo()
            #expect(!note.isDeleted && note.label == "one")
            #expect((note["folder"] == nil) == isOwner)
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
            #expect(
                try UndoSituation.stored(container, "Folder", "name")
                    == (isOwner ? [] : ["Home"]))
        }
    }

    /// Cancel by `rollback()`, and `reset()`, clear the undo stack; new steps work afterwards.
    /// wordpress-mobile/WordPress-iOS issue 20859; Apple's documentation of `rollback()`.
    @Test(arguments: SituationStore.allCases, ["rollback", "reset"])
    func rollbackAndResetClearTheStack(store: SituationStore, method: String) async throws {
        try await withUndo(store) { _, context, undoManager in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            context.delete(folder)
            context.processPendingChanges()
            context.undo()
            note["text"] = "two"
            undoManager.beginUndoGrouping()
            _ = try UndoSituation.note("new", in: context, folder: folder)
            if method == "reset" { context.reset() } else { context.rollback() }
            #expect(!undoManager.canUndo && !undoManager.canRedo)
            undoManager.endUndoGrouping()
            context.undo()
            context.redo()
            #expect(!context.hasChanges)
            let read = try #require(try context.fetch(FetchRequest("Note")).first)
            #expect(read.label == "one")
            #expect(try context.count(for: FetchRequest("Note")) == 1)
            read["text"] = "three"
            context.processPendingChanges()
            #expect(undoManager.undoCount == 1)
            context.undo()
            #expect(read.label == "one" && !context.hasChanges)
        }
    }

    /// An object is refreshed, which can discard its unsaved change: that is a step, too. The step of the change is undone then.
    /// Core Data Programming Guide, “Troubleshooting Core Data”.
    @Test(arguments: SituationStore.allCases, [false, true])
    func undoAfterARefreshLeavesAValueThatExisted(
        store: SituationStore, mergeChanges: Bool
    ) async throws {
        try await withUndo(store) { container, context, _ in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            note["text"] = "two"
            note["folder"] = nil
            context.processPendingChanges()
            context.refresh(note, mergeChanges: mergeChanges)
            #expect(note.label == (mergeChanges ? "two" : "one"))
            if !mergeChanges {
                context.undo()
                #expect(note.label == "two" && folder.labels("notes").isEmpty)
            }
            context.undo()
            #expect(note.label == "one")
            #expect(folder.labels("notes") == ["one"])
            #expect(note["folder"] as? ManagedObject === folder)
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
            context.redo()
            #expect(note.label == "two" && folder.labels("notes").isEmpty)
            try context.save()
            #expect(try UndoSituation.stored(container) == ["two"])
        }
    }
}
