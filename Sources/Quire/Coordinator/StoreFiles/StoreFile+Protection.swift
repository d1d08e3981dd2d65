internal import Logging
internal import QuireAtomicStores
internal import QuireSQLite

// Changing the keys of a store: all of its files are written with other keys to a folder beside it, and then take their places; see
// ProtectionChange. Stores in document packages are sealed anew with all of the package instead.

extension StoreFile {
    /// The protection class. It is read without a key and not authenticated; opening the store authenticates it.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if the keybag cannot be read.
    public var fileProtection: FileProtection {
        get throws { try protectionDomain?.protection ?? .none }
    }

    /// The domain of a protected store; `nil` if the store is not protected. Unlock it, and retain it until the store is open.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if the keybag cannot be read.
    public var protectionDomain: ProtectionDomain? {
        get throws { try StoreProtection.domain(ofStoreAt: path) }
    }

    /// Changes the protection class of a store that is not open: a SQLite, XML or binary file. All of it is sealed with new keys,
    /// external data too.
    ///
    /// ```swift
    /// try StoreFile(at: "Library.sqlite").setFileProtection(.complete, domain: domain)
    /// ```
    ///
    /// If the process is killed, the store is unchanged, or the next process to open it completes the change. **The former
    /// blocks of the disk are not overwritten**: after a store has been protected for the first time, the former content of its
    /// files can be read from the disk until the blocks are used again.
    ///
    /// - Parameters:
    ///   - fileProtection: The new class. Slots of its keybag are kept, unless it is `none`.
    ///   - domain: The domain that unlocks it if it was not protected; `nil` for the process's.
    /// - Complexity: O(*n*) in the size of the store, for which there must be room on the disk. XML and binary stores are in memory as a
    ///   whole.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` without a domain, `protectedDataUnavailable` if a domain is
    ///   locked, `locked` if the store is open or is changed meanwhile, `unsupported` if it is in a document package,
    ///   `invalidFormat` if it is damaged, `outOfSpace`, or errors of reading and writing. Then nothing has changed. If only
    ///   moving the new files into place has failed, the next process to open the store completes that.
    public func setFileProtection(
        _ fileProtection: FileProtection, domain: ProtectionDomain? = nil
    ) throws {
        try setFileProtection(fileProtection, domain: domain, slots: [])
    }

    /// As ``setFileProtection(_:domain:)``, with slots of its own for one that was not protected.
    package func setFileProtection(
        _ fileProtection: FileProtection, domain: ProtectionDomain?, slots: [NewSlot]
    ) throws {
        let present = try StoreProtection.find(forStoreAt: path)
        if present?.fileProtection ?? .none == fileProtection { return }
        try replaceKeys(present) {
            if fileProtection == .none { return nil }
            return try present?.domain.makeKeybag(protection: fileProtection)
                ?? ProtectionDomain.makeKeybag(
                    protection: fileProtection, slots: slots,
                    parent: domain ?? (slots.isEmpty ? ProtectionDomain.default : nil))
        }
    }

    /// Gives a protected store that is not open new keys, with slots of its own besides the domains that it belongs to.
    ///
    /// - Throws: As ``setFileProtection(_:domain:)``; `protectionUnavailable` if it is not protected, or belongs to no domain, so that
    ///   nothing would unlock it.
    package func rotateKeys(slots: [NewSlot]) throws {
        guard let present = try StoreProtection.find(forStoreAt: path) else {
            throw QuireError(
                .protectionUnavailable,
                "“\(path)” is not protected, so it has no keys; set its protection class first.",
                file: path)
        }
        try replaceKeys(present) { try present.domain.makeRotatedKeybag(slots: slots) }
    }

    private func replaceKeys(
        _ present: StoreProtection?, _ makeKeybag: () throws -> ProtectionDomain?
    ) throws {
        let path = StorePath.resolvingLink(path)
        if StorePath.packageRoot(of: path) != nil {
            throw QuireError(
                .unsupported,
                "“\(path)” is in a document package, which is protected as a whole; use DocumentPackage.setFileProtection.",
                file: path)
        }
        let sibling = try TemporarySibling.makeFolder(
            beside: ProtectionChange.folder(ofStoreAt: path))
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        try FileSystem.building(path, as: temporary) {
            let made = try makeKeybag()
            if let made {
                let keybag = StoreProtection.keybag(ofStoreAt: temporary).path
                try made.write(to: keybag)
                try FileSystem.copyPermissions(of: path, to: keybag)
            } else {
                try ProtectionChange.markUnprotected(sibling.path)
            }
            let new = try made.map(StoreProtection.init)
            func replace() throws {
                try SQLiteStore.copyPermissions(of: path, to: temporary)
                try FileSystem.synchronizeTree(sibling.path)
                try sibling.publish()
                // Releases its claim: moving the files takes one.
                sibling.remove()
                try ProtectionChange.finish(ofStoreAt: path)
            }
            if type == .sqlite {
                try SQLiteStore.copying(path, to: temporary, protectedBy: new, replace)
            } else {
                let file = AtomicStoreFile(
                    path: path, lockWait: FileLockWait(timeout: .zero) { _ in },
                    protection: present)
                defer { file.close() }
                try AtomicStoreFile(path: temporary, protection: new).create(with: file.read())
                try replace()
            }
        }
        // It protects nothing any more, and the change has succeeded whether or not its key can be removed.
        do {
            try present?.domain.removeFromUserKeyring()
        } catch {
            Logger(label: "quire.store").warning("\(error)")
        }
    }
}
