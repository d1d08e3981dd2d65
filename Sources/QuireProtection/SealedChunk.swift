import Crypto
import Foundation
import QuireSystem

/// The chunks of a sealed file: STREAM, as age does it.
///
/// Chunk *i* is AES-256-GCM with a key that is derived from the file's and used for nothing else. Its nonce is *i* and
/// whether it is the last one, so that none can be left out, moved, doubled, or appended. Every chunk but the last is full.
/// The last has at least a byte, unless the file is empty.
enum SealedChunk {
    /// How much of the contents a full chunk has.
    static let byteCount = 1 << 16
    /// The length of a full chunk in the file.
    static let sealedByteCount = byteCount + AuthenticatedEncryption.tagByteCount

    /// Seals one chunk. Both may begin at the same address.
    static func seal(
        _ plain: UnsafeRawBufferPointer, number: Int64, isLast: Bool, key: FileKey, path: String,
        into sealed: UnsafeMutableRawBufferPointer
    ) throws {
        try withKey(key, path) { key in
            try nonce(number, isLast).withUnsafeBytes { nonce in
                try AuthenticatedEncryption.seal(
                    plain, key: key, nonce: nonce, authenticating: nothing, into: sealed)
            }
        }
    }

    /// Opens one chunk. Returns false if it is not what was sealed in that place.
    static func open(
        _ sealed: UnsafeRawBufferPointer, number: Int64, isLast: Bool, key: FileKey, path: String,
        into plain: UnsafeMutableRawBufferPointer
    ) throws -> Bool {
        try withKey(key, path) { key in
            try nonce(number, isLast).withUnsafeBytes { nonce in
                try AuthenticatedEncryption.open(
                    sealed, key: key, nonce: nonce, authenticating: nothing, into: plain)
            }
        }
    }

    private static func withKey<Result>(
        _ key: FileKey, _ path: String, _ body: (SymmetricKey) throws -> Result
    ) throws -> Result {
        try key.withDerivedKey("Quire sealed file chunks 1", path: path, body)
    }

    /// The key is this file's only, so there is nothing that a chunk must be bound to besides.
    private static var nothing: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: nil, count: 0)
    }

    /// A counter of 11 bytes, the greatest byte first, and a byte that is 1 for the last chunk.
    private static func nonce(_ number: Int64, _ isLast: Bool) -> [UInt8] {
        [0, 0, 0] + withUnsafeBytes(of: number.bigEndian) { Array($0) } + [isLast ? 1 : 0]
    }
}
