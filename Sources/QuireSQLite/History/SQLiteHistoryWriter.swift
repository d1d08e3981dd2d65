import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Records one transaction in a store's history, within that transaction.
///
/// The row of the transaction is written before its first change; a transaction without changes leaves nothing. Deletions are
/// recorded before the rows are deleted, because values of theirs may be kept, and only for rows that exist.
final class SQLiteHistoryWriter {
    private let store: SQLiteStore
    private let writer: SQLiteWriter
    private let tables: SQLiteHistoryTables
    private let origin: TransactionOrigin
    private var connection: SQLiteConnection { writer.connection }
    /// The number of the transaction; `nil` before the first change.
    private var transaction: Int64?
    /// The number of the last change.
    private var lastChange: Int64 = 0
    /// The objects recorded so far; `nil` if the model has no derived attributes, for which they are needed.
    private var recorded: Set<UInt64>?
    private var tombstoneColumns: [Int: (columns: String, values: String)] = [:]

    /// Prepares to record; `nil` if the store keeps no history and its options do not ask for one.
    ///
    /// - Parameter isRequired: Whether the store is to keep one whatever its options say.
    init?(
        store: SQLiteStore, writer: SQLiteWriter, origin: TransactionOrigin,
        isRequired: Bool = false
    ) throws {
        if isRequired, case .some(nil) = writer.history.tables { writer.history.tables = nil }
        if writer.history.tables == nil {
            var tables = try SQLiteHistoryTables(writer.connection)
            if tables == nil, isRequired || store.beginsHistory {
                tables = try SQLiteHistoryTables(creatingIn: writer.connection)
            }
            try tables?.addTombstones(for: store.layout, writer.connection)
            writer.history.tables = .some(tables)
        }
        guard let tables = writer.history.tables ?? nil else { return nil }
        self.store = store
        self.writer = writer
        self.tables = tables
        self.origin = origin
        recorded = store.layout.derivations.isEmpty ? nil : []
    }

    // MARK: - Changes

    /// Records the deletions of a save.
    func recordDeletions(in changes: ChangeSet) throws {
        for deletion in changes.deleted {
            let id = deletion.objectID
            let entity = store.layout.entity(number: id.entityNumber)
            try recordDeletions(of: entity, where: "Z_PK = ?2") {
                try $0.bind(id.primaryKey, at: 2)
            }
        }
    }

    /// Records the insertions and updates of a save, and updates of other objects whose derived values have changed.
    func recordWrittenObjects(in changes: ChangeSet, derived: [ManagedObjectID]) throws {
        for change in changes.inserted { try recordInsertion(of: change.objectID) }
        for change in changes.updated {
            try recordUpdate(
                of: change.objectID, slots: change.changedSlots,
                toMany: change.toManyChanges.lazy.map(\.relationshipIndex))
        }
        for id in derived where recorded?.contains(id.bits) != true {
            try recordUpdate(
                of: id, slots: store.layout.entity(number: id.entityNumber).derivedSlots)
        }
    }

    func recordInsertion(of id: ManagedObjectID) throws { try record(.insert, id, nil) }

    /// Records an update.
    ///
    /// - Parameter slots: The changed slots; `nil` if they are not known.
    func recordUpdate(
        of id: ManagedObjectID, slots: SlotMask?, toMany: some Collection<Int> = [Int]()
    ) throws {
        guard let slots else { return try record(.update, id, nil) }
        // Objects that follow each other have often changed in the same properties.
        if toMany.isEmpty, lastUpdate.entity == id.entityNumber, lastUpdate.slots == slots {
            return try record(.update, id, lastUpdate.bytes)
        }
        let bytes = Data(columns(of: id.entityNumber).bytes(slots: slots, toMany: toMany))
        if toMany.isEmpty { lastUpdate = (id.entityNumber, slots, bytes) }
        try record(.update, id, bytes)
    }

