public import Foundation
public import QuireModel
public import QuireQuery
package import QuireSystem

/// A place in the history of one or more stores: between a transaction and the next.
///
/// Keep it, encoded, to request all later saves.
public struct PersistentHistoryToken: Codable, Hashable, Sendable {
    /// The numbers of the last transactions before it, by the UUIDs of their stores.
    public let transactionNumbers: [String: Int64]
    /// The times of these transactions in seconds since the reference date, as far as they are known. If a backup of a store is
    /// restored and changed, numbers are assigned again; the time tells which transaction the token is of.
    package let transactionTimes: [String: Double]

    /// Creates a token from numbers alone. It cannot detect that a transaction was replaced, after a backup was restored, by
    /// another of the same number; tokens that history requests return can.
    public init(transactionNumbers: [String: Int64]) {
        self.init(transactionNumbers: transactionNumbers, transactionTimes: [:])
    }

    package init(transactionNumbers: [String: Int64], transactionTimes: [String: Double]) {
        self.transactionNumbers = transactionNumbers
        self.transactionTimes = transactionTimes
    }

    /// Decodes a token; those that earlier versions encoded have numbers only.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            transactionNumbers: try container.decode(
                [String: Int64].self, forKey: .transactionNumbers),
            transactionTimes: try container.decodeIfPresent(
                [String: Double].self, forKey: .transactionTimes) ?? [:])
    }
}

/// A change of one object in a transaction.
public struct PersistentHistoryChange: Sendable, Hashable {
    /// The kind of a change, with Core Data's numbers.
    public enum Kind: Int, Sendable, Hashable, CaseIterable {
        /// The object was inserted.
        case insert = 0
        /// Its values, or what its relationships lead to, were changed.
        case update = 1
        /// It was deleted.
        case delete = 2
    }

    /// The number of the change, in the order of the store's changes.
    public let number: Int64
    /// The number of its transaction, in the store of the object.
    public let transactionNumber: Int64
    /// The object.
    public let objectID: ManagedObjectID
    /// The kind of change.
    public let kind: Kind
    /// The names of the properties that an update has changed, sorted; `nil` for other kinds, and if it is not recorded: after a
    /// migration, and for entities with inheritance in stores that another program made.
    public let updatedProperties: [String]?
    /// The values that a deleted object had, of attributes marked `preservesValueInHistoryOnDeletion`.
    package let preservedValues: [String: AttributeValue]

    package init(
        number: Int64, transactionNumber: Int64, objectID: ManagedObjectID, kind: Kind,
        updatedProperties: [String]?, preservedValues: [String: AttributeValue]
    ) {
        self.number = number
        self.transactionNumber = transactionNumber
        self.objectID = objectID
        self.kind = kind
        self.updatedProperties = updatedProperties
        self.preservedValues = preservedValues
    }
}

/// A save or a batch request, as recorded in the history of a store.
public struct PersistentHistoryTransaction: Sendable, Hashable {
    /// The number of the transaction, in the order of the store's transactions.
    public let number: Int64
    /// The UUID of the store.
    public let storeUUID: String
    /// The time of the save.
    public let date: Date
    /// The author that was set in the context, if any.
    public let author: String?
    /// The name of the context.
    public let contextName: String?
    /// The name of the process.
    public let processName: String?
    /// The identifier of the program's bundle.
    public let bundleID: String?
    /// The changes, in their order; empty if the request did not ask for them.
    public let changes: [PersistentHistoryChange]

    package init(
        number: Int64, storeUUID: String, date: Date, author: String?, contextName: String?,
        processName: String?, bundleID: String?, changes: [PersistentHistoryChange]
    ) {
        self.number = number
        self.storeUUID = storeUUID
        self.date = date
        self.author = author
        self.contextName = contextName
        self.processName = processName
        self.bundleID = bundleID
        self.changes = changes
    }

    /// The transaction with other changes.
    package func withChanges(_ changes: [PersistentHistoryChange]) -> PersistentHistoryTransaction {
        PersistentHistoryTransaction(
            number: number, storeUUID: storeUUID, date: date, author: author,
            contextName: contextName, processName: processName, bundleID: bundleID,
            changes: changes)
    }

    /// The place in the history after the transaction.
    public var token: PersistentHistoryToken {
        PersistentHistoryToken(
            transactionNumbers: [storeUUID: number],
            transactionTimes: [storeUUID: date.timeIntervalSinceReferenceDate])
    }

    /// The changed objects, for `ManagedObjectContext.mergeChanges(from:)`.
    public var objectIDChanges: ObjectIDChanges {
        var result = ObjectIDChanges()
        for change in changes {
            switch change.kind {
            case .insert: result.inserted.append(change.objectID)
            case .update: result.updated.append(change.objectID)
            case .delete: result.deleted.append(change.objectID)
            }
        }
        return result
    }
}

// MARK: - Core Data's names

