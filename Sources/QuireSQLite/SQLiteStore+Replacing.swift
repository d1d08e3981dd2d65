package import Foundation
internal import Logging
package import QuireModel
package import QuireProtection
internal import QuireStore
internal import QuireSystem

extension SQLiteStore {
    /// Removes the store at a path: the file, its log and its external data. Does nothing if it does not exist.
    ///
    /// An open store is not removed.
    ///
    /// - Throws: ``QuireError`` with code `locked` if the store is open, in this process or another; `invalidFormat` if the file
    ///   is not a SQLite database, `readOnly` or `storeUnavailable`.
    public static func destroy(at path: String) throws {
        let path = StorePath.resolvingLink(path)
        if !FileSystem.exists(path) { return }
        try alone(with: path) { try FileSystem.removeFile(path) }
        try FileSystem.synchronizeFolder(containing: path)
        try removeSupport(ExternalDataFolder(storePath: path))
        // Last: without it a partly removed store could not be opened to be destroyed again.
        try StoreProtection.removeKeybag(ofStoreAt: path)
    }

    /// Replaces the store at a path, if any, with a copy of another store. The copy has the other's UUID.
    ///
    /// At every instant, even after a crash or power loss, the path has either the complete old or the complete new store.
    ///
    /// - Parameters:
    ///   - path: The path to replace. The store there must not be open.
    ///   - source: The path of the store to copy. It may be open.
    /// - Throws: Errors of ``destroy(at:)`` for the old store; `notFound`, `invalidFormat` or `outOfSpace` for the new one.
    public static func replace(at path: String, withStoreAt source: String) throws {
        let path = StorePath.resolvingLink(path)
        let place = ExternalDataFolder(storePath: path)
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        let work = ExternalDataFolder(storePath: temporary)
        var added: [String] = []
        do {
            try FileSystem.building(path, as: temporary) {
                try copyDatabase(at: source, to: temporary)
            }
            // External data files have unique names, so new files can lie beside the old ones.
            let names = try work.names()
            if !names.isEmpty {
                try FileSystem.makeFolder(
                    place.folder, beneath: place.root, withIntermediates: true)
            }
            for name in names {
                let target = place.path(ofFileNamed: name)
                if FileSystem.exists(target, beneath: place.root) { continue }
                try FileSystem.linkOrCopy(
                    work.path(ofFileNamed: name), to: target, within: place.root)
                added.append(target)
            }
            if !names.isEmpty {
                try FileSystem.synchronizeTree(place.supportFolder, beneath: place.root)
                try FileSystem.synchronizeFolder(place.root)
            }
            let file = try OpenFile.open(temporary, for: .updating)
            try file.synchronize()
            file.close()
            try takeKeybag(of: temporary, to: path)
            if FileSystem.exists(path) {
                try alone(with: path) { try FileSystem.rename(temporary, to: path) }
            } else {
                try FileSystem.renameWithoutReplacing(temporary, to: path)
            }
        } catch {
            for target in added {
                _ = try? FileSystem.removeFileIfPresent(target, beneath: place.root)
            }
            throw error
        }
        try FileSystem.synchronizeFolder(containing: path)
        removeUnreferenced(at: path, place)
    }

    /// Copies the keybag of a store that is about to be moved into place.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if the present store has another keybag, or only one of both
    ///   has one: store and keybag are two files, which cannot be replaced atomically.
    private static func takeKeybag(of temporary: String, to path: String) throws {
        let (old, new) = try (
            StoreProtection.domain(ofStoreAt: path), StoreProtection.domain(ofStoreAt: temporary)
        )
        if FileSystem.exists(path) {
            if old?.identifier == new?.identifier { return }
            throw StoreProtection.otherKeysError(path)
        }
        guard let new else { return }
        let keybag = StoreProtection.keybag(ofStoreAt: path)
        try new.writeCopy(to: keybag.path, beneath: keybag.root)
    }

    /// Copies a store that may be open elsewhere.
    private static func copyDatabase(at source: String, to path: String) throws {
        let store = try open(at: source, options: .reading(inferringModel: true))
        defer { try? store.close() }
        try store.writeCopy(to: path)
    }

