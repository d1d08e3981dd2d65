import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// What a check makes of stores that Core Data has made: what programs there may do is no damage.
@Suite @MainActor struct CoreDataStoreCheckTests {
    /// Makes a store as Core Data leaves it: without this framework's form of the model.
    private func makeCoreDataStore(_ path: String) throws {
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "DROP TABLE QUIRE_MODEL")
        try Damage.settle(path)
    }

    /// Core Data lets a program leave one-to-one relationships one-sided, by assigning primitive values or in batches.
    @Test func oneSidedReferencesInStoresOfCoreDataAreNotes() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try makeCoreDataStore(path)
        #expect(try StoreSchemaCheckTests.check(path).isWhole)
        for sql in [
            "UPDATE ZCOVER SET ZBOOK = NULL WHERE Z_PK = 1",
            "UPDATE ZCOVER SET ZBOOK = 2 WHERE Z_PK = 2",
        ] { try Damage.query(path, sql) }
        try Damage.settle(path)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let report = try StoreSchemaCheckTests.check(path)
        #expect(report.isWhole, "\(report.problems)")
        #expect(report.notes.contains { $0.kind == .inverse })
        // What a check does not hold against a store is not changed either.
        let repair = try StoreRepair.repair(path)
        #expect(repair.actions.isEmpty, "\(repair.actions)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        // Damage stays damage.
        try Damage.query(path, "UPDATE ZBOOK SET ZAUTHOR = 999 WHERE Z_PK = 3")
        #expect(try StoreSchemaCheckTests.check(path).problems.map(\.kind) == [.reference])
    }

    @Test func lostTablesOfStoresOfCoreDataAreProblems() throws {
        for damage in StoreSchemaCheckTests.cases.prefix(3) {
            let folder = try TemporaryFolder()
            let path = folder.path("a.sqlite")
            try makeCoreDataStore(path)
            _ = try StoreSchemaCheckTests.damage(path, damage)
            let report = try StoreSchemaCheckTests.check(path)
            #expect(report.problems.contains { $0.message.contains(damage.text) })
        }
    }

    /// A model that is archived soundly, but in a way that is not understood, is the reader's lack; an archive in pieces
    /// is damage.
    @Test func aModelThatIsNotUnderstoodIsANoteAndADamagedOneAProblem() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try makeCoreDataStore(path)
        let strange = try PropertyListSerialization.data(
            fromPropertyList: [
                "$version": 100_000, "$archiver": "NSKeyedArchiver",
                "$top": ["root": ["CF$UID": 1]], "$objects": ["$null", "no model"],
            ] as [String: Any], format: .binary, options: 0)
        let stored = try #require(RawDeflate.compressed(strange))
        try Damage.query(
            path,
            "UPDATE Z_MODELCACHE SET Z_CONTENT = x'\(stored.map { String(format: "%02x", $0) }.joined())'"
        )
        for model in [nil, FixtureModels.library] {
            let report = try StoreSchemaCheckTests.check(path, model: model)
            #expect(report.isWhole, "\(report.problems)")
            #expect(report.notes.contains { $0.kind == .model }, "\(report.notes)")
        }
        try Damage.query(path, "UPDATE Z_MODELCACHE SET Z_CONTENT = x'FFFFFFFF'")
        for model in [nil, FixtureModels.library] {
            #expect(
                try StoreSchemaCheckTests.check(path, model: model).problems.map(\.kind) == [.model]
            )
        }
    }
}
