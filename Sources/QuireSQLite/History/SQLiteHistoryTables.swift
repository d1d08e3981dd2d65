internal import Foundation
package import QuireModel
internal import QuireSystem

/// Core Data's tables of persistent history, as a store has them.
///
/// `ATRANSACTION` has a row for each transaction, `ACHANGE` one for each changed object. Authors, names of contexts, processes
/// and bundles are kept once, in `ATRANSACTIONSTRING`; stores of old frameworks (851) have them in `ATRANSACTION` itself.
struct SQLiteHistoryTables {
    /// The numbers of the tables' rows in `Z_ENT` and `Z_PRIMARYKEY`.
    enum Entity: Int, CaseIterable {
        case change = 16_001
        case transaction = 16_002
        case string = 16_003

        fileprivate var name: String {
            switch self {
            case .change: "CHANGE"
            case .transaction: "TRANSACTION"
            case .string: "TRANSACTIONSTRING"
            }
        }
        var table: String { "A\(name)" }
    }

    /// Whether texts are in a table of their own.
    let hasStrings: Bool
    /// The number of columns for values of deleted objects.
    private(set) var tombstoneCount: Int

    /// Reads which tables a store has; `nil` if it keeps no history.
    init?(_ connection: SQLiteConnection) throws {
        guard try connection.hasTable(Entity.transaction.table),
            try connection.hasTable(Entity.change.table)
        else { return nil }
        hasStrings =
            try connection.hasTable(Entity.string.table)
            && connection.columnNames(of: Entity.transaction.table).contains("ZAUTHORTS")
        let columns = try connection.columnNames(of: Entity.change.table)
        tombstoneCount = 0
        while columns.contains("ZTOMBSTONE\(tombstoneCount)") { tombstoneCount += 1 }
    }

    /// Creates the tables in a store that has none.
    init(creatingIn connection: SQLiteConnection) throws {
        for statement in Self.statements { try connection.execute(statement) }
        for entity in Entity.allCases {
            try connection.run(
                "INSERT INTO Z_PRIMARYKEY VALUES (?, ?, 0, 0)", Int64(entity.rawValue), entity.name)
        }
        hasStrings = true
        tombstoneCount = 0
    }

    /// A text of the row `t` of `ATRANSACTION`.
    func text(_ column: String) -> SQLFragment {
        SQLFragment(
            sql: hasStrings
                ? "coalesce((SELECT ZNAME FROM ATRANSACTIONSTRING WHERE Z_PK = t.\(column)TS), t.\(column))"
                : "t.\(column)")
    }

    /// Adds columns for the values of deleted objects of a model, where they are missing.
    mutating func addTombstones(for layout: ResolvedModel, _ connection: SQLiteConnection) throws {
        let count = layout.entities.map(\.tombstoneSlots.count).max() ?? 0
        while tombstoneCount < count {
            try connection.execute(
                "ALTER TABLE ACHANGE ADD COLUMN ZTOMBSTONE\(tombstoneCount) BLOB")
            tombstoneCount += 1
        }
    }

    private static let statements = [
        "CREATE TABLE ACHANGE ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZCHANGETYPE INTEGER, ZENTITY INTEGER, ZENTITYPK INTEGER, ZTRANSACTIONID INTEGER, ZCOLUMNS BLOB )",
        "CREATE TABLE ATRANSACTION ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZAUTHORTS INTEGER, ZBUNDLEIDTS INTEGER, ZCONTEXTNAMETS INTEGER, ZPROCESSIDTS INTEGER, ZTIMESTAMP FLOAT, ZAUTHOR VARCHAR, ZBUNDLEID VARCHAR, ZCONTEXTNAME VARCHAR, ZPROCESSID VARCHAR, ZQUERYGEN BLOB )",
        "CREATE TABLE ATRANSACTIONSTRING ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZNAME VARCHAR )",
        "CREATE INDEX ACHANGE_ZTRANSACTIONID_INDEX ON ACHANGE (ZTRANSACTIONID)",
        "CREATE INDEX ATRANSACTION_ZAUTHORTS_INDEX ON ATRANSACTION (ZAUTHORTS)",
        "CREATE INDEX ATRANSACTION_ZBUNDLEIDTS_INDEX ON ATRANSACTION (ZBUNDLEIDTS)",
        "CREATE INDEX ATRANSACTION_ZCONTEXTNAMETS_INDEX ON ATRANSACTION (ZCONTEXTNAMETS)",
        "CREATE INDEX ATRANSACTION_ZPROCESSIDTS_INDEX ON ATRANSACTION (ZPROCESSIDTS)",
        "CREATE INDEX Z_TRANSACTION_TransactionAuthorIndex ON ATRANSACTION (ZAUTHOR COLLATE BINARY ASC)",
        "CREATE INDEX Z_TRANSACTION_TransactionTimestampIndex ON ATRANSACTION (ZTIMESTAMP COLLATE BINARY ASC)",
        "CREATE UNIQUE INDEX Z_TRANSACTIONSTRING_UNIQUE_NAME ON ATRANSACTIONSTRING (ZNAME COLLATE BINARY ASC)",
    ]
}

