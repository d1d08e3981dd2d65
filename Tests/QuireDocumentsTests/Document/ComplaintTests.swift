import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What people have complained of about documents elsewhere, each as a test that it is not so here. The numbers are those
/// of the list in the design.
@Suite @MainActor struct ComplaintTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved", picture: Data(repeating: 1, count: 200_000))
        try await document.save()
        return document
    }

    @Test func a01_openingWithAnotherModelSaysWhyInTheState() async throws {
        try await make().close()
        let document = ManagedDocument(path: path)
        var told: [DocumentStateChange] = []
        document.stateChangeHandler = { told.append($0) }
        let other = ManagedObjectModel { Entity("Other") { Attribute("x", .string) } }
        let error = await failure { try await document.open(model: other) }
        #expect(error?.code == .incompatibleModel)
        #expect(document.documentState == .closed)
        #expect(told.last?.error?.code == .incompatibleModel)
    }

    @Test func a02_aNotificationSaysThatSavingFailedAndWhy() async throws {
        let document = try await make()
        let told = LockedArray<QuireError.Code?>()
        let observer = NotificationCenter.default.addObserver(
            forName: ManagedDocument.stateChangedNotification, object: document, queue: nil
        ) { told.append(DocumentStateChange($0)?.error?.code) }
        defer { NotificationCenter.default.removeObserver(observer) }
        try document.addNote(String(repeating: "x", count: 41))
        _ = await failure { try await document.save() }
        #expect(told.takeAll().last == .validation)
        try await document.close(discardingChanges: true)
    }

    @Test func a03_whenADocumentSavesItselfCanBeSet() async throws {
        let document = try await make()
        let changes = document.stateChanges
        document.autosavePolicy = AutosavePolicy(delay: .milliseconds(1))
        try document.addNote("soon")
        for await change in changes where change.previous.contains(.progressAvailable) { break }
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "soon"])
        try await document.close()
    }

    @Test func a04_autosavingCanBeOffAndASaveWritesWhatChanged() async throws {
        let document = try await make()
        for number in 0..<5000 { try document.addNote("note \(number)") }
        try await document.close()
        try await document.open()
        let size = try #require(
            try FileSystem.information(at: document.package.layout.store)?.size)
        try document.addNote("one more")
        try await document.save()
        let log = try #require(
            try FileSystem.information(at: document.package.layout.store + "-wal")?.size)
        #expect(log < size / 4, "\(log) bytes of \(size)")
        try await document.close()
    }

    @Test func a05_anEditIsToldOnce() async throws {
        let document = try await make()
        let told = LockedArray<Bool>()
        let coordinator = document.persistentStoreCoordinator
        let observer = NotificationCenter.default.addObserver(
            forName: ManagedObjectContext.didChangeObjectsNotification, object: nil, queue: nil
        ) { notification in
            guard let context = notification.object as? ManagedObjectContext,
                context.persistentStoreCoordinator === coordinator
            else { return }
            told.append(true)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try document.addNote("edit")
        document.managedObjectContext.processPendingChanges()
        try await document.save()
        #expect(told.takeAll() == [true])
        try await document.close()
    }

    @Test func a06_openingIsAlwaysAnsweredAndADocumentHasItsName() async throws {
        let document = ManagedDocument(path: path)
        let error = await withCheckedContinuation { answer in
            document.open { answer.resume(returning: $0) }
        }
        #expect(error?.code == .notFound)
        #expect(document.localizedName == "Notes")
    }

    @Test func a07_aCopyOfAnOpenDocumentHasEverything() async throws {
        let document = try await make()
        try document.addNote("in the log")
        try await document.save()
        try document.package.writeCopy(to: folder.path("Copy.quire"))
        #expect(
            try await ManagedDocument.titles(at: folder.path("Copy.quire"))
                == ["in the log", "saved"])
        try await document.close()
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).store + "-wal"))
    }

    @Test func a08_externalDataSurviveAMove() async throws {
        let document = try await make()
        try await document.close()
        try FileSystem.rename(path, to: folder.path("Moved.quire"))
        let moved = ManagedDocument(path: folder.path("Moved.quire"))
        try await moved.open()
        let note = try moved.managedObjectContext.fetch(FetchRequest("Note")).first
        #expect(note?["picture", as: Data.self]?.count == 200_000)
        try await moved.close()
    }

    @Test func a09_savingAfterSaveAsReachesTheStore() async throws {
        let document = try await make()
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        try await document.save(as: URL(fileURLWithPath: folder.path("Other.quire")))
        note["title"] = "after"
        try await document.save()
        try await document.close()
        #expect(try await ManagedDocument.titles(at: folder.path("Other.quire")) == ["after"])
    }

    @Test func a10_savesAndCopiesOfANewDocumentDoNotWaitForEachOther() async throws {
        let document = try await make()
        try document.addNote("new")
        async let first: Void = document.save()
        async let second: Void = document.autosave()
        async let copy = document.duplicate().path
        async let third: Void = document.save()
        try await first
        try await second
        #expect(try await ManagedDocument.titles(at: copy) == ["new", "saved"])
        try await third
        try await document.close()
    }

    @Test func a11_aSaveDuringOpeningDoesNotKeepItFromOpening() async throws {
        try await make().close()
        let document = ManagedDocument(path: path)
        async let opening: Void = document.open()
        async let saving: Void = document.save()
        try await opening
        try? await saving
        #expect(document.isOpen)
        try await document.close()
    }

    @Test func a12_revertingDoesNotReopenAndInvalidObjectsAreKept() async throws {
        let document = try await make()
        try document.addNote(String(repeating: "x", count: 41))
        _ = await failure { try await document.autosave() }
        // As if the process ended here.
        try document.package.close()
        let again = ManagedDocument(path: path)
        again.autosavePolicy = .never
        try await again.open()
        #expect(again.hasUnsavedChanges)
        #expect(try again.titles().count == 2)
        try await again.close(discardingChanges: true)
        #expect(await failure { try await again.revert() }?.code == .invalidState)
        #expect(!again.isOpen)
    }

    @Test(.inClear) func a13_aFailureWithAdditionalContentLeavesTheStoreAsItWas() async throws {
        final class FailingDocument: ManagedDocument {
            override func additionalContent(for url: URL) throws -> (any Sendable)? { "x" }
            override nonisolated func writeAdditionalContent(
                _ content: any Sendable, to url: URL, originalContentsURL: URL?
            ) throws { throw QuireError(.inputOutput, "No.") }
        }
        try await make().close()
        let document = FailingDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("half")
        #expect(await failure { try await document.save() }?.message == "No.")
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
        try await document.close(discardingChanges: true)
    }

    @Test func a14_permanentIdentifiersDoNotTouchTheFiles() async throws {
        let document = try await make()
        let layout = document.package.layout
        func times() throws -> [Int64?] {
            try [layout.store, layout.store + "-wal", layout.metadata].map {
                try FileSystem.information(at: $0)?.modificationNanoseconds
            }
        }
        let before = try times()
        let note = try document.addNote("new")
        try document.managedObjectContext.obtainPermanentIDs(for: [note])
        #expect(!note.objectID.isTemporaryID)
        #expect(try times() == before)
        try await document.close()
    }

    @Test func a15_a16_versionsHaveObjectsAndFilesOfOneSave() async throws {
        let document = try await make()
        try document.additionalContent.write(Data([1]), at: "file")
        let version = try await document.keepVersion()
        try document.addNote("later")
        try document.additionalContent.write(Data([2]), at: "file")
        try await document.save()
        try await document.restore(version.id)
        #expect(try document.titles() == ["saved"])
        #expect(try document.additionalContent.data(at: "file") == Data([1]))
        try await document.close()
    }

    @Test func a17_readingAVersionGivesThatVersion() async throws {
        let document = try await make()
        let version = try await document.keepVersion()
        try document.addNote("later")
        try await document.save()
        let checkout = try await document.checkOut(version.id)
        #expect(try await ManagedDocument.titles(at: checkout.path) == ["saved"])
        try await document.close()
    }

    @Test func a18_coordinationEndsAndSaysWhoDidNotAnswer() async throws {
        let registry = FileAccessRegistry()
        let presenter = SilentPresenter(path)
        registry.add(presenter)
        let coordinator = FileCoordinator(
            presenter: nil, timeout: .milliseconds(20), registry: registry)
        let error = await failure {
            try await coordinator.coordinate(readingItemAt: path) { _ in }
        }
        #expect(error?.code == .timedOut)
        #expect(error?.message.contains("SilentPresenter") == true)
        presenter.gate.finish()
    }

    @Test func a19_aPackageMovedIntoAnotherFolderIsSavedThere() async throws {
        let document = try await make()
        try FileSystem.makeFolder(folder.path("dead zone"))
        try FileSystem.rename(path, to: folder.path("dead zone/Notes.quire"))
        try document.addNote("still saved")
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: folder.path("dead zone/Notes.quire"))
                == ["saved", "still saved"])
        #expect(!FileSystem.exists(path))
    }

    @Test func a20_aSubclassIsNeverCalledHalfOpen() async throws {
        final class LookingDocument: ManagedDocument {
            var found: [String] = []
            override func load(fromContents contents: (any Sendable)?) throws {
                found = try titles() + additionalContent.paths
            }
        }
        let first = try await make()
        try first.additionalContent.write(Data([1]), at: "file")
        try await first.close()
        let document = LookingDocument(path: path)
        try await document.open()
        #expect(document.found == ["saved", "file"])
        try await document.close()
    }
}

/// Does not answer before its gate is finished.
private final class SilentPresenter: FilePresenter {
    let gate: AsyncStream<Void>.Continuation
    private let stream: AsyncStream<Void>
    let presentedItemPath: String?

    init(_ path: String) {
        presentedItemPath = path
        (stream, gate) = AsyncStream.makeStream()
    }

    func savePresentedItemChanges() async throws { for await _ in stream {} }
}
