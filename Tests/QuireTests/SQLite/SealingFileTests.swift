import Foundation
import QuireProtection
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireProtection
@testable import QuireSQLite

/// Pages that are sealed on disk, as SQLite's pager uses them.
struct SealingFileTests {
    private let folder: TemporaryFolder
    private let cipher: PageCipher
    private static let canary = "CANARY-7f3a"

    init() throws {
        folder = try TemporaryFolder()
        cipher = try Self.cipher()
    }

    private static func cipher(number: UInt32 = 1) throws -> PageCipher {
        let key = FileKey(
            file: UUID(), fileProtection: .complete, secret: try SecretMemory(randomCount: 32))
        return PageCipher(keys: [number: key], current: number)
    }

    enum Journal: String, CaseIterable {
        case wal, truncate, delete, persist
    }

    private func connect(
        _ name: String = "store", _ cipher: PageCipher? = nil,
        mode: SQLiteConnection.Mode = .creating, journal: Journal? = nil
    ) throws -> SQLiteConnection {
        let connection = try SQLiteConnection(
            path: folder.path(name), mode: mode, cipher: cipher ?? self.cipher)
        try connection.execute("PRAGMA temp_store = MEMORY; PRAGMA synchronous = OFF")
        if let journal { try connection.execute("PRAGMA journal_mode = \(journal.rawValue)") }
        return connection
    }

