import CSQLite
package import Foundation
import Logging
internal import QuireModel
package import QuireProtection
internal import QuireQuery
internal import QuireSystem

extension SQLiteStore {
    /// Writes a copy of the store as of the last save, with its external data. Concurrent reads and saves are allowed.
    ///
    /// The copy has the same identity. Equal stores give equal files. Nothing is synchronized: the caller synchronizes the
    /// folder of the copy before renaming it. The copy has the permissions of the store. If another program has replaced or
    /// removed the store's files, external data removed with them are missing from the copy.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in an existing folder.
    ///   - linking: Whether the copy may share the external data files, which are immutable, with this store.
    ///   - withoutDraft: Whether the copy omits the draft.
    ///   - keepingDamage: Whether a damaged store is copied all the same, page by page, without missing external data.
    ///     Otherwise damage, and rows with it, may be lost in the copy.
    ///   - progress: Advances by the sizes of the files; see ``byteCount()``. Cancelling it leaves no copy.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `cancelled`, `outOfSpace`, `invalidFormat` if a table of the copy has fewer rows,
    ///   `notFound` if a concurrent save removed external data, or `storeUnavailable`.
    package func writeCopy(
        to path: String, linking: Bool = false, withoutDraft: Bool = false,
        keepingDamage: Bool = false, progress: Progress? = nil
    ) throws {
        if FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        let hasNewKeybag = try protection?.writeKeybag(forStoreAt: path) ?? false
        do {
            try writeFiles(
                to: path, linking: linking, withoutDraft: withoutDraft,
                keepingDamage: keepingDamage, progress)
        } catch {
            if hasNewKeybag { try? StoreProtection.removeKeybag(ofStoreAt: path) }
            throw error
        }
    }

    /// The size of the store's files, of external data too, as a copy's progress counts them.
    package func byteCount() throws -> Int64 {
        try presentExternalFiles().reduce(databaseSize()) {
            try $0 + (FileSystem.information(at: $1.path)?.size ?? 0)
        }
    }

    private func databaseSize() throws -> Int64 {
        try FileSystem.information(at: storePath)?.size ?? 0
    }

    private func writeFiles(
        to path: String, linking: Bool, withoutDraft: Bool, keepingDamage: Bool,
        _ progress: Progress?
    ) throws {
        // Copying a damaged database row by row would omit unreachable rows.
        if try keepingDamage && !integrityProblems().isEmpty {
            try writePageCopy(to: path, protectedBy: protection)
            do {
                if withoutDraft { try dropDraft(ofCopyAt: path, protectedBy: protection) }
            } catch {
                Logger(label: "quire.sql").error(
                    "The draft of “\(storePath)”, which is damaged, could not be removed from its copy “\(path)”: \(error)"
                )
            }
            return try copyExternalData(
                to: path, linking: linking, skippingMissing: true, progress)
        }
        try makeEmptyFile(at: path)
        try FileSystem.removeOnFailure(path) {
            try vacuum(into: path, progress)
            if withoutDraft { try dropDraft(ofCopyAt: path, protectedBy: protection) }
            // VACUUM increments the schema version, at this offset of the header: a copy of a copy would differ. No connection
            // can have cached the version yet. Sealed copies differ anyway.
            if protection == nil {
                let file = try OpenFile.open(path, for: .updating)
                try file.write([0, 0, 0, 1], at: 40)
                file.close()
            }
        }
        try copyExternalData(
            to: path, linking: linking, skippingMissing: keepingDamage, progress)
    }

    private func vacuum(into path: String, _ progress: Progress?) throws {
        guard let progress else {
            return try read { try $0.vacuum(into: path, cipher: protection?.cipher) }
        }
        let size = try databaseSize()
        // Products of the counts of parent and child must not overflow.
        let vacuum = Progress(totalUnitCount: 1000)
        let monitor = FetchMonitor(
            report: { _ in },
            poll: {
                // It is complete when the statement is, whatever its size.
                let written = (try? FileSystem.information(at: path)?.size) ?? 0
                vacuum.completedUnitCount = min(999 * written / max(size, 1), 999)
            })
        vacuum.cancellationHandler = { monitor.cancel() }
        defer { vacuum.cancellationHandler = nil }
        progress.addChild(vacuum, withPendingUnitCount: size)
        if progress.isCancelled { monitor.cancel() }
        do {
            try read { connection in
                try connection.watched(by: monitor) {
                    try connection.vacuum(into: path, cipher: protection?.cipher)
                }
            }
        } catch {
            try progress.checkCancelled(copying: storePath)
            throw error
        }
        vacuum.completedUnitCount = vacuum.totalUnitCount
    }

