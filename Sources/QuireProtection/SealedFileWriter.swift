package import Foundation
import QuireSystem

/// Writes a sealed file: its header, and its contents in chunks of 64 KiB.
///
/// A chunk's nonce is its number, so a key must be used for one file only: a file is never modified in place or appended to
/// later, and a writer that has failed stays failed, as the chunk sealed last may be on disk. Writing again requires a new
/// key.
///
/// A chunk is sealed once it is known whether another follows. One chunk is in memory.
package final class SealedFileWriter {
    private let key: FileKey
    private let path: String
    private let write: (UnsafeRawBufferPointer) throws -> Void
    /// The contents of the chunk that is being filled, and then the same chunk sealed.
    private var buffer = [UInt8](repeating: 0, count: SealedChunk.sealedByteCount)
    private var filled = 0
    private var nextChunk: Int64 = 0
    /// False from an error or the last chunk on.
    private var isOpen = true

    /// Writes the header.
    ///
    /// - Parameters:
    ///   - key: A key that has not been used before.
    ///   - wrappedKey: The wrapped form of the key.
    ///   - path: The path of the file, for errors.
    ///   - write: Writes the bytes of the sealed file, in order. The pointer must not escape.
    /// - Throws: Errors of `write`, or ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package init(
        key: FileKey, wrappedKey: WrappedFileKey, path: String,
        write: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        self.key = key
        self.path = path
        self.write = write
        let header = try SealedFileHeader(wrappedKey: wrappedKey, key: key, path: path)
        try header.bytes.withUnsafeBytes(write)
    }

    /// Appends to the contents.
    ///
    /// - Throws: Errors of `write`, or ``QuireError`` with code `protectedDataUnavailable` if the key was revoked; the file
    ///   is unusable then. `invalidState` after ``finish()`` or an error.
    package func append(_ bytes: UnsafeRawBufferPointer) throws {
        try checkIsOpen()
        var rest = bytes[...]
        while !rest.isEmpty {
            // Something follows, so no chunk that is sealed here is the last.
            if filled == SealedChunk.byteCount { try seal(nil, isLast: false) }
            if filled == 0, rest.count > SealedChunk.byteCount {
                let chunk = rest.prefix(SealedChunk.byteCount)
                try seal(UnsafeRawBufferPointer(rebasing: chunk), isLast: false)
                rest = rest.dropFirst(chunk.count)
            } else {
                let part = rest.prefix(SealedChunk.byteCount - filled)
                buffer.withUnsafeMutableBytes {
                    UnsafeMutableRawBufferPointer(rebasing: $0[filled...])
                        .copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
                }
                filled += part.count
                rest = rest.dropFirst(part.count)
            }
        }
    }

    /// Seals the last chunk. Without it the file counts as truncated, and does not open.
    ///
    /// - Throws: As ``append(_:)``.
    package func finish() throws {
        try checkIsOpen()
        try seal(nil, isLast: true)
        isOpen = false
    }

    /// Seals a chunk and writes it.
    ///
    /// - Parameter chunk: Its contents; those in the buffer if nil.
    private func seal(_ chunk: UnsafeRawBufferPointer?, isLast: Bool) throws {
        isOpen = false
        try buffer.withUnsafeMutableBytes { buffer in
            let plain = chunk ?? UnsafeRawBufferPointer(rebasing: buffer.prefix(filled))
            let sealed = UnsafeMutableRawBufferPointer(
                rebasing: buffer.prefix(plain.count + AuthenticatedEncryption.tagByteCount))
            try SealedChunk.seal(
                plain, number: nextChunk, isLast: isLast, key: key, path: path, into: sealed)
            try write(UnsafeRawBufferPointer(sealed))
        }
        filled = 0
        nextChunk += 1
        isOpen = true
    }

    private func checkIsOpen() throws {
        guard isOpen else {
            throw QuireError(
                .invalidState,
                "“\(path)” is already complete, or could not be written; nothing can be added. Write it again.",
                file: path)
        }
    }

    // MARK: - Whole files

    /// The length of the sealed file of contents.
    package static func sealedByteCount(of count: Int64) -> Int64 {
        let chunks = max(
            1, (count + Int64(SealedChunk.byteCount) - 1) / Int64(SealedChunk.byteCount))
        return Int64(SealedFileHeader.byteCount) + count
            + chunks * Int64(AuthenticatedEncryption.tagByteCount)
    }

    /// Seals contents in memory.
    ///
    /// - Parameters: As of ``init(key:wrappedKey:path:write:)``.
    /// - Returns: The sealed file.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the key was revoked.
    package static func seal(
        _ contents: Data, key: FileKey, wrappedKey: WrappedFileKey, path: String
    ) throws -> Data {
        var sealed = Data(capacity: Int(sealedByteCount(of: Int64(contents.count))))
        let writer = try SealedFileWriter(key: key, wrappedKey: wrappedKey, path: path) {
            sealed.append(contentsOf: $0)
        }
        try contents.withUnsafeBytes { try writer.append($0) }
        try writer.finish()
        return sealed
    }
}
