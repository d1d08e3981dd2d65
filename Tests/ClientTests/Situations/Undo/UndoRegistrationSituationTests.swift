import Foundation
import Quire
import Testing

/// A note that dates itself, and has an identifier from its insertion on.
final class DatedNote: ManagedObject {
    override func awakeFromInsert() {
        self["uuid"] = UUID().uuidString
        self["created"] = 1
    }

    override func willSave() {
        guard !isDeleted, let text = self["text"] as? String else { return }
        let modified = "saved \(text)"
        if self["modified"] as? String != modified { self["modified"] = modified }
    }
}

/// A note that dates itself with primitive values.
final class QuietNote: ManagedObject {
    override func willSave() {
        guard !isDeleted, let text = self["text"] as? String else { return }
        try? setPrimitiveValue("saved \(text)", forKey: "modified")
    }
}

/// What is registered for undo and what is not: imports, values that objects set by themselves, derived and external values.
@MainActor @Suite struct UndoRegistrationSituationTests {
    private static func datedModel() throws -> ManagedObjectModel {
        var model = ManagedObjectModel {
            for name in ["Note", "Quiet"] {
                Entity(name) {
                    Attribute("text", .string)
                    Attribute("uuid", .string)
                    Attribute("created", .integer32)
                    Attribute("modified", .string)
                }
            }
        }
        try model.bind(DatedNote.self, to: "Note")
        try model.bind(QuietNote.self, to: "Quiet")
        return model
    }

    /// An import with the undo manager set to nil, between two edits. Apple's documentation of
    /// `NSManagedObjectContext.undoManager` recommends it.
    @Test(arguments: SituationStore.allCases, [false, true])
    func anImportWithoutUndoManagerKeepsTheStepsBeforeIt(
        store: SituationStore, changesTheSame: Bool
    ) async throws {
        try await withUndo(store) { container, context, undoManager in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            undoManager.removeAllActions()
            note["text"] = "two"
            context.undoManager = nil
            for number in 0..<50 {
                _ = try UndoSituation.note("import \(number)", in: context, folder: folder)
            }
            if changesTheSame { note["pages"] = 9 }
            try context.save()
            context.undoManager = undoManager
            #expect(undoManager.undoCount == 1)
            note["text"] = "three"
            context.undo()
            #expect(note.label == "two")
            context.undo()
            #expect(note.label == "one" && !undoManager.canUndo)
            #expect(note["pages"] as? Int == (changesTheSame ? 9 : 0))
            #expect(folder.labels("notes").count == 51)
            try context.save()
            #expect(try UndoSituation.stored(container).count == 51)
            #expect(try UndoSituation.stored(container).contains("one"))
        }
    }

    /// Objects of a step are deleted while registration is disabled. “Core Data and the wonderful world of undo management”
    /// (mikeabdullah.net); Apple's Undo Architecture: changes that cannot be undone make the chain of edits inconsistent.
    @Test(arguments: SituationStore.allCases, [false, true])
    func stepsOfObjectsDeletedWithoutRegistrationAreSkipped(
        store: SituationStore, isSaved: Bool
    ) async throws {
        try await withUndo(store) { container, context, undoManager in
            let folder = try UndoSituation.named("Folder", "Home", in: context)
            let (note, kept) = (
                try UndoSituation.note("one", in: context, folder: folder),
                try UndoSituation.note("kept", in: context, folder: folder)
            )
            try context.save()
            undoManager.removeAllActions()
            note["text"] = "two"
            note["folder"] = nil
            kept["text"] = "kept 2"
            context.processPendingChanges()
            undoManager.disableUndoRegistration()
            context.delete(note)
            if isSaved { try context.save() }
            undoManager.enableUndoRegistration()
            context.undo()
            #expect(kept.label == "kept")
            #expect(folder.labels("notes") == ["kept"])
            try context.save()
            #expect(try UndoSituation.stored(container) == ["kept"])
            context.redo()
            #expect(kept.label == "kept 2")
            try context.save()
            #expect(try UndoSituation.stored(container) == ["kept 2"])
        }
    }

