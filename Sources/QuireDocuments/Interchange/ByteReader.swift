package import Foundation

/// Bytes that are read forwards, a block at a time, so that a file of any size can be read in little memory.
package struct ByteReader {
    private var block: [UInt8]
    private var position = 0
    private let nextBlock: () throws -> [UInt8]

    /// Reads bytes that are in memory.
    package init(_ data: Data) {
        block = Array(data)
        nextBlock = { [] }
    }

    /// Reads blocks that a closure gives, until one is empty.
    package init(blocks nextBlock: @escaping () throws -> [UInt8]) {
        block = []
        self.nextBlock = nextBlock
    }

    /// The next byte, which stays the next; `nil` at the end.
    package mutating func peek() throws -> UInt8? {
        if position < block.count { return block[position] }
        block = try nextBlock()
        position = 0
        return block.first
    }

    /// Takes the byte that was peeked at.
    package mutating func skip() { position += 1 }

    /// Takes a byte order mark, if there is one here.
    package mutating func skipByteOrderMark() throws {
        while block.count - position < 3 {
            let more = try nextBlock()
            if more.isEmpty { break }
            block = block[position...] + more
            position = 0
        }
        if block[position...].starts(with: [0xEF, 0xBB, 0xBF]) { position += 3 }
    }
}
