import CSQLite
internal import Foundation
internal import Logging

/// The log of a connection's statements: `QUIRE_SQL_DEBUG=N` is Core Data's `-com.apple.CoreData.SQLDebug N`.
///
/// A statement is logged when it ends, with the label `quire.sql` and level `info`, and with what `sqlite3_trace_v2` tells of
/// it. Of a sealed database no level logs a value.
///
/// It has the state of the statements that run on one connection, and is used where the connection is.
final class SQLiteTrace {
    /// The details that are logged; each level includes those below it.
    enum Level: Int, Comparable {
        /// The statement, its duration, and the number of rows or changes.
        case statements = 1
        /// Bound values in place of parameters.
        case values
        /// The values of the first rows.
        case rows
        /// SQLite's query plan.
        case plans

        static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    private struct Run {
        let start: ContinuousClock.Instant
        let changesBefore: Int64
        /// The statement with its values, if these are logged.
        let text: String?
        var rowCount = 0
        var rows: [String] = []
    }

    static let variable = "QUIRE_SQL_DEBUG"
    /// The level that the environment had when the first connection was opened; `nil` for no log.
    static let environmentLevel = level(ProcessInfo.processInfo.environment[variable])

    /// The maximum number of rows whose values are logged.
    static let maximumRowCount = 100
    /// The maximum length of a logged literal, and of a logged line.
    static let maximumLiteralLength = 64
    static let maximumLineLength = 4000
    private static let maximumPlanCount = 512

    private let level: Level
    /// Whether values may be logged.
    private let showsValues: Bool
    private let logger: Logger
    private var runs: [OpaquePointer: Run] = [:]
    /// The query plans of prepared statements, by their SQL.
    private var plans: [String: [String]] = [:]
    private var isExplaining = false

    init(level: Level, path: String, connection: UInt64, isSealed: Bool, logger: Logger) {
        self.level = level
        showsValues = !isSealed
        var logger = logger
        logger[metadataKey: "store"] = "\(Self.line(path, isSQL: false))"
        logger[metadataKey: "connection"] = "\(connection)"
        self.logger = logger
    }

    /// The level that a value of the variable means. One that is not a level is reported and ignored.
    static func level(
        _ text: String?, logger: @autoclosure () -> Logger = Logger(label: "quire.sql")
    ) -> Level? {
        guard let text, !text.isEmpty, text != "0" else { return nil }
        if let level = Int(text).flatMap(Level.init) { return level }
        logger().warning(
            "\(variable) is “\(line(text, isSQL: false))”, which is ignored; set it to a level from 1 to 4."
        )
        return nil
    }

