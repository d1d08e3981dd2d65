import Foundation
import Quire

@testable import QuireDocuments

/// The error that a body throws.
func failure(_ body: () throws -> Void) -> QuireError? {
    do {
        try body()
        return nil
    } catch {
        return error as? QuireError
    }
}

/// The error that a body throws.
@MainActor
func failure(_ body: @MainActor () async throws -> Void) async -> QuireError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? QuireError
    }
}

/// A model with everything that a document's tests need.
let notesModel = ManagedObjectModel {
    Entity("Note") {
        Attribute("title", .string).required().length(atMost: 40)
        Attribute("code", .string)
        Attribute("picture", .binary).externalStorage()
        Unique("code")
    }
}

/// Everything in a folder: paths with the bytes of files, to see that nothing has changed.
func contents(ofFolder path: String) throws -> [String: Data] {
    var contents: [String: Data] = [:]
    for (name, information) in try FileSystem.contentsOfTree(path) {
        contents[name] =
            information.kind == .regular
            ? try Data(contentsOf: URL(fileURLWithPath: FileSystem.path(path, name))) : Data()
    }
    return contents
}

extension ManagedDocument {
    /// Adds a note.
    @discardableResult
    func addNote(_ title: String, code: String? = nil, picture: Data? = nil) throws -> ManagedObject
    {
        let note = try managedObjectContext.insertObject(entityName: "Note")
        note["title"] = title
        note["code"] = code
        note["picture"] = picture
        return note
    }

    /// The titles of all notes, sorted.
    func titles() throws -> [String] {
        try managedObjectContext.fetch(FetchRequest("Note")).compactMap {
            $0["title", as: String.self]
        }
        .sorted()
    }

    /// Makes a document with one note, saved and closed.
    static func make(at path: String, titles: [String] = ["first"]) async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        for title in titles { try document.addNote(title) }
        try await document.close()
    }

    /// The titles in a document on disk.
    static func titles(at path: String) async throws -> [String] {
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        let titles = try document.titles()
        try await document.close()
        return titles
    }
}

/// A progress that cancels itself when it has gone far enough.
final class CancellingProgress: Progress, @unchecked Sendable {
    // Unchecked because its superclass is; the number never changes.
    private let count: Int64

    init(after count: Int64) {
        self.count = count
        super.init(parent: nil, userInfo: nil)
        if count == 0 { cancel() }
    }

    override var completedUnitCount: Int64 {
        didSet { if completedUnitCount >= count { cancel() } }
    }
}
