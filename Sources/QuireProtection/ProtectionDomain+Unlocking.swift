import Foundation
import QuireSystem

extension ProtectionDomain {
    /// Unlocks the domain with a passphrase.
    ///
    /// Ends a ``lock(after:)`` whose time is not over. When it returns, what is open has been told, and works again.
    ///
    /// - Parameter passphrase: It counts as composed Unicode (NFC). Swift cannot wipe the memory of a string.
    /// - Complexity: About half a second and 128 MiB for each slot with a passphrase, not on the caller's executor.
    /// - Throws: ``QuireError`` with code `wrongKey` if it opens no slot, `invalidFormat` if the keybag was damaged,
    ///   `storeReplaced` if another keybag or an older one is in its place, or what reading throws.
    public func unlock(passphrase: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.passphrase(passphrase)) }.get())
    }

    /// Unlocks the domain with a key file.
    ///
    /// - Parameter keyFile: Its path. Whoever can read it has the key: keep it where others cannot. One that others may write
    ///   to is refused.
    /// - Throws: As ``unlock(passphrase:)``; `invalidValue` if it cannot be a key file.
    public func unlock(keyFile: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.keyFile(KeyFile.read(keyFile))) }.get())
    }

    /// Unlocks the domain with a recovery key.
    ///
    /// - Parameter recoveryKey: Its words, in small or capital letters, with anything between them that is no letter.
    /// - Throws: As ``unlock(passphrase:)``; `invalidValue` if there is a typing error in the words.
    public func unlock(recoveryKey: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.recoveryKey(RecoveryKey(words: recoveryKey))) }.get())
    }

    /// Unlocks the domain on the caller's thread. What is open is told, and not waited for.
    package func unlock(_ credential: KeybagCredential) throws {
        let told = try open(credential)
        for domain in told { domain.tellAvailable() }
    }

    /// Unlocks the domain with a master key that its keybag was verified with.
    func unlock(_ masterKey: SecretMemory, of keybag: Keybag) throws {
        let told = try install(masterKey, of: keybag, parent: nil) + unlockChildren()
        for domain in told { domain.tellAvailable() }
    }

    private func finishUnlocking(_ told: [ProtectionDomain]) async {
        for domain in told {
            domain.postAvailable()
            await domain.callRespondersAvailable()
        }
    }

    // MARK: - Opening the keybag

    /// Opens the keybag as it is on disk now.
    ///
    /// - Returns: The domains that were locked, or were about to be, and are not any more: to be told.
    private func open(_ credential: KeybagCredential) throws -> [ProtectionDomain] {
        let keybag = try currentKeybag()
        let masterKey = try keybag.masterKey(credential)
        return try install(masterKey, of: keybag, parent: nil) + unlockChildren()
    }

    /// The keybag that is on disk now, which must be the one that this is the domain of. It is not verified.
    func currentKeybag() throws -> Keybag {
        let (known, file) = state.withLock { ($0.keybag, $0.file) }
        guard let file else { return known }
        // Asked before the file is read: another thread may be writing it.
        let revision = verifiedRevision
        let found = try file.read()
        try check(found, notBefore: revision)
        return found
    }

    /// The revision of the keybag that was verified; 0 if none was.
    var verifiedRevision: UInt64 {
        state.withLock { $0.untilFirstAuthentication.isEmpty ? 0 : $0.keybag.revision }
    }

    /// Throws if a keybag that was read is not this domain's, or older than one that was verified.
    func check(_ found: Keybag, notBefore revision: UInt64) throws {
        guard found.identifier == identifier, found.classKeyDigest == classKeyDigest else {
            throw QuireError(
                .storeReplaced,
                "Another keybag is now at “\(found.path)”; close what is open with the former one, and open it again.",
                subject: .init(file: found.path))
        }
        if found.revision < revision {
            throw QuireError(
                .storeReplaced,
                "An older state of the keybag “\(found.path)” was put in its place, in which a passphrase may open it that no longer should; put the newer one back, or end this program first.",
                subject: .init(file: found.path))
        }
    }

    /// Takes over what a file says: anything as long as nothing is verified, then what is newer and can be verified now.
    func adopt(_ found: Keybag) {
        state.withLock { state in
            if !state.untilFirstAuthentication.isEmpty {
                guard let unlocked = state.unlocked, found.revision > state.keybag.revision,
                    (try? found.verify(unlocked.masterKey)) != nil
                else { return }
            }
            let path = state.keybag.path
            state.keybag = found
            state.keybag.path = path
        }
    }

    /// Puts keys in their place.
    ///
    /// - Parameter parent: The domain that it was unlocked through.
    /// - Returns: This domain if it was locked; if it was about to be, also those that would have been locked with it.
    func install(
        _ masterKey: SecretMemory, of keybag: Keybag, parent: ProtectionDomain?
    ) throws -> [ProtectionDomain] {
        let classKeys = try keybag.unwrapClassKeys(masterKey)
        let (wasLocked, pending, formerParent) = state.withLock { state in
            let before = (state.unlocked == nil, state.pendingLocks, state.parent)
            state.unlocked = UnlockedKeys(masterKey: masterKey, classKeys: classKeys)
            state.keep(keybag, classKeys)
            state.isLockedByItself = false
            state.pendingLocks = [:]
            state.parent = parent
            return before
        }
        for lock in pending.values { lock.finish() }
        var isFreed = false
        if let formerParent, formerParent !== parent {
            // That may be about to be locked, and this one with it.
            isFreed = formerParent.state.withLock { state in
                state.children.removeAll { $0 === self }
                return !state.pendingLocks.isEmpty
            }
        }
        if !pending.isEmpty {
            return [self] + state.withLock { $0.children.objects }.filter(\.isUnlocked)
        }
        return wasLocked || isFreed ? [self] : []
    }
}

