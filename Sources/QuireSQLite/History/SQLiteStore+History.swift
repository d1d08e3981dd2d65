package import Foundation
package import QuireModel
public import QuireStore
internal import QuireSystem

/// Reading and deleting the history of a store.
extension SQLiteStore {
    /// Reads the store's history, or deletes part of it in its own transaction.
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        let selection = try PersistentHistorySelection(request, layout: layout)
        try checkPlace(in: request.storeUUIDs)
        for token in selection.tokens { try checkPlace(in: Array(token.transactionNumbers.keys)) }
        guard let number = request.transactionNumber(in: identity.uuid) else {
            return PersistentHistoryResult()
        }
        return request.deletes
            ? try deleteHistory(request, number: number)
            : try readHistory(
                SQLiteHistoryRange(request, number: number), selection, of: request)
    }

    /// Refuses a token or transaction of foreign stores only, one of which this store has replaced: it says nothing of what is
    /// new in this one.
    private func checkPlace(in uuids: [String]) throws {
        if uuids.isEmpty || uuids.contains(where: { identity.stores.number(of: $0) != nil }) {
            return
        }
        throw QuireError(
            .historyTokenExpired,
            "The token belongs to another store, which “\(storePath)” has replaced; read the store again and continue from its current token.",
            file: storePath)
    }

    /// The number of the last transaction in the history, including deleted ones; 0 if the first save will begin it.
    public func lastHistoryTransactionNumber() throws -> Int64? {
        try read { connection in
            guard try SQLiteHistoryTables(connection) != nil else { return beginsHistory ? 0 : nil }
            return try connection.greatestNumber(of: .transaction)
        }
    }

    /// Calls a closure for each object that transactions after another have changed: with the date of the last of these, in the
    /// order of the objects' last changes.
    ///
    /// - Parameter number: 0 for all that there ever were.
    /// - Throws: `QuireError` with code `historyTokenExpired` if some of them have been deleted, or the number is of another state of
    ///   the store.
    package func forEachObjectInHistory(
        after number: Int64, _ body: (ManagedObjectID, Date) throws -> Void
    ) throws {
        try read { connection in
            guard try SQLiteHistoryTables(connection) != nil else { throw noHistory() }
            try connection.checkHistory(after: number, of: self)
            // For readers of the history 0 is where it begins.
            if number == 0, try connection.integer("SELECT min(Z_PK) FROM ATRANSACTION") != 1 {
                throw QuireError.historyTokenExpired(0, path: storePath)
            }
            // Columns beside max() are those of its row: https://sqlite.org/lang_select.html#bareagg
            try connection.forEachRow(
                """
                SELECT c.ZENTITY, c.ZENTITYPK, t.ZTIMESTAMP FROM
                (SELECT ZENTITY, ZENTITYPK, ZTRANSACTIONID, max(Z_PK) AS last FROM ACHANGE
                WHERE ZTRANSACTIONID > ?1 GROUP BY ZENTITY, ZENTITYPK) c
                JOIN ATRANSACTION t ON t.Z_PK = c.ZTRANSACTIONID ORDER BY c.last
                """, number
            ) { row in
                let key = row.integer(1)
                guard let entity = schema.modelNumber(ofStoreNumber: row.integer(0)),
                    key > 0, key <= ManagedObjectID.maximumPrimaryKey
                else { return }
                try body(
                    ManagedObjectID(entityNumber: entity, primaryKey: key, store: identity),
                    Date(timeIntervalSinceReferenceDate: row.double(2)))
            }
        }
    }

    /// The dates of the transactions after another one that have inserted objects, as far as the history has them.
    package func insertionDates(after number: Int64) throws -> HistoryInsertionDates {
        var dates = HistoryInsertionDates()
        try read { connection in
            guard try SQLiteHistoryTables(connection) != nil else { return }
            try connection.forEachRow(
                """
                SELECT c.ZENTITY, c.ZENTITYPK, t.ZTIMESTAMP FROM ACHANGE c
                JOIN ATRANSACTION t ON t.Z_PK = c.ZTRANSACTIONID
                WHERE c.ZTRANSACTIONID > ?1 AND c.ZCHANGETYPE = 0 ORDER BY c.ZENTITY, c.ZENTITYPK
                """, number
            ) { row in
                guard let entity = schema.modelNumber(ofStoreNumber: row.integer(0)) else { return }
                dates.add(entity, row.integer(1), row.double(2))
            }
        }
        return dates
    }

    /// Makes the store keep a history from now on, whoever saves, in the transaction that ``saveInOneTransaction(_:)`` has begun on
    /// this thread.
    package func beginHistory() throws {
        try withWriter(joining: true) { writer in
            if try SQLiteHistoryTables(writer.connection) != nil { return }
            var tables = try SQLiteHistoryTables(creatingIn: writer.connection)
            try tables.addTombstones(for: layout, writer.connection)
            writer.history = SQLiteHistoryCache()
        }
    }

    private func readHistory(
        _ range: SQLiteHistoryRange, _ selection: PersistentHistorySelection,
        of request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        try read { connection in
            try connection.readingOneState {
                guard let tables = try SQLiteHistoryTables(connection) else {
                    return try emptyHistory(after: range.number ?? 0)
                }
                var selection = selection
                var range = range
                try range.narrow(to: &selection, store: identity.uuid, tables)
                let reader = SQLiteHistoryReader(
                    store: self, connection: connection, tables: tables, range: range)
                let uuid = identity.uuid
                if let number = request.placeNumber(in: uuid) {
                    try connection.checkHistory(
                        after: number, time: request.transactionTime(in: uuid), of: self)
                }
                for token in selection.tokens {
                    guard let number = token.transactionNumbers[uuid] else { continue }
                    try connection.checkHistory(
                        after: number, time: token.transactionTimes[uuid], of: self)
                }
                if request.resultType == .statusOnly { return PersistentHistoryResult() }
                if request.isPlainCount {
                    return PersistentHistoryResult(count: try reader.count())
                }
                try reader.read(into: &selection)
                return selection.result()
            }
        }
    }

    /// The result for a store that nothing has been saved to since it is to keep a history.
    private func emptyHistory(after number: Int64) throws -> PersistentHistoryResult {
        if !beginsHistory { throw noHistory() }
        if number > 0 { throw QuireError.historyTokenExpired(number, path: storePath) }
        return PersistentHistoryResult()
    }

    private func deleteHistory(
        _ request: PersistentHistoryChangeRequest, number: Int64
    ) throws -> PersistentHistoryResult {
        try withWriter { writer in
            let connection = writer.connection
            do {
                try connection.begin()
                guard let tables = try SQLiteHistoryTables(connection) else {
                    let result = try emptyHistory(after: 0)
                    try connection.commit()
                    return result
                }
                let count = try SQLiteHistoryDeletion(connection: connection, tables: tables)
                    .run(request, number: number)
                try connection.commit()
                writer.history = SQLiteHistoryCache()
                return PersistentHistoryResult(
                    count: request.resultType == .statusOnly ? 0 : count)
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

/// When objects were inserted. Objects that one transaction has inserted are ranges of keys.
package struct HistoryInsertionDates: Sendable {
    private var ranges: [Int: [(keys: ClosedRange<Int64>, time: Double)]] = [:]

    /// Adds an object; those of an entity in the order of their keys.
    fileprivate mutating func add(_ entity: Int, _ key: Int64, _ time: Double) {
        var known = ranges[entity, default: []]
        ranges[entity] = nil
        if let last = known.last, last.time == time, last.keys.upperBound == key - 1 {
            known[known.count - 1].keys = last.keys.lowerBound...key
        } else {
            known.append((key...key, time))
        }
        ranges[entity] = known
    }

    /// The date of an object's insertion; `nil` if it is not known.
    package func date(of objectID: ManagedObjectID) -> Date? {
        guard let ranges = ranges[objectID.entityNumber] else { return nil }
        let key = objectID.primaryKey
        let index = ranges.partitioningIndex { $0.keys.upperBound >= key }
        guard index < ranges.count, ranges[index].keys.contains(key) else { return nil }
        return Date(timeIntervalSinceReferenceDate: ranges[index].time)
    }
}
