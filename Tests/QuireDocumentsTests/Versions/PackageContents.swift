import Foundation
import Quire

@testable import QuireDocuments

/// What is in a package, as a reader finds it.
struct PackageContents: Equatable {
    /// The titles of the notes with the sizes of their pictures, sorted.
    var notes: [String]
    /// The files of additional content.
    var files: [String: Data]

    @MainActor init(_ package: DocumentPackage) throws {
        let coordinator = PersistentStoreCoordinator(store: package.store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        notes = try context.fetch(FetchRequest("Note")).map {
            "\($0["title", as: String.self] ?? "") \($0["picture", as: Data.self]?.count ?? -1)"
        }.sorted()
        files = [:]
        for file in try package.additionalContent() {
            files[file.path] = try package.additionalContent(at: file.path)
        }
    }

    /// What somebody reads who opens a package for reading only.
    @MainActor init(at path: String) throws {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try self.init(package)
        try package.close()
    }
}

extension ManagedDocument {
    /// Makes a document, saved and closed.
    ///
    /// - Parameter notes: Titles with the sizes of their pictures; -1 for none.
    static func make(
        at path: String, notes: KeyValuePairs<String, Int>, files: [String: Data] = [:]
    ) async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        for (title, size) in notes {
            try document.addNote(
                title, picture: size < 0 ? nil : Data(repeating: UInt8(size % 251), count: size))
        }
        for (name, data) in files { try document.additionalContent.write(data, at: name) }
        try await document.close()
    }
}

extension DocumentPackage {
    /// Adds notes in one save.
    @MainActor func addNotes(_ titles: String...) throws {
        let coordinator = PersistentStoreCoordinator(store: store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for title in titles {
            try context.insertObject(entityName: "Note")["title"] = title
        }
        try context.save()
    }
}
