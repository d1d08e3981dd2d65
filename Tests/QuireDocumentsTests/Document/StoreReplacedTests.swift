import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What others do to the files of a package's store while the document is open.
@Suite @MainActor struct StoreReplacedTests {
    let folder: TemporaryFolder
    let path: String
    private var layout: DocumentPackageLayout { DocumentPackageLayout(path: path) }

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    /// How another state of the document gets into the place of what is open.
    enum Replacement: String, CaseIterable {
        case renameOverStore, removeAndCopyStore, exchangeStoreFolder, exchangePackage
    }

    /// What makes the store's files other than those that are open, and leaves no other state of the document.
    enum Loss: String, CaseIterable {
        case removeStore, renameStoreAway, removeStoreFolder, removeLog, replaceLog, removeIndex
        case putOtherStoreInItsPlace
    }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("saved", picture: Data(repeating: 1, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "saved")
        try await document.save()
        return document
    }

    /// Makes a copy of the last save elsewhere, with one more note.
    private func makeCopy(adding title: String = "theirs") async throws -> DocumentPackageLayout {
        let other = folder.path("Other.quire")
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        try reader.writeCopy(to: other)
        try reader.close()
        let copy = ManagedDocument(path: other)
        try await copy.open()
        try copy.addNote(title)
        try await copy.close()
        return DocumentPackageLayout(path: other)
    }

    private func replace(_ way: Replacement, by other: DocumentPackageLayout) throws {
        switch way {
        case .renameOverStore: try FileSystem.rename(other.store, to: layout.store)
        case .removeAndCopyStore:
            try FileSystem.removeFile(layout.store)
            try FileSystem.copyFile(other.store, to: layout.store)
        case .exchangeStoreFolder: try FileSystem.exchange(other.storeFolder, layout.storeFolder)
        case .exchangePackage: try FileSystem.exchange(other.path, path)
        }
    }

    private func lose(_ way: Loss) async throws {
        let log = layout.store + "-wal"
        switch way {
        case .removeStore: try FileSystem.removeFile(layout.store)
        case .renameStoreAway: try FileSystem.rename(layout.store, to: folder.path("away"))
        case .removeStoreFolder: try FileSystem.removeTree(layout.storeFolder)
        case .removeLog: try FileSystem.removeFile(log)
        case .removeIndex: try FileSystem.removeFile(layout.store + "-shm")
        case .replaceLog:
            try FileSystem.writeNewFile(Data(count: 100), at: folder.path("log"))
            try FileSystem.rename(folder.path("log"), to: log)
        case .putOtherStoreInItsPlace:
            let other = folder.path("Stranger.quire")
            try await ManagedDocument.make(at: other, titles: ["stranger"])
            try FileSystem.rename(DocumentPackageLayout(path: other).store, to: layout.store)
        }
    }

