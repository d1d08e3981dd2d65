import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Additional content from files and streams.
@Suite @MainActor struct AdditionalContentFilesTests {
    let folder: TemporaryFolder
    let path: String
    let layout: DocumentPackageLayout

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        layout = DocumentPackageLayout(path: path)
    }

    private func make(_ files: [String: Data] = [:]) async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        for (name, data) in files { try document.additionalContent.write(data, at: name) }
        try await document.save()
        return document
    }

    private func file(_ name: String, _ data: Data) throws -> String {
        let path = folder.path(name)
        try FileSystem.makeFolder(FileSystem.folder(of: path), withIntermediates: true)
        try FileSystem.writeNewFile(data, at: path)
        return path
    }

    /// Names in the package that are neither the document's nor its lock.
    private func spooledFiles() throws -> [String] {
        try FileSystem.names(in: path).filter(FileSystem.isTemporaryName)
    }

    // MARK: Values

    private struct Settings: Codable, Equatable {
        var size = 12.5
        var opened = Date(timeIntervalSinceReferenceDate: 700_000_000)
        var places: [String: Int] = [:]
    }

    @Test func valuesAreWrittenAndReadAsJSON() async throws {
        let document = try await make()
        let settings = Settings(places: ["b": 2, "a/c": 1])
        try document.additionalContent.encode(settings, at: "settings.json")
        #expect(
            try document.additionalContent.decode(Settings.self, at: "settings.json") == settings)
        #expect(try document.additionalContent.decode(Settings.self, at: "none.json") == nil)
        try await document.close()
        try await document.open()
        #expect(
            try document.additionalContent.decode(Settings.self, at: "settings.json") == settings)
        let text = String(
            decoding: try #require(try document.additionalContent.data(at: "settings.json")),
            as: UTF8.self)
        #expect(text.contains("\"a/c\" : 1,\n    \"b\" : 2"))
        try await document.close()
    }

    @Test func whatIsNoJSONOfTheTypeIsAnErrorThatNamesTheFile() async throws {
        let document = try await make([
            "bad.json": Data("{".utf8), "other.json": Data("[]".utf8),
        ])
        for name in ["bad.json", "other.json"] {
            let error = #expect(throws: QuireError.self) {
                try document.additionalContent.decode(Settings.self, at: name)
            }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("“\(name)”") == true)
        }
        let error = #expect(throws: QuireError.self) {
            try document.additionalContent.encode(Settings(size: .nan), at: "nan.json")
        }
        #expect(error?.code == .invalidValue)
        #expect(!document.additionalContent.contains("nan.json"))
        try await document.close()
    }

    // MARK: Writing

    @Test func fileBecomesContentWithTheNextSave() async throws {
        let document = try await make(["a": Data([1])])
        let source = try file("source", Data(repeating: 7, count: 300_000))
        try await document.additionalContent.write(contentsOf: source, at: "deep/b")
        // The source may go at once.
        try FileSystem.removeFile(source)
        #expect(document.hasUnsavedChanges)
        #expect(document.additionalContent.paths == ["a", "deep/b"])
        #expect(
            try document.additionalContent.data(at: "deep/b") == Data(repeating: 7, count: 300_000))
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try reader.additionalContent().map(\.path) == ["a"])
        try await document.save()
        #expect(try reader.additionalContent().map(\.path) == ["a", "deep/b"])
        try reader.close()
        #expect(try spooledFiles() == [])
        try await document.close()
        #expect(
            try PackageContents(at: path).files["deep/b"] == Data(repeating: 7, count: 300_000))
    }

    @Test func streamBecomesContent() async throws {
        let document = try await make()
        let stream = AsyncStream<Data> { continuation in
            for number in 0..<100 {
                continuation.yield(Data(repeating: UInt8(number), count: 1000))
            }
            continuation.finish()
        }
        try await document.additionalContent.write(stream, at: "stream")
        try await document.close()
        let data = try #require(try PackageContents(at: path).files["stream"])
        #expect(data.count == 100_000)
        #expect(data[0] == 0 && data[99_999] == 99)
    }

    @Test func failingStreamLeavesNothing() async throws {
        struct Broken: Error {}
        let document = try await make(["a": Data([1])])
        let stream = AsyncThrowingStream<Data, any Error> { continuation in
            continuation.yield(Data([1, 2, 3]))
            continuation.finish(throwing: Broken())
        }
        await #expect(throws: Broken.self) {
            try await document.additionalContent.write(stream, at: "a")
        }
        #expect(!document.hasUnsavedChanges)
        #expect(try document.additionalContent.data(at: "a") == Data([1]))
        #expect(try spooledFiles() == [])
        try await document.close()
    }

    @Test func missingSourceAndBadPathsAreRefused() async throws {
        let document = try await make(["a": Data([1])])
        let source = try file("source", Data([2]))
        let content = document.additionalContent
        #expect(
            await failure { try await content.write(contentsOf: source + "x", at: "b") }?.code
                == .notFound)
        #expect(
            await failure { try await content.write(contentsOf: folder.path, at: "b") } != nil)
        for path in ["", "/b", "../b", "A", "a/b", "x/../y"] {
            #expect(
                await failure { try await content.write(contentsOf: source, at: path) }?.code
                    == .invalidValue)
        }
        #expect(!document.hasUnsavedChanges)
        #expect(try spooledFiles() == [])
        try await document.close()
    }

    @Test func failedSaveKeepsWhatWasSpooled() async throws {
        let document = try await make(["a": Data([1])])
        let source = try file("source", Data(repeating: 7, count: 100_000))
        try await document.additionalContent.write(contentsOf: source, at: "b")
        // Not valid: the title is missing.
        let note = try document.managedObjectContext.insertObject(entityName: "Note")
        #expect(await failure { try await document.save() } != nil)
        #expect(try document.additionalContent.data(at: "b")?.count == 100_000)
        note["title"] = "valid"
        try await document.save()
        #expect(try spooledFiles() == [])
        try await document.close()
        #expect(try PackageContents(at: path).files["b"]?.count == 100_000)
    }

    @Test func unsavedFilesGoWhenTheDocumentIsReverted() async throws {
        let document = try await make(["a": Data([1])])
        let source = try file("source", Data([9]))
        try await document.additionalContent.write(contentsOf: source, at: "a")
        #expect(try spooledFiles().count == 1)
        try await document.revert()
        #expect(try document.additionalContent.data(at: "a") == Data([1]))
        #expect(try spooledFiles() == [])
        try await document.close()
    }

    @Test func spooledFilesFollowAPackageThatIsMoved() async throws {
        let document = try await make(["a": Data([1])])
        let source = try file("source", Data([9]))
        try await document.additionalContent.write(contentsOf: source, at: "a")
        let place = folder.path("Moved.quire")
        try FileSystem.rename(path, to: place)
        #expect(try document.additionalContent.data(at: "a") == Data([9]))
        try await document.save()
        try await document.close()
        #expect(try PackageContents(at: place).files["a"] == Data([9]))
        #expect(try FileSystem.names(in: place).filter(FileSystem.isTemporaryName) == [])
    }

    @Test func whetherAFileMayBeExecutedIsKept() async throws {
        let document = try await make()
        let source = try file("run.sh", Data("#!/bin/sh\n".utf8))
        try OpenFile.open(source, for: .reading).setPermissions(0o700)
        try await document.additionalContent.write(contentsOf: source, at: "run.sh")
        try document.additionalContent.write(Data([1]), at: "plain")
        try await document.save()
        let content = layout.additionalContent(generation: 1)
        #expect(
            try #require(try FileSystem.information(at: content + "/run.sh")).permissions == 0o755)
        #expect(
            try #require(try FileSystem.information(at: content + "/plain")).permissions & 0o111
                == 0)
        try await document.close()
    }

    // MARK: Folders

    @Test func foldersAreAddedAndRemovedWhole() async throws {
        let document = try await make(["keep": Data([0]), "in/old": Data([1])])
        _ = try file("tree/x", Data([1]))
        _ = try file("tree/sub/y", Data([2]))
        let added = try await document.additionalContent.write(
            contentsOfFolder: folder.path("tree"), at: "in")
        #expect(added.sorted() == ["in/sub/y", "in/x"])
        #expect(document.additionalContent.paths(inFolder: "in") == ["in/old", "in/sub/y", "in/x"])
        try await document.save()
        try document.additionalContent.remove(folder: "in/sub")
        #expect(
            failure { try document.additionalContent.remove(folder: "in/no") }?.code == .notFound)
        try await document.save()
        #expect(document.additionalContent.paths == ["in/old", "in/x", "keep"])
        try document.additionalContent.remove(folder: "in")
        try await document.close()
        #expect(try PackageContents(at: path).files == ["keep": Data([0])])
    }

    @Test func folderWithALinkIsRefusedWhole() async throws {
        let document = try await make()
        _ = try file("tree/x", Data([1]))
        try FileSystem.makeSymbolicLink(folder.path("tree/z"), to: "/etc/passwd")
        let error = await failure {
            try await document.additionalContent.write(
                contentsOfFolder: folder.path("tree"), at: "in")
        }
        #expect(error?.code == .unsupported)
        #expect(document.additionalContent.paths == [])
        #expect(try spooledFiles() == [])
        try await document.close()
    }

    // MARK: Reading

    @Test func handlesReadWhatWasThereWhenTheyWereOpened() async throws {
        let document = try await make(["a": Data([1, 2, 3])])
        let saved = try #require(try document.additionalContent.fileHandle(forReading: "a"))
        try document.additionalContent.write(Data([4]), at: "a")
        let unsaved = try #require(try document.additionalContent.fileHandle(forReading: "a"))
        let source = try file("source", Data([5, 6]))
        try await document.additionalContent.write(contentsOf: source, at: "a")
        let spooled = try #require(try document.additionalContent.fileHandle(forReading: "a"))
        try await document.save()
        try document.additionalContent.remove(at: "a")
        #expect(try document.additionalContent.fileHandle(forReading: "a") == nil)
        try await document.save()
        #expect(try saved.readToEnd() == Data([1, 2, 3]))
        #expect(try unsaved.readToEnd() == Data([4]))
        #expect(try spooled.readToEnd() == Data([5, 6]))
        try await document.close()
    }

    @Test(.inClear) func urlsLeadToTheBytes() async throws {
        let document = try await make(["a": Data([1])])
        let content = document.additionalContent
        #expect(try Data(contentsOf: #require(try content.url(for: "a"))) == Data([1]))
        #expect(try content.url(for: "b") == nil)
        try content.write(Data([2]), at: "b")
        #expect(try content.url(for: "b") == nil)
        try await content.write(contentsOf: try file("source", Data([3])), at: "c")
        #expect(try Data(contentsOf: #require(try content.url(for: "c"))) == Data([3]))
        #expect(content.contains("c") && !content.contains("d"))
        try await document.close()
    }

    // MARK: Packages

    @Test func packageChangesContentInOneSave() async throws {
        try await make(["a": Data([1]), "b": Data([2])]).close()
        let package = try DocumentPackage.open(at: path)
        let source = try file("source", Data([3]))
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: source))
        try package.changeAdditionalContent(
            adding: ["a": .data(Data([9])), "c": .file(source), "d/e": .handle(handle)],
            removing: ["b"])
        #expect(
            try PackageContents(package).files
                == ["a": Data([9]), "c": Data([3]), "d/e": Data([3])])
        #expect(try package.additionalContentHandle(at: "c")?.readToEnd() == Data([3]))
        #expect(try package.additionalContentHandle(at: "b") == nil)
        let before = try contents(ofFolder: path)
        #expect(
            failure { try package.changeAdditionalContent(removing: ["b"]) }?.code == .notFound)
        #expect(
            failure {
                try package.changeAdditionalContent(
                    adding: ["x": .data(Data()), "a/b": .data(Data())])
            }?.code == .invalidValue)
        #expect(
            failure {
                try package.changeAdditionalContent(adding: ["x": .file(source + "no")])
            }?.code == .notFound)
        #expect(try contents(ofFolder: path) == before)
        // A file may take the place of a folder that goes.
        try package.changeAdditionalContent(adding: ["d": .data(Data([7]))], removing: ["d/e"])
        #expect(try package.check() == [])
        try package.close()
        #expect(try PackageContents(at: path).files["d"] == Data([7]))
    }
}
