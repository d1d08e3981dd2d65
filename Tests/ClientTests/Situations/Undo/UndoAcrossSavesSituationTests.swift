import Foundation
import Quire
import Testing

/// Undo and redo with saves between them, saves that fail, and values that must be unique.
@MainActor @Suite struct UndoAcrossSavesSituationTests {
    /// Insert, save, undo, save, redo, save: the store follows each time, and references to the object stay usable.
    /// ietf-tools/draftforge-electron issue 33: undo and redo should span saves.
    @Test(arguments: SituationStore.allCases)
    func anInsertionIsUndoneAndRedoneWithASaveEachTime(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            try context.save()
            context.undoManager?.removeAllActions()
            let note = try UndoSituation.note("one", in: context, folder: folder)
            let line = try context.insertObject(entityName: "Line")
            line["text"] = "first"
            note["lines"] = [line]
            try context.save()
            let id = note.objectID
            for _ in 0..<3 {
                context.undo()
                #expect(folder.labels("notes").isEmpty)
                try context.save()
                #expect(try UndoSituation.stored(container).isEmpty)
                #expect(try UndoSituation.stored(container, "Line").isEmpty)
                context.redo()
                #expect(folder.labels("notes") == ["one"])
                try context.save()
                #expect(try UndoSituation.stored(container) == ["one"])
                #expect(!note.objectID.isTemporaryID)
                #expect(context.object(with: note.objectID) === note)
                #expect(note.labels("lines") == ["first"])
            }
            #expect(note.objectID == id)
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let read = try other.existingObject(with: note.objectID)
            #expect(read.labels("lines") == ["first"])
            #expect((read["folder"] as? ManagedObject)?.label == "Home")
        }
    }

    /// A folder with everything in it is deleted, saved, and undone after other programs have read the store. The next start
    /// has all of it, in order. ietf-tools/draftforge-electron issue 33, with a deletion.
    @Test(arguments: SituationStore.files)
    func aSavedCascadeIsUndoneAndThereAtTheNextStart(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(UndoSituation.model, in: folder)
            let context = container.viewContext
            context.undoManager = UndoManager()
            let home = try UndoSituation.named("Folder", "Home", in: context)
            let tag = try UndoSituation.named("Tag", "red", in: context)
            for text in ["a", "b"] {
                let note = try UndoSituation.note(text, in: context, folder: home)
                note["tags"] = Set([tag])
                note["picture"] = Data(repeating: UInt8(text.utf8.first ?? 0), count: 300_000)
                note["lines"] = try (1...3).map { number in
                    let line = try context.insertObject(entityName: "Line")
                    line["text"] = "\(text)\(number)"
                    return line
                }
            }
            try context.save()
            context.delete(home)
            try context.save()
            #expect(try UndoSituation.stored(container, "Line").isEmpty)
            #expect(tag.labels("notes").isEmpty)
            context.undo()
            #expect(home.labels("notes") == ["a", "b"] && tag.labels("notes") == ["a", "b"])
            try context.save()
            try container.close()

            let next = try await store.container(UndoSituation.model, in: folder)
            let read = try #require(try next.viewContext.fetch(FetchRequest("Folder")).first)
            #expect(read.labels("notes") == ["a", "b"])
            for note in read["notes"] as? Set<ManagedObject> ?? [] {
                let text = try #require(note.label)
                #expect(note.labels("lines") == (1...3).map { "\(text)\($0)" })
                #expect(note.labels("tags") == ["red"])
                let picture = try #require(note["picture"] as? Data)
                #expect(picture.count == 300_000 && picture.first == text.utf8.first)
            }
            try next.close()
        }
    }

    /// A change is refused by validation; the user takes it back, everything else is saved. Redo brings the refused value.
    /// RestKit/RestKit issue 198.
    @Test(arguments: SituationStore.allCases)
    func aRefusedChangeIsUndoneAndTheRestSaved(store: SituationStore) async throws {
        try await withUndo(store) { container, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            try context.save()
            note["text"] = "two"
            context.processPendingChanges()
            note["pages"] = 1000
            for _ in 0..<2 {
                let error = #expect(throws: QuireError.self) { try context.save() }
                #expect(error?.code == .validation)
            }
            #expect(note["pages"] as? Int == 1000 && undoManager.undoCount == 3)
            context.undo()
            #expect(note["pages"] as? Int == 0 && note.label == "two")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["two"])
            context.redo()
            #expect(note["pages"] as? Int == 1000)
            #expect(throws: QuireError.self) { try context.save() }
            context.undo()
            context.undo()
            #expect(note.label == "one")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["one"])
        }
    }

    /// A new object is refused at the save, which takes its permanent identifier back; undo removes it, redo brings it again, and
    /// completed it is saved. RestKit/RestKit issue 198, with a new object.
    @Test(arguments: SituationStore.allCases)
    func aRefusedNewObjectIsUndoneRedoneCompletedAndSaved(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let folder = try context.insertObject(entityName: "Folder")
            let note = try UndoSituation.note("one", in: context, folder: folder)
            #expect(throws: QuireError.self) { try context.save() }
            context.undo()
            #expect(!folder.isInserted && !note.isInserted && !context.hasChanges)
            try context.save()
            context.redo()
            #expect(folder.isInserted && folder.labels("notes") == ["one"])
            #expect(throws: QuireError.self) { try context.save() }
            folder["name"] = "Home"
            try context.save()
            #expect(try UndoSituation.stored(container, "Folder", "name") == ["Home"])
            context.undo()
            #expect(throws: QuireError.self) { try context.save() }
            context.undo()
            try context.save()
            #expect(try UndoSituation.stored(container).isEmpty)
        }
    }

    /// A deletion that a delete rule refuses is undone; the undo must not insert what was never deleted.
    /// nocodb/nocodb issue 5880: undo after a failed delete.
    @Test(arguments: SituationStore.allCases)
    func aRefusedDeletionIsUndone(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let shelf = try UndoSituation.named("Shelf", "A", in: context)
            let box = try context.insertObject(entityName: "Box")
            box["shelf"] = shelf
            try context.save()
            context.delete(shelf)
            #expect(throws: QuireError.self) { try context.save() }
            context.undo()
            #expect(!shelf.isDeleted && box["shelf"] as? ManagedObject === shelf)
            #expect(!context.hasChanges)
            try context.save()
            context.redo()
            #expect(shelf.isDeleted)
            context.delete(box)
            try context.save()
            context.undo()
            context.undo()
            try context.save()
            #expect(try UndoSituation.stored(container, "Shelf", "name") == ["A"])
        }
    }

    /// An object with a unique value is deleted and another one with that value inserted; undo must free the value first.
    /// cyberway/cyberway pull request 756; xaya/libxayagame issue 86.
    @Test(
        arguments: SituationStore.allCases,
        ["one event", "two events", "saved between", "all saved"])
    func aReplacedUniqueValueIsUndoneAndRedone(store: SituationStore, order: String) async throws {
        try await withUndo(store) { container, context, _ in
            let old = try UndoSituation.named("Tag", "red", in: context)
            let note = try UndoSituation.note("one", in: context)
            note["tags"] = Set([old])
            try context.save()
            context.undoManager?.removeAllActions()
            context.delete(old)
            if order == "two events" { context.processPendingChanges() }
            if order == "saved between" || order == "all saved" { try context.save() }
            let new = try UndoSituation.named("Tag", "red", in: context)
            try context.save()
            let steps = order == "one event" ? 1 : 2
            for _ in 0..<2 {
                for _ in 0..<steps {
                    context.undo()
                    if order == "all saved" { try context.save() }
                }
                #expect(!old.isDeleted && note.labels("tags") == ["red"])
                try context.save()
                #expect(try UndoSituation.stored(container, "Tag", "name") == ["red"])
                for _ in 0..<steps {
                    context.redo()
                    if order == "all saved" { try context.save() }
                }
                try context.save()
                #expect(note.labels("tags").isEmpty && !new.isDeleted)
                #expect(try UndoSituation.stored(container, "Tag", "name") == ["red"])
            }
        }
    }

    /// The value of a deleted object was taken meanwhile by another program. The undo is refused at the save; a new name helps.
    /// pimcore/pimcore issue 4219: unique key when restoring.
    @Test(arguments: SituationStore.files)
    func anUndoneDeletionWhoseUniqueValueIsTakenCanBeRenamed(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let tag = try UndoSituation.named("Tag", "red", in: context)
            let note = try UndoSituation.note("one", in: context)
            note["tags"] = Set([tag])
            try context.save()
            context.delete(tag)
            try context.save()
            try await container.performBackgroundTask { other in
                try other.insertObject(entityName: "Tag")["name"] = "red"
                try other.save()
            }
            context.undo()
            let error = #expect(throws: QuireError.self) { try context.save() }
            #expect(error?.code == .constraintConflict)
            #expect(tag.isInserted && note.labels("tags") == ["red"])
            tag["name"] = "my red"
            try context.save()
            #expect(try UndoSituation.stored(container, "Tag", "name") == ["my red", "red"])
            context.undo()
            context.undo()
            #expect(tag.isDeleted)
            try context.save()
            #expect(try UndoSituation.stored(container, "Tag", "name") == ["red"])
        }
    }

    /// Two tags exchange their names in one step, which is undone and redone, each with a save.
    /// xaya/libxayagame issue 86: inverted changesets and UNIQUE.
    @Test(arguments: SituationStore.allCases)
    func exchangedUniqueValuesAreUndone(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let tags = try ["red", "blue"].map {
                try UndoSituation.named("Tag", $0, in: context)
            }
            try context.save()
            (tags[0]["name"], tags[1]["name"]) = ("blue", "red")
            try context.save()
            for _ in 0..<2 {
                context.undo()
                try context.save()
                #expect(tags.map(\.label) == ["red", "blue"])
                context.redo()
                try context.save()
                #expect(tags.map(\.label) == ["blue", "red"])
            }
            #expect(try UndoSituation.stored(container, "Tag", "name") == ["blue", "red"])
        }
    }

    /// Change, save, undo, save: the store has the old value although the context once was clean.
    /// ezEngine/ezEngine pull request 1824.
    @Test(arguments: SituationStore.allCases)
    func aNewEditAfterUndoOfASavedChangeIsSavedToo(store: SituationStore) async throws {
        try await withUndo(store) { container, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            let lines = try ["x", "y", "z"].map { text in
                let line = try context.insertObject(entityName: "Line")
                line["text"] = text
                return line
            }
            note["lines"] = lines
            try context.save()
            note["text"] = "two"
            note["lines"] = [lines[2], lines[0], lines[1]]
            try context.save()
            context.undo()
            #expect(note.labels("lines") == ["x", "y", "z"])
            note["pages"] = 5
            try context.save()
            #expect(!undoManager.canRedo)
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let read = try other.existingObject(with: note.objectID)
            #expect(read.label == "one" && read["pages"] as? Int == 5)
            #expect(read.labels("lines") == ["x", "y", "z"])
            context.undo()
            context.undo()
            #expect(!undoManager.canUndo)
            try context.save()
            #expect(try UndoSituation.stored(container).isEmpty)
        }
    }
}
