import Crypto
import Foundation

/// The SHA-256 of a block: its name among blocks.
struct BlockDigest: Hashable, Sendable {
    static let byteCount = 32
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Takes a digest over from where it is written.
    ///
    /// - Precondition: There are 32 bytes.
    init(_ bytes: UnsafeRawBufferPointer) {
        words = bytes.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self)
    }

    /// Computes the digest of a block.
    init(of block: UnsafeRawBufferPointer) {
        var function = SHA256()
        function.update(bufferPointer: block)
        words = function.finalize().withUnsafeBytes {
            $0.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self)
        }
    }

    static func == (one: BlockDigest, other: BlockDigest) -> Bool { one.words == other.words }

    func hash(into hasher: inout Hasher) {
        // It is a hash already.
        hasher.combine(words.0)
    }

    /// The 32 bytes.
    var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

    /// The digests that are written one after another.
    static func list(_ bytes: [UInt8]) -> [BlockDigest] {
        bytes.withUnsafeBytes { buffer in
            stride(from: 0, to: buffer.count - byteCount + 1, by: byteCount).map {
                BlockDigest(UnsafeRawBufferPointer(rebasing: buffer[$0..<$0 + byteCount]))
            }
        }
    }
}
