import CSQLite
import Foundation
internal import Logging
internal import QuireModel
package import QuireProtection
package import QuireQuery
internal import QuireSystem

/// The owner of a SQLite connection.
///
/// Unchecked because a connection is used by one thread at a time: its holder uses it under a lock, or has taken it out of a
/// pool. SQLite's own mutexes are therefore off.
package final class SQLiteConnection: @unchecked Sendable {
    /// The access mode of a connection.
    package enum Mode {
        /// Creates the file if it does not exist.
        case creating
        /// Reads and writes an existing file.
        case writing
        /// Reads a file that other connections may write.
        case reading
        /// Reads a file that no process writes, without locks and without files beside it.
        case immutable
        /// Reads and writes an in-memory database that connections of this process may share.
        case memory

        var locksFile: Bool { self != .immutable && self != .memory }
    }

    /// SQLite's connection. Valid until ``close()``.
    let handle: OpaquePointer
    /// The path of the database.
    let path: String
    /// A number unique among the connections of the process.
    let number = ContentVersion.newCounter()
    private var statements: [String: SQLiteStatement] = [:]
    private var isClosed = false
    /// The identity of the file, whose locks must not be dropped while the connection is open.
    private let lockedFile: FileLockRegistry.Identity?
    /// The log of derived attributes for triggers; retained by the SQL functions that they call.
    let derivedLog = SQLiteDerivedLog()
    /// The files that the store has open, if transactions must check that they are still at the path.
    var files: OpenFileIdentity?
    /// Whether triggers may write R-trees and full-text indexes.
    private(set) var isSchemaTrusted = false
    /// The error if the files were replaced during a commit, so that the transaction is not at the store's path.
    var lostCommit: QuireError?
    /// The busy handler; SQLite holds an unretained reference to it.
    private var busyWait: SQLiteBusyWait?
    /// The registration of the cipher with the VFS; `nil` for an unprotected database.
    package let sealing: SealingFileSystem.Registration?
    /// A count of the statements handed out, for tests.
    var counter: SQLiteStatementCounter?
    /// The log of statements; SQLite holds an unretained reference to it.
    private var trace: SQLiteTrace?

    /// The maximum number of cached statements.
    private static let maximumStatementCount = 512

    /// Opens a database with all features disabled that a hostile file could exploit. Inside a package symbolic links are not
    /// followed; see ``SQLiteFiles``.
    ///
    /// - Throws: ``SQLiteFailure``, or ``QuireError`` with code `invalidFormat` if its journal names another file; inside a
    ///   package also `notFound`.
    package init(path: String, mode: Mode, cipher: PageCipher? = nil) throws {
        _ = SQLiteLibrary.isConfigured
        self.path = path
        // The target of VACUUM INTO is a URI, which names its VFS and cipher.
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_URI
        var file = path
        let isArchived = ArchiveMount.contains(path)
        if mode != .memory, !isArchived, let root = StorePath.packageRoot(of: path) {
            file = try SQLiteFiles.canonicalPath(path, beneath: root)
            flags |= SQLITE_OPEN_NOFOLLOW
        }
        var name = file.hasPrefix("/") ? file : "./" + file
        switch mode {
        case .creating: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        case .writing: flags |= SQLITE_OPEN_READWRITE
        case .reading: flags |= SQLITE_OPEN_READONLY
        case .memory:
            flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
            name = Self.uri(path, "vfs=memdb")
        case .immutable:
            flags |= SQLITE_OPEN_READONLY
        }
        sealing = try cipher.map(SealingFileSystem.Registration.init)
        var query = mode == .immutable ? ["immutable=1"] : []
        if let sealing {
            query.append(sealing.query)
        } else if isArchived, ArchiveFileSystem.registered != nil {
            query.append("vfs=\(ArchiveFileSystem.name)")
        }
        if !query.isEmpty { name = Self.uri(file, query.joined(separator: "&")) }
        if mode.locksFile { try SQLiteFiles.checkJournal(of: file) }
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(name, &opened, flags, nil)
        guard let opened, code == SQLITE_OK else {
            let failure = SQLiteFailure(
                code: opened == nil ? SQLITE_NOMEM : code,
                message: opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory",
                systemError: opened.map { sqlite3_system_errno($0) } ?? 0)
            sqlite3_close(opened)
            throw failure
        }
        handle = opened
        // SQLite has opened the file, and locks it with the first read.
        lockedFile = mode.locksFile ? FileLockRegistry.add(file) : nil
        for (option, value) in [
            (SQLITE_DBCONFIG_DEFENSIVE, 1), (SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (SQLITE_DBCONFIG_DQS_DML, 0), (SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
        ] as [(Int32, Int32)] {
            _ = quire_sqlite3_db_config_int(handle, option, value)
        }
        sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 1)  // VACUUM needs one.
        sqlite3_limit(handle, SQLITE_LIMIT_WORKER_THREADS, 0)
        if let level = SQLiteTrace.environmentLevel { logStatements(level) }
        if sealing != nil { reserveBytesForSealing() }
    }

    deinit { close() }

    /// Closes the connection. Idempotent.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        statements.removeAll()
        if busyWait != nil { sqlite3_busy_handler(handle, nil, nil) }
        trace?.end(on: handle)
        // Defers to the last statement still held, rather than failing.
        sqlite3_close_v2(handle)
        if let lockedFile { FileLockRegistry.remove(lockedFile) }
    }

    /// Lets triggers write R-trees and full-text indexes, which SQLite refuses in an untrusted schema.
    ///
    /// A hostile file's triggers can then use SQLite's virtual tables and functions, but none that reach beyond the database:
    /// those, like loading extensions, are for direct statements only; and the connection stays defensive. This framework's
    /// functions have no side effects.
    package func trustSchema(_ isTrusted: Bool = true) {
        isSchemaTrusted = isTrusted
        _ = quire_sqlite3_db_config_int(
            handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, isTrusted ? 1 : 0)
    }

    /// Sets `SQLITE_FCNTL_RESERVE_BYTES` to the size that sealing needs, for databases that this connection creates, also by
    /// `VACUUM INTO`. An existing database keeps its reserved bytes.
    func reserveBytesForSealing() {
        var size = Int32(PageCipher.reservedSize)
        _ = sqlite3_file_control(handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &size)
    }

    /// Installs a busy handler for locks of other processes.
    func setBusyWait(_ wait: SQLiteBusyWait) {
        wait.install(on: self)
        busyWait = wait
    }

    /// Logs the statements from now on.
    func logStatements(
        _ level: SQLiteTrace.Level, logger: Logger = Logger(label: "quire.sql")
    ) {
        let trace = SQLiteTrace(
            level: level, path: path, connection: number, isSealed: sealing != nil, logger: logger)
        trace.begin(on: handle)
        self.trace = trace
    }

    /// Disables the checkpoint on close, so that the write-ahead log is left as it is.
    func keepLogOnClose() {
        _ = quire_sqlite3_db_config_int(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    // MARK: - Statements

    /// Runs statements whose rows are ignored.
    package func execute(_ sql: String) throws {
        if sqlite3_exec(handle, sql, nil, nil, nil) != SQLITE_OK { throw failure() }
    }

    /// A new prepared statement.
    package func prepare(_ sql: String, isKept: Bool = false) throws -> SQLiteStatement {
        var prepared: OpaquePointer?
        var sql = sql
        let code = sql.withUTF8 {
            let bytes = UnsafeRawBufferPointer($0).baseAddress?.assumingMemoryBound(to: CChar.self)
            return sqlite3_prepare_v3(
                handle, bytes, Int32(clamping: $0.count),
                UInt32(isKept ? SQLITE_PREPARE_PERSISTENT : 0),
                &prepared, nil)
        }
        guard code == SQLITE_OK else { throw failure() }
        guard let prepared else {
            throw SQLiteFailure(code: SQLITE_MISUSE, message: "empty statement")
        }
        trace?.explain(sql, on: handle)
        return SQLiteStatement(prepared)
    }

    /// Runs a closure with a cached prepared statement, which is reset afterwards.
    package func withStatement<Result>(
        _ sql: String, _ body: (SQLiteStatement) throws -> Result
    ) throws -> Result {
        let statement = try keptStatement(sql)
        counter?.add()
        statement.isInUse = true
        defer {
            statement.isInUse = false
            statement.reset()
        }
        return try body(statement)
    }

    /// A cached prepared statement. The caller resets it.
    func keptStatement(_ sql: String) throws -> SQLiteStatement {
        if let statement = statements[sql] {
            return statement.isInUse ? try prepare(sql) : statement
        }
        let statement = try prepare(sql, isKept: true)
        if statements.count >= Self.maximumStatementCount {
            statements = statements.filter { $0.value.isInUse }
        }
        statements[sql] = statement
        return statement
    }

    /// Whether tables can be `STRICT`.
    package static var supportsStrictTables: Bool { sqlite3_libversion_number() >= 3_037_000 }

    /// The number of rows changed by the last statement.
    package var changeCount: Int { Int(sqlite3_changes64(handle)) }

    /// Whether the file is not writable, although writing may have been requested.
    package var isReadOnly: Bool { sqlite3_db_readonly(handle, "main") == 1 }

    /// A number that changes with every commit of this connection; also, unlike `PRAGMA data_version`, which tells of the
    /// others' commits only.
    var commitVersion: UInt32 {
        var version: UInt32 = 0
        sqlite3_file_control(handle, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return version
    }

    /// Whether a transaction is open.
    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// The last error.
    func failure() -> SQLiteFailure { SQLiteFailure(of: handle) }

    /// Runs a closure whose statements fail soon after a monitor is cancelled.
    package func watched<Result>(by monitor: FetchMonitor, _ body: () throws -> Result) rethrows
        -> Result
    {
        // SQLite calls the progress handler periodically, so a cancellation between two statements is not lost.
        sqlite3_progress_handler(
            handle, 1000,
            { monitor in
                guard let monitor else { return 0 }
                let watching = Unmanaged<FetchMonitor>.fromOpaque(monitor).takeUnretainedValue()
                watching.poll?()
                return watching.isCancelled ? 1 : 0
            }, Unmanaged.passUnretained(monitor).toOpaque())
        defer { sqlite3_progress_handler(handle, 0, nil, nil) }
        return try withExtendedLifetime(monitor) { try body() }
    }

    /// Releases memory that is no longer needed.
    ///
    /// - Parameter limit: The size of the page cache in bytes up to which it is kept.
    func releaseMemory(above limit: Int = 0) {
        var (used, highest): (Int32, Int32) = (0, 0)
        sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_USED, &used, &highest, 0)
        if Int(used) > limit { sqlite3_db_release_memory(handle) }
    }

    /// The SQLite URI of a file.
    package static func uri(_ path: String, _ query: String) -> String {
        var result = "file:"
        for byte in path.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "/"), UInt8(ascii: "."),
                UInt8(ascii: "-"), UInt8(ascii: "_"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += digits.utf8.count == 1 ? "%0" + digits : "%" + digits
            }
        }
        return result + "?" + query
    }
}

