import Foundation
import Quire

// Copies of packages with other keys: unsealed with those of the original, and sealed with new ones.

extension DocumentPackage {
    /// Fills a new package with the content of this one, sealed with other keys or unsealed, but without versions.
    ///
    /// - Parameters:
    ///   - target: The package, which has its keybag.
    ///   - new: Its keys; `nil` if it is not to be protected.
    ///   - withoutDraft: Whether it is to have what was saved only.
    /// - Returns: The files that were copied.
    @discardableResult
    func fill(
        _ target: DocumentPackageLayout, protectedBy new: StoreProtection?,
        withoutDraft: Bool = false
    ) throws -> ResealedFiles {
        var files = ResealedFiles(from: store.protection, to: new)
        try store.writeCopy(to: target.store, protectedBy: new, withoutDraft: withoutDraft)
        if FileSystem.exists(target.externalData) {
            for name in try FileSystem.names(in: target.externalData) {
                try files.add(
                    FileSystem.path(layout.externalData, name), beneath: layout.path,
                    copiedTo: FileSystem.path(target.externalData, name))
            }
        }
        if let generation = try liveGeneration() {
            let live = layout.additionalContent(generation: generation)
            let folder = target.additionalContent(generation: generation)
            try FileSystem.makeFolder(folder, withIntermediates: true)
            for (path, _) in try content.files(in: generation) {
                let place = FileSystem.path(folder, path)
                try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
                try files.copy(FileSystem.path(live, path), beneath: layout.path, to: place)
            }
        }
        if !withoutDraft, FileSystem.exists(layout.draftFiles, beneath: layout.path) {
            try FileSystem.makeFolder(target.draftFiles)
            for name in try FileSystem.names(in: layout.draftFiles, beneath: layout.path) {
                try files.copy(
                    FileSystem.path(layout.draftFiles, name), beneath: layout.path,
                    to: FileSystem.path(target.draftFiles, name))
            }
        }
        try DocumentMetadata(
            storeUUID: store.identity.uuid, storeType: store.type.rawValue,
            additionalContentGeneration: liveGeneration()
        ).write(to: target)
        // Library metadata are stored in clear, and written again by the next save.
        var metadata = LibraryMetadata()
        metadata.created = LibraryMetadata(readingFrom: layout).created
        try metadata.write(to: target)
        return files
    }
}

extension VersionStore {
    /// Writes all versions to a new package, sealed with its keys or unsealed. They keep their names. If they were in clear or
    /// become so, their pages have another size and are written anew, so that they have fewer in common.
    ///
    /// - Parameters:
    ///   - target: The versions of the new package, of which there are none yet.
    ///   - files: The files that were copied to it.
    /// - Throws: ``QuireError`` with code `invalidFormat` if one is damaged, or what reading and writing throw.
    func copy(to target: VersionStore, _ files: inout ResealedFiles) throws {
        let ids = try ids()
        if !ids.isEmpty { try target.makeFolders() }
        for id in ids {
            do {
                try reading(id) { folder, manifest in
                    try copy(id, folder, manifest, to: target, &files)
                }
            } catch let error as QuireError where error.code == .invalidFormat {
                throw QuireError(
                    .invalidFormat,
                    "The version “\(id)” of “\(layout.path)” is damaged, so that it cannot be sealed anew; delete it, and try again.",
                    subject: .init(file: layout.path, value: id), underlying: error)
            }
        }
    }

    private func copy(
        _ id: String, _ folder: String, _ original: VersionManifest, to target: VersionStore,
        _ files: inout ResealedFiles
    ) throws {
        if let problem = try fileProblems(id, original).first {
            throw QuireError(.invalidFormat, problem.message, subject: .init(file: problem.path))
        }
        var manifest = original
        manifest.addedSize = 0
        let place = target.layout.version(id)
        try FileSystem.makeFolder(place)
        func add(_ path: String) throws -> Int64 {
            try target.addFile(
                FileSystem.path(folder, path), beneath: layout.path,
                to: FileSystem.path(place, path), by: .copying, &files, &manifest
            ).size
        }
        for name in original.externalFiles.keys.sorted() {
            let size = try add("\(Self.externalDataName)/\(name)")
            manifest.externalFiles[name]?.size = size
        }
        if original.generation != nil {
            try FileSystem.makeFolder(FileSystem.path(place, Self.contentName))
        }
        for path in original.content.keys.sorted() {
            manifest.content[path] = try add("\(Self.contentName)/\(path)")
        }
        let (old, new) = (FileSystem.path(place, "original"), FileSystem.path(place, "database"))
        try writeDatabase(of: id, original, to: old, progress: nil)
        try SQLiteStore.writePageCopy(
            ofDatabaseAt: old, protectedBy: protection, to: new, protectedBy: target.protection)
        try FileSystem.removeFile(old)
        try target.cut(new, into: &manifest, progress: nil)
        try target.write(&manifest, into: place)
        if version(id, original).isResolved { try target.markResolved(id) }
    }
}

/// Copies of files with other keys. Files that are one file, as those of a version and of the document, are copied once, and
/// are one file there, too.
struct ResealedFiles {
    private let source: StoreProtection?
    private let target: StoreProtection?
    private var copies: [FileInformation.Identity: String] = [:]

    /// - Parameters:
    ///   - source: The keys of the originals; `nil` if they are not sealed.
    ///   - target: The keys of the copies; `nil` if they are not to be sealed.
    init(from source: StoreProtection?, to target: StoreProtection?) {
        self.source = source
        self.target = target
    }

    /// Records that a file was copied.
    mutating func add(_ path: String, beneath root: String, copiedTo copy: String) throws {
        if let information = try FileSystem.information(at: path, beneath: root) {
            copies[information.identity] = copy
        }
    }

    /// Copies a file, which must not exist yet. If the keys are the same it is copied as it is. Not synchronized.
    ///
    /// - Returns: Whether it was copied, and hence has bytes to synchronize; otherwise it was linked.
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not what was sealed, `protectedDataUnavailable`, or what
    ///   reading and writing throw.
    @discardableResult
    mutating func copy(
        _ path: String, beneath root: String, to copy: String, within copyRoot: String? = nil,
        by method: FileSystem.CopyMethod = .copying
    ) throws -> Bool {
        if StoreProtection.hasKeys(target, of: source) {
            return try FileSystem.copyFile(
                path, beneath: root, to: copy, within: copyRoot, by: method)
        }
        let original = try OpenFile.open(path, beneath: root, for: .reading)
        let information = try original.information()
        if let twin = copies[information.identity] {
            return try FileSystem.linkOrCopy(
                twin, beneath: copyRoot, to: copy, within: copyRoot)
        }
        let content = try ContentFile(original, unsealing: source?.classKey)
        defer { content.close() }
        let file = try OpenFile.open(copy, beneath: copyRoot, for: .creating)
        try file.setPermissionsIfPossible(information.permissions & 0o777 | 0o600)
        let writer = try ContentFileWriter(file, sealing: target?.classKey)
        try content.forEachBlock { try writer.write($0) }
        try writer.finish()
        copies[information.identity] = copy
        return true
    }
}
