import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents that are read in an archive.
@Suite(.inClear) @MainActor struct ArchivedDocumentTests {
    private let folder: TemporaryFolder
    private let document: String

    /// More than a MiB, which becomes shorter by compression.
    private static let text = Data((0..<140_000).map { "\($0 &* 7919) " }.joined().utf8)
    /// More than a MiB, which does not.
    private static let noise: Data = {
        var random = SeededRandom(seed: 4)
        let words = (0..<160_000).map { _ in random.next() }
        return words.withUnsafeBytes { Data($0) }
    }()

    init() async throws {
        folder = try TemporaryFolder()
        self.document = folder.path("Notes.quire")
        let document = ManagedDocument(path: self.document)
        try await document.create(model: notesModel)
        for number in 0..<500 { try document.addNote("note \(number) of some") }
        try document.addNote("text", picture: Self.text)
        try document.addNote("noise", picture: Self.noise)
        try document.additionalContent.write(Self.text, at: "text")
        try document.additionalContent.write(Data("short".utf8), at: "folder/é")
        try document.additionalContent.write(Data(), at: "folder/empty")
        // What an unpacked archive has, or any other file of this name.
        try document.additionalContent.write(Data([0]), at: "a/META-INF/manifest.json")
        try document.additionalContent.write(Data([1]), at: "a/StoreContent/persistentStore")
        try await document.close()
    }

    @discardableResult
    private func export(_ name: String, _ options: ArchiveOptions = .init()) throws -> String {
        let package = try DocumentPackage.open(at: document, readOnly: true)
        defer { try? package.close() }
        try package.export(to: folder.path(name), replacing: true, options: options)
        return folder.path(name)
    }

    /// Everything in a document, as texts that can be compared.
    private static func content(of package: DocumentPackage) throws -> [String] {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        var content: [String] = []
        for note in try context.fetch(FetchRequest("Note")) {
            let picture = try note.externalData(forKey: "picture")?.data()
            content.append("\(note["title", as: String.self] ?? "") \(picture?.hashValue ?? 0)")
        }
        content.sort()
        for file in try package.additionalContent() {
            let data = try package.additionalContentFile(at: file.path)?.readAll()
            content.append("\(file) \(data?.hashValue ?? 0)")
        }
        return content
    }

    private static func content(at path: String) throws -> [String] {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        return try content(of: package)
    }

    @Test(arguments: ["a.zip", "a.quirez", "a.tar.zst"])
    func contentIsThatOfTheDocument(name: String) throws {
        let archive = try export(name)
        let before = try FileSystem.contents(of: archive)
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        #expect(package.isReadOnly)
        #expect((package.layout.path == archive) == !name.hasSuffix(".zst"))
        #expect(try Self.content(of: package) == Self.content(at: document))
        #expect(try package.store.integrityProblems() == [])
        #expect(try package.packageProblems().isEmpty)
        try package.close()
        #expect(!FileSystem.exists(FileSystem.path(package.layout.path, "StoreContent")))
        #expect(try FileSystem.contents(of: archive) == before)
        #expect(try FileSystem.names(in: folder.path) == ["Notes.quire", name])
    }