extension SQLiteConnection {
    /// The names of a table's columns.
    package func columnNames(of table: String) throws -> Set<String> {
        Set(try rows("SELECT name FROM pragma_table_info(?)", table) { $0.text(0) })
    }

    /// Adds columns for the values of deleted objects of a model to the tables of the history, where they are missing.
    ///
    /// - Returns: The number of these columns; `nil` if the store keeps no history.
    package func addTombstones(for layout: ResolvedModel) throws -> Int? {
        var tables = try SQLiteHistoryTables(self)
        try tables?.addTombstones(for: layout, self)
        return tables?.tombstoneCount
    }

    /// Records a transaction without an author that updates the objects of a table, whose columns are an entity's number in the
    /// store and a primary key. Does nothing if there are none, or the store keeps no history.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, and errors of the statements.
    package func recordUpdates(listedIn objects: String, path: String) throws {
        guard try SQLiteHistoryTables(self) != nil,
            let count = try integer("SELECT count(*) FROM \(objects)"), count > 0
        else { return }
        let transaction = try lastNumber(of: .transaction, path: path) + 1
        let change = try lastNumber(of: .change, path: path)
        try run(
            "INSERT INTO ATRANSACTION (Z_PK, Z_ENT, ZTIMESTAMP) VALUES (?, 16002, ?)", transaction,
            Date().timeIntervalSinceReferenceDate)
        try run(
            """
            INSERT INTO ACHANGE (Z_PK, Z_ENT, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID) \
            SELECT ?1 + row_number() OVER (ORDER BY entity, key), 16001, 1, entity, key, ?2 FROM \(objects)
            """, change, transaction)
        try recordGreatestPrimaryKey(
            transaction, of: SQLiteHistoryTables.Entity.transaction.rawValue)
        try recordGreatestPrimaryKey(
            change + count, of: SQLiteHistoryTables.Entity.change.rawValue)
    }

    /// The greatest number used in a table of the history, for deleted rows too; 0 if there is none.
    func greatestNumber(of entity: SQLiteHistoryTables.Entity) throws -> Int64 {
        // Z_MAX may be lower than max(Z_PK).
        max(
            try maximumPrimaryKey(of: entity.rawValue),
            try integer("SELECT max(Z_PK) FROM \(entity.table)") ?? 0)
    }

    /// The greatest number used in a table of the history, if it leaves room for more.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    func lastNumber(of entity: SQLiteHistoryTables.Entity, path: String) throws -> Int64 {
        let number = try greatestNumber(of: entity)
        guard 0..<(1 << 62) ~= number else {
            throw QuireError(
                .invalidFormat,
                "The history of “\(path)” is damaged: \(entity.table) is numbered up to \(number). Save a copy with another name; it begins a new history.",
                file: path)
        }
        return number
    }
}

extension ResolvedEntity {
    /// The slots whose values persistent history keeps when an object is deleted, in the order of the columns.
    package var tombstoneSlots: [Slot] {
        slots.filter { $0.isStored && $0.attribute?.preservesValueInHistoryOnDeletion == true }
            .sorted { $0.name < $1.name }
    }
}

