import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Archives of protected documents.
@Suite @MainActor struct ProtectedArchiveTests {
    private typealias Fixture = ProtectedDocumentFixture
    nonisolated static let fileNames = ArchiveTests.fileNames

    private func export(
        _ fixture: Fixture, to archive: String, _ protection: ArchiveProtection?
    ) throws {
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        defer { try? package.close() }
        try package.export(to: archive, protection: protection)
    }

    @Test(arguments: fileNames, Fixture.classes)
    func keptProtectionSealsTheArchiveAndTheSameKeyOpensIt(
        name: String, protection: FileProtection
    ) async throws {
        let fixture = try await Fixture(protection)
        let (archive, copy) = (fixture.folder.path(name), fixture.folder.path("Copy.quire"))
        try export(fixture, to: archive, .keep)
        #expect(try DocumentPackage.extract(archive, to: copy).isStoreChecked)
        #expect(try DocumentPackage.fileProtection(at: copy) == protection)
        try await fixture.requireWhole(copy)
        // Of the archive itself this would see only what does not become shorter by compression.
        #expect(try Fixture.filesInClear(in: fixture.folder.path) == [])
        #expect(
            try fixture.names() == [name, "Copy.quire", "Notes.quire", "key", "me.keybag"].sorted())
        // Another user of the key, who has nothing but the archive.
        await fixture.domain.lock(after: .zero)
        let later = fixture.folder.path("Later.quire")
        let isOpen = protection == .completeUntilFirstUserAuthentication
        #expect(try DocumentPackage.extract(archive, to: later).isStoreChecked == isOpen)
        try await fixture.domain.unlock(keyFile: fixture.folder.path("key"))
        try await fixture.requireWhole(later)
    }

    @Test(arguments: fileNames, Fixture.classes)
    func removedProtectionGivesADocumentInClear(
        name: String, protection: FileProtection
    ) async throws {
        let fixture = try await Fixture(protection)
        let (archive, copy) = (fixture.folder.path(name), fixture.folder.path("Copy.quire"))
        try export(fixture, to: archive, .remove)
        await fixture.domain.lock(after: .zero)
        #expect(try DocumentPackage.extract(archive, to: copy).isStoreChecked)
        #expect(try DocumentPackage.fileProtection(at: copy) == .none)
        try await fixture.requireWhole(copy)
        #expect(try Fixture.filesInClear(in: copy).count == 3)
        // Nothing in clear but what was asked for.
        #expect(try Fixture.filesInClear(in: fixture.path) == [])
        #expect(
            try fixture.names() == [name, "Copy.quire", "Notes.quire", "key", "me.keybag"].sorted())
    }

    @Test func aProtectedDocumentIsNotExportedWithoutAChoice() async throws {
        let fixture = try await Fixture(.complete)
        let archive = fixture.folder.path("a.zip")
        let error = failure { try export(fixture, to: archive, nil) }
        #expect(error?.code == .protectionUnavailable)
        #expect(error?.message.contains("choose whether") == true)
        let document = ManagedDocument(path: fixture.path)
        try await document.open()
        #expect(
            await failure { try await document.export(to: URL(fileURLWithPath: archive)) }?.code
                == .protectionUnavailable)
        try await document.export(
            to: URL(fileURLWithPath: fixture.folder.path("b.zip")), protection: .keep)
        try await document.close()
        #expect(!FileSystem.exists(archive))
    }

    @Test(arguments: [nil, ArchiveProtection.keep, .remove])
    func theChoiceMattersToProtectedDocumentsOnly(choice: ArchiveProtection?) async throws {
        let fixture = try await Fixture(.none)
        let archive = fixture.folder.path("a.zip")
        try export(fixture, to: archive, nil)
        let other = fixture.folder.path("b.zip")
        try export(fixture, to: other, choice)
        #expect(try FileSystem.contents(of: archive) == FileSystem.contents(of: other))
    }

    @Test(arguments: [ArchiveProtection.keep, .remove])
    func aLockedDocumentIsNotExported(choice: ArchiveProtection) async throws {
        let fixture = try await Fixture(.complete)
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        defer { try? package.close() }
        await fixture.domain.lock(after: .zero)
        let archive = fixture.folder.path("a.zip")
        #expect(
            failure { try package.export(to: archive, protection: choice) }?.code
                == .protectedDataUnavailable)
        #expect(try fixture.names() == ["Notes.quire", "key", "me.keybag"])
    }

    /// Unsaved changes are not exported, sealed or not.
    @Test(arguments: [ArchiveProtection.keep, .remove])
    func aDraftIsNotExported(choice: ArchiveProtection) async throws {
        let fixture = try await Fixture(.complete)
        let document = ManagedDocument(path: fixture.path)
        document.autosavePolicy = .never
        try await document.open()
        // Without a title it cannot be saved.
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        note["title"] = nil
        #expect(await failure { try await document.autosave() }?.code == .validation)
        #expect(try document.package.hasDraft())
        let (archive, copy) = (fixture.folder.path("a.zip"), fixture.folder.path("Copy.quire"))
        try document.package.export(to: archive, protection: choice)
        try DocumentPackage.extract(archive, to: copy)
        let package = try DocumentPackage.open(at: copy, readOnly: true)
        #expect(try !package.hasDraft())
        try package.close()
        try await fixture.requireWhole(copy)
        try await document.close(discardingChanges: true)
    }

    @Test func aWrongKeyLeavesNothing() async throws {
        let fixture = try await Fixture(.complete)
        let archive = fixture.folder.path("a.zip")
        try export(fixture, to: archive, .keep)
        await fixture.domain.lock(after: .zero)
        let error = failure {
            _ = try DocumentPackage.extract(archive, to: fixture.folder.path("Copy.quire")) {
                try $0.unlock(.keyFile(Data(count: 32)))
            }
        }
        #expect(error?.code == .wrongKey)
        #expect(error?.message.contains(archive + "/Protection.keybag") == true)
        #expect(try fixture.names() == ["Notes.quire", "a.zip", "key", "me.keybag"])
    }

    // MARK: - Hostile archives

    /// What is done to the files of an honest archive.
    struct Attack: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Whether it is found without a key.
        var isFoundLocked = true
        let change: @Sendable (inout [String: Data], _ other: [String: Data]) throws -> Void
    }

    nonisolated private static let keybag = "Protection.keybag"
    nonisolated private static let store = "StoreContent/persistentStore"

    nonisolated static let attacks = [
        Attack(testDescription: "garbage for a keybag") { files, _ in
            files[keybag] = Data(repeating: 7, count: 500)
        },
        Attack(testDescription: "empty keybag") { files, _ in files[keybag] = Data() },
        Attack(testDescription: "oversized keybag") { files, _ in
            files[keybag]?.append(Data(count: 4 << 20))
        },
        Attack(testDescription: "truncated keybag") { files, _ in files[keybag]?.removeLast(33) },
        Attack(testDescription: "another document's keybag", isFoundLocked: false) {
            files, other in files[keybag] = other[keybag]
        },
        Attack(testDescription: "no keybag") { files, _ in files[keybag] = nil },
        Attack(testDescription: "another document's store", isFoundLocked: false) {
            files, other in files[store] = other[store]
        },
        Attack(testDescription: "store in clear") { files, _ in
            files[store] = Data("SQLite format 3\0".utf8) + Data(count: 4096 - 16)
        },
        Attack(testDescription: "store cut off") { files, _ in files[store]?.removeLast(100) },
        Attack(testDescription: "empty store") { files, _ in files[store] = Data() },
        Attack(testDescription: "changed page", isFoundLocked: false) { files, _ in
            files[store]?[5000] ^= 1
        },
        Attack(testDescription: "external data in clear") { files, _ in
            let name = try #require(files.keys.first { $0.contains("_EXTERNAL_DATA") })
            files[name] = Data(count: 300_100)
        },
        Attack(testDescription: "additional content in clear") { files, _ in
            files["AdditionalContent/1/folder/attachment"] = Data("clear".utf8)
        },
        Attack(testDescription: "another file in clear") { files, _ in
            files["AdditionalContent/1/more"] = Data("clear".utf8)
        },
        Attack(testDescription: "file of another class") { files, _ in
            files["AdditionalContent/1/folder/attachment"]?[10] = 3
        },
        Attack(testDescription: "file of another document", isFoundLocked: false) { files, other in
            let name = "AdditionalContent/1/folder/attachment"
            files[name] = other[name]
        },
    ]

    @Test(arguments: attacks) func hostileArchivesAreErrors(attack: Attack) async throws {
        let fixture = try await Fixture(.complete)
        let other = try await Fixture(.complete)
        func files(_ fixture: Fixture) throws -> [String: Data] {
            let (archive, tree) = (fixture.folder.path("a.zip"), fixture.folder.path("tree"))
            try export(fixture, to: archive, .keep)
            try ArchiveExtraction(archive: archive, destination: tree).run()
            defer { try? FileSystem.removeTree(tree) }
            return try contents(ofFolder: tree).filter { name, _ in
                try FileSystem.information(at: FileSystem.path(tree, name))?.kind == .regular
            }
        }
        var changed = try files(fixture)
        func write(_ name: String) throws -> String {
            let entries = changed.sorted { $0.key < $1.key }.map {
                HandmadeArchive.Entry(path: $0.key, data: $0.value)
            }
            let path = fixture.folder.path(name)
            try HandmadeArchive(entries).withManifest().zip()
                .write(to: URL(fileURLWithPath: path))
            return path
        }
        let copy = fixture.folder.path("Copy.quire")
        #expect(try DocumentPackage.extract(write("honest.zip"), to: copy).isStoreChecked)
        try FileSystem.removeTree(copy)
        try attack.change(&changed, files(other))
        let hostile = try write("hostile.zip")
        let names = try fixture.names()
        let error = failure { try DocumentPackage.extract(hostile, to: copy) }
        #expect(error?.code == .invalidFormat, "\(error?.message ?? "")")
        #expect(try fixture.names() == names)
        await fixture.domain.lock(after: .zero)
        await other.domain.lock(after: .zero)
        if attack.isFoundLocked {
            #expect(
                failure { try DocumentPackage.extract(hostile, to: copy) }?.code == .invalidFormat)
            #expect(try fixture.names() == names)
        } else {
            #expect(try !DocumentPackage.extract(hostile, to: copy).isStoreChecked)
        }
    }
}
