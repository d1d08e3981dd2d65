import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents that are saved elsewhere, copied, moved and reverted to others.
@Suite @MainActor struct SavingElsewhereTests {
    let folder: TemporaryFolder
    let path: String
    let other: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        other = folder.path("Other.quire")
    }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved", picture: Data(repeating: 1, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "a")
        try await document.save()
        return document
    }

    // MARK: Save As

    @Test func saveAsGoesOnWithTheNewPackage() async throws {
        let document = try await make()
        let note = try document.addNote("new", picture: Data(repeating: 2, count: 300_000))
        try document.additionalContent.write(Data([2]), at: "b")
        let context = document.managedObjectContext
        try await document.save(as: URL(fileURLWithPath: other))
        #expect(document.path == other)
        #expect(document.documentState == .normal)
        #expect(!document.hasUnsavedChanges)
        #expect(document.managedObjectContext === context)
        #expect(note.managedObjectContext === context)
        #expect(note["title", as: String.self] == "new")
        // The old one is what it was, and free.
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
        #expect(FileSystem.exists(DocumentPackageLayout(path: other).lock))

        note["title"] = "newer"
        try await document.save()
        try document.addNote("third")
        let problems = try await document.check()
        #expect(problems.isEmpty)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["newer", "saved", "third"])
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
        let reader = ManagedDocument(path: other)
        try await reader.open(readOnly: true)
        #expect(reader.additionalContent.paths == ["a", "b"])
        try await reader.close()
    }

    @Test func undoAfterSaveAsBringsBackExternalDataThatTheCopyNoLongerNeeds() async throws {
        let document = try await make()
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        note["picture"] = Data(repeating: 3, count: 250_000)
        document.managedObjectContext.processPendingChanges()
        try await document.save()
        try await document.save(as: URL(fileURLWithPath: other))
        try FileSystem.removeTree(path)
        document.undoManager?.undo()
        #expect(note["picture", as: Data.self] == Data(repeating: 1, count: 200_000))
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["saved"])
    }

    @Test func externalDataIsFoundAfterTheOldPackageIsGone() async throws {
        try await make().close()
        let document = ManagedDocument(path: path)
        try await document.open()
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        try await document.save(as: URL(fileURLWithPath: other))
        try FileSystem.removeTree(path)
        #expect(note["picture", as: Data.self] == Data(repeating: 1, count: 200_000))
        try await document.close()
    }

    @Test func whatIsChangedDuringSaveAsStaysUnsaved() async throws {
        let document = try await make()
        try document.addNote("before")
        async let saving: Void = document.save(as: URL(fileURLWithPath: other))
        while !document.documentState.contains(.progressAvailable) { await Task.yield() }
        try document.addNote("during")
        try document.additionalContent.write(Data([9]), at: "during")
        try await saving
        #expect(document.hasUnsavedChanges)
        #expect(try document.package.additionalContent().map(\.path) == ["a"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["before", "during", "saved"])
    }

    @Test func aURLThatIsNotOfAFileIsRefusedByName() async throws {
        let document = try await make()
        let url = try #require(URL(string: "https://example.org/Other.quire"))
        let errors = [
            await failure { try await document.save(as: url) },
            await failure { try await document.writeCopy(to: url) },
            await failure { try await document.save(to: url, for: .forCreating) },
            await failure { try await document.move(to: url) },
            await failure { try await document.revert(to: url) },
            await failure { try await document.export(to: url) },
            await failure { try await ManagedDocument(fileURL: url).open() },
        ]
        for error in errors.dropLast() { #expect(error?.code == .invalidValue) }
        for error in errors { #expect(error?.message.contains("https:") == true) }
        #expect(document.fileURL.path == path)
        try await document.close()
    }

    private nonisolated static let otherFileSystem = "/dev/shm"

    private nonisolated static var hasOtherFileSystem: Bool {
        let temporary = NSTemporaryDirectory()
        let devices = [temporary, otherFileSystem].map {
            (try? FileSystem.information(at: $0))??.device
        }
        return devices[1] != nil && devices[0] != devices[1] && access(otherFileSystem, W_OK) == 0
    }

    @Test(.needs(hasOtherFileSystem, or: "/dev/shm is not another file system"))
    func movingToAnotherFileSystemIsRefusedAndChangesNothing() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let name = "quire-test-\(UUID().uuidString).quire"
        let target = FileSystem.path(Self.otherFileSystem, name)
        let errors = [
            await failure { try await document.move(to: URL(fileURLWithPath: target)) },
            await failure { try await DocumentLibrary.move(path, to: target) },
        ]
        for error in errors {
            #expect(error?.code == .unsupported)
            #expect(
                error?.message
                    == "“\(path)” cannot be moved to “\(target)”, because the new path is on another file system. Copy it there, and "
                    + "remove the original.")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.otherFileSystem)
        #expect(!names.contains { $0.contains(name) })
        #expect(document.path == path)
        try await document.save()
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "unsaved"])
    }

    @Test func failedSaveAsLeavesTheDocumentWhatItWas() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        try await ManagedDocument.make(at: other, titles: ["others"])
        let there = await failure { try await document.save(as: URL(fileURLWithPath: other)) }
        #expect(there?.code == .alreadyExists)
        #expect(document.path == path)
        #expect(document.hasUnsavedChanges)
        let nowhere = await failure {
            try await document.save(as: URL(fileURLWithPath: folder.path("no/where.quire")))
        }
        #expect(nowhere?.code == .notFound)
        let invalid = try document.addNote(String(repeating: "long", count: 50))
        let wrong = await failure {
            try await document.save(as: URL(fileURLWithPath: folder.path("Third.quire")))
        }
        #expect(wrong?.code == .validation)
        #expect(try FileSystem.names(in: folder.path).sorted() == ["Notes.quire", "Other.quire"])
        document.managedObjectContext.delete(invalid)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "unsaved"])
        #expect(try await ManagedDocument.titles(at: other) == ["others"])
    }

    @Test func saveAsReplacesADocumentThatNobodyHasOpen() async throws {
        let document = try await make()
        try await ManagedDocument.make(at: other, titles: ["others"])
        let writer = ManagedDocument(path: other)
        try await writer.open()
        let locked = await failure {
            try await document.save(as: URL(fileURLWithPath: other), replacing: true)
        }
        #expect(locked?.code == .locked)
        try await writer.close()
        try await document.save(to: URL(fileURLWithPath: other), for: .forOverwriting)
        #expect(document.path == other)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["saved"])
        #expect(try FileSystem.names(in: folder.path).sorted() == ["Notes.quire", "Other.quire"])
    }

    @Test func aDocumentThatIsReadOnlyCanBeEditedAndSavedAs() async throws {
        try await make().close()
        let before = try contents(ofFolder: path)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open(readOnly: true)
        try document.addNote("edited")
        #expect(await failure { try await document.save() }?.code == .readOnly)
        try await document.save(as: URL(fileURLWithPath: other))
        #expect(!document.isReadOnly)
        try document.addNote("and again")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["and again", "edited", "saved"])
        #expect(try contents(ofFolder: path) == before)
    }

    @Test func saveToAPlaceMakesADocumentThatIsNotOpen() async throws {
        final class NotesDocument: ManagedDocument {
            override var managedObjectModel: ManagedObjectModel? { notesModel }
        }
        let document = NotesDocument(path: path)
        try await document.save(to: URL(fileURLWithPath: path), for: .forCreating)
        try document.addNote("one")
        let error = await failure {
            try await document.save(to: URL(fileURLWithPath: path), for: .forCreating)
        }
        #expect(error?.code == .alreadyExists)
        try await document.save(to: URL(fileURLWithPath: path), for: .forOverwriting)
        #expect(!document.hasUnsavedChanges)
        try await document.close()
        let without = await failure { try await ManagedDocument(path: other).create() }
        #expect(without?.code == .invalidModel)
    }

    // MARK: Save To, duplicate

    @Test func saveToWritesWhatIsUnsavedAndLeavesItUnsaved() async throws {
        let document = try await make()
        try document.addNote("unsaved", picture: Data(repeating: 4, count: 200_000))
        try document.additionalContent.write(Data([5]), at: "b")
        try document.additionalContent.remove(at: "a")
        try await document.writeCopy(to: URL(fileURLWithPath: other))
        #expect(document.path == path)
        #expect(document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
        let copy = ManagedDocument(path: other)
        try await copy.open()
        #expect(try copy.titles() == ["saved", "unsaved"])
        #expect(copy.additionalContent.paths == ["b"])
        #expect(try await copy.check() == [])
        try await copy.close()
        try await document.close(discardingChanges: true)
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
    }

    @Test func duplicateLiesBesideUnderANameOfItsOwn() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let copy = try await document.duplicate()
        #expect(copy.path == folder.path("Notes 2.quire"))
        #expect(try await document.duplicate().path == folder.path("Notes 3.quire"))
        try await copy.open()
        #expect(try copy.titles() == ["saved", "unsaved"])
        try await copy.close()
        try await document.close(discardingChanges: true)
    }

    @Test func duplicatesMadeAtOnceGetDifferentNames() async throws {
        let document = try await make()
        async let first = document.duplicate()
        async let second = document.duplicate()
        let paths = try await [first.path, second.path]
        #expect(paths.sorted() == ["Notes 2.quire", "Notes 3.quire"].map { folder.path($0) })
        try await document.close()
    }

    @Test func aCopyOverTheDocumentItselfIsRefused() async throws {
        let document = try await make()
        let error = await failure {
            try await document.writeCopy(to: URL(fileURLWithPath: path), replacing: true)
        }
        #expect(error?.code == .alreadyExists)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
    }

    // MARK: Moving

    @Test func aMovedDocumentIsGoneOnWith() async throws {
        let document = try await make()
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        note["title"] = "changed"
        try await document.move(to: URL(fileURLWithPath: other))
        #expect(document.path == other)
        #expect(document.hasUnsavedChanges)
        #expect(!FileSystem.exists(path))
        #expect(note["picture", as: Data.self] == Data(repeating: 1, count: 200_000))
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["changed"])
        #expect(!FileSystem.exists(DocumentPackageLayout(path: other).lock))
    }

    @Test func aSaveFollowsAPackageThatSomebodyMoved() async throws {
        let document = try await make()
        try document.addNote("unsaved", picture: Data(repeating: 6, count: 200_000))
        try document.additionalContent.write(Data([7]), at: "b")
        try FileSystem.rename(path, to: other)
        try await document.save()
        #expect(document.path == other)
        #expect(try await ManagedDocument.titles(at: other) == ["saved", "unsaved"])
        // Another document at the old path is none of ours.
        try await ManagedDocument.make(at: path, titles: ["stranger"])
        try document.addNote("more")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["more", "saved", "unsaved"])
        #expect(try await ManagedDocument.titles(at: path) == ["stranger"])
        #expect(
            try FileSystem.names(in: DocumentPackageLayout(path: other).storeFolder).sorted()
                == [".persistentStore_SUPPORT", "persistentStore"])
    }

    @Test func aPackageThatCannotBeOpenedWhereItWasMovedIsReadAndSavedElsewhere() async throws {
        let document = try await make()
        document.stopWatching()
        try document.addNote("unsaved")
        try FileSystem.rename(path, to: other)
        // Whoever moves it goes on and deletes it, and is not done yet.
        for suffix in ["", "-wal", "-shm"] {
            try FileSystem.removeFile(DocumentPackageLayout(path: other).store + suffix)
        }
        for _ in 0..<2 {
            #expect(await failure { try await document.save() }?.code == .notFound)
            #expect(document.hasUnsavedChanges)
            #expect(try document.titles() == ["saved", "unsaved"])
        }
        let rescued = folder.path("Rescued.quire")
        let error = await failure { try await document.save(as: URL(fileURLWithPath: rescued)) }
        #expect(error?.code == .notFound)
        #expect(error?.failures.count == 2)
        #expect(!document.hasUnsavedChanges)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: rescued) == ["saved", "unsaved"])
    }

    @Test func closingAMovedDocumentLeavesTheLogOfAnotherAtItsOldPathAlone() async throws {
        let document = try await make()
        try FileSystem.rename(path, to: other)
        try document.addNote("moved")
        try await document.save()
        let stranger = ManagedDocument(path: path)
        try await stranger.create(model: notesModel)
        try stranger.addNote("stranger")
        try await stranger.save()
        let log = ["-wal", "-shm"].map { DocumentPackageLayout(path: path).store + $0 }
        try await document.close()
        #expect(log.allSatisfy { FileSystem.exists($0) })
        #expect(
            try FileSystem.names(in: DocumentPackageLayout(path: other).storeFolder).sorted()
                == [".persistentStore_SUPPORT", "persistentStore"])
        try stranger.addNote("more")
        try await stranger.save()
        try await stranger.close()
        #expect(try await ManagedDocument.titles(at: path) == ["more", "stranger"])
        #expect(try await ManagedDocument.titles(at: other) == ["moved", "saved"])
    }

    @Test func aDeletedPackageIsNotMadeAgain() async throws {
        let document = try await make()
        // As where nobody tells that it was deleted.
        document.stopWatching()
        try document.addNote("unsaved")
        try FileSystem.removeTree(path)
        let error = await failure { try await document.save() }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains("deleted") == true)
        #expect(document.hasUnsavedChanges)
        #expect(!FileSystem.exists(path))
        try await document.close(discardingChanges: true)
        #expect(!FileSystem.exists(path))
    }

    @Test func closingLeavesAPackageAloneThatHasTakenThePlaceOfOurs() async throws {
        let document = try await make()
        document.stopWatching()
        try FileSystem.removeTree(path)
        try await ManagedDocument.make(at: path, titles: ["stranger"])
        let before = try contents(ofFolder: path)
        #expect(await failure { try await document.save() }?.code == .notFound)
        try await document.close(discardingChanges: true)
        #expect(try contents(ofFolder: path) == before)
    }

    // MARK: Reverting to another

    @Test func revertToAnotherPackageTakesItsContent() async throws {
        let document = try await make()
        try await document.writeCopy(to: URL(fileURLWithPath: other))
        try document.addNote("later")
        try document.additionalContent.write(Data([8]), at: "a")
        try await document.save()
        try document.addNote("unsaved")
        try await document.revert(to: URL(fileURLWithPath: other))
        #expect(document.path == path)
        #expect(!document.hasUnsavedChanges)
        #expect(try document.titles() == ["saved"])
        #expect(try document.additionalContent.data(at: "a") == Data([1]))
        try document.addNote("after")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["after", "saved"])
        #expect(try await ManagedDocument.titles(at: other) == ["saved"])
    }

    @Test func revertToWhatIsNoDocumentChangesNothing() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let error = await failure { try await document.revert(to: URL(fileURLWithPath: other)) }
        #expect(error?.code == .notFound)
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["saved", "unsaved"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "unsaved"])
    }
}
