import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite @MainActor struct ConflictTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func make() async throws {
        try await ManagedDocument.make(
            at: path, notes: ["first": -1, "picture": 200_000], files: ["a": Data([1])])
    }

    /// A copy of the document with another note.
    private func makeCopy(named name: String, adding title: String) throws -> String {
        let copy = folder.path(name)
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try package.writeCopy(to: copy)
        try package.close()
        let changed = try DocumentPackage.open(at: copy)
        try changed.addNotes(title)
        try changed.close()
        return copy
    }

    // MARK: Names

    @Test(arguments: [
        "Notes (conflicted copy 2026-11-22 101500).quire",
        "Notes (Jane's conflicted copy 2026-11-22).quire",
        "Notes.sync-conflict-20261122-101500-ABCDEFG.quire",
        "Notes_conflict-20261122-101500.quire", "Notes.conflict1.quire", "Notes (1).quire",
        "Notes 2.quire", "Notes (Case Conflict 1).quire",
        "Notes (In Konflikt stehende Kopie von Jane 2026-11-22).quire",
        "Notes (Copie en conflit de Jane 2026-11-22).quire",
        "Notes (SFConflict jane@example.org 2026-11-22-10-15-00).quire",
        "Notes [conflicted].quire", "Notes (Conflict).quire", "Notes.Conflict.quire",
        "Notes_DiskStation_Nov-22-101500-2026_Conflict.quire", "Notes-DESKTOP-4F2K9QJ.quire",
        "Notes-JANES-PC.quire", "Notes-JANES-PC-2.quire",
        "Notes-\(ProcessInfo.processInfo.hostName.prefix { $0 != "." }).quire",
    ])
    func namesOfConflictingCopiesAreKnown(_ name: String) {
        #expect(ConflictingCopy.isName(name, ofCopyOf: "Notes.quire"))
        #expect(!ConflictingCopy.isName(name, ofCopyOf: "Other.quire"))
    }

    @Test(arguments: [
        "Notes.quire", "Notes.txt", "Notes (1).txt", "Notes and more.quire", "Notes (old).quire",
        "Notes (1) (2).quire", "My Notes (1).quire", "Notes 2026.quire", "Notes(1).quire",
        "Notes. conflict.quire", "Notes-2026.quire", "Notes-FINAL.quire", "Notes-2.quire",
        "Notes conflict.quire",
    ])
    func otherNamesAreNot(_ name: String) {
        #expect(!ConflictingCopy.isName(name, ofCopyOf: "Notes.quire"))
    }

    // MARK: Copies beside

    @Test func onlyTheSameDocumentIsAConflictingCopy() async throws {
        try await make()
        let copy = try makeCopy(
            named: "Notes (conflicted copy 2026-11-22).quire", adding: "elsewhere")
        try await ManagedDocument.make(at: folder.path("Notes (1).quire"))
        try FileSystem.makeFolder(folder.path("Notes (2).quire"))
        try FileSystem.writeNewFile(Data([1]), at: folder.path("Notes (3).quire"))
        let package = try DocumentPackage.open(at: path)
        #expect(try package.conflictingCopies().map(\.path) == [copy])
        #expect(try DocumentPackage.conflictingCopies(ofPackageAt: path).map(\.path) == [copy])
        try package.close()
    }

    @Test func adoptedCopyIsAConflictVersionUntilItIsResolved() async throws {
        try await make()
        let mine = try PackageContents(at: path)
        let copy = try makeCopy(
            named: "Notes.sync-conflict-20261122-101500-ABCDEFG.quire", adding: "elsewhere")
        let theirs = try PackageContents(at: copy)
        let package = try DocumentPackage.open(at: path)
        let found = try #require(try package.conflictingCopies().first)
        let version = try package.adopt(found)
        #expect(!FileSystem.exists(copy))
        #expect(try FileSystem.names(in: folder.path) == ["Notes.quire"])
        #expect(version.isUnresolvedConflict && version.origin?.path == copy)
        #expect(try package.unresolvedConflictVersions() == [version])
        // It shares what both have.
        #expect(version.addedSize < 250_000 + 40 * 4096)
        // It is neither pruned nor deleted by mistake.
        var none = VersionRetention()
        none.maximumCount = 0
        #expect(try package.pruneVersions(none) == [])
        #expect(failure { try package.deleteVersion(version.id) }?.code == .invalidState)
        let resolved = try package.resolveConflict(version.id, keeping: .other)
        try package.close()
        #expect(try PackageContents(resolved) == theirs)
        #expect(try resolved.unresolvedConflictVersions() == [])
        let present = try #require(
            try resolved.versions().first { $0.reason == .beforeRestoring })
        let checkout = try resolved.checkOut(present.id)
        #expect(try PackageContents(at: checkout.path) == mine)
        checkout.close()
        #expect(try resolved.check() == [])
        try resolved.deleteVersion(version.id)
        try resolved.close()
    }

    @Test func keepingThePresentOnlyNotesIt() async throws {
        try await make()
        let mine = try PackageContents(at: path)
        _ = try makeCopy(named: "Notes 2.quire", adding: "elsewhere")
        let package = try DocumentPackage.open(at: path)
        let version = try package.adopt(try #require(try package.conflictingCopies().first))
        let same = try package.resolveConflict(version.id, keeping: .current)
        #expect(same === package)
        #expect(try PackageContents(package) == mine)
        let listed = try #require(try package.versions().first)
        #expect(listed.id == version.id && listed.isResolved && !listed.isUnresolvedConflict)
        #expect(
            failure { _ = try package.resolveConflict(version.id, keeping: .other) }?.code
                == .invalidState)
        #expect(try package.check() == [])
        try package.close()
    }

    @Test func copyThatIsOpenIsNotAdopted() async throws {
        try await make()
        let copy = try makeCopy(named: "Notes (1).quire", adding: "elsewhere")
        let other = try DocumentPackage.open(at: copy)
        let package = try DocumentPackage.open(at: path)
        let found = try #require(try package.conflictingCopies().first)
        #expect(failure { try package.adopt(found) }?.code == .locked)
        #expect(try package.versions() == [])
        try other.close()
        try package.adopt(found)
        try package.close()
    }

    // MARK: Replaced while open

    @Test func replacedPackageKeepsItsContentInTheNewOne() async throws {
        try await make()
        let theirs = try makeCopy(named: "theirs", adding: "theirs")
        let package = try DocumentPackage.open(at: path)
        try package.addNotes("mine")
        let mine = try PackageContents(package)
        #expect(try package.changeByOthers() == nil)
        // A tool moves the folder away, and puts another one there.
        try FileSystem.rename(path, to: folder.path(".trash"))
        #expect(try package.changeByOthers() == .moved(to: folder.path(".trash")))
        try FileSystem.rename(theirs, to: path)
        #expect(try package.changeByOthers() == .replaced)
        let new = try DocumentPackage.open(at: path)
        let version = try new.keepConflictVersion(of: package)
        try package.close()
        #expect(version.isUnresolvedConflict)
        #expect(version.origin?.host == ProcessInfo.processInfo.hostName)
        let checkout = try new.checkOut(version.id)
        #expect(try PackageContents(at: checkout.path) == mine)
        checkout.close()
        let resolved = try new.resolveConflict(version.id, keeping: .other)
        #expect(try PackageContents(resolved) == mine)
        try new.close()
        #expect(try resolved.check() == [])
        try resolved.close()
    }

    @Test func replacedStoreFileIsNoticed() async throws {
        try await make()
        let other = try makeCopy(named: "other", adding: "theirs")
        let package = try DocumentPackage.open(at: path)
        try FileSystem.rename(
            DocumentPackageLayout(path: other).store, to: package.layout.store)
        #expect(try package.changeByOthers() == .replaced)
        try? package.close()
    }

    @Test func removedPackageIsNoticed() async throws {
        try await make()
        let package = try DocumentPackage.open(at: path)
        try FileSystem.removeTree(path)
        #expect(try package.changeByOthers() == .removed)
        try? package.close()
    }

    @Test func openDocumentResolvesConflicts() async throws {
        try await make()
        _ = try makeCopy(named: "Notes (1).quire", adding: "elsewhere")
        let document = ManagedDocument(path: path)
        try await document.open()
        try document.addNote("unsaved")
        let copy = try #require(try document.package.conflictingCopies().first)
        let version = try document.package.adopt(copy)
        #expect(try await document.unresolvedConflictVersions() == [version])
        try await document.resolveConflict(version.id, keeping: .other)
        #expect(try document.titles() == ["elsewhere", "first", "picture"])
        #expect(try await document.unresolvedConflictVersions() == [])
        // What was unsaved is in the version that was kept.
        let kept = try #require(
            try await document.versions().first { $0.reason == .beforeRestoring })
        try await document.restore(kept.id)
        #expect(try document.titles() == ["first", "picture", "unsaved"])
        try await document.close()
    }
}