extension ProtectionDomain.State {
    /// Takes over a keybag that is verified, unless another thread has changed it since it was read.
    mutating func keep(_ verified: Keybag) {
        if untilFirstAuthentication.isEmpty || keybag.revision <= verified.revision {
            keybag = verified
        }
    }

    /// Takes over a keybag that is verified, and its keys that stay.
    mutating func keep(_ verified: Keybag, _ classKeys: [Keybag.UnwrappedClassKeys]) {
        keep(verified)
        for keys in classKeys {
            untilFirstAuthentication[keys.epoch] = keys.untilFirstAuthentication
        }
    }
}

// MARK: - Through the domain of a person

extension ProtectionDomain {
    /// Unlocks the domain, as far as its class needs, through a domain that it has a slot for, if that is unlocked as far.
    ///
    /// Notifies responders without waiting for them.
    ///
    /// - Parameters:
    ///   - endingOwnLock: Whether a domain that was locked by itself is unlocked, too.
    ///   - fromKeyring: Whether a person's key in the user keyring is used as well.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the keybag was damaged, `storeReplaced` if another keybag or an
    ///   older one is in its place, or what reading throws.
    func unlockThroughParent(endingOwnLock: Bool = false, fromKeyring: Bool = false) throws {
        let told = try openThroughParent(endingOwnLock: endingOwnLock, fromKeyring: fromKeyring)
        for domain in told { domain.tellAvailable() }
    }

    private func openThroughParent(
        endingOwnLock: Bool, fromKeyring: Bool = false
    ) throws -> [ProtectionDomain] {
        let isPossible = state.withLock { state in
            (endingOwnLock || !state.isLockedByItself)
                && state.keybag.slots.contains {
                    if case .domain = $0.content { true } else { false }
                }
        }
        if !isPossible { return [] }
        let keybag = try currentKeybag()
        for slot in keybag.slots {
            guard case .domain(let parent, let wrapped) = slot.content,
                wrapped.file == identifier
            else { continue }
            let inKeyring = fromKeyring ? try Self.inUserKeyring(parent) : nil
            let candidates =
                [inKeyring].compactMap(\.self) + ProtectionDomainRegistry.domains(parent)
            for candidate in candidates where candidate !== self {
                // One that is locked is not unlocked through others in turn: the slots could go round in circles.
                guard
                    let key = try? candidate.classKey(
                        for: wrapped.fileProtection, creating: false, throughParent: false),
                    let masterKey = try? key.unwrap(wrapped)
                else { continue }
                try keybag.verify(masterKey)
                return try install(masterKey, of: keybag, through: candidate)
            }
        }
        return []
    }

    private func install(
        _ masterKey: SecretMemory, of keybag: Keybag, through parent: ProtectionDomain
    ) throws -> [ProtectionDomain] {
        guard parent.isUnlocked else { return try installUntilFirst(masterKey, of: keybag) }
        let told = try install(masterKey, of: keybag, parent: parent)
        let isParentUnlocked = parent.state.withLock { state in
            state.children.removeAll { $0 === self }
            state.children.append(self)
            return state.unlocked != nil
        }
        // It was locked meanwhile, and did not know this one.
        if !isParentUnlocked { removeKeys() }
        return isParentUnlocked ? told : []
    }

    /// The parent is locked, and was unlocked before: so is this one.
    private func installUntilFirst(
        _ masterKey: SecretMemory, of keybag: Keybag
    ) throws -> [ProtectionDomain] {
        let classKeys = try keybag.unwrapClassKeys(masterKey)
        state.withLock {
            $0.keep(keybag, classKeys)
        }
        return []
    }

    /// Unlocks those that were unlocked through this one before.
    private func unlockChildren() -> [ProtectionDomain] {
        let locked = state.withLock { $0.children.objects }.filter { !$0.isUnlocked }
        return locked.flatMap { child in
            // Its next use reports the error.
            (try? child.openThroughParent(endingOwnLock: true)) ?? []
        }
    }
}
