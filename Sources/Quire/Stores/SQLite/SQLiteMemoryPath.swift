import Foundation

extension SQLiteStoreSource.Access {
    /// Whether there is no file.
    var isMemory: Bool { if case .memory = self { true } else { false } }
}

/// Paths that stand for databases in memory, as Core Data has it: `/dev/null`, which is nobody else's, and
/// `/dev/null/NAME`, which all share who open it in a process, as long as any of them is open.
enum SQLiteMemoryPath {
    private static let path = "/dev/null"

    /// The name of the database that a path stands for; `nil` if it is the path of a file.
    static func name(of storePath: String) -> String? {
        if storePath == path { return "private-\(UUID().uuidString)" }
        guard storePath.hasPrefix(path + "/") else { return nil }
        return "shared-" + storePath.dropFirst(path.count + 1)
    }

    static func contains(_ storePath: String) -> Bool {
        storePath == path || storePath.hasPrefix(path + "/")
    }

    /// Whether there is a database that a path stands for.
    static func exists(_ storePath: String) -> Bool {
        storePath != path && SQLiteOpenFiles.contains(storePath)
    }
}
