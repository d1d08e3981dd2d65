import CSQLite
public import QuireModel
public import QuireQuery
public import QuireStore
internal import QuireSystem

/// The state shared by saves in one transaction: they commit, or fail, together.
final class SaveGroup {
    /// The error that rolled the transaction back.
    var failure: (any Error)?
    private var files: [SQLiteExternalDataWriter] = []
    private var droppedFiles: Set<String> = []
    /// The history transactions of the saves.
    private var transactions: [Int64] = []

    /// Takes over a save's files, and its history transaction.
    func add(
        _ files: SQLiteExternalDataWriter, dropping names: Set<String>, transaction: Int64?
    ) {
        if let transaction { transactions.append(transaction) }
        if !files.isEmpty { self.files.append(files) }
        droppedFiles.formUnion(names)
    }

    fileprivate func didCommit(_ writer: SQLiteWriter) {
        writer.recordedTransactions += transactions
        writer.unreferencedFiles.formUnion(droppedFiles)
        for files in files { files.didSave() }
    }

    fileprivate func didFail(_ writer: SQLiteWriter) {
        for files in files { files.didFail(writer) }
    }
}

extension SQLiteStore {
    /// Runs a closure whose saves to this store, on this thread, are one transaction: all are committed when it returns,
    /// or none if it throws or a save fails. So a save can be larger than memory.
    ///
    /// Reads on this thread include its saves; other threads see them after the commit, and their saves wait. Contexts must
    /// belong to a coordinator that is discarded afterwards: another one would cache rows that were never committed. Other
    /// writes, such as a batch request, metadata or reserving permanent identifiers, meanwhile throw code `invalidState`, which
    /// leaves the transaction as it is.
    ///
    /// - Throws: The closure's error, the error of a failed save, or ``QuireError`` with code `outOfSpace`, `readOnly` or
    ///   `storeUnavailable`.
    package func saveInOneTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        try withWriter { writer in
            precondition(writer.joinedSaves == nil, "saveInOneTransaction(_:) cannot be nested.")
            let saves = SaveGroup()
            writer.joinedSaves = saves
            defer {
                writer.joinedSaves = nil
                writer.connection.releaseMemory()
            }
            do {
                try writer.connection.begin()
                let result = try body()
                if let failure = saves.failure { throw failure }
                try writer.connection.returnFreePages()
                try writer.connection.commit()
                saves.didCommit(writer)
                return result
            } catch {
                let failure =
                    error as? SQLiteFailure ?? (error as? QuireError)?.underlying as? SQLiteFailure
                SQLiteSave.undo(after: failure, store: self, writer: writer)
                writer.note(error)
                saves.didFail(writer)
                throw error
            }
        }
    }
}

extension SQLiteStore {
    /// Runs a closure with the connection of the transaction that ``saveInOneTransaction(_:)`` has begun on this thread.
    package func withTransaction<Result>(
        _ body: (SQLiteConnection) throws -> Result
    ) throws -> Result {
        try withWriter(joining: true) { try body($0.connection) }
    }
}

// MARK: - Batch requests

