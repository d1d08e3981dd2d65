import Foundation
internal import QuireProtection
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
        if SQLiteOpenFiles.contains(path) { throw inUse(path) }
        let source = try SQLiteStoreSource(path: path, isReadOnly: false)
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
