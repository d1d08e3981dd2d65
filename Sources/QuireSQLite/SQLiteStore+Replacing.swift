package import Foundation
package import QuireModel
internal import QuireProtection
internal import QuireStore
internal import QuireSystem

extension SQLiteStore {
    /// Removes the store at a path: the file, its log and its external data. Nothing happens if there is none.
    ///
    /// A store that somebody has open stays.
    ///
    /// - Throws: ``QuireError`` with code `locked` if the store is open, in this process or another; `invalidFormat` if
    ///   the file is no SQLite database, `readOnly` or `storeUnavailable`.
    public static func destroy(at path: String) throws {
        let path = FileSystem.absolute(path)
        if !FileSystem.exists(path) { return }
        try alone(with: path) { try FileSystem.removeFile(path) }
        try FileSystem.synchronizeFolder(containing: path)
        try removeSupport(SQLiteExternalData(storePath: path))
        // Last: without it the rest could not be destroyed once more.
        try StoreProtection.removeKeybag(ofStoreAt: path)
    }

    /// Puts a copy of another store in the place of the store at a path, or where there is none yet. The copy has the
    /// other's UUID.
    ///
    /// At every instant, also after a crash or power loss, there is the whole old or the whole new store.
    ///
    /// - Parameters:
    ///   - path: The place. What is there must not be open.
    ///   - source: The path of the store to copy. Others may have it open.
    /// - Throws: As ``destroy(at:)`` for the old one; `notFound`, `invalidFormat` or `outOfSpace` for the other.
    public static func replace(at path: String, withStoreAt source: String) throws {
        let path = FileSystem.absolute(path)
        let place = SQLiteExternalData(storePath: path)
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        let work = SQLiteExternalData(storePath: temporary)
        var added: [String] = []
        do {
            try FileSystem.building(path, as: temporary) {
                try copyDatabase(at: source, to: temporary)
            }
            // Names of external data are unique, so the new files can lie beside the old ones.
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
    ///   has one: store and keybag are two files, which cannot be replaced in one step.
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

    /// Writes a copy of a store that may be open elsewhere.
    private static func copyDatabase(at source: String, to path: String) throws {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = true
        let store = try open(at: source, options: options)
        defer { try? store.close() }
        try store.writeCopy(to: path)
    }

    /// Does something to a database's file while nobody else has it open. Its log is merged into it and gone: it would be
    /// taken for that of a file which comes in its place.
    ///
    /// - Throws: ``QuireError`` with code `locked` if anybody has it open.
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
            // Fails if anybody else has the log open.
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

    private static func inUse(_ path: String) -> QuireError {
        QuireError(
            .locked, "“\(path)” is open; close it everywhere before it is replaced or removed.",
            subject: .init(file: path))
    }

    /// Removes the folder with external data, and the one around it if nothing else is there.
    private static func removeSupport(_ place: SQLiteExternalData) throws {
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

    /// Removes external data of the old store. What stays for a failure is found by a check.
    private static func removeUnreferenced(at path: String, _ place: SQLiteExternalData) {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = true
        guard let names = try? place.names(), !names.isEmpty,
            let store = try? open(at: path, options: options)
        else { return }
        defer { try? store.close() }
        guard let used = try? store.externalFileNames() else { return }
        for name in names where SQLiteExternalData.isFileName(name) && !used.contains(name) {
            _ = try? FileSystem.removeFileIfPresent(
                place.path(ofFileNamed: name), beneath: place.root)
        }
    }
}

// MARK: - Replacing content

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
                try writer.modelVersionCheck.checkTriggers(connection)
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

// MARK: - Continuing after a replacement

extension SQLiteStore {
    /// Opens a store that is to take the place of an open one: the same file, which has been moved, or a copy of it that is
    /// gone on with. Identifiers of one are identifiers of the other.
    ///
    /// Nothing changes for the open one until ``PersistentStoreCoordinator/replace(_:with:)``.
    ///
    /// - Parameters:
    ///   - path: The path of the file now.
    ///   - predecessor: The open store.
    ///   - options: How to use the file.
    /// - Throws: ``QuireError`` with code `incompatibleModel` if it is another store, or what opening throws.
    package static func open(
        at path: String, continuing predecessor: SQLiteStore, options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        try open(
            at: path, model: nil, layout: predecessor.layout, options: options,
            continuing: predecessor)
    }

    /// Another store takes this one's place. What was read from this one finds its external data with the other, also
    /// what no row refers to any more and only undo may bring back.
    package func handOverExternalData(to other: SQLiteStore) {
        let unreferenced = supersede()
        for name in unreferenced where other.externalData.folder != externalData.folder {
            // If that fails, undo to a value that was replaced says that its file is missing.
            try? FileSystem.makeFolder(
                other.externalData.folder, beneath: other.externalData.root,
                withIntermediates: true)
            _ = try? FileSystem.linkOrCopy(
                externalData.path(ofFileNamed: name), beneath: externalData.root,
                to: other.externalData.path(ofFileNamed: name), within: other.externalData.root)
        }
        other.willClean(unreferenced)
        externalData.move(to: other.externalData)
    }

    /// How the store uses its file.
    package var storeOptions: SQLiteStoreOptions { options }
}
