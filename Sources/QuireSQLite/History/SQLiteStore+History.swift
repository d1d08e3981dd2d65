import Foundation
internal import QuireModel
public import QuireStore
internal import QuireSystem

/// Reading and deleting the history of a store.
extension SQLiteStore {
    /// Reads the store's history, or deletes a part of it in a transaction of its own.
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        guard let number = request.transactionNumber(in: identity.uuid) else {
            return PersistentHistoryResult()
        }
        let selection = SQLiteHistorySelection(request, number: number)
        return request.deletes
            ? try deleteHistory(selection, request.resultType)
            : try readHistory(selection, request.resultType)
    }

    /// The number of the last transaction in the history, deleted ones included.
    public func lastHistoryTransactionNumber() throws -> Int64? {
        try read { connection in
            guard try SQLiteHistoryTables(connection) != nil else { return nil }
            return try connection.greatestNumber(of: .transaction)
        }
    }

    private func readHistory(
        _ selection: SQLiteHistorySelection, _ resultType: PersistentHistoryChangeRequest.ResultType
    ) throws -> PersistentHistoryResult {
        try read { connection in
            try connection.readingOneState {
                guard let tables = try SQLiteHistoryTables(connection) else { throw noHistory() }
                let reader = SQLiteHistoryReader(
                    store: self, connection: connection, tables: tables, selection: selection)
                try reader.checkIsComplete()
                switch resultType {
                case .statusOnly: return PersistentHistoryResult()
                case .count: return PersistentHistoryResult(count: try reader.count())
                default:
                    return PersistentHistoryResult(
                        try reader.transactions(withChanges: resultType.needsChanges),
                        as: resultType)
                }
            }
        }
    }

    private func deleteHistory(
        _ selection: SQLiteHistorySelection, _ resultType: PersistentHistoryChangeRequest.ResultType
    ) throws -> PersistentHistoryResult {
        try withWriter { writer in
            let connection = writer.connection
            do {
                try connection.begin()
                guard let tables = try SQLiteHistoryTables(connection) else { throw noHistory() }
                try selection.bind(
                    "DELETE FROM ACHANGE WHERE ZTRANSACTIONID IN (SELECT Z_PK FROM ATRANSACTION t WHERE \(selection.condition))",
                    connection)
                try selection.bind(
                    "DELETE FROM ATRANSACTION AS t WHERE \(selection.condition)", connection)
                let count = connection.changeCount
                if tables.hasStrings {
                    let used = ["ZAUTHORTS", "ZBUNDLEIDTS", "ZCONTEXTNAMETS", "ZPROCESSIDTS"].map {
                        "SELECT \($0) FROM ATRANSACTION WHERE \($0) IS NOT NULL"
                    }
                    try connection.execute(
                        "DELETE FROM ATRANSACTIONSTRING WHERE Z_PK NOT IN (\(used.joined(separator: " UNION ")))"
                    )
                }
                try connection.commit()
                writer.history = SQLiteHistoryCache()
                return PersistentHistoryResult(count: resultType == .statusOnly ? 0 : count)
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                writer.note(error)
                throw error
            }
        }
    }
}

extension SQLiteConnection {
    /// Runs a closure whose statements see the same state of the store.
    fileprivate func readingOneState<Result>(_ body: () throws -> Result) throws -> Result {
        if isInTransaction { return try body() }
        try execute("BEGIN")
        do {
            let result = try body()
            try execute("COMMIT")
            return result
        } catch {
            try execute("ROLLBACK")
            throw error
        }
    }
}

/// The transactions selected by a request: a condition on the row `t` of `ATRANSACTION`.
struct SQLiteHistorySelection {
    let condition: String
    /// The number that the transactions come after; `nil` if a time says so, and 0 for all.
    let number: Int64?
    private let date: Date?

    init(_ request: PersistentHistoryChangeRequest, number: Int64) {
        if case .date(let date) = request.place {
            self.date = date
            self.number = nil
            condition = "t.ZTIMESTAMP \(request.deletes ? "<" : ">") ?1"
        } else {
            date = nil
            self.number = number
            condition = "t.Z_PK \(request.deletes ? "<" : ">") ?1"
        }
    }

    func bind(_ statement: SQLiteStatement) throws {
        if let date {
            try statement.bind(date.timeIntervalSinceReferenceDate, at: 1)
        } else {
            try statement.bind(number ?? 0, at: 1)
        }
    }

    fileprivate func bind(_ sql: String, _ connection: SQLiteConnection) throws {
        try connection.withStatement(sql) {
            try bind($0)
            try $0.run()
        }
    }
}

/// Reads transactions and their changes.
struct SQLiteHistoryReader {
    let store: SQLiteStore
    let connection: SQLiteConnection
    let tables: SQLiteHistoryTables
    let selection: SQLiteHistorySelection

    /// - Throws: ``QuireError`` with code `historyTokenExpired` if transactions are missing between the number that is asked
    ///   for and the first that there is, or the number is of another state of the store.
    func checkIsComplete() throws {
        guard let number = selection.number, number > 0 else { return }
        let last = try connection.greatestNumber(of: .transaction)
        let first = try connection.integer("SELECT min(Z_PK) FROM ATRANSACTION") ?? last &+ 1
        // Numbers of a token or a file may be any.
        if number > last || number &+ 1 < first {
            throw QuireError.historyTokenExpired(number, path: store.storePath)
        }
    }