    /// Begins to log the statements of a connection, which must call ``end(on:)`` before it is released.
    func begin(on handle: OpaquePointer) {
        let events = SQLITE_TRACE_STMT | SQLITE_TRACE_ROW | SQLITE_TRACE_PROFILE
        sqlite3_trace_v2(
            handle, UInt32(events),
            { event, trace, statement, detail in
                guard let trace, let statement else { return 0 }
                Unmanaged<SQLiteTrace>.fromOpaque(trace).takeUnretainedValue()
                    .note(Int32(bitPattern: event), OpaquePointer(statement), detail)
                return 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    func end(on handle: OpaquePointer) { sqlite3_trace_v2(handle, 0, nil, nil) }

    // MARK: - Statements

    private func note(
        _ event: Int32, _ statement: OpaquePointer, _ detail: UnsafeMutableRawPointer?
    ) {
        if isExplaining { return }
        switch event {
        case SQLITE_TRACE_STMT:
            let comment = detail?.assumingMemoryBound(to: CChar.self)
            // A trigger that a statement fires.
            if let comment, strncmp(comment, "--", 2) == 0 { return }
            runs[statement] = Run(
                start: .now,
                changesBefore: sqlite3_total_changes64(sqlite3_db_handle(statement)),
                text: level >= .values && showsValues ? Self.expanded(statement) : nil)
        case SQLITE_TRACE_ROW:
            guard var run = runs.removeValue(forKey: statement) else { return }
            run.rowCount += 1
            if level >= .rows && showsValues && run.rowCount <= Self.maximumRowCount {
                run.rows.append(Self.row(of: statement))
            }
            runs[statement] = run
        case SQLITE_TRACE_PROFILE:
            guard let run = runs.removeValue(forKey: statement) else { return }
            log(run, of: statement)
        default: break
        }
    }

    private func log(_ run: Run, of statement: OpaquePointer) {
        let duration = run.start.duration(to: .now)
        let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
        var details = [String(format: "%.3f ms", duration / .milliseconds(1))]
        if sqlite3_column_count(statement) > 0 {
            details.append(run.rowCount == 1 ? "1 row" : "\(run.rowCount) rows")
        } else {
            let changes =
                sqlite3_total_changes64(sqlite3_db_handle(statement)) - run.changesBefore
            if changes > 0 { details.append(changes == 1 ? "1 change" : "\(changes) changes") }
        }
        log("\(Self.line(run.text ?? sql)) (\(details.joined(separator: ", ")))")
        for (index, row) in run.rows.enumerated() { log("row \(index + 1): \(row)") }
        if run.rowCount > run.rows.count && !run.rows.isEmpty {
            log("and \(run.rowCount - run.rows.count) more rows")
        }
        for step in plans[sql] ?? [] { log("plan: \(step)") }
    }

    private func log(_ line: String) { logger.info("\(line)") }

    // MARK: - Values

    /// The statement with its values; without them if the text would be too large.
    private static func expanded(_ statement: OpaquePointer) -> String? {
        guard let text = sqlite3_expanded_sql(statement) else { return nil }
        defer { sqlite3_free(text) }
        return String(cString: text)
    }

    /// The values of the present row. Each is read as what it is: a conversion would change what the statement's user reads.
    private static func row(of statement: OpaquePointer) -> String {
        let values = (0..<sqlite3_column_count(statement)).map { column -> String in
            switch sqlite3_column_type(statement, column) {
            case SQLITE_NULL: return "NULL"
            case SQLITE_INTEGER: return String(sqlite3_column_int64(statement, column))
            case SQLITE_FLOAT: return String(sqlite3_column_double(statement, column))
            case SQLITE_TEXT:
                guard let start = sqlite3_column_text(statement, column) else { return "NULL" }
                let bytes = UnsafeBufferPointer(
                    start: start, count: Int(sqlite3_column_bytes(statement, column)))
                // A scalar has up to four bytes.
                let isWhole = bytes.count <= 4 * maximumLiteralLength
                let text = String(
                    decoding: bytes.prefix(4 * (maximumLiteralLength + 1)), as: UTF8.self)
                return "'\(line(text, isSQL: false, maximum: maximumLiteralLength))'"
                    + (isWhole ? "" : " (\(bytes.count) bytes)")
            default: return "<\(sqlite3_column_bytes(statement, column)) bytes>"
            }
        }
        return line(values.joined(separator: ", "), isSQL: false)
    }

    /// A text on one line, without control characters, cut off after a maximum. In SQL, white space is collapsed and literals
    /// are shortened.
    static func line(
        _ text: String, isSQL: Bool = true, maximum: Int = maximumLineLength
    ) -> String {
        var result = String.UnicodeScalarView()
        var quote: Unicode.Scalar?
        var literalLength = 0
        var count = 0
        for scalar in text.unicodeScalars {
            if count >= maximum {
                result.append("…")
                break
            }
            if quote == nil, isSQL, scalar.properties.isWhitespace {
                if result.last != " " { result.append(" ") }
                continue
            }
            if scalar == quote {
                if literalLength > maximumLiteralLength { result.append("…") }
                quote = nil
            } else if quote != nil {
                literalLength += 1
                if quote == "'" && literalLength > maximumLiteralLength { continue }
            } else if isSQL, scalar == "'" || scalar == "\"" {
                quote = scalar
                literalLength = 0
            }
            count += 1
            if scalar.properties.generalCategory == .control {
                result.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
            } else {
                result.append(scalar)
            }
        }
        return String(result)
    }

    // MARK: - Plans

    /// Keeps the query plan of a statement that has been prepared, if plans are logged.
    ///
    /// Not while the statement runs, where another one would take part in its transaction.
    func explain(_ sql: String, on handle: OpaquePointer) {
        guard level >= .plans, plans[sql] == nil,
            ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"].contains(
                where: sql.hasPrefix)
        else { return }
        isExplaining = true
        defer { isExplaining = false }
        var prepared: OpaquePointer?
        guard
            sqlite3_prepare_v2(handle, "EXPLAIN QUERY PLAN " + sql, -1, &prepared, nil)
                == SQLITE_OK
        else { return }
        defer { sqlite3_finalize(prepared) }
        var steps: [String] = []
        var depths: [Int64: Int] = [:]
        while sqlite3_step(prepared) == SQLITE_ROW {
            let depth = depths[sqlite3_column_int64(prepared, 1)].map { $0 + 1 } ?? 0
            depths[sqlite3_column_int64(prepared, 0)] = depth
            guard let detail = sqlite3_column_text(prepared, 3) else { continue }
            steps.append(
                String(repeating: "  ", count: depth) + Self.line(String(cString: detail)))
        }
        if plans.count >= Self.maximumPlanCount { plans.removeAll() }
        plans[sql] = steps
    }
}
