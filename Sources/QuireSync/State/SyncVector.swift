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

    /// The number of segments of a peer.
    func count(of peer: SyncIdentifier) -> Int {
        ranges[peer]?.ranges.reduce(0) { $0 + $1.count } ?? 0
    }

    /// The number of segments, at most the greatest integer: a file that lies may have named as many of each of many peers.
    var count: Int {
        ranges.keys.reduce(0) {
            let (sum, isTooLarge) = $0.addingReportingOverflow(count(of: $1))
            return isTooLarge ? .max : sum
        }
    }

    /// The number of ranges.
    var rangeCount: Int { ranges.values.reduce(0) { $0 + $1.ranges.count } }

    /// The number of ranges that a replica's own vectors may get from snapshots. It is far below what a file may have, so that a
    /// file that lies does not make own files ones that others do not read.
    static let maximumRangeCount = 1 << 16

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
        var last: SyncIdentifier?
        let peerCount = try reader.count(size: 17)
        try reader.use(peerCount)
        for _ in 0..<peerCount {
            let peer = try reader.identifier()
            // In the order in which they are written: in any other one, inserting takes quadratic time.
            guard last.map({ $0 < peer }) ?? true else {
                throw reader.damage("its peers are not in order")
            }
            last = peer
            var end: UInt64 = 0
            let rangeCount = try reader.count(size: 2)
            try reader.use(rangeCount)
            for _ in 0..<rangeCount {
                let start = try reader.unsigned()
                let count = try reader.unsigned()
                // So that the union of valid ranges is valid.
                guard start >= end, start < 1 << 61, count > 0, count <= (1 << 61) - start else {
                    throw reader.damage("a range of segments is not valid")
                }
                end = start + count
                insert(peer, Int64(start)..<Int64(end))
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
    /// Whether it has left, or was retired: then the others do not wait for it.
    var isRetired = false

    /// Takes over what is known of it from later segments.
    mutating func merge(_ other: SyncPeer) {
        if other.sequence > sequence {
            (sequence, time) = (other.sequence, other.time)
            (seen, forgotten) = (other.seen, other.forgotten)
        }
        isRetired = isRetired || other.isRetired
    }

    /// The maximum number of peers in a file, and of those that a segment retires.
    static let maximumCount = 1 << 14
    static let maximumRetiredCount = 1 << 10
    /// The least number of bytes that one takes in a file.
    static let minimumSize = 21

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
