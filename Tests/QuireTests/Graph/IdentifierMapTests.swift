import QuireTestSupport
import Testing

@testable import Quire

/// What a context keeps by identifiers does not stay as large as it once was.
@MainActor @Suite struct IdentifierMapTests {
    @Test(arguments: ContextArrangement.allCases)
    func theIdentityMapShrinksWithItsObjects(arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        try stack.fill(books: 5000, authors: 0, tags: 0)
        let context = stack.context(arrangement)
        var books = Array(try context.fetch(FetchRequest("Book")))
        #expect(context.identityMap.capacity >= 5000)
        books = Array(books.prefix(10))
        #expect(context.identityMap.count == 10)
        #expect(context.identityMap.capacity <= 128)
        for book in books { #expect(context.registeredObject(for: book.objectID) === book) }
        books = Array(try context.fetch(FetchRequest("Book")))
        #expect(context.identityMap.count == 5000)
        for book in books { #expect(context.object(with: book.objectID) === book) }
    }

    @Test func identifierTablesShrink() {
        var table = IdentifierTable()
        for key in 1...100_000 { table.set(UInt64(key) * 2, for: UInt64(key)) }
        let greatest = table.capacity
        for key in 11...100_000 { #expect(table.remove(UInt64(key)) == UInt64(key) * 2) }
        #expect(greatest >= 100_000)
        #expect(table.capacity <= 128)
        for key in 1...10 { #expect(table[UInt64(key)] == UInt64(key) * 2) }
        #expect(table.count == 10 && table[11] == nil)
        // It does not go back and forth where it is.
        let capacity = table.capacity
        for _ in 0..<100 {
            table.set(1, for: 500)
            table.remove(500)
        }
        #expect(table.capacity == capacity)
    }

    /// A store that is open twice has two numbers.
    @Test func equalIdentifiersHaveOneHash() throws {
        let stack = try TestStack()
        try stack.fill(books: 100, authors: 0, tags: 0)
        let other = PersistentStoreCoordinator(store: try SQLiteStore.open(at: stack.path))
        defer { try? other.close() }
        let ids = try stack.coordinator.objectIDs(matching: FetchSpecification("Book"))
        let same = try other.objectIDs(matching: FetchSpecification("Book"))
        #expect(Set(ids) == Set(same))
        #expect(Set(ids.map(\.hashValue)).count == 100)
        for (id, same) in zip(ids, same) {
            #expect(id == same && id.hashValue == same.hashValue)
            #expect(id._rawHashValue(seed: 7) == same._rawHashValue(seed: 7))
        }
    }

    @Test func identifiersThatFollowEachOtherTakeTheRoomOfOne() {
        let (one, other) = (
            StoreIdentity(uuid: "1", entityNames: ["A", "B"]),
            StoreIdentity(uuid: "2", entityNames: ["A", "B"])
        )
        func ids(_ keys: some Sequence<Int64>, _ entity: Int, _ store: StoreIdentity)
            -> [ManagedObjectID]
        {
            keys.map { ManagedObjectID(entityNumber: entity, primaryKey: $0, store: store) }
        }
        let all =
            ids(1...1000, 1, one) + ids(1001...1010, 2, one) + ids([1011, 1010, 1011], 1, one)
            + ids(1012...1020, 1, other)
        let runs = ObjectIDRuns(all)
        #expect(Array(runs) == all)
        #expect(runs.count == all.count && runs.runCount == 5)
        #expect(runs.countsByEntity == ["A": 1012, "B": 10])
        #expect(Array(ObjectIDRuns()).isEmpty)
    }

    private func pairs(
        _ temporary: ClosedRange<UInt64>, _ distance: UInt64 = 100
    ) -> [(temporary: UInt64, permanent: UInt64)] {
        temporary.map { ($0, $0 + distance) }
    }

    @Test func onlyTheLatestReplacedIdentifiersAreKept() {
        let identifiers = ReplacedIdentifiers(maximumCount: 4)
        identifiers.add(pairs(1...3))
        identifiers.add(pairs(4...6))
        #expect((1...2).map { identifiers[$0] } == [nil, nil])
        // A save that failed gives identifiers back, and the next one replaces them by others.
        identifiers.remove([5])
        #expect(identifiers[5] == nil)
        identifiers.add(pairs(5...5, 200) + pairs(7...7))
        #expect((3...7).map { identifiers[$0] } == [nil, 104, 205, 106, 107])
        identifiers.add(pairs(10...30))
        #expect(identifiers.count == 4 && identifiers[30] == 130 && identifiers[26] == nil)
    }

    @Test func replacedIdentifiersInUseOutlastLaterOnes() {
        let identifiers = ReplacedIdentifiers(maximumCount: 4)
        identifiers.add(pairs(1...2))
        #expect(identifiers[1] == 101)
        identifiers.add(pairs(10...30))
        #expect(identifiers[1] == 101 && identifiers[2] == nil)
        identifiers.remove([1])
        #expect(identifiers[1] == nil)
        identifiers.add(pairs(1...1, 200))
        #expect(identifiers[1] == 201)
        // Of these too only the latest.
        #expect((28...30).allSatisfy { identifiers[$0] != nil })
        identifiers.add(pairs(40...43))
        #expect((40...43).allSatisfy { identifiers[$0] != nil })
        #expect(identifiers[1] == nil)
    }

    @Test func identifiersThatNoLogNeedsAreForgotten() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        for round in 0..<20 {
            for number in 0..<50 {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "\(round) \(number)"
            }
            try context.save()
            context.undoManager?.removeAllActions()
        }
        #expect(context.undoIdentifiers.count <= 50)
        #expect(context.assignedStores.isEmpty)
    }
}
