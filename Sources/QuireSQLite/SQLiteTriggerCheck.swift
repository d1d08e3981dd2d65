import CSQLite
internal import QuireModel
internal import QuireSystem

/// Finds schema objects with side effects on objects, which forbid writing to a store: triggers made neither by Core Data nor
/// by this framework, and tables that lose rows when a constraint is violated.
///
/// A trigger's name proves nothing. SQLite reports its actions to an authorizer callback while the statements that fire it are
/// prepared. A trigger is accepted if it runs after the change of a row (`AFTER`), has no recursive query, cannot abort the
/// statement (`RAISE`), calls only functions that compute values, and writes only
///
/// - rows of the R-tree or full-text index that it is named after, as `Z_RT_Place_byPlace_INSERT` those of
///   `Z_RT_Place_byPlace`, or
/// - one column, reported to the connection by one of Core Data's functions, as triggers of derived attributes do. The column
///   is a derived attribute's, or of no property of the model, or holds integers or truth values: Apple's programs count
///   objects, and note whether there are any, in attributes that their models do not declare as derived.
///
/// So an accepted trigger does not insert, delete or relate objects, and it terminates; the duration of its queries is not
/// bounded.
package struct SQLiteTriggerCheck {
    package let connection: SQLiteConnection
    package let schema: SQLSchema

    package init(connection: SQLiteConnection, schema: SQLSchema) {
        self.connection = connection
        self.schema = schema
    }

    /// A trigger or table that forbids writing.
    package struct Problem {
        let name: String
        package let table: String
        /// A clause that describes it and its effect.
        package let message: String

        /// The advice for the user, as an imperative.
        package var advice: String {
            let action = name == table ? "recreate the table" : "drop the trigger"
            return "\(action) with another program, or recover the store's objects into a new store"
        }
    }

    private struct Trigger {
        let name: String
        let table: String
        let words: [String]
    }

    /// An action of a statement, as reported to an authorizer.
    private struct Access {
        let action: Int32
        let first: String
        let second: String
        /// The trigger that performs it; empty for the statement itself and for nested queries.
        let trigger: String
    }

    // MARK: - Checking

    /// Trusts the schema, so that triggers may write R-trees and full-text indexes, if all triggers are accepted.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` that names a trigger or table that is not.
    package func requireNone(path: String) throws {
        let (triggers, problems) = try found()
        if let problem = problems.first {
            throw QuireError(
                .unsupported, "“\(path)” cannot be written: \(problem.message); \(problem.advice).",
                file: path)
        }
        if !triggers.isEmpty { connection.trustSchema() }
    }

    /// The rejected triggers and tables.
    ///
    /// - Parameter dropped: The names, in upper case, of triggers that are about to be dropped.
    package func problems(besides dropped: Set<String> = []) throws -> [Problem] {
        try found(besides: dropped).problems
    }

    private func found(
        besides dropped: Set<String> = []
    ) throws -> (triggers: [Trigger], problems: [Problem]) {
        var triggers: [Trigger] = []
        var indexTables: [String] = []
        var views: [String] = []
        var problems: [Problem] = []
        try connection.forEachRow(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view') OR type = 'table' "
                + "AND (sql LIKE 'CREATE VIRTUAL TABLE%' OR sql LIKE '%CONFLICT%') ORDER BY name"
        ) { statement in
            let (name, table) = (statement.text(1), statement.text(2))
            let words = Self.words(of: statement.text(3))
            if statement.text(0) == "view" {
                views.append(name.uppercased())
            } else if statement.text(0) == "trigger" {
                triggers.append(Trigger(name: name, table: table, words: words))
            } else if words.starts(with: ["CREATE", "VIRTUAL"]) {
                if name.hasPrefix("Z_RT_") || name.hasPrefix(SQLName.fullTextPrefix + "_") {
                    indexTables.append(name)
                }
            } else if Self.contains(words, "CONFLICT", ["REPLACE", "IGNORE"]) {
                problems.append(
                    Problem(
                        name: name, table: name,
                        message:
                            "its table \(name) discards rows that violate a constraint (ON CONFLICT)"
                    ))
            }
        }
        for (table, own) in Dictionary(grouping: triggers, by: \.table).sorted(by: {
            $0.key < $1.key
        }) {
            let (accesses, failure) = try self.accesses(on: table)
            let strays = accesses.filter { access in
                !triggers.contains { $0.name == access.trigger }
                    && (access.action == SQLITE_RECURSIVE || Self.isUnknownFunction(access))
            }
            for trigger in own where !dropped.contains(trigger.name.uppercased()) {
                let objection =
                    Self.objection(toText: trigger.words)
                    ?? strays.lazy.compactMap {
                        Self.objection(to: trigger, $0, besides: triggers, views)
                    }.first
                    ?? objection(
                        to: trigger, accesses.filter { $0.trigger == trigger.name }, indexTables)
                    ?? failure.flatMap { Self.objection(to: trigger, $0, besides: triggers) }
                guard let objection else { continue }
                problems.append(
                    Problem(
                        name: trigger.name, table: table,
                        message:
                            "its trigger “\(trigger.name)” on the table \(table) \(objection), unlike the triggers that Core Data or "
                            + "Quire creates"))
            }
        }
        return (triggers, problems)
    }

    // MARK: - Actions of a trigger

    /// The authorizer's reports for statements that fire the triggers of a table, which are prepared but never run, and the
    /// failure of one that cannot be prepared.
    private func accesses(on table: String) throws -> ([Access], SQLiteFailure?) {
        let columns = try connection.rows("SELECT name FROM pragma_table_info(?)", table) {
            SQLName.quoted($0.text(0))
        }
        let name = SQLName.quoted(table)
        let record = AccessRecord()
        let wasTrusted = connection.isSchemaTrusted
        connection.trustSchema()
        sqlite3_set_authorizer(
            connection.handle,
            { record, action, first, second, _, trigger in
                guard let record else { return SQLITE_DENY }
                let text = { (text: UnsafePointer<CChar>?) in text.map { String(cString: $0) } ?? ""
                }
                Unmanaged<AccessRecord>.fromOpaque(record).takeUnretainedValue().accesses.append(
                    Access(
                        action: action, first: text(first), second: text(second),
                        trigger: text(trigger)))
                return SQLITE_OK
            }, Unmanaged.passUnretained(record).toOpaque())
        defer {
            sqlite3_set_authorizer(connection.handle, nil, nil)
            connection.trustSchema(wasTrusted)
        }
        var failure: SQLiteFailure?
        for sql in [
            "INSERT INTO \(name) DEFAULT VALUES", "DELETE FROM \(name)",
            "UPDATE \(name) SET " + columns.map { "\($0) = \($0)" }.joined(separator: ", "),
        ] {
            do { _ = try connection.prepare(sql) } catch let error as SQLiteFailure {
                failure = error
            }
        }
        return (withExtendedLifetime(record) { record.accesses }, failure)
    }

    private final class AccessRecord {
        var accesses: [Access] = []
    }

    /// The forbidden action of a trigger, as a verb and its object; `nil` if there is none.
    private func objection(
        to trigger: Trigger, _ accesses: [Access], _ indexTables: [String]
    ) -> String? {
        var columns: Set<[String]> = []
        var tells = false
        for access in accesses {
            let isOwn =
                indexTables.contains(access.first) && trigger.name.hasPrefix(access.first + "_")
            switch access.action {
            case SQLITE_READ, SQLITE_SELECT: continue
            case SQLITE_FUNCTION:
                if Self.isUnknownFunction(access) { return "calls the function \(access.second)" }
                if Self.tellingFunctions.contains(access.second.uppercased()) { tells = true }
            case SQLITE_INSERT:
                if !isOwn { return "inserts rows into \(access.first)" }
            case SQLITE_DELETE:
                if !isOwn { return "deletes rows of \(access.first)" }
            case SQLITE_UPDATE:
                if !isOwn { columns.insert([access.first, access.second]) }
            case SQLITE_RECURSIVE: return "has a recursive query"
            default: return "does more than compute values"
            }
        }
        guard let column = columns.min(by: { $0[1] < $1[1] }) else {
            return accesses.isEmpty ? "has actions that SQLite does not report" : nil
        }
        if columns.count == 1, tells, isComputed(column[1], of: column[0]) { return nil }
        return "sets the column \(column[1]) of \(column[0])"
    }

    /// Whether triggers may set a column.
    private func isComputed(_ name: String, of tableName: String) -> Bool {
        let name = name.uppercased()
        let isName = { (column: String?) in column?.uppercased() == name }
        let tableName = tableName.uppercased()
        var isKnown = false
        for entity in schema.layout.entities {
            let place = schema.entity(entity)
            guard place.tableName.uppercased() == tableName else { continue }
            for (slot, column) in zip(entity.slots, place.columns) {
                guard let column, isName(column.name) else { continue }
                guard slot.attribute != nil,
                    slot.isDerived || [.integer, .boolean].contains(slot.storage)
                else { return false }
                isKnown = true
            }
        }
        return isKnown
            || schema.unknownColumns.contains {
                $0.table.name.uppercased() == tableName && $0.columns.contains(where: isName)
            }
    }

    private static let tellingFunctions = Set(
        SQLDerivedFunction.allNotes.map { $0.uppercased() })

    /// Pure functions, and Core Data's.
    private static let functions: Set<String> = tellingFunctions.union([
        SQLDerivedFunction.now.uppercased(), "ABS", "AVG", "COALESCE", "COUNT", "IFNULL", "IIF",
        "LENGTH", "LOWER", "MAX", "MIN", "NULLIF", "ROUND", "SUM", "TOTAL", "UPPER",
    ])

    private static func isUnknownFunction(_ access: Access) -> Bool {
        access.action == SQLITE_FUNCTION && !functions.contains(access.second.uppercased())
    }

    /// The objection to a trigger because of a forbidden action within a query or view.
    private static func objection(
        to trigger: Trigger, _ access: Access, besides all: [Trigger], _ views: [String]
    ) -> String? {
        let isRecursive = access.action == SQLITE_RECURSIVE
        let names = views + [isRecursive ? "WITH" : access.second.uppercased()]
        guard isCulprit(trigger, names, besides: all) else { return nil }
        return isRecursive ? "has a recursive query" : "calls the function \(access.second)"
    }

    /// The objection to a trigger if the statement that fires it cannot be prepared.
    private static func objection(
        to trigger: Trigger, _ failure: SQLiteFailure, besides all: [Trigger]
    ) -> String? {
        let prefix = "no such function: "
        guard failure.message.hasPrefix(prefix) else {
            return "cannot be run (\(failure.message))"
        }
        let function = failure.message.dropFirst(prefix.count)
        guard isCulprit(trigger, [function.uppercased()], besides: all) else { return nil }
        return "calls the function \(function), which is unknown"
    }

    /// Whether a trigger contains one of some words, or no trigger does, so that any may be the cause.
    private static func isCulprit(
        _ trigger: Trigger, _ names: [String], besides all: [Trigger]
    ) -> Bool {
        let hasName = { (trigger: Trigger) in names.contains(where: trigger.words.contains) }
        return hasName(trigger) || !all.contains(where: hasName)
    }

    // MARK: - Text of a trigger

    /// The objection to parts of a trigger's text that are not reported to an authorizer.
    private static func objection(toText words: [String]) -> String? {
        var rest = words.dropFirst(2)
        if rest.starts(with: ["IF", "NOT", "EXISTS"]) { rest = rest.dropFirst(3) }
        guard words.starts(with: ["CREATE", "TRIGGER"]), rest.dropFirst().first == "AFTER" else {
            return "runs before a row is changed"
        }
        if words.contains("RAISE") { return "can prevent a row from being saved" }
        if contains(words, "UPDATE", ["OR"]) { return "discards rows that violate a constraint" }
        return nil
    }

    private static func contains(_ words: [String], _ word: String, _ next: [String]) -> Bool {
        zip(words, words.dropFirst()).contains { $0 == word && next.contains($1) }
    }

    /// The words of a statement in upper case, without comments. Quoted text becomes the word `"`.
    private static func words(of sql: String) -> [String] {
        var words: [String] = []
        var rest = Array(sql.utf8)[...]
        func isWord(_ byte: UInt8) -> Bool {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x80..., UInt8(ascii: "_"),
                UInt8(ascii: "$"):
                true
            default: false
            }
        }
        func skip(through end: [UInt8]) {
            while !rest.isEmpty && !rest.starts(with: end) { rest.removeFirst() }
            rest = rest.dropFirst(end.count)
        }
        while let byte = rest.first {
            switch byte {
            case _ where isWord(byte):
                let word = rest.prefix(while: isWord)
                words.append(String(decoding: word, as: UTF8.self).uppercased())
                rest = rest.dropFirst(word.count)
            case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "["):
                rest.removeFirst()
                skip(through: [byte == UInt8(ascii: "[") ? UInt8(ascii: "]") : byte])
                words.append("\"")
            case _ where rest.starts(with: Array("--".utf8)): skip(through: Array("\n".utf8))
            case _ where rest.starts(with: Array("/*".utf8)):
                rest.removeFirst(2)
                skip(through: Array("*/".utf8))
            default: rest.removeFirst()
            }
        }
        return words
    }
}
