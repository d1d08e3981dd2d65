import Foundation

/// The database files that this process has open for writing.
///
/// What they hold is to be read through SQLite, which knows the log. (That nothing else drops their locks is what
/// ``LockedFiles`` sees to.)
enum SQLiteOpenFiles {
    /// One use of a file, until ``remove(_:)``.
    struct Use: Sendable { fileprivate var number: Int }

    private struct File {
        var path: String
        /// Which file it is, as soon as there is one: others may put another one at the path.
        var identity: LockedFiles.Identity?
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

    /// Takes notice of the file at the path as the one that is open.
    static func didOpen(_ path: String, _ use: Use) {
        let identity = LockedFiles.identity(of: path)
        files.withLock { files in
            if files.files[use.number]?.identity == nil {
                files.files[use.number]?.identity = identity
            }
        }
    }

    static func remove(_ use: Use) { files.withLock { $0.files[use.number] = nil } }

    /// Whether the file at a path is open; if there is none, whether one is that had this path.
    static func contains(_ path: String) -> Bool {
        let files = files.withLock { Array($0.files.values) }
        if files.isEmpty { return false }
        let identity = LockedFiles.identity(of: path)
        if let identity, files.contains(where: { $0.identity == identity }) { return true }
        // A path says nothing of two files that are there.
        let others = identity == nil ? files : files.filter { $0.identity == nil }
        return others.contains { resolved($0.path) == resolved(path) }
    }

    /// One name for a file however it is reached, also while it does not exist yet.
    private static func resolved(_ path: String) -> String {
        let folder = URL(fileURLWithPath: FileSystem.folder(of: path)).resolvingSymlinksInPath()
        let whole = folder.appendingPathComponent(FileSystem.name(of: path))
        return whole.resolvingSymlinksInPath().path
    }
}
