package import Foundation
package import QuireModel
internal import QuireProtection
internal import QuireStore
internal import QuireSystem

// The content of an open store is replaced by that of another, in one transaction.

extension SQLiteStore {
    /// Makes a database that nobody else uses fit to become this store's content: of the same model, with the same UUID and
    /// page size. Identifiers that this store has given out are not given out again, and no file of external data has the name
    /// of one of this store's that holds other bytes: that one is live until the content has been replaced.
    ///
    /// - Parameters:
    ///   - path: The path of the database.
    ///   - records: What the new content shall record, `nil` for nothing.
    ///   - open: Opens it, and migrates it if it was made with another version of the model and is to be migrated.
    /// - Returns: The names of the files of external data that its rows refer to.
    /// - Throws: ``QuireError`` with code `incompatibleModel`, `invalidFormat`, or what reading and writing throw.
    package func prepareReplacement(
        at path: String, records: [String: String?],
        opening open: (String, ManagedObjectModel, SQLiteStoreOptions) throws -> SQLiteStore
    ) throws -> [String] {
        var options = options
        options.journal = .rollback
        options.synchronization = .normal
        options.analyzesWhenOpened = false
        options.vacuumsWhenOpened = false
        options.isOnlyWriter = true
        let model = layout.model
        let replacement: SQLiteStore
        do { replacement = try open(path, model, options) } catch var error as QuireError
            where error.code == .removalDenied
        {
            // The path of the copy means nothing to a user.
            error.message.replace(path, with: storePath)
            error.subject.file = storePath
            throw error
        }
        defer { try? replacement.close() }
        let keys = try read { try Self.primaryKeys($0) }
        let pageSize = try read { try $0.integer("PRAGMA page_size") ?? 4096 }
        try replacement.withWriter { writer in
            let connection = writer.connection
            if try connection.integer("PRAGMA page_size") != pageSize {
                try connection.execute("PRAGMA page_size = \(pageSize); VACUUM")
            }
            try connection.begin()
            do {
                try writer.modelGuard.checkTriggers(connection)
                try connection.withStatement("UPDATE Z_METADATA SET Z_UUID = ?1 WHERE Z_UUID <> ?1")
                {
                    try $0.bind(identity.uuid, at: 1)
                    try $0.run()
                }
                for (name, greatest) in keys {
                    try connection.withStatement(
                        "UPDATE Z_PRIMARYKEY SET Z_MAX = ?1 WHERE Z_NAME = ?2 AND Z_MAX < ?1"
                    ) {
                        try $0.bind(greatest, at: 1)
                        try $0.bind(name, at: 2)
                        try $0.run()
                    }
                }
                try replacement.renameExternalFiles(differingFrom: externalData, connection)
                try connection.commit()
            } catch {
                SQLiteSave.undo(
                    after: error as? SQLiteFailure, store: replacement, writer: writer)
                throw error
            }
        }
        var changes = ChangeSet()
        changes.records = records
        try replacement.save(changes)
        let files = try replacement.externalFileNames().sorted()
        try replacement.close()
        return files
    }

