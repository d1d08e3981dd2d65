import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// Versions of protected documents, and what becomes of versions when keys change. `make test` also runs ``VersionTests`` with
/// protected documents.
@Suite(.inClear) @MainActor struct ProtectedVersionTests {
    let folder: TemporaryFolder
    let path: String
    let layout: DocumentPackageLayout
    let domain: ProtectionDomain
    private static let canary = "CANARY-77ab"

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        layout = DocumentPackageLayout(path: path)
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    nonisolated static let classes: [FileProtection] = [
        .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication,
    ]

    /// A closed document with two versions, and what they have. The second has another file of external data as well.
    private func make(
        _ protection: FileProtection
    ) async throws -> [(version: DocumentVersion, contents: PackageContents)] {
        let document = ManagedDocument(path: path)
        document.fileProtection = protection
        document.protectionDomain = protection == .none ? nil : domain
        try await document.create(model: notesModel)
        var kept: [(version: DocumentVersion, contents: PackageContents)] = []
        for number in 1...2 {
            try document.addNote(
                "\(Self.canary) \(number)",
                picture: Data(Self.canary.utf8) + Data(repeating: 7, count: 200_000 * number))
            try document.additionalContent.write(
                Data((Self.canary + "\(number)").utf8), at: "folder/file")
            try await document.save()
            let version = try await document.keepVersion(named: "\(Self.canary) v\(number)")
            kept.append((version, try PackageContents(document.package)))
        }
        try document.addNote("later")
        try await document.close()
        return kept
    }

