import CSQLite
package import Foundation
import Logging
internal import QuireModel
package import QuireProtection
internal import QuireQuery
internal import QuireSystem

extension SQLiteStore {
    /// Writes a copy of the store as of the last save, with its external data. Others may go on reading and saving.
    ///
    /// The copy has the same identity. Equal stores give equal files. Nothing is synchronized: the caller synchronizes the
    /// folder that the copy is part of before giving it its name.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in a folder that exists.
    ///   - linking: Whether the copy may share the files of external data, which never change, with this store.
    ///   - withoutDraft: Whether the copy is to have what was saved only.
    ///   - keepingDamage: Whether a store that is damaged is copied all the same, page by page, without the external data
    ///     that are missing. Otherwise its damage may be lost in the copy, and rows with it.
    ///
    /// The copy has the permissions of the store. If another program has replaced or removed the store's files, external data that went with them are missing from the
    /// copy.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `outOfSpace`, `invalidFormat` if a table of the copy has fewer rows,
    ///   `notFound` if a saving process removed external data meanwhile, or `storeUnavailable`.
    package func writeCopy(
        to path: String, linking: Bool = false, withoutDraft: Bool = false,
        keepingDamage: Bool = false
    ) throws {
        if FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        let hasNewKeybag = try protection?.writeKeybag(forStoreAt: path) ?? false
        do {
            try writeFiles(
                to: path, linking: linking, withoutDraft: withoutDraft,
                keepingDamage: keepingDamage)
        } catch {
            if hasNewKeybag { try? StoreProtection.removeKeybag(ofStoreAt: path) }
            throw error
        }
    }

    private func writeFiles(
        to path: String, linking: Bool, withoutDraft: Bool, keepingDamage: Bool
    ) throws {
        // A damaged database is not read row by row, which would leave out what cannot be reached.
        if try keepingDamage && !integrityProblems().isEmpty {
            try writePageCopy(to: path, protectedBy: protection)
            if withoutDraft { try? dropDraft(ofCopyAt: path, protectedBy: protection) }
            return try copyExternalData(to: path, linking: linking, skippingMissing: true)
        }
        do {
            try makeEmptyFile(at: path)
            try read { try $0.vacuum(into: path, cipher: protection?.cipher) }
            if withoutDraft { try dropDraft(ofCopyAt: path, protectedBy: protection) }
            // VACUUM counts up the version of the schema, at this place of the header: a copy of a copy would differ. Nobody
            // has opened the file yet who could have remembered the version. Sealed copies differ anyway.
            if protection == nil {
                let file = try OpenFile.open(path, for: .updating)
                try file.write([0, 0, 0, 1], at: 40)
                file.close()
            }
        } catch {
            _ = try? FileSystem.removeFileIfPresent(path)
            throw error
        }
        try copyExternalData(to: path, linking: linking, skippingMissing: keepingDamage)
    }

