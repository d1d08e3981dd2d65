import Foundation
import Observation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// A document that says something of itself.
private final class TitledDocument: ManagedDocument {
    override var managedObjectModel: ManagedObjectModel? { notesModel }

    override func libraryMetadata() -> LibraryMetadata {
        LibraryMetadata(
            title: "My notes", values: ["mood": "good"], thumbnail: Data([0x89, 0x50]))
    }
}

@Suite(.inClear) @MainActor struct DocumentLibraryTests {
    private let folder: TemporaryFolder
    private let library: DocumentLibrary

    init() throws {
        folder = try TemporaryFolder()
        library = DocumentLibrary(folder: folder.path)
    }

    // MARK: Listing

    @Test func documentsAreListedWithWhatTheySay() async throws {
        let path = try await library.create(
            named: "Notes", model: notesModel, as: TitledDocument.self)
        let document = TitledDocument(path: path)
        try await document.open()
        try document.addNote("first")
        try document.addNote("second")
        let uuid = document.package.store.identity.uuid
        try await document.close()
        let entries = try await library.entries()
        let entry = try #require(entries.first)
        #expect(entries.count == 1)
        #expect(entry.path == path)
        #expect(entry.name == "Notes")
        #expect(entry.title == "My notes")
        #expect(entry.uuid == uuid)
        #expect(entry.metadata.objectCounts == ["Note": 2])
        #expect(entry.objectCount == 2)
        #expect(entry.metadata.values == ["mood": "good"])
        #expect(entry.size > 0)
        #expect(entry.owner == nil)
        #expect(entry.error == nil)
        let (created, modified) = (try #require(entry.created), try #require(entry.modified))
        #expect(abs(created.timeIntervalSinceNow) < 60)
        #expect(modified >= created.addingTimeInterval(-1))
        let thumbnail = try #require(entry.thumbnailPath)
        #expect(try FileSystem.contents(of: thumbnail) == Data([0x89, 0x50]))
        let package = try DocumentPackage.open(at: path)
        #expect(try package.check().isEmpty)
        try package.close()
    }

    @Test func aDocumentThatIsOpenIsListedWithItsOwner() async throws {
        let path = try await library.create(named: "Notes", model: notesModel)
        let document = ManagedDocument(path: path)
        try await document.open()
        #expect(try await library.entries().first?.owner?.isThisProcess == true)
        try await document.close()
        #expect(try await library.entries().first?.owner == nil)
    }

    @Test func listingOpensNothing() async throws {
        let path = try await library.create(named: "Notes", model: notesModel)
        let before = try contents(ofFolder: folder.path)
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        _ = try await library.entries()
        try await document.close()
        #expect(try contents(ofFolder: folder.path) == before)
    }

    @Test func brokenPackagesAreListedWithTheirError() async throws {
        try FileSystem.makeFolder(folder.path("Empty.quire"))
        try FileSystem.makeFolder(folder.path("Blank.quire/StoreContent"), withIntermediates: true)
        try FileSystem.writeNewFile(
            Data(), at: folder.path("Blank.quire/StoreContent/persistentStore"))
        let new = try await library.create(named: "New", model: notesModel)
        let metadata = ["QuireDocumentFormat": 99]
        try PropertyListSerialization.data(fromPropertyList: metadata, format: .xml, options: 0)
            .write(to: URL(fileURLWithPath: new + "/DocumentMetadata.plist"))
        try FileSystem.makeFolder(
            folder.path("Rubbish.quire/StoreContent"), withIntermediates: true)
        try FileSystem.writeNewFile(
            Data("x".utf8), at: folder.path("Rubbish.quire/StoreContent/persistentStore"))
        try FileSystem.writeNewFile(
            Data("rubbish".utf8), at: folder.path("Rubbish.quire/DocumentMetadata.plist"))
        let codes = try await library.entries().map { [$0.name, $0.error?.code.rawValue ?? ""] }
        #expect(
            codes == [
                ["Blank", "invalidFormat"], ["Empty", "invalidFormat"], ["New", "unsupported"],
                ["Rubbish", ""],
            ])
    }

    @Test func foldersBelowAreLookedIntoIfWanted() async throws {
        try FileSystem.makeFolder(folder.path("a/.hidden"), withIntermediates: true)
        _ = try await DocumentLibrary(folder: folder.path("a")).create(
            named: "Deep", model: notesModel)
        _ = try await DocumentLibrary(folder: folder.path("a/.hidden")).create(
            named: "Hidden", model: notesModel)
        try FileSystem.makeSymbolicLink(folder.path("a/loop"), to: folder.path)
        #expect(try await library.entries().isEmpty)
        let all = DocumentLibrary(folder: folder.path, isRecursive: true)
        #expect(try await all.entries().map(\.name) == ["Deep"])
    }

    @Test func aFolderThatIsMissingIsAnError() async throws {
        let missing = DocumentLibrary(folder: folder.path("none"))
        #expect(await failure { _ = try await missing.entries() }?.code == .notFound)
    }

