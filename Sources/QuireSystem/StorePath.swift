/// Properties of a store derived from its path.
package enum StorePath {
    private static let memory = "/dev/null"

    /// The document package that contains a store; `nil` if none does. Recognized by the relative path
    /// `StoreContent/persistentStore`, which is UIManagedDocument's too.
    package static func packageRoot(of path: String) -> String? {
        let folder = FileSystem.folder(of: path)
        guard FileSystem.name(of: path) == "persistentStore",
            FileSystem.name(of: folder) == "StoreContent"
        else { return nil }
        return FileSystem.folder(of: folder)
    }

    /// Whether the path is that of a store in memory, as in Core Data: `/dev/null`, which is private, or `/dev/null/NAME`,
    /// which is shared within this process.
    package static func isInMemory(_ path: String) -> Bool {
        path == memory || path.hasPrefix(memory + "/")
    }

    /// The name of a shared store in memory; `nil` for every other path.
    package static func sharedMemoryName(of path: String) -> String? {
        path.hasPrefix(memory + "/") ? String(path.dropFirst(memory.count + 1)) : nil
    }
}
