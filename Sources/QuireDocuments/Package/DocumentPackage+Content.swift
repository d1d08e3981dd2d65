public import Foundation
import Quire

/// New bytes for a file of additional content.
public enum AdditionalContentSource: Sendable {
    /// These.
    case data(Data)
    /// Those of a file on disk, by its path.
    case file(String)
    /// Those that a file handle gives until its end.
    case handle(FileHandle)
}

extension DocumentPackage {
    /// Changes files of additional content of a package that nobody edits as a document, in one save: all or nothing.
    ///
    /// Nothing is held in memory but what is given as data.
    ///
    /// - Parameters:
    ///   - added: New files, and new bytes for files that there are, by their paths.
    ///   - removed: The paths of files that go.
    /// - Throws: ``QuireError`` with code `readOnly`, `notFound` if a file that is to go is not there or there is none to copy,
    ///   `invalidValue` if a path cannot be used, `outOfSpace`, or what reading and writing throw. Then nothing has changed.
    public func changeAdditionalContent(
        adding added: [String: AdditionalContentSource] = [:], removing removed: [String] = []
    ) throws {
        try checkMayWrite()
        let live = try liveGeneration()
        var names = AdditionalContentNames(try content.files(in: live).map(\.path))
        var changes = AdditionalContentChanges()
        for path in removed {
            let path = path.precomposedStringWithCanonicalMapping
            guard names.contains(path) else {
                throw QuireError(
                    .notFound, "“\(layout.path)” has no additional content “\(path)”.",
                    subject: .init(file: path))
            }
            names.remove(path)
            changes.files[path] = .removal
        }
        for path in added.keys.sorted() {
            try AdditionalContent.check(path.precomposedStringWithCanonicalMapping, names)
            names.insert(path.precomposedStringWithCanonicalMapping)
        }
        for (path, source) in added {
            changes.files[path.precomposedStringWithCanonicalMapping] =
                switch source {
                case .data(let data): .data(data)
                case .file(let file):
                    .file(try SpooledFile(copying: FileSystem.absolute(file), to: self))
                case .handle(let handle): .file(try spool(handle))
                }
        }
        if changes.isEmpty { return }
        let generation = try writeContent(changes, after: live)
        var save = ChangeSet()
        save.records = [AdditionalContentStore.recordKey: generation.map(String.init)]
        do {
            try store.save(save)
        } catch {
            // If nobody knows whether it was saved, the next owner of the package finds out.
            if let generation, !error.leavesCommitOpen { content.discard(generation) }
            throw error
        }
        tidy(generation: generation)
    }

    private func spool(_ handle: FileHandle) throws -> SpooledFile {
        try SpooledFile(in: self) { file in
            while true {
                let piece: Data
                do {
                    piece = try handle.read(upToCount: 1 << 20) ?? Data()
                } catch {
                    throw QuireError(
                        .inputOutput,
                        "The bytes for additional content could not be read: \(error).",
                        underlying: error)
                }
                if piece.isEmpty { return }
                try piece.withUnsafeBytes { try file.write($0) }
            }
        }
    }

    /// A file of additional content to read from, at its start, as of the last save; `nil` if there is no such file. What
    /// it reads does not change, whatever is saved meanwhile.
    public func additionalContentHandle(at path: String) throws -> FileHandle? {
        let path = path.precomposedStringWithCanonicalMapping
        return try additionalContentFile(at: path)?.openedInClear().fileHandle()
    }

    /// A file of additional content, open for reading, as of the last save.
    func additionalContentFile(at path: String) throws -> ContentFile? {
        try withLiveGeneration { try content.file(at: path, in: $0) }
    }

    /// Paths and sources for all files in a folder on disk, to be added.
    ///
    /// - Parameter path: The folder of additional content that they get into; empty for none.
    public static func additionalContent(
        ofFolder folder: String, at path: String
    ) throws -> [String: AdditionalContentSource] {
        var sources: [String: AdditionalContentSource] = [:]
        for file in try AdditionalContentFiles.files(
            inFolder: FileSystem.absolute(folder), at: path)
        {
            sources[file.path] = .file(file.source)
        }
        return sources
    }
}
