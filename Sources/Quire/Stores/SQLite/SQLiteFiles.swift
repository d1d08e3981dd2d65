import Foundation

/// The files of a database: the one at its path, and the logs and the index that SQLite finds beside it by their names.
enum SQLiteFiles {
    private static let suffixes = ["-wal", "-journal", "-shm"]

    /// Checks that a database and what is beside it are regular files, or are not there.
    ///
    /// SQLite opens them by their paths: it would wait for a FIFO for ever. It follows no symbolic link to a log, but says
    /// nothing that helps. The database itself may be one, which is the user's; in a package it may not.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` that names the entry, or `inputOutput`.
    static func check(_ path: String) throws {
        var path = path
        if try FileSystem.informationWithoutFollowing(at: path)?.kind == .symbolicLink {
            // A dangling one is to be created, or reported as missing.
            guard let resolved = realpath(path, nil) else { return }
            defer { free(resolved) }
            path = String(cString: resolved)
        }
        for path in [path] + suffixes.map({ path + $0 }) {
            if let found = try FileSystem.informationWithoutFollowing(at: path),
                found.kind != .regular
            {
                throw found.foreignError(at: path, expected: .regular)
            }
        }
    }
}
