import Foundation
import Quire
import QuireDocuments

/// Opens a store as a program does when it starts, which creates it if there is none.
enum CrashStore {
    /// - Parameter type: `SQLite`, `XML` or `Binary`.
    static func run(at path: String, type: String) {
        do {
            try coordinator(at: path, type: StoreType(rawValue: type)).close()
            FileHandle.standardOutput.write(Data("opened\n".utf8))
        } catch {
            FileHandle.standardOutput.write(Data("failed: \(error)\n".utf8))
            exit(1)
        }
    }

    /// Creates a document from the template in a folder.
    @MainActor
    static func runTemplate(_ template: String, at path: String) async {
        do {
            let document = ManagedDocument(path: path)
            try await document.create(from: DocumentTemplate(contentsOf: template))
            try await document.close()
        } catch {
            FileHandle.standardOutput.write(Data("failed: \(error)\n".utf8))
            exit(1)
        }
    }

    static func coordinator(at path: String, type: StoreType) throws -> PersistentStoreCoordinator {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: CrashContent.model)
        try coordinator.addPersistentStore(PersistentStoreDescription(path: path, type: type))
        return coordinator
    }
}