    private func fill(_ connection: SQLiteConnection, rows: Int = 2000) throws {
        try connection.execute(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b BLOB);
            WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < \(rows))
            INSERT INTO t SELECT i, '\(Self.canary)' || i, zeroblob(i % 300) FROM c
            """)
    }

    private func isWhole(_ connection: SQLiteConnection) throws -> Bool {
        try connection.withStatement("PRAGMA integrity_check") { statement in
            _ = try statement.step()
            return statement.text(0) == "ok"
        }
    }

    private func requireNoCanary() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path("."))
        #expect(!names.isEmpty)
        for name in names {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: folder.path(name)))
            #expect(bytes.range(of: Data(Self.canary.utf8)) == nil, "\(name)")
        }
    }

    /// Copies the files as a killed process leaves them.
    private func copyFiles(to name: String) throws {
        for suffix in ["", "-wal", "-journal"]
        where FileManager.default.fileExists(atPath: folder.path("store" + suffix)) {
            try FileManager.default.copyItem(
                atPath: folder.path("store" + suffix), toPath: folder.path(name + suffix))
        }
    }

    // MARK: Power losses

    /// The power failed while the first page was written, whose content is in the log, or the former one in the journal.
    @Test(arguments: Journal.allCases)
    func tornFirstPageIsRestoredFromLogOrJournal(_ journal: Journal) throws {
        let connection = try connect(journal: journal)
        try fill(connection)
        if journal == .wal { try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        try connection.execute("PRAGMA cache_size = 10; PRAGMA cache_spill = ON; BEGIN")
        try connection.execute("PRAGMA user_version = 7; UPDATE t SET a = a || 'x'")
        if journal == .wal { try connection.execute("COMMIT") }
        try copyFiles(to: "torn")
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: folder.path("torn")))
        try file.seek(toOffset: 2048)
        try file.write(contentsOf: Data(repeating: 0, count: 512))
        try file.close()
        if journal != .wal { try connection.execute("ROLLBACK") }
        connection.close()

        let torn = try connect("torn", mode: .writing)
        #expect(try torn.integer("PRAGMA user_version") == (journal == .wal ? 7 : 0))
        #expect(try isWhole(torn))
        torn.close()
    }

    @Test func tornFirstPageWithoutLogIsDamaged() throws {
        let connection = try connect(journal: .wal)
        try fill(connection)
        connection.close()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: folder.path("store")))
        try file.seek(toOffset: 2048)
        try file.write(contentsOf: Data(repeating: 0, count: 512))
        try file.close()
        #expect(throws: (any Error).self) {
            let torn = try connect(mode: .writing)
            defer { torn.close() }
            _ = try torn.integer("SELECT count(*) FROM t")
        }
    }

    // MARK: Use

    @Test(arguments: Journal.allCases) func nothingIsOnDiskInClear(_ journal: Journal) throws {
        let connection = try connect(journal: journal)
        try connection.execute("PRAGMA cache_size = 10; PRAGMA cache_spill = ON")
        try fill(connection)
        for number in 0..<50 {
            try connection.execute(
                "UPDATE t SET a = '\(Self.canary)x' || id WHERE id % 50 = \(number)")
        }
        // Pages go to the log several times within one transaction.
        try connection.execute("BEGIN")
        for number in 0..<20 {
            try connection.execute(
                "UPDATE t SET a = '\(Self.canary)' || \(number) WHERE id % 3 = 0")
            try connection.execute("SAVEPOINT s; DELETE FROM t WHERE id % 7 = 0; ROLLBACK TO s")
        }
        try requireNoCanary()
        try connection.execute("COMMIT")
        try requireNoCanary()
        #expect(try isWhole(connection))
        #expect(try connection.integer("SELECT count(*) FROM t") == 2000)
        try connection.execute("VACUUM")
        try requireNoCanary()
        #expect(try isWhole(connection))
        connection.close()
        let again = try connect(mode: .reading)
        #expect(try isWhole(again))
        #expect(
            try again.integer("SELECT count(*) FROM t WHERE a LIKE '\(Self.canary)%'") == 2000)
        #expect(try again.integer("PRAGMA page_size") == 4096)
    }

    @Test(arguments: [Journal.wal, .truncate])
    func severalConnectionsReadWhatOneWrites(_ journal: Journal) throws {
        let writer = try connect(journal: journal)
        try fill(writer)
        let reader = try connect(mode: .reading)
        for number in 1...20 {
            try writer.execute("INSERT INTO t (a) VALUES ('\(number)')")
            #expect(try reader.integer("SELECT count(*) FROM t") == Int64(2000 + number))
        }
        if journal == .wal { try writer.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        #expect(try reader.integer("SELECT count(*) FROM t") == 2020)
        #expect(try isWhole(reader))
    }

    @Test(arguments: [Journal.wal, .truncate, .persist])
    func whatAKilledProcessLeavesIsRecovered(_ journal: Journal) throws {
        let connection = try connect(journal: journal)
        try connection.execute("PRAGMA cache_size = 10; PRAGMA cache_spill = ON")
        try fill(connection)
        try connection.execute("UPDATE t SET a = 'committed' WHERE id <= 500")
        try connection.execute("BEGIN; UPDATE t SET a = 'lost', b = randomblob(500)")
        try copyFiles(to: "killed")
        let killed = try connect("killed", mode: .writing)
        #expect(try isWhole(killed))
        #expect(try killed.integer("SELECT count(*) FROM t WHERE a = 'committed'") == 500)
        #expect(try killed.integer("SELECT count(*) FROM t WHERE a = 'lost'") == 0)
        killed.close()
        // A log that was cut anywhere ends there.
        let logName = journal == .wal ? "-wal" : "-journal"
        for part in 1...9 {
            for suffix in ["", "-wal", "-journal"] { unlink(folder.path("killed" + suffix)) }
            try copyFiles(to: "killed")
            let log = folder.path("killed" + logName)
            let size = try #require(
                FileManager.default.attributesOfItem(atPath: log)[.size] as? Int)
            truncate(log, size * part / 10 + part)
            // A rollback journal that was cut was not synchronized, nor was the database written.
            if journal != .wal { continue }
            let cut = try connect("killed", mode: .writing)
            #expect(try isWhole(cut))
        }
    }

    @Test func freePagesThatWereNeverWrittenCanBeCopied() throws {
        let connection = try connect(journal: .truncate)
        try fill(connection, rows: 10)
        try connection.execute(
            """
            BEGIN; CREATE TABLE u (b); INSERT INTO u VALUES (zeroblob(400000)); DROP TABLE u;
            INSERT INTO t (b) VALUES (zeroblob(3000)); COMMIT
            """)
        let copy = try connect("copy")
        let backup = try SQLiteBackup(from: connection, to: copy)
        while try backup.copy(pages: 10) {}
        try backup.finish()
        #expect(try isWhole(copy))
        #expect(try copy.integer("PRAGMA freelist_count") ?? 0 > 0)
    }

    @Test func freePagesAreSealedAfterAnotherConnectionHasTruncatedTheFile() throws {
        let connection = try connect(journal: .truncate)
        try fill(connection, rows: 10)
        try connection.execute("CREATE TABLE v (b); INSERT INTO v VALUES (zeroblob(800000))")
        let other = try connect(mode: .writing, journal: .truncate)
        try other.execute("DROP TABLE v; VACUUM")
        try connection.execute(
            """
            BEGIN; CREATE TABLE u (b); INSERT INTO u VALUES (zeroblob(400000)); DROP TABLE u;
            INSERT INTO t (b) VALUES (zeroblob(3000)); COMMIT
            """)
        let copy = try connect("copy")
        let backup = try SQLiteBackup(from: connection, to: copy)
        while try backup.copy(pages: 10) {}
        try backup.finish()
        #expect(try isWhole(copy))
    }

    @Test func vacuumIntoSealsWithTheTargetsKeyOrIsRefused() throws {
        let connection = try connect()
        try fill(connection)
        #expect(throws: (any Error).self) {
            try connection.withStatement("VACUUM INTO ?") {
                try $0.bind(folder.path("clear"), at: 1)
                try $0.run()
            }
        }
        let other = try SealingFileSystem.Registration(Self.cipher(number: 7))
        try connection.withStatement("VACUUM INTO ?") {
            try $0.bind(SQLiteConnection.uri(folder.path("copy"), other.query), at: 1)
            try $0.run()
        }
        try requireNoCanary()
        let copy = try connect("copy", other.cipher, mode: .immutable)
        #expect(try isWhole(copy))
        #expect(failure { try isWhole(connect("copy", mode: .immutable)) } == .invalidFormat)
    }

    @Test func anUnprotectedStoreIsSealedByVacuumInto() throws {
        let plain = try SQLiteConnection(path: folder.path("plain"), mode: .creating)
        try fill(plain)
        plain.reserveBytesForSealing()
        let target = try SealingFileSystem.Registration(cipher)
        try plain.withStatement("VACUUM INTO ?") {
            try $0.bind(SQLiteConnection.uri(folder.path("store"), target.query), at: 1)
            try $0.run()
        }
        plain.close()
        unlink(folder.path("plain"))
        try requireNoCanary()
        #expect(try isWhole(connect(mode: .writing)))
    }

    // MARK: Damage and attacks

    private func failure(_ body: () throws -> some Any) -> QuireError.Code? {
        do { _ = try body() } catch let error as SQLiteFailure {
            return error.error(path: folder.path("store")).code
        } catch { return (error as? QuireError)?.code }
        return nil
    }

    private func readAll(_ connection: SQLiteConnection) throws {
        _ = try connection.integer("SELECT count(*) + sum(length(a)) + sum(length(b)) FROM t")
    }

    @Test func plainSQLiteRefusesTheFile() throws {
        try fill(connect())
        let plain = try SQLiteConnection(path: folder.path("store"), mode: .reading)
        #expect(
            failure { try plain.integer("SELECT count(*) FROM sqlite_schema") } == .invalidFormat)
    }

    @Test func aFlippedBitAnywhereIsAnError() throws {
        let connection = try connect()
        try fill(connection, rows: 300)
        connection.close()
        let whole = try Data(contentsOf: URL(fileURLWithPath: folder.path("store")))
        var random = SeededRandom(seed: 34)
        for _ in 0..<500 {
            var bytes = whole
            bytes[Int.random(in: 0..<bytes.count, using: &random)] ^=
                1 << UInt8.random(in: 0..<8, using: &random)
            try bytes.write(to: URL(fileURLWithPath: folder.path("damaged")))
            #expect(
                failure { try readAll(connect("damaged", mode: .immutable)) } == .invalidFormat)
        }
    }

    enum Tampering: CaseIterable {
        case swapped, doubled, cut, cutInAPage, zeroed, fromAnotherStore
    }

    @Test(arguments: Tampering.allCases)
    func pagesThatWereMovedOrCutAreAnError(_ tampering: Tampering) throws {
        let connection = try connect()
        try fill(connection, rows: 1000)
        connection.close()
        let other = try connect("other", Self.cipher())
        try fill(other, rows: 1000)
        other.close()
        let url = URL(fileURLWithPath: folder.path("store"))
        var bytes = try Data(contentsOf: url)
        func page(_ number: Int, of bytes: Data) -> Data {
            bytes[number * 4096..<(number + 1) * 4096]
        }
        func replace(_ number: Int, with page: Data) {
            bytes.replaceSubrange(number * 4096..<(number + 1) * 4096, with: page)
        }
        switch tampering {
        case .swapped:
            let (first, second) = (page(3, of: bytes), page(4, of: bytes))
            replace(3, with: second)
            replace(4, with: first)
        case .doubled: replace(4, with: page(3, of: bytes))
        case .cut: bytes.removeLast(4096)
        case .cutInAPage: bytes.removeLast(100)
        case .zeroed: replace(3, with: Data(count: 4096))
        case .fromAnotherStore:
            let others = try Data(contentsOf: URL(fileURLWithPath: folder.path("other")))
            replace(3, with: page(3, of: others))
        }
        try bytes.write(to: url)
        #expect(failure { try readAll(connect(mode: .writing)) } == .invalidFormat)
    }

    @Test func damageInTheLogIsNeverRead() throws {
        let connection = try connect(journal: .wal)
        try fill(connection, rows: 300)
        try copyFiles(to: "whole")
        let name = folder.path("whole-wal")
        let whole = try Data(contentsOf: URL(fileURLWithPath: name))
        var random = SeededRandom(seed: 35)
        for _ in 0..<200 {
            for suffix in ["", "-wal", "-shm"] { unlink(folder.path("damaged" + suffix)) }
            var bytes = whole
            bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1
            try copyFiles(to: "damaged")
            try bytes.write(to: URL(fileURLWithPath: folder.path("damaged-wal")))
            let damaged = try connect("damaged", mode: .writing)
            // The log ends where it is damaged: what is there is what was committed before.
            let count = failure { try damaged.integer("SELECT count(*) FROM t") }
            #expect(count == nil || count == .invalidQuery || count == .storeUnavailable)
            #expect(try isWhole(damaged))
        }
        connection.close()
    }

    @Test func aRevokedKeyMakesProtectedDataUnavailable() throws {
        let key = FileKey(
            file: UUID(), fileProtection: .complete, secret: try SecretMemory(randomCount: 32))
        let connection = try connect("store", PageCipher(keys: [1: key], current: 1))
        try fill(connection)
        key.revoke()
        let revoked = PageCipher(keys: [1: key], current: 1)
        #expect(
            failure { try readAll(connect("store", revoked, mode: .reading)) }
                == .protectedDataUnavailable)
        #expect(
            failure { try connection.execute("UPDATE t SET a = 'x'") } == .protectedDataUnavailable)
    }
}
