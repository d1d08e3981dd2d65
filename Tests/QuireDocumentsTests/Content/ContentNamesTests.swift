import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Names of additional content, which are bytes on disk.
@Suite @MainActor struct ContentNamesTests {
    let folder: TemporaryFolder
    let path: String
    let layout: DocumentPackageLayout

    /// Names that a program may find on disk: composed, decomposed, and not UTF-8.
    nonisolated static let names = [
        FileName("caf\u{E9}.txt"), FileName("cafe\u{301}.txt"),
        FileName(bytes: Array("lat".utf8) + [0xE9]), FileName("\u{301}accent first"),
    ]

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        layout = DocumentPackageLayout(path: path)
    }

    /// A folder with a file of each name, whose content is the name's bytes; deeper ones too.
    private func makeFolder(_ name: String) throws -> String {
        let path = folder.path(name)
        for folder in [path, path + "/de\u{301}ep"] {
            try FileSystem.makeFolder(folder, withIntermediates: true)
            for name in Self.names {
                try FileSystem.writeNewFile(
                    Data(name.text.utf8), at: FileSystem.path(folder, name.text))
            }
        }
        return path
    }

    /// The files of additional content on disk, without generations.
    private func files(_ layout: DocumentPackageLayout? = nil) throws -> Set<FileName> {
        let layout = layout ?? self.layout
        return Set(
            try FileSystem.contentsOfTree(layout.additionalContent)
                .filter { $0.information.kind == .regular }
                .map {
                    FileName(String(Substring($0.path.utf8.drop { $0 != 0x2F }.dropFirst())))
                })
    }

    private func expectAll(
        _ document: ManagedDocument, in folder: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for name in Self.names {
            let path = folder.map { FileSystem.path($0, name.text) } ?? name.text
            #expect(
                try document.additionalContent.data(at: path) == Data(name.text.utf8),
                sourceLocation: sourceLocation)
            #expect(document.additionalContent.contains(path), sourceLocation: sourceLocation)
        }
    }

    /// A document whose subclass writes files of any name in its first save.
    private final class Album: ManagedDocument {
        nonisolated(unsafe) var hasWritten = false
        override func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? {
            hasWritten ? nil : ""
        }
        override nonisolated func writeAdditionalContent(
            _ content: any Sendable, to absoluteURL: URL, originalContentsURL: URL?
        ) throws {
            for name in ContentNamesTests.names + [FileName("back\\slash")] {
                try FileSystem.writeNewFile(
                    Data(name.text.utf8), at: FileSystem.path(absoluteURL.path, name.text))
            }
            hasWritten = true
        }
    }

    @Test func filesOfAnyNameStayInSavesVersionsAndCopies() async throws {
        let album = Album(path: path)
        try await album.create(model: notesModel)
        try await album.save()
        let all = Set(Self.names + [FileName("back\\slash")])
        #expect(Set(album.additionalContent.paths.map(FileName.init)) == all)
        try album.additionalContent.write(Data([1]), at: "other")
        try await album.save()
        #expect(try files() == all.union([FileName("other")]))
        try expectAll(album)

        let version = try await album.keepVersion()
        for path in album.additionalContent.paths { try album.additionalContent.remove(at: path) }
        try await album.save()
        #expect(album.additionalContent.paths.isEmpty)
        try await album.restore(version.id)
        #expect(try files() == all.union([FileName("other")]))
        try expectAll(album)

        let copy = folder.path("Copy.quire")
        try album.additionalContent.write(Data([2]), at: "unsaved")
        try await album.save(as: URL(fileURLWithPath: copy))
        try expectAll(album)
        #expect(
            try files(DocumentPackageLayout(path: copy))
                == all.union([FileName("other"), FileName("unsaved")]))
        #expect(try await album.check().isEmpty)
        try await album.close()
        let again = ManagedDocument(path: copy)
        try await again.open()
        try expectAll(again)
        try await again.close()
        try FileSystem.removeTree(copy)
        #expect(!FileSystem.exists(copy))
    }

    @Test func folderIsAddedWithFilesOfAnyName() async throws {
        let tree = try makeFolder("tree")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        // Neither of a pair replaces the other if one is there.
        for _ in 0..<2 {
            let added = try await document.additionalContent.write(
                contentsOfFolder: tree, at: "in")
            #expect(added.count == 2 * Self.names.count)
            try await document.save()
        }
        try expectAll(document, in: "in")
        try expectAll(document, in: "in/d\u{E9}ep")
        #expect(document.additionalContent.paths(inFolder: "in").count == 2 * Self.names.count)
        try await document.close()

        let package = try DocumentPackage.open(at: path)
        try package.changeAdditionalContent(
            adding: DocumentPackage.additionalContent(ofFolder: tree, at: "more"))
        #expect(try package.additionalContent().count == 4 * Self.names.count)
        for name in Self.names {
            #expect(
                try package.additionalContent(at: "more/" + name.text) == Data(name.text.utf8))
        }
        try package.close()
    }

    @Test func decomposedNameIsFoundByTheComposedOne() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.additionalContent.write(Data([1]), at: "caf\u{E9}")
        try await document.close()
        let live = layout.additionalContent(generation: 1)
        try FileSystem.rename(live + "/caf\u{E9}", to: live + "/cafe\u{301}")

        for isReadOnly in [true, false] {
            try await document.open(readOnly: isReadOnly)
            for name in ["caf\u{E9}", "cafe\u{301}"] {
                #expect(try document.additionalContent.data(at: name) == Data([1]))
                #expect(try document.package.additionalContent(at: name) == Data([1]))
                #expect(
                    try (document.additionalContent.url(for: name) == nil) == TestProtection.isOn)
            }
            if isReadOnly { try await document.close() }
        }
        // It is replaced, and removed, not joined by another file.
        try document.additionalContent.write(Data([2]), at: "caf\u{E9}")
        try await document.save()
        #expect(try files() == [FileName("cafe\u{301}")])
        #expect(try document.additionalContent.data(at: "cafe\u{301}") == Data([2]))
        #expect(
            failure { try document.additionalContent.write(Data(), at: "CAF\u{C9}") }?.code
                == .invalidValue)
        try document.additionalContent.remove(at: "caf\u{E9}")
        try await document.save()
        #expect(document.additionalContent.paths.isEmpty)
        try await document.close()
    }

    @Test func draftKeepsFilesOfAnyName() async throws {
        let tree = try makeFolder("tree")
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("")["title"] = nil
        try await document.additionalContent.write(contentsOfFolder: tree, at: "in")
        #expect(await failure { try await document.save() }?.code == .validation)
        let copy = folder.path("Copy.quire")
        try FileSystem.copyTree(path, to: copy)
        try FileSystem.removeFile(DocumentPackageLayout(path: copy).lock)
        let other = ManagedDocument(path: copy)
        other.autosavePolicy = .never
        try await other.open()
        try expectAll(other, in: "in")
        try await other.close(discardingChanges: true)
        try await document.close(discardingChanges: true)
    }

    @Test(.needs(!TestProtection.isOn, or: "an archive of a protected document needs a choice"))
    func archiveRefusesPairsAndKeepsOtherNames() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        let source = folder.path("source")
        try FileSystem.writeNewFile(Data([1]), at: source)
        try await document.additionalContent.write(contentsOf: source, at: Self.names[2].text)
        try await document.save()
        let archive = folder.path("A.zip")
        try await document.export(to: URL(fileURLWithPath: archive))
        let copy = folder.path("Copy.quire")
        _ = try DocumentPackage.extract(archive, to: copy)
        #expect(try files(DocumentPackageLayout(path: copy)) == [Self.names[2]])
        let tree = try makeFolder("tree")
        try await document.additionalContent.write(contentsOfFolder: tree, at: "in")
        try await document.save()
        #expect(
            await failure {
                try await document.export(to: URL(fileURLWithPath: folder.path("B.zip")))
            }?.code == .unsupported)
        try await document.close()
    }

    // MARK: Names

    @Test(
        arguments: [
            [0x61], [0xE9], [0xC3, 0xA9], [0x65, 0xCC, 0x81], [0xC3], [0xF0, 0x9F, 0x98, 0x80],
            [0xF0, 0x9F, 0x98], [0xF4, 0x8F, 0xBA, 0x80], [0xED, 0xA0, 0x80], [0xC0, 0xAF],
            [0xFF, 0xFE],
            [0x65, 0xCC, 0x81, 0xE9],
        ] as [[UInt8]])
    func fileNameIsItsBytes(_ bytes: [UInt8]) throws {
        let name = FileName(bytes: bytes)
        #expect(FileName(name.text) == name)
        #expect(FileName(name.key) == name)
        #expect(FileName(name.escaped) == name)
        #expect(name.byteCount == bytes.count)
        // By the system's own calls.
        let path = (folder.path + "/").utf8CString.dropLast() + bytes.map(CChar.init(bitPattern:))
        fclose(fopen(Array(path) + [0], "w"))
        #expect(try FileSystem.names(in: folder.path) == [name.text])
        let file = FileSystem.path(folder.path, name.text)
        #expect(try FileSystem.information(at: file) != nil)
        #expect(try FileSystem.information(at: file, beneath: folder.path) != nil)
        try FileSystem.removeFile(file, beneath: folder.path)
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }

    @Test func fileNamesDifferIfTheirBytesDo() {
        let (composed, decomposed) = (FileName("\u{E9}"), FileName("e\u{301}"))
        #expect(composed != decomposed)
        #expect(composed.text == decomposed.text)
        #expect(composed.key != decomposed.key)
        #expect(Set([composed, decomposed]).count == 2)
    }

    @Test func pathsAreSplitAtSlashesWhateverFollows() {
        #expect(FileSystem.name(of: "/a/\u{301}b") == "\u{301}b")
        #expect(FileSystem.folder(of: "/a/\u{301}b") == "/a")
        #expect(FileSystem.components(of: "a/\u{301}b//c") == ["a", "\u{301}b", "", "c"])
        #expect(PortableNames.problem(with: "a/\\\u{301}") == "contains a backslash")
        #expect(FileName.isPath("a/e\u{301}/b", inFolder: "a/\u{E9}"))
        #expect(!FileName.isPath("a/bc", inFolder: "a/b"))
    }
}
