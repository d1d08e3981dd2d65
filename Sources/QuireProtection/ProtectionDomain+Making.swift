import Foundation
import QuireSystem

/// A slot for a new keybag.
package struct NewSlot: Sendable {
    package var credential: KeybagCredential
    package var label: String
    package var cost: ScryptCost

    /// - Parameter cost: The cost parameters for passphrases.
    package init(
        _ credential: KeybagCredential, label: String = "", cost: ScryptCost = .standard
    ) {
        self.credential = credential
        self.label = label
        self.cost = cost
    }
}

extension ProtectionDomain {
    /// Makes a keybag for a new document or store, with one store key.
    ///
    /// The domain is unlocked, and not on disk: ``write(to:beneath:)`` writes it. With a parent it is locked with the parent.
    /// If the parent is locked now (`completeUnlessOpen`), it stays unlocked while it is retained, until it is locked, or the
    /// parent is unlocked and locked again.
    ///
    /// - Parameters:
    ///   - protection: The class of the files; not `none`.
    ///   - slots: The credentials that unlock it directly.
    ///   - parent: The domain that unlocks it.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if there is neither slot nor parent,
    ///   `protectedDataUnavailable` if the parent is locked and the class requires its key, `invalidValue` if a credential or
    ///   label is not valid.
    package static func makeKeybag(
        protection: FileProtection, slots: [NewSlot], parent: ProtectionDomain?
    ) throws -> ProtectionDomain {
        guard protection != .none, parent != nil || !slots.isEmpty else {
            throw QuireError(
                .protectionUnavailable,
                "Cannot protect anything as “\(protection.rawValue)”: no protection domain is set up, and neither a passphrase nor a key file was specified. Set up a domain, or specify one of these."
            )
        }
        let domain = try make(
            protection, path: "the new keybag", slots: slots, parent: parent)
        let storeKey = try domain.classKey(creating: true).makeFileKey().wrapped
        try domain.change { keybag, _ in
            keybag.storeKeys = [.init(number: 1, key: storeKey)]
        }
        return domain
    }

    /// Makes a keybag for the same files under another class, with the same slots and class keys and a new store key. The new
    /// domain replaces this one.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if it is locked, or if a slot belongs to a domain that
    ///   is not unlocked in this process.
    package func makeKeybag(protection: FileProtection) throws -> ProtectionDomain {
        precondition(protection != .none, "makeKeybag: the class none has no keys.")
        var (keybag, unlocked, parent) = try state.withLock { state in
            guard let unlocked = state.unlocked else { throw Self.lockedError(state.keybag.path) }
            return (state.keybag, unlocked, state.parent)
        }
        keybag.fileProtection = protection
        keybag.revision += 1
        keybag.storeKeys = []
        for (slot, domain) in try slotDomains(of: keybag, parent) {
            keybag.slots.removeAll { $0.identifier == slot.identifier }
            try keybag.addSlot(
                of: domain, protection, label: slot.label, masterKey: unlocked.masterKey)
        }
        keybag = try Keybag(keybag.encoded(unlocked.masterKey), path: keybag.path)
        let changed = ProtectionDomain(keybag, file: nil)
        changed.state.withLock {
            $0.unlocked = unlocked
            $0.keep(keybag, unlocked.classKeys)
            $0.parent = parent
        }
        parent?.state.withLock { $0.children.append(changed) }
        let storeKey = try changed.classKey(creating: true).makeFileKey().wrapped
        try changed.change { keybag, _ in
            keybag.storeKeys = [.init(number: 1, key: storeKey)]
        }
        return changed
    }

    /// Makes a keybag for the same files with new keys, the master key included, and new slots. Slots of domains stay.
    ///
    /// - Parameter slots: The credentials that unlock it directly.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if it would have no slots, `protectedDataUnavailable` if a
    ///   slot belongs to a domain that is not unlocked in this process, `invalidState` if there are too many slots.
    package func makeRotatedKeybag(slots: [NewSlot]) throws -> ProtectionDomain {
        let (keybag, parent) = state.withLock { ($0.keybag, $0.parent) }
        let domains = try slotDomains(of: keybag, parent)
        let made = try Self.makeKeybag(
            protection: keybag.fileProtection, slots: slots, parent: domains.first?.domain)
        try made.change { changed, masterKey in
            for (slot, domain) in domains.dropFirst() {
                try changed.addSlot(
                    of: domain, keybag.fileProtection, label: slot.label, masterKey: masterKey)
            }
        }
        return made
    }

    /// The slots of domains, and the given ones.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if a domain is not available in this process.
    private func slotDomains(
        of keybag: Keybag, _ parent: ProtectionDomain?
    ) throws -> [(slot: KeybagSlot, domain: ProtectionDomain)] {
        try keybag.slots.compactMap { slot in
            guard case .domain(let identifier, _) = slot.content else { return nil }
            let domains = [parent].compactMap(\.self) + ProtectionDomainRegistry.domains(identifier)
            guard let domain = domains.first(where: { $0.identifier == identifier }) else {
                throw Self.lockedError(keybag.path)
            }
            return (slot, domain)
        }
    }

