import Foundation
import Quire
import QuireDocuments
import Testing

/// A document of notes with a caption beside the objects, whose changes the program registers itself.
private final class Notebook: ManagedDocument {
    private(set) var caption = ""

    override var managedObjectModel: ManagedObjectModel? { UndoSituation.model }

    func setCaption(_ new: String) {
        let old = caption
        caption = new
        undoManager?.registerUndo(withTarget: self) { document in
            MainActor.assumeIsolated { document.setCaption(old) }
        }
        undoManager?.setActionName("Caption")
    }

    override func contents(forType type: String) throws -> (any Sendable)? {
        let data = Data(caption.utf8)
        if try additionalContent.data(at: "caption.txt") != data {
            try additionalContent.write(data, at: "caption.txt")
        }
        return try super.contents(forType: type)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        caption =
            try additionalContent.data(at: "caption.txt")
            .map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    func addNote(_ text: String) throws -> ManagedObject {
        try UndoSituation.note(text, in: managedObjectContext)
    }

    var texts: [String] { get throws { try UndoSituation.texts(managedObjectContext) } }
}

/// Undo in documents: what is unsaved, what autosave writes, what the next start has.
@MainActor @Suite struct UndoInDocumentsSituationTests {
    private func withNotebook(
        _ program: @MainActor (Notebook, URL) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Notes.quire")
            let document = Notebook(fileURL: url)
            document.autosavePolicy = .never
            try await document.create()
            try await program(document, url)
        }
    }

    private func reopened(_ url: URL) async throws -> Notebook {
        let document = Notebook(fileURL: url)
        document.autosavePolicy = .never
        try await document.open()
        return document
    }

