internal import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Deletes the beginning of a store's history, within the caller's transaction.
///
/// Every request deletes the transactions below a number: an expired token is recognized by the first transaction that is left.
/// The greatest numbers stay recorded, so that new ones follow them.
struct SQLiteHistoryDeletion {
    let connection: SQLiteConnection
    let tables: SQLiteHistoryTables

    /// - Returns: The number of deleted transactions.
    func run(_ request: PersistentHistoryChangeRequest, number: Int64) throws -> Int {
        for entity in [SQLiteHistoryTables.Entity.transaction, .change] {
            // Another program may not have recorded it.
            let greatest = try connection.greatestNumber(of: entity)
            if greatest > (try connection.maximumPrimaryKey(of: entity.rawValue)) {
                try connection.recordGreatestPrimaryKey(greatest, of: entity.rawValue)
            }
        }
        let count: Int
        if let end = try end(of: request, number: number) {
            try run("DELETE FROM ACHANGE WHERE ZTRANSACTIONID < ?", end)
            try run("DELETE FROM ATRANSACTION WHERE Z_PK < ?", end)
            count = connection.changeCount
        } else {
            // Without a condition SQLite clears the tables page by page.
            try connection.execute("DELETE FROM ACHANGE")
            try connection.execute("DELETE FROM ATRANSACTION")
            count = connection.changeCount
        }
        if count > 0, tables.hasStrings { try deleteUnusedStrings() }
        return count
    }

    /// The number of the first transaction that stays; `nil` if none does.
    private func end(of request: PersistentHistoryChangeRequest, number: Int64) throws -> Int64? {
        switch request.place {
        case .token(nil): return nil
        case .token, .transaction: return number
        case .date(let date):
            return try connection.withStatement(
                "SELECT Z_PK FROM ATRANSACTION WHERE coalesce(ZTIMESTAMP < ?, 0) = 0 ORDER BY Z_PK LIMIT 1"
            ) {
                try $0.bind(date.timeIntervalSinceReferenceDate, at: 1)
                return try $0.step() ? $0.integer(0) : nil
            }
        case .last(let count):
            if count <= 0 { return nil }
            return try connection.withStatement(
                "SELECT Z_PK FROM ATRANSACTION ORDER BY Z_PK DESC LIMIT 1 OFFSET ?"
            ) {
                try $0.bind(Int64(count) - 1, at: 1)
                return try $0.step() ? $0.integer(0) : .min
            }
        }
    }

    private func run(_ sql: String, _ number: Int64) throws {
        try connection.withStatement(sql) {
            try $0.bind(number, at: 1)
            try $0.run()
        }
    }

    private func deleteUnusedStrings() throws {
        let used = ["ZAUTHORTS", "ZBUNDLEIDTS", "ZCONTEXTNAMETS", "ZPROCESSIDTS"].map {
            "SELECT \($0) FROM ATRANSACTION WHERE \($0) IS NOT NULL"
        }
        try connection.execute(
            "DELETE FROM ATRANSACTIONSTRING WHERE Z_PK NOT IN (\(used.joined(separator: " UNION ")))"
        )
    }
}
