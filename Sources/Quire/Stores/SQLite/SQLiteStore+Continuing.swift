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

    /// What was read from this store finds its external data with another, which takes its place.
    func handOverExternalData(to other: SQLiteStore) { externalData.move(to: other.externalData) }

    /// How the store uses its file.
    package var storeOptions: SQLiteStoreOptions { options }
}
