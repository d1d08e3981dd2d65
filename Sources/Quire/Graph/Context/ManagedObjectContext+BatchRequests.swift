/// Batch requests go straight to the store, from whichever context of a tree they are executed in, and act on what is
/// saved. No context sees what they did until it is merged:
///
/// ```swift
/// let result = try context.execute(request)       // with resultType .objectIDs
/// ManagedObjectContext.mergeChanges(fromRemoteContextSave: result.changes, into: [library, background])
/// ```
///
/// Faults that fire afterwards read what the request has written. A save of an object that was read before, and has
/// been changed or deleted by the request, is a merge conflict. Nothing is validated by classes, nothing can be undone,
/// and ``PersistentStoreCoordinator/saves`` does not tell of it.
///
/// A request is one transaction: all of it is done, and survives power loss when the call returns, or nothing is. The
/// caller waits meanwhile, so execute large ones in a context with a queue of its own.
extension ManagedObjectContext {
    /// Inserts objects into the store.
    ///
    /// About a row with values that must be unique, and are those of a stored object, the type of the ``mergePolicy``
    /// decides; its overridden methods are not asked:
    ///
    /// | policy | the stored object |
    /// |---|---|
    /// | ``MergePolicy/error`` | the request fails |
    /// | ``MergePolicy/mergeByPropertyObjectTrump`` | gets the values that the row names |
    /// | ``MergePolicy/overwrite`` | gets all attributes of a new object, and the relationships that the row names |
    /// | ``MergePolicy/mergeByPropertyStoreTrump`` | gets the row's values where it has none |
    /// | ``MergePolicy/rollback`` | stays, and the row is left out |
    ///
    /// It keeps its identifier, and its version goes up. It must be of the request's entity or a sub-entity of it; an object of
    /// another entity, such as a superentity, cannot take a row over, and the request fails unless the row is left out.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the rows, one transaction. Memory does not grow with the rows of a generator, unless
    ///   their identifiers are asked for.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidValue`, `validation`, `notFound`,
    ///   `constraintConflict` or `unsupported`, whose ``QuireError/Subject/position`` is the number of the row, from 1;
    ///   `readOnly`, `outOfSpace` or `storeUnavailable`; or what the request's generator throws.
    @discardableResult
    public func execute(_ request: BatchInsertRequest) throws -> BatchResult {
        checkQueue()
        let rule: UpsertRule =
            switch mergePolicy.mergeType {
            case .errorMergePolicyType: .refuse
            case .mergeByPropertyStoreTrumpMergePolicyType: .fill
            case .mergeByPropertyObjectTrumpMergePolicyType: .update
            case .overwriteMergePolicyType: .replace
            case .rollbackMergePolicyType: .skip
            }
        return try persistentStoreCoordinator.execute(request, onConflict: rule)
    }

    /// Updates objects in the store.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the objects found; one transaction.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue`, `validation`,
    ///   `constraintConflict`, `unsupported`, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(_ request: BatchUpdateRequest) throws -> BatchResult {
        checkQueue()
        return try persistentStoreCoordinator.execute(request)
    }

    /// Deletes objects in the store, by the model's delete rules.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the objects deleted and related to them; one transaction.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `invalidValue` for an identifier
    ///   of no object of the store, `deleteDenied`, `validation` if an object would be left without a reference that it
    ///   must have, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        checkQueue()
        return try persistentStoreCoordinator.execute(request)
    }
}