    @Test(arguments: Replacement.allCases, [ConflictSide.current, .other])
    func aSaveToAReplacedStoreIsAConflictThatKeepsBothSides(
        _ way: Replacement, _ side: ConflictSide
    ) async throws {
        let document = try await make()
        let other = try await makeCopy()
        try document.addNote("mine")
        try document.additionalContent.write(Data([2]), at: "mine")
        try replace(way, by: other)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(document.documentState.contains(.inConflict))
        #expect(document.hasUnsavedChanges)
        #expect(document.path == path)
        #expect(try document.titles() == ["mine", "saved", "theirs"])
        #expect(document.additionalContent.paths == ["mine", "saved"])
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(await failure { try await document.close() }?.code == .mergeConflict)
        // If the process ended now, the changes would come back.
        #expect(try document.package.hasDraft())
        try await document.resolveConflict(keeping: side)
        await document.waitUntil { $0.documentState == .normal }
        #expect(try await document.check() == [])
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: path)
                == (side == .current ? ["mine", "saved", "theirs"] : ["saved", "theirs"]))
    }

    /// What a document has done last that has not saved anything to its store since it opened that.
    enum Reopening: String, CaseIterable {
        case none, open, saveAs, moveHere, moveOutside, revert
    }

    private func reopen(_ document: ManagedDocument, _ way: Reopening) async throws {
        let elsewhere = folder.path("Elsewhere.quire")
        switch way {
        case .none: break
        case .open:
            try await document.close()
            try await document.open()
        case .saveAs:
            try await document.save(as: URL(fileURLWithPath: elsewhere))
            try FileSystem.removeTree(path)
            try await document.move(to: URL(fileURLWithPath: path))
        case .moveHere:
            try await document.move(to: URL(fileURLWithPath: elsewhere))
            try await document.move(to: URL(fileURLWithPath: path))
        case .moveOutside:
            for (old, new) in [(path, elsewhere), (elsewhere, path)] {
                try FileSystem.rename(old, to: new)
                await document.waitUntil { $0.path == new }
            }
        case .revert:
            try await document.writeCopy(to: URL(fileURLWithPath: elsewhere))
            try await document.revert(to: URL(fileURLWithPath: elsewhere))
        }
    }

    @Test(arguments: Replacement.allCases, Reopening.allCases)
    func whatWasSavedBeforeTheReplacementIsKeptAsAVersion(
        _ way: Replacement, after reopening: Reopening
    ) async throws {
        let document = try await make()
        let other = try await makeCopy()
        try document.addNote("saved later")
        try await document.save()
        try await reopen(document, reopening)
        try document.addNote("unsaved")
        try replace(way, by: other)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(try document.titles() == ["saved", "theirs", "unsaved"])
        let version = try #require(try await document.versions().first { $0.reason == .conflict })
        let checkout = try await document.checkOut(version.id)
        #expect(try await ManagedDocument.titles(at: checkout.path) == ["saved", "saved later"])
        checkout.close()
        try await document.resolveConflict(keeping: .current)
        #expect(try await document.unresolvedConflictVersions() == [])
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "theirs", "unsaved"])
    }

    @Test(arguments: Replacement.allCases)
    func aDocumentWithoutChangesShowsTheReplacedStore(_ way: Replacement) async throws {
        let document = try await make()
        let other = try await makeCopy()
        try replace(way, by: other)
        try await document.save()
        await document.waitUntil { $0.documentState == .normal }
        #expect(try document.titles() == ["saved", "theirs"])
        try document.addNote("more")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["more", "saved", "theirs"])
    }

    @Test(arguments: [Replacement.renameOverStore, .exchangeStoreFolder])
    func aReplacedStoreIsNoticedWithoutASave(_ way: Replacement) async throws {
        let document = try await make()
        let other = try await makeCopy()
        try document.addNote("mine")
        document.managedObjectContext.processPendingChanges()
        try replace(way, by: other)
        await document.waitUntil { $0.documentState == .inConflict }
        #expect(try document.titles() == ["mine", "saved", "theirs"])
        try await document.close(discardingChanges: true)
        #expect(try await ManagedDocument.titles(at: path) == ["saved", "theirs"])
    }

    @Test(arguments: Replacement.allCases)
    func aDocumentThatIsOnlyReadFollowsAReplacedStore(_ way: Replacement) async throws {
        try await make().close()
        let other = try await makeCopy()
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        #expect(try document.titles() == ["saved"])
        try replace(way, by: other)
        await document.waitUntil { (try? $0.titles()) == ["saved", "theirs"] }
        #expect(document.isReadOnly)
        try await document.close()
    }

    @Test(arguments: Loss.allCases)
    func aSaveToALostStoreIsAConflictInWhichTheDocumentKeepsWhatItHas(
        _ way: Loss
    ) async throws {
        let document = try await make()
        try document.addNote("mine")
        try await lose(way)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(document.documentState.contains(.inConflict))
        #expect(try document.titles() == ["mine", "saved"])
        #expect(await failure { try await document.close() }?.code == .mergeConflict)
        try await document.resolveConflict(keeping: .current)
        await document.waitUntil { $0.documentState == .normal }
        #expect(!document.hasUnsavedChanges)
        try document.addNote("more")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["mine", "more", "saved"])
    }

    @Test(arguments: Loss.allCases)
    func aDocumentThatHasLostItsStoreIsSavedElsewhere(_ way: Loss) async throws {
        let document = try await make()
        try document.addNote("mine")
        try await lose(way)
        _ = await failure { try await document.save() }
        let rescue = folder.path("Rescue.quire")
        let error = await failure { try await document.save(as: URL(fileURLWithPath: rescue)) }
        // Its external data went with the folder.
        #expect(error?.code == (way == .removeStoreFolder ? .notFound : nil))
        await document.waitUntil { $0.documentState == .normal }
        try document.addNote("more")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: rescue) == ["mine", "more", "saved"])
    }

    @Test(arguments: [Loss.removeStore, .removeLog, .replaceLog])
    func aDocumentWithoutChangesThatHasLostItsStoreDoesNotCloseSilently(
        _ way: Loss
    ) async throws {
        let document = try await make()
        try await lose(way)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(await failure { try await document.close() }?.code == .mergeConflict)
        #expect(document.hasUnsavedChanges)
        try await document.resolveConflict(keeping: .current)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["saved"])
    }

    /// Without its index the log is whole.
    @Test(arguments: [Loss.removeLog, .removeIndex])
    func whatOthersLeftOfALostLogCanBeChosen(_ way: Loss) async throws {
        let document = try await make()
        try await document.close()
        try await document.open()
        try document.addNote("in the log")
        try await document.save()
        try document.addNote("mine")
        try await lose(way)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        try await document.resolveConflict(keeping: .other)
        await document.waitUntil { $0.documentState == .normal }
        let left = way == .removeLog ? ["saved"] : ["in the log", "saved"]
        #expect(try document.titles() == left)
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == left)
    }

    // MARK: Large files

    @Test func unsavedFilesOfAnySizeSurviveAReplacement() async throws {
        let document = try await make()
        let other = try await makeCopy()
        let size = 65 << 20
        let large = folder.path("large")
        try OpenFile.open(large, for: .creating).setSize(Int64(size))
        try await document.additionalContent.write(contentsOf: large, at: "large")
        try document.additionalContent.write(Data([3]), at: "small")
        try FileSystem.exchange(other.path, path)
        try FileSystem.removeTree(other.path)
        #expect(await failure { try await document.save() }?.code == .mergeConflict)
        #expect(document.additionalContent.paths == ["large", "saved", "small"])
        #expect(try document.additionalContent.data(at: "large")?.count == size)
        // As if the process ended now.
        document.stopWatching()
        try document.package.close()
        let again = ManagedDocument(path: path)
        try await again.open()
        #expect(again.hasUnsavedChanges)
        #expect(again.additionalContent.paths == ["large", "saved", "small"])
        #expect(try again.additionalContent.data(at: "large")?.count == size)
        try await again.save()
        #expect(try await again.check() == [])
        #expect(try again.package.leftovers() == [])
        try await again.close()
        #expect(
            try FileSystem.names(in: path).sorted().filter { $0 != StoreProtection.keybagName } == [
                "AdditionalContent", "DocumentMetadata.plist", "StoreContent", "Versions",
            ])
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try package.additionalContent().map(\.size) == [Int64(size), 1, 1])
        try package.close()
    }
}

extension ManagedDocument {
    /// Waits until something is so, which changes of the document's state or of its package bring about.
    func waitUntil(_ condition: (ManagedDocument) -> Bool) async {
        let deadline = ContinuousClock.now + .seconds(240)
        while !condition(self) && .now < deadline { await Task.yield() }
        #expect(condition(self))
    }
}
