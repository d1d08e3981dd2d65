package import Foundation
package import QuireSystem

/// A possibly protected file, open for reading: provides the plaintext of a file that is sealed if there is a class key. See
/// ``SealedFileReader``.
///
/// With a class key every file must be sealed. An unsealed one is an error: it was not written with the key.
package final class ContentFile: Sendable {
    /// The file as it is on disk.
    package let file: OpenFile
    private let sealed: SealedFileReader?

    /// - Parameters:
    ///   - file: A file, open for reading.
    ///   - classKey: The class key that unwraps the file key; `nil` if the file is not sealed.
    /// - Throws: ``QuireError`` with code `invalidFormat` if authentication fails, `protectedDataUnavailable`, or errors of
    ///   reading.
    package init(_ file: OpenFile, unsealing classKey: ClassKey?) throws {
        self.file = file
        sealed = try classKey.map { classKey in
            try SealedFileReader(
                byteCount: file.information().size, path: file.path,
                readBytes: { try file.read(into: $0, at: $1) },
                unwrap: { try classKey.fileKey(for: $0) })
        }
    }

    /// Whether its plaintext is what a descriptor of it reads: it is neither sealed nor in an archive.
    package var hasPlainDescriptor: Bool { sealed == nil && !file.isArchived }

    /// The number of bytes of plaintext.
    package var count: Int64 {
        get throws { try sealed?.count ?? file.information().size }
    }

    /// Reads as many bytes as the buffer holds, or as there are.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        if let sealed { return try sealed.read(into: buffer, at: offset) }
        return try file.read(into: buffer, at: offset)
    }

    /// Reads everything.
    package func readAll() throws -> Data {
        var bytes = Data(count: Int(clamping: try count))
        let found = try bytes.withUnsafeMutableBytes { try self.read(into: $0, at: 0) }
        if found < bytes.count { bytes.count = found }
        return bytes
    }

    /// Calls a closure with all bytes, block by block.
    package func forEachBlock(
        ofSize size: Int = 1 << 20, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        defer { block.deallocate() }
        var offset: Int64 = 0
        while true {
            let count = try read(into: block, at: offset)
            if count > 0 { try body(UnsafeRawBufferPointer(rebasing: block[..<count])) }
            if count < block.count { return }
            offset += Int64(count)
        }
    }

    /// A separate open file at offset 0, for programs that take a descriptor: the same file, or the plaintext in memory, so that no
    /// file on disk has that of a sealed one in clear.
    package func openedInClear() throws -> OpenFile {
        if hasPlainDescriptor { return try file.reopened() }
        let copy = try OpenFile.inMemory(named: FileSystem.name(of: file.path))
        try forEachBlock { try copy.write($0) }
        return try copy.reopened()
    }

    /// Closes the file. Nothing can be read afterwards.
    package func close() { file.close() }

    /// The number of bytes of a file's plaintext.
    package static func count(of information: FileInformation, sealed: Bool) -> Int64 {
        sealed ? SealedFileReader.count(ofByteCount: information.size) : information.size
    }
}

/// Writes a new, possibly protected file: it is sealed if there is a class key.
///
/// Thread-safe; concurrent writes are unordered. Unchecked because every use of the sealed file's writer is under the lock.
package final class ContentFileWriter: @unchecked Sendable {
    private let file: OpenFile
    private let sealed: SealedFileWriter?
    private let lock = NSLock()

    /// - Parameters:
    ///   - file: An empty file, open for writing.
    ///   - classKey: The class key that creates the file key; `nil` for an unsealed file.
    package init(_ file: OpenFile, sealing classKey: ClassKey?) throws {
        self.file = file
        sealed = try classKey.map { classKey in
            let made = try classKey.makeFileKey()
            return try SealedFileWriter(
                key: made.key, wrappedKey: made.wrapped, path: file.path,
                write: { try file.write($0) })
        }
    }

    /// Adds bytes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws {
        guard let sealed else { return try file.write(bytes) }
        try lock.withLock { try sealed.append(bytes) }
    }

    /// Writes the end of the file, and synchronizes it.
    package func finish() throws {
        try lock.withLock { try sealed?.finish() }
        try file.synchronize()
    }
}

extension ClassKey {
    /// Bytes in the form of a sealed file, with a new file key.
    package func sealed(_ data: Data, path: String) throws -> Data {
        let made = try makeFileKey()
        return try SealedFileWriter.seal(
            data, key: made.key, wrappedKey: made.wrapped, path: path)
    }

    /// The bytes that are in a sealed file.
    package func unsealed(_ data: Data, path: String) throws -> Data {
        try SealedFileReader.open(data, path: path) { try fileKey(for: $0) }
    }
}
