import Foundation
internal import QuireModel
public import QuireQuery
internal import QuireStore
internal import QuireSystem

/// The transaction of one batch request.
///
/// As in a save, external data files are durable before the commit, and dereferenced ones are removed after it.
final class SQLiteBatch {
    let store: SQLiteStore
    let writer: SQLiteWriter
    let rows: SQLiteRowWriter
    /// Files dereferenced by changed rows, other than those in ``rows``.
    var droppedFiles: Set<String> = []
    /// The history that the request is recorded in; `nil` if the store keeps none.
    let history: SQLiteHistoryWriter?
    /// The greatest primary keys to record, by the number of the root entity.
    var maximumKeys: [Int: Int64] = [:]
    var connection: SQLiteConnection { writer.connection }

    private init(
        _ store: SQLiteStore, _ writer: SQLiteWriter, _ origin: TransactionOrigin
    ) throws {
        history = try SQLiteHistoryWriter(store: store, writer: writer, origin: origin)
        self.store = store
        self.writer = writer
        rows = SQLiteRowWriter(
            store: store, writer: writer,
            files: SQLiteExternalDataWriter(store: store, connection: writer.connection),
            dropsExternalData: store.hasExternalData)
    }

    /// Runs a closure in a transaction, which is rolled back if it throws.
    static func run(
        on store: SQLiteStore, origin: TransactionOrigin,
        _ body: (SQLiteBatch) throws -> BatchResult
    ) throws -> BatchResult {
        try store.withWriterForBatch { writer in
            var started: SQLiteBatch?
            defer { writer.connection.releaseMemory(above: store.options.cacheSize) }
            do {
                try writer.connection.begin()
                try writer.modelVersionCheck.check(writer.connection)
                // Another program may have changed the history since the last save.
                writer.history = SQLiteHistoryCache()
                let batch = try SQLiteBatch(store, writer, origin)
                started = batch
                writer.connection.derivedLog.begin(store.schema)
                let result = try body(batch)
                let derived = try batch.derive()
                try batch.history?.recordWrittenObjects(in: ChangeSet(), derived: derived)
                try batch.history?.finish()
                try batch.commit()
                return result.refreshing(derived)
            } catch {
                let failure =
                    error as? SQLiteFailure ?? (error as? QuireError)?.underlying as? SQLiteFailure
                SQLiteSave.undo(after: failure, store: store, writer: writer)
                writer.note(error)
                started?.rows.files.didFail(writer)
                throw error
            }
        }
    }

    /// Updates derived attributes that triggers do not maintain.
    ///
    /// - Returns: The objects whose derived values the request has changed, including by triggers.
    private func derive() throws -> [ManagedObjectID] {
        let rows = SQLiteDerivedRows(schema: store.schema, connection: connection)
        try rows.writeAll()
        try rows.settleImpossibleValues()
        return connection.derivedLog.end(
            besides: ChangeSet(), schema: store.schema, store: store.identity)
    }

    private func commit() throws {
        let removed = droppedFiles.union(rows.droppedFiles)
        try rows.files.synchronizeFolder()
        if store.carriesModel { try rows.files.writeRecords(removing: removed) }
        store.willRecordPrimaryKeys(maximumKeys)
        for (root, key) in maximumKeys {
            try connection.recordGreatestPrimaryKey(
                key, of: store.schema.entity(number: root).storeNumber)
        }
        try connection.returnFreePages()
        try connection.commit()
        store.didRecordPrimaryKeys(maximumKeys)
        writer.unreferencedFiles.formUnion(removed)
        rows.files.didSave()
    }

    /// Collects the files referenced by rows that are about to be updated or deleted.
    ///
    /// - Parameter condition: The WHERE clause for the entity's table.
    func noteFiles(
        of slots: some Sequence<ResolvedEntity.Slot>, in entity: ResolvedEntity,
        where condition: SQLFragment
    ) throws {
        let place = store.schema.entity(entity)
        for slot in slots where slot.isExternalCapable {
            guard let name = place.columns[slot.index]?.name else { continue }
            let column: SQLFragment = "\(name: name)"
            let query: SQLFragment =
                "SELECT substr(\(column), 1, 38) FROM \(name: place.tableName) WHERE substr(\(column), 1, 1) = x'02' AND \(condition)"
            try connection.forEachRow(query.sql, query.bindings) {
                if let file = $0.data(0).withUnsafeBytes(ExternalDataTag.fileName) {
                    droppedFiles.insert(file)
                }
            }
        }
    }
}

extension SQLiteStore {
    /// Updates the objects matching a request, with one statement.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        try SQLiteBatchUpdate(store: self, request: request).run()
    }

    /// Deletes the objects matching a request, and their cascades, with few statements.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        try SQLiteBatchDelete(store: self, request: request).run()
    }

    /// The objects matching a predicate that cannot be translated to SQL, as of before the transaction; `nil` if it can be
    /// translated.
    func objectsBeyondSQL(_ request: FetchSpecification) throws -> ObjectIDList? {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let statement = try FetchStatement(
            query, selecting: .identifiers, schema: schema, store: identity)
        return statement.remainder == nil ? nil : try objectIDs(matching: request)
    }
}

// MARK: - Counts of relationships

