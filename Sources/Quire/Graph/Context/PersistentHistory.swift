public import Foundation
public import QuireStore

// The history of stores as contexts and coordinators read it; stores keep it.

extension ManagedObjectContext {
    /// Reads the history of the coordinator's stores, or deletes a part of it.
    ///
    /// Stores that keep no history have no part in it, unless none does. Unsaved changes have none either.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the transactions and changes.
    /// - Throws: ``QuireError`` with code `historyTokenExpired` if transactions that the request asks for have been deleted,
    ///   `unsupported` if no store keeps a history, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        checkQueue()
        return try persistentStoreCoordinator.store.execute(request)
    }
}

extension PersistentStoreCoordinator {
    /// The present end of the history of stores: what is saved later comes after it. `nil` if none of them keeps a history.
    ///
    /// - Parameter stores: The stores; `nil` for all of the coordinator's.
    /// - Throws: ``QuireError`` with code `storeUnavailable` or `inputOutput`.
    public func currentPersistentHistoryToken(
        fromStores stores: [any PersistentStore]? = nil
    ) throws -> PersistentHistoryToken? {
        var numbers: [String: Int64] = [:]
        for store in stores ?? persistentStores {
            if let number = try store.lastHistoryTransactionNumber() {
                numbers[store.identity.uuid] = number
            }
        }
        return numbers.isEmpty ? nil : PersistentHistoryToken(transactionNumbers: numbers)
    }
}

extension PersistentHistoryTransaction {
    /// The notification of a save with the transaction's changes, for
    /// ``ManagedObjectContext/mergeChanges(fromContextDidSave:)``.
    ///
    /// Its name is ``ManagedObjectContext/didSaveObjectIDsNotification`` and its `userInfo` that notification's; it has no object.
    /// There are changes in it only if the request's result type is `transactionsAndChanges`.
    ///
    /// ```swift
    /// for transaction in try context.execute(.fetchHistory(after: lastToken)).transactions {
    ///     context.mergeChanges(fromContextDidSave: transaction.objectIDNotification)
    /// }
    /// ```
    ///
    /// - Complexity: O(*n*) in the changes.
    public var objectIDNotification: Notification {
        Notification(
            name: ManagedObjectContext.didSaveObjectIDsNotification,
            userInfo: [
                AnyHashable(ManagedObjectContext.NotificationKey.objectIDs.rawValue):
                    objectIDChanges
            ])
    }
}

extension PersistentHistoryChange {
    /// The values that a deleted object had, of attributes marked `preservesValueInHistoryOnDeletion`, in the types that
    /// ``ManagedObject/value(forKey:)`` gives; `nil` if there are none.
    public var tombstone: [String: Any]? {
        let values = preservedValues.compactMapValues(\.nativeValue)
        return values.isEmpty ? nil : values
    }
}
