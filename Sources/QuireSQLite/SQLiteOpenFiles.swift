import Foundation
internal import QuireSystem

/// The database files that this process has open for writing.
///
/// What they hold is to be read through SQLite, which knows the log. (That nothing else drops their locks is what
/// ``LockedFiles`` sees to.)
package enum SQLiteOpenFiles {
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

    /// Whether the file at a path is open, with the log beside it; if there is no file, whether one is that had this path.
    package static func contains(_ path: String) -> Bool {
        let files = files.withLock { Array($0.files.values) }
        if files.isEmpty { return false }
        let identity = LockedFiles.identity(of: path)
        // A path says nothing of two files that are there.
        let same = files.filter {
            $0.identity == identity || $0.identity == nil || identity == nil
        }
        if same.contains(where: { resolved($0.path) == resolved(path) }) { return true }
        // A file that has been moved has taken its log along. One that has not is another link to it, whose log would be
        // another one; or a new file that has been given the number of one that was removed.
        return identity != nil && same.contains { $0.identity == identity }
            && FileSystem.exists(path + "-wal")
    }

    /// One name for a file however it is reached, also while it does not exist yet.
    private static func resolved(_ path: String) -> String {
        let folder = URL(fileURLWithPath: FileSystem.folder(of: path)).resolvingSymlinksInPath()
        let whole = folder.appendingPathComponent(FileSystem.name(of: path))
        return whole.resolvingSymlinksInPath().path
    }
}
