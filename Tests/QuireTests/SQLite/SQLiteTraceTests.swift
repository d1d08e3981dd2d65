import Foundation
import Logging
import QuireProtection
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireProtection
@testable import QuireSQLite

/// The log of statements, `QUIRE_SQL_DEBUG`.
struct SQLiteTraceTests {
    /// The messages of a logger, with their levels and metadata.
    private final class Messages: Sendable {
        private let list = Lock<[(level: Logger.Level, text: String)]>([])

        /// The texts, with times as `T ms`.
        var texts: [String] {
            list.withLock { $0.map { $0.text.replacing(/[0-9.]+ ms/, with: "T ms") } }
        }
        var levels: [Logger.Level] { list.withLock { $0.map(\.level) } }

        var logger: Logger { Logger(label: "test") { _ in Handler(messages: self) } }

        fileprivate func add(_ level: Logger.Level, _ text: String) {
            list.withLock { $0.append((level, text)) }
        }
    }

    private struct Handler: LogHandler {
        let messages: Messages
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { messages.add(event.level, "\(event.message)") }
    }

    private let folder: TemporaryFolder
    private let messages = Messages()

    init() throws { folder = try TemporaryFolder() }

    private func connect(
        _ level: SQLiteTrace.Level, cipher: PageCipher? = nil
    ) throws -> SQLiteConnection {
        let connection = try SQLiteConnection(
            path: folder.path("t.sqlite"), mode: .creating, cipher: cipher)
        try connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        connection.logStatements(level, logger: messages.logger)
        return connection
    }

    private func fill(_ connection: SQLiteConnection) throws {
        try connection.withStatement("INSERT INTO t (b) VALUES (?)") {
            try $0.bind("it's", at: 1)
            try $0.run()
        }
        _ = try connection.integer("SELECT a FROM t\n    WHERE b = 'it''s' AND a > ?", 0)
    }

    @Test func aStatementIsLoggedWithItsTimeAndRows() throws {
        let connection = try connect(.statements)
        try fill(connection)
        #expect(
            messages.texts == [
                "INSERT INTO t (b) VALUES (?) (T ms, 1 change)",
                "SELECT a FROM t WHERE b = 'it''s' AND a > ? (T ms, 1 row)",
            ])
        #expect(messages.levels == [.info, .info])
    }

    @Test func valuesRowsAndPlansComeWithTheLevels() throws {
        let connection = try connect(.plans)
        try fill(connection)
        #expect(
            messages.texts == [
                "INSERT INTO t (b) VALUES ('it''s') (T ms, 1 change)",
                "SELECT a FROM t WHERE b = 'it''s' AND a > 0 (T ms, 1 row)",
                "row 1: 1",
                "plan: SEARCH t USING INTEGER PRIMARY KEY (rowid>?)",
            ])
    }

    @Test func valuesAreNotChangedByLoggingThem() throws {
        let connection = try connect(.plans)
        try connection.execute(
            "INSERT INTO t VALUES (1, 2), (2, 2.5), (3, 'x'), (4, x'00ff'), (5, NULL)")
        let values = try connection.withStatement("SELECT b FROM t ORDER BY a") { statement in
            var values: [String] = []
            while try statement.step() { values.append("\(statement.value(0))") }
            return values
        }
        #expect(
            values == ["integer(2)", "double(2.5)", "string(\"x\")", "binary(2 bytes)", "null"])
        #expect(
            messages.texts.filter { $0.hasPrefix("row") } == [
                "row 1: 2", "row 2: 2.5", "row 3: 'x'", "row 4: <2 bytes>", "row 5: NULL",
            ])
    }

    @Test func theNumberOfChangesIsWhatItWasWithoutPlans() throws {
        let connection = try connect(.plans)
        try connection.execute("INSERT INTO t (b) VALUES (1), (2), (3)")
        try connection.withStatement("UPDATE t SET b = b + 1") { try $0.run() }
        #expect(connection.changeCount == 3)
    }

    @Test func longAndControlCharactersAreShortened() throws {
        let connection = try connect(.rows)
        try connection.withStatement("SELECT ?") {
            try $0.bind(String(repeating: "é", count: 1000) + "\u{1B}[2J", at: 1)
            _ = try $0.step()
        }
        try connection.withStatement("SELECT ?") {
            try $0.bind("\u{1B}[2J\n", at: 1)
            _ = try $0.step()
        }
        let cut = String(repeating: "é", count: 64)
        #expect(
            messages.texts == [
                "SELECT '\(cut)…' (T ms, 1 row)", "row 1: '\(cut)…' (2004 bytes)",
                #"SELECT '\u{1b}[2J\u{a}' (T ms, 1 row)"#, #"row 1: '\u{1b}[2J\u{a}'"#,
            ])
    }

    @Test func onlyTheFirstRowsAreShown() throws {
        let connection = try connect(.rows)
        try connection.withStatement(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300) SELECT i FROM c"
        ) { while try $0.step() {} }
        #expect(messages.texts.count == 102)
        #expect(messages.texts.last == "and 200 more rows")
        #expect(messages.texts[0].hasSuffix("(T ms, 300 rows)"))
    }

    @Test func aStatementThatFailsOrIsAbandonedIsLogged() throws {
        let connection = try connect(.values)
        try fill(connection)
        #expect(throws: SQLiteFailure.self) {
            try connection.execute("INSERT INTO t VALUES (1, 'again')")
        }
        #expect(messages.texts.last == "INSERT INTO t VALUES (1, 'again') (T ms)")
        // What is still held when the connection is closed has no log to go to.
        let held = try connection.prepare("SELECT 1")
        #expect(try held.step())
        connection.close()
        #expect(messages.texts.count == 3)
    }

    @Test func noLevelLogsAValueOfASealedDatabase() throws {
        let key = FileKey(
            file: UUID(), fileProtection: .complete, secret: try SecretMemory(randomCount: 32))
        let connection = try connect(.plans, cipher: PageCipher(keys: [1: key], current: 1))
        try connection.withStatement("INSERT INTO t (a, b) VALUES (?, ?)") {
            try $0.bind(Int64(7_654_321), at: 1)
            try $0.bind("CANARY", at: 2)
            try $0.run()
        }
        #expect(try connection.integer("SELECT a FROM t WHERE a > ?", 0) == 7_654_321)
        #expect(
            messages.texts == [
                "INSERT INTO t (a, b) VALUES (?, ?) (T ms, 1 change)",
                "SELECT a FROM t WHERE a > ? (T ms, 1 row)",
                "plan: SEARCH t USING INTEGER PRIMARY KEY (rowid>?)",
            ])
    }

    @Test func whatIsNoLevelIsReportedAndIgnored() {
        #expect(SQLiteTrace.level("3", logger: messages.logger) == .rows)
        for off in [nil, "", "0"] {
            #expect(SQLiteTrace.level(off, logger: messages.logger) == nil)
        }
        #expect(messages.texts.isEmpty)
        for wrong in ["5", "-1", "yes\n"] {
            #expect(SQLiteTrace.level(wrong, logger: messages.logger) == nil)
        }
        #expect(
            messages.texts
                == ["5", "-1", #"yes\u{a}"#].map {
                    "QUIRE_SQL_DEBUG is “\($0)”, which is ignored; set it to a level from 1 to 4."
                })
        #expect(Set(messages.levels) == [.warning])
    }
}
