import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// One process writes, this one reads.
@Suite @MainActor struct TwoProcessTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    @Test func aReaderHasTheWriterSaveFirst() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        try await writer.perform("add second")
        #expect(DocumentPackage.ownerHasUnsavedChanges(at: path) == true)
        #expect(try await ManagedDocument.titles(at: path) == ["first"])
        let path = path
        let titles = try await FileCoordinator().coordinate(readingItemAt: path) { path in
            try await ManagedDocument.titles(at: path)
        }
        #expect(titles == ["first", "second"])
        #expect(DocumentPackage.ownerHasUnsavedChanges(at: path) == false)
        try await writer.perform("close")
    }

    @Test func theOwnerIsTheOtherProcess() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        let owner = try #require(try DocumentPackage.owner(at: path))
        #expect(owner.processIdentifier == writer.processIdentifier)
        #expect(owner.processName == "QuireCrashWriter")
        #expect(!owner.isThisProcess)
        try await writer.perform("close")
        #expect(try DocumentPackage.owner(at: path) == nil)
        #expect(try await reply() == .nobody)
    }

    @Test func whatTheWriterCannotSaveIsAnErrorForTheReader() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        try await writer.perform("add " + String(repeating: "x", count: 41))
        let error = await failure { _ = try await reply() }
        #expect(error?.code == .validation)
        #expect(error?.message.contains("could not be saved by process") == true)
        writer.killAndWait()
    }

    @Test func aWriterThatDoesNotAnswerIsNamed() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        try await writer.perform("stall")
        let error = await failure { _ = try await reply(within: .milliseconds(100)) }
        #expect(error?.code == .timedOut)
        #expect(error?.message.contains("by process \(writer.processIdentifier) (") == true)
        // A reader that does with what is on disk is not held up.
        let path = path
        let titles = try await FileCoordinator().coordinate(
            readingItemAt: path, options: .withoutChanges
        ) { try await ManagedDocument.titles(at: $0) }
        #expect(titles == ["first"])
        writer.killAndWait()
    }

    @Test func aKilledWriterIsNotWaitedFor() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        writer.killAndWait()
        #expect(try await reply() == .nobody)
        // What it left behind is in nobody's way.
        let next = try await CommandedProcess(opening: path)
        try await next.perform("add second")
        #expect(try await reply() == .saved)
        try await next.perform("close")
        #expect(try await ManagedDocument.titles(at: path) == ["first", "second"])
    }

    @Test func aMovedPackageIsFoundByItsReaders() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        let moved = folder.path("Moved.quire")
        try FileSystem.rename(path, to: moved)
        try await writer.perform("add second")
        let reply = try await FileQueue.copies.run { try DocumentPackage.askOwnerToSave(at: moved) }
        #expect(reply == .saved)
        #expect(try await ManagedDocument.titles(at: moved) == ["first", "second"])
        try await writer.perform("close")
    }

    @Test func aReaderSeesWhatTheWriterSaves() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        let reader = ObservingDocument(path: path)
        try await reader.open(readOnly: true)
        let notifications = EventRecorder<String?>()
        let coordinator = reader.persistentStoreCoordinator
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.remoteChangeNotification, object: coordinator,
            queue: nil
        ) { notifications.record($0.userInfo?["NSStoreUUID"] as? String) }
        defer { NotificationCenter.default.removeObserver(observer) }
        #expect(try reader.titles() == ["first"])
        let first = try #require(
            try reader.managedObjectContext.fetch(FetchRequest("Note")).first)

        try await writer.perform("add second")
        try await writer.perform("remove first")
        try await writer.perform("write notes/a.txt hello")
        try await writer.perform("save")
        #expect(await notifications.next() == reader.package.store.identity.uuid)
        while reader.additionalContent.paths.isEmpty {
            try #require(await reader.changes.next() != nil)
        }
        #expect(try reader.titles() == ["second"])
        #expect(try reader.additionalContent.data(at: "notes/a.txt") == Data("hello".utf8))
        #expect(first.isFault || first["title", as: String.self] == nil)

        try await writer.perform("add third")
        try await writer.perform("save")
        while try reader.titles() == ["second"] {
            try #require(await reader.changes.next() != nil)
        }
        #expect(try reader.titles() == ["second", "third"])
        try await reader.close()
        try await writer.perform("close")
    }

    @Test func manyReadersSeeTheSameSave() async throws {
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        var readers: [ObservingDocument] = []
        for _ in 0..<5 {
            let reader = ObservingDocument(path: path)
            try await reader.open(readOnly: true)
            readers.append(reader)
        }
        try await writer.perform("add second")
        try await writer.perform("save")
        for reader in readers {
            while try reader.titles() == ["first"] {
                try #require(await reader.changes.next() != nil)
            }
            #expect(try reader.titles() == ["first", "second"])
            try await reader.close()
        }
        try await writer.perform("close")
    }

    private func reply(within timeout: Duration = .seconds(600)) async throws -> OwnerReply {
        let path = path
        return try await FileQueue.copies.run {
            try DocumentPackage.askOwnerToSave(at: path, timeout: timeout)
        }
    }
}

/// Tells of changes by others.
private final class ObservingDocument: ManagedDocument {
    let changes = EventRecorder<Void>()

    override func presentedItemDidChange() { changes.record(()) }
}

@Suite @MainActor struct DocumentPresenceTests {
    @Test func anotherReaderInThisProcessHasTheDocumentSaved() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("second")
        let titles = try await FileCoordinator().coordinate(readingItemAt: path) { path in
            try await ManagedDocument.titles(at: path)
        }
        #expect(titles == ["first", "second"])
        #expect(!document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func aDocumentThatIsDeletedByCoordinationIsClosed() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("second")
        try await FileCoordinator().coordinate(writingItemAt: path, for: .deleting) { path in
            try FileSystem.removeTree(path)
        }
        #expect(!document.isOpen)
        #expect(!FileSystem.exists(path))
    }

    @Test func aDocumentThatIsMovedByCoordinationGoesOnThere() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        let moved = folder.path("Moved.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("second")
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: path, for: .moving, writingItemAt: moved, for: .replacing
        ) { old, new in
            try FileSystem.renameWithoutReplacing(old, to: new)
            await coordinator.item(at: old, didMoveTo: new)
        }
        #expect(document.path == moved)
        try document.addNote("third")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: moved) == ["first", "second", "third"])
    }

    @Test func aClosedDocumentIsNotAsked() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        try await document.open()
        #expect(FileCoordinator.filePresenters.contains { $0.presentedItemPath == path })
        try await document.close()
        #expect(!FileCoordinator.filePresenters.contains { $0.presentedItemPath == path })
    }

    @Test func socketsOfClosedDocumentsAreRemoved() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let package = try #require(try FileSystem.information(at: path))
        let runtime = try #require(RuntimeFolder.make())
        let socket = FileSystem.path(runtime, RuntimeFolder.socketName(of: package))
        let document = ManagedDocument(path: path)
        try await document.open()
        #expect(FileSystem.exists(socket))
        try await document.close()
        #expect(!FileSystem.exists(socket))
    }

    @Test func aFolderThatOthersCanEnterIsNoRuntimeFolder() throws {
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        #expect(!RuntimeFolder.isSafe(folder.path))
        chmod(folder.path, 0o700)
        #expect(RuntimeFolder.isSafe(folder.path))
        try FileSystem.makeSymbolicLink(folder.path("link"), to: folder.path)
        #expect(!RuntimeFolder.isSafe(folder.path("link")))
        #expect(!RuntimeFolder.isSafe(folder.path("none")))
    }
}
