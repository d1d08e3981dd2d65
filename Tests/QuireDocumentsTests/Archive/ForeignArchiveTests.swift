import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Archives that other programs have made of a document, and folders.
@Suite(.inClear) struct ForeignArchiveTests {
    let folder: TemporaryFolder
    let document: String

    init() throws {
        folder = try TemporaryFolder()
        document = folder.path("Notes.quire")
        let package = try DocumentPackage.create(
            at: document, model: notesModel)
        try package.close()
    }

    typealias Entry = HandmadeArchive.Entry

    /// The files of the document, below a folder.
    private func entries(in root: String, of document: String? = nil) throws -> [Entry] {
        let document = document ?? self.document
        return try FileSystem.contentsOfTree(document).map { path, information in
            let isFolder = information.kind == .folder
            return Entry(
                path: root + path, kind: isFolder ? .folder : .file,
                data: isFolder
                    ? Data() : try FileSystem.contents(of: FileSystem.path(document, path)))
        }
    }

    @discardableResult
    private func extract(_ data: Data, _ name: String = "a.zip") throws -> ExtractedArchive {
        let archive = folder.path(name)
        try data.write(to: URL(fileURLWithPath: archive))
        defer { try? FileSystem.removeFile(archive) }
        return try DocumentPackage.extract(archive, to: folder.path("Copy.quire"))
    }

