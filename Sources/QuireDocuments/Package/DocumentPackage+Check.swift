import Crypto
import Foundation
import Quire

/// Something about a package that is not as it should be.
public struct DocumentProblem: Sendable, Hashable {
    /// How bad it is.
    public enum Severity: String, Sendable {
        /// Something of the document is lost or cannot be trusted.
        case error
        /// Nothing is lost; the next save, or opening it for writing, may put it right.
        case warning
    }

    /// How bad it is.
    public var severity: Severity
    /// The file or folder it is about.
    public var path: String
    /// One sentence that says what is wrong.
    public var message: String
}

extension DocumentPackage {
    /// Looks at everything in the package: the database, the files of external data, the additional content, the
    /// metadata, and what should not be there. Changes nothing.
    ///
    /// - Returns: The problems, errors first; empty if all is well.
    /// - Throws: What reading the store throws if it cannot be read at all.
    /// - Complexity: O(*n*) in the size of the package; all of it is read.
    public func check() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for problem in try store.integrityProblems() {
            problems.append(
                .init(
                    severity: .error, path: layout.store,
                    message: "The database of “\(layout.path)” is damaged: \(problem)."))
        }
        problems += try externalDataProblems()
        problems += try additionalContentProblems()
        problems += try strayFileProblems()
        return problems.filter { $0.severity == .error }
            + problems.filter { $0.severity == .warning }
    }
}

// MARK: - Parts

extension DocumentPackage {
    private func externalDataProblems() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for file in try store.externalFiles() {
            guard let information = try FileSystem.informationWithoutFollowing(at: file.path),
                information.kind == .regular
            else {
                problems.append(
                    .init(
                        severity: .error, path: file.path,
                        message: "The external data “\(file.path)” is missing."))
                continue
            }
            if try !isAsRecorded(file, size: information.size) {
                problems.append(
                    .init(
                        severity: .error, path: file.path,
                        message: "The external data “\(file.path)” is not what was saved."))
            }
        }
        // Files of a save that runs belong to nobody yet, so a reader cannot tell them from rubbish.
        for path in try store.unreferencedExternalFiles() {
            problems.append(
                .init(
                    severity: .warning, path: path,
                    message: "No object refers to the external data “\(path)”."))
        }
        return problems
    }

    private func isAsRecorded(_ file: SQLiteExternalFile, size: Int64) throws -> Bool {
        if let recorded = file.size, recorded != size { return false }
        guard let recorded = file.sha256 else { return true }
        var digest = SHA256()
        let open = try OpenFile.open(file.path, for: .reading)
        try withUnsafeTemporaryAllocation(byteCount: 262_144, alignment: 16) { buffer in
            while true {
                let count = try open.read(into: buffer)
                if count == 0 { return }
                digest.update(bufferPointer: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        return Data(digest.finalize()) == recorded
    }

    private func additionalContentProblems() throws -> [DocumentProblem] {
        let generation = try liveGeneration()
        var problems: [DocumentProblem] = []
        if let generation {
            let folder = layout.additionalContent(generation: generation)
            if try FileSystem.informationWithoutFollowing(at: folder)?.kind != .folder {
                problems.append(
                    .init(
                        severity: .error, path: folder,
                        message: "The additional content “\(folder)” is missing."))
            } else {
                for (path, information) in try FileSystem.contentsOfTree(folder)
                where information.kind != .regular && information.kind != .folder {
                    problems.append(
                        .init(
                            severity: .error, path: FileSystem.path(folder, path),
                            message:
                                "“\(path)” in the additional content is neither file nor folder."
                        ))
                }
            }
        }
        let metadata = DocumentMetadata(
            storeUUID: store.identity.uuid, storeType: store.type.rawValue,
            additionalContentGeneration: generation)
        if !metadata.isWritten(in: layout) {
            problems.append(
                .init(
                    severity: .warning, path: layout.metadata,
                    message: "The metadata file does not say what the store says."))
        }
        return problems
    }

    /// What has no place in a package: rubbish that the next opening for writing removes, or somebody's own files.
    private func strayFileProblems() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        func expect(_ expected: [String], in folder: String) throws {
            for name in try FileSystem.names(in: folder) where !expected.contains(name) {
                let path = FileSystem.path(folder, name)
                problems.append(
                    .init(
                        severity: .warning, path: path,
                        message: "“\(path)” is no part of the document."))
            }
        }
        try expect(
            [
                "DocumentMetadata.plist", ".lock", "StoreContent", "AdditionalContent", "Versions",
            ], in: layout.path)
        try expect(
            [
                "persistentStore", "persistentStore-wal", "persistentStore-shm",
                "persistentStore-journal", ".persistentStore_SUPPORT",
            ], in: layout.storeFolder)
        if FileSystem.exists(layout.additionalContent) {
            let live = try liveGeneration().map { [String($0)] } ?? []
            try expect(live, in: layout.additionalContent)
        }
        return problems
    }
}
