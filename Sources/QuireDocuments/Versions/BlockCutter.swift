import Foundation
import Quire

/// Cuts a database into blocks, and writes those that there are not yet.
///
/// A block is a page. The digests of 128 pages in a row are a block again, a node: two databases that differ in some pages
/// differ in these and the nodes above them.
struct BlockCutter {
    static let digestsPerNode = 128
    private let store: BlockStore
    private var writer: BlockPackWriter?

    init(_ store: BlockStore) { self.store = store }

    /// Cuts a database that nobody has open.
    ///
    /// - Parameters:
    ///   - pageSize: The size of its pages, if it is sealed, so that its header does not say.
    ///   - progress: Told how many bytes have been cut.
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
                throw QuireError(.cancelled, "Cutting “\(path)” was cancelled.")
            }
        }
        if !node.isEmpty { try close(&node, into: &nodes) }
        return nodes
    }

    /// Makes what was written durable.
    ///
    /// - Returns: The size of the new file of blocks.
    func finish() throws -> Int64 { try writer?.finish() ?? 0 }

    private mutating func close(_ node: inout [UInt8], into nodes: inout Data) throws {
        nodes.append(contentsOf: try node.withUnsafeBytes { try put($0) }.bytes)
        node.removeAll(keepingCapacity: true)
    }

    private mutating func put(_ block: UnsafeRawBufferPointer) throws -> BlockDigest {
        let digest = BlockDigest(of: block)
        // Compared, so that a damaged block is written anew, which mends all versions that have it.
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
