import Crypto
package import Foundation
import QuireSystem

/// The keys of a person or of a document, as stored in a file.
///
/// A random **master key** (MK) is wrapped once for each **slot**: a passphrase, a key file, a recovery key, or the keybag of
/// a person. MK wraps the **class keys**; a class key wraps the keys of the files of its class. `EncryptionFormat.md`
/// specifies the format.
///
/// Invariants:
/// - A keybag is a value without a file. Only ``path``, used in errors, records its origin.
/// - Nothing in it is trusted before ``verify(_:)`` has checked its authentication code under the master key, except what
///   verification requires: the identifier, the class and the slots; and the public key for new files of the class
///   `completeUnlessOpen`, for which no secret is available then.
/// - The master key is never in it. Changing it requires the master key, and encodes it anew.
/// - A parsed keybag encodes to the bytes that it was parsed from: the encoding is canonical.
package struct Keybag: Sendable {
    /// The greatest number of slots.
    package static let maximumSlotCount = 8
    static let maximumClassKeyCount = 4
    static let maximumStoreKeyCount = 4

    /// The class keys of one epoch.
    package struct ClassKeys: Hashable, Sendable {
        /// The number of the epoch, from 1.
        var epoch: UInt32
        /// The key of `complete`, wrapped.
        var complete: Data
        /// The key of `completeUntilFirstUserAuthentication`, wrapped.
        var untilFirstAuthentication: Data
        /// The public key of `completeUnlessOpen`.
        var publicKey: Data
        /// The private key of `completeUnlessOpen`, wrapped.
        var privateKey: Data
    }

    /// The key of the keybag's SQLite store.
    package struct StoreKey: Hashable, Sendable {
        /// Its number, which is in each page of the store that is sealed with it.
        package var number: UInt32
        /// The key.
        package var key: WrappedFileKey
    }

    /// The path of the keybag, for errors.
    package var path: String
    /// The keybag's identifier.
    package let identifier: UUID
    /// The revision, incremented by each change.
    package var revision: UInt64 = 1
    /// The class of the files; never `none`.
    package var fileProtection: FileProtection
    /// The class keys, the latest last.
    package internal(set) var classKeys: [ClassKeys]
    /// The ways to the master key.
    package internal(set) var slots: [KeybagSlot] = []
    /// The keys of the store; the latest last.
    package var storeKeys: [StoreKey] = []
    /// The state of an unfinished change.
    package var changeInProgress = Data()
    /// The authentication code that was read.
    var authenticationCode = Data()

    /// Makes a keybag with new keys, without slots.
    ///
    /// - Parameter fileProtection: The class of the files; not `none`.
    package static func make(
        path: String, fileProtection: FileProtection
    ) throws -> (keybag: Keybag, masterKey: SecretMemory) {
        precondition(fileProtection != .none, "Keybag.make: the class none has no keys.")
        let identifier = UUID()
        let masterKey = try SecretMemory(randomCount: 32)
        let key = classKeyKey(masterKey, identifier)
        let privateKey = try SecretMemory(randomCount: 32)
        let publicKey = try wipingTraces {
            try privateKey.withUnsafeBytes {
                try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: $0)
            }.publicKey.rawRepresentation
        }
        let classKeys = ClassKeys(
            epoch: 1,
            complete: try KeyWrapping.wrap(SecretMemory(randomCount: 32), by: key),
            untilFirstAuthentication: try KeyWrapping.wrap(
                SecretMemory(randomCount: 32), by: key),
            publicKey: publicKey, privateKey: try KeyWrapping.wrap(privateKey, by: key))
        let keybag = Keybag(
            path: path, identifier: identifier, fileProtection: fileProtection,
            classKeys: [classKeys])
        return (keybag, masterKey)
    }

    private static func classKeyKey(
        _ masterKey: SecretMemory, _ identifier: UUID
    ) -> SymmetricKey {
        KeyWrapping.derive(
            from: masterKey, salt: identifier.data, info: "Quire class keys 1")
    }
}

// MARK: - Opening

extension Keybag {
    /// The class keys of one epoch, unwrapped.
    package struct UnwrappedClassKeys: Sendable {
        let epoch: UInt32
        let complete: SecretMemory
        let untilFirstAuthentication: SecretMemory
        let publicKey: Data
        let privateKey: SecretMemory
    }

    /// The master key, from the first slot that a credential unlocks. The keybag is verified.
    ///
    /// A passphrase is tried in every passphrase slot, at the cost of the slot's parameters each.
    ///
    /// - Throws: ``QuireError`` with code `wrongKey` if no slot is unlocked, or errors of ``verify(_:)``.
    package func masterKey(_ credential: KeybagCredential) throws -> SecretMemory {
        try masterKeyAndSlot(credential).masterKey
    }

    /// The master key, and the identifier of the slot that has it; see ``masterKey(_:)``.
    func masterKeyAndSlot(
        _ credential: KeybagCredential
    ) throws -> (masterKey: SecretMemory, slot: UUID) {
        for slot in slots {
            if let masterKey = try slot.masterKey(credential, path: path) {
                try verify(masterKey)
                return (masterKey, slot.identifier)
            }
        }
        throw QuireError.wrongKey(credential.name, path: path)
    }

    /// Compares the authentication code with that of the content.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if they differ.
    package func verify(_ masterKey: SecretMemory) throws {
        let isRight = wipingTraces {
            HMAC<SHA256>.isValidAuthenticationCode(
                authenticationCode, authenticating: encodedContent,
                using: authenticationKey(masterKey))
        }
        if !isRight { throw damageError() }
    }

