package import Foundation
package import QuireSystem

/// A file of something that may be protected, open for reading: gives what was written, which on disk is sealed if there is
/// a class key. See ``SealedFileReader``.
///
/// With a class key every file must be sealed. An unsealed one is an error: it was written without the key.
package final class ContentFile: Sendable {
    /// The file as it is on disk.
    package let file: OpenFile
    private let sealed: SealedFileReader?

    /// - Parameters:
    ///   - file: A file, open for reading.
    ///   - classKey: What unwraps its key; `nil` if it is not sealed.
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not what was sealed, `protectedDataUnavailable`, or what
    ///   reading throws.
    package init(_ file: OpenFile, unsealing classKey: ClassKey?) throws {
        self.file = file
        sealed = try classKey.map { classKey in
            try SealedFileReader(
                byteCount: file.information().size, path: file.path,
                readBytes: { try file.read(into: $0, at: $1) },
                unwrap: { try classKey.fileKey(for: $0) })
        }
    }

    /// Whether it is sealed on disk.
    package var isSealed: Bool { sealed != nil }

    /// The number of bytes of what was written.
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

    /// A file of its own at the first byte, for programs that take a descriptor: the same file, or what is sealed in it in
    /// memory, so that no file on a disk has it in clear.
    package func openedInClear() throws -> OpenFile {
        guard isSealed else { return try file.reopened() }
        let copy = try OpenFile.inMemory(named: FileSystem.name(of: file.path))
        try forEachBlock { try copy.write($0) }
        return try copy.reopened()
    }

    /// Closes the file. Nothing can be read afterwards.
    package func close() { file.close() }

    /// The number of bytes of what was written into a file.
    package static func count(of information: FileInformation, sealed: Bool) -> Int64 {
        sealed ? SealedFileReader.count(ofByteCount: information.size) : information.size
    }
}

/// Writes a new file of something that may be protected: what is given, which on disk is sealed if there is a class key.
///
/// May be used from any thread; what is written at once comes in any order. Unchecked because the lock is around every use
/// of the writer of a sealed file.
package final class ContentFileWriter: @unchecked Sendable {
    private let file: OpenFile
    private let sealed: SealedFileWriter?
    private let lock = NSLock()

    /// - Parameters:
    ///   - file: An empty file, open for writing.
    ///   - classKey: What makes its key; `nil` if it is not to be sealed.
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

    /// Writes what ends the file, and synchronizes it.
    package func finish() throws {
        try lock.withLock { try sealed?.finish() }
        try file.synchronize()
    }
}

extension ClassKey {
    /// Bytes as a sealed file has them, with a key of their own.
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
