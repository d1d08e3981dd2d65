import CLinux
package import Crypto
import Foundation
import QuireSystem

/// AES-256-GCM from memory to memory, for the pages of a store and the chunks of a file.
///
/// swift-crypto keeps the expanded key of a call in an object that it frees without wiping it, and copies of the key
/// remain on the stack. Both are wiped here before a call returns.
package enum AuthenticatedEncryption {
    /// The length of the tag, which follows the ciphertext.
    package static let tagByteCount = 16
    /// The length of a nonce.
    package static let nonceByteCount = 12

    /// Seals bytes.
    ///
    /// - Parameters:
    ///   - plain: What to seal.
    ///   - key: 32 bytes.
    ///   - nonce: 12 bytes, which must never be used with this key again.
    ///   - authenticated: What is not sealed but must be the same when it is opened.
    ///   - sealed: Where the ciphertext and then the tag go: 16 bytes more than `plain`. It may begin where `plain` begins.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if swift-crypto fails, which it has no reason to.
    package static func seal(
        _ plain: UnsafeRawBufferPointer, key: SymmetricKey, nonce: UnsafeRawBufferPointer,
        authenticating authenticated: UnsafeRawBufferPointer,
        into sealed: UnsafeMutableRawBufferPointer
    ) throws {
        check(key, nonce)
        precondition(
            sealed.count == plain.count + tagByteCount,
            "AuthenticatedEncryption: what is sealed is \(tagByteCount) bytes longer.")
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

    /// Opens what ``seal(_:key:nonce:authenticating:into:)`` sealed.
    ///
    /// - Parameters:
    ///   - sealed: The ciphertext and then the tag.
    ///   - plain: Where the contents go: 16 bytes fewer. It may begin where `sealed` begins. It is not touched unless the
    ///     tag is right.
    /// - Returns: Whether the key, the nonce and every bit are those that were sealed.
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if swift-crypto fails, which it has no reason to.
    package static func open(
        _ sealed: UnsafeRawBufferPointer, key: SymmetricKey, nonce: UnsafeRawBufferPointer,
        authenticating authenticated: UnsafeRawBufferPointer,
        into plain: UnsafeMutableRawBufferPointer
    ) throws -> Bool {
        check(key, nonce)
        precondition(
            sealed.count == plain.count + tagByteCount,
            "AuthenticatedEncryption: what is sealed is \(tagByteCount) bytes longer.")
        return try wipingKeySchedule {
            do {
                // In one piece, which swift-crypto copies once.
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
                // BoringSSL has no other failure left: what else can be wrong is excluded above.
                return false
            } catch {
                throw failed(error)
            }
        }
    }

    private static func check(_ key: SymmetricKey, _ nonce: UnsafeRawBufferPointer) {
        precondition(key.bitCount == 256, "AuthenticatedEncryption: the key must have 256 bits.")
        precondition(
            nonce.count == nonceByteCount, "AuthenticatedEncryption: a nonce has 12 bytes.")
    }

    private static func failed(_ error: any Error) -> QuireError {
        QuireError(
            .protectionUnavailable, "The cipher failed, and nothing was sealed or opened.",
            underlying: error)
    }

    /// Wipes what the closure's use of AES-GCM leaves. That is one object with the key schedule, on the heap; up to three
    /// buffers may be of its size and be freed after it.
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

/// Wipes what the closure leaves of keys on the stack and in small blocks of memory that it frees: derivations, codes and
/// wrapped keys of swift-crypto leave some in both.
///
/// Takes about 20 µs. Sealing and opening need none of it.
package func wipingTraces<Result>(_ body: () throws -> Result) rethrows -> Result {
    quire_wipe_freed_blocks(16, 688, 7)
    defer {
        quire_wipe_freed_blocks(16, 688, 7)
        quire_wipe_stack()
    }
    return try body()
}
