/// Which of the coordinator's stores new objects go to.
extension ManagedObjectContext {
    /// Has a new object go to a store when it is saved, instead of the first store that keeps objects of its entity and
    /// can be written.
    ///
    /// ```swift
    /// let note = try context.insertObject(entityName: "Note")
    /// try context.assign(note, to: archive)
    /// ```
    ///
    /// Call it on the context's queue.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the object is not new, or has been given a permanent identifier;
    ///   `storeUnavailable` if the store does not belong to the coordinator or does not keep objects of the entity;
    ///   `readOnly`.
    public func assign(_ object: ManagedObject, to store: any PersistentStore) throws {
        checkQueue()
        guard object.objectID.isTemporary, object.context === self else {
            throw QuireError(
                .invalidState,
                "\(object.objectID.shortDescription) has its place in a store already; only new objects are assigned to "
                    + "one.",
                subject: .init(
                    entity: object.entity.name, object: object.objectID.uriRepresentation))
        }
        try persistentStoreCoordinator.checkIsPlace(store, forNew: object.entity)
        assignedStores[object.objectID.bits] = store.identity
    }

    /// The store that a new object goes to when it is saved.
    func storeForNewObject(_ object: ManagedObject) -> StoreIdentity? {
        assignedStores[object.objectID.bits]
            ?? persistentStoreCoordinator.storeForNewObjects(of: object.entity)
    }
}