extension PersistentHistoryChange {
    /// Core Data's name of ``kind-swift.property``.
    public var changeType: Kind { kind }
    /// Core Data's name of ``objectID``.
    public var changedObjectID: ManagedObjectID { objectID }
    /// Core Data's name of ``number``.
    public var changeID: Int64 { number }
}

extension PersistentHistoryTransaction {
    /// Core Data's name of ``date``.
    public var timestamp: Date { date }
    /// Core Data's name of ``number``.
    public var transactionNumber: Int64 { number }
    /// Core Data's name of ``storeUUID``.
    public var storeID: String { storeUUID }
}

// MARK: - Requests

/// A request for the history of stores, or for deleting a part of it.
///
/// ```swift
/// var request = PersistentHistoryChangeRequest.fetchHistory(after: lastToken)
/// for transaction in try context.execute(request).transactions where transaction.author != "app" {
///     context.mergeChanges(from: transaction.objectIDChanges)
/// }
/// ```
public struct PersistentHistoryChangeRequest: Sendable {
    /// The kind of result of a request.
    public enum ResultType: Sendable, Hashable, CaseIterable {
        /// Nothing but success.
        case statusOnly
        /// The identifiers of the changed objects, each once.
        case objectIDs
        /// The number of transactions.
        case count
        /// Transactions without their changes.
        case transactionsOnly
        /// The changes, without their transactions.
        case changesOnly
        /// Transactions with their changes.
        case transactionsAndChanges
    }

    /// A place in the history, or a time.
    package enum Place: Sendable {
        case token(PersistentHistoryToken?)
        case date(Date)
        case transaction(PersistentHistoryTransaction)
        /// Before as many transactions at the end.
        case last(Int)
        /// Before as many bytes at the end.
        case lastBytes(Int)
    }

    package let place: Place
    package let deletes: Bool
    /// The kind of result. By default transactions with their changes, or none for a deletion.
    public var resultType: ResultType
    /// The fetch request that selects transactions or changes; `nil` for all.
    package var fetchSpecification: FetchSpecification?
    /// The reason the fetch request cannot be executed.
    package var fetchFailure: (any Error)?

    private init(_ place: Place, deletes: Bool) {
        self.place = place
        self.deletes = deletes
        resultType = deletes ? .statusOnly : .transactionsAndChanges
    }

    /// Requests all transactions after a token, or all transactions if it is `nil`.
    ///
    /// Executing it throws ``QuireError`` with code `historyTokenExpired` if transactions after the token have been deleted, or
    /// the store was replaced by another, or by an earlier state of itself that lacks the token's transaction.
    public static func fetchHistory(after token: PersistentHistoryToken?) -> Self {
        Self(.token(token), deletes: false)
    }

    /// Requests the transactions after a time.
    public static func fetchHistory(after date: Date) -> Self { Self(.date(date), deletes: false) }

    /// Requests the transactions of a store after one of its transactions.
    ///
    /// Executing it throws ``QuireError`` with code `historyTokenExpired` if transactions after it have been deleted.
    public static func fetchHistory(after transaction: PersistentHistoryTransaction) -> Self {
        Self(.transaction(transaction), deletes: false)
    }

    /// Deletes the transactions before the transaction of a token, which is kept; all if it is `nil`.
    public static func deleteHistory(before token: PersistentHistoryToken?) -> Self {
        Self(.token(token), deletes: true)
    }

    /// Deletes the transactions before a time, up to the first that is not older; it and all later ones are kept, so the
    /// remaining history has no gaps.
    public static func deleteHistory(before date: Date) -> Self { Self(.date(date), deletes: true) }

    /// Deletes the transactions of a store before one of its transactions.
    public static func deleteHistory(before transaction: PersistentHistoryTransaction) -> Self {
        Self(.transaction(transaction), deletes: true)
    }

    /// Deletes the transactions that are older now than an age, as ``deleteHistory(before:)-(Date)``.
    ///
    /// ```swift
    /// try context.execute(.deleteHistory(olderThan: .seconds(30 * 86_400)))
    /// ```
    public static func deleteHistory(olderThan age: Duration) -> Self {
        deleteHistory(before: Date(timeIntervalSinceNow: -(age / .seconds(1))))
    }

    /// Deletes all transactions but the last ones of each store.
    ///
    /// - Parameter count: The number of transactions to keep; 0 or less for none.
    public static func deleteHistory(keepingLast count: Int) -> Self {
        Self(.last(count), deletes: true)
    }

    /// Deletes all but the last transactions of each store, up to a total size.
    ///
    /// A change counts for 40 bytes and the length of its values, a transaction for 60: about their size in the file. The
    /// file does not shrink; later transactions reuse the space.
    ///
    /// - Parameter size: The size in bytes. The last transaction is deleted too if it is larger.
    public static func deleteHistory(keepingLastBytes size: Int) -> Self {
        Self(.lastBytes(size), deletes: true)
    }

