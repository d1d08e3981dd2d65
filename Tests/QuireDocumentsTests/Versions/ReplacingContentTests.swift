import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments
@testable import QuireSQLite

@Suite @MainActor struct ReplacingContentTests {
    let folder: TemporaryFolder
    let path: String
    let otherPath: String
    static let large = 200_000

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        otherPath = folder.path("Other.quire")
    }

    private func makeBoth() async throws {
        try await ManagedDocument.make(
            at: path, notes: ["mine": -1, "my picture": Self.large],
            files: ["a": Data([1]), "mine/b": Data([2])])
        try await ManagedDocument.make(
            at: otherPath, notes: ["other": 3, "other picture": Self.large + 1, "third": -1],
            files: ["a": Data([9]), "other/c": Data([8])])
    }

    /// Replaces the content of the one by the other, and gives the package that is open then.
    private func replace(
        _ package: DocumentPackage, migrating: StoreMigrationOptions? = nil,
        progress: Progress? = nil
    ) throws -> DocumentPackage {
        let other = try DocumentPackage.open(at: otherPath, readOnly: true)
        defer { try? other.close() }
        return try package.replaceContent(with: other, migrating: migrating, progress: progress)
    }

    @Test func everythingIsReplaced() async throws {
        try await makeBoth()
        let expected = try PackageContents(at: otherPath)
        let old = try DocumentPackage.open(at: path)
        let uuid = old.store.identity.uuid
        let new = try replace(old)
        #expect(try PackageContents(new) == expected)
        #expect(new.store.identity.uuid == uuid)
        try old.close()
        new.removeReplacedContent()
        #expect(try new.check() == [])
        try new.close()
        #expect(try PackageContents(at: path) == expected)
        let reopened = try DocumentPackage.open(at: path)
        #expect(try reopened.check() == [])
        #expect(try reopened.leftovers() == [])
        #expect(try FileSystem.names(in: reopened.layout.externalData).count == 1)
        #expect(try FileSystem.names(in: reopened.layout.additionalContent).count == 1)
        try reopened.close()
        // The other was only read.
        #expect(try PackageContents(at: otherPath) == expected)
    }

    // MARK: Files of the same name

    /// Makes the other a copy of the one, in which the file of external data has other bytes under the same name.
    private func makeBothWithAFile(ofSize size: Int) async throws -> (name: String, bytes: Data) {
        try await ManagedDocument.make(
            at: path, notes: ["picture": Self.large], files: ["a": Data([1])])
        let package = try DocumentPackage.open(at: path)
        try package.writeCopy(to: otherPath)
        try package.close()
        let folder = DocumentPackageLayout(path: otherPath).externalData
        let name = try #require(try FileSystem.names(in: folder).first)
        let bytes = Data(repeating: 0x5A, count: size)
        try AtomicFileReplace.replace(FileSystem.path(folder, name), with: bytes)
        // What is not as it was recorded would be damaged.
        let store = try SQLiteConnection(
            path: DocumentPackageLayout(path: otherPath).store, mode: .writing)
        let digest = RunningDigest.sha256(of: bytes).map { String(format: "%02x", $0) }.joined()
        try store.execute(
            "UPDATE \(SQLiteTables.externalData) SET Z_BYTES = \(size), Z_SHA256 = x'\(digest)'")
        store.close()
        return (name, bytes)
    }

    @Test(.inClear, arguments: [200_000, 199_000]) func failedReplacementLeavesLiveFilesAsTheyWere(
        _ size: Int
    ) async throws {
        _ = try await makeBothWithAFile(ofSize: size)
        var options = SQLiteStoreOptions()
        options.busyTimeout = .milliseconds(10)
        let package = try DocumentPackage.open(at: path, options: options)
        let live = try contents(ofFolder: package.layout.externalData)
        let content = try PackageContents(package)
        // Somebody else is writing, so the commit fails.
        let other = try SQLiteConnection(path: package.layout.store, mode: .writing)
        try other.execute("BEGIN IMMEDIATE")
        #expect(failure { _ = try replace(package) }?.code == .locked)
        #expect(try contents(ofFolder: package.layout.externalData) == live)
        try other.execute("ROLLBACK")
        other.close()
        #expect(try PackageContents(package) == content)
        #expect(try package.check() == [])
        try package.close()
        let reopened = try DocumentPackage.open(at: path)
        #expect(try contents(ofFolder: reopened.layout.externalData) == live)
        #expect(try PackageContents(reopened) == content)
        #expect(try reopened.check() == [] && reopened.leftovers() == [])
        try reopened.close()
    }

    @Test(.inClear, arguments: [200_000, 199_000]) func filesOfTheSameNameGetNewOnes(
        _ size: Int
    ) async throws {
        let (name, bytes) = try await makeBothWithAFile(ofSize: size)
        let old = try DocumentPackage.open(at: path)
        let folder = old.layout.externalData
        let live = try contents(ofFolder: folder)
        let new = try replace(old)
        // What the old package has read is still found.
        #expect(try contents(ofFolder: folder)[name] == live[name])
        let file = try #require(try new.store.externalFiles().first)
        #expect(try FileSystem.contents(of: file.path) == bytes)
        #expect(FileSystem.name(of: file.path) != name)
        try old.close()
        new.removeReplacedContent()
        try new.close()
        let reopened = try DocumentPackage.open(at: path)
        #expect(try contents(ofFolder: folder) == [FileSystem.name(of: file.path): bytes])
        #expect(try PackageContents(reopened).notes == ["picture \(size)"])
        try reopened.close()
    }

    @Test func nothingIsRemovedIfTheLiveGenerationIsUnknown() async throws {
        try await makeBoth()
        let old = try DocumentPackage.open(at: path)
        let new = try replace(old)
        let expected = try contents(ofFolder: new.layout.additionalContent)
        try new.store.close()
        new.removeReplacedContent()
        #expect(try contents(ofFolder: new.layout.additionalContent) == expected)
        try old.close()
        try new.close()
    }

    @Test func equalFilesOfTheSameNameStay() async throws {
        try await ManagedDocument.make(at: path, notes: ["picture": Self.large])
        let old = try DocumentPackage.open(at: path)
        try old.writeCopy(to: otherPath)
        let folder = old.layout.externalData
        let name = try #require(try FileSystem.names(in: folder).first)
        let before = try #require(try FileSystem.information(at: folder + "/" + name))
        let new = try replace(old)
        #expect(try FileSystem.names(in: folder) == [name])
        #expect(try FileSystem.information(at: folder + "/" + name)?.isSameFile(as: before) == true)
        #expect(try new.check() == [])
        try old.close()
        try new.close()
    }

    @Test func additionalContentGoesIfTheOtherHasNone() async throws {
        try await ManagedDocument.make(at: path, notes: ["mine": 0], files: ["a": Data([1])])
        try await ManagedDocument.make(at: otherPath, notes: [:])
        let old = try DocumentPackage.open(at: path)
        let new = try replace(old)
        #expect(try PackageContents(new).files == [:])
        #expect(try PackageContents(new).notes == [])
        new.removeReplacedContent()
        #expect(try FileSystem.names(in: new.layout.additionalContent) == [])
        #expect(try new.check() == [])
        try old.close()
        try new.close()
    }

    @Test func readerBesideSeesOldOrNew() async throws {
        try await makeBoth()
        let (mine, other) = (try PackageContents(at: path), try PackageContents(at: otherPath))
        let old = try DocumentPackage.open(at: path)
        try old.addNotes("saved")
        var saved = mine
        saved.notes.append("saved -1")
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try PackageContents(reader) == saved)
        let new = try replace(old)
        #expect(try PackageContents(reader) == other)
        try reader.close()
        try old.close()
        try new.close()
    }

    @Test func rightToWriteIsKept() async throws {
        try await makeBoth()
        let old = try DocumentPackage.open(at: path)
        let new = try replace(old)
        #expect(failure { _ = try DocumentPackage.open(at: path) }?.code == .locked)
        try old.close()
        #expect(failure { _ = try DocumentPackage.open(at: path) }?.code == .locked)
        try new.close()
        try DocumentPackage.open(at: path).close()
    }

    @Test func onlyTheNewPackageSaves() async throws {
        try await makeBoth()
        let old = try DocumentPackage.open(at: path)
        let new = try replace(old)
        #expect(failure { try old.addNotes("lost") }?.code == .invalidState)
        try new.addNotes("kept")
        #expect(try PackageContents(old).notes.contains("kept -1"))
        try old.close()
        try new.addNotes("kept too")
        try new.close()
        let notes = try PackageContents(at: path).notes
        #expect(notes.contains("kept -1") && notes.contains("kept too -1"))
        #expect(!notes.contains("lost -1"))
    }

    @Test func identifiersAreNotGivenOutTwice() async throws {
        try await makeBoth()
        let old = try DocumentPackage.open(at: path)
        try old.addNotes("3", "4", "5", "6")
        let new = try replace(old)
        try new.addNotes("seventh")
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: new.store))
        let added = try #require(
            try context.fetch(FetchRequest("Note")).first {
                $0["title", as: String.self] == "seventh"
            })
        #expect(added.objectID.uriRepresentation.hasSuffix("/p7"))
        try old.close()
        try new.close()
    }

    @Test func mayBeDoneAgainAndAgain() async throws {
        try await makeBoth()
        let (mine, other) = (try PackageContents(at: path), try PackageContents(at: otherPath))
        let copy = folder.path("Copy.quire")
        var package = try DocumentPackage.open(at: path)
        try package.writeCopy(to: copy)
        for round in 0..<4 {
            let source = try DocumentPackage.open(
                at: round % 2 == 0 ? otherPath : copy, readOnly: true)
            let next = try package.replaceContent(with: source)
            try source.close()
            try package.close()
            package = next
            package.removeReplacedContent()
            #expect(try PackageContents(package) == (round % 2 == 0 ? other : mine))
        }
        #expect(try package.check() == [])
        try package.close()
    }

    @Test func cancellingLeavesEverything() async throws {
        try await makeBoth()
        let package = try DocumentPackage.open(at: path)
        let before = try contents(ofFolder: path)
        let progress = Progress(totalUnitCount: 1)
        progress.cancel()
        let error = failure { _ = try replace(package, progress: progress) }
        #expect(error?.code == .cancelled)
        #expect(try contents(ofFolder: path) == before)
        try package.addNotes("still saving")
        try package.close()
        #expect(try PackageContents(at: path).notes.count == 3)
    }

    @Test func failureWhileFilesAreMovedInLeavesEverything() async throws {
        try await makeBoth()
        let package = try DocumentPackage.open(at: path)
        let before = try contents(ofFolder: path)
        // There is no folder for the files that the other brings.
        let files = package.layout.externalData
        try FileSystem.rename(files, to: folder.path("aside"))
        try FileSystem.writeNewFile(Data(), at: files)
        #expect(failure { _ = try replace(package) } != nil)
        try FileSystem.removeFile(files)
        try FileSystem.rename(folder.path("aside"), to: files)
        #expect(try contents(ofFolder: path) == before)
        try package.addNotes("still saving")
        try package.close()
    }

    @Test func readOnlyPackageRefuses() async throws {
        try await makeBoth()
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(failure { _ = try replace(package) }?.code == .readOnly)
        try package.close()
    }

    @Test func otherModelIsMigratedIfThatIsWanted() async throws {
        let wider = ManagedObjectModel {
            Entity("Note") {
                Attribute("title", .string).required().length(atMost: 40)
                Attribute("code", .string)
                Attribute("stars", .integer16)
                Attribute("picture", .binary).externalStorage()
                Unique("code")
            }
        }
        try await ManagedDocument.make(
            at: otherPath, notes: ["old": Self.large], files: ["a": Data([4])])
        let expected = try PackageContents(at: otherPath)
        let package = try DocumentPackage.create(at: path, model: wider)
        try package.addNotes("wide")
        let before = try PackageContents(package)
        #expect(failure { _ = try replace(package) }?.code == .incompatibleModel)
        #expect(try PackageContents(package) == before)
        let new = try replace(package, migrating: StoreMigrationOptions())
        #expect(try PackageContents(new) == expected)
        #expect(new.store.layout.model.entity(named: "Note")?.property(named: "stars") != nil)
        try package.close()
        try new.close()
        #expect(try PackageContents(at: path) == expected)
        // The other was only read.
        #expect(try PackageContents(at: otherPath) == expected)
    }

    @Test(.inClear) func pagesOfAnotherSizeAreNoObstacle() async throws {
        try await makeBoth()
        let expected = try PackageContents(at: otherPath)
        let other = try SQLiteStore.open(at: DocumentPackageLayout(path: otherPath).store)
        try other.executeOnWriter("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM")
        try other.close()
        let old = try DocumentPackage.open(at: path)
        let new = try replace(old)
        #expect(try PackageContents(new) == expected)
        try old.close()
        #expect(try new.check() == [])
        try new.close()
    }

    @Test func storeWithoutLogIsReplacedToo() async throws {
        try await makeBoth()
        let expected = try PackageContents(at: otherPath)
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let old = try DocumentPackage.open(at: path, options: options)
        let new = try replace(old)
        #expect(try PackageContents(new) == expected)
        try new.addNotes("saved")
        try old.close()
        try new.close()
        #expect(try PackageContents(at: path).notes.count == 4)
    }

    @Test func whatAKilledProcessLeftIsCollected() async throws {
        try await makeBoth()
        let layout = DocumentPackageLayout(path: path)
        let staging = FileSystem.temporarySibling(of: layout.storeFolder, for: "replacement")
        try FileSystem.copyTree(otherPath, to: staging)
        let package = try DocumentPackage.open(at: path)
        #expect(!FileSystem.exists(staging))
        #expect(try package.check() == [])
        try package.close()
    }
}
