import Foundation
import Quire

/// The changes of a document's items since a token: a feed to follow, whether the client was away for a second or a week.
struct ChangeFeed: Encodable, Sendable {
    struct Change: Encodable {
        var item: Int64
        var kind: String
        var date: Date
        /// The properties that an update has changed.
        var properties: [String]?
    }

    var changes: [Change] = []
    /// The token to ask with next; while it is another than before, there may already be more.
    var token: String?

    /// - Throws: `QuireError` with code `historyTokenExpired` if the history does not reach back to the token.
    init(after token: String?, in context: ManagedObjectContext) throws {
        let place = try token.map { try PersistentHistoryToken(parsing: $0) }
        var request = PersistentHistoryChangeRequest.fetchHistory(after: place)
        request.fetchRequest = PersistentHistoryTransaction.fetchRequest
        request.fetchRequest?.fetchLimit = 100
        let transactions = try context.execute(request).transactions
        self.token = transactions.last?.token.text ?? token
        for transaction in transactions {
            for change in transaction.changes where change.objectID.entityName == "Item" {
                changes.append(
                    Change(
                        item: change.objectID.number, kind: "\(change.kind)",
                        date: transaction.date, properties: change.updatedProperties))
            }
        }
    }
}

extension PersistentHistoryToken {
    /// `NUMBER-UUID`: a transaction of the document's store.
    fileprivate var text: String? {
        transactionNumbers.first.map { "\($0.value)-\($0.key)" }
    }

    fileprivate init(parsing text: String) throws {
        let parts = text.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, let number = Int64(parts[0]) else {
            throw QuireError(.badRequest, "“\(text)” is not a token.")
        }
        self.init(transactionNumbers: [String(parts[1]): number])
    }
}
