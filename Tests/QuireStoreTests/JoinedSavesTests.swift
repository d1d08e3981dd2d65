import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// Saves that are one transaction: all of them are committed, or none.
@Suite @MainActor struct JoinedSavesTests {
    private let fixture: ExternalDataFixture
    private let store: SQLiteStore

    init() throws {
        fixture = try ExternalDataFixture()
        store = try fixture.store
        try save(["first"])
    }

    /// A context of a coordinator that goes afterwards.
    private func context() -> ManagedObjectContext {
        .mainQueue(coordinator: PersistentStoreCoordinator(store: store))
    }

    /// Saves books, and as many covers with an image in a file.
    private func save(_ titles: [String], in context: ManagedObjectContext? = nil) throws {
        let context = context ?? self.context()
        for title in titles {
            try context.insertObject(entityName: "Book")["title"] = title
            let image = ExternalDataFixture.bytes(200_000 + title.utf8.count, seed: 3)
            try fixture.cover(context)["image"] = image
        }
        try context.save()
    }

    private func titles(_ store: SQLiteStore) throws -> [String] {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        return try context.fetch(FetchRequest("Book")).compactMap { $0["title", as: String.self] }
            .sorted()
    }

    /// The rows, the greatest keys and the schema, as another connection sees them.
    private func stored() throws -> [String] {
        let connection = try SQLiteConnection(path: fixture.path, mode: .reading)
        defer { connection.close() }
        var lines: [String] = []
        for (table, columns) in [
            ("ZBOOK", "Z_PK, Z_OPT, ZTITLE"), ("ZCOVER", "Z_PK, Z_OPT, hex(ZIMAGE)"),
            ("Z_PRIMARYKEY", "Z_ENT, Z_MAX, Z_NAME"), ("sqlite_schema", "name, type, sql"),
        ] {
            let statement = try connection.prepare("SELECT \(columns) FROM \(table) ORDER BY 1")
            while try statement.step() {
                lines.append(table + (0..<3).map { " " + statement.text($0) }.joined())
            }
        }
        return lines
    }

