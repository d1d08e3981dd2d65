import Foundation
internal import QuireSystem

extension SQLiteStoreSource.Access {
    /// Whether there is no file.
    var isMemory: Bool { if case .memory = self { true } else { false } }
}

/// Databases in memory, which last as long as any connection to them is open.
enum SQLiteMemoryPath {
    /// The name of the database of a path; `nil` if it is the path of a file.
    static func name(of storePath: String) -> String? {
        guard StorePath.isInMemory(storePath) else { return nil }
        return StorePath.sharedMemoryName(of: storePath).map { "shared-" + $0 }
            ?? "private-\(UUID().uuidString)"
    }

    /// Whether the database of a path is open somewhere in the process.
    static func exists(_ storePath: String) -> Bool {
        StorePath.sharedMemoryName(of: storePath) != nil && SQLiteOpenFiles.contains(storePath)
    }
}
