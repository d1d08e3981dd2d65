/// Counts changes, to know whether a document is as it was saved, also after undo.
///
/// A document stands at a position: each change goes one further, undo one back. It is clean at the saved position. A
/// save covers the position at which it took its snapshot, not the one at which it ended: that is what the mark is for.
struct ChangeCounter: Sendable, Equatable {
    /// What happened.
    enum Change: Sendable, Equatable {
        /// Something was changed, which undo can take back.
        case done
        /// A change was taken back.
        case undone
        /// A change that was taken back was made again.
        case redone
        /// Something was changed for good: only a save makes the document clean again.
        case doneForGood
    }

    private var position = 0
    /// Where the document is as it was saved, if one can get there by undo and redo.
    private var saved: Int? = 0
    /// Where the running save took its snapshot.
    private var marked: Int?

    /// Whether the document is not as it was saved.
    var hasChanges: Bool { position != saved }

    mutating func count(_ change: Change) {
        switch change {
        case .done:
            // What was undone cannot be redone any more: positions ahead are out of reach.
            if let saved, saved > position { self.saved = nil }
            if let marked, marked > position { self.marked = nil }
            position += 1
        case .undone: position -= 1
        case .redone: position += 1
        case .doneForGood:
            saved = nil
            marked = nil
        }
    }

    /// A save takes its snapshot here.
    mutating func beginSave() { marked = position }

    /// The save succeeded: the document is clean where the snapshot was taken, if one can still get there.
    mutating func finishSave() {
        saved = marked
        marked = nil
    }

    /// The save failed: nothing is different.
    mutating func failSave() { marked = nil }

    /// The document is as it was saved.
    mutating func clear() { self = ChangeCounter() }
}
