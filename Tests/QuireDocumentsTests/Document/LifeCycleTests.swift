import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The order in which a subclass is called, and what it can do then.
@Suite @MainActor struct LifeCycleTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    @Test(.inClear) func subclassesAreCalledInTheOrderOfUIManagedDocument() async throws {
        let document = LoggingDocument(path: path)
        try await document.create()
        #expect(document.takeLog() == ["configure", "load nil", "state normal"])
        document.text = "first"
        document.updateChangeCount(.done)
        try await document.save()
        #expect(
            document.takeLog() == [
                "state saving", "contents", "snapshot", "write after nil", "did save",
                "state normal",
            ])
        document.text = "second"
        document.updateChangeCount(.done)
        try await document.close()
        #expect(
            document.takeLog() == [
                "disable", "state saving", "contents", "snapshot", "write after first",
                "did save", "state closing", "state closed",
            ])
        try await document.open()
        #expect(
            document.takeLog() == [
                "configure", "read second", "load second", "state normal", "enable",
            ])
        document.text = "unsaved"
        document.updateChangeCount(.done)
        try await document.revert()
        #expect(
            document.takeLog() == [
                "disable", "state reverting", "read second", "load second", "state normal",
                "enable",
            ])
        #expect(document.text == "second")
        try await document.close()
    }

    @Test(.inClear) func whatASubclassWritesBelongsToTheSaveWithTheObjects() async throws {
        let document = LoggingDocument(path: path)
        try await document.create()
        document.text = "one"
        try document.addNote("note")
        try document.additionalContent.write(Data([1]), at: "more/file")
        try await document.save()
        #expect(document.additionalContent.paths == ["more/file", "text"])
        document.failure = QuireError(.inputOutput, "The writer fails.")
        document.text = "two"
        try document.addNote("second")
        let error = await failure { try await document.save() }
        #expect(error?.message == "The writer fails.")
        #expect(document.errors.map(\.message) == ["The writer fails."])
        #expect(document.hasUnsavedChanges)
        #expect(try await ManagedDocument.titles(at: path) == ["note"])
        #expect(
            try document.package.additionalContent(at: "text") == Data("one".utf8))
        document.failure = nil
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["note", "second"])
        let reader = LoggingDocument(path: path)
        try await reader.open(readOnly: true)
        #expect(reader.text == "two")
        try await reader.close()
    }

    @Test(.inClear) func whatCannotBeSavedIsNotKeptAndReportedOnce() async throws {
        let document = LoggingDocument(path: path)
        try await document.create()
        document.text = "one"
        document.failure = QuireError(.inputOutput, "The writer fails.")
        document.updateChangeCount(.done)
        let version = await failure { try await document.keepVersion() }
        #expect(version?.message == "The writer fails.")
        #expect(document.errors.map(\.message) == ["The writer fails."])
        let archive = folder.path("a.zip")
        let export = await failure { try await document.export(to: archive) }
        #expect(export?.message == "The writer fails.")
        #expect(document.errors.count == 2)
        #expect(!FileSystem.exists(archive))
        document.failure = nil
        document.errors = []
        // An error of the export itself is none of the document.
        let unknown = await failure { try await document.export(to: folder.path("a.rar")) }
        #expect(unknown?.code == .unsupported)
        #expect(document.errors.isEmpty && document.documentState == .normal)
        #expect(try await document.versions().isEmpty)
        try await document.close()
    }

    /// Dropping it does not save; but no other process is kept from the document, or asks one that is gone.
    @Test func droppedDocumentLeavesNothingOpen() async throws {
        try await ManagedDocument.make(at: path)
        weak var dropped: ManagedDocument?
        weak var presence: DocumentPresence?
        for readOnly in [false, true, false] {
            do {
                let document = ManagedDocument(path: path)
                try await document.open(readOnly: readOnly)
                try document.addNote("unsaved")
                dropped = document
                presence = document.presence
                #expect(presence != nil)
            }
            // The last work on its queues may still be ending.
            for _ in 0..<100_000 where dropped != nil || presence != nil { await Task.yield() }
            #expect(dropped == nil)
            #expect(presence == nil)
            #expect(!FileCoordinator.filePresenters.contains { $0.presentedItemPath == path })
            let answer = try PackageListener.ask(
                "status", aboutPackageAt: path, within: .seconds(5))
            #expect(answer == nil)
        }
        let document = ManagedDocument(path: path)
        try await document.open()
        #expect(try document.titles() == ["first"])
        try await document.close()
    }

    @Test(.inClear) func aSubclassMayNotWriteLinksThatLeadElsewhere() async throws {
        let document = LoggingDocument(path: path)
        try await document.create()
        document.text = "link"
        document.linksElsewhere = true
        let error = await failure { try await document.save() }
        #expect(error?.code == .invalidValue)
        #expect(try document.package.additionalContent().isEmpty)
        try await document.close(discardingChanges: true)
    }

    @Test(.inClear) func stateChangesComeAsNotificationAndAsSequenceWithTheError() async throws {
        let document = LoggingDocument(path: path)
        try await document.create()
        let changes = document.stateChanges
        let told = LockedArray<DocumentStateChange>()
        let observer = NotificationCenter.default.addObserver(
            forName: ManagedDocument.stateChangedNotification, object: document, queue: nil
        ) { notification in
            guard let change = DocumentStateChange(notification) else { return }
            #expect(
                (notification.userInfo?[NSUnderlyingErrorKey] as? QuireError)?.message
                    == change.error?.message)
            told.append(change)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        document.failure = QuireError(.inputOutput, "No.")
        document.text = "x"
        _ = await failure { try await document.save() }
        var iterator = changes.makeAsyncIterator()
        let first = await iterator.next()
        let second = await iterator.next()
        #expect(first?.current == .progressAvailable && first?.error == nil)
        #expect(second?.current == .savingError && second?.error?.message == "No.")
        let notified = told.takeAll()
        #expect(notified.map(\.current) == [.progressAvailable, .savingError])
        #expect(notified.last?.error?.message == "No.")
        document.failure = nil
        try await document.close()
    }

    @Test func aTokenCoversWhatItWasTakenOf() async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("one")
        let token = document.changeCountToken()
        #expect(document.hasUnsavedChanges)
        document.updateChangeCount(with: token)
        #expect(!document.hasUnsavedChanges)
        let second = document.changeCountToken()
        try document.addNote("two")
        document.managedObjectContext.processPendingChanges()
        document.updateChangeCount(with: second)
        #expect(document.hasUnsavedChanges)
        document.undoManager?.undo()
        #expect(!document.hasUnsavedChanges)
        document.updateChangeCount(with: token)
        #expect(document.hasUnsavedChanges)
        try await document.close(discardingChanges: true)
    }

    @Test func fileAccessHasThePackageToItself() async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("one")
        var log: [String] = []
        let before = try await document.performAsynchronousFileAccess {
            try $0.store.count(matching: FetchSpecification("Note"))
        }
        log.append("found \(before)")
        document.submit(.save) { _ in log.append("saved") }
        let count = try await document.performAsynchronousFileAccess {
            try $0.store.count(matching: FetchSpecification("Note"))
        }
        log.append("found \(count)")
        #expect(log == ["found 0", "saved", "found 1"])
        let error = await failure {
            try await document.performAsynchronousFileAccess { _ in
                throw QuireError(.invalidValue, "Mine.")
            }
        }
        #expect(error?.message == "Mine.")
        try await document.close()
        let closed = await failure { try await document.performAsynchronousFileAccess { _ in } }
        #expect(closed?.code == .invalidState)
    }
}