    /// The class keys, unwrapped, the latest last. The keybag must be verified.
    package func unwrapClassKeys(_ masterKey: SecretMemory) throws -> [UnwrappedClassKeys] {
        let key = Self.classKeyKey(masterKey, identifier)
        return try classKeys.map { keys in
            guard let complete = try KeyWrapping.unwrap(keys.complete, by: key),
                let untilFirst = try KeyWrapping.unwrap(keys.untilFirstAuthentication, by: key),
                let privateKey = try KeyWrapping.unwrap(keys.privateKey, by: key)
            else { throw damageError() }
            return UnwrappedClassKeys(
                epoch: keys.epoch, complete: complete, untilFirstAuthentication: untilFirst,
                publicKey: keys.publicKey, privateKey: privateKey)
        }
    }

    func damageError() -> QuireError {
        QuireError(
            .invalidFormat,
            "The keybag “\(path)” is damaged, or was changed without a key; restore it from a backup.",
            file: path)
    }

    private func authenticationKey(_ masterKey: SecretMemory) -> SymmetricKey {
        KeyWrapping.derive(
            from: masterKey, salt: identifier.data, info: "Quire keybag authentication 1")
    }
}

// MARK: - Changing

extension Keybag {
    /// Adds a slot.
    ///
    /// - Returns: The slot's identifier.
    /// - Throws: ``QuireError`` with code `invalidValue` if the credential or label is not valid, `invalidState` if there are
    ///   eight slots, or trying a passphrase in all of them would take too long.
    @discardableResult
    package mutating func addSlot(
        _ credential: KeybagCredential, label: String, masterKey: SecretMemory,
        cost: ScryptCost = .standard, created: Date = Date()
    ) throws -> UUID {
        try checkFreeSlot()
        try checkCost(of: credential, cost, besides: slots)
        let slot = try KeybagSlot(
            credential, wrapping: masterKey, label: label, created: created, cost: cost)
        slots.append(slot)
        return slot.identifier
    }

    /// Adds a slot for the keybag of a person.
    ///
    /// - Parameter wrapped: The master key, wrapped by a class key of that keybag for the file ``identifier``.
    mutating func addDomainSlot(
        parent: UUID, wrapped: WrappedFileKey, label: String, created: Date = Date()
    ) throws {
        try checkFreeSlot()
        slots.append(
            try KeybagSlot(parent: parent, wrapped: wrapped, label: label, created: created))
    }

    /// Removes a slot. Earlier copies of the keybag can still be unlocked with it, and a known master key stays known.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is no slot with the identifier, `invalidState` if it is the
    ///   last.
    package mutating func removeSlot(_ identifier: UUID) throws {
        guard let index = slots.firstIndex(where: { $0.identifier == identifier }) else {
            throw missingSlotError(identifier)
        }
        let others = slots.enumerated().filter { $0.offset != index }
        // A slot of a later version cannot be relied on.
        guard others.contains(where: { !$0.element.isOfLaterVersion }) else {
            throw QuireError(
                .invalidState,
                "The slot “\(identifier)” is the last one of “\(path)”: without it the data could never be read again. Add another slot first.",
                file: path, value: identifier.uuidString)
        }
        slots.remove(at: index)
    }

    /// Replaces a slot by a new one with the same label.
    mutating func replaceSlot(
        _ identifier: UUID, with credential: KeybagCredential, masterKey: SecretMemory,
        cost: ScryptCost, created: Date = Date()
    ) throws {
        guard let index = slots.firstIndex(where: { $0.identifier == identifier }) else {
            throw missingSlotError(identifier)
        }
        try checkCost(
            of: credential, cost, besides: slots.filter { $0.identifier != identifier })
        slots[index] = try KeybagSlot(
            credential, wrapping: masterKey, label: slots[index].label, created: created,
            cost: cost)
    }

    /// Throws if trying a passphrase in all slots would take too long with a new one.
    private func checkCost(
        of credential: KeybagCredential, _ cost: ScryptCost, besides others: [KeybagSlot]
    ) throws {
        guard case .passphrase = credential,
            Self.work(of: others) + cost.work > ScryptCost.maximumWork
        else { return }
        throw QuireError(
            .invalidState,
            "Trying all passphrases of “\(path)” would take too long; remove one, or specify lower parameters.",
            file: path)
    }

    /// The work of trying a passphrase in all slots.
    static func work(of slots: [KeybagSlot]) -> UInt64 {
        slots.reduce(0) { sum, slot in
            if case .passphrase(let cost, _) = slot.content { sum + cost.work } else { sum }
        }
    }

    private func missingSlotError(_ identifier: UUID) -> QuireError {
        QuireError(
            .notFound, "“\(path)” has no slot “\(identifier)”; list its slots again.",
            file: path, value: identifier.uuidString)
    }

    /// The bytes of the file.
    package func encoded(_ masterKey: SecretMemory) -> Data {
        let content = encodedContent
        let code = wipingTraces {
            HMAC<SHA256>.authenticationCode(
                for: content, using: authenticationKey(masterKey))
        }
        return content + Data(code)
    }

    private func checkFreeSlot() throws {
        if slots.count < Self.maximumSlotCount { return }
        throw QuireError(
            .invalidState,
            "“\(path)” already has \(Self.maximumSlotCount) slots, the maximum; remove one first.",
            file: path)
    }
}

extension KeybagSlot {
    fileprivate var isOfLaterVersion: Bool {
        if case .other = content { return true }
        return false
    }
}
