import Foundation
import Quire
import QuireModel
import QuireTestSupport
import Testing

@testable import QuireSync

@Suite struct SyncCounterTests {
    private static let peers = (1...3).map { SyncIdentifier(high: 2, low: $0) }

    private func entity(_ type: AttributeType) throws -> ResolvedEntity {
        let layout = try ManagedObjectModel { Entity("A") { Attribute("n", type) } }.layout()
        return try #require(layout.entity(named: "A"))
    }

    private func slot(_ type: AttributeType) throws -> ResolvedEntity.Slot {
        try #require(entity(type).slots.first)
    }

    private func record(_ first: SyncValue?, _ totals: [SyncValue]) -> SyncRecord {
        let id = SyncIdentifier(high: 1, low: 1)
        let version = SyncVersion(time: 1, peer: id, sequence: 1)
        var record = SyncRecord(id: id, entity: "A")
        if let first { record.set(.property("n"), first, version) }
        for (peer, total) in zip(Self.peers, totals) {
            record.set(.counter("n", peer), total, version)
        }
        return record
    }

    @Test(arguments: [AttributeType.integer16, .integer32, .integer64, .decimal])
    func theSumIsWhatARowHasBeenSetTo(_ type: AttributeType) throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let slot = try slot(type)
        func number() -> Int64 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: .max
            case 1: .min
            default: .random(in: -1000...1000, using: &random)
            }
        }
        for _ in 0..<500 {
            let totals = (0..<3).map { _ in SyncValue.integer(number()) }
            var record = record(.integer(number()), totals)
            let counter = try #require(SyncCounter(slot, named: slot.name, of: record))
            let row: AttributeValue =
                switch type {
                case .integer16: .integer(.random(in: -32768...32767, using: &random))
                case .decimal: .decimal(Decimal(Int.random(in: -9999...9999, using: &random)) / 100)
                default: .integer(.random(in: -99999...99999, using: &random))
                }
            let version = SyncVersion(time: 2, peer: Self.peers[1], sequence: 2)
            let total = try #require(counter.total(of: Self.peers[1], for: row))
            record.set(.counter("n", Self.peers[1]), total, version)
            #expect(SyncCounter(slot, named: slot.name, of: record)?.value == row)
            // A replica without the policy replaces the first value.
            record = self.record(.null, totals)
            let first = try #require(
                SyncCounter(slot, named: slot.name, of: record)?.first(for: row))
            record.set(.property("n"), first, version)
            #expect(SyncCounter(slot, named: slot.name, of: record)?.value == row)
        }
    }

    @Test func whatFilesContainNeverTraps() throws {
        let values: [SyncValue] = [
            .null, .integer(.min), .integer(.max), .double(.nan), .double(.infinity),
            .double(-.greatestFiniteMagnitude), .double(.greatestFiniteMagnitude),
            .double(.leastNonzeroMagnitude), .decimal("NaN"), .decimal("9e127"),
            .decimal("-9e127"), .decimal("1e-127"), .decimal("no number"),
            .decimal("12345678901234567890123456789012345678"), .string("1"), .boolean(true),
            .unknown(tag: 99, Data()),
        ]
        let types: [AttributeType] = [
            .integer16, .integer32, .integer64, .decimal, .double, .float,
        ]
        for type in types {
            let entity = try entity(type)
            let slot = try #require(entity.slots.first)
            for first in values {
                for second in values {
                    let counter = SyncCounter(
                        slot, named: slot.name, of: record(first, [second, first, second]))
                    let value = try #require(counter?.value)
                    #expect(try !slot.coerce(value, in: entity).isNull)
                    for row in values.compactMap(\.attributeValue) {
                        _ = counter?.total(of: Self.peers[0], for: row)
                        _ = counter?.first(for: row)
                    }
                }
            }
        }
    }

    @Test func aTextIsNotCounted() throws {
        #expect(
            SyncCounter(try slot(.string), named: "count", of: record(nil, [.integer(1)])) == nil)
    }

    @Test func floatingPointSumsDoNotDependOnTheOrderOfArrival() throws {
        let slot = try slot(.double)
        let totals: [SyncValue] = [.double(1e16), .double(1), .double(-1e16)]
        let id = SyncIdentifier(high: 1, low: 1)
        let version = SyncVersion(time: 1, peer: id, sequence: 1)
        var sums: Set<AttributeValue> = []
        for start in 0..<3 {
            var record = SyncRecord(id: id, entity: "A")
            for index in 0..<3 {
                let place = (start + index) % 3
                record.set(.counter("n", Self.peers[place]), totals[place], version)
            }
            sums.insert(try #require(SyncCounter(slot, named: slot.name, of: record)?.value))
        }
        #expect(sums.count == 1)
    }
}