    /// The UUIDs of the stores that the place in the history names.
    package var storeUUIDs: [String] {
        switch place {
        case .token(let token): token.map { Array($0.transactionNumbers.keys) } ?? []
        case .transaction(let transaction): [transaction.storeUUID]
        case .date, .last, .lastBytes: []
        }
    }

    /// Whether only the number of transactions after a place is requested.
    package var isPlainCount: Bool { resultType == .count && fetchSpecification == nil }

    /// The number of the transaction of a store that the request begins after, or deletes before; `nil` if it is not about the
    /// store.
    package func transactionNumber(in storeUUID: String) -> Int64? {
        switch place {
        case .token(nil): deletes ? .max : 0
        // A store that was added since then has only transactions that are new.
        case .token(let token?): token.transactionNumbers[storeUUID] ?? (deletes ? nil : 0)
        case .transaction(let transaction):
            transaction.storeUUID == storeUUID ? transaction.number : nil
        case .date, .last, .lastBytes: 0
        }
    }

    /// The number of the transaction after which the request names a place in the history of a store; `nil` if it does not, and
    /// reads from the first transaction there is.
    package func placeNumber(in storeUUID: String) -> Int64? {
        switch place {
        case .token(let token): token?.transactionNumbers[storeUUID]
        case .transaction(let transaction):
            transaction.storeUUID == storeUUID ? transaction.number : nil
        case .date, .last, .lastBytes: nil
        }
    }

    /// The time of that transaction in seconds since the reference date; `nil` if it is not known.
    package func transactionTime(in storeUUID: String) -> Double? {
        switch place {
        case .token(let token): token?.transactionTimes[storeUUID]
        case .transaction(let transaction):
            transaction.storeUUID == storeUUID
                ? transaction.date.timeIntervalSinceReferenceDate : nil
        case .date, .last, .lastBytes: nil
        }
    }
}

/// The result of a history request.
public struct PersistentHistoryResult: Sendable {
    /// The number of transactions found, or deleted; of changes or objects if the result type asks for them; 0 if it is
    /// `statusOnly`.
    public let count: Int
    /// The transactions in the order of their numbers, or by time for several stores, unless a fetch request sorts them; empty
    /// if the result type does not include them.
    public let transactions: [PersistentHistoryTransaction]
    /// The changes of all transactions in their order, unless a fetch request sorts them, if the result type is `changesOnly`;
    /// otherwise empty.
    public let changes: [PersistentHistoryChange]
    /// The changed objects in the order of their first changes, each once, if the result type is `objectIDs`; otherwise empty.
    public let objectIDs: [ManagedObjectID]

    package init(
        count: Int = 0, transactions: [PersistentHistoryTransaction] = [],
        changes: [PersistentHistoryChange] = [], objectIDs: [ManagedObjectID] = []
    ) {
        self.count = count
        self.transactions = transactions
        self.changes = changes
        self.objectIDs = objectIDs
    }

    /// The result of a type for transactions, with their changes if the type needs them.
    package init(
        _ transactions: [PersistentHistoryTransaction],
        as type: PersistentHistoryChangeRequest.ResultType
    ) {
        switch type {
        case .statusOnly: self.init()
        case .count: self.init(count: transactions.count)
        case .objectIDs, .changesOnly: self.init(transactions.flatMap(\.changes), as: type)
        case .transactionsOnly, .transactionsAndChanges:
            self.init(count: transactions.count, transactions: transactions)
        }
    }

    /// The result of changes or of the objects that they change.
    package init(
        _ changes: [PersistentHistoryChange], as type: PersistentHistoryChangeRequest.ResultType
    ) {
        if type == .objectIDs {
            var known: Set<ManagedObjectID> = []
            let objectIDs = changes.map(\.objectID).filter { known.insert($0).inserted }
            self.init(count: objectIDs.count, objectIDs: objectIDs)
        } else {
            self.init(count: changes.count, changes: changes)
        }
    }
}

extension PersistentHistoryChangeRequest.ResultType {
    /// Whether a result is made of changes.
    package var needsChanges: Bool {
        self == .objectIDs || self == .changesOnly || self == .transactionsAndChanges
    }
}

extension QuireError {
    /// The error of a token with deleted transactions after it.
    package static func historyTokenExpired(_ number: Int64, path: String) -> QuireError {
        QuireError(
            .historyTokenExpired,
            "The history of “\(path)” after transaction \(number) has been deleted, in whole or in part; read the store again and continue from its current token.",
            file: path)
    }

    /// The error of a token whose transaction the store does not have, though it has another of this number.
    package static func historyTokenReplaced(_ number: Int64, path: String) -> QuireError {
        QuireError(
            .historyTokenExpired,
            "Transaction \(number) of “\(path)” does not match the token: the store was restored to an earlier state. Read it again and continue from its current token.",
            file: path)
    }
}
