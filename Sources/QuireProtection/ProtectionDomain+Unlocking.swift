public import Foundation
import QuireSystem

extension ProtectionDomain {
    /// Unlocks the domain with a passphrase.
    ///
    /// Cancels a pending ``lock(after:)``. When it returns, observers have been notified, and open documents work again.
    ///
    /// - Parameter passphrase: It is normalized to composed Unicode (NFC). Swift cannot wipe the memory of a string.
    /// - Complexity: About half a second and 128 MiB for each passphrase slot, not on the caller's executor.
    /// - Throws: ``QuireError`` with code `wrongKey` if the passphrase does not unlock any slot, `invalidFormat` if the keybag is
    ///   damaged, `storeReplaced` if the file contains another keybag or an older one, or errors of reading.
    public func unlock(passphrase: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.passphrase(passphrase)) }.get())
    }

    /// Unlocks the domain with a key file.
    ///
    /// - Parameter keyFile: Its path. Read access to it is access to the key: keep it private. A key file that other users may
    ///   write to is rejected.
    /// - Throws: As ``unlock(passphrase:)``; `invalidValue` if it is not a valid key file.
    public func unlock(keyFile: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.keyFile(KeyFile.read(keyFile))) }.get())
    }

    /// Unlocks the domain with a recovery key.
    ///
    /// - Parameter recoveryKey: Its words, in any case, with any separators that are not letters.
    /// - Throws: As ``unlock(passphrase:)``; `invalidValue` if the checksum detects a typing error.
    public func unlock(recoveryKey: String) async throws {
        try await finishUnlocking(
            Self.apart { try self.open(.recoveryKey(RecoveryKey(words: recoveryKey))) }.get())
    }

    /// Unlocks the domain on the caller's thread. Notifies observers without waiting for them.
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

    /// Opens the current keybag on disk.
    ///
    /// - Returns: The domains that were locked, or about to be, and no longer are: to be notified.
    private func open(_ credential: KeybagCredential) throws -> [ProtectionDomain] {
        let keybag = try currentKeybag()
        let masterKey = try keybag.masterKey(credential)
        return try install(masterKey, of: keybag, parent: nil) + unlockChildren()
    }

    /// The current keybag on disk, which must be that of this domain. It is not verified.
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

    /// Throws if a keybag that was read is not this domain's, or older than the verified one.
    func check(_ found: Keybag, notBefore revision: UInt64) throws {
        guard found.identifier == identifier, found.classKeyDigest == classKeyDigest else {
            throw QuireError(
                .storeReplaced,
                "“\(found.path)” is now a different keybag; close and reopen everything that was opened with the former one.",
                file: found.path)
        }
        if found.revision < revision {
            throw QuireError(
                .storeReplaced,
                "The keybag “\(found.path)” was replaced with an older state, which a removed passphrase may still open. Restore the newer one; to use the older one, quit this program first.",
                file: found.path)
        }
    }

    /// Adopts a keybag from a file: any while none has been verified, afterwards only a newer one that can be verified now.
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

    /// Installs the keys.
    ///
    /// - Parameter parent: The domain that it was unlocked through.
    /// - Returns: This domain if it was locked; if a lock was pending, also the domains that would have been locked with it.
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
            // The former parent may have a pending lock, which covers this domain.
            isFreed = formerParent.state.withLock { state in
                state.children.remove(self)
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
    /// Adopts a verified keybag, unless another thread has changed it since it was read.
    mutating func keep(_ verified: Keybag) {
        if untilFirstAuthentication.isEmpty || keybag.revision <= verified.revision {
            keybag = verified
        }
    }

    /// Adopts a verified keybag, and its keys that outlast locking.
    mutating func keep(_ verified: Keybag, _ classKeys: [Keybag.UnwrappedClassKeys]) {
        keep(verified)
        for keys in classKeys {
            untilFirstAuthentication[keys.epoch] = keys.untilFirstAuthentication
        }
    }
}

// MARK: - Through the domain of a person

