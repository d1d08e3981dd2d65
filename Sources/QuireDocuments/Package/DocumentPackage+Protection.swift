import Foundation
import Logging
public import Quire
internal import QuireSQLite

// Changing the keys of a package: a new package with the same content and other keys is built beside it, and exchanged with
// it atomically. An interruption leaves the old one. Disk blocks of the old package may remain readable: overwriting a file
// does not guarantee that its blocks are overwritten.

extension DocumentPackage {
    /// The protection class of a document on disk. It is read without a key, so it is not authenticated; opening the document
    /// authenticates it.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func fileProtection(at path: String) throws -> FileProtection {
        try SQLiteStore.fileProtection(at: DocumentPackageLayout(path: path).store)
    }

    /// Checks that a document without a keybag has not lost one. Do not call it while this process has the document open,
    /// because the store's file is opened and closed.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, or errors of reading.
    package static func checkIsNotSealed(at path: String) throws {
        let store = DocumentPackageLayout(path: path).store
        if try StoreProtection.domain(ofStoreAt: store) == nil {
            try StoreProtection.checkIsNotSealed(store)
        }
    }

    /// The domain of a protected document; `nil` if it is not protected. Unlock it, and retain it until the document is open.
    ///
    /// ```swift
    /// let domain = try DocumentPackage.protectionDomain(at: path)
    /// try await domain?.unlock(keyFile: keyFile)
    /// try await document.open()
    /// ```
    ///
    /// The path may be that of a zip file created by Quire; a document in any other archive must be extracted first.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func protectionDomain(at path: String) throws -> ProtectionDomain? {
        let layout = DocumentPackageLayout(path: path)
        let mount =
            ArchivedDocument.isArchive(layout.path) ? try ArchivedDocument.mount(layout.path) : nil
        return try withExtendedLifetime(mount) {
            try StoreProtection.domain(ofStoreAt: layout.store)
        }
    }

    /// Changes the protection class of a document that is not open. The whole document is encrypted with new keys.
    ///
    /// An interruption leaves the old document or the new one. **Old data on the disk is not overwritten**: after protecting a
    /// document for the first time, the old blocks of its files remain readable on the disk until they are reused. Files in the
    /// package that are not part of the document are kept unchanged.
    ///
    /// - Parameters:
    ///   - path: The document. It must be unlocked if it is protected.
    ///   - fileProtection: The new class. Slots of its keybag are kept, unless it is `none`.
    ///   - domain: The domain that unlocks it if it was not protected; `nil` for the default one of the process.
    ///   - waiting: How to wait while another owner has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Complexity: O(*n*) in the size of the document.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if no domain is set, `protectedDataUnavailable` if a domain is
    ///   locked, `locked` if another owner has it open for writing or changes it meanwhile, `invalidFormat` if one of its
    ///   versions is damaged, `outOfSpace`, or errors of reading and writing. Then nothing has changed.
    public static func setFileProtection(
        _ fileProtection: FileProtection, ofDocumentAt path: String,
        domain: ProtectionDomain? = nil, waiting: LockWait? = nil
    ) throws {
        try setFileProtection(
            fileProtection, ofDocumentAt: path, domain: domain, slots: [], waiting: waiting)
    }

    /// As ``setFileProtection(_:ofDocumentAt:domain:waiting:)``, with additional slots for a document that was not protected.
    package static func setFileProtection(
        _ fileProtection: FileProtection, ofDocumentAt path: String, domain: ProtectionDomain?,
        slots: [NewSlot], waiting: LockWait?
    ) throws {
        let package = try open(at: path, readOnly: true)
        defer { try? package.close() }
        let present = package.store.protection
        if (present?.fileProtection ?? .none) == fileProtection { return }
        try package.replaceKeys(waiting: waiting) {
            if fileProtection == .none { return nil }
            return try present?.domain.makeKeybag(protection: fileProtection)
                ?? ProtectionDomain.makeKeybag(
                    protection: fileProtection, slots: slots,
                    parent: domain ?? (slots.isEmpty ? ProtectionDomain.default : nil))
        }
    }

    /// Replaces the keys of a protected document that is not open: the master key, the class keys, and the key of each file. The
    /// whole document is re-encrypted.
    ///
    /// Old credentials do not open the new document, except for domains that it belongs to. Its passphrases, key files and
    /// recovery keys are removed; add them again. Old data on the disk is not overwritten, and copies keep their keys. An
    /// interruption leaves the document with its old or its new keys.
    ///
    /// - Parameters:
    ///   - path: The document. It and the domains that it belongs to must be unlocked.
    ///   - waiting: How to wait while another owner has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Complexity: O(*n*) in the size of the document.
    /// - Throws: As ``setFileProtection(_:ofDocumentAt:domain:waiting:)``; `protectionUnavailable` if it is not protected, or
    ///   does not belong to a domain that would unlock it.
    public static func rotateKeys(
        ofDocumentAt path: String, waiting: LockWait? = nil
    ) throws { try rotateKeys(ofDocumentAt: path, slots: [], waiting: waiting) }

    /// As ``rotateKeys(ofDocumentAt:waiting:)``, with additional slots.
    package static func rotateKeys(
        ofDocumentAt path: String, slots: [NewSlot], waiting: LockWait?
    ) throws {
        let package = try open(at: path, readOnly: true)
        defer { try? package.close() }
        guard let present = package.store.protection else { throw notProtectedError(path) }
        try package.replaceKeys(waiting: waiting) {
            try present.domain.makeRotatedKeybag(slots: slots)
        }
    }

    /// Replaces the package by one with the same content and other keys.
    private func replaceKeys(
        waiting: LockWait?, _ makeKeybag: () throws -> ProtectionDomain?
    ) throws {
        let (state, versions) = try (store.fileState(), versionStore.ids())
        try Self.build(
            at: layout.path, replacing: true, waiting: waiting,
            permissionsOf: folderInformation(),
            whenLocked: {
                if try store.fileState() == state, try versionStore.ids() == versions { return }
                throw QuireError(
                    .locked,
                    "“\(layout.path)” was changed while it was being re-encrypted; try again.",
                    file: layout.path)
            }
        ) { target in
            var new: StoreProtection?
            if let made = try makeKeybag() {
                try made.write(to: target.keybag, beneath: target.path)
                try FileSystem.copyPermissions(
                    of: layout.store, beneath: layout.path, to: target.keybag)
                new = try StoreProtection(made)
            }
            var files = try fill(target, protectedBy: new)
            try versionStore.copy(to: VersionStore(layout: target, protection: new), &files)
        }
        // It no longer protects anything, and the exchange has succeeded even if its key cannot be removed.
        do {
            try store.protection?.domain.removeFromUserKeyring()
        } catch {
            Logger(label: "quire.document").warning("\(error)")
        }
    }

    /// Destroys the keys of a protected document that is not open, and removes it. No key is needed.
    ///
    /// The keybag is overwritten first, so that data whose blocks remain readable cannot be decrypted. Copy-on-write file systems
    /// and flash memory may keep the old blocks of the keybag: destroy its key files too. Copies of the document keep their keys.
    /// An interruption may leave the document without keys; call it again.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if it is not protected, `locked` if another owner has it
    ///   open for writing, or errors of writing.
    public static func erase(documentAt path: String, waiting: LockWait? = nil) throws {
        let layout = DocumentPackageLayout(path: FileSystem.resolvingLink(path))
        try checkIsPackage(layout)
        guard FileSystem.exists(layout.keybag, beneath: layout.path) else {
            throw notProtectedError(path)
        }
        let lock = try DocumentLock.acquire(for: layout, waiting: waiting)
        defer { lock.release() }
        // A keybag that was overwritten before an interruption has no domain.
        if let domain = try? protectionDomain(at: path) {
            domain.lockNow()
            try domain.removeFromUserKeyring()
        }
        try ProtectionDomain.eraseKeybag(at: layout.keybag, beneath: layout.path)
        let removed = FileSystem.temporarySibling(of: layout.path, for: "removed")
        try FileSystem.rename(layout.path, to: removed)
        lock.move(to: DocumentPackageLayout(path: removed))
        try FileSystem.synchronizeFolder(containing: layout.path)
        try FileSystem.removeTree(removed)
    }

    private static func notProtectedError(_ path: String) -> QuireError {
        QuireError(
            .protectionUnavailable,
            "“\(path)” is not protected, so it has no keys; set its protection class first.",
            file: path)
    }
}

