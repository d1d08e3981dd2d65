import Crypto
package import Foundation
import QuireSystem

/// A class key of a domain, for open files: creates and unwraps file keys.
///
/// Availability, as in the table of ``FileProtection``:
///
/// - `complete`: works while the domain is unlocked. It holds no key itself, and its file keys are revoked when the domain is
///   locked.
/// - `completeUnlessOpen`: keeps working when the domain is locked. If it was obtained for creating from a locked domain, it
///   creates file keys, and unwraps its own; it unwraps others when the domain is unlocked.
/// - `completeUntilFirstUserAuthentication`: keeps working.
///
/// It retains the domain.
package final class ClassKey: Sendable {
    /// The class.
    package let fileProtection: FileProtection
    private let domain: ProtectionDomain
    /// The unwrapping keys by their epochs. Empty for `complete`, and if only a public key is available.
    private let secrets: [UInt32: SecretMemory]
    /// The latest epoch.
    private let epoch: UInt32
    /// The public key of that epoch.
    private let publicKey: Data
    /// The file keys it has created, if only a public key is available.
    private let made = Lock<[UUID: SecretMemory]>([:])

    fileprivate init(
        _ fileProtection: FileProtection, of domain: ProtectionDomain, epoch: UInt32,
        publicKey: Data, secrets: [UInt32: SecretMemory] = [:]
    ) {
        self.fileProtection = fileProtection
        self.domain = domain
        self.epoch = epoch
        self.publicKey = publicKey
        self.secrets = secrets
    }

    /// Makes the key of a new file.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the class is `complete` and the domain is locked.
    package func makeFileKey(
        file: UUID = UUID()
    ) throws -> (key: FileKey, wrapped: WrappedFileKey) {
        let secret = try SecretMemory(randomCount: 32)
        let wrapped = try wrap(secret, file: file)
        return (try fileKey(secret, wrapped), wrapped)
    }

    /// The key of a file.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked and the class needs its key,
    ///   `invalidFormat` if it was not wrapped by this class of this keybag, or is damaged.
    package func fileKey(for wrapped: WrappedFileKey) throws -> FileKey {
        try fileKey(unwrap(wrapped), wrapped)
    }

    private func fileKey(_ secret: SecretMemory, _ wrapped: WrappedFileKey) throws -> FileKey {
        guard fileProtection == .complete else {
            return FileKey(file: wrapped.file, fileProtection: fileProtection, secret: secret)
        }
        let key = FileKey(
            file: wrapped.file, fileProtection: fileProtection, secret: secret,
            renewal: { [self] key in
                key.restore(try unwrap(wrapped))
                // Revokes it again if the domain was locked meanwhile.
                try domain.willRevoke(key)
            })
        try domain.willRevoke(key)
        return key
    }

    /// Wraps a secret as the key of a file.
    func wrap(_ secret: SecretMemory, file: UUID) throws -> WrappedFileKey {
        let bytes: Data
        var epoch = epoch
        if fileProtection == .completeUnlessOpen {
            bytes = try KeyWrapping.wrap(secret, file: file, for: publicKey)
            if secrets.isEmpty { made.withLock { $0[file] = secret } }
        } else {
            let secrets = try presentSecrets()
            epoch = secrets.keys.max() ?? epoch
            guard let key = secrets[epoch] else { throw ProtectionDomain.lockedError(domain.name) }
            bytes = try key.withUnsafeBytes {
                try KeyWrapping.wrap(secret, by: SymmetricKey(data: $0))
            }
        }
        return WrappedFileKey(
            file: file, fileProtection: fileProtection, epoch: epoch, bytes: bytes)
    }

    /// Unwraps a key wrapped by ``wrap(_:file:)``.
    func unwrap(_ wrapped: WrappedFileKey) throws -> SecretMemory {
        if let own = made.withLock({ $0[wrapped.file] }) { return own }
        guard wrapped.fileProtection == fileProtection else { throw foreignError(wrapped) }
        let secrets = try presentSecrets()
        guard let key = secrets[wrapped.epoch] else { throw foreignError(wrapped) }
        let secret =
            if fileProtection == .completeUnlessOpen {
                try KeyWrapping.unwrap(wrapped.bytes, file: wrapped.file, privateKey: key)
            } else {
                try key.withUnsafeBytes {
                    try KeyWrapping.unwrap(wrapped.bytes, by: SymmetricKey(data: $0))
                }
            }
        guard let secret else { throw foreignError(wrapped) }
        return secret
    }

    /// The keys by their epochs: its own, or those that the domain has.
    private func presentSecrets() throws -> [UInt32: SecretMemory] {
        if !secrets.isEmpty { return secrets }
        return try domain.secrets(of: fileProtection, throughParent: true)
    }

    private func foreignError(_ wrapped: WrappedFileKey) -> QuireError {
        QuireError(
            .invalidFormat,
            "The key of the file “\(wrapped.file)” was not wrapped by the keybag “\(domain.name)”, or is damaged; restore the file and its keybag from a backup.",
            file: domain.name, value: wrapped.file.uuidString)
    }
}

