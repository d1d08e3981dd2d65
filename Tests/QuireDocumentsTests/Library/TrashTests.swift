import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

@Suite struct TrashTests {
    private let folder: TemporaryFolder
    private let trash: Trash

    init() throws {
        folder = try TemporaryFolder()
        trash = Trash(home: folder.path("data/Trash"))
    }

    private func make(_ name: String) throws -> String {
        let path = folder.path(name)
        try FileSystem.makeFolder(path)
        try FileSystem.writeNewFile(Data("content".utf8), at: path + "/file")
        return path
    }

    @Test func whatIsPutThereIsDescribedAsTheSpecificationSays() throws {
        let path = try make("My notes, 100 %.quire")
        let item = try trash.put(path)
        #expect(item.path == folder.path("data/Trash/files/My notes, 100 %.quire"))
        #expect(!FileSystem.exists(path))
        let note = try String(
            contentsOfFile: folder.path("data/Trash/info/My notes, 100 %.quire.trashinfo"),
            encoding: .utf8)
        let lines = note.split(separator: "\n").map(String.init)
        #expect(lines[0] == "[Trash Info]")
        #expect(lines[1] == "Path=\(folder.path)/My%20notes%2C%20100%20%25.quire")
        #expect(
            lines[2].wholeMatch(of: /DeletionDate=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/) != nil)
        #expect(try FileSystem.information(at: folder.path("data/Trash"))?.permissions == 0o700)
    }

    @Test func whatIsThereIsTakenBack() throws {
        let path = try make("ä ö.quire")
        try trash.put(path)
        let item = try #require(trash.items().first)
        #expect(item.originalPath == path)
        let date = try #require(item.deleted)
        #expect(abs(date.timeIntervalSinceNow) < 60)
        #expect(try trash.restore(item) == path)
        #expect(try FileSystem.contents(of: path + "/file") == Data("content".utf8))
        #expect(trash.items().isEmpty)
        #expect(try FileSystem.names(in: folder.path("data/Trash/info")).isEmpty)
    }

    @Test func equalNamesAreKeptApart() throws {
        for _ in 0..<3 { try trash.put(make("Notes.quire")) }
        #expect(
            try FileSystem.names(in: folder.path("data/Trash/files"))
                == ["Notes 2.quire", "Notes 3.quire", "Notes.quire"])
        #expect(trash.items().count == 3)
    }

    @Test func takingBackReplacesNothing() throws {
        let path = try make("Notes.quire")
        let item = try trash.put(path)
        _ = try make("Notes.quire")
        #expect(failure { try trash.restore(item) }?.code == .alreadyExists)
        #expect(trash.items().count == 1)
        #expect(try trash.restore(item, to: folder.path("Old.quire")) == folder.path("Old.quire"))
    }

    @Test func aFolderThatIsGoneIsAnError() throws {
        try FileSystem.makeFolder(folder.path("in"))
        let item = try trash.put(make("in/Notes.quire"))
        try FileSystem.removeTree(folder.path("in"))
        #expect(failure { try trash.restore(item) }?.code == .notFound)
    }

    @Test func whatOthersWroteThereIsReadWithCare() throws {
        try trash.put(make("Notes.quire"))
        let information = folder.path("data/Trash/info")
        let files = folder.path("data/Trash/files")
        for (name, text) in [
            ("relative", "[Trash Info]\nPath=relative\n"), ("no path", "[Trash Info]\n"),
            ("no head", "Path=/x\n"), ("bad escape", "[Trash Info]\nPath=%zz\n"),
            ("no file", "[Trash Info]\nPath=/x\n"), ("no date", "[Trash Info]\nPath=/x/y\n"),
        ] {
            try FileSystem.writeNewFile(
                Data(text.utf8), at: information + "/" + name + ".trashinfo")
            if name != "no file" { try FileSystem.makeFolder(files + "/" + name) }
        }
        #expect(trash.items().map(\.originalPath) == [folder.path("Notes.quire"), "/x/y"])
    }

    @Test func anotherFileSystemHasATrashOfItsOwn() throws {
        let shared = "/dev/shm"
        let own = try FileSystem.information(at: folder.path)?.device
        guard let other = try FileSystem.information(at: shared)?.device, other != own,
            access(shared, W_OK) == 0
        else { return }
        let path = shared + "/quire-test-\(UUID().uuidString)"
        try FileSystem.makeFolder(path)
        defer { try? FileSystem.removeTree(path) }
        let item = try trash.put(path)
        defer {
            try? FileSystem.removeTree(item.path)
            try? FileSystem.removeFile(item.informationPath)
        }
        #expect(item.path.hasPrefix("\(shared)/.Trash"))
        let text = try String(contentsOfFile: item.informationPath, encoding: .utf8)
        #expect(text.contains("\nPath=\(FileSystem.name(of: path))\n"))
        let found = try #require(
            trash.items(besides: shared + "/x").first { $0.originalPath == path })
        #expect(try trash.restore(found) == path)
    }

    @Test func aDocumentThatIsOpenIsNotPutThere() async throws {
        let path = folder.path("Notes.quire")
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let library = DocumentLibrary(folder: folder.path)
        let trash = trash
        var code: QuireError.Code?
        do { try await library.trash(path, in: trash) } catch {
            code = (error as? QuireError)?.code
        }
        #expect(code == .locked)
        try package.close()
        let item = try await library.trash(path, in: trash)
        #expect(!FileSystem.exists(path))
        #expect(!FileSystem.exists(item.path + "/.lock"))
        #expect(try DocumentPackage.open(at: item.path, readOnly: true).check().isEmpty)
    }
}