    /// Runs a closure with exclusive access to a database file. Its log is checkpointed and removed: it would be taken for the
    /// log of a file that replaces this one.
    ///
    /// - Throws: ``QuireError`` with code `locked` if the file is open.
    package static func alone(with path: String, _ body: () throws -> Void) throws {
        if OpenDatabaseRegistry.contains(path) { throw inUse(path) }
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: false)
        defer { source.release() }
        do {
            let connection = try source.connect(.writing, options: SQLiteStoreOptions())
            defer { connection.close() }
            try connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            var options = SQLiteStoreOptions()
            options.journal = .rollback
            // Fails if another connection has the log open.
            guard try !source.chooseJournal(connection, options: options),
                try !source.hasLog(connection)
            else { throw inUse(path) }
            try connection.execute("BEGIN EXCLUSIVE")
            defer { try? connection.execute("ROLLBACK") }
            _ = try FileSystem.removeFileIfPresent(path + "-wal")
            _ = try FileSystem.removeFileIfPresent(path + "-shm")
            try body()
        } catch let failure as SQLiteFailure {
            if failure.isBusy { throw inUse(path) }
            throw failure.error(path: path)
        }
        _ = try FileSystem.removeFileIfPresent(path + "-journal")
    }

    /// Copies a store that is not open, sealed with other keys or in clear, and runs a closure while nobody can open it.
    ///
    /// - Throws: ``QuireError`` with code `locked` if it is open, or is changed before the closure runs.
    package static func copying(
        _ path: String, to target: String, protectedBy other: StoreProtection?,
        _ body: () throws -> Void
    ) throws {
        // Without a log its file says by itself whether it was changed.
        try alone(with: path) {}
        let copied = try FileSystem.information(at: path)
        do {
            let store = try open(at: path, options: .reading(inferringModel: true))
            defer { try? store.close() }
            try store.writeCopy(to: target, protectedBy: other)
        }
        try alone(with: path) {
            guard let copied, let present = try FileSystem.information(at: path),
                present.isSameFile(as: copied), present.hasSameContent(as: copied)
            else { throw inUse(path) }
            try body()
        }
    }

    private static func inUse(_ path: String) -> QuireError {
        QuireError(
            .locked, "“\(path)” is open; close it everywhere before replacing or removing it.",
            file: path)
    }

    /// Removes the folder with external data, and its parent if empty.
    private static func removeSupport(_ place: ExternalDataFolder) throws {
        let root = place.root
        if FileSystem.exists(place.folder, beneath: root) {
            try FileSystem.removeTree(place.folder, beneath: root)
        }
        let support = place.supportFolder
        if FileSystem.exists(support, beneath: root),
            try FileSystem.names(in: support, beneath: root).isEmpty
        {
            try FileSystem.removeTree(support, beneath: root)
        }
    }

    /// Removes the old store's external data. Files left after a failure are found by a check.
    private static func removeUnreferenced(at path: String, _ place: ExternalDataFolder) {
        guard let names = try? place.names(), !names.isEmpty,
            let store = try? open(at: path, options: .reading(inferringModel: true))
        else { return }
        defer { try? store.close() }
        guard let used = try? store.externalFileNames() else { return }
        for name in names where ExternalDataFolder.isFileName(name) && !used.contains(name) {
            _ = try? FileSystem.removeFileIfPresent(
                place.path(ofFileNamed: name), beneath: place.root)
        }
    }
}

// MARK: - Replacing content

// Replaces the content of an open store with another's, in one transaction.

extension SQLiteStore {
    /// Prepares an unused database to become this store's content: same model, UUID and page size. Identifiers reserved by this
    /// store are not reused, and no external data file has the name of one of this store's with different bytes: that one is
    /// live until the content has been replaced.
    ///
    /// - Parameters:
    ///   - path: The path of the database.
    ///   - records: The values to record in the new content, `nil` to remove one.
    ///   - open: Opens it, and migrates it if it has another model version and is to be migrated.
    /// - Returns: The names of the external data files that its rows refer to.
    /// - Throws: ``QuireError`` with code `incompatibleModel`, `invalidFormat`, or errors of reading and writing.
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
            // The path of the copy is meaningless to a user.
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
                try writer.modelVersionCheck.checkTriggers(connection)
                try connection.run(
                    "UPDATE Z_METADATA SET Z_UUID = ?1 WHERE Z_UUID <> ?1", identity.uuid)
                for (name, greatest) in keys {
                    try connection.run(
                        "UPDATE Z_PRIMARYKEY SET Z_MAX = ?1 WHERE Z_NAME = ?2 AND Z_MAX < ?1",
                        greatest, name)
                }
                try replacement.renameExternalFiles(differingFrom: externalData, connection)
                try copySynchronization(to: connection)
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

