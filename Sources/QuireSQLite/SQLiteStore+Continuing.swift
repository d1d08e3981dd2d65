internal import QuireSystem

extension SQLiteStore {
    /// Opens a store that is to take the place of an open one: the same file, which has been moved, or a copy of it that is
    /// gone on with. Identifiers of one are identifiers of the other.
    ///
    /// Nothing changes for the open one until ``PersistentStoreCoordinator/replace(_:with:)``.
    ///
    /// - Parameters:
    ///   - path: The path of the file now.
    ///   - predecessor: The open store.
    ///   - options: How to use the file.
    /// - Throws: ``QuireError`` with code `incompatibleModel` if it is another store, or what opening throws.
    package static func open(
        at path: String, continuing predecessor: SQLiteStore, options: SQLiteStoreOptions
    ) throws -> SQLiteStore {
        try open(
            at: path, model: nil, layout: predecessor.layout, options: options,
            continuing: predecessor)
    }

    /// Another store takes this one's place. What was read from this one finds its external data with the other, also
    /// what no row refers to any more and only undo may bring back.
    package func handOverExternalData(to other: SQLiteStore) {
        let unreferenced = supersede()
        for name in unreferenced where other.externalData.folder != externalData.folder {
            // If that fails, undo to a value that was replaced says that its file is missing.
            try? FileSystem.makeFolder(
                other.externalData.folder, beneath: other.externalData.root,
                withIntermediates: true)
            _ = try? FileSystem.linkOrCopy(
                externalData.path(ofFileNamed: name), beneath: externalData.root,
                to: other.externalData.path(ofFileNamed: name), within: other.externalData.root)
        }
        other.willClean(unreferenced)
        externalData.move(to: other.externalData)
    }

    /// How the store uses its file.
    package var storeOptions: SQLiteStoreOptions { options }
}
