import Foundation
import Quire
import Testing

/// Actions that a program registers itself, among changes of objects.
@MainActor @Suite struct UndoActionsSituationTests {
    /// The program's own actions and changes of objects are mixed in one event, also actions that change objects when undone.
    /// “Core Data Rough Riding” (cocoaconvert.net, 2009).
    @Test(arguments: SituationStore.allCases)
    func actionsOfTheProgramAndChangesOfObjectsAreOneStep(store: SituationStore) async throws {
        @MainActor final class Window { var selection = "" }
        try await withUndo(store) { container, context, undoManager in
            let window = Window()
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            undoManager.removeAllActions()

            @MainActor func select(_ new: String) {
                let old = window.selection
                window.selection = new
                undoManager.registerUndo(withTarget: window) { _ in
                    MainActor.assumeIsolated { select(old) }
                }
            }
            @MainActor func setPages(_ new: Int) {
                let old = note["pages"] as? Int ?? 0
                undoManager.disableUndoRegistration()
                note["pages"] = new
                undoManager.enableUndoRegistration()
                undoManager.registerUndo(withTarget: note) { _ in
                    MainActor.assumeIsolated { setPages(old) }
                }
            }
            select("before")
            note["text"] = "two"
            select("note")
            setPages(3)
            context.processPendingChanges()
            for _ in 0..<3 {
                #expect(undoManager.undoCount == 1 && undoManager.redoCount == 0)
                context.undo()
                #expect(window.selection == "" && note.label == "one")
                #expect(note["pages"] as? Int == 0)
                #expect(note.changedValues().isEmpty)
                context.redo()
                #expect(window.selection == "note" && note.label == "two")
                #expect(note["pages"] as? Int == 3)
            }
            try context.save()
            context.undo()
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
        }
    }

    /// An action of the program looks at objects changed in the same event before it, in undo and in redo: each is called when
    /// the objects are as they were when it was registered. “Core Data Rough Riding” (cocoaconvert.net, 2009).
    @Test(arguments: SituationStore.allCases)
    func actionsSeeTheObjectsOfTheirTime(store: SituationStore) async throws {
        @MainActor final class Window { var selection: [String] = [] }
        try await withUndo(store) { _, context, undoManager in
            let window = Window()
            @MainActor func noteSelection(_ note: ManagedObject) {
                window.selection.append(note.isDeleted ? "gone" : note.label ?? "nil")
                undoManager.registerUndo(withTarget: window) { _ in
                    MainActor.assumeIsolated { noteSelection(note) }
                }
            }
            let note = try UndoSituation.note("one", in: context)
            noteSelection(note)
            note["text"] = "two"
            noteSelection(note)
            note["text"] = "three"
            context.processPendingChanges()
            for isSaved in [false, true] {
                if isSaved { try context.save() }
                window.selection = []
                context.undo()
                #expect(window.selection == ["two", "one"])
                window.selection = []
                context.redo()
                #expect(window.selection == ["one", "two"] && note.label == "three")
            }
        }
    }

    /// An action changes objects the ordinary way when it is undone, so its inverse is what the context registers then.
    /// groue/GRDB.swift issue 786 asks how actions of undo get recorded for redo.
    @Test(arguments: SituationStore.allCases)
    func anActionThatChangesObjectsIsRedone(store: SituationStore) async throws {
        try await withUndo(store) { container, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            undoManager.removeAllActions()
            undoManager.disableUndoRegistration()
            note["text"] = "two"
            undoManager.enableUndoRegistration()
            undoManager.registerUndo(withTarget: note) { note in
                note["text"] = "one"
                if let context = note.managedObjectContext {
                    _ = try? context.insertObject(entityName: "Line")["text"] = "log"
                }
            }
            context.undo()
            #expect(note.label == "one")
            #expect(try UndoSituation.texts(context, "Line") == ["log"])
            #expect(undoManager.redoCount == 1)
            context.redo()
            #expect(note.label == "two")
            #expect(try UndoSituation.texts(context, "Line").isEmpty)
            context.undo()
            #expect(note.label == "one")
            #expect(try UndoSituation.texts(context, "Line") == ["log"])
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
        }
    }

    /// An action calls `removeAllActions()` while it is being undone, because what it changes closes something.
    /// Open Radar 46395110 (lionheart/openradar-mirror issue 20783).
    @Test(arguments: [false, true])
    func anActionMayRemoveAllActionsWhileItIsUndone(isRedo: Bool) async throws {
        try await withUndo(.inMemory) { _, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            note["text"] = "two"
            undoManager.registerUndo(withTarget: note) { note in
                if isRedo {
                    undoManager.registerUndo(withTarget: note) { _ in undoManager.removeAllActions()
                    }
                } else {
                    undoManager.removeAllActions()
                }
            }
            context.undo()
            if isRedo { context.redo() }
            #expect(note.label == (isRedo ? "two" : "one"))
            #expect(!undoManager.isUndoing && !undoManager.isRedoing)
            #expect(undoManager.groupingLevel == 0)
            note["pages"] = 3
            context.undo()
            #expect(note["pages"] as? Int == 0)
        }
    }
}
