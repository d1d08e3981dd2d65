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
        let selection = try PersistentHistorySelection(request, layout: layout)
        let range = SQLiteHistoryRange(request, number: number)
        return request.deletes
            ? try deleteHistory(range, request.resultType)
            : try readHistory(range, selection, of: request)
    }

    /// The number of the last transaction in the history, deleted ones included.
    public func lastHistoryTransactionNumber() throws -> Int64? {
        try read { connection in
            guard try SQLiteHistoryTables(connection) != nil else { return nil }
            return try connection.greatestNumber(of: .transaction)
        }
    }

    private func readHistory(
        _ range: SQLiteHistoryRange, _ selection: PersistentHistorySelection,
        of request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        try read { connection in
            try connection.readingOneState {
                guard let tables = try SQLiteHistoryTables(connection) else { throw noHistory() }
                let reader = SQLiteHistoryReader(
                    store: self, connection: connection, tables: tables, range: range)
                let numbers =
                    [range.number] + selection.tokens.map { $0.transactionNumbers[identity.uuid] }
                for number in numbers { try reader.checkIsComplete(after: number ?? 0) }
                if request.resultType == .statusOnly { return PersistentHistoryResult() }
                if request.isPlainCount {
                    return PersistentHistoryResult(count: try reader.count())
                }
                var selection = selection
                try reader.read(into: &selection)
                return selection.result()
            }
        }
    }

    private func deleteHistory(
        _ range: SQLiteHistoryRange, _ resultType: PersistentHistoryChangeRequest.ResultType
    ) throws -> PersistentHistoryResult {
        try withWriter { writer in
            let connection = writer.connection
            do {
                try connection.begin()
                guard let tables = try SQLiteHistoryTables(connection) else { throw noHistory() }
                try range.bind(
                    "DELETE FROM ACHANGE WHERE ZTRANSACTIONID IN (SELECT Z_PK FROM ATRANSACTION t WHERE \(range.condition))",
                    connection)
                try range.bind(
                    "DELETE FROM ATRANSACTION AS t WHERE \(range.condition)", connection)
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