    private func requireNoCanary(sourceLocation: SourceLocation = #_sourceLocation) throws {
        for (name, bytes) in try contents(ofFolder: folder.path) {
            #expect(
                bytes.range(of: Data(Self.canary.utf8)) == nil, "\(name)",
                sourceLocation: sourceLocation)
        }
    }

    private func requireVersions(
        _ kept: [(version: DocumentVersion, contents: PackageContents)],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        let versions = try package.versions()
        #expect(
            versions.map(\.id) == kept.reversed().map(\.version.id),
            sourceLocation: sourceLocation)
        #expect(
            versions.map(\.name) == kept.reversed().map(\.version.name),
            sourceLocation: sourceLocation)
        #expect(
            versions.map(\.date) == kept.reversed().map(\.version.date),
            sourceLocation: sourceLocation)
        for (version, contents) in kept {
            let checkout = try package.checkOut(version.id)
            #expect(
                try PackageContents(at: checkout.path) == contents, sourceLocation: sourceLocation)
            #expect(
                try DocumentPackage.fileProtection(at: checkout.path)
                    == DocumentPackage.fileProtection(at: path), sourceLocation: sourceLocation)
            checkout.close()
        }
        #expect(try package.check() == [], sourceLocation: sourceLocation)
        #expect(try package.leftovers() == [], sourceLocation: sourceLocation)
        try package.close()
    }

    // MARK: Keeping

    @Test(arguments: classes) func versionsAreSealedAndRead(_ protection: FileProtection)
        async throws
    {
        let kept = try await make(protection)
        try requireNoCanary()
        try requireVersions(kept)
        try requireNoCanary()
        let package = try DocumentPackage.open(at: path)
        let restored = try package.replaceContent(withVersion: kept[0].version.id)
        try package.close()
        restored.removeReplacedContent()
        #expect(try PackageContents(restored) == kept[0].contents)
        #expect(try restored.check() == [])
        try restored.close()
        try requireNoCanary()
    }

    @Test func lockedVersionsAreNotAvailable() async throws {
        let kept = try await make(.complete)
        await domain.lock(after: .zero)
        #expect(
            failure { _ = try DocumentPackage.versions(at: path) }?.code
                == .protectedDataUnavailable)
        #expect(
            failure { _ = try DocumentPackage.checkOut(kept[0].version.id, at: path) }?.code
                == .protectedDataUnavailable)
        try await domain.unlock(keyFile: folder.path("key"))
        try requireVersions(kept)
    }

    @Test func aManifestInClearIsDamage() async throws {
        let kept = try await make(.complete)
        let manifest = layout.version(kept[0].version.id) + "/Manifest"
        try AtomicFileReplace.replace(manifest, with: Data("QUIRE-VERSION 1 ".utf8))
        let versions = try DocumentPackage.versions(at: path)
        #expect(versions.map(\.isComplete) == [true, false])
        // One whose keys are to be changed must be whole.
        let before = try contents(ofFolder: path)
        let error = failure {
            try DocumentPackage.setFileProtection(.completeUnlessOpen, ofDocumentAt: path)
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains(kept[0].version.id) == true)
        #expect(try contents(ofFolder: path) == before)
    }

    // MARK: Changing keys

    @Test(arguments: classes) func versionsComeAlongWhenTheClassChanges(
        _ protection: FileProtection
    ) async throws {
        let kept = try await make(.none)
        try DocumentPackage.setFileProtection(protection, ofDocumentAt: path, domain: domain)
        try requireNoCanary()
        try requireVersions(kept)
        let other = protection == .complete ? FileProtection.completeUnlessOpen : .complete
        try DocumentPackage.setFileProtection(other, ofDocumentAt: path)
        try requireNoCanary()
        try requireVersions(kept)
        try DocumentPackage.setFileProtection(.none, ofDocumentAt: path)
        try requireVersions(kept)
    }

    @Test func largeFilesOfVersionsAreStillSharedAfterAChangeOfKeys() async throws {
        let kept = try await make(.complete)
        try DocumentPackage.rotateKeys(ofDocumentAt: path)
        for name in try FileSystem.names(in: layout.externalData) {
            let live = FileSystem.path(layout.externalData, name)
            let information = try #require(try FileSystem.information(at: live))
            let last = layout.version(kept[1].version.id) + "/ExternalData/" + name
            let version = try #require(try FileSystem.information(at: last))
            #expect(information.isSameFile(as: version))
        }
        // What did not change between the two is once among the blocks.
        let versions = try DocumentPackage.versions(at: path)
        #expect(versions[0].addedSize < versions[0].size)
    }

    @Test func afterARotationTheFormerKeysOpenNothing() async throws {
        let kept = try await make(.complete)
        let own = try #require(try DocumentPackage.protectionDomain(at: path))
        try own.addSlot(.passphrase("former"), cost: ScryptCost(logarithmOfN: 4, r: 8, p: 1))
        let former = try Data(contentsOf: URL(fileURLWithPath: layout.keybag))
        let before = try contents(ofFolder: path)
        try DocumentPackage.rotateKeys(ofDocumentAt: path)
        try requireNoCanary()
        try requireVersions(kept)
        let rotated = try #require(try DocumentPackage.protectionDomain(at: path))
        #expect(rotated.slots.map(\.kind) == [.domain])
        #expect(rotated.identifier != own.identifier)
        #expect(failure { try rotated.unlock(.passphrase("former")) }?.code == .wrongKey)
        // Nothing is sealed as it was.
        for (name, bytes) in try contents(ofFolder: path)
        where name.contains("Store") || name.contains("Blocks") || name.contains("Content") {
            #expect(bytes.isEmpty || before[name] != bytes, "\(name)")
        }
        try AtomicFileReplace.replace(layout.keybag, with: former)
        let old = try #require(try DocumentPackage.protectionDomain(at: path))
        try old.unlock(.passphrase("former"))
        #expect(
            failure { _ = try DocumentPackage.open(at: path, readOnly: true) }?.code
                == .invalidFormat)
    }

    @Test func keysOfADocumentThatWouldHaveNoneAreNotRotated() async throws {
        let document = ManagedDocument(path: path)
        document.fileProtection = .complete
        document.persistentStoreOptions.protectionSlots = [
            NewSlot(.keyFile(try KeyFile.read(folder.path("key"))))
        ]
        try await document.create(model: notesModel)
        try document.addNote("mine")
        let own = try #require(document.protectionDomain)
        try await document.close()
        #expect(
            failure { try DocumentPackage.rotateKeys(ofDocumentAt: path) }?.code
                == .protectionUnavailable)
        try ProtectionDomain.makeKeyFile(at: folder.path("other"))
        let slot = NewSlot(.keyFile(try KeyFile.read(folder.path("other"))), label: "other")
        try await document.open()
        #expect(
            failure {
                try DocumentPackage.rotateKeys(ofDocumentAt: path, slots: [slot], waiting: nil)
            }?.code == .locked)
        try await document.close()
        try DocumentPackage.rotateKeys(ofDocumentAt: path, slots: [slot], waiting: nil)
        let rotated = try #require(try DocumentPackage.protectionDomain(at: path))
        #expect(rotated !== own && rotated.slots.map(\.label) == ["other"])
        try rotated.unlock(.keyFile(try KeyFile.read(folder.path("other"))))
        #expect(try await ManagedDocument.titles(at: path) == ["mine"])
    }

    // MARK: Other keys

    /// A conflicting copy whose keys differ, or that has none, becomes a version that is sealed with the document's keys.
    @Test(arguments: [FileProtection.none, .complete], [FileProtection.none, .complete])
    func aConflictingCopyWithOtherKeysBecomesAVersion(
        _ own: FileProtection, _ others: FileProtection
    ) async throws {
        _ = try await make(others)
        let copy = folder.path("Notes (conflicted copy 2026-11-22 101500).quire")
        try await FileQueue.copies.run { [path] in
            let package = try DocumentPackage.open(at: path, readOnly: true)
            try package.writeCopy(to: copy)
            try package.close()
        }
        if own == others, own != .none {
            try DocumentPackage.rotateKeys(ofDocumentAt: path)
        } else {
            try DocumentPackage.setFileProtection(own, ofDocumentAt: path, domain: domain)
        }
        let package = try DocumentPackage.open(at: path)
        let found = try #require(try package.conflictingCopies().first)
        let theirs = try PackageContents(at: copy)
        let version = try package.adopt(found)
        #expect(!FileSystem.exists(copy))
        if own != .none { try requireNoCanary() }
        try package.addNotes("ours")
        let resolved = try package.resolveConflict(version.id, keeping: .other)
        try package.close()
        #expect(try PackageContents(resolved) == theirs)
        #expect(try resolved.check() == [])
        #expect(resolved.store.protection?.fileProtection ?? .none == own)
        try resolved.close()
        if own != .none { try requireNoCanary() }
    }

    // MARK: Erasing

    @Test func anErasedDocumentIsGoneAndItsKeysAreBeforeAnythingElse() async throws {
        _ = try await make(.complete)
        let keybag = folder.path("keybag")
        // Another name of the same file shows what was written.
        try FileSystem.link(layout.keybag, to: keybag)
        let document = ManagedDocument(path: path)
        try await document.open()
        #expect(failure { try DocumentPackage.erase(documentAt: path) }?.code == .locked)
        try await document.close()
        await domain.lock(after: .zero)
        try DocumentPackage.erase(documentAt: path)
        #expect(!FileSystem.exists(path))
        let bytes = try Data(contentsOf: URL(fileURLWithPath: keybag))
        #expect(!bytes.isEmpty && bytes.allSatisfy { $0 == 0 })
        #expect(
            try FileSystem.names(in: folder.path).sorted() == ["key", "keybag", "me.keybag"])
    }

    @Test func anInterruptedErasureGoesOn() async throws {
        _ = try await make(.complete)
        try ProtectionDomain.eraseKeybag(at: layout.keybag, beneath: path)
        #expect(
            failure { _ = try DocumentPackage.open(at: path, readOnly: true) }?.code
                == .invalidFormat)
        try DocumentPackage.erase(documentAt: path)
        #expect(!FileSystem.exists(path))
        _ = try await make(.none)
        #expect(
            failure { try DocumentPackage.erase(documentAt: path) }?.code == .protectionUnavailable)
        #expect(FileSystem.exists(path))
    }
}
