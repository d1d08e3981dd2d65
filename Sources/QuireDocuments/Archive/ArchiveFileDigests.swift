import Crypto

/// The SHA-256 digests of a file's bytes, which are read once: one of all bytes, and one of each MiB.
struct ArchiveFileDigests {
    /// The number of bytes of a digest of a part; the last part may be shorter.
    static let partSize = 1 << 20

    private var whole = SHA256()
    /// The digest of the current part; `nil` if parts have none.
    private var part: SHA256?
    /// The number of bytes in ``part``.
    private var partCount = 0
    private var parts: [String] = []

    /// - Parameter hasParts: Whether each MiB gets a digest.
    init(hasParts: Bool) {
        part = hasParts ? SHA256() : nil
    }

    /// Adds the next bytes of the file.
    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        whole.update(bufferPointer: bytes)
        guard part != nil else { return }
        var rest = bytes
        while !rest.isEmpty {
            // A full part ends with the next byte, so that no empty part follows the last one.
            if partCount == Self.partSize { endPart() }
            let count = min(rest.count, Self.partSize - partCount)
            part?.update(bufferPointer: UnsafeRawBufferPointer(rebasing: rest[..<count]))
            partCount += count
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// The hexadecimal digests, when all bytes have been added.
    ///
    /// - Returns: `perMiB` is `nil` if the file is at most one MiB long, or if parts have none.
    consuming func finalize() -> (sha256: String, perMiB: [String]?) {
        if partCount > 0 { endPart() }
        return (whole.finalize().hexadecimal, parts.count > 1 ? parts : nil)
    }

    private mutating func endPart() {
        if let part { parts.append(part.finalize().hexadecimal) }
        part = SHA256()
        partCount = 0
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
