import Foundation
import Quire
import QuireDocuments

/// Edits a document of either kind and waits to be told to end.
enum CrashWait {
    /// - Parameter signal: A signal that the process sends to itself, instead of waiting for another's.
    @MainActor
    static func run(at path: String, endedBy signal: Int32? = nil) async {
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
            let files = ["sqlite", "xml"].map {
                PersistentDocument(fileURL: URL(fileURLWithPath: "\(path).\($0)"))
            }
            for file in files {
                try await file.create(model: CrashContent.model)
                try file.managedObjectContext.insertObject(entityName: "Topic")["number"] = 9
            }
            FileHandle.standardOutput.write(Data("edited\n".utf8))
            if let signal { kill(getpid(), signal) }
            try await Task.sleep(for: .seconds(60))
            withExtendedLifetime((document, files)) {}
        } catch {
            FileHandle.standardOutput.write(Data("failed: \(error)\n".utf8))
        }
    }
}
