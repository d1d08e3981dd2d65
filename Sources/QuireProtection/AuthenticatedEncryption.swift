import CLinux
package import Crypto
import Foundation
import QuireSystem

/// AES-256-GCM in memory, for the pages of a store and the chunks of a file.
///
/// swift-crypto keeps the expanded key in an object that it frees without wiping it, and copies of the key remain on the
/// stack. Both are wiped here before a call returns.
package enum AuthenticatedEncryption {
    /// The length of the tag, which follows the ciphertext.
    package static let tagByteCount = 16
    /// The length of a nonce.
    package static let nonceByteCount = 12

    /// Encrypts and authenticates bytes.
    ///
    /// - Parameters:
    ///   - plain: The plaintext.
    ///   - key: 32 bytes.
    ///   - nonce: 12 bytes, which must never be reused with this key.
    ///   - authenticated: Additional authenticated data.
    ///   - sealed: The buffer for the ciphertext and then the tag: 16 bytes more than `plain`. It may begin where `plain`
    ///     begins.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if swift-crypto fails, which is not expected.
    package static func seal(
        _ plain: UnsafeRawBufferPointer, key: SymmetricKey, nonce: UnsafeRawBufferPointer,
        authenticating authenticated: UnsafeRawBufferPointer,
        into sealed: UnsafeMutableRawBufferPointer
    ) throws {
        check(key, nonce)
        precondition(
            sealed.count == plain.count + tagByteCount,
            "AuthenticatedEncryption: the sealed bytes must be \(tagByteCount) bytes longer than the plain ones."
        )
        try wipingKeySchedule {
            do {
                let box = try AES.GCM.seal(
                    plain, using: key, nonce: AES.GCM.Nonce(data: nonce),
                    authenticating: authenticated)
                // All sizes of nonces but that of GCM's own are excluded above.
                guard let combined = box.combined else {
                    throw CryptoKitError.incorrectParameterSize
                }
                combined.dropFirst(nonceByteCount).withUnsafeBytes { sealed.copyMemory(from: $0) }
            } catch {
                throw failed(error)
            }
        }
    }

    /// Decrypts and authenticates the output of ``seal(_:key:nonce:authenticating:into:)``.
    ///
    /// - Parameters:
    ///   - sealed: The ciphertext and then the tag.
    ///   - plain: The buffer for the plaintext: 16 bytes fewer. It may begin where `sealed` begins. It is not modified unless
    ///     the tag is valid.
    /// - Returns: Whether authentication succeeded.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if swift-crypto fails, which is not expected.
    package static func open(
        _ sealed: UnsafeRawBufferPointer, key: SymmetricKey, nonce: UnsafeRawBufferPointer,
        authenticating authenticated: UnsafeRawBufferPointer,
        into plain: UnsafeMutableRawBufferPointer
    ) throws -> Bool {
        check(key, nonce)
        precondition(
            sealed.count == plain.count + tagByteCount,
            "AuthenticatedEncryption: the sealed bytes must be \(tagByteCount) bytes longer than the plain ones."
        )
        return try wipingKeySchedule {
            do {
                // Contiguous, as swift-crypto then copies it once.
                let count = nonceByteCount + sealed.count
                let box = try withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) {
                    $0.copyMemory(from: nonce)
                    UnsafeMutableRawBufferPointer(rebasing: $0[nonceByteCount...])
                        .copyMemory(from: sealed)
                    return try AES.GCM.SealedBox(combined: UnsafeRawBufferPointer($0))
                }
                let opened = try AES.GCM.open(box, using: key, authenticating: authenticated)
                opened.withUnsafeBytes { plain.copyMemory(from: $0) }
                return true
            } catch CryptoKitError.underlyingCoreCryptoError, CryptoKitError.authenticationFailure {
                // The only remaining failure of BoringSSL: a wrong tag; other causes are excluded above.
                return false
            } catch {
                throw failed(error)
            }
        }
    }

    private static func check(_ key: SymmetricKey, _ nonce: UnsafeRawBufferPointer) {
        precondition(key.bitCount == 256, "AuthenticatedEncryption: the key must have 256 bits.")
        precondition(
            nonce.count == nonceByteCount, "AuthenticatedEncryption: a nonce must have 12 bytes.")
    }

    private static func failed(_ error: any Error) -> QuireError {
        QuireError(
            .protectionUnavailable, "The cipher failed; nothing was encrypted or decrypted.",
            underlying: error)
    }

    /// Wipes the remains of AES-GCM in the closure: one object with the key schedule, on the heap; up to three buffers may
    /// have its size and be freed after it.
    private static func wipingKeySchedule<Result>(_ body: () throws -> Result) rethrows -> Result {
        quire_wipe_freed_blocks(keyScheduleByteCount, keyScheduleByteCount, 4)
        defer {
            quire_wipe_freed_blocks(keyScheduleByteCount, keyScheduleByteCount, 4)
            quire_wipe_stack()
        }
        return try body()
    }

    /// The size of swift-crypto's `AEADContext`: an object's header and an `EVP_AEAD_CTX`. KeyMemoryTests fails if another
    /// version's is of another size.
    private static let keyScheduleByteCount = 592
}

/// Wipes key material that the closure leaves on the stack and in small freed heap blocks: key derivation, MACs and key
/// wrapping in swift-crypto leave some in both.
///
/// Takes about 20 µs. Not needed for sealing and opening.
package func wipingTraces<Result>(_ body: () throws -> Result) rethrows -> Result {
    quire_wipe_freed_blocks(16, 688, 7)
    defer {
        quire_wipe_freed_blocks(16, 688, 7)
        quire_wipe_stack()
    }
    return try body()
}
