extension ManagedObjectContext {
    /// Hands what is unsaved to a closure, as a save would to the store, and leaves it unsaved: for a copy that has it.
    ///
    /// - Throws: ``QuireError`` with code `validation` if an object could not be saved, or what the closure throws.
    package func withUnsavedChanges<Result>(
        _ body: (ChangeSet) throws -> Result
    ) throws -> Result {
        processPendingChanges()
        guard isUnsaved else { return try body(ChangeSet()) }
        if let pending = pendingChanges.unsaved {
            var changes = pending.changeSet()
            changes.records.merge(pendingRecords) { _, new in new }
            return try body(changes)
        }
        try validatePendingChanges()
        let inserted = newObjects
        // Such a context's are its for good; see ``obtainPermanentIDs(for:)``.
        try assignPermanentIDs(to: inserted, durably: true)
        return try body(collectChanges(insertedCount: inserted.count))
    }

    /// Saves to a store that takes the coordinator's store's place with that: a copy, which is gone on with.
    ///
    /// - Parameters:
    ///   - store: The store of the coordinator.
    ///   - write: Writes the changes to another store, which continues the first, and gives it, open, with the objects whose
    ///     derived values have changed. It may be called again if the merge policy resolves a conflict.
    package func save(
        replacing store: SQLiteStore,
        _ write: (ChangeSet) throws -> (store: SQLiteStore, derived: [ManagedObjectID])
    ) throws {
        try save(evenIfUnchanged: true) { changes in
            let (other, derived) = try write(changes)
            persistentStoreCoordinator.replace(store, with: other)
            return derived
        }
    }
}