/// Keeps a text beside the objects, and says what it is called for.
private final class LoggingDocument: ManagedDocument {
    var text: String?
    var errors: [QuireError] = []
    nonisolated(unsafe) var failure: QuireError?  // Changed only while no save runs.
    nonisolated(unsafe) var linksElsewhere = false  // The same.
    private let log = EventLog()

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        autosavePolicy = .never
        stateChangeHandler = { [log] change in
            let name: String? =
                switch change.current {
                case .normal: "normal"
                case .closed: "closed"
                case .editingDisabled:
                    change.previous.contains(.progressAvailable) ? "closing" : "reverting"
                case [.progressAvailable, .editingDisabled], .progressAvailable: "saving"
                default: nil
                }
            if let name { log.add("state \(name)") }
        }
    }

    func takeLog() -> [String] { log.take() }

    override var managedObjectModel: ManagedObjectModel? { notesModel }

    override nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {
        #expect(storeURL.lastPathComponent == "persistentStore" && fileType == "quire")
        log.add("configure")
    }

    override nonisolated func readAdditionalContent(from folder: URL) throws
        -> (any Sendable)?
    {
        let text = String(
            decoding: try FileSystem.contents(of: FileSystem.path(folder.path, "text")),
            as: UTF8.self)
        log.add("read \(text)")
        return text
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        text = contents as? String
        log.add("load \(text ?? "nil")")
    }

    override func contents(forType type: String) throws -> (any Sendable)? {
        log.add("contents")
        #expect(type == "quire")
        return try super.contents(forType: type)
    }

    override func additionalContent(for url: URL) throws -> (any Sendable)? {
        log.add("snapshot")
        return text
    }

    override nonisolated func writeAdditionalContent(
        _ content: any Sendable, to url: URL, originalContentsURL: URL?
    ) throws {
        if let failure { throw failure }
        let folder = url.path
        let old = try originalContentsURL.map {
            String(
                decoding: try FileSystem.contents(of: FileSystem.path($0.path, "text")),
                as: UTF8.self)
        }
        log.add("write after \(old ?? "nil")")
        if linksElsewhere {
            try FileSystem.makeSymbolicLink(FileSystem.path(folder, "text"), to: "/etc/passwd")
        } else {
            try Data((content as? String ?? "").utf8)
                .write(to: URL(fileURLWithPath: FileSystem.path(folder, "text")))
        }
    }

    override func didSave() { log.add("did save") }

    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        #expect(userInteractionPermitted)
        errors.append(error)
    }

    override func disableEditing() { log.add("disable") }

    override func enableEditing() { log.add("enable") }
}

/// What was called, from any thread.
private final class EventLog: Sendable {
    private let events = LockedArray<String>()

    func add(_ event: String) { events.append(event) }

    func take() -> [String] { events.takeAll() }
}
