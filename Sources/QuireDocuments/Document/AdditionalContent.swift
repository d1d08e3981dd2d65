public import Foundation
import Quire

/// The files that a document keeps beside its objects: pictures, notes, whatever it likes.
///
/// Changes are kept until the document is saved, given as data in memory, given as files on disk, and then appear together
/// with the objects' changes, or not at all. They cannot be undone. Paths are relative with `/` between components; two must not differ only in case.
@MainActor
public struct AdditionalContent {
    let document: ManagedDocument

    /// The paths of all files, sorted by their bytes, unsaved changes included.
    public var paths: [String] { document.openDocument?.contentNames.sorted ?? [] }

    /// The bytes of a file, unsaved changes included, or `nil` if there is no such file.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the saved files are missing, or what reading throws.
    public func data(at path: String) throws -> Data? {
        try document.opened().contentData(at: path.precomposedStringWithCanonicalMapping)
    }

    /// Adds or replaces a file.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the path cannot be used, or `readOnly`.
    public func write(_ data: Data, at path: String) throws {
        let path = path.precomposedStringWithCanonicalMapping
        try checkWritable()
        let open = try document.opened()
        try Self.check(path, open.contentNames)
        open.changeContent(.data(data), at: path)
        document.scheduleAutosave()
    }

    /// Removes a file.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is no such file, or `readOnly`.
    public func remove(_ path: String) throws {
        let path = path.precomposedStringWithCanonicalMapping
        try checkWritable()
        let open = try document.opened()
        guard open.contentNames.contains(path) else {
            throw QuireError(
                .notFound, "“\(document.path)” has no additional content “\(path)”.",
                subject: .init(file: path))
        }
        open.changeContent(.removal, at: path)
        document.scheduleAutosave()
    }

    /// Throws if a new file cannot have a path.
    nonisolated static func check(_ path: String, _ names: AdditionalContentNames) throws {
        if let problem = names.problem(with: path) {
            throw QuireError(
                .invalidValue, "“\(path)” cannot be additional content: it \(problem).",
                subject: .init(file: path))
        }
    }

    func checkWritable() throws {
        if document.isReadOnly {
            throw QuireError(
                .readOnly, "“\(document.path)” was opened for reading only and cannot be changed.",
                subject: .init(file: document.path))
        }
    }
}
