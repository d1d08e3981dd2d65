import Crypto
import Foundation
import Quire
internal import QuireStore

/// The additional content of an open document, as synchronization changes it: between two of the document's requests.
final class DocumentFiles: AccompanyingFiles {
    private let package: DocumentPackage
    private weak let document: ManagedDocument?

    init(_ package: DocumentPackage, of document: ManagedDocument) {
        self.package = package
        self.document = document
    }

    func generation(in records: [String: String]) -> String? {
        records[AdditionalContentStore.recordKey]
    }

    func files(in records: [String: String]) throws -> [AccompanyingFile] {
        guard let generation = try package.content.generation(in: records) else { return [] }
        let folder = package.layout.additionalContent(generation: generation)
        return try package.content.files(in: generation).compactMap { path, size in
            let file = FileSystem.path(folder, path.text)
            return try FileSystem.information(at: file, beneath: package.layout.path).map {
                AccompanyingFile(
                    path: path.text, size: size, number: $0.inode, time: $0.modificationNanoseconds)
            }
        }
    }

    func contents(of path: String, in records: [String: String]) throws -> Data? {
        try package.content.data(at: FileName(path), in: package.content.generation(in: records))
    }

    func digest(of path: String, in records: [String: String]) throws -> Data? {
        let generation = try package.content.generation(in: records)
        guard let file = try package.content.file(at: FileName(path), in: generation) else {
            return nil
        }
        defer { file.close() }
        var hash = SHA256()
        try file.forEachBlock { hash.update(bufferPointer: $0) }
        return Data(hash.finalize())
    }

    /// Writes generations of a package.
    struct Writer: AccompanyingFilesWriter {
        let package: DocumentPackage
        /// The paths of files with unsaved changes.
        var unsaved: Set<String> = []

        func isUnsaved(_ path: String) -> Bool { unsaved.contains(path) }

        func write(
            _ changes: [String: Data?], after records: [String: String]
        ) throws -> (records: [String: String?], refused: [String: String]) {
            let live = try package.content.generation(in: records)
            var names = AdditionalContentNames(
                try package.content.files(in: live).map(\.path))
            var written = AdditionalContentChanges()
            // Removals make room for files of other names.
            for (path, data) in changes where data == nil {
                let name = FileName(path)
                guard names.contains(name) else { continue }
                names.remove(name)
                written.files[name] = .removal
            }
            var refused: [String: String] = [:]
            for (path, data) in changes.sorted(by: { $0.key < $1.key }) {
                guard let data else { continue }
                let name = FileName(path)
                if !names.contains(name), let problem = names.problem(with: name) {
                    refused[path] = problem
                    continue
                }
                names.insert(name)
                written.files[name] = .data(data)
            }
            if written.isEmpty { return ([:], refused) }
            // What a failure means for the store is found out when the transaction has ended; see `changeFiles(of:_:)`.
            let generation = try package.content.write(written, after: live, records)
            return (
                AdditionalContentStore.records(ofGeneration: generation, after: written), refused
            )
        }
    }

    func withTurn(
        _ body: @escaping @Sendable (any AccompanyingFilesWriter) async throws -> Void
    ) async throws {
        try await document?.changeFiles(of: package, body)
    }
}

extension ManagedDocument {
    /// Runs a closure that may write another generation of additional content, and shows that.
    func changeFiles(
        of package: DocumentPackage,
        _ body: @escaping @Sendable (any AccompanyingFilesWriter) async throws -> Void
    ) async throws {
        try await withOpenDocument { [self] open in
            // It has been saved as another package since.
            guard open.package === package, !package.isReadOnly else { return }
            let reading: ContentReader = { try self.readAdditionalContent(from: $0) }
            @Sendable func contents() async throws -> (any Sendable)? {
                try await FileQueue.shared.run {
                    try OpenedContent(package, reading: reading).contents
                }
            }
            // A class that reads the files may have unsaved changes of them.
            if open.mayHaveUnsavedChanges, try await contents() != nil { return }
            let unsaved = Set(open.allUnsavedContent.files.keys.map(\.text))
            let result: Result<Void, any Error>
            do {
                result = .success(
                    try await body(DocumentFiles.Writer(package: package, unsaved: unsaved)))
            } catch {
                result = .failure(error)
                await FileQueue.shared.run { package.store.distrust(after: error) }
            }
            // The next save continues from the written generation, even if a later step failed.
            let generation = try await FileQueue.shared.run { try package.liveGeneration() }
            if generation == open.generation { return try result.get() }
            open.generation = generation
            await open.readContentNames(of: package)
            if let contents = try await contents() { try load(fromContents: contents) }
            await FileQueue.shared.run { package.tidy(generation: generation) }
            additionalContentDidChange()
            try result.get()
        }
    }
}