// MARK: - Pragmas

/// Pragmas of ``SQLiteStoreOptions/pragmas``, as statements.
struct SQLitePragmas {
    /// The statements, sorted by name.
    let statements: [String]

    /// Pragmas that would break the store's guarantees, or for which there are options.
    private static let refused: Set<String> = [
        "application_id", "auto_vacuum", "busy_timeout", "case_sensitive_like", "cell_size_check",
        "defer_foreign_keys", "encoding", "foreign_keys", "ignore_check_constraints",
        "journal_mode",
        "legacy_alter_table", "legacy_file_format", "locking_mode", "page_size", "query_only",
        "read_uncommitted", "recursive_triggers", "reverse_unordered_selects", "schema_version",
        "synchronous", "temp_store", "trusted_schema", "user_version", "writable_schema",
    ]

    /// Checks and translates pragmas.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if one is refused, or is not made of letters, digits, `_` and `-`.
    init(_ pragmas: [String: String], path: String) throws {
        statements = try pragmas.sorted { $0.key < $1.key }.map { name, value in
            if Self.refused.contains(name.lowercased()) {
                throw QuireError(
                    .invalidValue,
                    "The pragma “\(name)” cannot be set for “\(path)”: the store relies on its value, or has an "
                        + "option for it.",
                    file: path, value: value)
            }
            guard Self.isWord(name), Self.isWord(value) else {
                throw QuireError(
                    .invalidValue,
                    "“\(name) = \(value)” is not a pragma: names and values are letters, digits, “_” and “-”.",
                    file: path, value: value)
            }
            return "PRAGMA \(name) = \(value)"
        }
    }