extension ProtectionDomain {
    /// Unlocks the domain, as far as its class requires, through a domain that it has a slot for, if that is unlocked as far.
    ///
    /// Notifies responders without waiting for them.
    ///
    /// - Parameters:
    ///   - endingOwnLock: Whether a domain that was locked individually is unlocked, too.
    ///   - fromKeyring: Whether a person's key in the user keyring is used as well.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the keybag is damaged, `storeReplaced` if the file has another
    ///   keybag or an older one, or errors of reading.
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
                // A locked candidate is not unlocked through further domains: the slots could form a cycle.
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
            state.children.remove(self)
            state.children.append(self)
            return state.unlocked != nil
        }
        // The parent was locked before this domain became its child.
        if !isParentUnlocked { removeKeys() }
        return isParentUnlocked ? told : []
    }

    /// The parent is locked, after having been unlocked: so is this one.
    private func installUntilFirst(
        _ masterKey: SecretMemory, of keybag: Keybag
    ) throws -> [ProtectionDomain] {
        let classKeys = try keybag.unwrapClassKeys(masterKey)
        state.withLock {
            $0.keep(keybag, classKeys)
        }
        return []
    }

    /// Unlocks the domains that were unlocked through this one before.
    private func unlockChildren() -> [ProtectionDomain] {
        let locked = state.withLock { $0.children.objects }.filter { !$0.isUnlocked }
        return locked.flatMap { child in
            // Its next use reports the error.
            (try? child.openThroughParent(endingOwnLock: true)) ?? []
        }
    }
}

// MARK: - Slots

// The slots of a domain. Each change reads the keybag on disk, verifies it, and writes it durably before it returns. After an
// error the file is unchanged.

extension ProtectionDomain {
    /// Adds a passphrase.
    ///
    /// - Parameter label: A name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: The slot's identifier.
    /// - Complexity: About half a second, not on the caller's executor.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked, `invalidValue` if the passphrase or
    ///   label is not valid, `invalidState` if it already has eight slots, `storeReplaced` if the file contains another keybag or
    ///   an older one, or errors of reading and writing.
    @discardableResult
    public func addPassphrase(_ passphrase: String, label: String = "") async throws -> UUID {
        try await Self.apart { try self.addSlot(.passphrase(passphrase), label: label) }.get()
    }

    /// Adds a key file.
    ///
    /// - Parameters:
    ///   - path: A file with 16 to 65,536 random bytes. Read access to it is access to the key: keep it private.
    ///   - label: A name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: The slot's identifier.
    /// - Throws: As ``addPassphrase(_:label:)``; `invalidValue` also if other users may write to the key file.
    @discardableResult
    public func addKeyFile(_ path: String, label: String = "") throws -> UUID {
        try addSlot(.keyFile(KeyFile.read(path)), label: label)
    }

    /// Adds a recovery key.
    ///
    /// - Parameter label: A name for it, at most 64 bytes. It can be read without a key.
    /// - Returns: Its words, to be written on paper. They cannot be retrieved again.
    /// - Throws: As ``addPassphrase(_:label:)``.
    public func addRecoveryKey(label: String = "") throws -> String {
        let key = try RecoveryKey()
        try addSlot(.recoveryKey(key), label: label)
        return key.words
    }

    /// Removes a slot.
    ///
    /// Earlier copies of the keybag can still be unlocked with it.
    ///
    /// - Throws: As ``addPassphrase(_:label:)``; `notFound` if no slot has the identifier, `invalidState` if it is the last.
    public func removeSlot(_ identifier: UUID) throws {
        try change { keybag, _ in try keybag.removeSlot(identifier) }
    }

    /// Replaces a passphrase. The domain may be locked, and stays locked.
    ///
    /// Earlier copies of the keybag can still be unlocked with the former one.
    ///
    /// - Complexity: About half a second for each slot with a passphrase, and one more, not on the caller's executor.
    /// - Throws: As ``addPassphrase(_:label:)``; `wrongKey` if the former passphrase does not unlock any slot.
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

    /// The slot that a credential unlocks.
    ///
    /// - Throws: ``QuireError`` with code `wrongKey` if there is none, or as ``unlock(passphrase:)``.
    package func slot(openedBy credential: KeybagCredential) throws -> Slot? {
        let identifier = try currentKeybag().masterKeyAndSlot(credential).slot
        return slots.first { $0.id == identifier }
    }

    /// Adds a slot for a person's domain, which unlocks this one from then on.
    ///
    /// - Throws: As ``addPassphrase(_:label:)``; `protectedDataUnavailable` also if that domain is locked and the class
    ///   requires its key.
    public func addDomain(_ domain: ProtectionDomain, label: String = "") throws {
        try change { keybag, masterKey in
            try keybag.addSlot(
                of: domain, keybag.fileProtection, label: label, masterKey: masterKey)
        }
    }

    /// Replaces a passphrase on the caller's thread.
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
    /// The closure gets the verified keybag on disk, and the master key.
    ///
    /// - Parameter masterKey: The master key, if the domain need not be unlocked.
    /// - Throws: Errors of the closure, and as ``addPassphrase(_:label:)``.
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
            // The revision cannot legitimately be that high.
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