extension ProtectionDomain {
    /// The key of a class, for opening or creating files.
    ///
    /// A document's locked domain is unlocked through the person's domain, if that is unlocked as far as the class requires.
    ///
    /// - Parameters:
    ///   - fileProtection: The class; `nil` for that of the keybag.
    ///   - creating: Whether only new files are created: then `completeUnlessOpen` does not require an unlocked domain.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked and the class requires its key,
    ///   `invalidFormat` if the keybag is damaged, `protectionUnavailable` if the class is `none`.
    package func classKey(
        for fileProtection: FileProtection? = nil, creating: Bool = false
    ) throws -> ClassKey {
        let fileProtection = fileProtection ?? protection
        guard fileProtection != .none else {
            throw QuireError(
                .protectionUnavailable,
                "The class “none” has no key in “\(name)”; specify another class, or do not protect the file.",
                file: name)
        }
        return try classKey(for: fileProtection, creating: creating, throughParent: true)
    }

    func classKey(
        for fileProtection: FileProtection, creating: Bool, throughParent: Bool
    ) throws -> ClassKey {
        var kept: [UInt32: SecretMemory] = [:]
        do {
            let secrets = try secrets(of: fileProtection, throughParent: throughParent)
            if fileProtection != .complete { kept = secrets }
        } catch let error as QuireError where error.code == .protectedDataUnavailable {
            guard creating, fileProtection == .completeUnlessOpen else { throw error }
        }
        guard let latest = state.withLock({ $0.keybag.classKeys.last }) else {
            throw Self.lockedError(name)
        }
        return ClassKey(
            fileProtection, of: self, epoch: latest.epoch, publicKey: latest.publicKey,
            secrets: kept)
    }

    /// The keys of a class by their epochs.
    fileprivate func secrets(
        of fileProtection: FileProtection, throughParent: Bool
    ) throws -> [UInt32: SecretMemory] {
        if let found = presentSecrets(of: fileProtection) { return found }
        if throughParent {
            try unlockWhenUsed()
            if let found = presentSecrets(of: fileProtection) { return found }
        }
        throw Self.lockedError(name)
    }

    private func presentSecrets(of fileProtection: FileProtection) -> [UInt32: SecretMemory]? {
        state.withLock { state in
            if fileProtection == .completeUntilFirstUserAuthentication {
                let found = state.untilFirstAuthentication
                return found.isEmpty ? nil : found
            }
            guard let unlocked = state.unlocked else { return nil }
            return Dictionary(
                unlocked.classKeys.map {
                    ($0.epoch, fileProtection == .complete ? $0.complete : $0.privateKey)
                }, uniquingKeysWith: { $1 })
        }
    }

    /// Takes note of a file key that is revoked when the domain is locked.
    fileprivate func willRevoke(_ key: FileKey) throws {
        let isUnlocked = state.withLock { state in
            if state.unlocked == nil { return false }
            state.fileKeys.append(key)
            return true
        }
        if isUnlocked { return }
        key.revoke()
        throw Self.lockedError(name)
    }

    static func lockedError(_ path: String) -> QuireError {
        QuireError(
            .protectedDataUnavailable,
            "“\(path)” is locked, so its protected data is not available; unlock it or its domain, and try again.",
            file: path)
    }
}
