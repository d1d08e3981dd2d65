package import Crypto
import CryptoExtras
package import Foundation
import QuireSystem

/// Key wrapping, and key derivation from secrets.
///
/// - An unwrapped key is in ``SecretMemory`` from its first byte on. `AES.KeyWrap.unwrap` would leave it in an array that is
///   not wiped, so the unwrapping of RFC 3394 is implemented here, on swift-crypto's block cipher.
/// - The block cipher leaves its key schedule on the stack, which contains the key, and derivations leave traces on the heap:
///   both are wiped after each use (``wipingTraces(_:)``).
package enum KeyWrapping {
    /// The number of bytes of a wrapped key of 32 bytes.
    package static let wrappedCount = 40

    private static let integrityCheck = [UInt8](repeating: 0xA6, count: 8)

    /// Wraps a key by another with AES key wrap (RFC 3394).
    package static func wrap(_ secret: SecretMemory, by key: SymmetricKey) throws -> Data {
        try wipingTraces {
            try secret.withUnsafeBytes {
                try AES.KeyWrap.wrap(SymmetricKey(data: $0), using: key)
            }
        }
    }

    /// Unwraps a key.
    ///
    /// - Returns: `nil` if the wrapping key is wrong, or the data is damaged.
    package static func unwrap(_ wrapped: Data, by key: SymmetricKey) throws -> SecretMemory? {
        try wipingTraces { try unwrapLeavingTraces(wrapped, by: key) }
    }

    private static func unwrapLeavingTraces(
        _ wrapped: Data, by key: SymmetricKey
    ) throws -> SecretMemory? {
        let count = wrapped.count - 8
        guard count >= 16, count % 8 == 0, count + 24 <= SecretMemory.maximumCount else {
            return nil
        }
        var isRight = false
        let work = try SecretMemory(count: count + 24) { memory in
            // A block of the cipher, then the registers A (8 bytes) and R[1]…R[n] of RFC 3394.
            let block = UnsafeMutableRawBufferPointer(rebasing: memory[..<16])
            let registers = UnsafeMutableRawBufferPointer(rebasing: memory[16...])
            registers.copyBytes(from: wrapped)
            for round in (0...5).reversed() {
                for index in (1...count / 8).reversed() {
                    let step = UInt64(round * (count / 8) + index)
                    withUnsafeBytes(of: step.bigEndian) { step in
                        for byte in 0..<8 { block[byte] = registers[byte] ^ step[byte] }
                    }
                    let register = UnsafeMutableRawBufferPointer(
                        rebasing: registers[(8 * index)..<(8 * index + 8)])
                    for byte in 0..<8 { block[8 + byte] = register[byte] }
                    var bytes = block.bindMemory(to: UInt8.self)
                    try AES.inversePermute(&bytes, key: key)
                    for byte in 0..<8 {
                        registers[byte] = block[byte]
                        register[byte] = block[8 + byte]
                    }
                }
            }
            isRight = zip(registers, integrityCheck).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
        }
        if !isRight { return nil }
        return try work.withUnsafeBytes {
            try SecretMemory(copying: UnsafeRawBufferPointer(rebasing: $0[24...]))
        }
    }

    /// Derives a key of 32 bytes from a secret with HKDF-SHA256 (RFC 5869).
    package static func derive(
        from secret: SymmetricKey, salt: Data, info: Data
    ) -> SymmetricKey {
        wipingTraces {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: secret, salt: salt, info: info, outputByteCount: 32)
        }
    }

    /// Derives a key of 32 bytes from a secret with HKDF-SHA256 (RFC 5869).
    package static func derive(
        from secret: SecretMemory, salt: Data, info: String
    ) -> SymmetricKey {
        derive(
            from: secret.withUnsafeBytes { SymmetricKey(data: $0) }, salt: salt,
            info: Data(info.utf8))
    }
}

// MARK: - One-pass Diffie-Hellman

extension KeyWrapping {
    /// The number of bytes of a public key of X25519.
    package static let publicKeyCount = 32

    /// Wraps a file key for the holder of a private key, given the public key.
    ///
    /// - Returns: The public key of an ephemeral pair, then the wrapped key.
    package static func wrap(
        _ secret: SecretMemory, file: UUID, for publicKey: Data
    ) throws -> Data {
        let ephemeral = Curve25519.KeyAgreement.PrivateKey()
        let ephemeralPublicKey = ephemeral.publicKey.rawRepresentation
        let shared = try ephemeral.sharedSecretFromKeyAgreement(
            with: .init(rawRepresentation: publicKey))
        let key = agreedKey(
            shared, file: file, ephemeral: ephemeralPublicKey, publicKey: publicKey)
        return try ephemeralPublicKey + wrap(secret, by: key)
    }

