import Foundation
import Quire

/// A model, wherever it is: in a file of its own, or in a document or store that carries it.
struct ModelSource {
    let model: ManagedObjectModel
    /// What it is called: the name of the file without extension. The versions of a model share that of the
    /// folder they are in.
    let name: String

    /// Reads a model.
    ///
    /// - Parameter path: A `.xcdatamodeld` folder, of which the current version is read, a `.xcdatamodel` folder,
    ///   the file `contents` in one, or a document, store or archive.
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `unsupported`, …
    @MainActor
    static func read(_ path: String) async throws -> ModelSource {
        let name = name(of: path)
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError(
                .notFound, "There is no model and no document at “\(path)”.",
                subject: .init(file: path))
        }
        if information.kind == .folder ? isModelFolder(path) : isModelFile(path) {
            return ModelSource(model: try ManagedObjectModel(contentsOf: path), name: name)
        }
        let document =
            try DocumentPath.kind(of: path) == .archive
            ? DocumentSession.open(archive: path)
            : await DocumentSession.open(path, modelPath: nil, access: .read)
        let model = document.layout.model
        try await document.close()
        return ModelSource(model: model, name: name)
    }

    /// A folder that holds no store is taken for a model, and reading it will tell.
    private static func isModelFolder(_ path: String) -> Bool {
        !FileSystem.exists(FileSystem.path(path, "StoreContent"))
    }

    /// A file that begins with neither SQLite's name nor that of an archive is taken for a model.
    private static func isModelFile(_ path: String) -> Bool {
        guard let file = FileHandle(forReadingAtPath: path) else { return true }
        defer { try? file.close() }
        let start = (try? file.read(upToCount: 16)) ?? Data()
        let others: [[UInt8]] = [
            Array("SQLite format 3\0".utf8), [0x50, 0x4B, 0x03, 0x04], [0x28, 0xB5, 0x2F, 0xFD],
        ]
        return !others.contains { start.starts(with: $0) }
    }

    private static func name(of path: String) -> String {
        var path = FileSystem.absolute(path)
        if FileSystem.name(of: path) == "contents" { path = FileSystem.folder(of: path) }
        let above = FileSystem.folder(of: path)
        if path.hasSuffix(".xcdatamodel"), above.hasSuffix(".xcdatamodeld") { path = above }
        let name = FileSystem.name(of: path)
        let base = name.split(separator: ".", omittingEmptySubsequences: false).dropLast()
        return base.isEmpty || base.first?.isEmpty == true ? name : base.joined(separator: ".")
    }
}