    private func expectRefusal(
        _ entries: [Entry], because reason: String, location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try FileSystem.names(in: folder.path)
        for data in [HandmadeArchive(entries).zip(), HandmadeArchive(entries).tar] {
            let error = failure { try extract(data) }
            #expect(error?.code == .invalidFormat, sourceLocation: location)
            #expect(
                error?.message.contains(reason) == true, "\(error?.message ?? "")",
                sourceLocation: location)
        }
        #expect(try FileSystem.names(in: folder.path) == before, sourceLocation: location)
    }

    @Test(arguments: ["", "Notes.quire/", "./Notes.quire/", "a/b/c d/Notes/", "__MAC/é/"])
    func documentIsFoundInAnyFolder(root: String) throws {
        for data in try [
            HandmadeArchive(entries(in: root)).zip(), HandmadeArchive(entries(in: root)).tar,
        ] {
            let result = try extract(data)
            #expect(!result.isVerified && result.isStoreChecked)
            #expect(result.omittedPaths == [])
            let copy = try DocumentPackage.open(at: folder.path("Copy.quire"), readOnly: true)
            try copy.close()
            try FileSystem.removeTree(folder.path("Copy.quire"))
        }
    }

    @Test func incidentalFilesAreIgnoredAndForeignFilesAreReported() throws {
        let added = [
            ".DS_Store", "Notes.quire/.DS_Store", "Notes.quire/StoreContent/._persistentStore",
            "__MACOSX/Notes.quire/._DocumentMetadata.plist", "__MACOSX/._Notes.quire",
            "Notes.quire/.lock", "Notes.quire/StoreContent/persistentStore-shm", "readme.txt",
        ].map { Entry(path: $0, data: Data([1])) }
        let foreign = [
            "Notes.quire/StoreContent/persistentStore (copy)", "Notes.quire/todo/list.txt",
        ]
        let result = try extract(
            HandmadeArchive(
                entries(in: "Notes.quire/") + added
                    + foreign.map { Entry(path: $0, data: Data([2])) }
            ).zip())
        #expect(
            result.omittedPaths == ["StoreContent/persistentStore (copy)", "todo/list.txt"])
        let copy = folder.path("Copy.quire")
        #expect(
            try FileSystem.contentsOfTree(copy).map(\.path).sorted()
                == FileSystem.contentsOfTree(document).map(\.path).sorted())
    }

    /// Explorer writes names in the code page of the first PCs, and Finder in UTF-8 with decomposed accents, and neither says so.
    @Test func namesWithoutAnEncodingAreReadAsTheirProgramsWriteThem() throws {
        let content = Entry(path: "N/AdditionalContent/1/Grüße é.txt", data: Data("a".utf8))
        let archive = try HandmadeArchive(entries(in: "N/") + [content])
        let codePage = archive.zip { text in
            text.unicodeScalars.map { ["ü": 0x81, "ß": 0xE1, "é": 0x82][$0] ?? UInt8($0.value) }
        }
        let finder = archive.zip { Array($0.decomposedStringWithCanonicalMapping.utf8) }
        for data in [codePage, finder] {
            try extract(data)
            let copy = folder.path("Copy.quire")
            let names = try FileSystem.names(in: copy + "/AdditionalContent/1")
            #expect(names.map { Array($0.utf8) } == [Array("Grüße é.txt".utf8)])
            try FileSystem.removeTree(copy)
        }
    }

    @Test func exactlyOneDocumentIsExtracted() throws {
        try expectRefusal(
            entries(in: "A/") + entries(in: "B/"), because: "contains 2 documents: “A”, “B”")
        try expectRefusal(
            [Entry(path: "A/StoreContent/other")], because: "contains neither")
        // One that is part of the other's content is no second one.
        try extract(
            HandmadeArchive(
                entries(in: "A/") + entries(in: "A/AdditionalContent/1/Inner.quire/")
            ).tar, "a.tar")
    }

    @Test func whatCouldHarmIsRefused() throws {
        let entries = try entries(in: "A/")
        let store = "A/StoreContent/persistentStore"
        try expectRefusal(entries + [Entry(path: "../evil")], because: "has the component “..”")
        try expectRefusal(entries + [Entry(path: "/tmp/quire-evil")], because: "is absolute")
        try expectRefusal(
            entries + [
                Entry(path: "A/AdditionalContent/1", kind: .symbolicLink, target: "/etc")
            ], because: "a symbolic link")
        try expectRefusal(
            entries + [Entry(path: store + "-journal", data: Data([1]))],
            because: "unfinished transaction")
        try expectRefusal(entries + [Entry(path: store, data: Data([1]))], because: "appears twice")
        // Outside of the document it is not looked at.
        try extract(
            HandmadeArchive(entries + [Entry(path: "l", kind: .symbolicLink, target: "/etc")]).tar)
    }

    @Test func damagedStoreIsRefused() throws {
        var entries = try entries(in: "A/")
        let index = try #require(entries.firstIndex { $0.path.hasSuffix("/persistentStore") })
        entries[index].data.replaceSubrange(4096..<8192, with: Data(repeating: 7, count: 4096))
        try expectRefusal(entries, because: "cannot be used")
    }

    @Test func unpackedArchiveThatWasPackedAgainIsVerified() throws {
        let package = try DocumentPackage.open(at: document, readOnly: true)
        defer { try? package.close() }
        let archive = folder.path("b.zip")
        let manifest = try package.export(to: archive)
        let unpacked = folder.path("Unpacked.quire")
        try DocumentPackage.extract(archive, to: unpacked)
        var entries =
            try entries(in: "Other/", of: unpacked).reversed() + [
                Entry(path: "Other/.DS_Store"),
                Entry(path: "Other/META-INF/manifest.json", data: manifest.encoded()),
            ]
        #expect(try extract(HandmadeArchive(entries).zip()).isVerified)
        try FileSystem.removeTree(folder.path("Copy.quire"))
        entries.append(Entry(path: "Other/AdditionalContent/1/more", data: Data([1])))
        try expectRefusal(entries, because: "its manifest does not list")
        entries = entries.filter {
            !$0.path.contains("AdditionalContent") && !$0.path.hasSuffix("plist")
        }
        try expectRefusal(entries, because: "“DocumentMetadata.plist” is missing")
    }

    @Test
    func openingForWritingRemovesTheManifestOfTheUnpackedArchive() throws {
        try FileSystem.makeFolder(document + "/META-INF")
        try FileSystem.writeNewFile(Data(), at: document + "/META-INF/manifest.json")
        try FileSystem.writeNewFile(Data(), at: document + "/META-INF/manifest.json.sig")
        try FileSystem.writeNewFile(Data(), at: document + "/mimetype")
        let reading = try DocumentPackage.open(at: document, readOnly: true)
        #expect(try reading.packageProblems().map(\.message) == [])
        try reading.close()
        #expect(FileSystem.exists(document + "/META-INF/manifest.json"))
        let writing = try DocumentPackage.open(at: document)
        try writing.close()
        #expect(!FileSystem.exists(document + "/META-INF"))
        #expect(!FileSystem.exists(document + "/mimetype"))
    }

    @Test func folderIsExtractedUnlessItsDocumentIsOpen() throws {
        let result = try DocumentPackage.extract(folder.path, to: folder.path("Copy.quire"))
        #expect(result.isStoreChecked && !result.isVerified)
        try FileSystem.removeTree(folder.path("Copy.quire"))
        let package = try DocumentPackage.open(at: document)
        defer { try? package.close() }
        let error = failure {
            try DocumentPackage.extract(document, to: folder.path("Copy.quire"))
        }
        #expect(error?.code == .locked)
        #expect(try FileSystem.names(in: folder.path) == ["Notes.quire"])
    }

    /// The log has what was saved last.
    @Test func writeAheadLogIsPartOfTheDocument() throws {
        let package = try DocumentPackage.open(at: document)
        let copied = folder.path("Live")
        try package.store.setMetadata("logged", forKey: "key")
        try FileSystem.copyTree(document, to: copied)
        try package.close()
        #expect(FileSystem.exists(copied + "/StoreContent/persistentStore-wal"))
        try FileSystem.removeFileIfPresent(copied + "/.lock")
        try DocumentPackage.extract(copied, to: folder.path("Copy.quire"))
        let copy = try DocumentPackage.open(at: folder.path("Copy.quire"), readOnly: true)
        defer { try? copy.close() }
        #expect(try copy.store.metadata().values["key"] == "logged")
    }
}
