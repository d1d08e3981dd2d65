import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// The history transactions that a store takes for its own saves, and what it signals to others.
@Suite struct OwnTransactionTests {
    private struct Refused: Error {}

    private let test: SQLiteTestStore
    private let other: SQLiteStore

    init() throws {
        var options = SQLiteStoreOptions()
        options.tracksHistory = true
        test = try SQLiteTestStore(options: options)
        other = try SQLiteStore.open(
            at: test.path, model: SQLiteTestModel.model, options: options)
    }

    private func insertion(_ store: SQLiteStore) throws -> ChangeSet {
        let entity = try store.layout.requireEntity(named: "Tag")
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: id, entity: entity, version: 0, values: entity.defaultValues,
                changedSlots: SlotMask(first: entity.slots.count))
        ]
        return changes
    }

    enum Saving: CaseIterable { case alone, inOneTransaction }

    @Test(arguments: Saving.allCases)
    func changesOfOthersIncludeTheNumberOfAFailedSave(_ saving: Saving) throws {
        let store = test.store
        store.recordOwnTransactions(true)
        try store.save(insertion(store))
        var number = try store.lastHistoryTransactionNumber()
        let changes = try insertion(store)
        #expect(throws: Refused.self) {
            switch saving {
            case .alone: _ = try store.save(changes) { throw Refused() }
            case .inOneTransaction:
                _ = try store.saveInOneTransaction {
                    try store.save(changes)
                    throw Refused()
                }
            }
        }
        let theirs = try insertion(other)
        try other.save(theirs)
        guard case .objects(let found) = try store.changesOfOthers(after: &number) else {
            Issue.record("The save of the other store was not found.")
            return
        }
        #expect(found.inserted.map(\.primaryKey) == theirs.inserted.map(\.objectID.primaryKey))
        // Its own saves are known as such.
        try store.save(insertion(store))
        let joined = try insertion(store)
        _ = try store.saveInOneTransaction { try store.save(joined) }
        guard case .unmentioned = try store.changesOfOthers(after: &number) else {
            Issue.record("The store's own saves were taken for those of others.")
            return
        }
    }

    @Test func localCommitsAreNotSignalledForFailedSaves() throws {
        let store = test.store
        let count = Lock(0)
        let observer = LocalCommits.observe(
            store.storePath, except: ObjectIdentifier(other.connections)
        ) { count.withLock { $0 += 1 } }
        defer { LocalCommits.remove(observer) }
        let changes = try insertion(store)
        let before = count.withLock { $0 }
        #expect(throws: Refused.self) { try store.save(changes) { throw Refused() } }
        #expect(count.withLock { $0 } == before)
        try store.save(changes)
        #expect(count.withLock { $0 } == before + 1)
    }
}
