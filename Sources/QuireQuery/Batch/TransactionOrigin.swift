/// Who makes a transaction, as persistent history records it.
package struct TransactionOrigin: Sendable, Hashable {
    /// The author that the context names.
    package var author: String?
    /// The name of the context.
    package var contextName: String?

    package init(author: String? = nil, contextName: String? = nil) {
        self.author = author
        self.contextName = contextName
    }

    /// This origin, with what it lacks from another: that of a save that it includes.
    package func completed(by other: TransactionOrigin) -> TransactionOrigin {
        TransactionOrigin(
            author: author ?? other.author, contextName: contextName ?? other.contextName)
    }
}
