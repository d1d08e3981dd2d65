import Crypto
package import Foundation
import QuireSystem

/// The first 144 bytes of a sealed file: its identifier, its wrapped key, and a code that authenticates both.
///
/// The layout is in EncryptionFormat.md, *Sealed files*. Until ``verify(with:)`` has returned, a header is untrusted, and
/// used only to unwrap the key.
package struct SealedFileHeader: Sendable {
    /// The length of a header.
    package static let byteCount = 144

    private static let mark = Data("QUIRSEAL".utf8)
    private static let version: UInt16 = 1
    private static let authenticatedByteCount = 112

    /// The file's wrapped key.
    package let wrappedKey: WrappedFileKey
    /// All of it, its code included.
    package let bytes: Data
    private let path: String

    /// A header for a file that is to be written.
    ///
    /// - Parameters:
    ///   - wrappedKey: `key`, as the keybag wrapped it.
    ///   - path: The path of the file, for errors.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package init(wrappedKey: WrappedFileKey, key: FileKey, path: String) throws {
        precondition(
            wrappedKey.file == key.file && wrappedKey.fileProtection == key.fileProtection,
            "SealedFileHeader: the wrapped key belongs to another file.")
        precondition(
            wrappedKey.bytes.count == WrappedFileKey.wrappedCount(for: wrappedKey.fileProtection),
            "SealedFileHeader: the wrapped key has \(wrappedKey.bytes.count) bytes.")
        var bytes = Self.mark
        bytes.append(bigEndian: Self.version)
        bytes.append(wrappedKey.fileProtection.code)
        bytes.append(UInt8(SealedChunk.byteCount.trailingZeroBitCount))
        bytes.append(bigEndian: wrappedKey.epoch)
        withUnsafeBytes(of: wrappedKey.file.uuid) { bytes.append(contentsOf: $0) }
        bytes.append(bigEndian: UInt16(wrappedKey.bytes.count))
        bytes.append(wrappedKey.bytes)
        bytes.append(Data(count: Self.authenticatedByteCount - bytes.count))
        let authenticated = bytes
        let code = try Self.withCodeKey(key, path) { key in
            HMAC<SHA256>.authenticationCode(for: authenticated, using: key)
        }
        bytes.append(contentsOf: code)
        self.wrappedKey = wrappedKey
        self.bytes = bytes
        self.path = path
    }

    /// Parses the header of a file.
    ///
    /// - Parameters:
    ///   - start: The file from its beginning; bytes after the header are ignored.
    ///   - path: The path of the file, for errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    package init(parsing start: some Collection<UInt8>, path: String) throws {
        let bytes = Data(start.prefix(Self.byteCount))
        guard Self.isSealed(bytes) else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is not an encrypted file, or its header is damaged; restore it from a backup.",
                file: path)
        }
        guard bytes.count == Self.byteCount else {
            throw Self.damaged(path, "it ends inside its header")
        }
        let version = UInt16(bigEndianIn: bytes, at: 8)
        guard version == Self.version else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is encrypted in format \(version), but this version of Quire reads format "
                    + "\(Self.version); open it with a newer version, or restore it from a backup if it is damaged.",
                file: path)
        }
        let wrappedCount = Int(UInt16(bigEndianIn: bytes, at: 32))
        guard let fileProtection = FileProtection(code: bytes[10]), fileProtection != .none,
            wrappedCount == WrappedFileKey.wrappedCount(for: fileProtection),
            Int(bytes[11]) == SealedChunk.byteCount.trailingZeroBitCount,
            bytes[(34 + wrappedCount)..<Self.authenticatedByteCount].allSatisfy({ $0 == 0 })
        else { throw Self.damaged(path, "its header is not valid") }
        let file = bytes[16..<32].withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
        wrappedKey = WrappedFileKey(
            file: file, fileProtection: fileProtection, epoch: UInt32(bigEndianIn: bytes, at: 12),
            bytes: Data(bytes[34..<(34 + wrappedCount)]))
        self.bytes = bytes
        self.path = path
    }

    /// Whether a file that begins with these bytes has the magic number of sealed files.
    package static func isSealed(_ start: some Collection<UInt8>) -> Bool {
        start.starts(with: mark)
    }

    /// Verifies the header with the key.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if authentication fails, or `protectedDataUnavailable` if the key
    ///   was revoked.
    package func verify(with key: FileKey) throws {
        // Constant-time comparison.
        let isValid = try Self.withCodeKey(key, path) { key in
            HMAC<SHA256>.isValidAuthenticationCode(
                bytes[Self.authenticatedByteCount...],
                authenticating: bytes[..<Self.authenticatedByteCount], using: key)
        }
        guard isValid, key.file == wrappedKey.file else { throw Self.foreign(path) }
    }

    private static func withCodeKey<Result>(
        _ key: FileKey, _ path: String, _ body: (SymmetricKey) throws -> Result
    ) throws -> Result {
        try key.withDerivedKey("Quire sealed file header 1", path: path) { key in
            try wipingTraces { try body(key) }
        }
    }

    // MARK: - Errors

    /// The error of a file sealed with another key, which is indistinguishable from a damaged header.
    static func foreign(_ path: String, underlying: (any Error)? = nil) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(path)” was not encrypted with this document's keys, or its header is damaged; restore it from a backup.",
            file: path, underlying: underlying)
    }

    /// The error of a file that was changed or cut.
    static func damaged(_ path: String, _ what: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(path)” is damaged: \(what); restore it from a backup.", file: path)
    }
}

extension FixedWidthInteger {
    /// The number at an offset of bytes whose indices begin at 0, the greatest byte first.
    fileprivate init(bigEndianIn bytes: Data, at offset: Int) {
        self = bytes[offset..<(offset + MemoryLayout<Self>.size)].reduce(0) { $0 << 8 | Self($1) }
    }
}

extension FileKey {
    /// Passes a key derived from the file key to a closure; errors name the file.
    func withDerivedKey<Result>(
        _ purpose: String, path: String, _ body: (SymmetricKey) throws -> Result
    ) throws -> Result {
        do {
            return try withDerivedKey(purpose, body)
        } catch var error as QuireError where error.code == .protectedDataUnavailable {
            error.subject.file = error.subject.file ?? path
            throw error
        }
    }
}

// MARK: - Chunks

/// The chunks of a sealed file: STREAM, as in age.
///
/// Chunk *i* is sealed by AES-256-GCM with a dedicated key derived from the file key. Its nonce is *i* and a flag for the
/// last chunk, so that no chunk can be omitted, moved, duplicated, or appended. Every chunk but the last is full. The last is
/// not empty, unless the file is.
enum SealedChunk {
    /// The number of plaintext bytes of a full chunk.
    static let byteCount = 1 << 16
    /// The length of a full chunk in the file.
    static let sealedByteCount = byteCount + AuthenticatedEncryption.tagByteCount

    /// Seals one chunk. Both buffers may begin at the same address.
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

    /// Opens one chunk. Returns `false` if authentication fails.
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

    /// The key is unique to the file, so no additional data needs to be authenticated.
    private static var nothing: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: nil, count: 0)
    }

    /// A counter of 11 bytes, the greatest byte first, and a byte that is 1 for the last chunk.
    private static func nonce(_ number: Int64, _ isLast: Bool) -> [UInt8] {
        [0, 0, 0] + withUnsafeBytes(of: number.bigEndian) { Array($0) } + [isLast ? 1 : 0]
    }
}
