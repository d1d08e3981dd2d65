import Foundation
internal import QuireModel
internal import QuireSystem

/// A store's only connection that writes, with what it has prepared. Used under the store's lock.
package final class SQLiteWriter {
    package let connection: SQLiteConnection
    let schema: SQLSchema
    private var inserts: [Int: SQLitePreparedRow] = [:]
    private var updates: [UpdateKey: SQLitePreparedRow] = [:]
    private var deletions: [DeletionKey: SQLitePreparedRow] = [:]
    private var lastInsert: (entity: Int, row: SQLitePreparedRow)?
    private var lastUpdate: (key: UpdateKey, row: SQLitePreparedRow)?
    /// Why the store does not save any more, unless it is opened again.
    var poison: QuireError?
    /// Whether opening the store again may help.
    var mayBeReopened = true
    /// Files of external data of saves of which nobody knows whether they have been committed.
    var uncertainFiles: Set<String> = []
    /// Whether the journal is as the options want it.
    var isJournalReady = false
    /// What SQLite said at the last save about the changes of others: a number that changes with them, and only
    /// with them.
    var dataVersion: Int64?
    /// Whether the store still has the model that it was opened with.
    var modelGuard: SQLiteModelGuard
    /// Files of external data that no row refers to any more since a save of this store.
    var unreferencedFiles: Set<String> = []
    /// The saves of the running transaction, if it is one of several; see ``SQLiteStore/saveTogether(_:)``.
    var joinedSaves: SQLiteJoinedSaves?
    /// Whether such files are removed when the store is closed.
    var cleansUp = true
    /// Whether the log is left as it is when the store is closed.
    var keepsLog = false

    private struct UpdateKey: Hashable {
        let entity: Int
        let slots: SlotMask
    }

    private struct DeletionKey: Hashable {
        let entity: Int
        let checksVersion: Bool
    }

    init(connection: SQLiteConnection, schema: SQLSchema, path: String, hashes: [String: Data]) {
        self.connection = connection
        self.schema = schema
        modelGuard = SQLiteModelGuard(
            connection, schema: schema, path: path, hashes: hashes)
    }

    // MARK: - Statements for rows

    func insert(_ entity: EntityLayout) throws -> SQLitePreparedRow {
        if let lastInsert, lastInsert.entity == entity.number { return lastInsert.row }
        let row =
            try inserts[entity.number]
            ?? SQLitePreparedRow(
                .insert(entity, schema: schema), connection)
        inserts[entity.number] = row
        lastInsert = (entity.number, row)
        return row
    }

    func update(_ entity: EntityLayout, slots: SlotMask) throws -> SQLitePreparedRow {
        let key = UpdateKey(entity: entity.number, slots: slots)
        if let lastUpdate, lastUpdate.key == key { return lastUpdate.row }
        let row: SQLitePreparedRow
        if let known = updates[key] {
            row = known
        } else {
            row = try SQLitePreparedRow(
                .update(entity, schema: schema, slots: slots), connection)
            if updates.count >= Self.greatestUpdateCount { updates.removeAll() }
            updates[key] = row
        }
        lastUpdate = (key, row)
        return row
    }

    func delete(_ entity: EntityLayout, checkingVersion: Bool) throws -> SQLitePreparedRow {
        let key = DeletionKey(entity: entity.rootNumber, checksVersion: checkingVersion)
        if let known = deletions[key] { return known }
        let row = try SQLitePreparedRow(
            .delete(entity, schema: schema, checkingVersion: checkingVersion), connection)
        deletions[key] = row
        return row
    }

    private static let greatestUpdateCount = 256

    /// Takes notice of a failure: one to synchronize leaves open what is on disk.
    func note(_ error: any Error) {
        if poison == nil, error.isFailedSynchronization { poison = error as? QuireError }
    }

    /// Drops everything prepared and ends the connection.
    func close() {
        inserts = [:]
        lastInsert = nil
        updates = [:]
        deletions = [:]
        lastUpdate = nil
        connection.close()
    }
}

/// A statement that writes one row, prepared.
final class SQLitePreparedRow {
    let row: SQLRowStatement
    let statement: SQLiteStatement

    init(_ row: SQLRowStatement, _ connection: SQLiteConnection) throws {
        self.row = row
        statement = try connection.prepare(row.sql, isKept: true)
    }
}