    @Test func manyDocumentsAreListed() async throws {
        for number in 0..<500 {
            let path = folder.path("Doc \(number).quire")
            try FileSystem.makeFolder(path + "/StoreContent", withIntermediates: true)
            try OpenFile.open(path + "/StoreContent/persistentStore", for: .creating)
                .write(Data("x".utf8))
        }
        #expect(try await library.entries().count == 500)
    }

    // MARK: Making

    @Test func namesThatAreTakenGetANumber() async throws {
        for expected in ["Notes.quire", "Notes 2.quire", "Notes 3.quire"] {
            let path = try await library.create(named: "Notes", model: notesModel)
            #expect(path == folder.path(expected))
        }
    }

    @Test(arguments: ["", "a/b", ".", "..", ".hidden", "a\nb"])
    func namesThatCannotBeUsedAreRefused(name: String) async throws {
        let error = await failure { _ = try await library.create(named: name, model: notesModel) }
        #expect(error?.code == .invalidValue)
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }

    @Test func duplicatesHoldWhatTheOriginalHas() async throws {
        let path = try await library.create(
            named: "Notes", model: notesModel, as: TitledDocument.self)
        let document = TitledDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("unsaved")
        // What is unsaved here is saved before.
        let copy = try await library.duplicate(path)
        #expect(copy == folder.path("Notes 2.quire"))
        try await document.close()
        #expect(try await ManagedDocument.titles(at: copy) == ["unsaved"])
        let entries = try await library.entries()
        #expect(entries.map(\.title) == ["My notes", "My notes"])
        #expect(Set(entries.map(\.path)).count == 2)
        #expect(entries.allSatisfy { $0.thumbnailPath != nil })
        #expect(try await library.duplicate(path, named: "Other") == folder.path("Other.quire"))
    }

    // MARK: Renaming and moving

    @Test func renamingKeepsTheContent() async throws {
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let new = try await library.rename(path, to: "Better notes")
        #expect(new == folder.path("Better notes.quire"))
        #expect(try await ManagedDocument.titles(at: new) == ["first"])
        #expect(try FileSystem.names(in: folder.path) == ["Better notes.quire"])
        #expect(!FileSystem.exists(new + "/.lock"))
    }

    @Test func renamingReplacesNothing() async throws {
        let path = try await library.create(named: "Notes", model: notesModel)
        _ = try await library.create(named: "Other", model: notesModel)
        let error = await failure { try await library.rename(path, to: "Other") }
        #expect(error?.code == .alreadyExists)
        #expect(FileSystem.exists(path))
        #expect(!FileSystem.exists(path + "/.lock"))
    }

    @Test func aDocumentThatIsOpenHereGoesOnUnderItsNewName() async throws {
        let path = try await library.create(named: "Notes", model: notesModel)
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        try document.addNote("first")
        let new = try await library.rename(path, to: "New")
        #expect(document.path == new)
        #expect(!document.hasUnsavedChanges)
        try document.addNote("second")
        try await document.close()
        #expect(try await ManagedDocument.titles(at: new) == ["first", "second"])
    }

    @Test func aDocumentThatIsOpenElsewhereIsLeftAlone() async throws {
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        #expect(await failure { try await library.rename(path, to: "New") }?.code == .locked)
        let trash = Trash(home: folder.path("Trash"))
        let error = await failure { try await library.trash(path, in: trash) }
        #expect(error?.code == .locked)
        #expect(error?.message.contains("process \(writer.processIdentifier)") == true)
        #expect(FileSystem.exists(path))
        try await writer.perform("close")
        try await library.rename(path, to: "New")
    }

    @Test func movingToAnotherFolderKeepsTheName() async throws {
        let path = try await library.create(named: "Notes", model: notesModel)
        try FileSystem.makeFolder(folder.path("in"))
        let new = try await library.move(path, toFolder: folder.path("in"))
        #expect(new == folder.path("in/Notes.quire"))
        #expect(try await DocumentLibrary(folder: folder.path("in")).entries().count == 1)
    }

    // MARK: How a document stands

    @Test func statusTellsHowADocumentStands() async throws {
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let writer = try await CommandedProcess(opening: path)
        try await writer.perform("write a.txt hello")
        try await writer.perform("save")
        try await writer.perform("add second")
        let status = try await FileQueue.copies.run { try DocumentPackage.status(at: path) }
        #expect(status.owner?.processIdentifier == writer.processIdentifier)
        #expect(status.ownerHasUnsavedChanges == true)
        #expect(status.generation == 1)
        #expect(status.versionCount == 0)
        #expect(status.hasDraft == false)
        #expect(status.fileProtection == .none && !status.isLocked)
        #expect(status.lastSaved != nil)
        try await writer.perform("close")
        let closed = try await FileQueue.copies.run { try DocumentPackage.status(at: path) }
        #expect(closed.owner == nil)
        #expect(closed.ownerHasUnsavedChanges == nil)
        #expect(closed.leftovers == [])
    }
}