/// A cache of the schema and the texts of a store's history tables; discarded when another connection may have changed them.
struct SQLiteHistoryCache {
    /// The tables; `nil` while they have not been looked up, `.some(nil)` if there are none.
    var tables: SQLiteHistoryTables??
    /// The numbers of texts in `ATRANSACTIONSTRING`.
    var strings: [String: Int64] = [:]
    /// The properties of entities as bits, by the number of the entity.
    var columns: [Int: SQLiteHistoryColumns] = [:]
    /// The number of transactions to record before the limits of the history are kept again.
    var transactionsUntilLimits = 0
}

// MARK: - Changed properties

/// The properties of an entity as bits of `ZCOLUMNS`: the most significant bit of the first byte is the first.
///
/// First to-one relationships, of which those to entities with sub-entities have two bits, then the positions of the object in
/// ordered inverses, one for each order column, then attributes, then to-many relationships. Each kind begins with those of the
/// root entity by name; those of its sub-entity follow by name, and so on down. So it is in the stores of Core Data that have
/// been examined.
struct SQLiteHistoryColumns {
    private var slotBits: [Int: Range<Int>] = [:]
    private var relationshipBits: [Int: Range<Int>] = [:]
    private var names: [(name: String, bits: Range<Int>)] = []
    private var bitCount = 0

    init(_ entity: ResolvedEntity, in store: SQLiteStore) {
        let columns = store.schema.entity(entity).columns
        let depths = store.layout.depths(ofAncestorsOf: entity)
        let stored = entity.slots.filter { columns[$0.index] != nil }.sorted {
            (depths[$0.ownerNumber] ?? 0, $0.name) < (depths[$1.ownerNumber] ?? 0, $1.name)
        }
        for slot in stored where slot.relationshipIndex != nil {
            let bits = addBits(columns[slot.index]?.entityColumn == nil ? 1 : 2, slot.name)
            slotBits[slot.index] = bits
        }
        for slot in stored where columns[slot.index]?.orderColumn != nil { bitCount += 1 }
        for slot in stored where slot.relationshipIndex == nil {
            slotBits[slot.index] = addBits(1, slot.name)
        }
        let toMany = entity.relationships.filter {
            $0.isToMany && !$0.description.isTransient
        }.sorted {
            (depths[$0.ownerNumber] ?? 0, $0.name) < (depths[$1.ownerNumber] ?? 0, $1.name)
        }
        for relationship in toMany {
            relationshipBits[relationship.index] = addBits(1, relationship.name)
        }
    }

    private mutating func addBits(_ count: Int, _ name: String) -> Range<Int> {
        let bits = bitCount..<bitCount + count
        bitCount += count
        names.append((name, bits))
        return bits
    }

    /// The bytes for changed slots and to-many relationships.
    func bytes(slots: SlotMask, toMany: some Sequence<Int>) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: (bitCount + 7) / 8)
        func set(_ bits: Range<Int>?) {
            for bit in bits ?? 0..<0 { bytes[bit / 8] |= 0x80 >> UInt8(bit % 8) }
        }
        for (slot, bits) in slotBits where slots.contains(slot) { set(bits) }
        for index in toMany { set(relationshipBits[index]) }
        return bytes
    }

    /// The names of the properties whose bits are set, sorted; `nil` if the bytes are of another model.
    func names(in bytes: some RandomAccessCollection<UInt8>) -> [String]? {
        guard bytes.count == (bitCount + 7) / 8 else { return nil }
        return names.filter { _, bits in
            bits.contains { bit in
                bytes[bytes.index(bytes.startIndex, offsetBy: bit / 8)] & 0x80 >> UInt8(bit % 8)
                    != 0
            }
        }.map(\.name).sorted()
    }
}

extension ResolvedModel {
    /// The depths of an entity and its superentities in their hierarchy, by entity number; the root's is 0.
    fileprivate func depths(ofAncestorsOf entity: ResolvedEntity) -> [Int: Int] {
        var numbers = [entity.number]
        while let last = numbers.last, let next = self.entity(number: last).superentityNumber {
            numbers.append(next)
        }
        return Dictionary(
            uniqueKeysWithValues: numbers.reversed().enumerated().map { ($0.element, $0.offset) })
    }
}
