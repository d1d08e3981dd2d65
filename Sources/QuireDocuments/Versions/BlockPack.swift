import Crypto
import Foundation
import Quire

/// A block file, which never changes once it has its final name.
///
///     "QUIREBLK"  version: 1 as UInt64
///     block, block, …
///     for each block: SHA-256, offset as UInt64, length as UInt64
///     number of blocks as UInt64, SHA-256 of the index, "QUIREEND"
///
/// Numbers are little-endian. The file is untrusted: the index has a digest, its numbers are checked against the file's size,
/// and a block is compared with its digest when it is read.
final class BlockPack: Sendable {
    /// The position of a block.
    struct Entry: Sendable {
        var digest: BlockDigest
        var offset: Int64
        var length: Int
    }

    static let start = Array("QUIREBLK".utf8) + [1, 0, 0, 0, 0, 0, 0, 0]
    static let end = Array("QUIREEND".utf8)
    static let entrySize = BlockDigest.byteCount + 16
    static let footerSize = 8 + SHA256.byteCount + end.count
    /// The size of the longest block: the largest page of a database.
    static let maximumLength = 65_536

    let path: String
    /// The size of the file.
    let size: Int64
    let entries: [Entry]
    private let file: OpenFile

    /// Opens a block file and reads its index.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged, or errors of reading.
    init(_ path: String, beneath root: String) throws {
        self.path = path
        file = try OpenFile.open(path, beneath: root, for: .reading)
        size = try file.information().size
        func require(_ condition: Bool) throws {
            if !condition {
                throw QuireError(
                    .invalidFormat, "“\(path)”, which contains data of versions, is damaged.",
                    file: path)
            }
        }
        try require(size >= Int64(Self.start.count + Self.footerSize))
        try require(try file.read(Self.start.count, at: 0) == Self.start)
        let footer = try file.read(Self.footerSize, at: size - Int64(Self.footerSize))
        try require(Array(footer.suffix(Self.end.count)) == Self.end)
        let count = Self.number(footer, at: 0)
        let indexEnd = size - Int64(Self.footerSize)
        let (indexSize, overflow) = count.multipliedReportingOverflow(by: UInt64(Self.entrySize))
        try require(!overflow && indexSize <= UInt64(indexEnd) - UInt64(Self.start.count))
        let index = try file.read(Int(indexSize), at: indexEnd - Int64(indexSize))
        let digest = index.withUnsafeBytes { BlockDigest(of: $0) }
        try require(digest.bytes == Array(footer[8..<8 + SHA256.byteCount]))
        let blocksEnd = UInt64(indexEnd) - indexSize
        entries = try (0..<Int(count)).map { position in
            let place = position * Self.entrySize
            let offset = Self.number(index, at: place + BlockDigest.byteCount)
            let length = Self.number(index, at: place + BlockDigest.byteCount + 8)
            try require(length > 0 && length <= UInt64(Self.maximumLength))
            try require(offset >= UInt64(Self.start.count) && offset <= blocksEnd)
            try require(length <= blocksEnd - offset)
            return Entry(
                digest: index.withUnsafeBytes {
                    BlockDigest(
                        UnsafeRawBufferPointer(rebasing: $0[place..<place + BlockDigest.byteCount]))
                }, offset: Int64(offset), length: Int(length))
        }
    }

    /// The bytes of a block, or `nil` if they are damaged.
    func block(_ entry: Entry) -> [UInt8]? {
        guard let bytes = try? file.read(entry.length, at: entry.offset),
            bytes.withUnsafeBytes({ BlockDigest(of: $0) }) == entry.digest
        else { return nil }
        return bytes
    }

    /// Whether a block has these bytes.
    func holds(_ bytes: UnsafeRawBufferPointer, at entry: Entry) -> Bool {
        guard entry.length == bytes.count, let held = try? file.read(entry.length, at: entry.offset)
        else { return false }
        return held.withUnsafeBytes { held in
            guard let one = held.baseAddress, let other = bytes.baseAddress else { return false }
            return memcmp(one, other, bytes.count) == 0
        }
    }

    private static func number(_ bytes: [UInt8], at place: Int) -> UInt64 {
        bytes.withUnsafeBytes {
            UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
    }
}

/// Writes a block file, which is durable and gets its final name when it is finished. An unfinished one leaves a temporary file
/// only if the process is killed.
final class BlockPackWriter {
    private let path: String
    private let root: String
    private let temporary: String
    private let file: OpenFile
    private let cleanup: Int
    private var buffer = [UInt8](repeating: 0, count: 1 << 20)
    private var filled = 0
    private var position: Int64 = 0
    private var index: [UInt8] = []
    private var isFinished = false
    /// The blocks that have been written.
    private(set) var digests: Set<BlockDigest> = []

    /// Begins a file.
    init(_ path: String, beneath root: String) throws {
        self.path = path
        self.root = root
        temporary = FileSystem.temporarySibling(of: path, for: "new")
        file = try OpenFile.open(temporary, beneath: root, for: .creating, reportedAs: path)
        cleanup = TerminationCleanup.add { [temporary] in
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
        }
        // Pages must be as private here as in the store.
        let store = DocumentPackageLayout(path: root).store
        if let information = try FileSystem.information(at: store, beneath: root) {
            try file.setPermissionsIfPossible(information.permissions & 0o777 | 0o600)
        }
        try write(BlockPack.start)
    }

    deinit {
        TerminationCleanup.remove(cleanup)
        if !isFinished { _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root) }
    }

    func append(_ block: UnsafeRawBufferPointer, _ digest: BlockDigest) throws {
        guard digests.insert(digest).inserted else { return }
        index += digest.bytes
        index.append(littleEndian: UInt64(position))
        index.append(littleEndian: UInt64(block.count))
        try write(block)
    }

    /// Finishes the file, unless it contains no block.
    ///
    /// - Returns: Its size; 0 if there is no file.
    func finish() throws -> Int64 {
        if digests.isEmpty { return 0 }
        let digest = index.withUnsafeBytes { BlockDigest(of: $0) }
        try write(index)
        var footer: [UInt8] = []
        footer.append(littleEndian: UInt64(digests.count))
        try write(footer + digest.bytes + BlockPack.end)
        try flush()
        try file.synchronize()
        let size = try file.information().size
        try TerminationCleanup.uninterrupted {
            try FileSystem.renameWithoutReplacing(temporary, to: path, beneath: root)
        }
        isFinished = true
        try FileSystem.synchronizeFolder(containing: path, beneath: root)
        return size
    }

    private func write(_ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { try write($0) } }

    private func write(_ bytes: UnsafeRawBufferPointer) throws {
        if filled + bytes.count > buffer.count { try flush() }
        if bytes.count > buffer.count {
            try file.write(bytes)
        } else {
            buffer.withUnsafeMutableBytes {
                UnsafeMutableRawBufferPointer(rebasing: $0[filled...]).copyMemory(from: bytes)
            }
            filled += bytes.count
        }
        position += Int64(bytes.count)
    }

    private func flush() throws {
        try buffer.withUnsafeBytes {
            try file.write(UnsafeRawBufferPointer(rebasing: $0[..<filled]))
        }
        filled = 0
    }
}