    func count() throws -> Int {
        try connection.withStatement(
            "SELECT count(*) FROM ATRANSACTION t WHERE \(selection.condition)"
        ) {
            try selection.bind($0)
            return try $0.step() ? Int($0.integer(0)) : 0
        }
    }

    func transactions(withChanges: Bool) throws -> [PersistentHistoryTransaction] {
        let changes = withChanges ? try self.changes() : [:]
        let texts = ["ZAUTHOR", "ZCONTEXTNAME", "ZPROCESSID", "ZBUNDLEID"].map { column in
            tables.hasStrings
                ? "coalesce((SELECT ZNAME FROM ATRANSACTIONSTRING WHERE Z_PK = t.\(column)TS), t.\(column))"
                : "t.\(column)"
        }
        return try connection.withStatement(
            "SELECT t.Z_PK, t.ZTIMESTAMP, \(texts.joined(separator: ", ")) FROM ATRANSACTION t WHERE \(selection.condition) ORDER BY t.Z_PK"
        ) { statement in
            try selection.bind(statement)
            var found: [PersistentHistoryTransaction] = []
            while try statement.step() {
                func text(_ column: Int32) -> String? {
                    statement.isNull(column) ? nil : statement.text(column)
                }
                let number = statement.integer(0)
                found.append(
                    PersistentHistoryTransaction(
                        number: number, storeUUID: store.identity.uuid,
                        date: Date(timeIntervalSinceReferenceDate: statement.double(1)),
                        author: text(2), contextName: text(3), processName: text(4),
                        bundleID: text(5), changes: changes[number] ?? []))
            }
            return found
        }
    }

    /// The changes by the numbers of their transactions. Those of entities that the model lacks are left out.
    private func changes() throws -> [Int64: [PersistentHistoryChange]] {
        let tombstones = (0..<tables.tombstoneCount).map { ", c.ZTOMBSTONE\($0)" }.joined()
        return try connection.withStatement(
            """
            SELECT c.ZTRANSACTIONID, c.Z_PK, c.ZCHANGETYPE, c.ZENTITY, c.ZENTITYPK, c.ZCOLUMNS\(tombstones) \
            FROM ATRANSACTION t JOIN ACHANGE c ON c.ZTRANSACTIONID = t.Z_PK WHERE \(selection.condition) ORDER BY c.Z_PK
            """
        ) { statement in
            try selection.bind(statement)
            var found: [Int64: [PersistentHistoryChange]] = [:]
            var columns: [Int: SQLiteHistoryColumns] = [:]
            while try statement.step() {
                let key = statement.integer(4)
                guard
                    let entity = store.schema.modelNumber(ofStoreNumber: statement.integer(3))
                        .map(store.layout.entity(number:)),
                    let kind = PersistentHistoryChange.Kind(rawValue: Int(statement.integer(2))),
                    key > 0, key <= ManagedObjectID.maximumPrimaryKey
                else { continue }
                var updated: [String]?
                if kind == .update, !statement.isNull(5) {
                    let known = columns[entity.number] ?? SQLiteHistoryColumns(entity, in: store)
                    columns[entity.number] = known
                    updated = known.names(in: statement.data(5))
                }
                found[statement.integer(0), default: []].append(
                    PersistentHistoryChange(
                        number: statement.integer(1), transactionNumber: statement.integer(0),
                        objectID: ManagedObjectID(
                            entityNumber: entity.number, primaryKey: key, store: store.identity),
                        kind: kind, updatedProperties: updated,
                        preservedValues: kind == .delete
                            ? preservedValues(of: entity, in: statement) : [:]))
            }
            return found
        }
    }

    private func preservedValues(
        of entity: ResolvedEntity, in statement: SQLiteStatement
    ) -> [String: AttributeValue] {
        var values: [String: AttributeValue] = [:]
        for (number, slot) in entity.tombstoneSlots.enumerated()
        where number < tables.tombstoneCount {
            let stored = statement.value(Int32(6 + number))
            if !stored.isNull { values[slot.name] = slot.value(ofStored: stored) }
        }
        return values
    }
}

extension ResolvedEntity.Slot {
    /// A value of the attribute's type, of its form in a column; the form itself if it does not fit the type.
    fileprivate func value(ofStored stored: AttributeValue) -> AttributeValue {
        switch (storage, stored) {
        case (.boolean, .integer(let number)): return .boolean(number != 0)
        case (.date, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (.date, .integer(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
        case (.double, .integer(let number)): return .double(Double(number))
        case (.decimal, .double(let number)): return .decimal(Decimal(number))
        case (.decimal, .integer(let number)): return .decimal(Decimal(number))
        case (.uri, .string(let text)): return URL(string: text).map { .uri($0) } ?? stored
        case (.uuid, .binary(let data)) where data.count == 16:
            return data.withUnsafeBytes { .uuid(UUID(uuid: $0.loadUnaligned(as: uuid_t.self))) }
        default: return stored
        }
    }
}
