package import Foundation
import QuireSystem

/// Reads a sealed file with random access.
///
/// Returns authenticated plaintext only: each chunk is authenticated with its position before any of it is returned. The
/// header and the last chunk are opened first, so that truncation or extension is detected before anything is read; other
/// chunks are checked when they are read. Replay of an older version of the whole file is not detected.
///
/// It caches the chunk opened last. Thread-safe.
package final class SealedFileReader: Sendable {
    /// Fills a buffer from an offset in the sealed file. Returns the number of bytes: fewer only at the end of the file.
    package typealias ReadBytes = @Sendable (UnsafeMutableRawBufferPointer, Int64) throws -> Int

    /// The length of the contents.
    package let count: Int64
    /// The header, which was verified.
    package let header: SealedFileHeader
    private let path: String
    private let key: FileKey
    private let chunkCount: Int64
    private let readBytes: ReadBytes
    private let buffers: Lock<Buffers>

    private struct Buffers: Sendable {
        /// A chunk as it is in the file.
        var sealed: [UInt8]
        /// The contents of the chunk that is ``number``.
        var plain: [UInt8]
        /// The chunk that was opened last, if any.
        var number: Int64?
    }

    /// Opens a sealed file.
    ///
    /// - Parameters:
    ///   - byteCount: The size of the file.
    ///   - path: Its path, for errors.
    ///   - readBytes: Reads from the file.
    ///   - unwrap: Unwraps the key, given the unverified header.
    /// - Throws: Errors of `readBytes`, or ``QuireError`` with code `invalidFormat` if the file is damaged, truncated, or
    ///   sealed with other keys, or `protectedDataUnavailable` if the key is not available now.
    package init(
        byteCount: Int64, path: String, readBytes: @escaping ReadBytes,
        unwrap: (WrappedFileKey) throws -> FileKey
    ) throws {
        self.path = path
        self.readBytes = readBytes
        var start = [UInt8](
            repeating: 0, count: Int(max(0, min(byteCount, Int64(SealedFileHeader.byteCount)))))
        let startCount = try start.withUnsafeMutableBytes { try readBytes($0, 0) }
        header = try SealedFileHeader(parsing: start.prefix(startCount), path: path)

        let chunks = byteCount - Int64(SealedFileHeader.byteCount)
        let fullCount = Int64(SealedChunk.sealedByteCount)
        let tagCount = Int64(AuthenticatedEncryption.tagByteCount)
        chunkCount = Self.chunkCount(ofByteCount: byteCount)
        count = Self.count(ofByteCount: byteCount)
        // Only an empty file has an empty chunk.
        let lastCount = chunks - (chunkCount - 1) * fullCount
        guard lastCount >= tagCount + (chunkCount > 1 ? 1 : 0) else {
            throw SealedFileHeader.damaged(path, "it ends inside chunk \(chunkCount)")
        }
        let size = Int(min(chunks, fullCount))
        buffers = Lock(
            Buffers(
                sealed: [UInt8](repeating: 0, count: size),
                plain: [UInt8](repeating: 0, count: size - Int(tagCount))))

        key = try Self.key(of: header, path: path, unwrap: unwrap)
        try header.verify(with: key)
        try buffers.withLock { try load(chunkCount - 1, &$0) }
    }

    /// Reads into a buffer.
    ///
    /// - Parameters:
    ///   - buffer: The destination. Its contents are undefined after an error.
    ///   - offset: An offset in the contents, not negative.
    /// - Returns: The number of bytes: fewer than the buffer holds only at the end of the contents.
    /// - Throws: As ``init(byteCount:path:readBytes:unwrap:)``; `protectedDataUnavailable` if the key was revoked meanwhile.
    /// - Complexity: O(*n*) in the chunks touched.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        precondition(offset >= 0, "SealedFileReader: the offset \(offset) is negative.")
        guard offset < count else { return 0 }
        let wanted = Int(min(Int64(buffer.count), count - offset))
        try buffers.withLock { buffers in
            var done = 0
            while done < wanted {
                let position = offset + Int64(done)
                let number = position / Int64(SealedChunk.byteCount)
                let start = Int(position % Int64(SealedChunk.byteCount))
                let size = plainCount(of: number)
                let part = min(size - start, wanted - done)
                let target = UnsafeMutableRawBufferPointer(rebasing: buffer[done..<(done + part)])
                if part == size, buffers.number != number {
                    try open(number, into: target, sealed: &buffers.sealed)
                } else {
                    try load(number, &buffers)
                    buffers.plain.withUnsafeBytes {
                        target.copyMemory(
                            from: UnsafeRawBufferPointer(rebasing: $0[start..<(start + part)]))
                    }
                }
                done += part
            }
        }
        return wanted
    }

    /// Reads bytes: fewer than requested only at the end of the contents.
    ///
    /// - Throws: As ``read(into:at:)``.
    package func read(_ count: Int, at offset: Int64) throws -> Data {
        precondition(count >= 0, "SealedFileReader: the count \(count) is negative.")
        var bytes = Data(count: Int(max(0, min(Int64(count), self.count - offset))))
        // The count does not change, so all of it is read.
        _ = try bytes.withUnsafeMutableBytes { try read(into: $0, at: offset) }
        return bytes
    }

    /// The plaintext length for the size of an intact sealed file; never negative.
    package static func count(ofByteCount byteCount: Int64) -> Int64 {
        max(
            0,
            byteCount - Int64(SealedFileHeader.byteCount)
                - chunkCount(ofByteCount: byteCount) * Int64(AuthenticatedEncryption.tagByteCount))
    }

    // MARK: - Chunks

    private static func chunkCount(ofByteCount byteCount: Int64) -> Int64 {
        let chunks = max(0, byteCount - Int64(SealedFileHeader.byteCount))
        let fullCount = Int64(SealedChunk.sealedByteCount)
        return max(1, chunks / fullCount + (chunks % fullCount == 0 ? 0 : 1))
    }

    private func plainCount(of number: Int64) -> Int {
        number < chunkCount - 1
            ? SealedChunk.byteCount : Int(count - number * Int64(SealedChunk.byteCount))
    }

    /// Loads a chunk into the cache, unless it is there.
    private func load(_ number: Int64, _ buffers: inout Buffers) throws {
        if buffers.number == number, key.isAvailable { return }
        buffers.number = nil
        let size = plainCount(of: number)
        do {
            try buffers.plain.withUnsafeMutableBytes {
                try open(
                    number, into: UnsafeMutableRawBufferPointer(rebasing: $0.prefix(size)),
                    sealed: &buffers.sealed)
            }
        } catch {
            // Contents that may not be read any more.
            buffers.plain.withUnsafeMutableBytes {
                _ = $0.initializeMemory(as: UInt8.self, repeating: 0)
            }
            throw error
        }
        buffers.number = number
    }

    private func open(
        _ number: Int64, into plain: UnsafeMutableRawBufferPointer, sealed: inout [UInt8]
    ) throws {
        let isLast = number == chunkCount - 1
        let size = plain.count + AuthenticatedEncryption.tagByteCount
        let offset =
            Int64(SealedFileHeader.byteCount) + number * Int64(SealedChunk.sealedByteCount)
        let chunk = "chunk \(number + 1) of \(chunkCount)"
        try sealed.withUnsafeMutableBytes { buffer in
            let sealed = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(size))
            guard try readBytes(sealed, offset) == size else {
                throw SealedFileHeader.damaged(path, "it ends inside \(chunk)")
            }
            let isRight = try SealedChunk.open(
                UnsafeRawBufferPointer(sealed), number: number, isLast: isLast, key: key,
                path: path, into: plain)
            guard isRight else {
                throw SealedFileHeader.damaged(
                    path, "\(chunk) was changed" + (isLast ? ", or the file was truncated" : ""))
            }
        }
    }

    private static func key(
        of header: SealedFileHeader, path: String, unwrap: (WrappedFileKey) throws -> FileKey
    ) throws -> FileKey {
        do {
            return try unwrap(header.wrappedKey)
        } catch var error as QuireError where error.code != .wrongKey {
            error.subject.file = error.subject.file ?? path
            throw error
        } catch {
            throw SealedFileHeader.foreign(path, underlying: error)
        }
    }

    // MARK: - Whole files

    /// Opens a sealed file in memory.
    ///
    /// - Returns: Its authenticated contents.
    /// - Throws: As ``init(byteCount:path:readBytes:unwrap:)``.
    package static func open(
        _ sealed: Data, path: String, unwrap: (WrappedFileKey) throws -> FileKey
    ) throws -> Data {
        let reader = try SealedFileReader(
            byteCount: Int64(sealed.count), path: path,
            readBytes: { buffer, offset in
                let rest = sealed.dropFirst(Int(offset)).prefix(buffer.count)
                rest.withUnsafeBytes { buffer.copyMemory(from: $0) }
                return rest.count
            }, unwrap: unwrap)
        return try reader.read(Int(reader.count), at: 0)
    }
}
