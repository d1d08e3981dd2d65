import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What others do to a package while it is open.
@Suite @MainActor struct OutsideChangesTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func make() async throws -> WatchedDocument {
        let document = WatchedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved", code: "1")
        try await document.save()
        return document
    }

    @Test func aMoveIsFollowedWithoutASave() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let other = folder.path("Elsewhere.quire")
        try FileSystem.rename(path, to: other)
        await document.waitFor("moved Elsewhere.quire")
        #expect(document.path == other)
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["saved", "unsaved"])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: other) == ["saved", "unsaved"])
    }

    @Test func aFolderAboveThatIsRenamedIsFollowed() async throws {
        try FileSystem.makeFolder(folder.path("above"))
        let document = WatchedDocument(path: folder.path("above/Notes.quire"))
        try await document.create(model: notesModel)
        try document.addNote("unsaved")
        try FileSystem.rename(folder.path("above"), to: folder.path("below"))
        await document.waitFor("moved Notes.quire")
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: folder.path("below/Notes.quire")) == ["unsaved"])
    }

    @Test func aDeletedPackageClosesTheDocumentAndIsNotMadeAgain() async throws {
        let document = try await make()
        document.autosavePolicy = AutosavePolicy(delay: .milliseconds(1))
        try FileSystem.removeTree(path)
        try document.addNote("unsaved")
        await document.waitFor("closed")
        #expect(document.log.contains("deleted with saved,unsaved"))
        #expect(!document.isOpen)
        #expect(try FileSystem.names(in: folder.path) == [])
    }

    /// A document with a value in a file and additional content, saved and unsaved, whose package is deleted; and what is to
    /// be done then.
    private func deleted(
        _ rescue: @escaping @MainActor (RescuedDocument) async throws -> Void
    ) async throws -> (document: RescuedDocument, error: QuireError?) {
        let document = RescuedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved", picture: Data(repeating: 1, count: 200_000))
        for name in ["a", "covers/b", "changed", "removed"] {
            try document.additionalContent.write(Data([1]), at: name)
        }
        try await document.save()
        try document.addNote("unsaved", picture: Data(repeating: 2, count: 200_000))
        try document.additionalContent.write(Data([2]), at: "changed")
        try document.additionalContent.write(Data([2]), at: "new")
        try document.additionalContent.remove(at: "removed")
        let error = await withCheckedContinuation { continuation in
            document.rescue = { [unowned document] in
                let error = await failure { try await rescue(document) }
                continuation.resume(returning: error)
            }
            do { try FileSystem.removeTree(path) } catch { Issue.record(error) }
        }
        return (document, error)
    }

    private func expectRescued(at other: String, _ error: QuireError?) async throws {
        #expect(error?.code == .notFound)
        #expect(error?.failures.count == 3)
        let message = error?.message ?? ""
        #expect(message.contains("the external data “"))
        #expect(message.contains("the additional content “a”"))
        #expect(message.contains("the additional content “covers/b”"))
        let copy = ManagedDocument(path: other)
        try await copy.open()
        #expect(try copy.titles() == ["saved", "unsaved"])
        #expect(copy.additionalContent.paths == ["changed", "new"])
        #expect(try copy.additionalContent.data(at: "changed") == Data([2]))
        let unsaved = try copy.managedObjectContext.fetch(FetchRequest("Note")).first {
            $0["title", as: String.self] == "unsaved"
        }
        #expect(unsaved?["picture", as: Data.self] == Data(repeating: 2, count: 200_000))
        try await copy.close()
    }

    @Test func savingADeletedDocumentElsewhereSavesWhatThereIsAndNamesTheFilesThatAreLost()
        async throws
    {
        let other = folder.path("Other.quire")
        let (document, error) = try await deleted {
            try await $0.save(as: URL(fileURLWithPath: other))
        }
        #expect(document.path == other)
        #expect(document.isOpen)
        #expect(!document.hasUnsavedChanges)
        #expect(document.errors.map(\.message) == [error?.message].compactMap(\.self))
        #expect(document.additionalContent.paths == ["changed", "new"])
        try await document.close()
        try await expectRescued(at: other, error)
    }

    @Test func aCopyOfADeletedDocumentHasWhatThereIsAndNamesTheFilesThatAreLost() async throws {
        let other = folder.path("Other.quire")
        let (document, error) = try await deleted {
            try await $0.writeCopy(to: URL(fileURLWithPath: other))
        }
        #expect(document.path == path)
        #expect(error?.subject.file == other)
        try await expectRescued(at: other, error)
    }

    @Test(arguments: [false, true])
    func aCopyOfADeletedPackageNamesTheFilesThatAreLost(_ isReplaced: Bool) async throws {
        try await makeWithContent(at: path)
        let package = try DocumentPackage.open(at: path)
        defer { try? package.close() }
        try FileSystem.removeTree(path)
        if isReplaced { try await makeWithContent(at: path) }
        let other = folder.path("Other.quire")
        let error = failure { try package.writeCopy(to: other) }
        #expect(error?.code == .notFound)
        #expect(error?.failures.count == 2)
        let archive = folder.path("Notes.zip")
        #expect(
            failure { try package.export(to: archive, protection: .keep) }?.code == .invalidFormat)
        #expect(!FileSystem.exists(archive))
        let copy = ManagedDocument(path: other)
        try await copy.open()
        #expect(try copy.titles() == ["saved"])
        // Not those of the document in its place.
        #expect(copy.additionalContent.paths == [])
        try await copy.close()
    }

    private func makeWithContent(at path: String) async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("saved", picture: Data(repeating: 1, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "a")
        try await document.close()
    }

    @Test func aPackageThatWasReplacedIsShown() async throws {
        let document = try await make()
        try await replace { try $0.addNote("from elsewhere") }
        await document.waitFor("changed")
        #expect(document.documentState == .normal)
        #expect(try document.titles() == ["from elsewhere", "saved"])
        try document.addNote("and more")
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: path) == ["and more", "from elsewhere", "saved"])
    }

    @Test func aReplacementThatIsReportedTwiceDisablesEditingOnce() async throws {
        let document = try await make()
        document.stopWatching()
        var count = 0
        document.stateChangeHandler = { change in
            if change.current.contains(.editingDisabled),
                !change.previous.contains(.editingDisabled)
            {
                count += 1
            }
        }
        try await replace { try $0.addNote("from elsewhere") }
        document.adoptReplacedPackage()
        document.adoptReplacedPackage()
        await document.adoption?.value
        #expect(try document.titles() == ["from elsewhere", "saved"])
        #expect(count == 1)
        try await document.close()
    }

    @Test(.timeLimit(.minutes(1)))
    func theDeletionOfAPackageThatWasExchangedForAnotherClosesNothing() async throws {
        let document = try await make()
        document.stopWatching()
        try await replace { try $0.addNote("from elsewhere") }
        // As it is reported if the other package is not shown yet.
        document.packageDid(.deleted)
        await document.waitFor("changed")
        #expect(try document.titles() == ["from elsewhere", "saved"])
        try await document.close()
    }

    @Test(arguments: [ConflictSide.current, .other])
    func unsavedChangesAndAReplacementAreAConflictThatLosesNothing(
        _ side: ConflictSide
    ) async throws {
        let document = try await make()
        try document.addNote("mine")
        try document.additionalContent.write(Data([1]), at: "mine")
        document.managedObjectContext.processPendingChanges()
        try await replace { try $0.addNote("theirs") }
        await document.waitFor("changed")
        #expect(document.documentState == .inConflict)
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["mine", "saved", "theirs"])
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(await failure { try await document.close() }?.code == .mergeConflict)
        // If the process ended now, the changes would come back.
        #expect(try document.package.hasDraft())
        try await document.resolveConflict(keeping: side)
        #expect(document.documentState == .normal)
        #expect(!document.hasUnsavedChanges)
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: path)
                == (side == .current ? ["mine", "saved", "theirs"] : ["saved", "theirs"]))
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try package.additionalContent().map(\.path) == (side == .current ? ["mine"] : []))
        #expect(try !package.hasDraft())
        try package.close()
    }

    @Test func anotherDocumentInItsPlaceClosesItAndIsLeftAlone() async throws {
        let document = try await make()
        try document.addNote("unsaved")
        let other = folder.path("Other.quire")
        try await ManagedDocument.make(at: other, titles: ["stranger"])
        try FileSystem.exchange(path, other)
        try FileSystem.removeTree(other)
        await document.waitFor("closed")
        #expect(document.log.contains("deleted with saved,unsaved"))
        #expect(try await ManagedDocument.titles(at: path) == ["stranger"])
    }

    /// Replaces the package as a program would that brings documents from elsewhere.
    private func replace(_ change: (ManagedDocument) throws -> Void) async throws {
        let other = folder.path("Other.quire")
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        try reader.writeCopy(to: other)
        try reader.close()
        let copy = ManagedDocument(path: other)
        try await copy.open()
        try change(copy)
        try await copy.close()
        try FileSystem.exchange(path, other)
        try FileSystem.removeTree(other)
    }

    // MARK: The end of the process

    @Test(arguments: ["TERM", "HUP"])
    func documentsAreSavedWhenTheProcessIsAskedToEnd(_ signal: String) async throws {
        let program = try TestProgram.path(named: "QuireCrashWriter")
        let script = """
            mkfifo "$2"; "$1" "$3" 1 wait >"$2" & pid=$!
            exec <"$2"; read line; echo "$line"; kill -\(signal) $pid; wait $pid; echo "ended $?"
            """
        let outcome = try await ChildProcess.run(
            "/bin/sh", ["-c", script, "sh", program, folder.path("pipe"), path])
        let status = signal == "TERM" ? 128 + 15 : 128 + 1
        #expect(outcome.output == "edited\nended \(status)\n")
        #expect(try await ManagedDocument.titles(at: path) == ["unsaved"])
    }

    /// As under `nohup`.
    @Test func aSignalThatIsIgnoredAtTheStartStaysIgnored() async throws {
        let program = try TestProgram.path(named: "QuireCrashWriter")
        let script = """
            mkfifo "$2"; (trap '' HUP; exec "$1" "$3" 1 wait) >"$2" & pid=$!
            exec <"$2"; read line; echo "$line"; kill -HUP $pid; kill -TERM $pid; wait $pid
            echo "ended $?"
            """
        let outcome = try await ChildProcess.run(
            "/bin/sh", ["-c", script, "sh", program, folder.path("pipe"), path])
        #expect(outcome.output == "edited\nended \(128 + 15)\n")
        #expect(try await ManagedDocument.titles(at: path) == ["unsaved"])
    }
}

