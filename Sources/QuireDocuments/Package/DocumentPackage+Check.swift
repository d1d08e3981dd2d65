import Foundation
import Quire
package import QuireRescue

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
    /// Looks at everything in the package: the store, as ``StoreCheck`` does, the additional content, the versions, the
    /// metadata, and what should not be there. Changes nothing. What interrupted saves have left is no problem; see
    /// ``leftovers()``.
    ///
    /// - Returns: The problems, errors first; empty if all is well.
    /// - Throws: As ``StoreCheck/run(_:)``.
    /// - Complexity: O(*n*) in the size of the package; all of it is read.
    public func check() throws -> [DocumentProblem] {
        let report = try StoreCheck.run(store)
        var errors = report.problems.map { problem($0, .error) }
        if report.unlistedProblems > 0 {
            errors.append(
                .init(
                    severity: .error, path: layout.store,
                    message: "There are \(report.unlistedProblems) more problems of these kinds."))
        }
        // Of files of external data only those are noted that nothing refers to: leftovers.
        let warnings = report.notes.filter { $0.kind != .externalData }
            .map { problem($0, .warning) }
        let problems = try errors + warnings + packageProblems()
        return problems.filter { $0.severity == .error }
            + problems.filter { $0.severity == .warning }
    }

    private func problem(
        _ problem: StoreProblem, _ severity: DocumentProblem.Severity
    ) -> DocumentProblem {
        DocumentProblem(severity: severity, path: layout.store, message: problem.message)
    }
}

extension DocumentPackage {
    /// What is wrong with the package beside its store: the additional content, the metadata, and what should not be
    /// there.
    package func packageProblems() throws -> [DocumentProblem] {
        let foreign = layout.foreignEntries().map {
            DocumentProblem(
                severity: .error, path: $0.subject.file ?? layout.path, message: $0.message)
        }
        // Nothing more can be said of what is behind such an entry.
        if !foreign.isEmpty { return foreign }
        return try additionalContentProblems() + versionStore.problems() + strayFileProblems()
    }
}

extension StoreCheckReport {
    /// Adds what is wrong with a package: errors are problems, warnings are notes.
    package mutating func add(_ found: [DocumentProblem]) {
        for problem in found {
            let entry = StoreProblem(
                kind: .package, object: nil, table: nil, message: problem.message,
                isRepairable: false)
            switch problem.severity {
            case .error: problems.append(entry)
            case .warning: notes.append(entry)
            }
        }
    }
}

// MARK: - Parts

extension DocumentPackage {
    private func additionalContentProblems() throws -> [DocumentProblem] {
        let generation = try liveGeneration()
        var problems: [DocumentProblem] = []
        if let generation {
            let folder = layout.additionalContent(generation: generation)
            if let found = try FileSystem.information(at: folder, beneath: layout.path) {
                var files = [(path: folder, information: found)]
                if found.kind == .folder {
                    files += try FileSystem.contentsOfTree(folder, beneath: layout.path).map {
                        (FileSystem.path(folder, $0.path), $0.information)
                    }
                }
                for (path, information) in files {
                    do {
                        try information.require(path == folder ? .folder : nil, at: path)
                        // Reading a sealed file authenticates it.
                        if information.kind == .regular, let classKey = content.classKey {
                            try ContentFile(
                                OpenFile.open(path, beneath: layout.path, for: .reading),
                                unsealing: classKey
                            ).forEachBlock { _ in }
                        }
                    } catch let error as QuireError {
                        problems.append(
                            .init(severity: .error, path: path, message: error.message))
                    }
                }
            } else {
                problems.append(
                    .init(
                        severity: .error, path: folder,
                        message: "The additional content “\(folder)” is missing."))
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

    /// Files that have no place in a package, somebody's own perhaps. What ``leftovers()`` finds is not among them.
    private func strayFileProblems() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        func expect(_ expected: Set<String>, in folder: String) throws {
            for name in try FileSystem.names(in: folder, beneath: layout.path)
            where !expected.contains(name) && !FileSystem.isTemporaryName(name) {
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
                "Thumbnail.png", "DraftFiles", StoreProtection.keybagName,
            ],
            in: layout.path)
        try expect(
            [
                "persistentStore", "persistentStore-wal", "persistentStore-shm",
                "persistentStore-journal", ".persistentStore_SUPPORT",
            ], in: layout.storeFolder)
        if FileSystem.exists(layout.additionalContent, beneath: layout.path) {
            let generations = try FileSystem.names(
                in: layout.additionalContent, beneath: layout.path
            )
            .filter { DocumentPackageLayout.generation(ofFolder: $0) != nil }
            try expect(Set(generations), in: layout.additionalContent)
        }
        return problems
    }
}

// MARK: - Leftovers

extension DocumentPackage {
    /// What interrupted saves have left: temporary files, generations of additional content that the store does not name,
    /// external data that no object refers to. It does no harm, and goes when the package is opened for writing.
    ///
    /// While the package is open for writing, what a running save makes and what earlier saves no longer need are among it.
    ///
    /// - Returns: The paths.
    public func leftovers() throws -> [String] {
        var paths = try store.unreferencedExternalFiles()
        for folder in [layout.path, layout.storeFolder, layout.versions, layout.versionBlocks]
        where FileSystem.exists(folder, beneath: layout.path) {
            paths += try temporaryFiles(in: folder)
        }
        paths += unusedDraftFiles()
        if FileSystem.exists(layout.additionalContent, beneath: layout.path) {
            paths += content.leftovers(except: try liveGeneration())
        }
        return paths
    }

    /// Removes what interrupted saves have left. Only for the owner of the lock, before anything has been read or saved.
    /// What cannot be removed stays until the next time.
    func removeLeftovers() {
        for path in (try? leftovers()) ?? [] {
            try? FileSystem.removeTree(path, beneath: layout.path)
        }
    }

    private func temporaryFiles(in folder: String) throws -> [String] {
        try FileSystem.names(in: folder, beneath: layout.path)
            .filter(FileSystem.isTemporaryName)
            .map { FileSystem.path(folder, $0) }
    }
}
