import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

@Entity final class Shape: ManagedObject {
    @Attribute var name: String
    @Attribute(default: 1.0) var width: Double
    @Attribute(.externalStorage) var picture: Data?
}

/// A document of shapes, with a caption and attachments beside them.
final class SketchDocument: ManagedDocument {
    var caption = "" { didSet { if isOpen { updateChangeCount(.done) } } }
    private(set) var errors: [QuireError] = []

    override var managedObjectModel: ManagedObjectModel? {
        try? ManagedObjectModel(classes: [Shape.self])
    }

    override func contents(forType type: String) throws -> (any Sendable)? {
        try additionalContent.write(Data(caption.utf8), at: "caption.txt")
        return try super.contents(forType: type)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        caption =
            try additionalContent.data(at: "caption.txt")
            .map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        errors.append(error)
    }

    var shapes: [Shape] {
        get throws {
            Array(try managedObjectContext.fetch(Shape.self, sortBy: [SortDescriptor(\.name)]))
        }
    }
}

/// An app with documents: made, edited, autosaved, closed, opened again.
@MainActor @Suite struct SketchDocumentTests {
    @Test func aDocumentKeepsShapesCaptionAndAttachments() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("House.sketch")
            let document = SketchDocument(fileURL: url)
            try await document.create()
            #expect(document.documentState == .normal)
            let roof = Shape(context: document.managedObjectContext)
            roof.name = "Roof"
            roof.width = 12.5
            roof.picture = Data(repeating: 7, count: 200_000)
            document.caption = "My house"
            try document.additionalContent.write(Data([1, 2, 3]), at: "attachments/plan.bin")
            #expect(document.hasUnsavedChanges)
            try await document.autosave()
            #expect(!document.hasUnsavedChanges)

            document.undoManager?.setActionName("Widen")
            roof.width = 20
            #expect(document.hasUnsavedChanges)
            document.undoManager?.undo()
            #expect(roof.width == 12.5)
            #expect(!document.hasUnsavedChanges)
            roof.width = 14
            try await document.close()
            #expect(document.documentState == .closed)

            let again = SketchDocument(fileURL: url)
            try await again.open()
            #expect(try again.shapes.map(\.width) == [14])
            #expect(try again.shapes.first?.picture?.count == 200_000)
            #expect(again.caption == "My house")
            #expect(
                try again.additionalContent.data(at: "attachments/plan.bin") == Data([1, 2, 3]))
            #expect(again.fileURL.lastPathComponent == "House.sketch")
            #expect(again.localizedName == "House")

            // Another document of the same package.
            let other = SketchDocument(fileURL: url)
            let error = await #expect(throws: QuireError.self) { try await other.open() }
            #expect(error?.code == .locked)
            #expect(other.errors.map(\.code) == [.locked])
            try await other.open(readOnly: true)
            #expect(try other.shapes.count == 1)
            try await other.close()
            try await again.close()
        }
    }

    @Test func aVersionBringsBackWhatWasDeleted() async throws {
        try await withProgramFolder { folder in
            let document = SketchDocument(fileURL: folder.appendingPathComponent("House.sketch"))
            try await document.create()
            for name in ["Door", "Roof"] {
                Shape(context: document.managedObjectContext).name = name
            }
            document.caption = "Two shapes"
            let version = try await document.keepVersion(named: "First")
            for shape in try document.shapes { document.managedObjectContext.delete(shape) }
            document.caption = "Nothing"
            try await document.save()
            #expect(try document.shapes.isEmpty)
            try await document.restore(version.id)
            #expect(try document.shapes.map(\.name) == ["Door", "Roof"])
            #expect(document.caption == "Two shapes")
            #expect(try await document.versions().contains { $0.name == "First" })
            try await document.close()
        }
    }

    @Test func completionHandlersAndSaveOperationsAreUIDocuments() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("House.sketch")
            let document = SketchDocument(fileURL: url)
            await withCheckedContinuation { continuation in
                document.save(to: url, for: .forCreating) { error in
                    #expect(error == nil)
                    continuation.resume()
                }
            }
            Shape(context: document.managedObjectContext).name = "Roof"
            await withCheckedContinuation { continuation in
                document.close { error in
                    #expect(error == nil)
                    continuation.resume()
                }
            }
            await withCheckedContinuation { continuation in
                document.open { error in
                    #expect(error == nil)
                    continuation.resume()
                }
            }
            #expect(try document.shapes.map(\.name) == ["Roof"])
            try await document.close()
        }
    }

    @Test func aConflictKeepsBothSides() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("House.sketch")
            let document = SketchDocument(fileURL: url)
            document.autosavePolicy = .never
            try await document.create()
            Shape(context: document.managedObjectContext).name = "Roof"
            try await document.save()

            // A synchronizing service brings another version.
            let elsewhere = folder.appendingPathComponent("Elsewhere.sketch")
            try await document.writeCopy(to: elsewhere)
            let copy = SketchDocument(fileURL: elsewhere)
            try await copy.open()
            Shape(context: copy.managedObjectContext).name = "Garden"
            try await copy.close()

            Shape(context: document.managedObjectContext).name = "Door"
            var states = document.stateChanges.makeAsyncIterator()
            try FileManager.default.removeItem(at: url)
            try FileManager.default.moveItem(at: elsewhere, to: url)
            while let change = await states.next(), !change.current.contains(.inConflict) {}
            try await document.resolveConflict(keeping: .current)
            #expect(try document.shapes.map(\.name).contains("Door"))
            #expect(try document.shapes.map(\.name).contains("Roof"))
            #expect(!document.documentState.contains(.inConflict))
            try await document.close()
        }
    }
}
