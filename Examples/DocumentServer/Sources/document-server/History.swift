import Foundation
import Quire

/// The changes of a document's items after a token: a feed to follow, whether the client was away for a second or a week.
struct ChangeFeed: Encodable, Sendable {
    struct Change: Encodable, Sendable {
        var item: Int64
        var kind: String
        /// The properties that an update has changed.
        var properties: [String]?
        var date: Date
    }

    /// The transactions of one answer.
    static let limit = 100

    var changes: [Change] = []
    /// What to ask for next.
    var token: String?
    /// Whether there is more already.
    var isComplete: Bool

    /// - Throws: `QuireError` with code `historyTokenExpired` if the history does not reach back to the token.
    init(after text: String?, in context: ManagedObjectContext) throws {
        var transactions = PersistentHistoryTransaction.fetchRequest
        transactions.fetchLimit = Self.limit
        var request = PersistentHistoryChangeRequest.fetchHistory(
            after: try text.map { try PersistentHistoryToken(parsing: $0) })
        request.fetchRequest = transactions
        let result = try context.execute(request).transactions
        for transaction in result {
            for change in transaction.changes where change.objectID.entityName == Item.entityName {
                changes.append(
                    Change(
                        item: change.objectID.number, kind: "\(change.kind)",
                        properties: change.updatedProperties, date: transaction.date))
            }
        }
        token = result.last?.token.text ?? text
        isComplete = result.count < Self.limit
    }
}

extension PersistentHistoryToken {
    /// The token of a document's one store as a text: `NUMBER-UUID`.
    fileprivate var text: String? {
        transactionNumbers.first.map { "\($0.value)-\($0.key)" }
    }

    fileprivate init(parsing text: String) throws {
        let parts = text.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, let number = Int64(parts[0]) else {
            throw RequestError(
                status: .badRequest, code: "invalidToken",
                message: "“\(text)” is not a token that this server has given.")
        }
        self.init(transactionNumbers: [String(parts[1]): number])
    }
}
