import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What belongs to a close, and how others end it.
@Suite @MainActor struct ClosingTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func make() async throws -> ClosingDocument {
        let document = ClosingDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved")
        try await document.save()
        return document
    }

    // MARK: Edits

    @Test func whatIsEditedWhileClosingWaitsForFilesIsSaved() async throws {
        let document = try await make()
        var edits = 0
        document.willDescribe = {
            edits += 1
            if edits > 3 { return }
            let title = "late \(edits)"
            // Once the document waits for what a library shows of it to be written.
            Task { _ = try document.addNote(title) }
        }
        try await document.close()
        #expect(!document.isOpen)
        #expect(
            try await ManagedDocument.titles(at: path) == ["late 1", "late 2", "late 3", "saved"])
    }

    @Test func additionalContentWrittenWhileClosingIsSaved() async throws {
        let document = try await make()
        document.willDescribe = { [weak document] in
            document?.willDescribe = {}
            Task { try document?.additionalContent.write(Data([1]), at: "late") }
        }
        try await document.close()
        try await document.open(readOnly: true)
        #expect(document.additionalContent.paths == ["late"])
        try await document.close()
    }

    @Test func whatIsEditedInTheTurnOfTheCloseIsSaved() async throws {
        let document = try await make()
        async let closing: Void = document.close()
        await Task.yield()
        if document.isOpen { try document.addNote("late") }
        let edited = document.isOpen
        try await closing
        #expect(
            try await ManagedDocument.titles(at: path) == (edited ? ["late", "saved"] : ["saved"]))
    }

    @Test func discardingDropsWhatIsEditedWhileClosing() async throws {
        let document = try await make()
        document.willDescribe = { Task { _ = try document.addNote("late") } }
        try await document.close(discardingChanges: true)
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
    }

    @Test func closingSavesOnceInsideAnOpenUndoGroup() async throws {
        let document = try await make()
        let undoManager = try #require(document.undoManager)
        document.saves = 0
        undoManager.beginUndoGrouping()
        try document.addNote("grouped")
        // So that a close that saves for ever ends.
        document.afterSave = { if $0 == 5 { undoManager.endUndoGrouping() } }
        try await document.close()
        #expect(document.saves == 1)
        #expect(try await ManagedDocument.titles(at: path) == ["grouped", "saved"])
    }

    @Test func aSaveInsideAnOpenUndoGroupMakesTheDocumentClean() async throws {
        let document = try await make()
        let undoManager = try #require(document.undoManager)
        undoManager.beginUndoGrouping()
        try document.addNote("one")
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        try document.addNote("two")
        document.managedObjectContext.processPendingChanges()
        #expect(document.hasUnsavedChanges)
        try await document.save()
        undoManager.endUndoGrouping()
        document.managedObjectContext.processPendingChanges()
        #expect(!document.hasUnsavedChanges)
        undoManager.undo()
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["saved"])
        undoManager.redo()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func forgettingUndoInsideAGroupDoesNotMakeItsChangesSaved() async throws {
        let document = try await make()
        let undoManager = try #require(document.undoManager)
        undoManager.beginUndoGrouping()
        try document.addNote("grouped")
        document.managedObjectContext.processPendingChanges()
        undoManager.removeAllActions()
        #expect(document.hasUnsavedChanges)
        undoManager.endUndoGrouping()
        document.managedObjectContext.processPendingChanges()
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["grouped", "saved"])
    }

    // MARK: Contexts of a closed document

    @Test(arguments: [false, true])
    func nothingIsInsertedIntoTheContextOfAClosedDocument(isDeleted: Bool) async throws {
        let document = try await make()
        let context = document.managedObjectContext
        let child = ManagedObjectContext.mainQueue(parent: context)
        if isDeleted {
            try FileSystem.removeTree(path)
            await document.waitUntil { $0.documentState == .closed }
        } else {
            try await document.close()
        }
        #expect(failure { try document.addNote("late") }?.code == .invalidState)
        #expect(failure { _ = try context.insertObject(entityName: "Note") }?.code == .invalidState)
        #expect(!context.hasChanges)
        #expect(failure { try context.save() } == nil)
        // A child that was made before keeps what it has, and says that its parents take nothing.
        _ = try child.insertObject(entityName: "Note")
        child.insertedObjects.first?["title"] = "late"
        #expect(failure { try child.save() } != nil)
        #expect(child.hasChanges)
        if isDeleted { return }
        // Opened again it has another context, which takes objects.
        try await document.open()
        try document.addNote("again")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["again", "saved"])
    }

    /// Making an object of a class cannot throw, and must not stop the program: others may have closed the document.
    @Test func anObjectMadeInTheContextOfAClosedDocumentIsReportedAndNeverSaved() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: ManagedObjectModel(classes: [ClosingNote.self]))
        let context = document.managedObjectContext
        try await document.close()
        let note = ClosingNote(context: context)
        #expect(note.managedObjectContext === context)
        #expect(context.takeFaultError()?.code == .invalidState)
        #expect(failure { try context.save() }?.code == .invalidState)
        #expect(context.hasChanges)
    }

    // MARK: Packages that go

    @Test func unsavedChangesOfADeletedPackageAreSavedElsewhereBeforeItIsLetGo() async throws {
        let document = try await make()
        try document.addNote("mine")
        try document.additionalContent.write(Data([2]), at: "mine")
        let rescue = folder.path("Rescue.quire")
        document.packageGoes = { try await document.save(as: URL(fileURLWithPath: rescue)) }
        try FileSystem.removeTree(path)
        await document.waitUntil { $0.path == rescue && $0.documentState == .normal }
        #expect(document.error == nil)
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == ["mine", "saved"])
        try document.addNote("more")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: rescue) == ["mine", "more", "saved"])
        try await document.open(readOnly: true)
        #expect(document.additionalContent.paths == ["mine"])
        try await document.close()
        #expect(!FileSystem.exists(path))
    }

    @Test func externalDataThatWentWithThePackageDoesNotKeepTheRestFromBeingSavedElsewhere()
        async throws
    {
        let document = try await make()
        try document.addNote("pictured", picture: Data(repeating: 1, count: 300_000))
        try document.additionalContent.write(Data([1]), at: "saved")
        try await document.save()
        try document.addNote("mine", picture: Data(repeating: 2, count: 300_000))
        let rescue = folder.path("Rescue.quire")
        document.packageGoes = { try await document.save(as: URL(fileURLWithPath: rescue)) }
        try FileSystem.removeTree(path)
        // The document is the other one by now, and what it lacks is the error.
        await document.waitUntil { _ in document.error != nil }
        let error = try #require(document.error as? QuireError)
        #expect(error.code == .notFound && error.subject.file == rescue)
        #expect(error.failures.count == 2)
        #expect(document.path == rescue && document.documentState == .normal)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: rescue) == ["mine", "pictured", "saved"])
        try await document.open(readOnly: true)
        var request = FetchRequest("Note")
        request.predicate = try QueryPredicate(format: "title == 'mine'")
        let mine = try #require(try document.managedObjectContext.fetch(request).first)
        #expect(mine["picture", as: Data.self] == Data(repeating: 2, count: 300_000))
        try await document.close()
    }

    @Test func aDocumentThatOthersHaveClosedRefusesWithErrors() async throws {
        let document = try await make()
        let note = try document.addNote("mine")
        let (context, content) = (document.managedObjectContext, document.additionalContent)
        try FileSystem.removeTree(path)
        await document.waitUntil { $0.documentState == .closed }
        #expect(note.managedObjectContext == nil)
        // What a program that was not told goes on with.
        #expect(throws: QuireError.self) { try document.titles() }
        #expect(throws: QuireError.self) { try context.fetch(FetchRequest("Note")) }
        #expect(throws: QuireError.self) {
            try document.persistentStoreCoordinator.store.count(
                matching: FetchSpecification("Note"))
        }
        #expect(throws: QuireError.self) { try document.package.liveGeneration() }
        document.managedObjectContext.processPendingChanges()
        #expect(document.undoManager == nil)
        document.undoManager = UndoManager()
        if case .none = document.draftStatus {} else { Issue.record("there is a draft") }
        document.updateChangeCount(.done)
        document.updateChangeCount(with: document.changeCountToken())
        #expect(!document.hasUnsavedChanges)
        #expect(content.paths == [])
        #expect(!content.contains("mine"))
        #expect(content.paths(inFolder: "mine") == [])
        #expect(failure { _ = try content.data(at: "mine") }?.code == .invalidState)
        #expect(failure { try content.write(Data([1]), at: "mine") }?.code == .invalidState)
        #expect(failure { try content.remove(at: "mine") }?.code == .invalidState)
        #expect(failure { _ = try content.url(for: "mine") }?.code == .invalidState)
        #expect(failure { _ = try content.fileHandle(forReading: "mine") }?.code == .invalidState)
        let file = folder.path("file")
        try FileSystem.writeNewFile(Data([1]), at: file)
        for error in [
            await failure { try await document.save() },
            await failure { try await document.revert() },
            await failure { try await document.check().forEach { _ in } },
            await failure {
                try await document.save(as: URL(fileURLWithPath: folder.path("x.quire")))
            },
            await failure { try await document.resolveConflict(keeping: .current) },
            await failure { try await content.write(contentsOf: file, at: "mine") },
            await failure { try await content.write(contentsOfFolder: folder.path, at: "mine") },
        ] { #expect(error?.code == .invalidState) }
        try await document.close()
        #expect(try FileSystem.names(in: folder.path) == ["file"])
    }
}

private final class ClosingNote: ManagedObject {
    override class var entityDeclaration: EntityDeclaration? {
        EntityDeclaration("Note", of: Self.self, inheriting: ManagedObject.self, properties: [])
    }
}

/// Lets a test take part in a close.
private final class ClosingDocument: ManagedDocument {
    var willDescribe: () -> Void = {}
    var packageGoes: (() async throws -> Void)?
    var afterSave: (Int) -> Void = { _ in }
    var saves = 0
    private(set) var error: (any Error)?

    override func libraryMetadata() -> LibraryMetadata {
        willDescribe()
        return LibraryMetadata()
    }

    override func accommodatePresentedItemDeletion() async {
        do { try await packageGoes?() } catch { self.error = error }
    }

    override func didSave() {
        saves += 1
        afterSave(saves)
    }
}
