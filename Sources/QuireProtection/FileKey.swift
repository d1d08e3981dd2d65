package import Crypto
package import Foundation
package import QuireSystem

/// The unwrapped key of one file, for its pages or chunks.
///
/// Locking a domain revokes the keys of files that must not be used then; every use throws until the domain is unlocked
/// again, when the key is unwrapped anew on use.
package final class FileKey: Sendable {
    /// The file's identifier, authenticated with each page or chunk, so that none can be moved to another file.
    package let file: UUID
    /// The class of the file.
    package let fileProtection: FileProtection
    private let secrets: Lock<Secrets?>
    /// Unwraps a key that was revoked, and puts it back by ``restore(_:)``; throws while the domain is locked.
    private let renewal: (@Sendable (FileKey) throws -> Void)?

    /// The key, and the keys that were derived from it. A revocation drops all.
    private struct Secrets: Sendable {
        var key: SecretMemory
        var derived: [String: SecretMemory] = [:]
    }

    /// A key for a file.
    ///
    /// - Parameters:
    ///   - secret: 32 bytes.
    ///   - renewal: Unwraps the key again after it was revoked; `nil` if it stays so.
    package init(
        file: UUID, fileProtection: FileProtection, secret: SecretMemory,
        renewal: (@Sendable (FileKey) throws -> Void)? = nil
    ) {
        self.file = file
        self.fileProtection = fileProtection
        self.secrets = Lock(Secrets(key: secret))
        self.renewal = renewal
    }

    /// Passes the key to a closure, in memory that is wiped when the closure returns.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package func withKey<Result>(_ body: (SymmetricKey) throws -> Result) throws -> Result {
        try renewIfRevoked()
        return try use(secrets.withLock { $0?.key }, body)
    }

    /// Passes a key derived from the file key for one purpose to a closure: HKDF-SHA256 with the file's identifier as the
    /// salt. It is derived once, and revoked with the file key.
    ///
    /// - Parameter purpose: The `info` of HKDF.
    /// - Throws: Errors of the closure, or ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package func withDerivedKey<Result>(
        _ purpose: String, _ body: (SymmetricKey) throws -> Result
    ) throws -> Result {
        try renewIfRevoked()
        let derived = try secrets.withLock { secrets -> SecretMemory? in
            guard let key = secrets?.key else { return nil }
            if let derived = secrets?.derived[purpose] { return derived }
            let derived = try derive(purpose, from: key)
            secrets?.derived[purpose] = derived
            return derived
        }
        return try use(derived, body)
    }

    private func use<Result>(
        _ secret: SecretMemory?, _ body: (SymmetricKey) throws -> Result
    ) throws -> Result {
        guard let secret else { throw QuireError.protectedDataUnavailable }
        return try secret.withUnsafeBytes { try body(SymmetricKey(data: $0)) }
    }

    private func derive(_ purpose: String, from key: SecretMemory) throws -> SecretMemory {
        try wipingTraces {
            try withUnsafeBytes(of: file.uuid) { salt in
                try SecretMemory(
                    copying: HKDF<SHA256>.deriveKey(
                        inputKeyMaterial: key.withUnsafeBytes { SymmetricKey(data: $0) },
                        salt: salt, info: Data(purpose.utf8), outputByteCount: 32))
            }
        }
    }

    private func renewIfRevoked() throws {
        guard let renewal, secrets.withLock({ $0 == nil }) else { return }
        try renewal(self)
    }

    /// Puts a key back that was revoked.
    func restore(_ secret: SecretMemory) {
        secrets.withLock { if $0 == nil { $0 = Secrets(key: secret) } }
    }

    /// Whether the key can be used.
    package var isAvailable: Bool {
        (try? renewIfRevoked()) != nil && secrets.withLock { $0 != nil }
    }

    /// Revokes the key for all its holders.
    package func revoke() { secrets.withLock { $0 = nil } }
}

/// A file key as stored on disk: wrapped by the class key in a keybag.
///
/// AES key wrap (RFC 3394) authenticates the key itself; the identifier, the class and the epoch are authenticated when the
/// key is used.
package struct WrappedFileKey: Hashable, Sendable {
    /// The file's identifier.
    package var file: UUID
    /// The class whose key wraps it; never `none`.
    package var fileProtection: FileProtection
    /// The epoch of the class key that wraps it, from 1; a rotation increments it.
    package var epoch: UInt32
    /// The wrapped key: 40 bytes; for `completeUnlessOpen` an ephemeral public key of 32 bytes comes first.
    package var bytes: Data

    /// A wrapped key by its parts.
    package init(file: UUID, fileProtection: FileProtection, epoch: UInt32, bytes: Data) {
        self.file = file
        self.fileProtection = fileProtection
        self.epoch = epoch
        self.bytes = bytes
    }
}

extension QuireError {
    /// The error for a revoked key. Callers add the path of the file.
    package static var protectedDataUnavailable: QuireError {
        QuireError(
            .protectedDataUnavailable,
            "The protected data is not available because its protection domain is locked; unlock it and try again."
        )
    }
}