    /// Writes a copy of the store with different keys, or unprotected. Nothing is synchronized.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in an existing folder.
    ///   - other: The keys that seal the copy; `nil` for an unprotected copy.
    ///   - withoutDraft: Whether the copy omits the draft.
    /// - Throws: Errors of ``writeCopy(to:linking:withoutDraft:keepingDamage:)``; `invalidFormat` also if external data fail
    ///   authentication. Then there is no copy.
    package func writeCopy(
        to path: String, protectedBy other: StoreProtection?, withoutDraft: Bool = false
    ) throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        try makeEmptyFile(at: path)
        try FileSystem.removeOnFailure(path) {
            try read { try $0.vacuum(into: path, cipher: other?.cipher) }
            if withoutDraft { try dropDraft(ofCopyAt: path, protectedBy: other) }
            let copy = ExternalDataFolder(storePath: path, classKey: other?.classKey)
            let names = try externalFileNames()
            if !names.isEmpty {
                try FileSystem.makeFolder(
                    copy.folder, beneath: copy.root, withIntermediates: true)
            }
            for name in names.sorted() {
                _ = try copy.write(
                    externalData.externalData(named: name), toFileNamed: name)
            }
        }
    }

    /// Creates the empty target file of a copy, with the permissions of the store.
    private func makeEmptyFile(at path: String) throws {
        let original = try FileSystem.information(at: storePath)
        let file = try OpenFile.open(path, for: .creating)
        if let original {
            try file.setPermissionsIfPossible(original.permissions & 0o777 | 0o600)
        }
        file.close()
    }

    /// Copies the external data that a database copy refers to. On failure the copy is removed.
    private func copyExternalData(
        to path: String, linking: Bool, skippingMissing: Bool, _ progress: Progress?
    ) throws {
        try FileSystem.removeOnFailure(path) {
            var options = SQLiteStoreOptions.reading()
            options.configuration = configurationName
            options.protection = protection
            // The files referenced by the copy, not those referenced by this store now.
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
                // Without intermediate folders: these are gone if a signal is ending the process.
                for folder in [copy.externalData.supportFolder, copy.externalData.folder]
                where !FileSystem.exists(folder) {
                    try FileSystem.makeFolder(folder)
                }
                if try (isLost || skippingMissing)
                    && !FileSystem.hasEntry(at: source, beneath: root)
                {
                    Logger(label: "quire.sql").error("“\(source)” is missing and was not copied.")
                    continue
                }
                let start = progress?.completedUnitCount ?? 0
                let size = try FileSystem.information(at: source, beneath: root)?.size ?? 0
                // Also if it is linked.
                defer { progress?.completedUnitCount = start + size }
                if linking {
                    try FileSystem.linkOrCopy(source, beneath: root, to: target)
                    continue
                }
                // Hard links here become hard links there.
                let information = try FileSystem.information(at: source, beneath: root)
                if let information, information.linkCount > 1 {
                    if let twin = copied[information.inode] {
                        if (try? FileSystem.link(twin, to: target)) != nil { continue }
                    } else {
                        copied[information.inode] = target
                    }
                }
                try FileSystem.copyFile(source, beneath: root, to: target, progress: progress)
            }
            if FileSystem.exists(copy.externalData.folder) {
                for (original, made) in [
                    (externalData.supportFolder, copy.externalData.supportFolder),
                    (externalData.folder, copy.externalData.folder),
                ] {
                    try FileSystem.copyPermissions(of: original, beneath: root, to: made)
                }
            }
        }
    }

    /// Writes a copy like ``writeCopy(to:linking:withoutDraft:)``, and names it once all of it is on disk. It shares the
    /// external data files, which are immutable, with this store.
    ///
    /// - Throws: Errors of ``writeCopy(to:linking:withoutDraft:)``; then there is no copy.
    package func writeDurableCopy(to path: String) throws {
        let path = FileSystem.absolute(path)
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        try TemporarySibling.buildingFile(beside: path) { temporary in
            try writeCopy(to: temporary, linking: true)
            try FileSystem.synchronizeTree(FileSystem.folder(of: temporary))
            try SQLiteStore.moveIntoPlace(temporary, to: path)
        }
    }

    /// The permissions of a file with the contents of a store: at most those of the store, except that the owner can always read and
    /// write it. `nil` if there is no store.
    package static func permissions(forCopyOf original: String) throws -> UInt32? {
        guard let file = try FileSystem.information(at: original) else { return nil }
        var permissions = file.permissions & 0o777
        if let root = StorePath.packageRoot(of: original),
            let folder = try FileSystem.information(at: root)
        {
            // A file in a package is accessible to users with search permission for the package.
            permissions &= (folder.permissions & 0o111) * 7
        }
        return permissions | 0o600
    }

    /// Applies the permissions of the original to a derived store, and at most these to its external data. The owning user can
    /// always read and write it.
    package static func copyPermissions(of original: String, to path: String) throws {
        guard let readers = try permissions(forCopyOf: original) else { return }
        func limit(_ path: String, to permissions: UInt32) throws {
            let file = try OpenFile.open(path, for: .examining)
            let inherited = try file.information().permissions & 0o7000
            try file.setPermissionsIfPossible(permissions & 0o777 | inherited)
        }
        try limit(path, to: readers)
        let old = ExternalDataFolder(storePath: original)
        let new = ExternalDataFolder(storePath: path)
        guard FileSystem.exists(new.folder) else { return }
        for (original, made) in [(old.supportFolder, new.supportFolder), (old.folder, new.folder)] {
            let present = try FileSystem.information(at: original, beneath: old.root)
            // A folder's files are readable by users with search permission for the folder.
            let searchers = readers | readers >> 2 & 0o111
            try limit(made, to: (present?.permissions ?? 0o777) & searchers | 0o700)
        }
        for name in try new.names() { try limit(new.path(ofFileNamed: name), to: readers) }
    }

    /// Renames a synchronized store into place, durably: external data first, because the store must not exist without it.
    package static func moveIntoPlace(_ temporary: String, to path: String) throws {
        let support = ExternalDataFolder(storePath: temporary).supportFolder
        var moved: String?
        var movedKeybag: String?
        var isNamed = false
        do {
            if FileSystem.exists(support) {
                let place = ExternalDataFolder(storePath: path).supportFolder
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
            // It may not survive a power loss, so undo it.
            if isNamed { try? FileSystem.renameWithoutReplacing(path, to: temporary) }
            if let moved { try? FileSystem.removeTree(moved) }
            if let movedKeybag { _ = try? FileSystem.removeFileIfPresent(movedKeybag) }
            throw error
        }
    }

    /// Copies the database as of the last save, page by page: pages unchanged between two copies have the same position and
    /// bytes in both. Without external data. Concurrent reads and saves are allowed. Nothing is synchronized.
    ///
    /// - Parameters:
    ///   - path: The copy's path, in an existing folder.
    ///   - other: The keys that seal the copy; `nil` for an unprotected copy. If only one of both is protected, the page sizes
    ///     differ, and the copy is written row by row (`VACUUM INTO`).
    ///   - byWriter: Whether to read through the writing connection, which has the store's file open whatever has happened to
    ///     its path. Saves wait meanwhile.
    ///   - progress: Polled for cancellation.
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
            // One transaction, so that concurrent saves do not restart the copy.
            try connection.execute("BEGIN")
            defer { try? connection.execute("COMMIT") }
            try connection.copyPages(to: path, cipher: cipher, progress: progress)
        }
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        try makeEmptyFile(at: path)
        try FileSystem.removeOnFailure(path) {
            if byWriter { try connections.readByWriter(copy) } else { try read(copy) }
        }
    }

    /// Copies an unused database with different keys, like ``writePageCopy(to:protectedBy:byWriter:progress:)``.
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

    /// Rewrites the database row by row into a new or empty file (`VACUUM INTO`), and checks that no row is missing.
    ///
    /// - Throws: ``SQLiteFailure``, or ``QuireError`` with code `invalidFormat` if a table of the copy has fewer rows.
    fileprivate func vacuum(into path: String, cipher: PageCipher?) throws {
        let target = try cipher.map(SealingFileSystem.Registration.init)
        // SQLite applies `query_only` to the copy, too.
        let queryOnly = try integer("PRAGMA query_only") ?? 0
        try execute("PRAGMA query_only = OFF")
        defer { try? execute("PRAGMA query_only = \(queryOnly)") }
        if target != nil {
            try execute("PRAGMA page_size = \(PageCipher.pageSize)")
            reserveBytesForSealing()
        }
        let version = try integer("PRAGMA data_version")
        let realPath = try SQLiteFiles.pathToAttach(path)
        // Without an explicit VFS it would be opened with the store's.
        let query = target?.query ?? SealingFileSystem.clearQuery
        try run("VACUUM INTO ?", Self.uri(realPath, query))
        let counts = try rowCounts()
        // After a commit of another connection the counts are not those of the copy.
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
                "“\(path)” was not copied: \(count - found[table, default: 0]) of \(count) rows of \(table) are "
                    + "missing in the copy; check the store, and repair it.",
                file: path)
        }
    }

    /// The number of rows of each table, except SQLite's internal ones.
    func rowCounts() throws -> [String: Int64] {
        let names = try texts(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        var counts: [String: Int64] = [:]
        for name in names {
            counts[name] = try integer("SELECT count(*) FROM \(SQLName.quoted(name))")
        }
        return counts
    }
}

// MARK: - Backups

/// The owner of a running backup of one database over another. Its pages become visible, in one transaction, after the last
/// page has been copied; ending it earlier changes nothing.
final class SQLiteBackup {
    private let destination: SQLiteConnection
    private var handle: OpaquePointer?

    /// Starts a backup. The connections must not be used until it is finished.
    init(from source: SQLiteConnection, to destination: SQLiteConnection) throws {
        self.destination = destination
        handle = sqlite3_backup_init(destination.handle, "main", source.handle, "main")
        if handle == nil { throw destination.failure() }
    }

    deinit { if let handle { sqlite3_backup_finish(handle) } }

    /// The number of pages of the source, after the first step.
    var pageCount: Int { Int(sqlite3_backup_pagecount(handle)) }
    /// The number of remaining pages, after the first step.
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

    /// Ends the backup. Uncommitted pages are rolled back.
    func finish() throws {
        guard let handle else { return }
        self.handle = nil
        let code = sqlite3_backup_finish(handle)
        if code != SQLITE_OK { throw destination.failure() }
    }
}
