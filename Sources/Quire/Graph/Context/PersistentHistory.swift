public import Foundation
public import QuireStore

// The history of stores as contexts and coordinators read it; stores keep it.

extension ManagedObjectContext {
    /// Reads the history of the coordinator's stores, or deletes a part of it.
    ///
    /// Stores without a history are skipped, unless all are without one. Unsaved changes are not included.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: O(*n*) in the transactions and changes.
    /// - Throws: ``QuireError`` with code `historyTokenExpired` if requested transactions have been deleted,
    ///   `unknownKey` or `invalidQuery` if its fetch request is not valid, `unsupported` if no store keeps a history, `readOnly`, `outOfSpace` or `storeUnavailable`.
    @discardableResult
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        checkQueue()
        return try persistentStoreCoordinator.store.execute(request)
    }
}

extension PersistentStoreCoordinator {
    /// The present end of the history of stores; later saves come after it. `nil` if no store keeps a history.
    ///
    /// - Parameter stores: The stores; `nil` for all of the coordinator's.
    /// - Throws: ``QuireError`` with code `storeUnavailable` or `inputOutput`.
    public func currentPersistentHistoryToken(
        fromStores stores: [any PersistentStore]? = nil
    ) throws -> PersistentHistoryToken? {
        var numbers: [String: Int64] = [:]
        var times: [String: Double] = [:]
        for store in stores ?? persistentStores {
            guard let number = try store.lastHistoryTransactionNumber() else { continue }
            let token = try store.historyToken(after: number)
            numbers.merge(token.transactionNumbers) { $1 }
            times.merge(token.transactionTimes) { $1 }
        }
        return numbers.isEmpty
            ? nil : PersistentHistoryToken(transactionNumbers: numbers, transactionTimes: times)
    }
}

extension PersistentStore {
    /// The place in the history after a transaction, with its time if it has not been deleted.
    func historyToken(after number: Int64) throws -> PersistentHistoryToken {
        var fetch = PersistentHistoryTransaction.fetchRequest
        fetch.predicate = .comparison(
            QueryComparison(.keyPath(["number"]), .equal, .constant(.integer(number))))
        var request = PersistentHistoryChangeRequest.fetchHistory(matching: fetch)
        request.resultType = .transactionsOnly
        return try execute(request).transactions.first?.token
            ?? PersistentHistoryToken(transactionNumbers: [identity.uuid: number])
    }
}

// MARK: - Fetch requests

extension PersistentHistoryTransaction {
    /// A fetch request for transactions, to be given a predicate, an order, a limit or an offset, and then to
    /// ``PersistentHistoryChangeRequest/fetchHistory(matching:)``.
    ///
    /// ```swift
    /// var request = PersistentHistoryTransaction.fetchRequest
    /// request.predicate = try QueryPredicate(format: "author != %@ AND date > %@", "app", yesterday)
    /// let transactions = try context.execute(.fetchHistory(matching: request)).transactions
    /// ```
    ///
    /// | key | value |
    /// |---|---|
    /// | `author`, `contextName`, `bundleID` | texts, or missing |
    /// | `processName`, also `processID` | a text, or missing |
    /// | `date`, also `timestamp` | a date |
    /// | `number`, also `transactionNumber` | an integer |
    /// | `storeUUID`, also `storeID` | a text |
    /// | `token` | compares with a ``PersistentHistoryToken`` given for `%@`, by its number of the store |
    /// | `changes` | the changes, with the keys of ``PersistentHistoryChange/fetchRequest``, as in `ANY changes.changedEntity == 'Book'` |
    ///
    /// A predicate is evaluated as on objects in memory: `author != 'app'` is true of a transaction without an author. The
    /// request's `affectedStores` are the stores whose transactions are selected; batch sizes and prefetching do nothing.
    public static var fetchRequest: FetchRequest<ManagedObject> {
        FetchRequest(HistoryModel.transactionName)
    }
}

extension PersistentHistoryChange {
    /// A fetch request for changes, to be given a predicate, an order, a limit or an offset, and then to
    /// ``PersistentHistoryChangeRequest/fetchHistory(matching:)``.
    ///
    /// With the result types of transactions, the result has the transactions that have a selected change, each with only these;
    /// limit, offset and order apply to changes.
    ///
    /// ```swift
    /// var request = PersistentHistoryChange.fetchRequest
    /// request.predicate = try QueryPredicate(
    ///     format: "changedEntity == 'Book' AND changeType == %@", PersistentHistoryChange.Kind.delete)
    /// ```
    ///
    /// | key | value |
    /// |---|---|
    /// | `objectID`, also `changedObjectID` | compares with objects and their identifiers |
    /// | `changedEntity`, also `entity` | the name of the object's entity |
    /// | `kind`, also `changeType` | an integer; a ``Kind-swift.enum`` for `%@` |
    /// | `number`, also `changeID` | an integer |
    /// | `transactionNumber` | an integer |
    /// | `updatedProperties` | the properties of an update, as in `ANY updatedProperties.name == 'title'` |
    /// | `tombstone` | the preserved values of a deleted object, as in `tombstone.slug == 'a'`, if an attribute of that name has one type in all entities that preserve it |
    /// | `transaction` | the transaction, with the keys of ``PersistentHistoryTransaction/fetchRequest``, as in `transaction.author == nil` |
    public static var fetchRequest: FetchRequest<ManagedObject> {
        FetchRequest(HistoryModel.changeName)
    }
}

extension PersistentHistoryChangeRequest {
    /// Requests the transactions, or the changes, that a fetch request selects.
    ///
    /// Executing it throws ``QuireError`` with code `unknownKey` for an unknown key, `invalidQuery` for a request of
    /// another entity or result type and for an invalid comparison, `unsupported`, and `historyTokenExpired` for a
    /// token in the predicate after which transactions have been deleted.
    ///
    /// - Parameter fetchRequest: ``PersistentHistoryTransaction/fetchRequest`` or ``PersistentHistoryChange/fetchRequest``, with a
    ///   predicate, an order, a limit or an offset.
    /// - Complexity: O(*n*) in the transactions of the stores, and in their changes if the request is for changes or its predicate
    ///   asks for them.
    public static func fetchHistory(matching fetchRequest: FetchRequest<ManagedObject>) -> Self {
        var request = fetchHistory(after: nil as PersistentHistoryToken?)
        request.fetchRequest = fetchRequest
        return request
    }

    /// The fetch request that selects transactions, or changes, among those that the request is for; `nil` for all.
    ///
    /// Executing a request that deletes history with a fetch request throws ``QuireError`` with code `invalidQuery`.
    public var fetchRequest: FetchRequest<ManagedObject>? {
        get { fetchSpecification.map { FetchRequest($0) } }
        set {
            fetchSpecification = newValue?.specification
            fetchFailure = nil
            do { fetchSpecification = try newValue?.declaredSpecification } catch {
                fetchFailure = error
            }
        }
    }
}

// MARK: - Merging

extension PersistentHistoryTransaction {
    /// The notification of a save with the transaction's changes, for
    /// ``ManagedObjectContext/mergeChanges(fromContextDidSave:)``.
    ///
    /// Its name is ``ManagedObjectContext/didSaveObjectIDsNotification`` and its `userInfo` that notification's; it has no object.
    /// It contains changes only if the request's result type is `transactionsAndChanges`.
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
    /// ``ManagedObject/value(forKey:)`` returns; `nil` without such values.
    public var tombstone: [String: Any]? {
        let values = preservedValues.compactMapValues(\.nativeValue)
        return values.isEmpty ? nil : values
    }
}