    @Test(arguments: ["a.zip", "a.tar"])
    func valuesAreRead(name: String) async throws {
        let package = try DocumentPackage.open(at: export(name), readOnly: true)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        for (title, data) in [("text", Self.text), ("noise", Self.noise)] {
            let note = try #require(
                try context.fetch(FetchRequest("Note")).first {
                    $0["title", as: String.self] == title
                })
            let value = try #require(try note.externalData(forKey: "picture"))
            #expect(value.size == data.count)
            #expect(try value.verify())
            let part = try value.read(3000, at: 1_047_000)
            #expect(part == data[1_047_000..<1_050_000])
            #expect(try value.read(10, at: data.count - 4) == data.suffix(4))
            var chunks = Data()
            for try await chunk in value.chunks(ofSize: 700_001) { chunks += chunk }
            #expect(chunks == data)
            let copy = folder.path("copy")
            try value.copy(to: copy, replacing: true)
            #expect(try FileSystem.contents(of: copy) == data)
            #expect(try value.withFileHandle { try $0.readToEnd() } == data)
            #expect((value.url == nil) == (name == "a.zip"))
            // It stays readable, as that of a package does.
            if title == "noise" {
                try package.close()
                #expect(try value.data() == data)
            }
        }
    }

    @Test func documentsOpenAndShowIt() async throws {
        let archive = try export("a.zip")
        let document = ManagedDocument(path: archive)
        try await document.open(readOnly: true)
        #expect(try document.titles().count == 502)
        #expect(try document.additionalContent.data(at: "folder/é") == Data("short".utf8))
        try document.addNote("new")
        #expect(await failure { try await document.save() }?.code == .readOnly)
        try await document.close(discardingChanges: true)
    }

    @Test func nothingInAnArchiveCanBeChanged() async throws {
        let archive = try export("a.zip")
        let error = failure { _ = try DocumentPackage.open(at: archive) }
        #expect(error?.code == .readOnly)
        #expect(error?.message.contains("is an archive") == true)
        let document = ManagedDocument(path: archive)
        #expect(await failure { try await document.open() }?.code == .readOnly)
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        defer { try? package.close() }
        for (name, change) in [
            ("file", { try FileSystem.writeNewFile(Data([1]), at: $0, beneath: archive) }),
            ("folder", { try FileSystem.makeFolder($0, beneath: archive) }),
            ("folder", { try FileSystem.makeFolder($0) }),
            ("DocumentMetadata.plist", { try FileSystem.removeFile($0, beneath: archive) }),
            ("StoreContent", { try FileSystem.removeTree($0, beneath: archive) }),
            ("StoreContent/persistentStore", { _ = try OpenFile.open($0, for: .updating) }),
        ] as [(String, (String) throws -> Void)] {
            #expect(failure { try change(FileSystem.path(archive, name)) } != nil, "\(name)")
        }
    }

    @Test func manyReadersShareOneArchive() throws {
        let archive = try export("a.zip")
        let first = try DocumentPackage.open(at: archive, readOnly: true)
        let second = try DocumentPackage.open(at: archive, readOnly: true)
        try first.close()
        #expect(try Self.content(of: second) == Self.content(at: document))
        // Another archive in its place must not be mixed with the one that is open.
        let package = try DocumentPackage.open(at: document)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        let note = try context.insertObject(entityName: "Note")
        note["title"] = "later"
        try context.save()
        try package.close()
        try export("a.zip")
        let error = failure { _ = try DocumentPackage.open(at: archive, readOnly: true) }
        #expect(error?.code == .locked)
        #expect(try Self.content(of: second).contains { $0.hasPrefix("later") } == false)
        try second.close()
        #expect(try Self.content(at: archive) == Self.content(at: document))
    }

    /// To other operations an open archive is the file that it is.
    @Test func openArchivesAreFilesToOthers() throws {
        let archive = try export("a.zip")
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        #expect(try DocumentPackage.extract(archive, to: folder.path("B.quire")).isVerified)
        #expect(try DocumentPackage.manifest(ofArchive: archive).entries.count > 5)
        #expect(try DocumentPackage.verify(archive: archive).files > 5)
        let copy = folder.path("b.zip")
        try FileSystem.copyFile(archive, to: copy)
        #expect(try FileSystem.contents(of: copy) == FileSystem.contents(of: archive))
        try FileSystem.rename(archive, to: folder.path("c.zip"))
        #expect(try Self.content(of: package) == Self.content(at: document))
        try FileSystem.removeFile(folder.path("c.zip"))
        #expect(try Self.content(of: package) == Self.content(at: document))
        try package.close()
    }

    @Test(arguments: ProtectedDocumentFixture.classes)
    func protectedDocumentsOpenWithTheirKeys(protection: FileProtection) async throws {
        let fixture = try await ProtectedDocumentFixture(protection)
        let archive = fixture.folder.path("a.zip")
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        try package.export(to: archive, protection: .keep)
        try package.close()
        try await fixture.requireWhole(archive)
        await fixture.domain.lock(after: .zero)
        if protection != .completeUntilFirstUserAuthentication {
            #expect(
                failure { _ = try DocumentPackage.open(at: archive, readOnly: true) }?.code
                    == .protectedDataUnavailable)
        }
        let domain = try #require(try DocumentPackage.protectionDomain(at: archive))
        try await fixture.domain.unlock(keyFile: fixture.folder.path("key"))
        try await fixture.requireWhole(archive)
        #expect(domain.slots.count == 1)
        #expect(try ProtectedDocumentFixture.filesInClear(in: fixture.folder.path) == [])
    }

    @Test func versionsInAnArchiveAreListed() throws {
        let package = try DocumentPackage.open(at: document)
        try package.keepVersion()
        try package.close()
        let archive = try export("a.zip", ArchiveOptions(includesVersions: true))
        #expect(try Self.content(at: archive) == Self.content(at: document))
    }

    // MARK: Damage

    /// Whatever is changed in an archive: it is refused, or what is read is what was exported.
    @Test(arguments: SeededRandom.seeds(24))
    func alteredArchivesGiveNoOtherContent(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let original = try FileSystem.contents(of: export("a.zip"))
        let expected = try Self.content(at: document)
        var refusals = 0
        for number in 0..<8 {
            var altered = original
            // Also the directory and the headers, which are a small part.
            let region =
                number % 2 == 0 ? 0..<original.count : original.count - 3000..<original.count
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let position = Int.random(in: region, using: &random)
                altered[position] ^= UInt8.random(in: 1...255, using: &random)
            }
            if number == 7 {
                altered.removeLast(Int.random(in: 1..<original.count, using: &random))
            }
            let path = folder.path("\(number).zip")
            try altered.write(to: URL(fileURLWithPath: path))
            do {
                #expect(try Self.content(at: path) == expected, "QUIRE_SEED=\(seed), \(number)")
            } catch let error as QuireError {
                refusals += 1
                #expect(error.code == .invalidFormat, "QUIRE_SEED=\(seed), \(number): \(error)")
            }
            try FileSystem.removeFile(path)
        }
        #expect(refusals > 0)
    }

    /// The index of the chunks is not in the directory, and nothing protects it but the digests of what is read by it.
    @Test func indexesThatLieAreErrors() throws {
        let original = try FileSystem.contents(of: export("a.zip"))
        let name = try #require(
            original.range(of: Data("AdditionalContent/1/.text.sozip.idx".utf8)))
        let start = name.upperBound
        for (what, offset, bytes) in [
            ("version", 0, [2, 0, 0, 0]), ("chunks of 1 GiB", 8, [0, 0, 0, 0x40]),
            ("chunks of no byte", 8, [0, 0, 0, 0]), ("another size", 16, [1]),
            ("an offset beyond the file", 32, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]),
            ("a negative offset", 32, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            ("an offset between chunks", 32, [9, 0, 0, 0, 0, 0, 0, 0]),
        ] as [(String, Int, [UInt8])] {
            var altered = original
            altered.replaceSubrange(start + offset..<start + offset + bytes.count, with: bytes)
            let path = folder.path("b.zip")
            try altered.write(to: URL(fileURLWithPath: path))
            let error = failure { _ = try Self.content(at: path) }
            #expect(error?.code == .invalidFormat, "\(what): \(error?.message ?? "")")
            try FileSystem.removeFile(path)
        }
    }
}