    /// Writes a copy of the store with other keys or unprotected. Nothing is synchronized.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in a folder that exists.
    ///   - other: The keys that seal the copy; `nil` for an unprotected copy.
    ///   - withoutDraft: Whether the copy is to have what was saved only.
    /// - Throws: As ``writeCopy(to:linking:withoutDraft:keepingDamage:)``; `invalidFormat` also if external data are not what
    ///   was sealed. Then there is no copy.
    package func writeCopy(
        to path: String, protectedBy other: StoreProtection?, withoutDraft: Bool = false
    ) throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        do {
            try makeEmptyFile(at: path)
            try read { try $0.vacuum(into: path, cipher: other?.cipher) }
            if withoutDraft { try dropDraft(ofCopyAt: path, protectedBy: other) }
            let copy = SQLiteExternalData(storePath: path, classKey: other?.classKey)
            let names = try externalFileNames()
            if !names.isEmpty {
                try FileSystem.makeFolder(
                    copy.folder, beneath: copy.root, withIntermediates: true)
            }
            for name in names.sorted() {
                _ = try SQLiteExternalCopy.copy(
                    externalData.externalData(named: name), to: name, in: copy)
            }
        } catch {
            _ = try? FileSystem.removeFileIfPresent(path)
            throw error
        }
    }

    /// Makes a file that a copy of the database is written into, with the permissions of the store.
    private func makeEmptyFile(at path: String) throws {
        let file = try OpenFile.open(path, for: .creating)
        if let original = try FileSystem.information(at: storePath) {
            try file.setPermissionsIfPossible(original.permissions & 0o777 | 0o600)
        }
        file.close()
    }

    /// Copies the external data that a copy of the database refers to. If that fails, the copy is removed.
    private func copyExternalData(
        to path: String, linking: Bool, skippingMissing: Bool
    ) throws {
        do {
            var options = SQLiteStoreOptions()
            options.isReadOnly = true
            options.configuration = configurationName
            options.protection = protection
            // What the copy refers to, not what this store refers to by now.
            let copy = try SQLiteStore.open(at: path, model: layout.model, options: options)
            defer { try? copy.close() }
            let isLost = fileReplacement != nil
            var copied: [UInt64: String] = [:]
            let root = externalData.root
            let names: Set<String>
            do {
                names = try copy.externalFileNames()
            } catch let error as QuireError where skippingMissing && error.code == .invalidFormat {
                names = Set(try presentExternalFiles().map { FileSystem.name(of: $0.path) })
            }
            for name in names.sorted() {
                let source = externalData.path(ofFileNamed: name)
                let target = copy.externalData.path(ofFileNamed: name)
                // Not those above: they are gone if a signal is ending the process.
                for folder in [copy.externalData.supportFolder, copy.externalData.folder]
                where !FileSystem.exists(folder) {
                    try FileSystem.makeFolder(folder)
                }
                if (isLost || skippingMissing) && !FileSystem.exists(source, beneath: root) {
                    Logger(label: "quire.sql").error("“\(source)” is missing, and not copied.")
                    continue
                }
                if linking {
                    try FileSystem.linkOrCopy(source, beneath: root, to: target)
                    continue
                }
                // What shares its bytes here shares them there.
                let information = try FileSystem.information(at: source, beneath: root)
                if let information, information.linkCount > 1 {
                    if let twin = copied[information.inode] {
                        if (try? FileSystem.link(twin, to: target)) != nil { continue }
                    } else {
                        copied[information.inode] = target
                    }
                }
                try FileSystem.copyFile(source, beneath: root, to: target)
            }
            if FileSystem.exists(copy.externalData.folder) {
                for (original, made) in [
                    (externalData.supportFolder, copy.externalData.supportFolder),
                    (externalData.folder, copy.externalData.folder),
                ] {
                    try FileSystem.copyPermissions(of: original, beneath: root, to: made)
                }
            }
        } catch {
            _ = try? FileSystem.removeFileIfPresent(path)
            throw error
        }
    }

    /// Writes a copy as ``writeCopy(to:linking:withoutDraft:)`` does, which has its name when all of it is on disk. It shares
    /// the files of external data, which never change, with this store.
    ///
    /// - Throws: As ``writeCopy(to:linking:withoutDraft:)``; then there is no copy.
    package func writeDurableCopy(to path: String) throws {
        let path = FileSystem.absolute(path)
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        try sibling.building {
            try FileSystem.building(path, as: temporary) {
                try writeCopy(to: temporary, linking: true)
                try FileSystem.synchronizeTree(sibling.path)
                try SQLiteStore.moveIntoPlace(temporary, to: path)
            }
        }
    }

    /// Gives a store that was made of another one the permissions of that, and its external data at most these. The user whose
    /// store it is may always read and write it.
    package static func copyPermissions(of original: String, to path: String) throws {
        guard let file = try FileSystem.information(at: original) else { return }
        var readers = file.permissions & 0o777
        if let root = StorePath.packageRoot(of: original),
            let folder = try FileSystem.information(at: root)
        {
            // A file is reached by those who may search the package.
            readers &= (folder.permissions & 0o111) * 7
        }
        readers |= 0o600
        func limit(_ path: String, to permissions: UInt32) throws {
            let file = try OpenFile.open(path, for: .examining)
            let inherited = try file.information().permissions & 0o7000
            try file.setPermissionsIfPossible(permissions & 0o777 | inherited)
        }
        try limit(path, to: readers)
        let old = SQLiteExternalData(storePath: original)
        let new = SQLiteExternalData(storePath: path)
        guard FileSystem.exists(new.folder) else { return }
        for (original, made) in [(old.supportFolder, new.supportFolder), (old.folder, new.folder)] {
            let present = try FileSystem.information(at: original, beneath: old.root)
            // A folder's files are read by those who may search the folder.
            let searchers = readers | readers >> 2 & 0o111
            try limit(made, to: (present?.permissions ?? 0o777) & searchers | 0o700)
        }
        for name in try new.names() { try limit(new.path(ofFileNamed: name), to: readers) }
    }

    /// Gives a store that is at rest and on disk its name, durably: external data first, because the store must not be there
    /// without it.
    package static func moveIntoPlace(_ temporary: String, to path: String) throws {
        let support = SQLiteExternalData(storePath: temporary).supportFolder
        var moved: String?
        var movedKeybag: String?
        var isNamed = false
        do {
            if FileSystem.exists(support) {
                let place = SQLiteExternalData(storePath: path).supportFolder
                try FileSystem.renameWithoutReplacing(support, to: place)
                moved = place
                try FileSystem.synchronizeFolder(containing: path)
            }
            let keybag = StoreProtection.keybag(ofStoreAt: temporary).path
            if FileSystem.exists(keybag) {
                let place = StoreProtection.keybag(ofStoreAt: path).path
                try FileSystem.renameWithoutReplacing(keybag, to: place)
                movedKeybag = place
                try FileSystem.synchronizeFolder(containing: path)
            }
            try FileSystem.renameWithoutReplacing(temporary, to: path)
            isNamed = true
            try FileSystem.synchronizeFolder(containing: path)
        } catch {
            // It may not survive a power loss, so it is not there.
            if isNamed { try? FileSystem.renameWithoutReplacing(path, to: temporary) }
            if let moved { try? FileSystem.removeTree(moved) }
            if let movedKeybag { _ = try? FileSystem.removeFileIfPresent(movedKeybag) }
            throw error
        }
    }

    /// Writes a copy of the database as of the last save, page by page: pages that have not changed between two copies are at
    /// the same places in both, with the same bytes. Without external data. Others may go on reading and saving. Nothing is
    /// synchronized.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in a folder that exists.
    ///   - other: The keys that seal the copy; `nil` for an unprotected copy. If only one of both is protected, pages have
    ///     another size in the copy, and it is written row by row (`VACUUM INTO`).
    ///   - byWriter: Whether to read with the connection that saves, which has the store's file open whatever has become of
    ///     its path. Saves wait meanwhile.
    ///   - progress: Asked whether it has been cancelled.
    /// - Throws: ``QuireError`` with code `cancelled`, `outOfSpace` or `storeUnavailable`; then there is no copy.
    package func writePageCopy(
        to path: String, protectedBy other: StoreProtection?, byWriter: Bool = false,
        progress: Progress? = nil
    ) throws {
        let cipher = other?.cipher.derivingNonces()
        func copy(_ connection: SQLiteConnection) throws {
            if (connection.sealing == nil) != (cipher == nil) {
                return try connection.vacuum(into: path, cipher: cipher)
            }
            // One transaction, so that what others save meanwhile does not begin the copy anew.
            try connection.execute("BEGIN")
            defer { try? connection.execute("COMMIT") }
            try connection.copyPages(to: path, cipher: cipher, progress: progress)
        }
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        do {
            try makeEmptyFile(at: path)
            if byWriter { try readByWriter(copy) } else { try read(copy) }
        } catch {
            _ = try? FileSystem.removeFileIfPresent(path)
            throw error
        }
    }

    /// Writes a database that nobody has open with other keys, as ``writePageCopy(to:protectedBy:byWriter:progress:)`` does.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged, `cancelled`, `outOfSpace` or `storeUnavailable`.
    package static func writePageCopy(
        ofDatabaseAt source: String, protectedBy protection: StoreProtection?, to path: String,
        protectedBy other: StoreProtection?, progress: Progress? = nil
    ) throws {
        let cipher = other?.cipher.derivingNonces()
        do {
            let connection = try SQLiteConnection(
                path: source, mode: .immutable, cipher: protection?.cipher)
            defer { connection.close() }
            if (protection == nil) == (other == nil) {
                try connection.copyPages(to: path, cipher: cipher, progress: progress)
            } else {
                try connection.vacuum(into: path, cipher: cipher)
            }
        } catch let failure as SQLiteFailure {
            throw failure.error(path: source)
        }
    }
}