    private static func isWord(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") || (0x30...0x39).contains($0)
                    || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            }
    }
}

// MARK: - Duplicates

extension SQLiteConnection {
    /// The error for a unique index that cannot be created because of duplicate values: it names the entity, the properties,
    /// and two of the objects.
    func duplicatesError(_ failure: SQLiteFailure, _ schema: SQLSchema) -> QuireError {
        guard let found = schema.uniqueProperties(inMessage: failure.message),
            let entity = schema.layout.entity(named: found.entity)
        else {
            return failure.error(path: path, schema: schema)
        }
        let names = found.properties.map { "“\($0)”" }
        let isSingle = names.count == 1
        var sentence =
            "“\(found.entity).\(found.properties[0])”"
            + names.dropFirst().map { " and \($0)" }.joined()
            + " must be unique\(isSingle ? "" : " together"), and "
        // An unreadable example is not worth another error.
        let example = try? duplicates(found.table, found.columns, schema)
        if let example, example.objects.count == 2 {
            let values = zip(found.properties, example.values).compactMap { name, value in
                Self.text(value, of: name, in: entity)
            }
            sentence += "\(example.objects[0]) and \(example.objects[1]) both have "
            sentence +=
                values.count == names.count
                ? values.joined(separator: " and ")
                : "the same \(isSingle ? "value" : "values")"
        } else {
            sentence += "several objects have the same \(isSingle ? "value" : "values")"
        }
        return QuireError(
            .constraintConflict,
            "\(sentence) in “\(path)”; change one of them, or the model's constraint.",
            entity: found.entity, property: found.properties[0], file: path, underlying: failure)
    }

