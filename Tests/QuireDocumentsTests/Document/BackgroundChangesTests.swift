import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What contexts beside the document's own save: to its parent context, or to its store.
@Suite @MainActor struct BackgroundChangesTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func create(titles: [String] = []) async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        for title in titles { try document.addNote(title) }
        if !titles.isEmpty { try await document.save() }
        return document
    }

    private func background(_ document: ManagedDocument) throws -> QueueConfinedContext {
        QueueConfinedContext(parent: try #require(document.managedObjectContext.parent))
    }

    /// A document's own contexts see what is not saved yet; one of its coordinator reads a saved state.
    @Test func aContextOfTheCoordinatorIsPinnedWhileTheDocumentSaves() async throws {
        let document = try await create(titles: ["first"])
        let parent = try #require(document.managedObjectContext.parent)
        try document.managedObjectContext.setQueryGeneration(from: .current)
        try parent.performAndWait { try $0.setQueryGeneration(from: .current) }
        #expect(document.managedObjectContext.queryGenerationToken == nil)
        let reader = ManagedObjectContext.mainQueue(
            coordinator: document.persistentStoreCoordinator)
        try reader.setQueryGeneration(from: .current)
        #expect(try reader.count(for: FetchRequest("Note")) == 1)
        try document.addNote("second")
        try await document.save()
        #expect(try reader.count(for: FetchRequest("Note")) == 1)
        reader.refreshAllObjects()
        #expect(try reader.count(for: FetchRequest("Note")) == 2)
        try await document.close()
    }

    /// Inserts a note and saves.
    private func add(_ title: String, in context: QueueConfinedContext) async throws {
        try await context.perform { context in
            let note = try context.insertObject(entityName: "Note")
            note["title"] = title
            try context.save()
        }
    }

    /// Sets a title of the note of another, and saves.
    private func rename(
        _ old: String, to new: String, in context: QueueConfinedContext
    ) async throws {
        try await context.perform { context in
            let request = FetchRequest(
                "Note", predicate: try QueryPredicate(format: "title == %@", old))
            try #require(try context.fetch(request).first)["title"] = new
            try context.save()
        }
    }

    /// Lets the document's contexts merge what waits on their queues.
    private func merge(into document: ManagedDocument) async throws {
        let parent = try #require(document.managedObjectContext.parent)
        await parent.perform(schedule: .enqueued) { _ in }
        await withCheckedContinuation { continuation in
            DispatchQueue.main.async { continuation.resume() }
        }
    }

    private func controller(
        _ document: ManagedDocument
    ) throws -> FetchedResultsController<ManagedObject> {
        var request = FetchRequest("Note")
        request.sortOrderings = [SortOrdering("title")]
        let controller = FetchedResultsController<ManagedObject>(
            fetchRequest: request, managedObjectContext: document.managedObjectContext)
        try controller.performFetch()
        return controller
    }

    // MARK: Saved to the parent

    @Test func whatIsSavedToTheParentIsUnsavedAndSavedByClose() async throws {
        let document = try await create()
        try await add("from the background", in: background(document))
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["from the background"])
    }

    @Test func saveWritesItAndTheDocumentIsClean() async throws {
        let document = try await create(titles: ["a"])
        try await rename("a", to: "b", in: background(document))
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["b"])
        try await document.close()
    }

    @Test func whatIsChangedInTheParentItselfCountsAndIsShown() async throws {
        let document = try await create(titles: ["a"])
        let list = try controller(document)
        let parent = try #require(document.managedObjectContext.parent)
        try await parent.perform { context in
            let note = try context.insertObject(entityName: "Note")
            note["title"] = "b"
            try #require(
                try context.fetch(
                    FetchRequest("Note", predicate: QueryPredicate(format: "title == 'a'"))
                ).first)["title"] = "c"
        }
        #expect(document.hasUnsavedChanges)
        try await merge(into: document)
        #expect(list.fetchedObjects?.map { $0["title", as: String.self] } == ["b", "c"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["b", "c"])
    }

    @Test func whatTheParentRollsBackIsUnsavedNoMore() async throws {
        let document = try await create(titles: ["a"])
        try await add("b", in: background(document))
        #expect(document.hasUnsavedChanges)
        await document.managedObjectContext.parent?.perform { $0.rollback() }
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == ["a"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["a"])
    }

    @Test func revertingDropsIt() async throws {
        let document = try await create(titles: ["a"])
        try await add("b", in: background(document))
        try await document.revert()
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == ["a"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["a"])
    }

    @Test func whatIsSavedToTheParentIsShown() async throws {
        let document = try await create(titles: ["a", "b"])
        let list = try controller(document)
        let context = document.managedObjectContext
        let held = try #require(try context.fetch(FetchRequest("Note")).first)
        let old = try #require(held["title", as: String.self])
        let background = try background(document)
        try await rename(old, to: "renamed", in: background)
        try await add("new", in: background)
        try await merge(into: document)
        #expect(held["title", as: String.self] == "renamed")
        let other = old == "a" ? "b" : "a"
        #expect(
            list.fetchedObjects?.map { $0["title", as: String.self] } == [other, "new", "renamed"])
        #expect(!context.hasChanges)
        try await document.close()
    }

    @Test func savingRefreshesNoObjectOfTheDocument() async throws {
        let document = try await create(titles: ["a"])
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        note["title"] = "b"
        try await document.save()
        try await merge(into: document)
        #expect(!note.isFault)
        try await document.close()
    }

    @Test func undoOfTheDocumentGoesOn() async throws {
        let document = try await create(titles: ["a"])
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        note["code"] = "mine"
        document.managedObjectContext.processPendingChanges()
        try await rename("a", to: "theirs", in: background(document))
        try await merge(into: document)
        #expect(
            note["title", as: String.self] == "theirs" && note["code", as: String.self] == "mine")
        document.undoManager?.undo()
        #expect(note["title", as: String.self] == "theirs" && note["code", as: String.self] == nil)
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        document.undoManager?.redo()
        try await document.close()
        let again = ManagedDocument(path: path)
        try await again.open(readOnly: true)
        let saved = try #require(try again.managedObjectContext.fetch(FetchRequest("Note")).first)
        #expect(
            saved["title", as: String.self] == "theirs" && saved["code", as: String.self] == "mine")
        try await again.close()
    }

    /// Saves many notes from the background while the document is saved and closed: each save of the background either
    /// fails or is in the document.
    @Test func nothingIsClosedOver() async throws {
        for round in 0..<20 {
            let document = try await create()
            let background = try background(document)
            let writing = Task.detached { () -> [String] in
                var saved: [String] = []
                for number in 0..<400 {
                    do {
                        try await background.perform { context in
                            let note = try context.insertObject(entityName: "Note")
                            note["title"] = "\(number)"
                            try context.save()
                        }
                        saved.append("\(number)")
                    } catch { break }
                }
                return saved
            }
            for _ in 0..<round % 3 { try await document.save() }
            try await document.close()
            let saved = await writing.value
            #expect(try await ManagedDocument.titles(at: path) == saved.sorted())
            try FileSystem.removeTree(path)
        }
    }

    @Test func savingToTheParentOfAClosedDocumentIsAnError() async throws {
        let document = try await create()
        let background = try background(document)
        try await document.close()
        let error = await failure { try await add("late", in: background) }
        #expect(error?.code == .invalidState || error?.code == .storeUnavailable)
    }

    // MARK: The document's own background contexts

    @Test func aBackgroundContextIsShownCountedAndSaved() async throws {
        let document = try await create(titles: ["a"])
        let list = try controller(document)
        let background = try document.newBackgroundContext()
        try await add("b", in: background)
        #expect(document.hasUnsavedChanges)
        try await merge(into: document)
        #expect(list.fetchedObjects?.map { $0["title", as: String.self] } == ["a", "b"])
        // And it follows what the document saves.
        let seen = try await background.perform { context in
            try context.fetch(FetchRequest("Note")).map(\.objectID)
        }
        list.fetchedObjects?.first?["title"] = "edited"
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        let titles = try await background.perform(schedule: .enqueued) { context in
            try seen.map { try context.existingObject(with: $0)["title", as: String.self] ?? "" }
                .sorted()
        }
        #expect(titles == ["b", "edited"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["b", "edited"])
    }

    @Test func whatABackgroundTaskSavesIsShownWhenItReturns() async throws {
        let document = try await create(titles: ["a"])
        let list = try controller(document)
        let count = try await document.performBackgroundTask { context in
            for title in ["b", "c"] {
                try context.insertObject(entityName: "Note")["title"] = title
            }
            try context.save()
            try context.insertObject(entityName: "Note")["title"] = "not saved"
            return try context.count(for: FetchRequest("Note"))
        }
        #expect(count == 4)
        #expect(list.fetchedObjects?.map { $0["title", as: String.self] } == ["a", "b", "c"])
        #expect(document.hasUnsavedChanges)
        let error = await failure {
            try await document.performBackgroundTask { context in
                try context.insertObject(entityName: "Note")["title"] = "given up"
                throw QuireError(.cancelled, "Given up.")
            }
        }
        #expect(error?.code == .cancelled)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["a", "b", "c"])
    }

    @Test func whatABackgroundTaskCannotSaveIsInvalidInTheDocumentToo() async throws {
        let document = try await create()
        let error = await failure {
            try await document.performBackgroundTask { context in
                _ = try context.insertObject(entityName: "Note")
                try context.save()
            }
        }
        #expect(error?.code == .validation)
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func backgroundContextsOfADocumentThatIsNotOpenAreErrors() async throws {
        let document = ManagedDocument(path: path)
        #expect(failure { _ = try document.newBackgroundContext() }?.code == .invalidState)
        let error = await failure { try await document.performBackgroundTask { _ in } }
        #expect(error?.code == .invalidState)
        try await document.create(model: notesModel)
        try document.addNote("a")
        try await document.save()
        let background = try document.newBackgroundContext()
        try await background.perform { context in
            try #require(try context.fetch(FetchRequest("Note")).first)["title"] = "late"
        }
        try await document.close()
        #expect(failure { _ = try document.newBackgroundContext() }?.code == .invalidState)
        let late = await failure { try await background.perform { try $0.save() } }
        #expect(late?.code == .invalidState)
        #expect(try await ManagedDocument.titles(at: path) == ["a"])
    }

    @Test func whatABackgroundContextSavesIsAutosaved() async throws {
        final class Document: ManagedDocument {
            var saved: CheckedContinuation<Void, Never>?

            override func didSave() { saved?.resume() }
        }
        let document = Document(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        let background = try document.newBackgroundContext()
        try await add("a", in: background)
        await withCheckedContinuation { continuation in
            document.saved = continuation
            document.autosavePolicy = AutosavePolicy(delay: .milliseconds(1))
        }
        document.saved = nil
        #expect(!document.hasUnsavedChanges)
        // And when nothing but the save tells of it.
        await withCheckedContinuation { continuation in
            document.saved = continuation
            Task.detached {
                try await background.perform { context in
                    try context.insertObject(entityName: "Note")["title"] = "b"
                    try context.save()
                }
            }
        }
        document.saved = nil
        #expect(try await ManagedDocument.titles(at: path) == ["a", "b"])
        try await document.close()
    }

    // MARK: Saved to the store

    @Test func whatIsSavedToTheStoreIsShown() async throws {
        let document = try await create(titles: ["a", "b"])
        let list = try controller(document)
        let held = try #require(list.fetchedObjects?.first)
        #expect(held["title", as: String.self] == "a")
        let background = QueueConfinedContext(coordinator: document.persistentStoreCoordinator)
        try await rename("a", to: "renamed", in: background)
        try await add("new", in: background)
        try await merge(into: document)
        #expect(held["title", as: String.self] == "renamed")
        #expect(
            list.fetchedObjects?.map { $0["title", as: String.self] } == ["b", "new", "renamed"])
        #expect(!document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["b", "new", "renamed"])
    }

    @Test func theNextEditOfSuchAnObjectIsNoConflict() async throws {
        let document = try await create(titles: ["a"])
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        #expect(note["title", as: String.self] == "a")
        let background = QueueConfinedContext(coordinator: document.persistentStoreCoordinator)
        for number in 0..<10 {
            let title = try #require(note["title", as: String.self])
            try await rename(title, to: "from the store \(number)", in: background)
            // In the same turn, before the document's contexts had a chance to merge.
            note["code"] = "\(number)"
            try await document.save()
            #expect(note["title", as: String.self] == "from the store \(number)")
        }
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["from the store 9"])
    }

    // MARK: Whether anything is unsaved

    @Test func anEditIsUnsavedInTheSameTurn() async throws {
        let document = try await create(titles: ["a"])
        let context = document.managedObjectContext
        let note = try #require(try context.fetch(FetchRequest("Note")).first)
        note["title"] = "b"
        #expect(context.hasChanges && document.hasUnsavedChanges)
        context.rollback()
        #expect(!document.hasUnsavedChanges)
        note["title"] = "b"
        #expect(document.hasUnsavedChanges)
        document.undoManager?.undo()
        #expect(!document.hasUnsavedChanges)
        document.undoManager?.redo()
        #expect(document.hasUnsavedChanges)
        document.undoManager?.undo()
        document.undoManager?.disableUndoRegistration()
        note["title"] = "c"
        #expect(document.hasUnsavedChanges)
        document.undoManager?.enableUndoRegistration()
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        context.setRecord("kept", forKey: "record")
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        document.undoManager = nil
        try document.addNote("d")
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["c", "d"])
    }

    /// The parent context only passes on what the document's own announces.
    @Test func aSaveIsAnnouncedOnce() async throws {
        let document = try await create(titles: ["a"])
        let parent = try #require(document.managedObjectContext.parent)
        let posted = Lock<[String]>([])
        let names = [
            ManagedObjectContext.willSaveObjectsNotification,
            ManagedObjectContext.didSaveObjectsNotification,
            ManagedObjectContext.didSaveObjectIDsNotification,
            ManagedObjectContext.didChangeObjectsNotification,
            ManagedObjectContext.didMergeChangesObjectIDsNotification,
        ]
        let isParent = await parent.perform { parent in
            let identity = ObjectIdentifier(parent)
            return { @Sendable (object: Any?) in
                (object as? ManagedObjectContext).map(ObjectIdentifier.init) == identity
            }
        }
        let tokens = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                if isParent($0.object) { posted.withLock { $0.append(name.rawValue) } }
            }
        }
        defer { tokens.forEach(NotificationCenter.default.removeObserver) }
        try document.addNote("b")
        try await document.save()
        let background = try background(document)
        try await add("c", in: background)
        try await document.save()
        try await merge(into: document)
        #expect(posted.withLock { $0 } == [])
        try await document.close()
    }

    /// A value that is set to the saved one keeps neither a merge nor a save from taking another's.
    @Test func valueSetToTheSavedOneKeepsBackgroundChanges() async throws {
        let document = try await create()
        let note = try document.addNote("title")
        note["code"] = "old"
        try await document.save()
        note["code"] = "old"
        let id = note.objectID
        try await document.performBackgroundTask { context in
            context.object(with: id)["code"] = "new"
            try context.save()
        }
        try await merge(into: document)
        #expect(note["code"] as? String == "new")
        try await document.save()
        #expect(note["code"] as? String == "new")
        try await document.close()
        let reopened = ManagedDocument(path: path)
        try await reopened.open()
        let notes = try reopened.managedObjectContext.fetch(FetchRequest("Note"))
        #expect(notes.map { $0["code"] as? String } == ["new"])
        try await reopened.close()
    }
}
