import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The history of documents: by default each save is a transaction in it, and old ones are deleted.
@MainActor @Suite struct DocumentHistoryTests {
    private func transactions(
        _ document: ManagedDocument
    ) throws -> [PersistentHistoryTransaction] {
        try document.managedObjectContext.execute(.fetchHistory(after: nil)).transactions
    }

    @Test func savesAreRecordedByDefault() async throws {
        let folder = try TemporaryFolder()
        let document = ManagedDocument(path: folder.path("notes.quire"))
        try await document.create(model: notesModel)
        document.managedObjectContext.transactionAuthor = "editor"
        let note = try document.addNote("first")
        try await document.save()
        note["title"] = "edited"
        try await document.save()
        let history = try transactions(document)
        #expect(history.map(\.author) == ["editor", "editor"])
        #expect(
            history.map { $0.changes.map { "\($0.kind) \($0.updatedProperties ?? [])" } }
                == [["insert []"], [#"update ["title"]"#]])
        try await document.close()
    }

    @Test func theHistoryHasLimits() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        #expect(document.persistentStoreOptions.maximumHistoryAge == .seconds(30 * 86_400))
        document.persistentStoreOptions.maximumHistorySize = 0
        try await document.open()
        #expect(try transactions(document).map(\.number) == [1])
        try document.addNote("second")
        try await document.save()
        #expect(try transactions(document).map(\.number) == [2])
        try await document.close()
    }

    @Test func aDocumentMayHaveNoHistory() async throws {
        let folder = try TemporaryFolder()
        let document = ManagedDocument(path: folder.path("notes.quire"))
        document.persistentStoreOptions.tracksHistory = false
        try await document.create(model: notesModel)
        try document.addNote("first")
        try await document.save()
        #expect(failure { _ = try transactions(document) }?.code == .unsupported)
        try await document.close()
    }
}
