import Foundation
import Logging
internal import QuireSystem

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
struct SQLiteReopening {
    let source: SQLiteStoreSource
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
