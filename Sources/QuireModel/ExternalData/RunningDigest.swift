internal import Crypto
package import Foundation
internal import QuireSystem

/// The SHA-256 of bytes that come one after another.
package final class RunningDigest: Sendable {
    private struct State {
        var hash = SHA256()
        var size = 0
    }

    private let state = Lock(State())

    package init() {}

    package func update(_ bytes: UnsafeRawBufferPointer) {
        state.withLock {
            $0.hash.update(bufferPointer: bytes)
            $0.size += bytes.count
        }
    }

    /// How many bytes there were.
    package var size: Int { state.withLock { $0.size } }

    /// The digest of the bytes so far.
    package var sha256: Data { state.withLock { Data($0.hash.finalize()) } }

    /// The digest of bytes in memory.
    package static func sha256(of data: Data) -> Data { Data(SHA256.hash(data: data)) }
}
