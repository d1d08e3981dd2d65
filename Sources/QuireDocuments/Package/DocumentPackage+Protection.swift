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
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if there is no domain, `protectedDataUnavailable` if a domain
    ///   is locked, `locked` if somebody has it open for writing or changes it meanwhile, `invalidFormat` if one of its
    ///   versions is damaged, `outOfSpace`, or what reading and writing throw. Then nothing has changed.
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

    /// Gives a protected document that nobody has open new keys: a new master key and class keys, and a new key for each file.
    /// All of it is sealed anew.
    ///
    /// Whoever had a key to the document before has none to the new one, unless it is a domain that it belongs to. Passphrases,
    /// key files and recovery keys of its own are removed; add them again. What was on the disk before is not overwritten, and
    /// copies keep their keys. The document has its old or its new keys, whatever interrupts it.
    ///
    /// - Parameters:
    ///   - path: The document. It and the domains that it belongs to must be unlocked.
    ///   - waiting: How to wait if somebody has it open for writing, which blocks the thread; `nil` to fail at once.
    /// - Complexity: O(*n*) in the size of the document.
    /// - Throws: As ``setFileProtection(_:ofDocumentAt:domain:waiting:)``; `protectionUnavailable` if it is not protected, or
    ///   belongs to no domain, so that nothing would unlock it.
    public static func rotateKeys(
        ofDocumentAt path: String, waiting: LockWait? = nil
    ) throws { try rotateKeys(ofDocumentAt: path, slots: [], waiting: waiting) }

    /// As ``rotateKeys(ofDocumentAt:waiting:)``, with slots of its own.
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
                    "“\(layout.path)” was changed while it was being sealed anew; try again.",
                    subject: .init(file: layout.path))
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
        // What was protected by it is not there any more.
        try store.protection?.domain.removeFromUserKeyring()
    }

    /// Destroys the keys of a protected document that nobody has open, and removes it. No key is needed.
    ///
    /// The keybag is overwritten first, so that the rest, wherever its blocks remain readable, cannot be decrypted. File systems
    /// that copy on write and flash memory may keep the old blocks of the keybag as well: destroy its key files, too. Copies of
    /// the document keep their keys. After an interruption the document may be there without keys; call it again.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if it is not protected, `locked` if somebody has it open for
    ///   writing, or what writing throws.
    public static func erase(documentAt path: String, waiting: LockWait? = nil) throws {
        let layout = DocumentPackageLayout(path: path)
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
            "“\(path)” is not protected, so it has no keys; set its class of protection first.",
            subject: .init(file: path))
    }
}
