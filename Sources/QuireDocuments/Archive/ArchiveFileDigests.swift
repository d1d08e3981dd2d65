import Crypto
import Dispatch

/// The SHA-256 digests of a file's bytes, which are read once: one of all bytes, and one of each MiB.
///
/// If each MiB has one, both are computed on other threads while the caller gets the next bytes. Only one thread uses an instance.
final class ArchiveFileDigests {
    /// The number of bytes of a digest of a part; the last part may be shorter.
    static let partSize = 1 << 20

    private var whole = SHA256()
    private var parts = Parts()
    private let hasParts: Bool
    /// The bytes that the queues hash. They change only after both have finished.
    private var bytes: [UInt8] = []
    private let pending = DispatchGroup()
    // Not the global queue: if callers blocked all of its threads, none of them would get on.
    private let wholeQueue = DispatchQueue(label: "quire.archive.digest")
    private let partsQueue = DispatchQueue(label: "quire.archive.digests")

    /// - Parameter hasParts: Whether each MiB gets a digest.
    init(hasParts: Bool) { self.hasParts = hasParts }

    /// Adds the next bytes of the file.
    func update(_ bytes: UnsafeRawBufferPointer) {
        guard hasParts else { return whole.update(bufferPointer: bytes) }
        pending.wait()
        self.bytes.removeAll(keepingCapacity: true)
        self.bytes.append(contentsOf: bytes)
        // Each queue changes a property of its own, and this thread none before it has waited.
        nonisolated(unsafe) let digests = self
        wholeQueue.async(group: pending) {
            digests.bytes.withUnsafeBytes { digests.whole.update(bufferPointer: $0) }
        }
        partsQueue.async(group: pending) {
            digests.bytes.withUnsafeBytes { digests.parts.update($0) }
        }
    }

    /// The hexadecimal digests, when all bytes have been added.
    ///
    /// - Returns: `perMiB` is `nil` if the file is at most one MiB long, or if parts have none.
    func finalize() -> (sha256: String, perMiB: [String]?) {
        pending.wait()
        let perMiB = parts.finalize()
        return (whole.finalize().hexadecimal, perMiB.count > 1 ? perMiB : nil)
    }

    private struct Parts {
        private var digests: [String] = []
        private var current = SHA256()
        /// The number of bytes in ``current``.
        private var count = 0

        mutating func update(_ bytes: UnsafeRawBufferPointer) {
            var rest = bytes
            while !rest.isEmpty {
                // A full part ends with the next byte, so that no empty part follows the last one.
                if count == ArchiveFileDigests.partSize { endCurrent() }
                let added = min(rest.count, ArchiveFileDigests.partSize - count)
                current.update(bufferPointer: UnsafeRawBufferPointer(rebasing: rest[..<added]))
                count += added
                rest = UnsafeRawBufferPointer(rebasing: rest[added...])
            }
        }

        mutating func finalize() -> [String] {
            if count > 0 { endCurrent() }
            return digests
        }

        private mutating func endCurrent() {
            digests.append(current.finalize().hexadecimal)
            current = SHA256()
            count = 0
        }
    }
}

extension SHA256.Digest {
    /// The digest as 64 lower-case digits.
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(2 * SHA256.byteCount)
        for byte in self {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
