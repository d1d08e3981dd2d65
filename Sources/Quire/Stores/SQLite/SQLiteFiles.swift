import Foundation

/// The files of a database: the one at its path, and the logs and the index that SQLite finds beside it by their names.
///
/// SQLite opens them by their paths. A database that is in a document package is input, and is to be opened beneath the
/// package's folder as all that is in one; see ``FileLocation``. It is known by its place, `StoreContent/persistentStore`,
/// which is UIManagedDocument's too, so that no way to open a store, or to look at it, can forget that it is in a package.
enum SQLiteFiles {
    private static let suffixes = ["-wal", "-journal", "-shm"]

    /// The package that a database is in; `nil` if it is in none. Then its path is the user's, symbolic links included.
    static func root(of path: String) -> String? {
        let folder = FileSystem.folder(of: path)
        guard FileSystem.name(of: path) == "persistentStore",
            FileSystem.name(of: folder) == "StoreContent"
        else { return nil }
        return FileSystem.folder(of: folder)
    }

    /// The path to give to SQLite together with `SQLITE_OPEN_NOFOLLOW`, which refuses every path with a symbolic link anywhere
    /// in it: that of the database's folder, which was found beneath the root, without those above the root.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat` that names the symbolic link.
    static func canonicalPath(_ path: String, beneath root: String) throws -> String {
        let location = try FileLocation(path, beneath: root)
        // SQLite would refuse it as well, but would not say which one it is.
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

    /// Checks that a database and what is beside it are regular files, or are not there.
    ///
    /// SQLite would wait for a FIFO for ever. It follows no symbolic link to a log, but says nothing that helps. The database
    /// itself may be one, which is the user's, unless it is in a package.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` that names the entry, or `inputOutput`.
    static func check(_ path: String) throws {
        let root = root(of: path)
        var path = path
        if root == nil,
            try FileSystem.informationWithoutFollowing(at: path)?.kind == .symbolicLink
        {
            // A dangling one is to be created, or reported as missing.
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
