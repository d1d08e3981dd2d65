import Foundation
import QuireSystem

/// A slot that a new keybag is to have.
package struct NewSlot: Sendable {
    package var credential: KeybagCredential
    package var label: String
    package var cost: ScryptCost

    /// - Parameter cost: What trying a passphrase is to cost.
    package init(
        _ credential: KeybagCredential, label: String = "", cost: ScryptCost = .standard
    ) {
        self.credential = credential
        self.label = label
        self.cost = cost
    }
}

extension ProtectionDomain {
    /// Makes a keybag for a new document or store, with one key for a store.
    ///
    /// The domain is unlocked, and not on disk: ``write(to:beneath:)`` does that. One with a parent is locked with it. If the
    /// parent is locked now (`completeUnlessOpen`), it is unlocked as long as something holds it, or until it is locked, or
    /// the parent is unlocked and locked again.
    ///
    /// - Parameters:
    ///   - protection: The class of the files; not `none`.
    ///   - slots: What unlocks it by itself.
    ///   - parent: The domain that unlocks it.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if nothing could ever unlock it, `protectedDataUnavailable`
    ///   if the parent is locked and the class needs its key, `invalidValue` if a credential or label cannot be used.
    package static func makeKeybag(
        protection: FileProtection, slots: [NewSlot], parent: ProtectionDomain?
    ) throws -> ProtectionDomain {
        guard protection != .none, parent != nil || !slots.isEmpty else {
            throw QuireError(
                .protectionUnavailable,
                "Nothing can be protected as “\(protection.rawValue)” here: there is no protection domain, and neither a passphrase nor a key file was given. Set up a domain, or give one of these."
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

    /// Makes a keybag for the same files under another class, with the same slots and class keys and a new key for the store.
    /// The new domain takes this one's place.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if it is locked, or if a slot belongs to a domain that is
    ///   not unlocked in this process.
    package func makeKeybag(protection: FileProtection) throws -> ProtectionDomain {
        precondition(protection != .none, "makeKeybag: the class none has no keys.")
        var (keybag, unlocked, parent) = try state.withLock { state in
            guard let unlocked = state.unlocked else { throw Self.lockedError(state.keybag.path) }
            return (state.keybag, unlocked, state.parent)
        }
        keybag.fileProtection = protection
        keybag.revision += 1
        keybag.storeKeys = []
        for slot in keybag.slots {
            guard case .domain(let identifier, _) = slot.content else { continue }
            let domains = [parent].compactMap(\.self) + ProtectionDomainRegistry.domains(identifier)
            guard let domain = domains.first(where: { $0.identifier == identifier }) else {
                throw Self.lockedError(keybag.path)
            }
            let wrapped = try domain.classKey(for: protection, creating: true)
                .wrap(unlocked.masterKey, file: keybag.identifier)
            keybag.slots.removeAll { $0.identifier == slot.identifier }
            try keybag.addDomainSlot(parent: identifier, wrapped: wrapped, label: slot.label)
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

    static func make(
        _ protection: FileProtection, path: String, slots: [NewSlot], parent: ProtectionDomain?
    ) throws -> ProtectionDomain {
        guard protection != .none else {
            throw QuireError(
                .protectionUnavailable,
                "“\(path)” cannot be made for what is not protected; give another class than “none”.",
                subject: .init(file: path))
        }
        var (keybag, masterKey) = try Keybag.make(path: path, fileProtection: protection)
        if let parent {
            let wrapped = try parent.classKey(for: protection, creating: true)
                .wrap(masterKey, file: keybag.identifier)
            try keybag.addDomainSlot(parent: parent.identifier, wrapped: wrapped, label: "")
        }
        for slot in slots {
            try keybag.addSlot(
                slot.credential, label: slot.label, masterKey: masterKey, cost: slot.cost)
        }
        // As one that was read, with its authentication code.
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

    /// Writes a new keybag where nothing is, durably.
    ///
    /// - Parameter root: The package that it is in, if it is in one; see ``FileLocation``.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is something of that name, `protectedDataUnavailable` if the
    ///   domain is locked.
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

    /// Writes the keybag for a copy of what it belongs to, which has the same keys.
    ///
    /// - Returns: The domain of the copy, in the same state, and locked with this one. To be held until what it belongs to is
    ///   open, or the state is lost.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is something of that name, or what reading and writing throw.
    @discardableResult
    package func writeCopy(
        to path: String, beneath root: String? = nil
    ) throws -> ProtectionDomain {
        guard let original = state.withLock({ $0.file }) else {
            throw QuireError(
                .invalidState,
                "“\(name)” is not on disk yet, so it cannot be copied; write it first.")
        }
        let file = KeybagFile(path: FileSystem.absolute(path), root: root)
        // As it is on disk: without its master key nobody could write it anew.
        let bytes = try original.bytes()
        try file.create(bytes, isPrivate: false)
        let copy = ProtectionDomain(try Keybag(bytes, path: file.path), file: file)
        let state = self.state.withLock { state in
            state.children.append(copy)
            return (state.unlocked, state.untilFirstAuthentication, state.parent)
        }
        copy.state.withLock { copy in
            (copy.unlocked, copy.untilFirstAuthentication, copy.parent) = state
        }
        ProtectionDomainRegistry.add(copy)
        return copy
    }

    /// The domain's file has another path: what it is in was moved.
    package func didMove(to path: String, beneath root: String? = nil) {
        let file = KeybagFile(path: FileSystem.absolute(path), root: root)
        state.withLock {
            $0.file = file
            $0.keybag.path = file.path
        }
    }
}