/// Finds to-many relationships whose count constraints a batch request has violated. Candidates are collected in a temporary
/// table, which may exceed memory.
struct SQLiteCountCheck {
    let store: SQLiteStore
    let connection: SQLiteConnection

    /// The temporary table: the model number of the relationship's entity, the relationship's index, the object.
    static let table = "temp.QUIRE_OWNERS"

    /// Creates the empty table.
    func begin() throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS \(Self.table) \
            (Z_ENT INTEGER, Z_RELATIONSHIP INTEGER, Z_PK INTEGER, \
            PRIMARY KEY (Z_ENT, Z_RELATIONSHIP, Z_PK)) WITHOUT ROWID; \
            DELETE FROM \(Self.table)
            """)
    }

    /// Adds an object to check.
    func note(_ owner: ManagedObjectID, _ relationship: ResolvedEntity.Relationship) throws {
        try connection.run(
            "INSERT OR IGNORE INTO \(Self.table) VALUES (?, ?, ?)",
            Int64(relationship.ownerNumber), Int64(relationship.index), owner.primaryKey)
    }

    /// Checks the collected objects, and empties the table.
    ///
    /// - Throws: ``QuireError`` with code `validation` for the first object that violates a count constraint.
    func finish() throws {
        let noted = try connection.rows(
            "SELECT DISTINCT Z_ENT, Z_RELATIONSHIP FROM \(Self.table)"
        ) { (entity: Int($0.integer(0)), relationship: Int($0.integer(1))) }
        for (number, index) in noted {
            let entity = store.layout.entity(number: number)
            try check(entity.relationships[index], of: entity)
        }
        try connection.execute("DELETE FROM \(Self.table)")
    }

    private func check(_ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity)
        throws
    {
        guard let members = store.schema.toMany(relationship, of: entity).rowsOfOwner else {
            return
        }
        let table = SQLName.quoted(store.schema.entity(entity).tableName)
        let found = try connection.row(
            """
            SELECT * FROM (SELECT o.Z_PK, t.Z_ENT, (SELECT count(*) FROM \(members)) AS found \
            FROM \(Self.table) o CROSS JOIN \(table) t ON t.Z_PK = o.Z_PK \
            WHERE o.Z_ENT = ?1 AND o.Z_RELATIONSHIP = ?2) WHERE \(relationship.countViolationSQL(column: "found")) LIMIT 1
            """, Int64(relationship.ownerNumber), Int64(relationship.index)
        ) { (key: $0.integer(0), entity: $0.integer(1), count: Int($0.integer(2))) }
        guard let found, let rule = relationship.rule(violatedByCount: found.count) else { return }
        let id = ManagedObjectID(
            entityNumber: store.schema.modelNumber(ofStoreNumber: found.entity) ?? entity.number,
            primaryKey: found.key, store: store.identity)
        throw relationship.countViolation(rule, of: id, count: found.count)
    }
}

// MARK: - Unique rows

/// Finds the stored object with a row's unique values.
struct SQLiteUniqueRows {
    /// A stored object.
    struct Holder: Equatable {
        let objectID: ManagedObjectID
        let version: UInt32
    }

    private struct Constraint {
        let properties: [String]
        let slots: [Int]
        let sql: String
    }

    private let store: SQLiteStore
    private let connection: SQLiteConnection
    private let entity: ResolvedEntity
    private let constraints: [Constraint]

    /// Whether there are no uniqueness constraints.
    var isEmpty: Bool { constraints.isEmpty }

    init(_ entity: ResolvedEntity, store: SQLiteStore, connection: SQLiteConnection) {
        self.entity = entity
        self.store = store
        self.connection = connection
        let place = store.schema.entity(entity)
        constraints = entity.uniquenessConstraints.compactMap { constraint in
            let slots = entity.slots(ofConstraint: constraint.properties)
            let columns = slots.compactMap { place.columns[$0]?.name }
            guard !slots.isEmpty, columns.count == slots.count else { return nil }
            let condition = columns.map { "\(SQLName.quoted($0)) = ?" }.joined(separator: " AND ")
            return Constraint(
                properties: constraint.properties, slots: slots,
                sql: "SELECT Z_PK, Z_ENT, ifnull(Z_OPT, 0) FROM \(SQLName.quoted(place.tableName)) "
                    + "WHERE \(condition)")
        }
    }

    /// The object with the row's unique values; `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `constraintConflict` if the values belong to several objects.
    func holder(of row: BatchInsertRow) throws -> Holder? {
        var found: Holder?
        for constraint in constraints {
            let values = constraint.slots.map { row.values[$0] }
            guard !values.contains(.null), let holder = try holder(constraint, values) else {
                continue
            }
            if let found, found != holder {
                throw row.ambiguity(
                    found.objectID, holder.objectID, constraint.properties, file: store.storePath)
            }
            found = holder
        }
        return found
    }

    private func holder(_ constraint: Constraint, _ values: [AttributeValue]) throws -> Holder? {
        try connection.withStatement(constraint.sql) { statement in
            try statement.bind(values)
            guard try statement.step(),
                let number = store.schema.modelNumber(ofStoreNumber: statement.integer(1))
            else { return nil }
            return Holder(
                objectID: ManagedObjectID(
                    entityNumber: number, primaryKey: statement.integer(0), store: store.identity),
                version: UInt32(truncatingIfNeeded: statement.integer(2)))
        }
    }
}