extension SQLiteConnection {
    /// Copies all pages to a new database, or to an empty file.
    fileprivate func copyPages(to path: String, cipher: PageCipher?, progress: Progress?) throws {
        let target = try SQLiteConnection(path: path, mode: .creating, cipher: cipher)
        defer { target.close() }
        try target.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
        _ = try integer("SELECT count(*) FROM sqlite_schema")
        let backup = try SQLiteBackup(from: self, to: target)
        while try backup.copy(pages: 1024) {
            if progress?.isCancelled == true { throw FetchMonitor.cancelledError }
        }
        try backup.finish()
    }

    /// Writes the database anew, row by row, to a new file or an empty one, and checks that no row is missing.
    ///
    /// - Throws: ``SQLiteFailure``, or ``QuireError`` with code `invalidFormat` if a table of the copy has fewer rows.
    fileprivate func vacuum(into path: String, cipher: PageCipher?) throws {
        let target = try cipher.map(SealingFileSystem.Registration.init)
        // The copy is another database, but SQLite would not write it either.
        let queryOnly = try integer("PRAGMA query_only") ?? 0
        try execute("PRAGMA query_only = OFF")
        defer { try? execute("PRAGMA query_only = \(queryOnly)") }
        if target != nil {
            try execute("PRAGMA page_size = \(PageCipher.pageSize)")
            reserveBytesForSealing()
        }
        let version = try integer("PRAGMA data_version")
        try withStatement("VACUUM INTO ?") {
            // Without a name of its own it would be opened with the store's.
            let query = target?.query ?? SealingFileSystem.clearQuery
            try $0.bind(Self.uri(path, query), at: 1)
            try $0.run()
        }
        let counts = try rowCounts()
        // After a save of another connection they are not those of the copy.
        if try integer("PRAGMA data_version") == version {
            try requireRows(counts, inCopyAt: path, cipher)
        }
    }