    /// The store is whole, and gives and takes objects as before, beside another one at its path.
    private func expectUsable(_ expected: [String]) throws {
        #expect(try titles(store) == expected)
        #expect(try StoreCheck.run(on: store).problems.isEmpty)
        let other = try SQLiteStore.open(at: fixture.path)
        let theirs = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: other))
        try save(["theirs"], in: theirs)
        try save(["ours"])
        try save(["theirs again"], in: theirs)
        let all = (expected + ["theirs", "ours", "theirs again"]).sorted()
        #expect(try titles(other) == all)
        theirs.reset()
        try other.close()
        try fixture.coordinator.close()
        let again = try SQLiteStore.open(at: fixture.path)
        #expect(try titles(again) == all)
        #expect(try StoreCheck.run(on: again).problems.isEmpty)
        #expect(try fixture.files.count == all.count)
        try again.close()
    }

    @Test func othersSeeNothingUntilAllIsCommitted() throws {
        let before = try stored()
        let result = try store.saveInOneTransaction {
            for portion in 0..<3 {
                try save(["a\(portion)", "b\(portion)"])
                // The thread itself sees what it has saved.
                #expect(try titles(store).count == 3 + 2 * portion)
                #expect(try stored() == before)
                let seen = Lock(0)
                let (store, done) = (store, DispatchSemaphore(value: 0))
                Thread.detachNewThread {
                    seen.withLock {
                        $0 = (try? store.count(matching: FetchSpecification("Book"))) ?? -1
                    }
                    done.signal()
                }
                done.wait()
                #expect(seen.withLock { $0 } == 1)
            }
            return "done"
        }
        #expect(result == "done")
        #expect(try stored().count > before.count)
        try expectUsable(["a0", "a1", "a2", "b0", "b1", "b2", "first"])
    }

    private enum Failing: String, CaseIterable, Sendable {
        case closure, save, saveWhoseErrorIsCaught
    }

    private struct Wrong: Error {}

    @Test(arguments: Failing.allCases)
    private func anErrorInALaterPortionTakesEverythingBack(_ failing: Failing) throws {
        let before = try stored()
        let last = context()
        do {
            try store.saveInOneTransaction {
                try save(["a", "b"])
                try save(["c"])
                var records = ChangeSet()
                records.records = ["key": "value"]
                try store.save(records)
                switch failing {
                case .closure: throw Wrong()
                case .save: try save(["d", "a"], in: last)
                case .saveWhoseErrorIsCaught:
                    try? save(["d", "a"], in: last)
                    try? save(["e"])
                }
            }
            Issue.record("It does not throw.")
        } catch {
            let isConflict = (error as? QuireError)?.code == .constraintConflict
            #expect(failing == .closure ? error is Wrong : isConflict, "\(error)")
        }
        #expect(try stored() == before)
        // But for the files of what is unsaved.
        #expect(try fixture.files.count == 1)
        #expect(try store.records()["key"] == nil)
        // What was not saved is unsaved.
        if failing != .closure {
            #expect(last.hasChanges)
            #expect(last.insertedObjects.count == 4)
            for book in last.insertedObjects
            where book.resolvedEntity.name == "Book" && book["title", as: String.self] == "a" {
                book["title"] = "changed"
            }
            try last.save()
            #expect(try titles(store) == ["changed", "d", "first"])
        }
        try expectUsable(failing == .closure ? ["first"] : ["changed", "d", "first"])
    }

    /// It would have to end the transaction.
    @Test func whatIsNoSaveIsRefusedMeanwhileAndEndsNothing() throws {
        func expectRefused(_ body: () throws -> Void) {
            let error = #expect(throws: QuireError.self) { try body() }
            #expect(error?.code == .invalidState, "\(String(describing: error))")
        }
        for isFailing in [true, false] {
            let before = try stored()
            do {
                try store.saveInOneTransaction {
                    try save(["a"])
                    expectRefused { try store.setMetadata(.string("x"), forKey: "x") }
                    expectRefused { try store.writeDraft(Data([1])) }
                    expectRefused {
                        _ = try store.delete(BatchDeleteRequest(fetchRequest: FetchRequest("Book")))
                    }
                    expectRefused {
                        let context = context()
                        try context.obtainPermanentIDs(for: [fixture.cover(context)])
                    }
                    try save(["b"])
                    if isFailing { throw Wrong() }
                }
            } catch is Wrong {}
            if isFailing {
                #expect(try stored() == before)
                #expect(try fixture.files.count == 1)
            }
        }
        try expectUsable(["a", "b", "first"])
    }

    @Test(arguments: [false, true])
    func aSaveOfAnotherThreadWaitsAndIsOneByItself(isFailing: Bool) throws {
        let coordinator = fixture.coordinator
        let (begun, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isDone = Lock(false)
        let error = Lock<(any Error)?>(nil)
        do {
            try store.saveInOneTransaction {
                try save(["a"])
                Thread.detachNewThread {
                    do {
                        try QueueConfinedContext(coordinator: coordinator).performAndWait {
                            let book = try $0.insertObject(entityName: "Book")
                            book["title"] = "meanwhile"
                            let cover = try $0.insertObject(entityName: "Cover")
                            cover["image"] = ExternalDataFixture.bytes(300_000)
                            begun.signal()
                            try $0.save()
                        }
                    } catch let thrown { error.withLock { $0 = thrown } }
                    isDone.withLock { $0 = true }
                    done.signal()
                }
                begun.wait()
                try save(["b"])
                #expect(!isDone.withLock { $0 })
                if isFailing { throw Wrong() }
            }
        } catch is Wrong {}
        done.wait()
        #expect(error.withLock { $0 } == nil)
        try expectUsable(isFailing ? ["first", "meanwhile"] : ["a", "b", "first", "meanwhile"])
    }
}
