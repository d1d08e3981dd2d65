import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

// snippet: documents-1
@Entity final class Plant: ManagedObject {
    @Attribute var name: String
    @Attribute(default: 0) var height: Int
}

final class GardenDocument: ManagedDocument {
    var layout = "beds" { didSet { if isOpen { updateChangeCount(.done) } } }

    override var managedObjectModel: ManagedObjectModel? {
        try? ManagedObjectModel(classes: [Plant.self])
    }

    override func contents(forType type: String) throws -> (any Sendable)? {
        try additionalContent.write(Data(layout.utf8), at: "layout.txt")
        return try super.contents(forType: type)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        if let data = try additionalContent.data(at: "layout.txt") {
            layout = String(decoding: data, as: UTF8.self)
        }
    }
}
// end

/// The code of the article “Documents”.
@MainActor @Suite struct DocumentsTests {
    @Test func aDocumentIsEditedUndoneAndFoundSaved() async throws {
        try await withProgramFolder { folder in
            // snippet: documents-2
            let document = GardenDocument(fileURL: folder.appendingPathComponent("Home.garden"))
            try await document.create()
            let rose = Plant(context: document.managedObjectContext)
            rose.name = "Rose"
            document.layout = "terrace"
            try await document.save()

            rose.height = 120
            document.undoManager?.undo()
            print(rose.height, document.hasUnsavedChanges)
            try await document.close()
            // end
            let again = GardenDocument(fileURL: folder.appendingPathComponent("Home.garden"))
            try await again.open()
            #expect(again.layout == "terrace")
            #expect(try again.managedObjectContext.fetch(Plant.self).map(\.height) == [0])
            try await again.close()

            // snippet: documents-3
            try await document.open()
            let count = try await document.performBackgroundTask { context in
                for name in ["Lavender", "Thyme"] { Plant(context: context).name = name }
                try context.save()
                return try context.count(for: Plant.self)
            }
            print(count, "plants; unsaved:", document.hasUnsavedChanges)
            // end
            #expect(count == 3)
            #expect(document.hasUnsavedChanges)

            let archive = folder.appendingPathComponent("Home.zip")
            // snippet: documents-4
            let version = try await document.keepVersion(named: "planted")
            for plant in try document.managedObjectContext.fetch(Plant.self) {
                document.managedObjectContext.delete(plant)
            }
            try await document.save()
            try await document.restore(version.id)
            try await document.export(to: archive)
            // end
            #expect(try document.managedObjectContext.count(for: Plant.self) == 3)
            try await document.close()
            #expect(FileManager.default.fileExists(atPath: archive.path))
        }
    }

    @Test func aLibraryListsItsDocuments() async throws {
        try await withProgramFolder { folder in
            // snippet: documents-5
            let library = DocumentLibrary(folder: folder.path, extensions: ["garden"])
            let path = try await library.create(
                named: "Home", model: ManagedObjectModel(classes: [Plant.self]),
                as: GardenDocument.self)
            for entry in try await library.entries() {
                print(entry.title, entry.objectCount, entry.modified ?? .distantPast)
            }
            // end
            #expect(try await library.entries().map(\.path) == [path])
            #expect(try await library.entries().map(\.title) == ["Home"])
        }
    }

    @Test func aDocumentOfOneFileIsSavedInTwoFormatsAndExported() async throws {
        try await withProgramFolder { folder in
            // snippet: documents-6
            let document = try PersistentDocument(model: ManagedObjectModel(classes: [Plant.self]))
            Plant(context: document.managedObjectContext).name = "Sage"
            try await document.save(as: folder.appendingPathComponent("Garden.xml"))
            try await document.save(as: folder.appendingPathComponent("Garden.sqlite"))
            try await document.export(to: folder.appendingPathComponent("Garden.zip"))
            try await document.close()
            // end
            let again = PersistentDocument(
                fileURL: folder.appendingPathComponent("Garden.sqlite"))
            try await again.open(model: ManagedObjectModel(classes: [Plant.self]))
            #expect(try again.managedObjectContext.fetch(Plant.self).map(\.name) == ["Sage"])
            try await again.close()
        }
    }
}