/// Bulk reads with few statements.
extension SQLiteStore {
    /// The identifiers of the objects matching a request, in its order.
    public func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let fetch = try FetchStatement(
            query, selecting: .identifiers, schema: schema, store: identity)
        if !fetch.isComplete {
            let rows = try rows(matching: request)
            return ObjectIDList(
                bits: ContiguousArray(rows.indices.map(rows.identifierBits)), store: identity)
        }
        var bits: ContiguousArray<UInt64> = []
        let monitor = request.monitor
        try connections.read(watchedBy: monitor) { connection in
            try connection.withStatement(fetch.sql) { statement in
                try statement.bind(fetch.bindings)
                var numbers = EntityNumbers(store: self, entity: query.entity)
                while try statement.step() {
                    bits.append(
                        try numbers.bits(statement.integer(0), storeNumber: statement.integer(1)))
                    monitor?.didRead(rows: bits.count)
                }
            }
        }
        return ObjectIDList(bits: bits, store: identity)
    }

    /// The rows of objects, in any order. Missing rows are omitted.
    public func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        var byRoot: [Int: ContiguousArray<Int64>] = [:]
        for id in objectIDs where owns(id) {
            byRoot[layout.entity(number: id.entityNumber).rootNumber, default: []]
                .append(id.primaryKey)
        }
        var builder = RowSetBuilder(
            layout: layout, store: identity, externalData: externalData,
            expectedRows: objectIDs.count)
        try read { connection in
            for (root, keys) in byRoot.sorted(by: { $0.key < $1.key }) {
                let entity = layout.entity(number: root)
                let selection = selection(of: entity)
                let reader = SQLiteRowReader(
                    connection: connection, selection: selection, store: self)
                let keys = SQLiteKeys(keys)
                try keys.forEachStatement(
                    "SELECT \(selection.list) FROM \(table(of: entity)) t0 WHERE t0.Z_PK ", "",
                    slack: 1, connection
                ) { try reader.readAll($0, into: &builder) }
            }
        }
        return builder.finish()
    }

    /// The destinations of a to-many relationship for objects of one hierarchy.
    public func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        guard let first = objectIDs.first(where: owns), relationship.isToMany,
            !relationship.description.isTransient
        else { return RelatedObjects() }
        let entity = layout.entity(number: first.entityNumber)
        var owners = IdentifierTable(minimumCapacity: objectIDs.count)
        var keys: ContiguousArray<Int64> = []
        keys.reserveCapacity(objectIDs.count)
        for id in objectIDs where owns(id) {
            owners.set(id.bits, for: UInt64(id.primaryKey))
            keys.append(id.primaryKey)
        }
        switch schema.toMany(relationship, of: entity) {
        case .nowhere: return RelatedObjects()
        case .foreignKey(let place):
            return try pointingBack(SQLiteKeys(keys), owners, relationship, place)
        case .join(let join):
            return try joined(SQLiteKeys(keys), owners, relationship, join)
        }
    }

    /// Related objects by foreign key: their rows hold both keys.
    private func pointingBack(
        _ keys: SQLiteKeys, _ owners: borrowing IdentifierTable,
        _ relationship: ResolvedEntity.Relationship, _ place: SQLForeignKey
    ) throws -> RelatedObjects {
        let destination = layout.destination(of: relationship)
        let selection = selection(of: destination)
        let column = "t0.\(SQLName.quoted(place.column))"
        let order = place.orderColumn.map { "t0.\(SQLName.quoted($0)), " } ?? ""
        var builder = RowSetBuilder(
            layout: layout, store: identity, externalData: externalData,
            expectedRows: keys.count * 4)
        var found: ContiguousArray<UInt64> = []
        try read { connection in
            let reader = SQLiteRowReader(
                connection: connection, selection: selection, store: self)
            try keys.forEachStatement(
                "SELECT \(selection.list), \(column) FROM \(table(of: destination)) t0 WHERE \(column) ",
                " ORDER BY \(column), \(order)t0.Z_PK", slack: 2, connection
            ) { statement in
                let last = statement.columnCount - 1
                // The rows of an owner follow one another.
                var (key, owner): (Int64, UInt64) = (0, 0)
                try reader.readAll(statement, into: &builder) { row in
                    let next = sqlite3_column_int64(row, last)
                    if next != key { owner = next > 0 ? owners[UInt64(next)] ?? 0 : 0 }
                    key = next
                    found.append(owner)
                }
            }
        }
        let rows = builder.finish()
        var result = RelatedObjects()
        for position in found.indices where found[position] != 0 {
            result.append(rows.identifierBits(at: position), of: found[position])
        }
        result.rows = [rows]
        return result
    }

    /// Related objects by join table.
    private func joined(
        _ keys: SQLiteKeys, _ owners: borrowing IdentifierTable,
        _ relationship: ResolvedEntity.Relationship, _ join: SQLJoin
    ) throws -> RelatedObjects {
        let destination = layout.destination(of: relationship)
        let source = "j.\(SQLName.quoted(join.sourceColumn))"
        let target = "j.\(SQLName.quoted(join.targetColumn))"
        let order = join.orderColumn.map { "j.\(SQLName.quoted($0)), " } ?? ""
        let pairs = "\(SQLName.quoted(join.tableName)) j"
        // A destination's entity is in its own row. Destinations without a row are omitted when the rows are read.
        let isLeaf = !destination.hasSubentities
        let head =
            isLeaf
            ? "SELECT \(source), \(target) FROM \(pairs) WHERE \(source) "
            : "SELECT \(source), \(target), t0.Z_ENT FROM \(pairs) CROSS JOIN "
                + "\(table(of: destination)) t0 WHERE t0.Z_PK = \(target) AND \(source) "
        var result = RelatedObjects()
        try read { connection in
            var numbers = EntityNumbers(store: self, entity: destination)
            let leaf = Int64(schema.entity(destination).storeNumber)
            try keys.forEachStatement(
                head, " ORDER BY \(source), \(order)\(target)", slack: 4, connection
            ) { statement in
                var (key, owner): (Int64, UInt64) = (0, 0)
                while try statement.step() {
                    let next = statement.integer(0)
                    if next != key { owner = next > 0 ? owners[UInt64(next)] ?? 0 : 0 }
                    key = next
                    if owner == 0 { continue }
                    result.append(
                        try numbers.bits(
                            statement.integer(1), storeNumber: isLeaf ? leaf : statement.integer(2)),
                        of: owner)
                }
            }
        }
        return result
    }

    /// Creates identifiers from primary keys and store numbers.
    private struct EntityNumbers {
        let schema: SQLSchema
        let entity: ResolvedEntity
        private let storeBits: UInt64
        private var last: Int64 = -1
        private var lastBits: UInt64 = 0

        init(store: SQLiteStore, entity: ResolvedEntity) {
            schema = store.schema
            storeBits = store.identity.numberBits
            self.entity = entity
        }

        mutating func bits(_ key: Int64, storeNumber: Int64) throws -> UInt64 {
            if storeNumber != last {
                guard let number = schema.modelNumber(ofStoreNumber: storeNumber),
                    entity.subtree.contains(number)
                else { throw damaged(key, "its entity number is \(storeNumber)") }
                last = storeNumber
                lastBits = UInt64(number) << 48 | storeBits
            }
            guard key > 0, key <= ManagedObjectID.maximumPrimaryKey else {
                throw damaged(key, "its primary key is out of range")
            }
            return lastBits | UInt64(key)
        }

        private func damaged(_ key: Int64, _ what: String) -> QuireError {
            QuireError(
                .invalidFormat,
                "“\(entity.name)/p\(key)” cannot be found: \(what); the store is damaged.",
                entity: entity.name, object: "\(entity.name)/p\(key)")
        }
    }
}

