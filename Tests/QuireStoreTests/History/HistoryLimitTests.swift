import Foundation
import Quire
import QuireTestSupport
import Testing

/// Limits of the history: a store deletes transactions by itself when they are old, or too many.
@MainActor @Suite struct HistoryLimitTests {
    private static let model = ManagedObjectModel {
        Entity("Tag") { Attribute("name", .string) }
    }

    /// A store with a history, and one context.
    private struct Site {
        let path: String
        let context: ManagedObjectContext

        @MainActor
        init(
            at path: String, age: Duration? = nil, size: Int? = nil, tracks: Bool = true,
            leavesForeign: Bool = false
        ) throws {
            self.path = path
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = tracks
            description.sqliteOptions.leavesForeignHistory = leavesForeign
            description.sqliteOptions.maximumHistoryAge = age
            description.sqliteOptions.maximumHistorySize = size
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
            try coordinator.addPersistentStore(description)
            context = .mainQueue(coordinator: coordinator)
        }

        /// Saves transactions of one change, which count for 100 bytes each.
        @MainActor
        func save(_ count: Int, author: String? = nil) throws {
            context.transactionAuthor = author
            for number in 1...count {
                try context.insertObject(entityName: "Tag")["name"] = "\(number)"
                try context.save()
            }
        }

        @MainActor
        var transactions: [PersistentHistoryTransaction] {
            get throws { try context.execute(.fetchHistory(after: nil)).transactions }
        }

        @MainActor
        func close() throws { try context.persistentStoreCoordinator.close() }

        /// Makes transactions as old as another program could have left them.
        func age(_ numbers: ClosedRange<Int>, days: Int) throws {
            let connection = try SQLiteConnection(path: path, mode: .writing)
            defer { connection.close() }
            try connection.execute(
                "UPDATE ATRANSACTION SET ZTIMESTAMP = ZTIMESTAMP - \(days * 86_400) WHERE Z_PK BETWEEN \(numbers.lowerBound) AND \(numbers.upperBound)"
            )
        }
    }

    @Test func theFirstSaveAfterOpeningDeletesWhatIsTooOld() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let first = try Site(at: path)
        try first.save(3, author: "phone")
        try first.save(2, author: "desk")
        try first.close()
        try first.age(1...3, days: 31)

        let site = try Site(at: path, age: .seconds(30 * 86_400))
        #expect(try site.transactions.map(\.number) == [1, 2, 3, 4, 5])
        try site.save(1, author: "phone")
        #expect(try site.transactions.map(\.number) == [4, 5, 6])
        #expect(try site.transactions.map(\.author) == ["desk", "desk", "phone"])
        let error = #expect(throws: QuireError.self) {
            try site.context.execute(
                .fetchHistory(
                    after: PersistentHistoryToken(
                        transactionNumbers: [site.transactions[0].storeUUID: 2])))
        }
        #expect(error?.code == .historyTokenExpired)
        try site.close()
    }

    /// Seen from a clock that is ahead, all of the history is old. Nothing is deleted before two saves confirm the time.
    @Test func historyStaysIfTheClockJumpsAhead() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let first = try Site(at: path)
        try first.save(5)
        try first.close()
        try first.age(1...5, days: 400)
        for remaining in [Array(1...6), Array(1...7), [6, 7, 8]] as [[Int64]] {
            let site = try Site(at: path, age: .seconds(30 * 86_400))
            try site.save(1)
            #expect(try site.transactions.map(\.number) == remaining)
            try site.close()
        }
    }

    @Test func theLastTransactionsWithinTheSizeStay() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let first = try Site(at: path)
        try first.save(9)
        try first.close()
        for (size, remaining) in [
            (1_000, Array(1...10)), (599, [7, 8, 9, 10, 11]), (0, [12]), (.min, [13]),
        ] as [(Int, [Int64])] {
            let site = try Site(at: path, size: size)
            try site.save(1)
            #expect(try site.transactions.map(\.number) == remaining, "\(size)")
            try site.close()
        }
    }

    @Test func aStoreThatStaysOpenKeepsItsLimits() throws {
        let folder = try TemporaryFolder()
        let site = try Site(at: folder.path("a.sqlite"), size: 10_000)
        try site.save(2_001)
        // The thousandth transactions leave 100 of them.
        #expect(try site.transactions.map(\.number) == Array(1_902...2_001))
        try site.close()
    }

    @Test func withoutLimitsNothingIsDeleted() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        for count in 1...2 {
            let site = try Site(at: path)
            try site.save(3)
            #expect(try site.transactions.count == 3 * count)
            try site.close()
            if count == 1 { try site.age(1...3, days: 20_000) }
        }
    }

    /// What was deleted within a transaction that does not commit is there again, and the next save deletes it.
    @Test func aTransactionThatFailsDeletesNothing() throws {
        struct Failure: Error {}
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let first = try Site(at: path)
        try first.save(3)
        try first.close()

        let site = try Site(at: path, size: 0)
        let store = try #require(
            site.context.persistentStoreCoordinator.persistentStores.first as? SQLiteStore)
        #expect(throws: Failure.self) {
            try store.saveInOneTransaction {
                try site.save(1)
                throw Failure()
            }
        }
        #expect(try site.transactions.map(\.number) == [1, 2, 3])
        try site.save(1)
        #expect(try site.transactions.map(\.number) == [4])
        try site.close()
    }

    /// As documents open it. A history that an app does not ask for would make the store read-only to it.
    @Test(arguments: [true, false])
    func theHistoryOfAStoreThatCoreDataMadeIsTheAppsOwn(hasHistory: Bool) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let first = try Site(at: path, tracks: hasHistory)
        try first.save(3)
        try first.close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("DROP TABLE QUIRE_MODEL")
        connection.close()

        let site = try Site(at: path, size: 0, leavesForeign: true)
        try site.save(1)
        if hasHistory {
            #expect(try site.transactions.map(\.number) == [1, 2, 3, 4])
        } else {
            let error = #expect(throws: QuireError.self) { try site.transactions }
            #expect(error?.code == .unsupported)
        }
        try site.close()
    }
}