    /// Renames external data files, in the rows and on disk, if another store has files of the same names with different bytes:
    /// one of the two is damaged, or was planted.
    private func renameExternalFiles(
        differingFrom other: ExternalDataFolder, _ connection: SQLiteConnection
    ) throws {
        var newNames: [String: String] = [:]
        for name in try connection.externalFileNames(schema) {
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
        for (table, column) in schema.externalColumns {
            var values: [Data: String] = [:]
            try connection.forEachRow(
                "SELECT DISTINCT \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02'"
            ) {
                let value = $0.data(0)
                let name = value.withUnsafeBytes(ExternalDataTag.fileName)
                if let newName = name.flatMap({ newNames[$0] }) { values[value] = newName }
            }
            for (value, newName) in values {
                try connection.run(
                    "UPDATE \(table) SET \(column) = ? WHERE \(column) = ?",
                    ExternalDataTag.reference(toFileNamed: newName), value)
            }
        }
        guard try connection.hasTable(SQLiteTables.externalData) else { return }
        for (name, newName) in newNames {
            try connection.run(
                "UPDATE \(SQLiteTables.externalData) SET Z_UUID = ? WHERE Z_UUID = ?", newName, name
            )
        }
    }

    private static func primaryKeys(
        _ connection: SQLiteConnection
    ) throws -> [(name: String, greatest: Int64)] {
        try connection.rows("SELECT Z_NAME, Z_MAX FROM Z_PRIMARYKEY") {
            ($0.text(0), $0.integer(1))
        }
    }

    /// Replaces the database's content with another's, in one transaction: concurrent readers see the old or the new content.
    /// When it returns, the new one survives power loss.
    ///
    /// Afterwards this object, whose caches may be stale, can read but not save: reopen the store. The external data files of
    /// the new rows must be durable on disk before.
    ///
    /// - Parameters:
    ///   - path: A database prepared by ``prepareReplacement(at:records:opening:)``.
    ///   - progress: Gets the number of pages as its total; cancelling it keeps the old content.
    /// - Throws: ``QuireError`` with code `outOfSpace`, `locked`, `cancelled`, `readOnly` or `storeUnavailable`. The old
    ///   content is kept unless the outcome of the commit is unknown (`leavesCommitOpen`).
    package func replaceContent(withDatabaseAt path: String, progress: Progress? = nil) throws {
        try withWriter { writer in
            // A copy of this store, or its replacement: it has the same keys, or none if this has none.
            let source = try SQLiteConnection(
                path: path, mode: .immutable, cipher: protection?.cipher)
            defer { source.close() }
            try writer.connection.files?.check()
            let former = try writer.connection.externalFileNames(schema)
            do {
                let backup = try SQLiteBackup(from: source, to: writer.connection)
                while try backup.copy(pages: Self.pagesAtOnce) {
                    progress?.totalUnitCount = Int64(backup.pageCount)
                    progress?.completedUnitCount =
                        Int64(backup.pageCount - backup.remainingCount)
                    try progress?.checkCancelled(
                        "Replacing the content of “\(storePath)” was cancelled; the store is unchanged.",
                        file: storePath)
                }
                try backup.finish()
                if let progress {
                    progress.totalUnitCount = max(progress.totalUnitCount, 1)
                    progress.completedUnitCount = progress.totalUnitCount
                }
                try writer.connection.files?.checkAfterCommit()
            } catch let failure as SQLiteFailure {
                if failure.leavesFileUnknown { writer.poison = failure.error(path: storePath) }
                throw failure
            }
            writer.poison = QuireError(
                .invalidState,
                "The content of “\(storePath)” was replaced; use the store that was opened afterwards.",
                file: storePath)
            writer.mayBeReopened = false
            writer.unreferencedFiles.formUnion(former)
        }
    }

    private static let pagesAtOnce = 256

    /// Opens this store's file again, with the same options. The successor removes what its content does not refer to any more.
    package func openAgain() throws -> SQLiteStore {
        var options = options
        options.analyzesWhenOpened = false
        options.vacuumsWhenOpened = false
        // The present content may have greater keys.
        let store = try SQLiteStore.open(
            at: storePath, model: nil, layout: layout, options: options, continuing: self,
            hasItsKeys: false)
        connections.withWriterIfOpen { store.willClean($0.unreferencedFiles) }
        return store
    }
}

// MARK: - Continuing after a replacement

extension SQLiteStore {
    /// Opens a successor of an open store: the same file, after a move, or a copy of it. Identifiers of one are valid in the
    /// other.
    ///
    /// The open store is unaffected until ``PersistentStoreCoordinator/replace(_:with:)``.
    ///
    /// - Parameters:
    ///   - path: The present path of the file.
    ///   - predecessor: The open store.
    ///   - options: How to use the file.
    /// - Throws: ``QuireError`` with code `incompatibleModel` if it is another store, or errors of opening.
    package static func open(
        at path: String, continuing predecessor: SQLiteStore, options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        try open(
            at: path, model: nil, layout: predecessor.layout, options: options,
            continuing: predecessor)
    }

    /// Hands external data over to the store's successor. Values read from this store find their files there, including
    /// unreferenced ones that only undo may restore.
    package func handOverExternalData(to other: SQLiteStore) {
        let unreferenced = supersede()
        for name in unreferenced where other.externalData.folder != externalData.folder {
            do {
                try FileSystem.makeFolder(
                    other.externalData.folder, beneath: other.externalData.root,
                    withIntermediates: true)
                try FileSystem.linkOrCopy(
                    externalData.path(ofFileNamed: name), beneath: externalData.root,
                    to: other.externalData.path(ofFileNamed: name), within: other.externalData.root)
            } catch let error as QuireError where error.code == .alreadyExists {
                continue
            } catch {
                // Undo to a replaced value reports its file as missing.
                Logger(label: "quire.sql").error(
                    "A replaced value, which undo may need, could not be copied to “\(other.storePath)”: \(error)"
                )
            }
        }
        other.willClean(unreferenced)
        externalData.move(to: other.externalData)
    }

    /// The options that the store was opened with.
    package var storeOptions: SQLiteStoreOptions { options }
}
