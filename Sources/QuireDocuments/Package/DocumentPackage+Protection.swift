import Foundation
public import Quire

// Changing the keys of a package: a new package with the same content and other keys is built beside it, and exchanged with
// it atomically. An interruption leaves the old one. Disk blocks of the old package may remain readable: overwriting a file
// does not guarantee that its blocks are overwritten.

extension DocumentPackage {
    /// The class of protection of a document on disk. No key is needed, so that nobody has vouched for it yet: opening the
    /// document does.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func fileProtection(at path: String) throws -> FileProtection {
        try SQLiteStore.fileProtection(at: DocumentPackageLayout(path: path).store)
    }

    /// The domain of a document that is protected; `nil` if it is not. To be unlocked, and held until the document is open.
    ///
    /// ```swift
    /// let domain = try DocumentPackage.protectionDomain(at: path)
    /// try await domain?.unlock(keyFile: keyFile)
    /// try await document.open()
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func protectionDomain(at path: String) throws -> ProtectionDomain? {
        try StoreProtection.domain(ofStoreAt: DocumentPackageLayout(path: path).store)
    }

    /// Changes the class of protection of a document that nobody has open. All of it is sealed with new keys.
    ///
    /// The document is as it was, or has the new class, whatever interrupts it. **What was on the disk before is not
    /// overwritten**: after protecting a document for the first time, the blocks of its files may be read by who has the disk
    /// until they are used again.
    ///
    /// - Parameters:
    ///   - path: The document. It must be unlocked if it is protected.
    ///   - fileProtection: The class that it gets. Slots of its keybag stay, unless it is `none`.
    ///   - domain: The domain that unlocks it if it was not protected; `nil` for the process's.
    ///   - waiting: How to wait if somebody has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Complexity: O(*n*) in the size of the document.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if there is no domain or the document has versions,
    ///   `protectedDataUnavailable` if a domain is locked, `locked` if somebody has it open for writing or changes it
    ///   meanwhile, `outOfSpace`, or what reading and writing throw. Then nothing has changed.
    public static func setFileProtection(
        _ fileProtection: FileProtection, ofDocumentAt path: String,
        domain: ProtectionDomain? = nil, waiting: LockWait? = nil
    ) throws {
        try setFileProtection(
            fileProtection, ofDocumentAt: path, domain: domain, slots: [], waiting: waiting)
    }

    /// As ``setFileProtection(_:ofDocumentAt:domain:waiting:)``, with slots of its own for one that was not protected.
    package static func setFileProtection(
        _ fileProtection: FileProtection, ofDocumentAt path: String, domain: ProtectionDomain?,
        slots: [NewSlot], waiting: LockWait?
    ) throws {
        let package = try open(at: path, readOnly: true)
        defer { try? package.close() }
        let (layout, present) = (package.layout, package.store.protection)
        if (present?.fileProtection ?? .none) == fileProtection { return }
        if FileSystem.exists(layout.versions, beneath: layout.path),
            try !package.versionStore.ids().isEmpty
        {
            throw QuireError(
                .protectionUnavailable,
                "“\(layout.path)” has versions, which are not sealed anew; remove them first.",
                subject: .init(file: layout.path))
        }
        let state = try package.store.fileState()
        try build(
            at: layout.path, replacing: true, waiting: waiting,
            permissionsOf: package.folderInformation(),
            whenLocked: {
                if try package.store.fileState() == state { return }
                throw QuireError(
                    .locked,
                    "“\(layout.path)” was changed while it was being sealed anew; try again.",
                    subject: .init(file: layout.path))
            }
        ) { target in
            var new: StoreProtection?
            if fileProtection != .none {
                let made =
                    try present?.domain.makeKeybag(protection: fileProtection)
                    ?? ProtectionDomain.makeKeybag(
                        protection: fileProtection, slots: slots,
                        parent: domain ?? (slots.isEmpty ? ProtectionDomain.default : nil))
                try made.write(to: target.keybag, beneath: target.path)
                new = try StoreProtection(made)
            }
            try package.fill(target, protectedBy: new)
        }
    }

    /// Fills a new package with the content of this one, sealed with other keys or unsealed.
    private func fill(_ target: DocumentPackageLayout, protectedBy new: StoreProtection?) throws {
        try store.writeCopy(to: target.store, protectedBy: new)
        if let generation = try liveGeneration() {
            let folder = target.additionalContent(generation: generation)
            try FileSystem.makeFolder(folder, withIntermediates: true)
            for (path, _) in try content.files(in: generation) {
                guard let file = try content.file(at: path, in: generation) else { continue }
                let place = FileSystem.path(folder, path)
                try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
                try Self.copy(file, to: place, sealing: new?.classKey)
            }
        }
        if FileSystem.exists(layout.draftFiles, beneath: layout.path) {
            try FileSystem.makeFolder(target.draftFiles)
            for name in try FileSystem.names(in: layout.draftFiles, beneath: layout.path) {
                let file = try OpenFile.open(
                    FileSystem.path(layout.draftFiles, name), beneath: layout.path, for: .reading)
                try Self.copy(
                    ContentFile(file, unsealing: store.protection?.classKey),
                    to: FileSystem.path(target.draftFiles, name), sealing: new?.classKey)
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
    }

    private static func copy(
        _ file: ContentFile, to path: String, sealing classKey: ClassKey?
    ) throws {
        defer { file.close() }
        let target = try OpenFile.open(path, for: .creating)
        try target.setPermissionsIfPossible(file.file.information().permissions & 0o777 | 0o600)
        let writer = try ContentFileWriter(target, sealing: classKey)
        try file.forEachBlock { try writer.write($0) }
        try writer.finish()
    }
}
