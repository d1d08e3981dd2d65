import Quire

/// What a document was like at a moment: which changes a save covers that began then.
public struct DocumentChangeToken: Sendable, Hashable {
    let number: Int
}

extension ManagedDocument {
    /// Counts a change of something that is neither in the context nor in the additional content, so that the document is
    /// saved. Changes that the undo manager knows of are counted without this. Nothing is counted while it is closed.
    public func updateChangeCount(_ change: DocumentChange) {
        guard let openDocument else { return }
        openDocument.count(change)
        if change == .cleared { scheduleAutosave() } else { documentDidChange() }
    }

    /// A token of the document as it is now, for somebody who saves it in a way of their own and tells by
    /// ``updateChangeCount(with:)`` when that has succeeded. The document's own saves need none. That of a closed document
    /// stands for nothing.
    public func changeCountToken() -> DocumentChangeToken {
        DocumentChangeToken(number: openDocument?.takeChangeToken() ?? 0)
    }

    /// Counts the document as saved in the state that a token was taken of. What was changed since stays unsaved.
    ///
    /// A token of a state that undo and redo do not lead to any more, or that is old, leaves the document unsaved.
    public func updateChangeCount(with token: DocumentChangeToken) {
        openDocument?.didSave(token.number)
        scheduleAutosave()
    }
}
