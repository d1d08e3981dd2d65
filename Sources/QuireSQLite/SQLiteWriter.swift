import Foundation
import Logging
internal import QuireModel
internal import QuireSystem

/// A store's only writing connection, with its prepared statements. Used under the store's lock.
package final class SQLiteWriter {
    package let connection: SQLiteConnection
    let schema: SQLSchema
    private var inserts: [Int: SQLitePreparedRow] = [:]
    private var updates: [UpdateKey: SQLitePreparedRow] = [:]
    private var deletions: [DeletionKey: SQLitePreparedRow] = [:]
    private var lastInsert: (entity: Int, row: SQLitePreparedRow)?
    private var lastUpdate: (key: UpdateKey, row: SQLitePreparedRow)?
    /// The error after which the store does not save until it is reopened.
    var poison: QuireError?
    /// Whether reopening the store may help.
    var mayBeReopened = true
    /// External data files of saves whose commit has an unknown outcome.
    var uncertainFiles: Set<String> = []
    /// Whether the journal mode is as the options request.
    var isJournalReady = false
    /// Whether anything was committed.
    var hasCommitted = false
    /// `PRAGMA data_version` at the last save: it changes with, and only with, commits of other connections.
    var dataVersion: Int64?
    /// The check that the store still has the model that it was opened with.
    var modelVersionCheck: ModelVersionCheck
    /// External data files unreferenced since a save of this store.
    var unreferencedFiles: Set<String> = []
    /// The saves of the running transaction, if it is one of several; see ``SQLiteStore/saveInOneTransaction(_:)``.
    var joinedSaves: SaveGroup?
    /// The cache of the store's history tables.
    var history = SQLiteHistoryCache()
    /// The history transactions of saves that the present holder of the writer has committed.
    var recordedTransactions: [Int64] = []
    /// Whether ``unreferencedFiles`` are removed when the store is closed.
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

    /// Records a failure: after a failed fsync the on-disk state is unknown.
    func note(_ error: any Error) {
        if poison == nil, error.isFailedSynchronization { poison = error as? QuireError }
    }

    /// Finalizes the prepared statements and closes the connection.
    func close() {
        inserts = [:]
        lastInsert = nil
        updates = [:]
        deletions = [:]
        lastUpdate = nil
        connection.close()
    }
}

/// A prepared statement that writes one row.
final class SQLitePreparedRow {
    let row: SQLRowStatement
    let statement: SQLiteStatement

    init(_ row: SQLRowStatement, _ connection: SQLiteConnection) throws {
        self.row = row
        statement = try connection.prepare(row.sql, isKept: true)
    }
}

// MARK: - Reopening

/// Reopens a store's file after a failure that left the on-disk state unknown, above all a failed fsync.
///
/// The kernel may have dropped dirty pages and would report success the next time. So descriptors that saw such a failure are
/// not used again; before anything is written, new ones checkpoint the last successful save into the database, which is then
/// checked.
///
/// With a write-ahead log, frames of the failed transaction must not be taken for a transaction when the log is recovered.
/// While the old connection is open, the log's index still ends with the last committed transaction: everything up to it,
/// which is on disk, is checkpointed, and the log is truncated. Only then is the old connection closed. Without a log, the
/// rollback journal undoes the failed transaction at the new connection's first read.
struct WriterRecovery {
    let source: SQLiteDatabaseFile
    let options: SQLiteStoreOptions
    let hasLog: Bool

    /// - Returns: The new writing connection.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the database is damaged, or a failure. The new connection is then
    ///   closed and the log left alone.
    func run() throws -> SQLiteConnection {
        let connection = try source.connect(.writing, options: options)
        do {
            if hasLog { try emptyLog(connection) }
            try check(connection)
            Logger(label: "quire.sql").notice(
                "“\(source.storePath)” was reopened after a failed write, and is not damaged."
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
                "“\(source.storePath)” could not be written, and cannot be reopened while other connections read it; save again.",
                file: source.storePath)
        }
    }

    private func check(_ connection: SQLiteConnection) throws {
        let problem =
            try connection.row("PRAGMA integrity_check(1)") { $0.text(0) } ?? "it cannot be checked"
        if problem != "ok" {
            throw QuireError(
                .invalidFormat,
                "“\(source.storePath)” is damaged after a failed write: \(problem). Repair it, or restore it from a backup.",
                file: source.storePath)
        }
    }
}

extension SQLiteWriter {
    /// Closes a connection that must not be used again, and leaves the log alone.
    ///
    /// - Returns: External data files that are unreferenced once the store has been reopened.
    func giveUp() -> Set<String> {
        connection.keepLogOnClose()
        close()
        return unreferencedFiles.union(uncertainFiles)
    }
}

extension SQLiteStore {
    /// Makes the names of the external data folders durable before a row refers to their files. The process that created the
    /// folders may have been killed before doing so.
    func secureExternalFolders(_ connection: SQLiteConnection) throws {
        let root = externalData.root
        guard try hasExternalData && FileSystem.hasEntry(at: externalData.folder, beneath: root)
        else { return }
        if try connection.hasTable(SQLiteTables.externalData),
            try connection.integer("SELECT 1 FROM \(SQLiteTables.externalData) LIMIT 1") != nil
        {
            return
        }
        try FileSystem.synchronizeFolder(containing: externalData.folder, beneath: root)
        try FileSystem.synchronizeFolder(containing: externalData.supportFolder, beneath: root)
    }
}
