import Foundation
internal import QuireSystem

/// The files of a database: the one at its path, and the logs and the index that SQLite finds beside it by name.
///
/// SQLite opens them by path. A database in a document package is untrusted input and must be opened beneath the package's
/// folder; see ``FileLocation``. It is recognized by its location `StoreContent/persistentStore`, the same as
/// UIManagedDocument's, so that no code path can forget that it is in a package.
package enum SQLiteFiles {
    private static let suffixes = ["-wal", "-journal", "-shm"]

    /// The path to pass to SQLite with `SQLITE_OPEN_NOFOLLOW`, which refuses symbolic links anywhere in a path: that of the
    /// database's folder, found beneath the root, with links above the root resolved.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat` that names the symbolic link.
    static func canonicalPath(_ path: String, beneath root: String) throws -> String {
        let location = try FileLocation(path, beneath: root)
        // SQLite would refuse it as well, but without naming it.
        if let found = try location.information() { try found.require(.regular, at: path) }
        if let folder = location.folder?.presentPath {
            return FileSystem.path(folder, location.name)
        }
        let folder = FileSystem.folder(of: path)
        guard let resolved = realpath(folder, nil) else {
            throw FileSystem.failure("open the folder", folder)
        }
        defer { free(resolved) }
        return FileSystem.path(String(cString: resolved), location.name)
    }

    /// The path of a second database for a connection, whose flags apply to it as well: that of a package's store refuses the
    /// symbolic links of the user's in the folders above it.
    ///
    /// - Throws: As ``canonicalPath(_:beneath:)``.
    package static func pathToAttach(_ path: String) throws -> String {
        if let root = StorePath.packageRoot(of: path) {
            return try canonicalPath(path, beneath: root)
        }
        guard let folder = realpath(FileSystem.folder(of: path), nil) else { return path }
        defer { free(folder) }
        return FileSystem.path(String(cString: folder), FileSystem.name(of: path))
    }

    /// Checks that the rollback journal of a database names no super-journal.
    ///
    /// Such a name ends the journal of a transaction over several databases. SQLite reads the file of that name and, if
    /// none of the journals listed in it exist, deletes it, wherever it is: a package could have any file of the user deleted.
    /// Called before opening a connection that may roll a journal back.
    ///
    /// - Parameter path: The path passed to SQLite, which looks for the journal beside the target of a symbolic link.
    /// - Throws: ``QuireError`` with code `invalidFormat` that names the other file, or `inputOutput`.
    static func checkJournal(of path: String) throws {
        let root = StorePath.packageRoot(of: path)
        var path = path
        if root == nil, let resolved = realpath(path, nil) {
            defer { free(resolved) }
            path = String(cString: resolved)
        }
        let journal = path + "-journal"
        let file: OpenFile
        do { file = try OpenFile.open(journal, beneath: root, for: .reading) } catch let error
            as QuireError where error.code == .notFound || error.code == .readOnly
        {
            // SQLite may not read it either.
            return
        }
        defer { file.close() }
        // The trailing record: name, length, checksum, and the magic number of a journal header. Another process may truncate
        // the journal meanwhile.
        let size = try file.information().size
        guard size >= 16, let end = try? file.read(16, at: size - 16),
            end[8...].elementsEqual([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7])
        else { return }
        func number(at offset: Int) -> UInt32 {
            end[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
        }
        // SQLite is built for names of 512 bytes. It ignores an invalid record, so that a journal of pages alone, whatever its
        // last bytes, is rolled back.
        let length = Int64(number(at: 0))
        guard length > 0, length <= min(size - 16, 1 << 16),
            let name = try? file.read(Int(length), at: size - 16 - length), name[0] != 0
        else { return }
        // SQLite adds them as `char`, which is signed on some machines.
        let sums = [
            name.reduce(UInt32(0)) { $0 &+ UInt32($1) },
            name.reduce(UInt32(0)) { $0 &+ UInt32(bitPattern: Int32(Int8(bitPattern: $1))) },
        ]
        guard sums.contains(number(at: 4)) else { return }
        throw QuireError(
            .invalidFormat,
            "“\(journal)” is part of a multi-database transaction, or malicious: with it SQLite would "
                + "read, and might delete, “\(String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))”. Open “\(path)” with the program "
                + "that created the journal. Without the journal, that transaction may be half applied.",
            file: journal)
    }

    /// Checks that a database and the files beside it are regular files, or missing.
    ///
    /// SQLite would block on a FIFO. It does not follow a symbolic link to a log, but its error does not say so. The database
    /// itself may be a link of the user's, unless it is in a package.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` that names the entry, or `inputOutput`.
    package static func check(_ path: String) throws {
        let root = StorePath.packageRoot(of: path)
        var path = path
        if root == nil,
            try FileSystem.informationWithoutFollowing(at: path)?.kind == .symbolicLink
        {
            // A dangling link is to be created, or reported as missing.
            guard let resolved = realpath(path, nil) else { return }
            defer { free(resolved) }
            path = String(cString: resolved)
        }
        for path in [path] + suffixes.map({ path + $0 }) {
            let found =
                if let root { try FileSystem.information(at: path, beneath: root) } else {
                    try FileSystem.informationWithoutFollowing(at: path)
                }
            try found?.require(.regular, at: path)
        }
    }
}

// MARK: - Open files

/// The database files that this process has open for writing.
///
/// Their content must be read through SQLite, which knows the log. (``FileLockRegistry`` prevents dropping their locks.)
package enum OpenDatabaseRegistry {
    /// One use of a file, until ``remove(_:)``.
    struct Use: Sendable { fileprivate var number: Int }

    private struct File {
        var path: String
        /// The file's identity, once it exists: another program may replace the file at the path.
        var identity: FileLockRegistry.Identity?
    }

    private struct Files {
        var files: [Int: File] = [:]
        var lastNumber = 0
    }

    private static let files = Lock(Files())

    static func add(_ path: String) -> Use {
        files.withLock { files in
            files.lastNumber += 1
            files.files[files.lastNumber] = File(path: path)
            return Use(number: files.lastNumber)
        }
    }

    /// Records the identity of the file at the path.
    static func didOpen(_ path: String, _ use: Use) {
        let identity = FileLockRegistry.identity(of: path)
        files.withLock { files in
            if files.files[use.number]?.identity == nil {
                files.files[use.number]?.identity = identity
            }
        }
    }

    static func remove(_ use: Use) { files.withLock { $0.files[use.number] = nil } }

    /// Whether the file at a path is open, with its log beside it; if there is no file, whether one with this path is.
    package static func contains(_ path: String) -> Bool {
        let files = files.withLock { Array($0.files.values) }
        if files.isEmpty { return false }
        let identity = FileLockRegistry.identity(of: path)
        // Equal paths do not imply equal files.
        let same = files.filter {
            $0.identity == identity || $0.identity == nil || identity == nil
        }
        let name = FileName(resolved(path))
        if same.contains(where: { FileName(resolved($0.path)) == name }) { return true }
        // A moved file has taken its log along. Otherwise it is a hard link, which would have a different log; or a new file
        // with the reused inode of a removed one.
        return identity != nil && same.contains { $0.identity == identity }
            && FileSystem.exists(path + "-wal")
    }

    /// Throws if the file at a path is open. `purpose`: what must wait until it is closed.
    package static func requireClosed(_ path: String, before purpose: String) throws {
        guard contains(path) else { return }
        throw QuireError(
            .locked, "“\(path)” is open in this process; close it before \(purpose).", file: path)
    }

    /// One canonical name for a file by any path, even if it does not exist yet.
    private static func resolved(_ path: String) -> String {
        let folder = URL(fileURLWithPath: FileSystem.folder(of: path)).resolvingSymlinksInPath()
        let whole = folder.appendingPathComponent(FileSystem.name(of: path))
        return whole.resolvingSymlinksInPath().path
    }
}