    /// Unwraps a key wrapped by ``wrap(_:file:for:)``.
    ///
    /// - Returns: `nil` if the private key or file is wrong, or the data is damaged.
    package static func unwrap(
        _ bytes: Data, file: UUID, privateKey: SecretMemory
    ) throws -> SecretMemory? {
        guard bytes.count == publicKeyCount + wrappedCount else { return nil }
        let ephemeral = Data(bytes.prefix(publicKeyCount))
        let key = try wipingTraces {
            let pair = try privateKey.withUnsafeBytes {
                try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: $0)
            }
            let shared = try pair.sharedSecretFromKeyAgreement(
                with: .init(rawRepresentation: ephemeral))
            return agreedKey(
                shared, file: file, ephemeral: ephemeral,
                publicKey: pair.publicKey.rawRepresentation)
        }
        return try unwrap(Data(bytes.dropFirst(publicKeyCount)), by: key)
    }

    private static func agreedKey(
        _ shared: SharedSecret, file: UUID, ephemeral: Data, publicKey: Data
    ) -> SymmetricKey {
        shared.hkdfDerivedSymmetricKey(
            using: SHA256.self, salt: file.data,
            sharedInfo: Data("Quire file key 1".utf8) + ephemeral + publicKey,
            outputByteCount: 32)
    }
}

extension UUID {
    /// The 16 bytes.
    package var data: Data { withUnsafeBytes(of: uuid) { Data($0) } }
}

// MARK: - Memory for keys

/// Secret bytes in memory that is not swapped, is excluded from core dumps and forked children, and is wiped on deinit.
///
/// The memory comes from dedicated pages, which are mapped once and reused. If the process may lock no more memory
/// (`RLIMIT_MEMLOCK`), the pages are not locked, and could be swapped.
///
/// Unchecked because the bytes are written by the initializer only, and wiped on deinit.
package final class SecretMemory: @unchecked Sendable {
    /// The greatest number of bytes.
    package static let maximumCount = 64

    private let address: UnsafeMutableRawPointer
    /// The number of bytes.
    package let count: Int

    /// Allocates zeroed memory, and fills it with a closure.
    ///
    /// - Throws: Errors of the closure, or ``QuireError`` with code `inputOutput` if the system is out of memory.
    package init(
        count: Int, filledBy fill: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws {
        precondition(count <= Self.maximumCount, "SecretMemory: \(count) bytes exceed the maximum.")
        address = try SecretPages.shared.withLock { try $0.take() }
        self.count = count
        // All properties are set, so an error of the closure runs deinit.
        try fill(UnsafeMutableRawBufferPointer(start: address, count: count))
    }

    /// Takes memory filled with bytes of the system's generator of random numbers.
    package convenience init(randomCount count: Int = 32) throws {
        try self.init(count: count) { bytes in
            // The system's generator is getrandom(2).
            var generator = SystemRandomNumberGenerator()
            for index in bytes.indices { bytes[index] = generator.next() }
        }
    }

    /// Takes a copy of bytes. Wiping those is the caller's part.
    package convenience init(copying bytes: some ContiguousBytes) throws {
        let count = bytes.withUnsafeBytes { $0.count }
        try self.init(count: count) { copy in bytes.withUnsafeBytes { copy.copyMemory(from: $0) } }
    }

    deinit { SecretPages.shared.withLock { $0.giveBack(address) } }

    /// Gives a closure the bytes.
    package func withUnsafeBytes<Result>(
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        try withExtendedLifetime(self) {
            try body(UnsafeRawBufferPointer(start: address, count: count))
        }
    }
}

/// The pages that ``SecretMemory`` is allocated from, with their free places.
///
/// Unchecked because every use is under the lock of ``shared``.
private struct SecretPages: @unchecked Sendable {
    static let shared = Lock(SecretPages())

    private static let pageCount = 4
    private var free: [UnsafeMutableRawPointer] = []

    mutating func take() throws -> UnsafeMutableRawPointer {
        if free.isEmpty { try grow() }
        return free.removeLast()
    }

    mutating func giveBack(_ address: UnsafeMutableRawPointer) {
        explicit_bzero(address, SecretMemory.maximumCount)
        free.append(address)
    }

    private mutating func grow() throws {
        let size = Self.pageCount * Int(sysconf(Int32(_SC_PAGESIZE)))
        let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let mapped, mapped != MAP_FAILED else {
            throw QuireError(
                .inputOutput,
                "Cannot allocate memory for keys: \(String(cString: strerror(errno))).")
        }
        // Each is an additional defence, and none is available on every system.
        _ = mlock(mapped, size)
        _ = madvise(mapped, size, MADV_DONTDUMP)
        _ = madvise(mapped, size, MADV_WIPEONFORK)
        for offset in stride(from: 0, to: size, by: SecretMemory.maximumCount) {
            free.append(mapped + offset)
        }
    }
}
