import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireSync

/// Records are a lattice, whatever files contain.
@Suite struct SyncRecordTests {
    private static let id = SyncIdentifier(high: 1, low: 1)
    private static let peers = (1...3).map { SyncIdentifier(high: 2, low: $0) }
    private static let values: [SyncValue] = [
        .null, .integer(1), .integer(-7), .double(0), .double(-0.0), .double(.nan), .boolean(true),
        // Equal, with different bytes.
        .string("\u{e9}"), .string("e\u{301}"), .decimal("1.5"), .reference(id),
        .ancestor(.string("a"), SyncVersion(time: 1, peer: id, sequence: 2)),
        .unknown(tag: 200, Data([1, 2])),
    ]

    private static func key(_ random: inout SeededRandom) -> SyncKey {
        let name = Bool.random(using: &random) ? "a" : "b"
        let id = peers[Int.random(in: 0..<peers.count, using: &random)]
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return .existence
        case 1: return .property(name)
        case 2: return .member(name, id)
        case 3: return .position(name, id)
        case 4: return .counter(name, id)
        default: return .base(name)
        }
    }

    /// Of few keys, versions and values, so that all kinds of collisions occur.
    private static func record(_ random: inout SeededRandom) -> SyncRecord {
        var entries: [SyncKey: SyncEntry] = [:]
        for _ in 0..<Int.random(in: 0...8, using: &random) {
            let key = key(&random)
            let value =
                key == .existence
                ? SyncValue.integer(.random(in: 0...3, using: &random))
                : values[Int.random(in: 0..<values.count, using: &random)]
            let version = SyncVersion(
                time: .random(in: 0...2, using: &random),
                peer: peers[Int.random(in: 0..<peers.count, using: &random)],
                sequence: .random(in: 0...1, using: &random))
            entries[key] = SyncEntry(value: value, version: version)
        }
        return SyncRecord(
            id: id, entity: Bool.random(using: &random) ? "A" : "B", entries: entries)
    }

    private func bytes(_ record: SyncRecord) -> [UInt8] { SyncRecordBlock.encode([record]) }

    private func join(_ records: [SyncRecord]) -> SyncRecord {
        var joined = records[0]
        for record in records.dropFirst() { joined.merge(record) }
        return joined
    }

    private func permutations<Element>(_ elements: [Element]) -> [[Element]] {
        if elements.count < 2 { return [elements] }
        return elements.indices.flatMap { index in
            var rest = elements
            let first = rest.remove(at: index)
            return permutations(rest).map { [first] + $0 }
        }
    }

    @Test func theOrderOfMergingDoesNotMatter() {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for _ in 0..<200 {
            let records = (0..<4).map { _ in Self.record(&random) }
            let expected = join(records)
            for order in permutations(records) {
                #expect(bytes(join(order)) == bytes(expected))
            }
            let (left, right) = (join(Array(records[..<2])), join(Array(records[2...])))
            #expect(bytes(join([left, right])) == bytes(expected))
            #expect(bytes(join([expected] + records)) == bytes(expected))
            #expect(bytes(join([expected, expected])) == bytes(expected))
        }
    }

    @Test func recordsAreTheSameAfterWritingAndReading() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed &+ 1)
        for _ in 0..<200 {
            let encoded = bytes(Self.record(&random))
            var reader = SyncByteReader(encoded[...], file: "test")
            let decoded = try SyncRecordBlock.decode(&reader)
            #expect(reader.remaining == 0)
            #expect(SyncRecordBlock.encode(decoded) == encoded)
        }
    }

    @Test func anAncestorHasNoAncestor() {
        let version = SyncVersion(time: 1, peer: Self.id, sequence: 1)
        var value = SyncValue.ancestor(.null, version)
        for _ in 0..<3 { value = .ancestor(value, version) }
        let record = SyncRecord(
            id: Self.id, entity: "A",
            entries: [.base("a"): SyncEntry(value: value, version: version)])
        let error = #expect(throws: QuireError.self) {
            var reader = SyncByteReader(bytes(record)[...], file: "test")
            _ = try SyncRecordBlock.decode(&reader)
        }
        #expect(error?.code == .invalidFormat)
    }

    @Test func theClockGoesOnWhateverItHasSeen() {
        var clock = SyncClock()
        let first = clock.next(at: Date(timeIntervalSince1970: 1_790_000_000))
        clock.observe(SyncClock.maximum)
        let second = clock.next(at: Date(timeIntervalSince1970: 1_790_000_000))
        let third = clock.next(at: Date(timeIntervalSince1970: 0))
        #expect(first < second && second < third)
        #expect(third < SyncClock.maximum)
    }
}