    /// Checks that each table of a copy has as many rows as the original's.
    func requireRows(
        _ counts: [String: Int64], inCopyAt copyPath: String, _ cipher: PageCipher?
    ) throws {
        let copy = try SQLiteConnection(path: copyPath, mode: .immutable, cipher: cipher)
        defer { copy.close() }
        let found = try copy.rowCounts()
        for (table, count) in counts.sorted(by: { $0.key < $1.key })
        where found[table, default: 0] < count {
            throw QuireError(
                .invalidFormat,
                "“\(path)” was not copied: \(count - found[table, default: 0]) of \(count) rows of \(table) did not "
                    + "come along; check the store, and repair it.", subject: .init(file: path))
        }
    }

    /// The number of rows of each table that is not SQLite's own.
    func rowCounts() throws -> [String: Int64] {
        let names = try withStatement(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ) { statement in
            var names: [String] = []
            while try statement.step() { names.append(statement.text(0)) }
            return names
        }
        var counts: [String: Int64] = [:]
        for name in names {
            counts[name] = try integer("SELECT count(*) FROM \(SQLName.quoted(name))")
        }
        return counts
    }
}

// MARK: - Backups

/// The owner of a copy of one database over another that is under way. What it has written becomes visible, in one
/// transaction, when the last page has been copied; if it is ended before, nothing has changed.
final class SQLiteBackup {
    private let destination: SQLiteConnection
    private var handle: OpaquePointer?

    /// Begins to copy a database over another. Nobody may use the connections until it is finished.
    init(from source: SQLiteConnection, to destination: SQLiteConnection) throws {
        self.destination = destination
        handle = sqlite3_backup_init(destination.handle, "main", source.handle, "main")
        if handle == nil { throw destination.failure() }
    }

    deinit { if let handle { sqlite3_backup_finish(handle) } }

    /// The number of pages of the source, once a step has been made.
    var pageCount: Int { Int(sqlite3_backup_pagecount(handle)) }
    /// The number of pages still to be copied, once a step has been made.
    var remainingCount: Int { Int(sqlite3_backup_remaining(handle)) }

    /// Copies some pages.
    ///
    /// - Returns: Whether there are more. If not, all has been committed.
    func copy(pages: Int) throws -> Bool {
        let code = sqlite3_backup_step(handle, Int32(pages))
        switch code {
        case SQLITE_OK: return true
        case SQLITE_DONE: return false
        default: throw SQLiteFailure(code, of: destination.handle)
        }
    }

    /// Ends it. What has not been committed is taken back.
    func finish() throws {
        guard let handle else { return }
        self.handle = nil
        let code = sqlite3_backup_finish(handle)
        if code != SQLITE_OK { throw destination.failure() }
    }
}
