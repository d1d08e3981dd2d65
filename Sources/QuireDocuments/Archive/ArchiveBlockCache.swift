import Foundation
import Quire
import Synchronization

/// The blocks of an archive's files that were read last, and those that are being read.
final class ArchiveBlockCache: Sendable {
    private struct Key: Hashable {
        var member: Int
        var block: Int
    }

    /// More than ``ZipArchive`` reads ahead.
    private static let maximumCount = 16
    /// The last one is that used last.
    private let recent = Lock<[(key: Key, block: Block)]>([])

    /// A block, which may have to be read.
    func block(_ number: Int, ofMember member: Int) -> Block {
        recent.withLock { recent in
            let key = Key(member: member, block: number)
            if let index = recent.lastIndex(where: { $0.key == key }) {
                if index != recent.count - 1 { recent.append(recent.remove(at: index)) }
                return recent[recent.count - 1].block
            }
            return Self.add(key, to: &recent)
        }
    }

    /// A block to read ahead; `nil` if it was read, or is being read.
    func newBlock(_ number: Int, ofMember member: Int) -> Block? {
        recent.withLock { recent in
            let key = Key(member: member, block: number)
            if recent.contains(where: { $0.key == key }) { return nil }
            return Self.add(key, to: &recent)
        }
    }

    /// Forgets a block that could not be read, so that it is read again.
    func remove(_ block: Block) {
        recent.withLock { recent in recent.removeAll { $0.block === block } }
    }

    private static func add(_ key: Key, to recent: inout [(key: Key, block: Block)]) -> Block {
        if recent.count == maximumCount { recent.removeFirst() }
        let block = Block()
        recent.append((key, block))
        return block
    }
}

extension ArchiveBlockCache {
    /// The bytes of a block, which the first thread reads that gets to it.
    ///
    /// Unchecked because the result is only used under the condition's lock.
    final class Block: @unchecked Sendable {
        private let condition = NSCondition()
        private var result: Result<[UInt8], any Error>?
        private let isTaken = Atomic(false)

        /// The bytes, read by this thread unless another one has begun to.
        func value(_ bytes: () throws -> [UInt8]) throws -> [UInt8] {
            read(bytes)
            condition.lock()
            defer { condition.unlock() }
            while true {
                if let result { return try result.get() }
                condition.wait()
            }
        }

        /// Reads the bytes, unless another thread has begun to.
        func read(_ bytes: () throws -> [UInt8]) {
            if isTaken.exchange(true, ordering: .relaxed) { return }
            let result = Result(catching: bytes)
            condition.lock()
            self.result = result
            condition.broadcast()
            condition.unlock()
        }
    }
}
