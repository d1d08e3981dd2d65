import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Batch requests that the store cannot carry out.
@MainActor @Suite struct BatchFailureTests {
    enum Kind: CaseIterable { case insertion, update, deletion }

    private func execute(
        _ kind: Kind, in stack: BatchStack, context: ManagedObjectContext? = nil
    ) throws {
        let context = context ?? stack.context
        switch kind {
        case .insertion:
            var count = 0
            try context.execute(
                BatchInsertRequest(entityName: "Cover") { row in
                    row["image"] = .binary(
                        Data(repeating: 3, count: count % 2 == 0 ? 90_000 : 110_000))
                    count += 1
                    return count > 20
                })
        case .update:
            try context.execute(
                BatchUpdateRequest(
                    entityName: "Song",
                    propertiesToUpdate: [
                        "title": .constant(.string(String(repeating: "x", count: 5000)))
                    ]))
        case .deletion:
            try context.execute(BatchDeleteRequest(fetchRequest: FetchRequest("Song")))
        }
    }

    private func fill(_ stack: BatchStack) throws {
        let playlist = try stack.insert("Playlist")
        for number in 0..<300 {
            playlist.add(try stack.insert("Song", ["title": .string("s\(number)")]), to: "songs")
        }
        try stack.context.save()
    }

    @Test(arguments: [Kind.insertion, .update])
    func fullDiskChangesNothingAndLeavesNoFiles(kind: Kind) throws {
        let stack = try BatchStack()
        try fill(stack)
        let pages = try stack.store.read { try $0.integer("PRAGMA page_count") ?? 0 }
        try stack.store.executeOnWriter("PRAGMA max_page_count = \(pages + 3)")
        let error = try stack.failure { try execute(kind, in: stack) }
        #expect(error.code == .outOfSpace)
        #expect(try stack.store.unreferencedExternalFiles().isEmpty)
        try stack.store.executeOnWriter("PRAGMA max_page_count = 1000000")
        try execute(kind, in: stack)
        try stack.checkWhole()
    }

    @Test(arguments: Kind.allCases)
    func readOnlyStoreRefuses(kind: Kind) throws {
        let stack = try BatchStack()
        try fill(stack)
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: stack.path, options: options)
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let error = try stack.failure { try execute(kind, in: stack, context: context) }
        #expect(error.code == .readOnly)
    }

    @Test(arguments: Kind.allCases)
    func closedStoreIsUnavailable(kind: Kind) throws {
        let stack = try BatchStack()
        try stack.store.close()
        let error = #expect(throws: QuireError.self) { try execute(kind, in: stack) }
        #expect(error?.code == .storeUnavailable)
    }

    @Test(arguments: Kind.allCases)
    func storeInUseByAnotherProcessIsLocked(kind: Kind) throws {
        var options = SQLiteStoreOptions()
        options.busyTimeout = .milliseconds(20)
        let stack = try BatchStack(options: options)
        try fill(stack)
        let other = try SQLiteConnection(path: stack.path, mode: .writing)
        try other.execute("BEGIN IMMEDIATE")
        let error = try stack.failure { try execute(kind, in: stack) }
        #expect(error.code == .locked)
        try other.execute("ROLLBACK")
        other.close()
        try execute(kind, in: stack)
        try stack.checkWhole()
    }

    @Test(arguments: Kind.allCases)
    func storeWithoutALogTakesRequestsToo(kind: Kind) throws {
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let stack = try BatchStack(options: options)
        try fill(stack)
        try execute(kind, in: stack)
        try stack.checkWhole()
        try stack.insert("Song", ["title": "after"])
        try stack.context.save()
        try stack.checkWhole()
    }

    /// A store that has no batch requests of its own.
    @Test func otherStoresMayRefuse() throws {
        let stack = try BatchStack()
        let store = ForwardingStore(stack.store)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for kind in Kind.allCases {
            let error = #expect(throws: QuireError.self) {
                try execute(kind, in: stack, context: context)
            }
            #expect(error?.code == .unsupported)
        }
    }
}

/// A store that another one does the work of, but not for batch requests.
private final class ForwardingStore: PersistentStore {
    private let store: SQLiteStore

    init(_ store: SQLiteStore) { self.store = store }

    var identity: StoreIdentity { store.identity }
    var type: StoreType { StoreType(rawValue: "Forwarding") }
    var path: String? { nil }
    var isReadOnly: Bool { false }
    var layout: ResolvedModel { store.layout }

    func rows(matching request: FetchSpecification) throws -> RowSet {
        try store.rows(matching: request)
    }
    func count(matching request: FetchSpecification) throws -> Int {
        try store.count(matching: request)
    }
    func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        try store.row(for: objectID)
    }
    func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet { try store.rows(for: objectIDs) }
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet { try store.relatedRows(of: objectID, through: relationship) }
    func reserveObjectIDs(
        for entity: ResolvedEntity, count: Int, durably: Bool
    ) throws -> [ManagedObjectID] {
        try store.reserveObjectIDs(for: entity, count: count, durably: durably)
    }
    func save(_ changes: ChangeSet) throws -> [ManagedObjectID] { try store.save(changes) }
    func records() throws -> [String: String] { try store.records() }
    func close() throws { try store.close() }
}
