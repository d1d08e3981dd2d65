import Foundation
import Logging
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
    var modelVersionCheck: ModelVersionCheck
    /// Files of external data that no row refers to any more since a save of this store.
    var unreferencedFiles: Set<String> = []
    /// The saves of the running transaction, if it is one of several; see ``SQLiteStore/saveInOneTransaction(_:)``.
    var joinedSaves: SaveGroup?
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
        modelVersionCheck = ModelVersionCheck(
            connection, schema: schema, path: path, hashes: hashes)
    }

    // MARK: - Statements for rows

    func insert(_ entity: ResolvedEntity) throws -> SQLitePreparedRow {
        if let lastInsert, lastInsert.entity == entity.number { return lastInsert.row }
        let row =
            try inserts[entity.number]
            ?? SQLitePreparedRow(
                .insert(entity, schema: schema), connection)
        inserts[entity.number] = row
        lastInsert = (entity.number, row)
        return row
    }

    func update(_ entity: ResolvedEntity, slots: SlotMask) throws -> SQLitePreparedRow {
        let key = UpdateKey(entity: entity.number, slots: slots)
        if let lastUpdate, lastUpdate.key == key { return lastUpdate.row }
        let row: SQLitePreparedRow
        if let known = updates[key] {
            row = known
        } else {
            row = try SQLitePreparedRow(
                .update(entity, schema: schema, slots: slots), connection)
            if updates.count >= Self.maximumUpdateCount { updates.removeAll() }
            updates[key] = row
        }
        lastUpdate = (key, row)
        return row
    }

    func delete(_ entity: ResolvedEntity, checkingVersion: Bool) throws -> SQLitePreparedRow {
        let key = DeletionKey(entity: entity.rootNumber, checksVersion: checkingVersion)
        if let known = deletions[key] { return known }
        let row = try SQLitePreparedRow(
            .delete(entity, schema: schema, checkingVersion: checkingVersion), connection)
        deletions[key] = row
        return row
    }

    private static let maximumUpdateCount = 256

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

// MARK: - Reopening

/// Opens a store's file again after a failure that left open what is on disk, above all a failed synchronization.
///
/// The kernel may have dropped the pages that were to be written and would report success the next time. So descriptors
/// that such a failure was seen by are not used again; what the last save that succeeded has left is brought into the
/// database by new ones, and the database is checked, before anything is written.
///
/// With a write-ahead log, what the failed transaction left in it must not be taken for a transaction when the log is read
/// anew. As long as the old connection is there, the log's index still ends with the last transaction that was committed:
/// everything until there, which is on disk, goes to the database, and the log is emptied. Only then the old connection
/// ends. Without one, the journal takes the failed transaction back when the new connection begins to read.
struct WriterRecovery {
    let source: SQLiteDatabaseFile
    let options: SQLiteStoreOptions
    let hasLog: Bool

    /// - Returns: The connection to write with.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the database is damaged, or a failure. Then the new connection
    ///   has ended and left the log alone.
    func run() throws -> SQLiteConnection {
        let connection = try source.connect(.writing, options: options)
        do {
            if hasLog { try emptyLog(connection) }
            try check(connection)
            Logger(label: "quire.sql").notice(
                "“\(source.storePath)” has been opened again after a failure to write it, and is whole."
            )
            return connection
        } catch {
            connection.keepLogOnClose()
            connection.close()
            throw error
        }
    }

    private func emptyLog(_ connection: SQLiteConnection) throws {
        let isBusy = try connection.integer("PRAGMA wal_checkpoint(TRUNCATE)") != 0
        if isBusy {
            throw QuireError(
                .locked,
                "“\(source.storePath)” could not be written and cannot be opened again while others read it; save again.",
                subject: .init(file: source.storePath))
        }
    }

    private func check(_ connection: SQLiteConnection) throws {
        let problem = try connection.withStatement("PRAGMA integrity_check(1)") {
            try $0.step() ? $0.text(0) : "it cannot be checked"
        }
        if problem != "ok" {
            throw QuireError(
                .invalidFormat,
                "“\(source.storePath)” is damaged since it could not be written: \(problem); repair it, or restore it from a copy.",
                subject: .init(file: source.storePath))
        }
    }
}

extension SQLiteWriter {
    /// Ends a connection that is not to be used any more, and leaves the log alone.
    ///
    /// - Returns: Files of external data that are of no use any more, once the store has been opened again.
    func giveUp() -> Set<String> {
        connection.keepLogOnClose()
        close()
        return unreferencedFiles.union(uncertainFiles)
    }
}

extension SQLiteStore {
    /// Makes the names of the folders with external data durable before anything refers to what is in them. Whoever made
    /// the folders may have been killed before doing so.
    func secureExternalFolders(_ connection: SQLiteConnection) throws {
        let root = externalData.root
        guard hasExternalData, FileSystem.exists(externalData.folder, beneath: root) else {
            return
        }
        if try connection.hasTable(SQLiteTables.externalData),
            try connection.integer("SELECT 1 FROM \(SQLiteTables.externalData) LIMIT 1") != nil
        {
            return
        }
        try FileSystem.synchronizeFolder(containing: externalData.folder, beneath: root)
        try FileSystem.synchronizeFolder(containing: externalData.supportFolder, beneath: root)
    }
}
