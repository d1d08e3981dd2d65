import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// SQLite stores in memory.
@Suite struct SharedMemoryTests {
    @Test func storesOfOneNameShareWhatTheyHold() throws {
        let path = "/dev/null/\(UUID().uuidString)"
        #expect(!SQLiteStore.exists(at: path))
        let one = try SQLiteStore.create(at: path, model: FixtureModels.library)
        #expect(throws: QuireError.self) {
            try SQLiteStore.create(at: path, model: FixtureModels.library)
        }
        let two = try SQLiteStore.open(at: path)
        #expect(one.identity.uuid == two.identity.uuid)
        let entity = try one.layout.requireEntity(named: "Cover")
        let id = try one.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        var change = ObjectChange(
            objectID: id, entity: entity, version: 0, values: entity.defaultValues,
            changedSlots: SlotMask(first: entity.slots.count))
        let slot = try #require(entity.slot(named: "image"))
        change.values[slot] = .binary(Data(repeating: 7, count: 200_000))
        var changes = ChangeSet()
        changes.inserted = [change]
        try one.save(changes)
        let row = try #require(try two.row(for: id))
        #expect(try row.value(at: slot) == .binary(Data(repeating: 7, count: 200_000)))
        try one.close()
        #expect(try two.count(matching: FetchSpecification("Cover")) == 1)
        try two.close()
        #expect(!SQLiteStore.exists(at: path))
        let error = #expect(throws: QuireError.self) { try SQLiteStore.open(at: path) }
        #expect(error?.code == .notFound)
        let three = try SQLiteStore.create(at: path, model: FixtureModels.library)
        #expect(try three.count(matching: FetchSpecification("Cover")) == 0)
        try three.close()
    }

    @Test func storesWithoutANameShareNothing() throws {
        let one = try SQLiteStore.create(at: "/dev/null", model: FixtureModels.library)
        let two = try SQLiteStore.create(at: "/dev/null", model: FixtureModels.library)
        #expect(one.identity.uuid != two.identity.uuid)
        try one.close()
        #expect(try two.count(matching: FetchSpecification("Book")) == 0)
        try two.close()
    }
}
