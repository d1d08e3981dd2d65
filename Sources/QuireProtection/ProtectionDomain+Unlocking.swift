public import Foundation
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

// MARK: - Slots

// The ways to unlock a domain. Each change reads the keybag as it is on disk, verifies it, and writes it durably before it
// returns. After an error the file is as before.

extension ProtectionDomain {
    /// Adds a passphrase.
    ///
    /// - Parameter label: The person's name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: The slot's identifier.
    /// - Complexity: About half a second, not on the caller's executor.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked, `invalidValue` if the passphrase
    ///   or label cannot be used, `invalidState` if there are eight slots, `storeReplaced` if another keybag or an older one is
    ///   in its place, or what reading and writing throw.
    @discardableResult
    public func addPassphrase(_ passphrase: String, label: String = "") async throws -> UUID {
        try await Self.apart { try self.addSlot(.passphrase(passphrase), label: label) }.get()
    }

    /// Adds a key file.
    ///
    /// - Parameters:
    ///   - path: A file with 16 to 65,536 random bytes. Whoever can read it has the key: keep it where others cannot.
    ///   - label: The person's name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: The slot's identifier.
    /// - Throws: As ``addPassphrase(_:label:)``; `invalidValue` also if others may write to the key file.
    @discardableResult
    public func addKeyFile(_ path: String, label: String = "") throws -> UUID {
        try addSlot(.keyFile(KeyFile.read(path)), label: label)
    }

    /// Adds a recovery key.
    ///
    /// - Parameter label: The person's name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: Its words, to be written on paper. They cannot be had again.
    /// - Throws: As ``addPassphrase(_:label:)``.
    public func addRecoveryKey(label: String = "") throws -> String {
        let key = try RecoveryKey()
        try addSlot(.recoveryKey(key), label: label)
        return key.words
    }

    /// Removes a slot.
    ///
    /// Earlier copies of the keybag can still be opened with it.
    ///
    /// - Throws: As ``addPassphrase(_:label:)``; `notFound` if there is none with the identifier, `invalidState` if it is the
    ///   last.
    public func removeSlot(_ identifier: UUID) throws {
        try change { keybag, _ in try keybag.removeSlot(identifier) }
    }

    /// Puts a passphrase in the place of another. The domain may be locked, and stays so.
    ///
    /// Earlier copies of the keybag can still be opened with the former one.
    ///
    /// - Complexity: About half a second for each slot with a passphrase, and one more, not on the caller's executor.
    /// - Throws: As ``addPassphrase(_:label:)``; `wrongKey` if the former passphrase opens no slot.
    public func changePassphrase(from former: String, to new: String) async throws {
        try await Self.apart { try self.changePassphraseNow(from: former, to: new) }.get()
    }

    /// Adds a slot on the caller's thread.
    @discardableResult
    package func addSlot(
        _ credential: KeybagCredential, label: String = "", cost: ScryptCost = .standard
    ) throws -> UUID {
        try change { keybag, masterKey in
            try keybag.addSlot(credential, label: label, masterKey: masterKey, cost: cost)
        }
    }

    /// The slot that a credential opens.
    ///
    /// - Throws: ``QuireError`` with code `wrongKey` if there is none, or as ``unlock(passphrase:)``.
    package func slot(openedBy credential: KeybagCredential) throws -> Slot? {
        let identifier = try currentKeybag().masterKeyAndSlot(credential).slot
        return slots.first { $0.id == identifier }
    }

    /// Adds the domain of a person, which unlocks this one from then on.
    ///
    /// - Throws: As ``addPassphrase(_:label:)``; `protectedDataUnavailable` also if that domain is locked and the class needs
    ///   its key.
    public func addDomain(_ domain: ProtectionDomain, label: String = "") throws {
        try change { keybag, masterKey in
            try keybag.addSlot(
                of: domain, keybag.fileProtection, label: label, masterKey: masterKey)
        }
    }

    /// Puts a passphrase in the place of another on the caller's thread.
    package func changePassphraseNow(
        from former: String, to new: String, cost: ScryptCost = .standard
    ) throws {
        let (masterKey, slot) = try currentKeybag().masterKeyAndSlot(.passphrase(former))
        try change(masterKey) { keybag, masterKey in
            try keybag.replaceSlot(
                slot, with: .passphrase(new), masterKey: masterKey, cost: cost)
        }
    }

    /// Changes the keybag, and writes it if it is on disk.
    ///
    /// The closure gets the keybag as it is on disk, verified, and the master key.
    ///
    /// - Parameter masterKey: The master key, if the domain need not be unlocked.
    /// - Throws: What the closure throws, and as ``addPassphrase(_:label:)``.
    package func change<Result>(
        _ masterKey: SecretMemory? = nil,
        _ body: (inout Keybag, SecretMemory) throws -> Result
    ) throws -> Result {
        if masterKey == nil, !isUnlocked { try unlockWhenUsed() }
        let (known, file, unlocked) = state.withLock { ($0.keybag, $0.file, $0.unlocked) }
        guard let masterKey = masterKey ?? unlocked?.masterKey else {
            throw Self.lockedError(known.path)
        }
        var keybag = known
        var result: Result?
        func changed(_ found: Keybag) throws -> Data {
            keybag = found
            result = try body(&keybag, masterKey)
            // So many changes there cannot have been.
            guard keybag.revision < .max else { throw found.damageError() }
            keybag.revision += 1
            let bytes = keybag.encoded(masterKey)
            keybag = try Keybag(bytes, path: found.path)
            return bytes
        }
        if let file {
            try file.update { found in
                try check(found, notBefore: verifiedRevision)
                try found.verify(masterKey)
                return try changed(found)
            }
        } else {
            _ = try changed(known)
        }
        state.withLock { $0.keep(keybag) }
        guard let result else { preconditionFailure("Keybag change was not run.") }
        return result
    }
}