    /// Two objects with equal values in some columns, and the values.
    private func duplicates(
        _ table: String, _ columns: [String], _ schema: SQLSchema
    ) throws -> (objects: [String], values: [String]) {
        let names = columns.map { "\(name: $0)" as SQLFragment }
        let isThere = names.map { "\($0) NOT NULL" as SQLFragment }.joined(by: " AND ")
        let isSame = names.map { "t.\($0) = s.\($0)" as SQLFragment }.joined(by: " AND ")
        let query: SQLFragment =
            """
            WITH f (k) AS (SELECT min(Z_PK) FROM \(name: table) WHERE \(isThere) \
            GROUP BY \(names.joined(by: ", ")) HAVING count(*) > 1 ORDER BY 1 LIMIT 1) \
            SELECT t.Z_PK, t.Z_ENT, \(names.map { "t.\($0)" as SQLFragment }.joined(by: ", ")) \
            FROM f JOIN \(name: table) s ON s.Z_PK = f.k JOIN \(name: table) t ON \(isSame) \
            ORDER BY t.Z_PK LIMIT 2
            """
        var objects: [String] = []
        var values: [String] = []
        try forEachRow(query.sql) { row in
            let number = schema.modelNumber(ofStoreNumber: row.integer(1))
            let entity = number.map { schema.layout.entity(number: $0).name } ?? "?"
            objects.append("\(entity)/p\(row.integer(0))")
            values = columns.indices.map { row.text(Int32($0) + 2) }
        }
        return (objects, values)
    }

    /// A stored value for display; `nil` if its type has no readable form.
    private static func text(
        _ value: String, of property: String, in entity: ResolvedEntity
    ) -> String? {
        guard let slot = entity.slot(named: property) else { return nil }
        switch entity.slots[slot].attribute?.type {
        case .string:
            return value.count > 80 ? "“\(value.prefix(80))…”" : "“\(value)”"
        case .integer16, .integer32, .integer64, .double, .float, .decimal: return value
        default: return nil
        }
    }
}

// MARK: - Primary keys

/// The greatest primary keys in `Z_PRIMARYKEY`, by the number of the root entity.
extension SQLiteConnection {
    package func maximumPrimaryKey(of entityNumber: Int) throws -> Int64 {
        try integer("SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_ENT = ?", Int64(entityNumber)) ?? 0
    }

    /// The greatest primary key ever used in an entity hierarchy: `Z_MAX` may be lower than `max(Z_PK)`.
    package func greatestUsedKey(of root: SQLEntity) throws -> Int64 {
        let used = try integer("SELECT max(Z_PK) FROM \(SQLName.quoted(root.tableName))")
        return max(try maximumPrimaryKey(of: root.storeNumber), used ?? 0)
    }

    func recordGreatestPrimaryKey(_ key: Int64, of entityNumber: Int) throws {
        try run("UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_ENT = ?", key, Int64(entityNumber))
    }
}

// MARK: - Waiting

/// A busy handler that waits for locks of other processes as SQLite's own does, and reports the wait.
///
/// Unchecked because a connection is used by one thread at a time.
final class SQLiteBusyWait: @unchecked Sendable {
    private let path: String
    private let wait: FileLockWait
    private var deadline = ContinuousClock.now
    private var hasReported = false

    init(path: String, wait: FileLockWait) {
        self.path = path
        self.wait = wait
    }

    /// Installs the handler on a connection, which must not outlive this object.
    func install(on connection: SQLiteConnection) {
        let me = Unmanaged.passUnretained(self).toOpaque()
        let handler: @convention(c) (UnsafeMutableRawPointer?, Int32) -> Int32 = { context, count in
            guard let context else { return 0 }
            let wait = Unmanaged<SQLiteBusyWait>.fromOpaque(context).takeUnretainedValue()
            return wait.isToTryAgain(after: count) ? 1 : 0
        }
        sqlite3_busy_handler(connection.handle, handler, me)
    }

    /// Sleeps for one interval.
    ///
    /// - Parameter count: The number of earlier calls for this lock.
    /// - Returns: Whether to retry.
    private func isToTryAgain(after count: Int32) -> Bool {
        if count == 0 { deadline = .now + wait.timeout }
        if ContinuousClock.now >= deadline { return false }
        if !hasReported {
            hasReported = true
            wait.willWait(.find(path))
        }
        Thread.sleep(forTimeInterval: FileLockWait.interval)
        return true
    }
}
