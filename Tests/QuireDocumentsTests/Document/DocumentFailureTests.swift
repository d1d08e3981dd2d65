import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Saves that the file system refuses: nothing changes on disk, nothing is lost in memory.
@Suite @MainActor struct DocumentFailureTests {
    @Test(.smallDisk) func fullDiskFailsTheSaveAndFreeingSpaceSavesIt() async throws {
        let disk = try #require(SmallDisk(megabytes: 3))
        defer { disk.unmount() }
        let path = disk.path("Notes.quire")
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("small")
        try document.additionalContent.write(Data([1]), at: "file")
        try await document.save()
        // Leaves less room than the next save needs, in each of the places where it needs some.
        for room in [700_000, 300_000, 150_000, 20_000, 0] {
            let filler = disk.path("filler")
            try disk.fill(filler, leaving: room)
            let titles = try document.titles()
            let title = "large with \(room)"
            try document.addNote(title, picture: Data(repeating: 5, count: 400_000))
            try document.additionalContent.write(Data(repeating: 6, count: 400_000), at: "file")
            let error = await failure { try await document.save() }
            #expect(error?.code == .outOfSpace, "leaving \(room): \(error?.message ?? "saved")")
            #expect(document.hasUnsavedChanges)
            #expect(document.documentState == .savingError)
            #expect(try ManagedObjectContext.titles(in: document) == titles)
            #expect(try document.titles().contains(title))
            #expect(try document.additionalContent.data(at: "file")?.count == 400_000)

            try FileSystem.removeFile(filler)
            try await document.save()
            #expect(!document.hasUnsavedChanges)
            #expect(try ManagedObjectContext.titles(in: document).contains(title))
            #expect(try document.package.additionalContent().map(\.size) == [400_000])
            // Room for the next round.
            for note in try document.managedObjectContext.fetch(FetchRequest("Note")) {
                note["picture"] = nil
            }
            try document.additionalContent.write(Data([1]), at: "file")
            try await document.close()
            try await document.open()
        }
        #expect(try await document.check() == [])
        try await document.close()
    }

    @Test(.smallDisk) func aSaveThatCouldNotKeepADraftEitherSaysSoAndTheDocumentStaysOpen()
        async throws
    {
        let disk = try #require(SmallDisk(megabytes: 3))
        defer { disk.unmount() }
        let document = ManagedDocument(path: disk.path("Notes.quire"))
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        let note = try document.addNote("valid")
        try await document.save()
        note["title"] = String(repeating: "too long", count: 50_000)
        let filler = disk.path("filler")
        try disk.fill(filler, leaving: 20_000)
        for attempt in ["save", "autosave", "close"] {
            let error = await failure {
                switch attempt {
                case "save": try await document.save()
                case "autosave": try await document.autosave()
                default: try await document.close()
                }
            }
            #expect(error?.code == .validation, "\(attempt)")
            #expect(error?.message.contains("could not be kept as a draft") == true, "\(attempt)")
            #expect(document.draftError?.code == .outOfSpace, "\(attempt)")
            #expect(document.isOpen)
            #expect(document.hasUnsavedChanges)
            #expect(try !document.package.hasDraft())
        }
        try FileSystem.removeFile(filler)
        let error = await failure { try await document.close() }
        #expect(error?.code == .validation)
        #expect(error?.message.contains("draft") == false)
        #expect(document.draftError == nil)
        #expect(try document.package.hasDraft())
        note["title"] = "valid again"
        try await document.close()
        #expect(try await ManagedDocument.titles(at: document.path) == ["valid again"])
    }

    @Test(.inClear, .smallDisk) func exportToAFullDiskLeavesNothing() async throws {
        let disk = try #require(SmallDisk(megabytes: 1))
        defer { disk.unmount() }
        let folder = try TemporaryFolder()
        let path = folder.path("Notes.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        var noise = Data(capacity: 3_000_000)
        var random = SeededRandom(seed: 1)
        while noise.count < 3_000_000 {
            withUnsafeBytes(of: random.next()) { noise.append(contentsOf: $0) }
        }
        try document.addNote("noise", picture: noise)
        for name in ["a.zip", "a.tar.zst", "Copy.quire"] {
            let error = await failure {
                if name.hasSuffix(".quire") {
                    try await document.writeCopy(to: URL(fileURLWithPath: disk.path(name)))
                } else {
                    try await document.export(to: URL(fileURLWithPath: disk.path(name)))
                }
            }
            #expect(error?.code == .outOfSpace)
            #expect(try FileSystem.names(in: disk.folder) == [])
        }
        // There is room for the document, so that it can be extracted from.
        try await document.export(to: URL(fileURLWithPath: folder.path("a.zip")))
        try await document.close()
        let error = failure {
            try DocumentPackage.extract(folder.path("a.zip"), to: disk.path("Copy.quire"))
        }
        #expect(error?.code == .outOfSpace)
        #expect(try FileSystem.names(in: disk.folder) == [])
    }

    @Test(.inClear, .smallDisk) func readOnlyFolderRefusesWritersAndLetsReadersIn() async throws {
        let disk = try #require(SmallDisk(megabytes: 4))
        defer { disk.unmount() }
        let path = disk.path("Notes.quire")
        try await ManagedDocument.make(at: path, titles: ["readable"])
        let open = ManagedDocument(path: path)
        open.autosavePolicy = .never
        try await open.open()
        try open.addNote("kept in memory")
        try await open.close()

        disk.makeReadOnly()
        let error = await failure { try await ManagedDocument(path: path).open() }
        #expect(error?.code == .readOnly)
        let creating = await failure {
            try await ManagedDocument(path: disk.path("New.quire")).create(model: notesModel)
        }
        #expect(creating?.code == .readOnly)
        #expect(try await ManagedDocument.titles(at: path) == ["kept in memory", "readable"])
        let folder = try TemporaryFolder()
        let reader = ManagedDocument(path: path)
        try await reader.open(readOnly: true)
        try await reader.export(to: URL(fileURLWithPath: folder.path("a.zip")))
        #expect(try await reader.check() == [])
        try await reader.close()
        try DocumentPackage.extract(folder.path("a.zip"), to: folder.path("Copy.quire"))
        #expect(
            try await ManagedDocument.titles(at: folder.path("Copy.quire"))
                == ["kept in memory", "readable"])
    }
}

extension ManagedObjectContext {
    /// The titles that the store has, past everything that is in memory.
    @MainActor
    fileprivate static func titles(in document: ManagedDocument) throws -> [String] {
        try mainQueue(coordinator: document.persistentStoreCoordinator)
            .fetch(FetchRequest("Note")).compactMap { $0["title", as: String.self] }.sorted()
    }
}
