import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite @MainActor struct ManagedDocumentTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func create() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        return document
    }

    // MARK: Life

    @Test func createdDocumentIsOnDiskAndEmpty() async throws {
        let document = try await create()
        #expect(document.documentState == .normal)
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == [])
        #expect(FileSystem.exists(DocumentPackageLayout(path: path).store))
        try await document.close()
        #expect(document.documentState == .closed)
    }

    @Test func savedChangesAreThereAfterReopening() async throws {
        let document = try await create()
        let picture = Data(repeating: 7, count: 300_000)
        try document.addNote("Größe", picture: picture)
        try document.additionalContent.write(Data("words".utf8), at: "texts/a.txt")
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        try await document.close()

        let again = ManagedDocument(path: path)
        try await again.open()
        #expect(try again.titles() == ["Größe"])
        let note = try #require(try again.managedObjectContext.fetch(FetchRequest("Note")).first)
        #expect(note["picture", as: Data.self] == picture)
        #expect(again.additionalContent.paths == ["texts/a.txt"])
        #expect(try again.additionalContent.data(at: "texts/a.txt") == Data("words".utf8))
        #expect(try await again.check() == [])
        try await again.close()
    }

    @Test func closeSavesAndLeavesOnlyTheDocument() async throws {
        let document = try await create()
        try document.addNote("kept")
        try await document.close()
        #expect(
            try FileSystem.contentsOfTree(path).map(\.path)
                .filter { $0 != StoreProtection.keybagName } == [
                    "DocumentMetadata.plist", "StoreContent", "StoreContent/persistentStore",
                ])
        #expect(try FileSystem.names(in: folder.path) == ["Notes.quire"])
        #expect(try await ManagedDocument.titles(at: path) == ["kept"])
    }

    @Test func closeDiscardingChangesDropsThem() async throws {
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        try await document.open()
        try document.addNote("dropped")
        try document.additionalContent.write(Data([1]), at: "dropped")
        try await document.close(discardingChanges: true)
        #expect(try await ManagedDocument.titles(at: path) == ["first"])
    }

    @Test func objectsHeldAfterCloseBelongToNoContext() async throws {
        let document = try await create()
        let note = try document.addNote("held")
        try await document.close()
        #expect(note.managedObjectContext == nil)
    }

    @Test func creatingOverSomethingIsRefused() async throws {
        try FileSystem.writeNewFile(Data("mine".utf8), at: path)
        let document = ManagedDocument(path: path)
        let error = await failure { try await document.create(model: notesModel) }
        #expect(error?.code == .alreadyExists)
        #expect(document.documentState == .closed)
        #expect(try FileSystem.contents(of: path) == Data("mine".utf8))
    }

    @Test func openingWhatIsNotThereOrNoDocumentSaysSo() async throws {
        let missing = await failure { try await ManagedDocument(path: path).open() }
        #expect(missing?.code == .notFound)
        #expect(missing?.message.contains(path) == true)
        try FileSystem.makeFolder(path)
        let empty = await failure { try await ManagedDocument(path: path).open() }
        #expect(empty?.code == .invalidFormat)
        let layout = DocumentPackageLayout(path: path)
        try FileSystem.makeFolder(layout.storeFolder)
        try FileSystem.writeNewFile(Data("not a database at all".utf8), at: layout.store)
        let text = await failure { try await ManagedDocument(path: path).open() }
        #expect(text?.code == .invalidFormat)
        #expect(!FileSystem.exists(layout.lock))
    }

    // MARK: Undo

    @Test func undoBackToWhatWasSavedIsClean() async throws {
        let document = try await create()
        let note = try document.addNote("one")
        document.managedObjectContext.processPendingChanges()
        try await document.save()
        note["title"] = "two"
        document.managedObjectContext.processPendingChanges()
        #expect(document.hasUnsavedChanges)
        document.undoManager?.undo()
        #expect(note["title", as: String.self] == "one")
        #expect(!document.hasUnsavedChanges)
        document.undoManager?.undo()
        #expect(document.hasUnsavedChanges)
        document.undoManager?.redo()
        #expect(!document.hasUnsavedChanges)
        document.undoManager?.redo()
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["two"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["two"])
    }

    @Test func aGroupOfSeveralEventsIsOneStepFromWhatWasSaved() async throws {
        let document = try await create()
        let note = try document.addNote("one")
        try await document.save()
        let undoManager = try #require(document.undoManager)
        undoManager.beginUndoGrouping()
        for title in ["two", "three"] {
            note["title"] = title
            document.managedObjectContext.processPendingChanges()
            #expect(document.hasUnsavedChanges)
        }
        undoManager.endUndoGrouping()
        document.managedObjectContext.processPendingChanges()
        undoManager.undo()
        #expect(note["title", as: String.self] == "one")
        #expect(!document.hasUnsavedChanges)
        undoManager.redo()
        #expect(document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func aNewEditAfterUndoPutsWhatWasSavedOutOfReach() async throws {
        let document = try await create()
        let note = try document.addNote("one")
        document.managedObjectContext.processPendingChanges()
        note["title"] = "two"
        try await document.save()
        let undoManager = try #require(document.undoManager)
        undoManager.undo()
        note["title"] = "three"
        document.managedObjectContext.processPendingChanges()
        undoManager.undo()
        #expect(document.hasUnsavedChanges)
        undoManager.redo()
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["three"])
    }

    @Test func droppedLevelsPutWhatWasSavedOutOfReach() async throws {
        let document = try await create()
        let note = try document.addNote("0")
        try await document.save()
        let undoManager = try #require(document.undoManager)
        undoManager.levelsOfUndo = 2
        for title in ["1", "2", "3"] {
            note["title"] = title
            document.managedObjectContext.processPendingChanges()
        }
        while undoManager.canUndo { undoManager.undo() }
        #expect(note["title", as: String.self] == "1")
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        undoManager.redo()
        #expect(document.hasUnsavedChanges)
        undoManager.undo()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func forgettingWhatCouldBeUndoneChangesNothing() async throws {
        let document = try await create()
        try document.addNote("one")
        try await document.save()
        document.undoManager?.removeAllActions()
        #expect(!document.hasUnsavedChanges)
        document.undoManager = UndoManager()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func discardableActionsNeedNotBeSaved() async throws {
        let document = try await create()
        try document.addNote("one")
        try await document.save()
        let undoManager = try #require(document.undoManager)
        undoManager.beginUndoGrouping()
        undoManager.registerUndo(withTarget: document) { _ in }
        undoManager.setActionIsDiscardable(true)
        undoManager.endUndoGrouping()
        document.managedObjectContext.processPendingChanges()
        #expect(!document.hasUnsavedChanges)
        undoManager.undo()
        #expect(!document.hasUnsavedChanges)
        undoManager.undo()
        #expect(document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func changesWithoutUndoManagerCountToo() async throws {
        let document = try await create()
        document.undoManager = nil
        try document.addNote("one")
        document.managedObjectContext.processPendingChanges()
        #expect(document.hasUnsavedChanges)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func changesThatTheUndoManagerDoesNotSeeAreSavedAtClose() async throws {
        let document = try await create()
        document.undoManager?.disableUndoRegistration()
        try document.addNote("unseen")
        document.undoManager?.enableUndoRegistration()
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["unseen"])
    }

    @Test func rollbackIsClean() async throws {
        let document = try await create()
        try document.addNote("one")
        document.managedObjectContext.processPendingChanges()
        document.managedObjectContext.rollback()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func changeCountsOfOthersMakeItUnsaved() async throws {
        let document = try await create()
        document.updateChangeCount(.done)
        #expect(document.hasUnsavedChanges)
        document.updateChangeCount(.undone)
        #expect(!document.hasUnsavedChanges)
        document.updateChangeCount(.done)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    // MARK: Revert

    @Test func revertGoesBackToTheLastSave() async throws {
        let document = try await create()
        try document.addNote("saved")
        try document.additionalContent.write(Data([1]), at: "a")
        try await document.save()
        try document.addNote("unsaved")
        try document.additionalContent.write(Data([2]), at: "a")
        try document.additionalContent.write(Data([3]), at: "b")
        try await document.revert()
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == ["saved"])
        #expect(try document.additionalContent.data(at: "a") == Data([1]))
        #expect(document.additionalContent.paths == ["a"])
        #expect(document.undoManager?.canUndo == false)
        try await document.close()
    }

    // MARK: Requests

    @Test func completionHandlersAreCalledOnceInOrderAndLater() async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        var log: [String] = []
        await withCheckedContinuation { continuation in
            document.autosave { log.append("autosave \($0 == nil)") }
            document.revert { log.append("revert \($0 == nil)") }
            document.open(readOnly: true) { log.append("open \($0?.code.rawValue ?? "")") }
            document.close { log.append("close \($0 == nil)") }
            document.autosave { error in
                log.append("autosave \(error?.code.rawValue ?? "")")
                continuation.resume()
            }
            #expect(log.isEmpty)
        }
        #expect(
            log == [
                "autosave true", "revert true", "open invalidState", "close true",
                "autosave invalidState",
            ])
    }

    /// The request that follows a save to a path, with a completion handler.
    enum Follower: CaseIterable { case close, closeDiscarding, revert, autosave, saveAs }

    @Test(arguments: Follower.allCases, [true, false])
    func saveToPathComesBeforeTheNextRequest(
        _ follower: Follower, _ isElsewhere: Bool
    ) async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("typed")
        let url = URL(fileURLWithPath: isElsewhere ? folder.path("Other.quire") : path)
        let third = URL(fileURLWithPath: folder.path("Third.quire"))
        var log: [String] = []
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let end: DocumentCompletionHandler = { error in
                log.append("next \(error == nil)")
                continuation.resume()
            }
            document.save(to: url, for: isElsewhere ? .forCreating : .forOverwriting) {
                log.append("save \($0 == nil)")
            }
            switch follower {
            case .close: document.close(completionHandler: end)
            case .closeDiscarding:
                document.close(discardingChanges: true, completionHandler: end)
            case .revert: document.revert(completionHandler: end)
            case .autosave: document.autosave(completionHandler: end)
            case .saveAs:
                document.save(to: third, for: .forCreating, completionHandler: end)
            }
        }
        #expect(log == ["save true", "next true"])
        try await document.close(discardingChanges: true)
        #expect(try await ManagedDocument.titles(at: url.path) == ["typed"])
    }

    @Test func saveToPathThatCreatesComesBeforeClosing() async throws {
        final class Notes: ManagedDocument {
            override var managedObjectModel: ManagedObjectModel? { notesModel }
        }
        let document = Notes(path: folder.path("Old.quire"))
        var log: [String] = []
        await withCheckedContinuation { continuation in
            document.save(to: URL(fileURLWithPath: path), for: .forCreating) {
                log.append("create \($0 == nil)")
            }
            document.close { error in
                log.append("close \(error == nil)")
                continuation.resume()
            }
        }
        #expect(log == ["create true", "close true"])
        #expect(document.documentState == .closed)
        #expect(document.path == path)
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
        #expect(try await ManagedDocument.titles(at: path).isEmpty)
    }

    @Test func saveToPathOfNoFileFailsLater() async throws {
        let document = try await create()
        let url = try #require(URL(string: "https://example.org/a"))
        var log: [String] = []
        let error: QuireError? = await withCheckedContinuation { continuation in
            document.save(to: url, for: .forCreating) { error in
                log.append("answer")
                continuation.resume(returning: error)
            }
            log.append("made")
        }
        #expect(log == ["made", "answer"])
        #expect(error?.code == .invalidValue)
        try await document.close()
    }

    @Test func closeDuringOpenCancelsTheOpening() async throws {
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        var opened: QuireError?
        document.open { opened = $0 }
        try await document.close()
        #expect(opened?.code == .cancelled)
        #expect(document.documentState == .closed)
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
    }

    @Test func statesAreToldInOrder() async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        var states: [DocumentState] = []
        document.stateChangeHandler = { states.append($0.current) }
        try await document.create(model: notesModel)
        try document.addNote("a")
        try await document.close()
        #expect(
            states == [
                [.closed, .progressAvailable], .normal, [.progressAvailable, .editingDisabled],
                .editingDisabled, .closed,
            ])
    }

    // MARK: Saving

    @Test func whatIsChangedWhileASaveRunsIsInTheNext() async throws {
        let document = try await create()
        try document.addNote("before")
        try document.additionalContent.write(Data([1]), at: "before")
        document.submit(.save) { _ in }
        // The snapshot has been taken; nothing of this belongs to that save.
        try document.addNote("after")
        try document.additionalContent.write(Data([2]), at: "after")
        try document.additionalContent.write(Data([3]), at: "before")
        #expect(try document.additionalContent.data(at: "before") == Data([3]))
        var seen: (titles: [String], content: [String], isUnsaved: Bool)?
        await withCheckedContinuation { continuation in
            // Behind the running save.
            document.check { problems in
                seen = problems
                continuation.resume()
            }
        }
        #expect(seen?.titles == ["before"])
        #expect(seen?.content == ["before"])
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["after", "before"])
    }

    @Test func invalidObjectFailsTheSaveAndLosesNothing() async throws {
        try await ManagedDocument.make(at: path)
        let before = try contents(ofFolder: path)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        let note = try document.addNote(String(repeating: "long", count: 50))
        try document.additionalContent.write(Data([1]), at: "file")
        var errors: [QuireError?] = []
        document.stateChangeHandler = { errors.append($0.error) }
        let error = await failure { try await document.save() }
        #expect(error?.code == .validation)
        #expect(document.documentState == .savingError)
        #expect(document.lastSaveError?.code == .validation)
        #expect(errors.last??.code == .validation)
        #expect(document.hasUnsavedChanges)
        let closing = await failure { try await document.close() }
        #expect(closing?.code == .validation)
        #expect(document.isOpen)
        var after = try contents(ofFolder: path)
        for name in [
            ".lock", "StoreContent/persistentStore-wal", "StoreContent/persistentStore-shm",
        ] {
            after[name] = nil
        }
        #expect(after == before)

        note["title"] = "short"
        try await document.close()
        #expect(document.lastSaveError == nil)
        #expect(try await ManagedDocument.titles(at: path) == ["first", "short"])
    }

    @Test func failureInTheParentIsNotLostEither() async throws {
        let document = try await create()
        try document.addNote("a", code: "same")
        try await document.save()
        let second = try document.addNote("b", code: "same")
        try document.additionalContent.write(Data([1]), at: "file")
        let error = await failure { try await document.save() }
        #expect(error?.code == .constraintConflict)
        #expect(document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["a"])
        #expect(try document.package.additionalContent().isEmpty)
        #expect(try FileSystem.contentsOfTree(document.package.layout.additionalContent).isEmpty)
        second["code"] = "other"
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["a", "b"])
        #expect(try document.package.additionalContent().map(\.path) == ["file"])
        #expect(try await document.check().filter { $0.severity == .error } == [])
        try await document.close()
    }

    @Test func contentsCanAddAndRefuse() async throws {
        let document = ScriptedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        document.script = { try $0.additionalContent.write(Data([1]), at: "added") }
        try document.addNote("a")
        try await document.save()
        #expect(document.log == ["load", "contents", "did"])
        #expect(try document.package.additionalContent().map(\.path) == ["added"])
        document.script = { _ in throw QuireError(.validation, "Not now.") }
        try document.addNote("b")
        let error = await failure { try await document.save() }
        #expect(error?.message == "Not now.")
        #expect(document.hasUnsavedChanges)
        document.script = { _ in }
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["a", "b"])
    }

    @Test func failingLoadFailsTheOpening() async throws {
        try await ManagedDocument.make(at: path)
        let document = ScriptedDocument(path: path)
        document.loadError = QuireError(.invalidValue, "Wrong document.")
        let error = await failure { try await document.open() }
        #expect(error?.message == "Wrong document.")
        #expect(!document.isOpen)
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
        document.loadError = nil
        try await document.open()
        try await document.close()
    }

    // MARK: Autosave

    @Test func unsavedChangesSaveThemselves() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        document.autosavePolicy = AutosavePolicy(delay: .milliseconds(5))
        await withCheckedContinuation { continuation in
            document.stateChangeHandler = { change in
                if change.previous.contains(.progressAvailable), change.current == .normal {
                    document.stateChangeHandler = nil
                    continuation.resume()
                }
            }
            #expect((try? document.addNote("by itself")) != nil)
        }
        #expect(!document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["by itself"])
        try await document.close()
    }

    @Test func retriesWaitLongerUpToABound() {
        let policy = AutosavePolicy()
        #expect(
            (0...7).map { policy.delay(afterFailures: $0) }
                == [15, 15, 30, 60, 120, 240, 300, 300].map { Duration.seconds($0) })
        #expect(policy.delay(afterFailures: 1_000_000) == .seconds(300))
    }
}

/// Runs a script before each save.
private final class ScriptedDocument: ManagedDocument {
    var script: (ManagedDocument) throws -> Void = { _ in }
    var loadError: QuireError?
    var log: [String] = []

    override func load(fromContents contents: (any Sendable)?) throws {
        log.append("load")
        if let loadError { throw loadError }
    }

    override func contents(forType type: String) throws -> (any Sendable)? {
        log.append("contents")
        try script(self)
        return nil
    }

    override func didSave() { log.append("did") }
}

extension ManagedDocument {
    /// Reads the package as it is on disk when the running save has ended.
    fileprivate func check(
        _ body: @escaping (_ seen: (titles: [String], content: [String], isUnsaved: Bool)?) -> Void
    ) {
        stateChangeHandler = { [weak self] change in
            guard let self, change.previous.contains(.progressAvailable) else { return }
            stateChangeHandler = nil
            let context = ManagedObjectContext.mainQueue(coordinator: persistentStoreCoordinator)
            let titles = try? context.fetch(FetchRequest("Note")).compactMap {
                $0["title", as: String.self]
            }
            let content = try? package.additionalContent().map(\.path)
            body((titles?.sorted() ?? [], content ?? [], hasUnsavedChanges))
        }
    }
}