    /// Overwrites a keybag, so that data sealed with its keys can never be read again. The file is no valid keybag
    /// afterwards.
    ///
    /// - Throws: Errors of writing.
    package static func eraseKeybag(at path: String, beneath root: String?) throws {
        let file = try OpenFile.open(path, beneath: root, for: .updating)
        defer { file.close() }
        let size = min(Int(clamping: try file.information().size), Keybag.maximumSize)
        try file.write([UInt8](repeating: 0, count: size), at: 0)
        try file.synchronize()
    }

    static func make(
        _ protection: FileProtection, path: String, slots: [NewSlot], parent: ProtectionDomain?
    ) throws -> ProtectionDomain {
        guard protection != .none else {
            throw QuireError(
                .protectionUnavailable,
                "“\(path)” cannot be created without protection; specify a class other than “none”.",
                file: path)
        }
        var (keybag, masterKey) = try Keybag.make(path: path, fileProtection: protection)
        if let parent {
            try keybag.addSlot(of: parent, protection, label: "", masterKey: masterKey)
        }
        for slot in slots {
            try keybag.addSlot(
                slot.credential, label: slot.label, masterKey: masterKey, cost: slot.cost)
        }
        // In parsed form, with its authentication code.
        keybag = try Keybag(keybag.encoded(masterKey), path: path)
        let domain = ProtectionDomain(keybag, file: nil)
        let classKeys = try keybag.unwrapClassKeys(masterKey)
        domain.state.withLock {
            $0.unlocked = UnlockedKeys(masterKey: masterKey, classKeys: classKeys)
            $0.keep(keybag, classKeys)
            $0.parent = parent
        }
        parent?.state.withLock { $0.children.append(domain) }
        return domain
    }

    /// Durably writes a new keybag to a new file.
    ///
    /// - Parameter root: The package that contains it, if any; see ``FileLocation``.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken, `protectedDataUnavailable` if the domain is
    ///   locked.
    package func write(to path: String, beneath root: String? = nil) throws {
        try write(to: path, beneath: root, isPrivate: false)
    }

    func write(to path: String, beneath root: String? = nil, isPrivate: Bool) throws {
        let file = KeybagFile(path: FileSystem.absolute(path), root: root)
        let (keybag, masterKey) = try state.withLock { state in
            guard let unlocked = state.unlocked else { throw Self.lockedError(state.keybag.path) }
            return (state.keybag, unlocked.masterKey)
        }
        let bytes = keybag.encoded(masterKey)
        let written = try Keybag(bytes, path: file.path)
        try file.create(bytes, isPrivate: isPrivate)
        state.withLock {
            $0.keybag = written
            $0.file = file
        }
        ProtectionDomainRegistry.add(self)
    }

    /// Writes the keybag for a copy of its document or store, which has the same keys.
    ///
    /// - Returns: The domain of the copy, in the same state, and locked by what locks this one. Retain it until the copy is open, or
    ///   the state is lost.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken, or errors of reading and writing.
    @discardableResult
    package func writeCopy(
        to path: String, beneath root: String? = nil
    ) throws -> ProtectionDomain {
        guard let original = state.withLock({ $0.file }) else {
            throw QuireError(
                .invalidState,
                "“\(name)” has not been written to disk, so it cannot be copied; write it first.")
        }
        let file = KeybagFile(path: FileSystem.absolute(path), root: root)
        let bytes = keybag(in: original).bytes
        try file.create(bytes, isPrivate: false)
        try FileSystem.copyPermissions(of: original.path, beneath: original.root, to: file.path)
        let copy = ProtectionDomain(try Keybag(bytes, path: file.path), file: file)
        // Unlocked by the person of this one, or by this one itself: and locked with it.
        let parent = state.withLock { $0.parent } ?? self
        parent.state.withLock { $0.children.append(copy) }
        let state = self.state.withLock { ($0.unlocked, $0.untilFirstAuthentication) }
        copy.state.withLock { copy in
            (copy.unlocked, copy.untilFirstAuthentication) = state
            copy.parent = parent
        }
        ProtectionDomainRegistry.add(copy)
        return copy
    }

    /// The keybag on disk. If that was deleted, damaged or replaced, the one in memory: its document may be open, and be
    /// saved to another path.
    private func keybag(in file: KeybagFile) -> Keybag {
        let known = state.withLock { $0.keybag }
        guard let found = try? file.read(), found.identifier == identifier,
            found.classKeyDigest == classKeyDigest, found.revision >= known.revision
        else { return known }
        return found
    }

    /// Updates the path of the keybag's file after its document or store was moved.
    package func didMove(to path: String, beneath root: String? = nil) {
        let file = KeybagFile(path: FileSystem.absolute(path), root: root)
        state.withLock {
            $0.file = file
            $0.keybag.path = file.path
        }
    }
}

extension Keybag {
    /// Adds a slot for the domain of a person.
    mutating func addSlot(
        of domain: ProtectionDomain, _ protection: FileProtection, label: String,
        masterKey: SecretMemory
    ) throws {
        let wrapped = try domain.classKey(for: protection, creating: true)
            .wrap(masterKey, file: identifier)
        try addDomainSlot(parent: domain.identifier, wrapped: wrapped, label: label)
    }
}