    /// Gives files of external data new names, in the rows and on disk, if another store has files of their names with other
    /// bytes: one of the two is damaged, or was put there.
    private func renameExternalFiles(
        differingFrom other: SQLiteExternalData, _ connection: SQLiteConnection
    ) throws {
        var newNames: [String: String] = [:]
        for name in try externalFileNames(connection) {
            let (mine, theirs) = try (
                externalData.information(ofFileNamed: name),
                other.information(ofFileNamed: name)
            )
            guard let mine, let theirs, !mine.isSameFile(as: theirs) else { continue }
            let isEqual =
                try theirs.kind == .regular && mine.size == theirs.size
                && externalData.externalData(named: name)
                    .readsSame(as: other.externalData(named: name))
            if !isEqual { newNames[name] = UUID().uuidString }
        }
        if newNames.isEmpty { return }
        for (name, newName) in newNames {
            try FileSystem.renameWithoutReplacing(
                externalData.path(ofFileNamed: name),
                to: externalData.path(ofFileNamed: newName), beneath: externalData.root)
        }
        for (table, column) in externalColumns {
            var values: [Data: String] = [:]
            try connection.withStatement(
                "SELECT DISTINCT \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02'"
            ) { statement in
                while try statement.step() {
                    let value = statement.data(0)
                    let name = value.withUnsafeBytes(SQLiteExternalData.fileName)
                    if let newName = name.flatMap({ newNames[$0] }) { values[value] = newName }
                }
            }
            for (value, newName) in values {
                try connection.withStatement(
                    "UPDATE \(table) SET \(column) = ? WHERE \(column) = ?"
                ) {
                    try $0.bind(SQLiteExternalData.reference(toFileNamed: newName), at: 1)
                    try $0.bind(value, at: 2)
                    try $0.run()
                }
            }
        }
        guard try connection.hasTable(SQLiteTables.externalData) else { return }
        for (name, newName) in newNames {
            try connection.withStatement(
                "UPDATE \(SQLiteTables.externalData) SET Z_UUID = ? WHERE Z_UUID = ?"
            ) {
                try $0.bind(newName, at: 1)
                try $0.bind(name, at: 2)
                try $0.run()
            }
        }
    }

    private static func primaryKeys(
        _ connection: SQLiteConnection
    ) throws -> [(name: String, greatest: Int64)] {
        try connection.withStatement("SELECT Z_NAME, Z_MAX FROM Z_PRIMARYKEY") {
            var keys: [(name: String, greatest: Int64)] = []
            while try $0.step() { keys.append(($0.text(0), $0.integer(1))) }
            return keys
        }
    }

    /// Replaces everything in the database by the content of another, in one transaction: whoever reads meanwhile sees the
    /// old or the new content. When it returns, the new one survives power loss.
    ///
    /// Afterwards this object, which may know what is there no more, reads, but saves nothing: open the store anew. The files
    /// of external data that the new rows refer to must be there, durably, before.
    ///
    /// - Parameters:
    ///   - path: What ``prepareReplacement(at:records:opening:)`` has made fit.
    ///   - progress: Gets the number of pages as its total; cancelling it leaves the old content.
    /// - Throws: ``QuireError`` with code `outOfSpace`, `locked`, `cancelled`, `readOnly` or `storeUnavailable`. The old content
    ///   is still there unless the error leaves that open (`leavesCommitOpen`).
    package func replaceContent(withDatabaseAt path: String, progress: Progress? = nil) throws {
        try withWriter { writer in
            // Made of a copy of this store, or to take its place: it has the same keys, or none if this has none.
            let source = try SQLiteConnection(
                path: path, mode: .immutable, cipher: protection?.cipher)
            defer { source.close() }
            try writer.connection.files?.check()
            do {
                let backup = try SQLiteBackup(from: source, to: writer.connection)
                while try backup.copy(pages: Self.pagesAtOnce) {
                    progress?.totalUnitCount = Int64(backup.pageCount)
                    progress?.completedUnitCount =
                        Int64(backup.pageCount - backup.remainingCount)
                    if progress?.isCancelled == true {
                        throw QuireError(
                            .cancelled,
                            "Replacing the content of “\(storePath)” was cancelled; it is as it was.",
                            subject: .init(file: storePath))
                    }
                }
                try backup.finish()
                try writer.connection.files?.checkAfterCommit()
            } catch let failure as SQLiteFailure {
                if failure.leavesFileUnknown { writer.poison = failure.error(path: storePath) }
                throw failure
            }
            writer.poison = QuireError(
                .invalidState,
                "The content of “\(storePath)” has been replaced; use the store that was opened since.",
                subject: .init(file: storePath))
            writer.mayBeReopened = false
        }
    }

    private static let pagesAtOnce = 256

    /// Opens the store of this object once more, in the same way.
    package func openAgain() throws -> SQLiteStore {
        var options = options
        options.analyzesWhenOpened = false
        options.vacuumsWhenOpened = false
        // The content that is there now may have greater keys.
        return try SQLiteStore.open(
            at: storePath, model: nil, layout: layout, options: options, continuing: self,
            hasItsKeys: false)
    }
}
