import Foundation
import Quire
import QuireDocuments

/// Edits a document and waits to be told to end.
enum CrashWait {
    @MainActor
    static func run(at path: String) async {
        do {
            ManagedDocument.saveOnTermination()
            let document = ManagedDocument(path: path)
            try await document.create(model: CrashContent.model)
            let note = try document.managedObjectContext.insertObject(entityName: "Note")
            note["number"] = 1
            note["title"] = "unsaved"
            note["payload"] = Data(repeating: 1, count: 150_000)
            let topic = try document.managedObjectContext.insertObject(entityName: "Topic")
            topic["number"] = 7
            FileHandle.standardOutput.write(Data("edited\n".utf8))
            try await Task.sleep(for: .seconds(60))
            withExtendedLifetime(document) {}
        } catch {
            FileHandle.standardOutput.write(Data("failed: \(error)\n".utf8))
        }
    }
}