    /// Change, save, undo: the document is unsaved, and autosave writes the old value. Undo before a save: it is clean again.
    /// adamyg/grief issue 33; marktext/marktext issue 2144; ezEngine/ezEngine pull request 1824.
    @Test func undoAcrossASaveIsUnsavedAndIsSaved() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            note["text"] = "two"
            document.undoManager?.undo()
            #expect(!document.hasUnsavedChanges)
            document.undoManager?.redo()
            #expect(document.hasUnsavedChanges)
            try await document.autosave()
            #expect(!document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(document.hasUnsavedChanges && note.label == "one")
            try await document.autosave()
            #expect(!document.hasUnsavedChanges)
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["one"])
            #expect(again.undoManager?.canUndo == false)
            try await again.close()
        }
    }

    /// An autosave comes while an agent's group is open; the group ends afterwards without more changes, or with more.
    /// palmier-io/palmier-pro pull request 359.
    @Test(arguments: [false, true])
    func anAutosaveWithinAGroupKnowsWhatItSaved(changesMore: Bool) async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            let undoManager = try #require(document.undoManager)
            undoManager.beginUndoGrouping()
            undoManager.setActionName("Agent")
            note["text"] = "two"
            #expect(document.hasUnsavedChanges)
            try await document.autosave()
            #expect(!document.hasUnsavedChanges)
            if changesMore { note["text"] = "three" }
            #expect(document.hasUnsavedChanges == changesMore)
            undoManager.endUndoGrouping()
            #expect(document.hasUnsavedChanges == changesMore)
            note["pages"] = 4
            #expect(document.hasUnsavedChanges)
            undoManager.undo()
            #expect(note["pages"] as? Int == 0)
            #expect(document.hasUnsavedChanges == changesMore)
            #expect(undoManager.undoActionName == "Agent")
            undoManager.undo()
            #expect(note.label == "one" && document.hasUnsavedChanges)
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["one"])
            try await again.close()
        }
    }

    /// A document is closed, or its changes are discarded, while a group is open, which ends only afterwards.
    /// palmier-io/palmier-pro issue 320 and pull request 359 (closing a project during an agent's edit).
    @Test(arguments: [false, true])
    func aDocumentClosesWithAnOpenGroup(discards: Bool) async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            let undoManager = try #require(document.undoManager)
            undoManager.beginUndoGrouping()
            note["text"] = "two"
            try await document.close(discardingChanges: discards)
            undoManager.endUndoGrouping()
            undoManager.undo()
            #expect(!undoManager.canUndo)
            let again = try await reopened(url)
            #expect(try again.texts == [discards ? "one" : "two"])
            try await again.close()
        }
    }

    /// The user undoes during a group in a document. palmier-io/palmier-pro pull request 324.
    @Test func undoWithinAGroupLeavesTheDocumentAsSaved() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            let undoManager = try #require(document.undoManager)
            undoManager.beginUndoGrouping()
            note["text"] = "two"
            undoManager.undo()
            #expect(note.label == "one" && !document.hasUnsavedChanges)
            note["text"] = "three"
            #expect(document.hasUnsavedChanges)
            undoManager.endUndoGrouping()
            undoManager.undo()
            #expect(note.label == "one" && !document.hasUnsavedChanges)
            undoManager.redo()
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["three"])
            try await again.close()
        }
    }

    /// Steps of the program's own beside objects: the caption of the document, in events of their own and mixed.
    /// Apple's Document-Based App Programming Guide for iOS, “Change Tracking and Undo Operations”.
    @Test func stepsOfTheProgramCountAsChanges() async throws {
        try await withNotebook { document, url in
            let undoManager = try #require(document.undoManager)
            let note = try document.addNote("one")
            document.setCaption("First")
            #expect(undoManager.undoMenuItemTitle == "Undo Caption")
            try await document.save()
            document.setCaption("Second")
            #expect(document.hasUnsavedChanges)
            undoManager.undo()
            #expect(document.caption == "First" && !document.hasUnsavedChanges)
            undoManager.redo()
            note["text"] = "two"
            try await document.save()
            #expect(!document.hasUnsavedChanges)
            undoManager.undo()
            undoManager.undo()
            #expect(document.caption == "First" && note.label == "one")
            #expect(document.hasUnsavedChanges)
            try await document.close()
            let again = try await reopened(url)
            #expect(again.caption == "First")
            #expect(try again.texts == ["one"])
            try await again.close()
        }
    }

    /// A background context saves into the document between a change and its undo.
    /// realm/realm-swift issue 1572: several threads.
    @Test func undoKeepsWhatABackgroundContextSaved() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            note["text"] = "two"
            document.managedObjectContext.processPendingChanges()
            let id = note.objectID
            try await document.performBackgroundTask { context in
                context.object(with: id)["pages"] = 12
                try context.insertObject(entityName: "Note")["text"] = "imported"
                try context.save()
            }
            #expect(note["pages"] as? Int == 12)
            #expect(document.undoManager?.undoCount == 2)
            document.undoManager?.undo()
            #expect(note.label == "one" && note["pages"] as? Int == 12)
            #expect(document.hasUnsavedChanges)
            try await document.save()
            document.undoManager?.redo()
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["imported", "two"])
            try await again.close()
        }
    }

    /// A save is refused; undo makes the document what it was, and the next save works.
    /// RestKit/RestKit issue 198, in a document.
    @Test func aRefusedSaveIsUndone() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            note["pages"] = 1000
            await #expect(throws: QuireError.self) { try await document.save() }
            #expect(document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(!document.hasUnsavedChanges)
            note["text"] = "two"
            try await document.save()
            document.undoManager?.undo()
            try await document.save()
            document.undoManager?.undo()
            #expect(try document.texts.isEmpty)
            document.undoManager?.redo()
            #expect(!document.hasUnsavedChanges)
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["one"])
            try await again.close()
        }
    }

    /// A picture is replaced and saved several times, undone past all saves, saved and read at the next start; the same for the
    /// deletion of its note. realm/realm-swift issue 1572.
    @Test func picturesComeBackPastSeveralSaves() async throws {
        try await withNotebook { document, url in
            func picture(_ byte: UInt8) -> Data { Data(repeating: byte, count: 300_000) }
            let note = try document.addNote("one")
            note["picture"] = picture(0)
            try await document.save()
            for byte: UInt8 in 1...3 {
                note["picture"] = picture(byte)
                try await document.save()
            }
            document.managedObjectContext.delete(note)
            try await document.save()
            document.undoManager?.undo()
            #expect(note["picture"] as? Data == picture(3))
            for _ in 0..<2 { document.undoManager?.undo() }
            try await document.save()
            #expect(note["picture"] as? Data == picture(1))
            try await document.close()
            let again = try await reopened(url)
            let read = try #require(
                try again.managedObjectContext.fetch(FetchRequest("Note")).first)
            #expect(read["picture"] as? Data == picture(1))
            #expect(try await again.check().isEmpty)
            try await again.close()
        }
    }

    /// Save As and a copy keep what can be undone; the copy has the state of its time.
    /// groue/GRDB.swift issue 786: a document-based app with undo.
    @Test func saveAsKeepsTheStepsAndACopyItsState() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            note["text"] = "two"
            let folder = url.deletingLastPathComponent()
            let copy = folder.appendingPathComponent("Copy.quire")
            try await document.writeCopy(to: copy)
            #expect(document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(!document.hasUnsavedChanges)
            document.undoManager?.redo()
            let moved = folder.appendingPathComponent("Moved.quire")
            try await document.save(as: moved)
            #expect(!document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(note.label == "one" && document.hasUnsavedChanges)
            try await document.close()
            for (url, texts) in [(url, ["one"]), (copy, ["two"]), (moved, ["one"])] {
                let again = try await reopened(url)
                #expect(try again.texts == texts)
                try await again.close()
            }
        }
    }

    /// The undo manager is switched off for an import and on again, and the document stays right about what is saved.
    /// karelia/BSManagedDocument issue 50.
    @Test func anUndoManagerThatIsSwitchedOffAndOnAgain() async throws {
        try await withNotebook { document, url in
            let undoManager = try #require(document.undoManager)
            let note = try document.addNote("one")
            try await document.save()
            undoManager.removeAllActions()
            note["text"] = "two"
            document.undoManager = nil
            _ = try document.addNote("imported")
            document.undoManager = undoManager
            #expect(document.hasUnsavedChanges)
            try await document.save()
            #expect(!document.hasUnsavedChanges)
            #expect(undoManager.canUndo)
            document.undoManager?.undo()
            #expect(note.label == "one" && document.hasUnsavedChanges)
            document.undoManager?.redo()
            #expect(!document.hasUnsavedChanges)
            document.undoManager?.undo()
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["imported", "one"])
            try await again.close()
        }
    }

    /// Revert clears the stack, and steps after it are undone to the reverted state.
    /// Apple's documentation of `UIDocument.revert(toContentsOf:)`.
    @Test func stepsAfterARevertLeadToTheRevertedState() async throws {
        try await withNotebook { document, url in
            let note = try document.addNote("one")
            try await document.save()
            let id = note.objectID
            document.undoManager?.beginUndoGrouping()
            note["text"] = "two"
            try await document.revert()
            document.undoManager?.endUndoGrouping()
            #expect(document.undoManager?.canUndo == false && !document.hasUnsavedChanges)
            let read = document.managedObjectContext.object(with: id)
            read["text"] = "three"
            #expect(document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(read.label == "one" && !document.hasUnsavedChanges)
            try await document.close()
            let again = try await reopened(url)
            #expect(try again.texts == ["one"])
            try await again.close()
        }
    }
}
