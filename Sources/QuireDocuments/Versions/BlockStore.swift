import Crypto
import Foundation
import Quire

/// The blocks of all versions of a package, each stored once: the block files, and an index of which file contains which
/// block.
struct BlockStore {
    /// The folder of the files.
    let folder: String
    /// The package, which no path may leave.
    private let root: String
    private(set) var packs: [BlockPack] = []
    /// Files that cannot be read.
    private(set) var damaged: [QuireError] = []
    private var places: [BlockDigest: (pack: Int, entry: Int)] = [:]
    private var lastNumber = 0

    /// Reads the list of blocks, which may be empty.
    init(of layout: DocumentPackageLayout) throws {
        folder = layout.versionBlocks
        root = layout.path
        // A writer may merge several files into one and remove them meanwhile.
        for attempt in 1...5 {
            do {
                try load(mayMiss: attempt == 5)
                return
            } catch let error as QuireError where error.code == .notFound { continue }
        }
    }

    private mutating func load(mayMiss: Bool) throws {
        packs = []
        damaged = []
        places = [:]
        guard FileSystem.exists(folder, beneath: root) else { return }
        let numbers = try FileSystem.names(in: folder, beneath: root).compactMap(Self.number)
            .sorted()
        lastNumber = numbers.last ?? 0
        for number in numbers {
            do {
                add(try BlockPack(FileSystem.path(folder, Self.name(number)), beneath: root))
            } catch let error as QuireError where error.code == .notFound && !mayMiss {
                throw error
            } catch let error as QuireError {
                damaged.append(error)
            }
        }
    }

    private mutating func add(_ pack: BlockPack) {
        // If two files have a block, the later one is right: it was written because the other copy was damaged.
        for (position, entry) in pack.entries.enumerated() {
            places[entry.digest] = (packs.count, position)
        }
        packs.append(pack)
    }

    /// The bytes of a block, or `nil` if it is missing or damaged.
    func block(_ digest: BlockDigest) -> [UInt8]? {
        guard let place = places[digest] else { return nil }
        return packs[place.pack].block(packs[place.pack].entries[place.entry])
    }

    /// Whether a block exists, sound or not.
    func contains(_ digest: BlockDigest) -> Bool { places[digest] != nil }

    /// Whether a block with these bytes exists.
    func holds(_ bytes: UnsafeRawBufferPointer, _ digest: BlockDigest) -> Bool {
        guard let place = places[digest] else { return false }
        return packs[place.pack].holds(bytes, at: packs[place.pack].entries[place.entry])
    }

    /// Begins a new file.
    func makeWriter() throws -> BlockPackWriter {
        let (number, overflow) = lastNumber.addingReportingOverflow(1)
        guard !overflow else {
            throw QuireError(
                .invalidFormat,
                "“\(folder)” already contains the file with the highest number; remove files that are not part of the document.",
                file: folder)
        }
        return try BlockPackWriter(FileSystem.path(folder, Self.name(number)), beneath: root)
    }

    /// Removes files without needed blocks, and moves the needed blocks of files that are mostly unneeded into a new file.
    /// Requires the package's lock.
    mutating func removeBlocks(except needed: Set<BlockDigest>) throws {
        var removed: [BlockPack] = []
        var moved: [BlockPack.Entry] = []
        for (number, pack) in packs.enumerated() {
            var live: [BlockPack.Entry] = []
            for (position, entry) in pack.entries.enumerated() where needed.contains(entry.digest) {
                guard let place = places[entry.digest] else { continue }
                if place == (number, position) { live.append(entry) }
            }
            let liveSize = live.reduce(0) { $0 + Int64($1.length) }
            if liveSize * 2 > pack.size { continue }
            removed.append(pack)
            moved += live
        }
        if removed.isEmpty { return }
        if !moved.isEmpty {
            // Not worth rewriting a file to remove a few blocks.
            let gain =
                removed.reduce(0) { $0 + $1.size } - moved.reduce(0) { $0 + Int64($1.length) }
            if gain < Self.minimumGain { return try removeUnneeded(removed, needed) }
            let writer = try makeWriter()
            for entry in moved {
                // A damaged block is dropped: it cannot be recovered.
                guard let bytes = block(entry.digest) else { continue }
                try bytes.withUnsafeBytes { try writer.append($0, entry.digest) }
            }
            _ = try writer.finish()
        }
        for pack in removed { try FileSystem.removeFileIfPresent(pack.path, beneath: root) }
        try load(mayMiss: true)
    }

