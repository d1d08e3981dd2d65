package import QuireSystem

/// The keybag of a store, or of the document package that contains it, and the keys that seal its files.
///
/// A store is protected if it has a keybag: `Protection.keybag` in its package, or a file with `.keybag` appended to its path
/// for a store outside of packages. All of its files are sealed then; an unsealed file is an error.
package final class StoreProtection: Sendable {
    /// The domain of the keybag.
    package let domain: ProtectionDomain
    /// Wraps and unwraps file keys.
    package let classKey: ClassKey
    /// Seals the pages of a SQLite store.
    package let cipher: PageCipher
    /// The domains of copies, retained so that a copy is unlocked while its original is.
    private let copies = Lock<[ProtectionDomain]>([])

    /// The class.
    package var fileProtection: FileProtection { classKey.fileProtection }

    package init(_ domain: ProtectionDomain) throws {
        self.domain = domain
        let classKey = try domain.classKey()
        self.classKey = classKey
        let keys = Dictionary(
            try domain.storeKeys.map { ($0.number, try classKey.fileKey(for: $0.key)) },
            uniquingKeysWith: { $1 })
        guard let current = keys.keys.max() else {
            throw QuireError(
                .invalidFormat,
                "The keybag “\(domain.path ?? "")” does not contain a key for the store; restore it from a backup.",
                file: domain.path)
        }
        cipher = PageCipher(keys: keys, current: current)
    }

    // MARK: - Keybags

    /// The size of the pages of sealed databases.
    package static let pageSize = PageCipher.pageSize

    /// The name of the keybag in a document package.
    package static let keybagName = "Protection.keybag"

    /// The path of a store's keybag, and the package that contains it.
    package static func keybag(ofStoreAt path: String) -> (path: String, root: String?) {
        let path = StorePath.resolvingLink(path)
        guard let root = StorePath.packageRoot(of: path) else { return (path + ".keybag", nil) }
        return (FileSystem.path(root, keybagName), root)
    }

    /// The domain of a store that is protected; `nil` if it is not. No key is needed. A change of its protection that was interrupted
    /// is finished first.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if the keybag cannot be read, or errors of
    ///   ``ProtectionChange/finish(ofStoreAt:)``.
    package static func domain(ofStoreAt path: String) throws -> ProtectionDomain? {
        if StorePath.isInMemory(FileSystem.absolute(path)) { return nil }
        let keybag = keybag(ofStoreAt: path)
        if keybag.root == nil { try ProtectionChange.finish(ofStoreAt: path) }
        guard try FileSystem.hasEntry(at: keybag.path, beneath: keybag.root) else { return nil }
        return try ProtectionDomain.domain(of: keybag.path, beneath: keybag.root)
    }

    /// The protection of an existing store; `nil` if it has none.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if its domain is locked, `invalidFormat` if the keybag
    ///   cannot be read.
    package static func find(forStoreAt path: String) throws -> StoreProtection? {
        guard let domain = try Self.domain(ofStoreAt: path) else { return nil }
        do { return try StoreProtection(domain) } catch let error as QuireError
            where error.code == .protectedDataUnavailable
        {
            let place = StorePath.packageRoot(of: FileSystem.absolute(path)) ?? path
            throw lockedError(place, domain, underlying: error)
        }
    }

    /// The error of a document or store whose domain is locked.
    package static func lockedError(
        _ path: String, _ domain: ProtectionDomain, underlying: (any Error)? = nil
    ) -> QuireError {
        QuireError(
            .protectedDataUnavailable,
            "“\(path)” is protected (\(domain.protection.rawValue)) and locked; unlock it, and try again.",
            file: path, underlying: underlying)
    }

    /// Creates a store with the keybag of its package, or with a new one, which is removed if creating the store fails.
    ///
    /// - Parameters:
    ///   - asked: The requested class; `nil` for that of the process's domain, or none without one.
    ///   - domain: The domain that unlocks it; `nil` for the process's.
    ///   - slots: Further slots of a new keybag.
    ///   - body: Creates the store; its argument is `nil` for an unprotected one.
    /// - Throws: Errors of the closure, or ``QuireError`` with code `protectionUnavailable` if it cannot be protected,
    ///   `protectedDataUnavailable` if the domain is locked and the class requires its key, or errors of writing.
    package static func making<Store>(
        forStoreAt path: String, _ asked: FileProtection?, domain: ProtectionDomain?,
        slots: [NewSlot], _ body: (StoreProtection?) throws -> Store
    ) throws -> Store {
        if StorePath.isInMemory(path) {
            guard let asked, asked != .none else { return try body(nil) }
            throw QuireError(
                .protectionUnavailable,
                "An in-memory store cannot be protected as “\(asked.rawValue)”: it has no files. Specify “none”.",
                file: path)
        }
        if let found = try existing(forStoreAt: path, asked, slots) { return try body(found) }
        let made: StoreProtection?
        do {
            made = try make(forStoreAt: path, asked, domain: domain, slots: slots)
        } catch let error as QuireError where error.code == .alreadyExists {
            // Another process, which creates the same store, has written the keybag.
            guard let found = try existing(forStoreAt: path, asked, slots) else { throw error }
            return try body(found)
        }
        guard let made else { return try body(nil) }
        do { return try body(made) } catch {
            // Another process may have created the store with this keybag.
            if !FileSystem.exists(path) { try? removeKeybag(ofStoreAt: path) }
            throw error
        }
    }

    /// The protection by a keybag that is there before its store: of a package, or of a store that another process is creating,
    /// or was killed while it did. It is unlocked with the slots of a new one.
    private static func existing(
        forStoreAt path: String, _ asked: FileProtection?, _ slots: [NewSlot]
    ) throws -> StoreProtection? {
        let domain = try Self.domain(ofStoreAt: path)
        for slot in slots where domain?.isUnlocked == false {
            try? domain?.unlock(slot.credential)
        }
        // The domain is unlocked only while it is retained.
        guard let present = try withExtendedLifetime(domain, { try find(forStoreAt: path) }) else {
            return nil
        }
        try require(asked, of: present, path)
        return present
    }

    /// Removes the keybag of a store that was removed. Sealed files cannot be read without it.
    package static func removeKeybag(ofStoreAt path: String) throws {
        let keybag = keybag(ofStoreAt: path)
        try FileSystem.removeFileIfPresent(keybag.path, beneath: keybag.root)
    }

    /// Writes a new keybag; `nil` if the class is `none`.
    private static func make(
        forStoreAt path: String, _ asked: FileProtection?, domain: ProtectionDomain?,
        slots: [NewSlot]
    ) throws -> StoreProtection? {
        let parent = domain ?? ProtectionDomain.default
        let chosen =
            asked ?? (parent == nil && slots.isEmpty ? .none : parent?.protection ?? .complete)
        if chosen == .none { return nil }
        let made = try ProtectionDomain.makeKeybag(
            protection: chosen, slots: slots, parent: parent)
        let protection = try StoreProtection(made)
        let keybag = keybag(ofStoreAt: path)
        try made.write(to: keybag.path, beneath: keybag.root)
        return protection
    }

    /// Writes the keybag for a copy of the store, whose files are sealed with the same keys, unless it exists.
    ///
    /// - Returns: Whether it was written.
    /// - Throws: ``QuireError`` with code `alreadyExists` if another keybag exists there, or errors of writing.
    @discardableResult
    package func writeKeybag(forStoreAt path: String) throws -> Bool {
        let keybag = Self.keybag(ofStoreAt: path)
        if try FileSystem.hasEntry(at: keybag.path, beneath: keybag.root),
            try ProtectionDomain.domain(of: keybag.path, beneath: keybag.root).identifier
                == domain.identifier
        {
            return false
        }
        let copy = try domain.writeCopy(to: keybag.path, beneath: keybag.root)
        copies.withLock { $0.append(copy) }
        return true
    }

    // MARK: - Checks

    /// Whether these keys open all files sealed with other ones, so that the files can be copied unchanged; `nil` is the
    /// absence of protection.
    package static func hasKeys(_ keys: StoreProtection?, of other: StoreProtection?) -> Bool {
        guard let keys, let other else { return keys == nil && other == nil }
        return other === keys
            || (other.domain.hasSameClassKeys(as: keys.domain)
                && Set(other.domain.storeKeys).isSubset(of: keys.domain.storeKeys))
    }

    /// Checks, without a key, that a database has the form of sealed pages.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, or errors of reading.
    package static func checkIsSealed(_ path: String) throws {
        let file = try OpenFile.open(path, beneath: StorePath.packageRoot(of: path), for: .reading)
        defer { file.close() }
        let size = try file.information().size
        let start = try file.read(min(Int(clamping: size), 16), at: 0)
        if size > 0, size % Int64(PageCipher.pageSize) == 0,
            start != Array("SQLite format 3\0".utf8)
        {
            return
        }
        throw QuireError(
            .invalidFormat,
            "“\(path)” is damaged, or is not encrypted although it has a keybag; restore it from a backup.",
            file: path)
    }

    /// Checks, without a key, that an unprotected store does not have the form of a sealed database, whose keybag is missing.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, or errors of reading.
    package static func checkIsNotSealed(_ path: String) throws {
        guard FileSystem.exists(path, beneath: StorePath.packageRoot(of: path)),
            (try? checkIsSealed(path)) != nil
        else { return }
        throw missingKeybagError(path)
    }

    /// The error of a file that would be a protected database if it had a keybag.
    package static func missingKeybagError(_ path: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(path)” is not a SQLite database, or it is protected and its keybag “\(keybag(ofStoreAt: path).path)” is missing.",
            file: path)
    }

    /// Checks that a store has the requested protection.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable`: nothing is read or written with less protection than
    ///   requested.
    package static func require(
        _ asked: FileProtection?, of protection: StoreProtection?, _ path: String
    ) throws {
        let present = protection?.fileProtection ?? .none
        guard let asked, asked != .none, asked != present else { return }
        throw QuireError(
            .protectionUnavailable,
            "The protection of “\(path)” is “\(present.rawValue)”, not “\(asked.rawValue)”; change its protection first, or specify “\(present.rawValue)”.",
            file: path)
    }

    /// Whether the keys are available: not for class `complete` while its domain is locked.
    package var isAvailable: Bool { cipher.isAvailable }

    /// The error of replacing a store by one with another keybag.
    package static func otherKeysError(_ path: String) -> QuireError {
        QuireError(
            .protectionUnavailable,
            "“\(path)” cannot be replaced by a store with different keys; destroy it first, or copy the other store elsewhere.",
            file: path)
    }

    /// Checks that the keys are available.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable`.
    package func checkAvailable(_ path: String) throws {
        if isAvailable { return }
        throw QuireError(
            .protectedDataUnavailable,
            "“\(path)” cannot be read or written because its protection domain is locked; unlock it and try again.",
            file: path)
    }
}