/// Does something before its deletion closes it.
private final class RescuedDocument: ManagedDocument {
    var rescue: @MainActor () async -> Void = {}
    private(set) var errors: [QuireError] = []

    override func accommodatePresentedItemDeletion() async { await rescue() }

    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        errors.append(error)
    }
}

/// Says what happens to its package.
private final class WatchedDocument: ManagedDocument {
    private(set) var log: [String] = []
    private var waiting: (event: String, continuation: CheckedContinuation<Void, Never>)?

    func waitFor(_ event: String) async {
        if log.contains(event) { return }
        await withCheckedContinuation { waiting = (event, $0) }
    }

    private func add(_ event: String) {
        log.append(event)
        if let waiting, waiting.event == event {
            self.waiting = nil
            waiting.continuation.resume()
        }
    }

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        stateChangeHandler = { [weak self] change in
            if change.current == .closed && !change.previous.contains(.closed) {
                self?.add("closed")
            }
        }
    }

    override func presentedItemDidMove(to newURL: URL) {
        #expect(self.path == path)
        add("moved \(FileSystem.name(of: path))")
    }

    override func accommodatePresentedItemDeletion() async {
        add("deleted with \((try? titles().joined(separator: ",")) ?? "?")")
    }

    override func presentedItemDidChange() { add("changed") }
}
