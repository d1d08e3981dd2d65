internal import Foundation
internal import Quire

/// The segments that a replica has merged, by peer.
///
/// It need not be whole: a segment that is damaged or late does not keep others from being merged.
struct SyncVector: Hashable, Sendable {
    private(set) var ranges: [SyncIdentifier: RangeSet<Int64>] = [:]

    func contains(_ peer: SyncIdentifier, _ sequence: Int64) -> Bool {
        ranges[peer]?.contains(sequence) ?? false
    }

    func contains(_ version: SyncVersion) -> Bool { contains(version.peer, version.sequence) }

    mutating func insert(_ peer: SyncIdentifier, _ sequence: Int64) {
        insert(peer, sequence..<(sequence + 1))
    }

    mutating func insert(_ peer: SyncIdentifier, _ range: Range<Int64>) {
        ranges[peer, default: RangeSet()].insert(contentsOf: range)
    }

    /// Whether it has all segments of another vector.
    func contains(_ other: SyncVector) -> Bool {
        other.ranges.allSatisfy { peer, set in ranges[peer]?.isSuperset(of: set) ?? set.isEmpty }
    }

    mutating func formUnion(_ other: SyncVector) {
        for (peer, set) in other.ranges { ranges[peer, default: RangeSet()].formUnion(set) }
    }

    mutating func remove(_ peer: SyncIdentifier, _ sequence: Int64) {
        ranges[peer]?.remove(contentsOf: sequence..<(sequence + 1))
    }

    /// Removes all segments of a peer.
    mutating func remove(_ peer: SyncIdentifier) { ranges[peer] = nil }

    /// The segments that both have.
    func intersection(_ other: SyncVector) -> SyncVector {
        var common = SyncVector()
        for (peer, set) in ranges {
            guard let otherSet = other.ranges[peer] else { continue }
            let both = set.intersection(otherSet)
            if !both.isEmpty { common.ranges[peer] = both }
        }
        return common
    }

    /// The segments that another vector has not.
    func subtracting(_ other: SyncVector) -> SyncVector {
        var rest = self
        for (peer, set) in other.ranges { rest.ranges[peer]?.subtract(set) }
        return rest
    }

    /// The number of segments of a peer; at most 2³², which files may lie about.
    func count(of peer: SyncIdentifier) -> Int {
        min(ranges[peer]?.ranges.reduce(0) { $0 + min($1.count, 1 << 32) } ?? 0, 1 << 32)
    }

    func encode(to writer: inout SyncByteWriter) {
        writer.unsigned(UInt64(ranges.count))
        for (peer, set) in ranges.sorted(by: { $0.key < $1.key }) {
            writer.identifier(peer)
            writer.unsigned(UInt64(set.ranges.count))
            for range in set.ranges {
                writer.unsigned(UInt64(range.lowerBound))
                writer.unsigned(UInt64(range.upperBound - range.lowerBound))
            }
        }
    }

    init() {}

    /// All segments of a peer up to one.
    init(_ peer: SyncIdentifier, through sequence: Int64) {
        insert(peer, 1..<max(sequence + 1, 1))
    }

    init(from reader: inout SyncByteReader) throws {
        for _ in 0..<(try reader.count()) {
            let peer = try reader.identifier()
            for _ in 0..<(try reader.count()) {
                let start = try reader.unsigned()
                let count = try reader.unsigned()
                guard start < 1 << 61, count > 0, count < 1 << 61 else {
                    throw reader.damage("a range of segments is not valid")
                }
                insert(peer, Int64(start)..<Int64(start + count))
            }
        }
    }
}

/// A replica, as its last segment that is known describes it.
struct SyncPeer: Hashable, Sendable {
    let id: SyncIdentifier
    /// The number of its last segment that is known.
    var sequence: Int64
    /// The peer's clock when it wrote that.
    var time: UInt64
    /// The segments that it had merged then, and that one.
    var seen: SyncVector
    /// The segments whose deletions it had forgotten then, or may have.
    var forgotten: SyncVector
    /// Whether it has left, or somebody has retired it: then nobody waits for it.
    var isRetired = false

    /// Takes over what is known of it from later segments.
    mutating func merge(_ other: SyncPeer) {
        if other.sequence > sequence {
            (sequence, time) = (other.sequence, other.time)
            (seen, forgotten) = (other.seen, other.forgotten)
        }
        isRetired = isRetired || other.isRetired
    }

    func encode(to writer: inout SyncByteWriter) {
        writer.identifier(id)
        writer.unsigned(UInt64(sequence))
        writer.unsigned(time)
        writer.byte(isRetired ? 1 : 0)
        seen.encode(to: &writer)
        forgotten.encode(to: &writer)
    }
}

extension SyncPeer {
    init(from reader: inout SyncByteReader) throws {
        let id = try reader.identifier()
        let (sequence, time) = (try reader.unsigned(), try reader.unsigned())
        guard sequence < 1 << 61, time <= SyncClock.maximum else {
            throw reader.damage("the number or time of a peer is out of range")
        }
        let isRetired = try reader.byte() == 1
        self.init(
            id: id, sequence: Int64(sequence), time: time, seen: try SyncVector(from: &reader),
            forgotten: try SyncVector(from: &reader), isRetired: isRetired)
    }
}