    private var lastUpdate: (entity: Int, slots: SlotMask, bytes: Data?) = (0, SlotMask(), nil)

    private func columns(of entityNumber: Int) -> SQLiteHistoryColumns {
        if let known = writer.history.columns[entityNumber] { return known }
        let columns = SQLiteHistoryColumns(
            store.layout.entity(number: entityNumber), in: store)
        writer.history.columns[entityNumber] = columns
        return columns
    }

    private func record(
        _ kind: PersistentHistoryChange.Kind, _ id: ManagedObjectID, _ columns: Data?
    ) throws {
        let transaction = try beginIfNeeded()
        lastChange += 1
        recorded?.insert(id.bits)
        let statement = try insertion(transaction)
        try statement.bind(lastChange, at: 1)
        try statement.bind(Int64(kind.rawValue), at: 2)
        if lastEntity.number != id.entityNumber {
            lastEntity = (
                id.entityNumber,
                Int64(store.schema.entity(number: id.entityNumber).storeNumber)
            )
        }
        try statement.bind(lastEntity.storeNumber, at: 3)
        try statement.bind(id.primaryKey, at: 4)
        if columns != boundColumns {
            if let columns {
                try statement.bind(columns, at: 6)
            } else {
                try statement.bindNull(at: 6)
            }
            boundColumns = columns
        }
        try statement.run()
    }

    /// The statement that inserts a change, with the transaction bound. It is used for each changed object, so it is looked up
    /// once.
    private func insertion(_ transaction: Int64) throws -> SQLiteStatement {
        if let insertion { return insertion }
        let statement = try connection.keptStatement(
            "INSERT INTO ACHANGE (Z_PK, Z_ENT, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID, ZCOLUMNS) VALUES (?, 16001, ?, ?, ?, ?, ?)"
        )
        statement.isInUse = true
        try statement.bind(transaction, at: 5)
        insertion = statement
        return statement
    }

    private var insertion: SQLiteStatement?
    private var lastEntity: (number: Int, storeNumber: Int64) = (0, 0)
    private var boundColumns: Data?

    deinit {
        insertion?.reset()
        insertion?.isInUse = false
    }

    /// Records the deletion of rows of an entity, without sub-entities, that satisfy a condition and exist, with the values that
    /// are to be kept.
    ///
    /// - Parameter bind: Binds the condition's arguments, from the second on.
    func recordDeletions(
        of entity: ResolvedEntity, where condition: String,
        bind: (SQLiteStatement) throws -> Void = { _ in }
    ) throws {
        let place = store.schema.entity(entity)
        let rows =
            "FROM \(SQLName.quoted(place.tableName)) WHERE Z_ENT = \(place.storeNumber) AND \(condition)"
        if transaction == nil {
            let isEmpty = try connection.withStatement("SELECT ?1 \(rows) LIMIT 1") {
                try bind($0)
                return try !$0.step()
            }
            if isEmpty { return }
        }
        let transaction = try beginIfNeeded()
        let (columns, values) = tombstoneColumns(of: entity)
        try connection.withStatement(
            """
            INSERT INTO ACHANGE (Z_PK, Z_ENT, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID\(columns)) \
            SELECT ?1 + row_number() OVER (ORDER BY Z_PK), 16001, 2, Z_ENT, Z_PK, ?3\(values) \(rows) ORDER BY Z_PK
            """
        ) {
            try $0.bind(lastChange, at: 1)
            try bind($0)
            try $0.bind(transaction, at: 3)
            try $0.run()
        }
        lastChange += Int64(connection.changeCount)
    }

