import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// Large values through the life of a document.
@Suite @MainActor struct DocumentExternalDataTests {
    private let folder: TemporaryFolder
    private let path: String
    private let bytes = Data((0..<400_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    private func source() throws -> String {
        let path = folder.path("source-\(UUID().uuidString)")
        try bytes.write(to: URL(fileURLWithPath: path))
        return path
    }

    private func create() async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        return document
    }

    private func files(_ path: String) throws -> [String] {
        let folder = DocumentPackageLayout(path: path).externalData
        return FileSystem.exists(folder) ? try FileSystem.names(in: folder) : []
    }

    private func stored(_ path: String) async throws -> [Data?] {
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        let notes = try document.managedObjectContext.fetch(FetchRequest("Note"))
        let pictures = notes.map { $0["picture", as: Data.self] }
        try await document.close()
        return pictures
    }

    @Test func aStreamedValueIsSavedAndItsHandleIsReadAfterwards() async throws {
        let document = try await create()
        let note = try document.addNote("a")
        try await note.setExternalData(contentsOf: source(), forKey: "picture")
        try await document.save()
        #expect(try files(path).count == 1)
        let handle = try #require(try note.externalData(forKey: "picture"))
        note["picture"] = nil
        try await document.close()
        #expect(try handle.data() == bytes)
        #expect(try await stored(path) == [nil])
    }

    @Test func revertingDropsWhatWasNotSaved() async throws {
        let document = try await create()
        try await document.addNote("a").setExternalData(contentsOf: source(), forKey: "picture")
        #expect(try files(path).count == 1)
        try await document.revert()
        document.undoManager?.removeAllActions()
        try await document.close()
        let again = ManagedDocument(path: path)
        try await again.open()
        #expect(try files(path).isEmpty)
        try await again.close()
    }

    @Test func aMovedDocumentKeepsUnsavedValues() async throws {
        let document = try await create()
        let note = try document.addNote("a")
        try await note.setExternalData(contentsOf: source(), forKey: "picture")
        let other = folder.path("Moved.quire")
        try await document.move(to: URL(fileURLWithPath: other))
        #expect(note["picture", as: Data.self] == bytes)
        try await document.save()
        #expect(note["picture", as: Data.self] == bytes)
        try await document.close()
        #expect(try files(other).count == 1)
        #expect(try await stored(other) == [bytes])
    }

    @Test func savedElsewhereTheValueIsReadThere() async throws {
        let document = try await create()
        try document.addNote("a")
        try await document.save()
        let other = folder.path("Other.quire")
        do {
            let note = try document.addNote("b")
            try await note.setExternalData(contentsOf: source(), forKey: "picture")
            try await document.save(as: URL(fileURLWithPath: other))
            // Nothing of the value is needed of the document that it was made in.
            try FileSystem.removeTree(path)
            #expect(note["picture", as: Data.self] == bytes)
            let second = try document.addNote("c")
            try second.setExternalData(note.externalData(forKey: "picture"), forKey: "picture")
            try await document.save()
            #expect(try await document.check() == [])
            document.managedObjectContext.delete(note)
        }
        try await document.close()
        // What was held while the document was closed goes with the next one who has it.
        let again = ManagedDocument(path: other)
        try await again.open()
        try await again.close()
        #expect(try files(other).count == 1)
        #expect(try await stored(other).compactMap { $0 } == [bytes])
    }

    @Test(.inClear) func copiesHaveWhatIsUnsavedAndTheDocumentKeepsIt() async throws {
        let document = try await create()
        let note = try document.addNote("a")
        try await note.setExternalData(contentsOf: source(), forKey: "picture")
        let other = folder.path("Copy.quire")
        try await document.writeCopy(to: URL(fileURLWithPath: other))
        #expect(try await stored(other) == [bytes])
        #expect(note["picture", as: Data.self] == bytes)
        try await document.save()
        let archive = folder.path("Notes.zip")
        try await document.export(to: URL(fileURLWithPath: archive))
        try await document.close()
        #expect(try await stored(path) == [bytes])
        let extracted = folder.path("Extracted.quire")
        try DocumentPackage.extract(archive, to: extracted)
        #expect(try await stored(extracted) == [bytes])
        #expect(try await stored(other) == [bytes])
    }

    @Test func autosaveTakesAStreamedValue() async throws {
        let document = try await create()
        let note = try document.addNote("a")
        try await note.setExternalData(contentsOf: source(), forKey: "picture")
        try await document.autosave()
        #expect(note["picture", as: Data.self] == bytes)
        try await document.close()
        #expect(try await stored(path) == [bytes])
    }

    @Test func thresholdIsAnOptionOfTheDocument() async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        document.persistentStoreOptions.externalDataThreshold = 10
        try await document.create(model: notesModel)
        try document.addNote("a", picture: Data(count: 11))
        try document.addNote("b", picture: Data(count: 10))
        try await document.save()
        #expect(try files(path).count == 1)
        try await document.close()
    }

    @Test func conversionsCarryTheValue() async throws {
        let document = try await create()
        try await document.addNote("a").setExternalData(contentsOf: source(), forKey: "picture")
        try await document.close()
        let store = DocumentPackageLayout(path: path).store
        let (sqlite, xml, back) = (
            folder.path("a.sqlite"), folder.path("a.xml"), folder.path("b.sqlite")
        )
        for (from, to, type) in [
            (store, sqlite, StoreType.sqlite), (sqlite, xml, .xml), (xml, back, .sqlite),
        ] {
            try StoreFile(at: from).convert(to: to, type: type)
        }
        for path in [sqlite, xml, back] {
            let store = try StoreFile(at: path).open(isReadOnly: true)
            let context = ManagedObjectContext.mainQueue(
                coordinator: PersistentStoreCoordinator(store: store))
            #expect(try context.fetch(FetchRequest("Note"))[0]["picture", as: Data.self] == bytes)
            try store.close()
        }
    }
}