    /// Values set by `awakeFromInsert()` belong to the insertion: one step, and redo brings the same identifier.
    /// “Core Data and the wonderful world of undo management” (mikeabdullah.net).
    @Test(arguments: SituationStore.allCases)
    func valuesOfAwakeFromInsertGoWithTheInsertion(store: SituationStore) async throws {
        try await withUndo(store, Self.datedModel()) { container, context, undoManager in
            let note = try context.insertObject(entityName: "Note")
            let uuid = note["uuid"] as? String
            context.processPendingChanges()
            #expect(undoManager.undoCount == 1)
            context.undo()
            #expect(!undoManager.canUndo && !context.hasChanges)
            context.redo()
            #expect(note["uuid"] as? String == uuid && note["created"] as? Int == 1)
            try context.save()
            #expect(try UndoSituation.stored(container, "Note", "uuid") == [uuid ?? "?"])
        }
    }

    /// `willSave()` sets a modification date, as Core Data's guide shows. One undo after the save takes the user's change back,
    /// not the date alone. Apple's documentation of `NSManagedObject.willSave()`.
    @Test(
        arguments: SituationStore.allCases, ["Note", "Quiet"])
    func aModificationDateOfWillSaveIsNotAStepOfItsOwn(
        store: SituationStore, entity: String
    ) async throws {
        try await withUndo(store, Self.datedModel()) { container, context, undoManager in
            let note = try context.insertObject(entityName: entity)
            note["text"] = "one"
            try context.save()
            #expect(undoManager.undoCount == 1)
            note["text"] = "two"
            // An autosave comes in another turn of the queue.
            context.processPendingChanges()
            try context.save()
            #expect(note["modified"] as? String == "saved two")
            #expect(undoManager.undoCount == 2)
            context.undo()
            #expect(note["text"] as? String == "one")
            try context.save()
            #expect(undoManager.canRedo)
            #expect(note["modified"] as? String == "saved one")
            context.redo()
            #expect(note["text"] as? String == "two")
            try context.save()
            #expect(try UndoSituation.stored(container, entity, "modified") == ["saved two"])
            context.undo()
            context.undo()
            #expect(!undoManager.canUndo && !note.isInserted)
            try context.save()
            #expect(try UndoSituation.stored(container, entity, "text").isEmpty)
        }
    }

    /// A picture that is kept in a file is replaced, saved, undone, saved, redone, removed, undone.
    /// realm/realm-swift issue 1572: what kind of operations can be undone?
    @Test(arguments: SituationStore.files)
    func picturesInFilesAreUndoneAcrossSaves(store: SituationStore) async throws {
        try await withUndo(store) { container, context, _ in
            let note = try UndoSituation.note("one", in: context)
            func picture(_ byte: UInt8) -> Data { Data(repeating: byte, count: 400_000) }
            note["picture"] = picture(1)
            try context.save()
            let id = note.objectID
            @MainActor func stored() throws -> Data? {
                try ManagedObjectContext.mainQueue(
                    coordinator: container.persistentStoreCoordinator
                ).existingObject(with: id)["picture"] as? Data
            }
            note["picture"] = picture(2)
            try context.save()
            context.undo()
            #expect(note["picture"] as? Data == picture(1))
            try context.save()
            #expect(try stored() == picture(1))
            context.refreshAllObjects()
            context.redo()
            try context.save()
            #expect(try stored() == picture(2))
            note["picture"] = nil
            try context.save()
            context.undo()
            try context.save()
            #expect(try stored() == picture(2))
            context.delete(note)
            try context.save()
            context.undo()
            try context.save()
            #expect(try stored() == picture(2))
            context.undo()
            #expect(note["picture"] as? Data == picture(1))
            try context.save()
            #expect(try stored() == picture(1))
        }
    }

    /// A transient value, such as the cursor, is changed together with what is saved.
    /// “Core Data Rough Riding” (cocoaconvert.net, 2009).
    @Test(arguments: SituationStore.allCases)
    func transientValuesAreUndoneWithTheOthers(store: SituationStore) async throws {
        try await withUndo(store) { _, context, _ in
            let note = try UndoSituation.note("one", in: context)
            note["cursor"] = 3
            try context.save()
            note["text"] = "one two"
            note["cursor"] = 7
            try context.save()
            #expect(note["cursor"] as? Int == 7)
            context.undo()
            #expect(note.label == "one" && note["cursor"] as? Int == 3)
            try context.save()
            context.redo()
            #expect(note.label == "one two" && note["cursor"] as? Int == 7)
        }
    }

