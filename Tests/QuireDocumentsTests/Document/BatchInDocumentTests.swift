import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Batch requests on the store of an open document, beside its unsaved changes.
@MainActor @Suite struct BatchInDocumentTests {
    @Test func batchesAndSavesOfADocumentStandSideBySide() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        let context = document.managedObjectContext
        let first = try document.addNote("first", code: "1")
        try document.additionalContent.write(Data("page".utf8), at: "pages/1")
        try await document.save()

        // Unsaved, with an identifier that no other process has been told of.
        let unsaved = try document.addNote("unsaved", code: "2")
        try context.obtainPermanentIDs(for: [unsaved])
        first["title"] = "first, edited"
        context.processPendingChanges()
        #expect(document.hasUnsavedChanges)

        context.mergePolicy = .mergeByPropertyObjectTrump
        var insertion = BatchInsertRequest(
            entityName: "Note",
            objects: [
                ["title": "batch", "picture": .binary(Data(repeating: 1, count: 200_000))],
                ["title": "upsert", "code": "1"], ["title": "gone"],
            ])
        insertion.resultType = .objectIDs
        let inserted = try context.execute(insertion)
        #expect(inserted.changes.inserted.allSatisfy { $0 != unsaved.objectID })
        #expect(inserted.changes.updated == [first.objectID])
        var deletion = try BatchDeleteRequest(
            fetchRequest: FetchRequest(
                "Note", predicate: try QueryPredicate(format: "title == 'gone'")))
        deletion.resultType = .objectIDs
        let deleted = try context.execute(deletion)

        let parent = try #require(context.parent)
        for result in [inserted, deleted] {
            ManagedObjectContext.mergeChanges(
                fromRemoteContextSave: result.changes,
                into: [parent, QueueConfinedContext(context)])
        }
        #expect(document.hasUnsavedChanges)
        #expect(try document.titles() == ["batch", "first, edited", "unsaved"])
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        #expect(try await document.check() == [])
        try await document.close()

        let again = ManagedDocument(path: path)
        try await again.open(readOnly: true)
        #expect(try again.titles() == ["batch", "first, edited", "unsaved"])
        #expect(try again.additionalContent.data(at: "pages/1") == Data("page".utf8))
        try await again.close()
    }

    @Test func readOnlyDocumentRefusesBatches() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await ManagedDocument.make(at: path)
        let before = try contents(ofFolder: path)
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        let error = failure {
            try document.managedObjectContext.execute(
                BatchDeleteRequest(fetchRequest: FetchRequest("Note")))
        }
        #expect(error?.code == .readOnly)
        try await document.close()
        #expect(try contents(ofFolder: path) == before)
    }
}
