package import Crypto
package import Foundation
package import QuireSystem
import Synchronization

/// The key of one file, unwrapped: what its pages or chunks are sealed with, and what binds them to the file.
///
/// A domain that is locked revokes the keys of files that must not be used then; from that moment every use throws.
package final class FileKey: Sendable {
    /// The file's identifier, which is in what each page or chunk authenticates, so that none can be moved to another file.
    package let file: UUID
    /// The class of the file.
    package let fileProtection: FileProtection
    private let secret: Mutex<SecretMemory?>

    /// A key for a file.
    ///
    /// - Parameter secret: 32 bytes.
    package init(file: UUID, fileProtection: FileProtection, secret: SecretMemory) {
        self.file = file
        self.fileProtection = fileProtection
        self.secret = Mutex(secret)
    }

    /// Gives a closure the key, in memory that is wiped when the closure returns.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package func withKey<Result>(_ body: (SymmetricKey) throws -> Result) throws -> Result {
        guard let secret = secret.withLock({ $0 }) else {
            throw QuireError.protectedDataUnavailable
        }
        return try secret.withUnsafeBytes { try body(SymmetricKey(data: $0)) }
    }

    /// Whether the key can be used.
    package var isAvailable: Bool { secret.withLock { $0 != nil } }

    /// Takes the key away from everybody who has it.
    package func revoke() { secret.withLock { $0 = nil } }
}

/// The key of a file as it is kept on disk: wrapped by the key of the file's class in a keybag.
///
/// AES key wrap (RFC 3394) authenticates the key itself; the identifier, the class and the epoch are authenticated where
/// the key is used.
package struct WrappedFileKey: Hashable, Sendable {
    /// The file's identifier.
    package var file: UUID
    /// The class whose key wraps it; never `none`.
    package var fileProtection: FileProtection
    /// Which of the class's keys wraps it: these are numbered from 1, and a rotation makes the next.
    package var epoch: UInt32
    /// What is wrapped: 40 bytes; for `completeUnlessOpen` an ephemeral public key of 32 bytes comes first.
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
    /// The error of a key that was revoked. Who knows the file says which one it is.
    package static var protectedDataUnavailable: QuireError {
        QuireError(
            .protectedDataUnavailable,
            "The protected data is not available because its protection domain is locked; unlock it and try again."
        )
    }
}