    /// Removes those of the given files that contain no needed block.
    private mutating func removeUnneeded(
        _ packs: [BlockPack], _ needed: Set<BlockDigest>
    ) throws {
        for pack in packs where !pack.entries.contains(where: { needed.contains($0.digest) }) {
            try FileSystem.removeFileIfPresent(pack.path, beneath: root)
        }
        try load(mayMiss: true)
    }

    private static let minimumGain: Int64 = 65_536

    private static func name(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(8 - digits.count, 0)) + digits + ".blocks"
    }

    private static func number(_ name: String) -> Int? {
        guard name.hasSuffix(".blocks"), let number = Int(name.dropLast(7)), number > 0,
            Self.name(number) == name
        else { return nil }
        return number
    }
}

// MARK: - Digests

/// The SHA-256 of a block, which identifies it.
struct BlockDigest: Hashable, Sendable {
    static let byteCount = 32
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Reads a digest.
    ///
    /// - Precondition: `bytes` has 32 bytes.
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

    /// The digests in a sequence of bytes.
    static func list(_ bytes: [UInt8]) -> [BlockDigest] {
        bytes.withUnsafeBytes { buffer in
            stride(from: 0, to: buffer.count - byteCount + 1, by: byteCount).map {
                BlockDigest(UnsafeRawBufferPointer(rebasing: buffer[$0..<$0 + byteCount]))
            }
        }
    }
}

// MARK: - Blocks of a file

/// Cuts a database into blocks, and writes those that are new.
///
/// A block is a page. The digests of 128 consecutive pages form another block, a node: databases that differ in some pages
/// differ only in these and the nodes above them.
struct PageChunker {
    static let digestsPerNode = 128
    private let store: BlockStore
    private var writer: BlockPackWriter?

    init(_ store: BlockStore) { self.store = store }

    /// Cuts a database that is not open.
    ///
    /// - Parameters:
    ///   - pageSize: The page size of a sealed database, whose header cannot be read.
    ///   - progress: Counts the bytes that have been cut.
    /// - Returns: The digests of the nodes.
    mutating func cut(_ path: String, pageSize: Int? = nil, progress: Progress?) throws -> Data {
        let file = try OpenFile.open(path, for: .reading)
        let size = try file.information().size
        let length = try pageSize ?? Self.blockSize(of: file, size: size)
        var nodes = Data()
        var node: [UInt8] = []
        var position: Int64 = 0
        while position < size {
            let count = Int(min(size - position, Int64(length * 64)))
            let bytes = try file.read(count, at: position)
            for start in stride(from: 0, to: count, by: length) {
                let end = min(start + length, count)
                node += try bytes.withUnsafeBytes {
                    try put(UnsafeRawBufferPointer(rebasing: $0[start..<end])).bytes
                }
                if node.count == Self.digestsPerNode * BlockDigest.byteCount {
                    try close(&node, into: &nodes)
                }
            }
            position += Int64(count)
            progress?.completedUnitCount = position
            if progress?.isCancelled == true {
                throw QuireError(.cancelled, "Splitting “\(path)” into blocks was cancelled.")
            }
        }
        if !node.isEmpty { try close(&node, into: &nodes) }
        return nodes
    }

    /// Makes the written blocks durable.
    ///
    /// - Returns: The size of the new block file.
    func finish() throws -> Int64 { try writer?.finish() ?? 0 }

    private mutating func close(_ node: inout [UInt8], into nodes: inout Data) throws {
        nodes.append(contentsOf: try node.withUnsafeBytes { try put($0) }.bytes)
        node.removeAll(keepingCapacity: true)
    }

    private mutating func put(_ block: UnsafeRawBufferPointer) throws -> BlockDigest {
        let digest = BlockDigest(of: block)
        // Compares the bytes, so that a damaged block is written again, which repairs all versions that use it.
        if writer?.digests.contains(digest) != true, !store.holds(block, digest) {
            if writer == nil { writer = try store.makeWriter() }
            try writer?.append(block, digest)
        }
        return digest
    }

    /// The size of the database's pages.
    private static func blockSize(of file: OpenFile, size: Int64) throws -> Int {
        guard size >= 100 else { return 4096 }
        let header = try file.read(2, at: 16)
        let pageSize = Int(header[0]) << 8 | Int(header[1])
        return pageSize == 1 ? 65_536 : max(pageSize, 4096)
    }
}
