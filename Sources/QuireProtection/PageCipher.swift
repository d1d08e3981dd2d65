internal import CLinux
import Crypto
import Foundation

/// Seals and opens the pages of one store with the store's keys.
///
/// A sealed page is 4,064 bytes of ciphertext, and in the bytes that SQLite reserves at a page's end the tag (16), the nonce
/// (12) and the number of the key (4). The store's identifier and the page's number are authenticated too, so that pages
/// cannot be exchanged. Replay of an older version of the same page is not detected. See `EncryptionFormat.md`.
package final class PageCipher: Sendable {
    /// The size of all pages.
    package static let pageSize = 4096
    /// The bytes that SQLite must reserve at the end of each page.
    package static let reservedSize = 32

    /// The result of sealing or opening a page.
    package enum Outcome: Equatable {
        case done
        /// The page does not open: it is damaged, another page's, or sealed with a key that the store has not.
        case damaged
        /// The key is not available any more.
        case locked
        /// The system failed.
        case failed
    }

    private static let contentSize = pageSize - reservedSize
    private static let nonceOffset = contentSize + AuthenticatedEncryption.tagByteCount
    private static let keyNumberOffset = nonceOffset + PageNonces.size

    private let keys: [UInt32: FileKey]
    private let current: UInt32
    private let key: FileKey
    /// Whether nonces are derived from the pages instead of being random.
    private let derivesNonces: Bool

    /// A cipher with the keys of a store by their numbers.
    ///
    /// - Parameter current: The number of the key that seals.
    init(keys: [UInt32: FileKey], current: UInt32, derivesNonces: Bool = false) {
        guard let key = keys[current] else {
            preconditionFailure("PageCipher: key \(current) is missing.")
        }
        self.keys = keys
        self.current = current
        self.key = key
        self.derivesNonces = derivesNonces
    }

    /// A cipher with the same keys that seals equal pages with equal bytes, for versions of a document, which share the pages
    /// that they have in common. It shows which pages are equal, and nothing else of them.
    package func derivingNonces() -> PageCipher {
        PageCipher(keys: keys, current: current, derivesNonces: true)
    }

    /// Whether the keys can be used.
    var isAvailable: Bool { key.isAvailable }

    /// Seals a page.
    package func seal(
        _ page: UnsafeRawPointer, number: UInt32, nonces: inout PageNonces,
        into sealed: UnsafeMutableRawPointer
    ) -> Outcome {
        let nonce = sealed + Self.nonceOffset
        if !derivesNonces, !nonces.next(into: nonce) { return .failed }
        do {
            if derivesNonces { try deriveNonce(page, number, into: nonce) }
            try withAuthenticated(key, number) { authenticated in
                try key.withKey {
                    try AuthenticatedEncryption.seal(
                        UnsafeRawBufferPointer(start: page, count: Self.contentSize), key: $0,
                        nonce: UnsafeRawBufferPointer(start: nonce, count: PageNonces.size),
                        authenticating: authenticated,
                        into: UnsafeMutableRawBufferPointer(
                            start: sealed, count: Self.nonceOffset))
                }
            }
        } catch {
            return key.isAvailable ? .failed : .locked
        }
        (sealed + Self.keyNumberOffset).storeBytes(of: current.bigEndian, as: UInt32.self)
        return .done
    }

    /// Opens a page in place. The reserved bytes become zeros, as when the log's checksums were computed.
    package func open(_ page: UnsafeMutableRawPointer, number: UInt32) -> Outcome {
        let keyNumber = UInt32(
            bigEndian: (page + Self.keyNumberOffset).loadUnaligned(as: UInt32.self))
        guard let key = keys[keyNumber] else { return .damaged }
        let isRight: Bool
        do {
            isRight = try withAuthenticated(key, number) { authenticated in
                try key.withKey {
                    try AuthenticatedEncryption.open(
                        UnsafeRawBufferPointer(start: page, count: Self.nonceOffset), key: $0,
                        nonce: UnsafeRawBufferPointer(
                            start: page + Self.nonceOffset, count: PageNonces.size),
                        authenticating: authenticated,
                        into: UnsafeMutableRawBufferPointer(start: page, count: Self.contentSize))
                }
            }
        } catch {
            return key.isAvailable ? .failed : .locked
        }
        if !isRight { return .damaged }
        memset(page + Self.contentSize, 0, Self.reservedSize)
        return .done
    }

    /// Derives the nonce of a page by HMAC-SHA256 with a separate key; it is unique to the page.
    private func deriveNonce(
        _ page: UnsafeRawPointer, _ number: UInt32, into nonce: UnsafeMutableRawPointer
    ) throws {
        try key.withDerivedKey("Quire page nonces 1") { key in
            wipingTraces {
                var code = HMAC<SHA256>(key: key)
                withUnsafeBytes(of: number.bigEndian) { code.update(data: $0) }
                code.update(
                    data: UnsafeRawBufferPointer(start: page, count: Self.contentSize))
                code.finalize().withUnsafeBytes {
                    nonce.copyMemory(from: $0.baseAddress!, byteCount: PageNonces.size)
                }
            }
        }
    }

    private func withAuthenticated<Result>(
        _ key: FileKey, _ number: UInt32,
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        try withUnsafeTemporaryAllocation(byteCount: 20, alignment: 4) { bytes in
            bytes.storeBytes(of: key.file.uuid, as: uuid_t.self)
            bytes.storeBytes(of: number.bigEndian, toByteOffset: 16, as: UInt32.self)
            return try body(UnsafeRawBufferPointer(bytes))
        }
    }
}

/// Opens single pages of a protected database that may be damaged.
package final class PageUnsealer {
    private let cipher: PageCipher
    /// Whether a page did not open because the keys were not available.
    package private(set) var wasLocked = false

    package init(_ cipher: PageCipher) { self.cipher = cipher }

    /// The page in clear, with zeros in the bytes that SQLite reserves; `nil` if it does not open.
    package func open(_ sealed: [UInt8], number: Int) -> [UInt8]? {
        guard sealed.count == PageCipher.pageSize, let number = UInt32(exactly: number) else {
            return nil
        }
        var page = sealed
        let isOpen = page.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return false }
            let outcome = cipher.open(start, number: number)
            if outcome == .locked { wasLocked = true }
            return outcome == .done
        }
        return isOpen ? page : nil
    }
}

/// Random nonces of 96 bits, several fetched from the system at a time. With these a key may seal 2³² pages (NIST SP
/// 800-38D), which is 16 TiB written.
///
/// SQLite forbids to carry an open database over a fork, which would use some twice.
package struct PageNonces {
    static let size = 12
    private static let countAtOnce = 20

    private var bytes = [UInt8](repeating: 0, count: size * countAtOnce)
    private var used = countAtOnce

    package init() {}

    /// Stores the next nonce.
    ///
    /// - Returns: Whether the system provided random bytes.
    mutating func next(into place: UnsafeMutableRawPointer) -> Bool {
        if used == Self.countAtOnce {
            guard quire_getrandom(&bytes, bytes.count) == bytes.count else { return false }
            used = 0
        }
        bytes.withUnsafeBytes {
            place.copyMemory(from: $0.baseAddress! + used * Self.size, byteCount: Self.size)
        }
        used += 1
        return true
    }
}
