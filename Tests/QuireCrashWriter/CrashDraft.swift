import Foundation
import Quire
import QuireDocuments

/// Makes a document that cannot be saved, and is killed when its draft is written.
enum CrashDraft {
    @MainActor
    static func run(at path: String) async {
        do {
            try await makeDraft(at: path)
        } catch {
            FileHandle.standardOutput.write(Data("failed: \(error)\n".utf8))
        }
    }

    @MainActor
    private static func makeDraft(at path: String) async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: CrashContent.model)
        let note = try document.managedObjectContext.insertObject(entityName: "Note")
        note["number"] = 1
        note["title"] = "first"
        note["payload"] = Data(repeating: 1, count: 150_000)
        try await document.save()
        note["title"] = nil
        let topic = try document.managedObjectContext.insertObject(entityName: "Topic")
        topic["number"] = 7
        note["topic"] = topic
        try document.additionalContent.write(Data("unsaved".utf8), at: "file")
        do {
            try await document.save()
        } catch let error as QuireError where error.code == .validation {
            FileHandle.standardOutput.write(Data("drafted\n".utf8))
            kill(getpid(), SIGKILL)
        }
    }
}
