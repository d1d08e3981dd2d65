/// Memory for the texts and bytes of one row while its statement runs.
///
/// A value is copied once into memory that is used again for every row, instead of into a block that the library
/// would allocate for each value.
package final class SQLiteBindingArena {
    @exclusivity(unchecked) private var blocks: [UnsafeMutableRawBufferPointer] = []
    @exclusivity(unchecked) private var block = 0
    @exclusivity(unchecked) private var used = 0

    private static let blockSize = 64 * 1024

    package init() {
        blocks = [.allocate(byteCount: Self.blockSize, alignment: 16)]
    }

    deinit { for block in blocks { block.deallocate() } }

    /// Forgets what was placed. Called when the statement has run.
    @inline(__always)
    package func reset() {
        used = 0
        if block > 0 { dropBlocks() }
    }

    private func dropBlocks() {
        for block in blocks.dropFirst() { block.deallocate() }
        blocks.removeLast(blocks.count - 1)
        block = 0
    }

    /// Room for some bytes, which stays where it is until the arena is reset. Its address is never missing.
    @inline(__always)
    func allocate(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if used + count > blocks[block].count { addBlock(count) }
        let room = UnsafeMutableRawBufferPointer(rebasing: blocks[block][used..<used + count])
        used += count
        guard room.baseAddress == nil else { return room }
        return UnsafeMutableRawBufferPointer(start: blocks[block].baseAddress, count: 0)
    }

    private func addBlock(_ count: Int) {
        blocks.append(.allocate(byteCount: max(count, Self.blockSize), alignment: 16))
        block = blocks.count - 1
        used = 0
    }

    /// Places bytes.
    @inline(__always)
    package func place(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let room = allocate(bytes.count)
        room.copyMemory(from: bytes)
        return UnsafeRawBufferPointer(room)
    }
}
