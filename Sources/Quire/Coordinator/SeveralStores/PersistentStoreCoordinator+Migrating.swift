extension PersistentStoreCoordinator {
    /// Moves a store's objects to a new store at another place, which may be of another type, and goes on with that.
    ///
    /// The old store leaves the coordinator and is closed; its file stays. The new one has a UUID of its own, so what
    /// contexts have of the old one's objects cannot be read or saved any more: save before, and reset the contexts
    /// afterwards. Nobody may save meanwhile.
    ///
    /// ```swift
    /// let store = try coordinator.migratePersistentStore(
    ///     store, to: PersistentStoreDescription(path: "library.xml", type: .xml))
    /// ```
    ///
    /// - Parameters:
    ///   - store: A store of the coordinator.
    ///   - description: The place, where there must be nothing yet, the type and the options. The configuration is that of
    ///     the old store.
    /// - Throws: ``QuireError`` with code `notFound` if the coordinator has no such store, and what
    ///   ``StoreFile/convert(to:type:model:progress:)`` and ``addPersistentStore(_:)`` throw. Then the coordinator goes on
    ///   with the old store.
    @discardableResult
    public func migratePersistentStore(
        _ store: any PersistentStore, to description: PersistentStoreDescription
    ) throws -> any PersistentStore {
        guard persistentStores.contains(where: { $0 === store }) else {
            throw QuireError(
                .notFound, "The store does not belong to the coordinator.",
                subject: .init(file: store.path))
        }
        let path = try description.requirePath()
        try NewStoreFile(
            path: path, type: description.type, sqliteOptions: description.sqliteOptions
        ).write(store)
        var description = description
        description.configuration = store.configurationName
        let new = try addPersistentStore(description)
        try remove(store)
        return new
    }
}
