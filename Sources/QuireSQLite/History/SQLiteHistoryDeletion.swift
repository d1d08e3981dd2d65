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

    /// Deletes what a request names.
    ///
    /// - Returns: The number of deleted transactions.
    func run(_ request: PersistentHistoryChangeRequest, number: Int64) throws -> Int {
        try delete(before: try end(of: request.place, number: number))
    }

    /// Deletes what is older than the options of a store allow, and what exceeds their size.
    ///
    /// Ages are counted from the earliest of the present time and the times of the two transactions before the last: the history
    /// stays if the clock jumps ahead, and is limited once others confirm its time.
    ///
    /// - Parameter number: The number of the last transaction, which stays.
    func keepLimits(_ options: SQLiteStoreOptions, last number: Int64) throws {
        var places: [PersistentHistoryChangeRequest.Place] = []
        if let age = options.maximumHistoryAge {
            let now = try min(
                Date().timeIntervalSinceReferenceDate, confirmedTime(number) ?? .infinity)
            places.append(.date(Date(timeIntervalSinceReferenceDate: now - age / .seconds(1))))
        }
        if let size = options.maximumHistorySize { places.append(.lastBytes(size)) }
        let ends = try places.map { min(try end(of: $0, number: 0) ?? number, number) }
        guard let end = ends.max(), end > (try firstNumber()) else { return }
        _ = try delete(before: end)
    }

    /// The earlier time of the two transactions before one; `nil` if there are none.
    private func confirmedTime(_ number: Int64) throws -> Double? {
        try connection.row(
            "SELECT min(ZTIMESTAMP) FROM (SELECT ZTIMESTAMP FROM ATRANSACTION WHERE Z_PK < ? ORDER BY Z_PK DESC LIMIT 2)",
            number
        ) { $0.isNull(0) ? nil : $0.double(0) }
    }

    private func firstNumber() throws -> Int64 {
        try connection.integer("SELECT min(Z_PK) FROM ATRANSACTION") ?? .max
    }

    /// - Parameter end: The number of the first transaction that stays; `nil` if none does.
    /// - Returns: The number of deleted transactions.
    private func delete(before end: Int64?) throws -> Int {
        for entity in [SQLiteHistoryTables.Entity.transaction, .change] {
            // Another program may not have recorded it.
            let greatest = try connection.greatestNumber(of: entity)
            if greatest > (try connection.maximumPrimaryKey(of: entity.rawValue)) {
                try connection.recordGreatestPrimaryKey(greatest, of: entity.rawValue)
            }
        }
        let count: Int
        if let end {
            try connection.run("DELETE FROM ACHANGE WHERE ZTRANSACTIONID < ?", end)
            try connection.run("DELETE FROM ATRANSACTION WHERE Z_PK < ?", end)
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
    private func end(
        of place: PersistentHistoryChangeRequest.Place, number: Int64
    ) throws -> Int64? {
        switch place {
        case .token(nil): return nil
        case .token, .transaction: return number
        case .date(let date):
            return try connection.integer(
                "SELECT Z_PK FROM ATRANSACTION WHERE coalesce(ZTIMESTAMP < ?, 0) = 0 ORDER BY Z_PK LIMIT 1",
                date.timeIntervalSinceReferenceDate)
        case .last(let count):
            if count <= 0 { return nil }
            return try connection.integer(
                "SELECT Z_PK FROM ATRANSACTION ORDER BY Z_PK DESC LIMIT 1 OFFSET ?",
                Int64(count) - 1) ?? .min
        case .lastBytes(let size): return try end(ofLastBytes: size)
        }
    }

    private func end(ofLastBytes size: Int) throws -> Int64? {
        let lengths = ["ZCOLUMNS"] + (0..<tables.tombstoneCount).map { "ZTOMBSTONE\($0)" }
        let length = lengths.map { "ifnull(length(\($0)), 0)" }.joined(separator: " + ")
        return try connection.withStatement(
            "SELECT ZTRANSACTIONID, 40 + \(length) FROM ACHANGE ORDER BY ZTRANSACTIONID DESC"
        ) { rows in
            var (total, end, current) = (0, Int64?.none, Int64?.none)
            while try rows.step() {
                let number = rows.integer(0)
                if number != current {
                    end = current
                    current = number
                    total += 60
                }
                total += Int(rows.integer(1))
                if total > size { return end }
            }
            return .min
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