    /// A folder shows the number of its notes, which is derived; undo and redo keep it true, with and without saves.
    /// Apple's documentation of `NSDerivedAttributeDescription`.
    @Test(arguments: SituationStore.allCases, [false, true])
    func derivedValuesFollowUndo(store: SituationStore, isSaved: Bool) async throws {
        let model = ManagedObjectModel {
            Entity("Folder") {
                Attribute("name", .string)
                Attribute("canonical", .string).derived("canonical:(name)")
                Attribute("count", .integer64).derived("notes.@count")
                ToMany("notes", "Note", inverse: "folder").deleteRule(.cascade)
            }
            Entity("Note") {
                Attribute("text", .string)
                ToOne("folder", "Folder", inverse: "notes")
            }
        }
        try await withUndo(store, model) { container, context, _ in
            let folder = try UndoSituation.named("Folder", "Éva", in: context)
            let note = try UndoSituation.note("one", in: context, folder: folder)
            try context.save()
            @MainActor func step(_ change: () throws -> Void) throws {
                try change()
                if isSaved { try context.save() } else { context.processPendingChanges() }
            }
            @MainActor func check(_ count: Int, _ canonical: String) throws {
                #expect(folder["canonical"] as? String == canonical)
                var request = FetchRequest<ManagedObject>("Folder")
                request.predicate = try QueryPredicate(format: "count == %d", count)
                #expect(try context.count(for: request) == 1)
                #expect(folder["count"] as? Int == count)
            }
            try step { folder["name"] = "Zoë" }
            try step { _ = try UndoSituation.note("two", in: context, folder: folder) }
            try step { context.delete(note) }
            try check(1, "zoe")
            try step { context.undo() }
            try check(2, "zoe")
            try step { context.undo() }
            try check(1, "zoe")
            try step { context.undo() }
            try check(1, "eva")
            for _ in 0..<2 { try step { context.redo() } }
            try check(2, "zoe")
            try context.save()
            let other = ManagedObjectContext.mainQueue(
                coordinator: container.persistentStoreCoordinator)
            let read = try other.existingObject(with: folder.objectID)
            #expect(read["count"] as? Int == 2 && read["canonical"] as? String == "zoe")
        }
    }

    /// An undo manager with a limit: the oldest steps go, and what is left is still consistent, over saves.
    /// ReliaQualAssociates/ramstk issue 15: an undo level of at least 25.
    @Test(arguments: SituationStore.allCases)
    func aLimitDropsTheOldestStepsOnly(store: SituationStore) async throws {
        try await withSituation(store, UndoSituation.model) { container in
            let context = container.viewContext
            let undoManager = UndoManager()
            undoManager.levelsOfUndo = 25
            context.undoManager = undoManager
            var notes: [ManagedObject] = []
            for number in 0..<40 {
                notes.append(try UndoSituation.note("\(number)", in: context))
                if number % 7 == 0 { try context.save() } else { context.processPendingChanges() }
            }
            #expect(undoManager.undoCount == 25)
            for _ in 0..<40 { context.undo() }
            #expect(try UndoSituation.texts(context).count == 15)
            try context.save()
            for _ in 0..<40 { context.redo() }
            try context.save()
            #expect(try UndoSituation.stored(container).count == 40)
            #expect(notes.allSatisfy { !$0.isDeleted && !$0.objectID.isTemporaryID })
        }
    }

    /// The action's name is given after the change in the same event, in a group, and for steps that undo makes.
    /// Apple's documentation of `UndoManager.setActionName(_:)`.
    @Test func namesStayWithTheirSteps() async throws {
        try await withUndo(.sqlite) { _, context, undoManager in
            let note = try UndoSituation.note("one", in: context)
            undoManager.setActionName("Add Note")
            try context.save()
            note["text"] = "two"
            undoManager.setActionName("Edit")
            await Task.yield()
            context.processPendingChanges()
            context.delete(note)
            undoManager.setActionName("Delete")
            try context.save()
            var titles: [String] = []
            while undoManager.canUndo {
                titles.append(undoManager.undoMenuItemTitle)
                context.undo()
            }
            #expect(titles == ["Undo Delete", "Undo Edit", "Undo Add Note"])
            #expect(undoManager.undoMenuItemTitle == "Undo")
            titles = []
            while undoManager.canRedo {
                titles.append(undoManager.redoMenuItemTitle)
                context.redo()
            }
            #expect(titles == ["Redo Add Note", "Redo Edit", "Redo Delete"])
        }
    }
}
