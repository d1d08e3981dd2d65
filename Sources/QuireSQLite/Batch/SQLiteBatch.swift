import Foundation
internal import QuireModel
public import QuireQuery
internal import QuireStore
internal import QuireSystem

/// The transaction of one batch request.
///
/// As in a save, files with external data are on disk before it commits, and those that no row refers to any more go
/// only after it has.
final class SQLiteBatch {
    let store: SQLiteStore
    let writer: SQLiteWriter
    let rows: SQLiteRowWriter
    /// Files that rows have referred to before, other than those that ``rows`` knows.
    var droppedFiles: Set<String> = []
    /// The greatest primary keys to record, by the numbers of root entities.
    var greatestKeys: [Int: Int64] = [:]
    var connection: SQLiteConnection { writer.connection }

    private init(_ store: SQLiteStore, _ writer: SQLiteWriter) {
        self.store = store
        self.writer = writer
        rows = SQLiteRowWriter(
            store: store, writer: writer,
            files: SQLiteExternalFiles(externalData: store.externalData),
            dropsExternalData: store.hasExternalData)
    }

    /// Runs a closure in a transaction, which is rolled back if it throws.
    static func run(
        on store: SQLiteStore, _ body: (SQLiteBatch) throws -> BatchResult
    ) throws -> BatchResult {
        try store.withWriterForBatch { writer in
            let batch = SQLiteBatch(store, writer)
            defer { writer.connection.releaseMemory() }
            do {
                try writer.connection.begin()
                try writer.modelGuard.check(writer.connection)
                writer.connection.derivedLog.begin()
                let result = try body(batch)
                let derived = try batch.derive()
                try batch.commit()
                return result.refreshing(derived)
            } catch {
                let failure =
                    error as? SQLiteFailure ?? (error as? QuireError)?.underlying as? SQLiteFailure
                SQLiteSave.undo(after: failure, store: store, writer: writer)
                // If nobody knows whether the transaction is on disk, it may refer to them after all.
                writer.note(error)
                if writer.poison == nil {
                    batch.rows.files.remove()
                } else {
                    batch.rows.files.giveToStore()
                }
                throw error
            }
        }
    }

    /// Brings derived attributes up to date that triggers do not keep.
    ///
    /// - Returns: The objects whose derived values the request has changed, by triggers too.
    private func derive() throws -> [ManagedObjectID] {
        try SQLiteDerivedRows(schema: store.schema, connection: connection).writeAll()
        return connection.derivedLog.end(
            besides: ChangeSet(), schema: store.schema, store: store.identity)
    }

    private func commit() throws {
        let removed = droppedFiles.union(rows.droppedFiles)
        try rows.files.synchronizeFolder()
        if store.carriesModel { try rows.files.writeDigests(removing: removed, connection) }
        store.willRecordPrimaryKeys(greatestKeys)
        for (root, key) in greatestKeys {
            try connection.recordGreatestPrimaryKey(
                key, of: store.schema.entity(number: root).storeNumber)
        }
        try connection.commit()
        store.didRecordPrimaryKeys(greatestKeys)
        writer.unreferencedFiles.formUnion(removed)
        rows.files.didSave()
    }

    /// Notes the files that rows refer to which are about to be changed or deleted.
    ///
    /// - Parameter condition: Which rows of the entity's table.
    func noteFiles(
        of slots: some Sequence<EntityLayout.Slot>, in entity: EntityLayout,
        where condition: SQLFragment
    ) throws {
        let place = store.schema.entity(entity)
        for slot in slots where slot.isExternalCapable {
            guard let name = place.columns[slot.index]?.name else { continue }
            let column: SQLFragment = "\(name: name)"
            let query: SQLFragment =
                "SELECT substr(\(column), 1, 38) FROM \(name: place.tableName) WHERE substr(\(column), 1, 1) = x'02' AND \(condition)"
            try connection.withStatement(query.sql) { statement in
                try statement.bind(query.bindings)
                while try statement.step() {
                    let value = statement.data(0)
                    if let file = value.withUnsafeBytes(SQLiteExternalData.fileName) {
                        droppedFiles.insert(file)
                    }
                }
            }
        }
    }
}

extension SQLiteStore {
    /// Inserts the rows of a request in one transaction.
    public func insert(
        _ request: BatchInsertRequest, onConflict rule: UpsertRule
    ) throws -> BatchResult {
        try SQLiteBatchInsert(store: self, request: request, rule: rule).run()
    }

    /// Updates the objects that a request finds, with one statement.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        try SQLiteBatchUpdate(store: self, request: request).run()
    }

    /// Deletes the objects that a request finds, and what delete rules take along, with few statements.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        try SQLiteBatchDelete(store: self, request: request).run()
    }

    /// The objects that a request finds whose condition SQL cannot say, as they are before the transaction begins; `nil`
    /// if it can.
    func objectsBeyondSQL(_ request: FetchRequest) throws -> ObjectIDList? {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let statement = try FetchStatement(
            query, selecting: .identifiers, schema: schema, store: identity)
        return statement.remainder == nil ? nil : try objectIDs(matching: request)
    }
}