    /// The columns for the values that are to be kept, and those that have them, each with a comma before it.
    private func tombstoneColumns(of entity: ResolvedEntity) -> (columns: String, values: String) {
        if let known = tombstoneColumns[entity.number] { return known }
        let place = store.schema.entity(entity)
        var (columns, values) = ("", "")
        for (number, slot) in entity.tombstoneSlots.enumerated() {
            guard let column = place.columns[slot.index] else { continue }
            columns += ", ZTOMBSTONE\(number)"
            values += ", \(SQLName.quoted(column.name))"
        }
        tombstoneColumns[entity.number] = (columns, values)
        return (columns, values)
    }

    // MARK: - The transaction

    private func beginIfNeeded() throws -> Int64 {
        if let transaction { return transaction }
        let number = try connection.lastNumber(of: .transaction, path: store.storePath) + 1
        lastChange = try connection.lastNumber(of: .change, path: store.storePath)
        let texts: [(column: String, text: String?)] = [
            ("ZAUTHOR", origin.author), ("ZBUNDLEID", Self.bundleID),
            ("ZCONTEXTNAME", origin.contextName), ("ZPROCESSID", Self.processName),
        ]
        let suffix = tables.hasStrings ? "TS" : ""
        let columns = texts.map { $0.column + suffix }.joined(separator: ", ")
        let values: [AttributeValue] = try texts.map { _, text in
            guard let text else { return .null }
            return tables.hasStrings ? .integer(try string(text)) : .string(text)
        }
        try connection.run(
            "INSERT INTO ATRANSACTION (Z_PK, Z_ENT, ZTIMESTAMP, \(columns)) VALUES (?, 16002, ?, ?, ?, ?, ?)",
            number, Date().timeIntervalSinceReferenceDate, values)
        transaction = number
        return number
    }

    private static let processName = ProcessInfo.processInfo.processName
    private static let bundleID = Bundle.main.bundleIdentifier ?? processName

    /// The number of a text.
    private func string(_ text: String) throws -> Int64 {
        if let known = writer.history.strings[text] { return known }
        let found = try connection.integer(
            "SELECT Z_PK FROM ATRANSACTIONSTRING WHERE ZNAME = ?", text)
        if let found {
            writer.history.strings[text] = found
            return found
        }
        let number = try connection.lastNumber(of: .string, path: store.storePath) + 1
        try connection.run(
            "INSERT INTO ATRANSACTIONSTRING VALUES (?, 16003, NULL, ?)", number, text)
        try connection.recordGreatestPrimaryKey(
            number, of: SQLiteHistoryTables.Entity.string.rawValue)
        writer.history.strings[text] = number
        return number
    }

    /// Records the numbers used. Called once, before the commit.
    ///
    /// - Returns: The number of the transaction; `nil` if nothing was recorded.
    @discardableResult
    func finish() throws -> Int64? {
        guard let transaction else { return nil }
        try connection.recordGreatestPrimaryKey(
            transaction, of: SQLiteHistoryTables.Entity.transaction.rawValue)
        try connection.recordGreatestPrimaryKey(
            lastChange, of: SQLiteHistoryTables.Entity.change.rawValue)
        try keepLimits(last: transaction)
        return transaction
    }

    /// Deletes transactions by the limits that the store's options set, from time to time.
    private func keepLimits(last transaction: Int64) throws {
        guard store.ownsHistory,
            store.options.maximumHistoryAge != nil || store.options.maximumHistorySize != nil
        else { return }
        if writer.history.transactionsUntilLimits > 0 {
            writer.history.transactionsUntilLimits -= 1
            return
        }
        try SQLiteHistoryDeletion(connection: connection, tables: tables)
            .keepLimits(store.options, last: transaction)
        writer.history.transactionsUntilLimits = 999
        // Texts that are not used any more have been deleted.
        writer.history.strings = [:]
    }
}

extension SQLiteStore {
    /// Whether the options about history apply to the store.
    fileprivate var ownsHistory: Bool { carriesModel || !options.leavesForeignHistory }

    /// Whether the next save starts recording history if the store has none yet.
    var beginsHistory: Bool { options.tracksHistory && ownsHistory && !isReadOnly }
}
