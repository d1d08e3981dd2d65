import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireStore

/// Rows in memory have sizes and offsets of 32 bits; a larger one is an error, never cut off.
@Suite struct RowSizeTests {
    private let layout: ResolvedModel
    private let entity: ResolvedEntity

    init() throws {
        layout = try ManagedObjectModel {
            Entity("Blob") {
                Attribute("first", .binary)
                Attribute("second", .binary)
            }
        }.layout()
        entity = try layout.requireEntity(named: "Blob")
    }

    private func builder(maximumSize: Int = RowChunk.maximumSize) -> RowSetBuilder {
        let identity = StoreIdentity(uuid: "", entityNames: layout.entities.map(\.name))
        return RowSetBuilder(layout: layout, store: identity, maximumSize: maximumSize)
    }

    @Test func aRowOfMoreThanFourGibibytesIsAnError() throws {
        var builder = builder()
        builder.beginRow(1, entity: entity, version: 1)
        // Nothing is written, so that no memory is used.
        try builder.setBytes(count: 1 << 30, at: 0) { _ in }
        let error = failure { try builder.setBytes(count: 3 << 30, at: 1) { _ in } }
        #expect(error?.code == .unsupported)
        let whole = failure { try builder.setBytes(count: 1 << 32, at: 1) { _ in } }
        #expect(whole?.code == .unsupported)
    }

    @Test func whatFitsIsKeptToTheLastByte() throws {
        let greatest = 1 << 20
        let header = PackedRow.headerSize + PackedRow.presenceSize(slotCount: 2) + 2 * 8
        for excess in [0, 1] {
            var builder = builder(maximumSize: greatest)
            for number in 0..<3 {
                let bits = UInt64(entity.number) << 48 | UInt64(number + 1)
                builder.beginRow(bits, entity: entity, version: 1)
                let first = Data(repeating: UInt8(number), count: 300_000)
                let second = Data(
                    repeating: UInt8(number) + 10, count: greatest - header - 300_000 + excess)
                try builder.set(.binary(first), at: entity.slots[0])
                let error = failure { try builder.set(.binary(second), at: entity.slots[1]) }
                #expect((error != nil) == (excess == 1))
                builder.endRow()
            }
            let rows = builder.finish()
            #expect(rows.count == 3)
            for (number, row) in rows.enumerated() {
                guard case .binary(let first) = try row.value(at: 0) else {
                    Issue.record("no first value")
                    continue
                }
                #expect(first == Data(repeating: UInt8(number), count: 300_000))
                guard case .binary(let second) = try row.value(at: 1) else {
                    #expect(excess == 1)
                    continue
                }
                #expect(excess == 0 && second.count == greatest - header - 300_000)
                #expect(second.allSatisfy { $0 == UInt8(number) + 10 })
            }
        }
    }

    @Test func offsetsFitIntoTheirBits() {
        #expect(UInt32(exactly: RowChunk.maximumSize) != nil)
        #expect(RowChunk.maximumSize % 8 == 0)
    }

    private func failure(_ body: () throws -> Void) -> QuireError? {
        do {
            try body()
            return nil
        } catch {
            return error as? QuireError
        }
    }
}
