public import Foundation
import QuireSystem

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