/// Primary keys, queried with few statements whose texts recur so that they stay prepared.
struct SQLiteKeys {
    /// The keys, ascending and unique.
    private let keys: ContiguousArray<Int64>

    var count: Int { keys.count }

    /// The numbers of keys per statement. Unused parameters are bound to the last key.
    private static let sizes = [1, 8, 64, 512, 4096]
    /// The minimum number of keys for which a range query is considered.
    private static let minimumRange = 16

    init(_ keys: ContiguousArray<Int64>) {
        let sorted = keys.sorted()
        var unique: ContiguousArray<Int64> = []
        unique.reserveCapacity(sorted.count)
        for key in sorted where unique.last != key { unique.append(key) }
        self.keys = unique
    }

    /// Runs the statements `head` + test + `tail` for all keys.
    ///
    /// - Parameter slack: A range query is used if the range holds at most this many times as many numbers as there are keys;
    ///   unless it is 1, more rows than requested may be returned.
    func forEachStatement(
        _ head: String, _ tail: String, slack: Int64, _ connection: SQLiteConnection,
        _ body: (SQLiteStatement) throws -> Void
    ) throws {
        guard let first = keys.first, let last = keys.last else { return }
        if keys.count >= Self.minimumRange, last - first < Int64(keys.count) * slack {
            try connection.withStatement("\(head)BETWEEN ? AND ?\(tail)") { statement in
                try statement.bind(first, at: 1)
                try statement.bind(last, at: 2)
                try body(statement)
            }
            return
        }
        var rest = keys[...]
        while let lastKey = rest.last {
            let size = Self.sizes.first { $0 >= rest.count } ?? 4096
            let marks = [String](repeating: "?", count: size).joined(separator: ",")
            try connection.withStatement("\(head)IN (\(marks))\(tail)") { statement in
                var index: Int32 = 1
                for key in rest.prefix(size) {
                    try statement.bind(key, at: index)
                    index += 1
                }
                while index <= size {
                    try statement.bind(lastKey, at: index)
                    index += 1
                }
                try body(statement)
            }
            rest = rest.dropFirst(size)
        }
    }
}
