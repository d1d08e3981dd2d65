import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Reads transactions and their changes.
struct SQLiteHistoryReader {
    let store: SQLiteStore
    let connection: SQLiteConnection
    let tables: SQLiteHistoryTables
    let range: SQLiteHistoryRange

    func count() throws -> Int {
        let sql = "SELECT count(*) FROM ATRANSACTION t WHERE \(range.condition.sql)"
        return Int(try connection.integer(sql, range.condition.bindings) ?? 0)
    }

    /// Reads the transactions in the order of their numbers, one after the other.
    func read(into selection: inout PersistentHistorySelection) throws {
        let texts = ["ZAUTHOR", "ZCONTEXTNAME", "ZPROCESSID", "ZBUNDLEID"].map {
            tables.text($0).sql
        }
        let tombstones = (0..<tables.tombstoneCount).map { ", ZTOMBSTONE\($0)" }.joined()
        let changes =
            "SELECT Z_PK, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZCOLUMNS\(tombstones) FROM ACHANGE WHERE ZTRANSACTIONID = ? ORDER BY Z_PK"
        var columns: [Int: SQLiteHistoryColumns] = [:]
        try connection.withStatement(
            "SELECT t.Z_PK, t.ZTIMESTAMP, \(texts.joined(separator: ", ")) FROM ATRANSACTION t WHERE \(range.condition.sql) ORDER BY t.Z_PK"
        ) { statement in
            try statement.bind(range.condition.bindings)
            while try statement.step() {
                func text(_ column: Int32) -> String? {
                    statement.isNull(column) ? nil : statement.text(column)
                }
                let number = statement.integer(0)
                let transaction = PersistentHistoryTransaction(
                    number: number, storeUUID: store.identity.uuid,
                    date: Date(timeIntervalSinceReferenceDate: statement.double(1)),
                    author: text(2), contextName: text(3), processName: text(4), bundleID: text(5),
                    changes: [])
                let needsMore = try selection.add(transaction) {
                    try connection.withStatement(changes) {
                        try $0.bind(number, at: 1)
                        return try self.changes(in: $0, transaction: number, &columns)
                    }
                }
                if !needsMore { return }
            }
        }
    }

    /// The changes of a transaction. Those of entities that the model lacks are left out.
    private func changes(
        in statement: SQLiteStatement, transaction: Int64,
        _ columns: inout [Int: SQLiteHistoryColumns]
    ) throws -> [PersistentHistoryChange] {
        var found: [PersistentHistoryChange] = []
        while try statement.step() {
            let key = statement.integer(3)
            guard
                let entity = store.schema.modelNumber(ofStoreNumber: statement.integer(2))
                    .map(store.layout.entity(number:)),
                let kind = PersistentHistoryChange.Kind(rawValue: Int(statement.integer(1))),
                key > 0, key <= ManagedObjectID.maximumPrimaryKey
            else { continue }
            var updated: [String]?
            if kind == .update, !statement.isNull(4) {
                let known = columns[entity.number] ?? SQLiteHistoryColumns(entity, in: store)
                columns[entity.number] = known
                updated = known.names(in: statement.data(4))
            }
            found.append(
                PersistentHistoryChange(
                    number: statement.integer(0), transactionNumber: transaction,
                    objectID: ManagedObjectID(
                        entityNumber: entity.number, primaryKey: key, store: store.identity),
                    kind: kind, updatedProperties: updated,
                    preservedValues: kind == .delete
                        ? preservedValues(of: entity, in: statement) : [:]))
        }
        return found
    }

    private func preservedValues(
        of entity: ResolvedEntity, in statement: SQLiteStatement
    ) -> [String: AttributeValue] {
        var values: [String: AttributeValue] = [:]
        for (number, slot) in entity.tombstoneSlots.enumerated()
        where number < tables.tombstoneCount {
            let stored = statement.value(Int32(5 + number))
            if !stored.isNull { values[slot.name] = slot.value(ofStored: stored) }
        }
        return values
    }
}

extension SQLiteConnection {
    /// - Parameter time: The time of the transaction with this number, in seconds since the reference date, if it is known.
    /// - Throws: ``QuireError`` with code `historyTokenExpired` if transactions are missing between a number and the first that there
    ///   is, or the number is of another state of the store.
    func checkHistory(after number: Int64, time: Double? = nil, of store: SQLiteStore) throws {
        let last = try greatestNumber(of: .transaction)
        let first = try integer("SELECT min(Z_PK) FROM ATRANSACTION") ?? last &+ 1
        // Numbers of a token or a file may be any. That of the place before the first transaction is 0.
        let number = max(number, 0)
        if number > last || number &+ 1 < first {
            throw QuireError.historyTokenExpired(number, path: store.storePath)
        }
        if let time,
            let stored = try row(
                "SELECT ZTIMESTAMP FROM ATRANSACTION WHERE Z_PK = ?", number,
                read: { $0.double(0) }),
            stored != time
        {
            throw QuireError.historyTokenReplaced(number, path: store.storePath)
        }
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
        case (.decimal, .double(let number)):
            return SQLiteDecimal.decimal(number).map { .decimal($0) } ?? stored
        case (.decimal, .string(let text)):
            return SQLiteDecimal.decimal(text).map { .decimal($0) } ?? stored
        case (.decimal, .integer(let number)): return .decimal(Decimal(number))
        case (.uri, .string(let text)): return URL(string: text).map { .uri($0) } ?? stored
        case (.uuid, .binary(let data)) where data.count == 16:
            return data.withUnsafeBytes { .uuid(UUID(uuid: $0.loadUnaligned(as: uuid_t.self))) }
        default: return stored
        }
    }
}
