import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Whether a recovery says what it could not bring back.
@Suite @MainActor struct RecoveryLossTests {
    /// Whatever is lost of the tables, the model brings the rest back with its own names.
    @Test(arguments: StoreSchemaCheckTests.cases)
    func recoveryKeepsTheModelAndSaysWhatIsLost(damage: StoreSchemaCheckTests.Case) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 90)
        _ = try StoreSchemaCheckTests.damage(path, damage)
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.modelOrigin == .carried)
        #expect(report.objects["Cover"] == 3, "\(report.objects)")
        let hasLosses = [
            "lost table", "lost column", "view in a table's place", "negative key",
            "least key of all", "lost join table", "lost column of an unpaired relationship",
            "lost order",
        ].contains(damage.name)
        #expect(report.isComplete == !hasLosses, "\(report.losses)")
        let after = try StoreSchemaCheckTests.check(new)
        #expect(after.problems.map(\.message) == report.problems.map(\.message))
        let store = try SQLiteStore.open(at: new)
        #expect(!store.hasInferredModel)
        try store.close()
    }

    /// A recovery that does not bring back everything says so, whatever is lost.
    @Test func lostObjectsAreCounted() throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 90)
        #expect(try StoreRecovery.recover(path, to: folder.path("whole.sqlite")).isComplete)
        try Damage.query(path, "DELETE FROM Z_PRIMARYKEY WHERE Z_NAME IN ('Song', 'Playlist')")
        try Damage.dropModels(path)
        try Damage.query(path, "ALTER TABLE ZSONG RENAME TO Z9SONG")
        try Damage.settle(path)
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.objects["Song"] == nil)
        #expect(report.objects["Playlist"] == 1, "\(report.objects)")
        #expect(report.strayRows == 5)
        #expect(!report.isComplete)
    }

    /// What a process had not committed when it was killed is no loss.
    @Test func anUnfinishedTransactionIsNoLoss() throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 90)
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN")
        try connection.execute("UPDATE ZBOOK SET ZTITLE = ZTITLE || 'changed'")
        let copy = folder.path("copy.sqlite")
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        try FileSystem.copyTree(
            FileSystem.path(folder.path, ".a_SUPPORT"),
            to: FileSystem.path(folder.path, ".copy_SUPPORT"), by: .copying)
        try connection.execute("ROLLBACK")
        connection.close()
        let report = try StoreRecovery.recover(copy, to: new)
        #expect(report.droppedLogFrames > 0)
        #expect(report.lostTransactions == 0)
        #expect(report.isComplete, "\(report.losses)")
    }

    /// A copy is compared with the store before it is given its name.
    @Test func aCopyThatLacksRowsIsRefused() throws {
        let folder = try TemporaryFolder()
        let (path, copy) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 90)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let counts = try store.read { try $0.rowCounts() }
        try store.writeCopy(to: copy)
        try store.read { try $0.requireRows(counts, inCopyAt: copy, nil) }
        try Damage.query(copy, "DELETE FROM ZBOOK WHERE Z_PK = 3")
        try Damage.settle(copy)
        let error = #expect(throws: QuireError.self) {
            try store.read { try $0.requireRows(counts, inCopyAt: copy, nil) }
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("1 of 90 rows of ZBOOK") == true)
    }
}