// MARK: - Resealing

// Copies of packages with other keys: unsealed with those of the original, and sealed with new ones.

extension DocumentPackage {
    /// Fills a new package with the content of this one, sealed with other keys or unsealed, but without versions.
    ///
    /// - Parameters:
    ///   - target: The package, which has its keybag.
    ///   - new: Its keys; `nil` for an unprotected package.
    ///   - withoutDraft: Whether to omit the draft.
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
                let place = FileSystem.path(folder, path.text)
                try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
                try files.copy(FileSystem.path(live, path.text), beneath: layout.path, to: place)
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
        // Library metadata is not encrypted: a protected package has only dates. The values that its class provides are written
        // again by the next save.
        var metadata = LibraryMetadata()
        let present = LibraryMetadata(readingFrom: layout)
        (metadata.created, metadata.modified) = (present.created, present.modified)
        if new == nil { metadata.objectCounts = try objectCounts() }
        try metadata.write(to: target)
        return files
    }
}

extension VersionStore {
    /// Writes all versions to a new package, sealed with its keys or unsealed. They keep their names. If protection
    /// is added or removed, the size of pages changes, so that they are written again and share fewer blocks.
    ///
    /// - Parameters:
    ///   - target: The versions of the new package, which has none yet.
    ///   - files: The files that were copied to it.
    /// - Throws: ``QuireError`` with code `invalidFormat` if one is damaged, or errors of reading and writing.
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
                    "The version “\(id)” of “\(layout.path)” is damaged and cannot be re-encrypted; delete it and try again.",
                    file: layout.path, value: id, underlying: error)
            }
        }
    }

    private func copy(
        _ id: String, _ folder: String, _ original: VersionManifest, to target: VersionStore,
        _ files: inout ResealedFiles
    ) throws {
        if let problem = try fileProblems(id, original).first {
            throw QuireError(.invalidFormat, problem.message, file: problem.path)
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

/// Copies of files with other keys. Hard links to one file, as in a version and the document, are copied once, and are hard
/// links again.
struct ResealedFiles {
    private let source: StoreProtection?
    private let target: StoreProtection?
    private var copies: [FileInformation.Identity: String] = [:]

    /// - Parameters:
    ///   - source: The keys of the originals; `nil` if they are not sealed.
    ///   - target: The keys of the copies; `nil` for unsealed copies.
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
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged, `protectedDataUnavailable`, or errors of
    ///   reading and writing.
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
