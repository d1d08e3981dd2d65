public import Foundation

/// Values of binary attributes that are made before there is an object for them, and away from its context.
///
/// ```swift
/// let video = try await coordinator.makeExternalData(contentsOf: "/media/card/00001.mts")
/// try await background.perform { context in
///     let film = try context.insertObject(entityName: "Film")
///     try film.setExternalData(video, forKey: "video")
///     try context.save()
/// }
/// ```
extension PersistentStoreCoordinator {
    /// Makes a value of what a file holds, however large that is, apart from the caller's queue.
    ///
    /// Its bytes lie in the store of an entity's new objects, which need not copy them again. If the value is never saved,
    /// they go when nobody holds it any more.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - taking: Whether the file stays.
    ///   - entityName: The entity whose attribute it is for; `nil` for any of the first store.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `notFound`, `outOfSpace`, `inputOutput` or `cancelled`.
    public func makeExternalData(
        contentsOf path: String, taking: ExternalData.Taking = .copying,
        forEntity entityName: String? = nil
    ) async throws -> ExternalData {
        try await ExternalDataSpool.valueApart(
            contentsOf: path, taking: taking, in: externalDataPlace(ofEntity: entityName)
        ).get()
    }

    /// Makes a value of bytes that come one after another, without having them in memory.
    ///
    /// - Throws: What the sequence throws, or as ``makeExternalData(contentsOf:taking:forEntity:)``.
    public func makeExternalData<Chunks: AsyncSequence>(
        from chunks: Chunks, forEntity entityName: String? = nil
    ) async throws -> ExternalData where Chunks.Element: DataProtocol {
        try await ExternalDataSpool.value(
            of: chunks, in: externalDataPlace(ofEntity: entityName))
    }

    private func externalDataPlace(ofEntity name: String?) throws -> ExternalDataPlace? {
        guard let name else { return externalDataPlace { _ in true } }
        let store = storeForNewObjects(of: try layout.requireEntity(named: name))
        return externalDataPlace { $0 === store }
    }

    /// The folder for new values of the first matching store: that of its external data, or, if it has none or is read-only,
    /// the temporary folder, with the keys of a protected store; `nil` for the temporary folder, unsealed.
    func externalDataPlace(where isWanted: (StoreIdentity) -> Bool) -> ExternalDataPlace? {
        guard let store = persistentStores.first(where: { isWanted($0.identity) }) else {
            return nil
        }
        if let store = store as? SQLiteStore, store.hasExternalData, !store.isReadOnly {
            return store.externalData.place
        }
        return store.storeProtection.map { .temporary(classKey: $0.classKey) }
    }
}
