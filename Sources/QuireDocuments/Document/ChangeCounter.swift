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
    /// Where running saves took their snapshots.
    private var marks = ChangeMarks<Int>()

    /// Whether the document is not as it was saved.
    var hasChanges: Bool { position != saved }

    mutating func count(_ change: Change) {
        switch change {
        case .done:
            // What was undone cannot be redone any more: positions ahead are out of reach.
            if let saved, saved > position { self.saved = nil }
            marks.change { [position] in $0 > position ? nil : $0 }
            position += 1
        case .undone: position -= 1
        case .redone: position += 1
        case .doneForGood:
            saved = nil
            marks.removeAll()
        }
    }

    /// A save takes its snapshot here.
    mutating func beginSave(_ token: Int = 0) { marks.add(token, at: position) }

    /// The save succeeded: the document is clean where the snapshot was taken, if one can still get there.
    mutating func finishSave(_ token: Int = 0) { saved = marks.take(token) }

    /// The save failed: nothing is different.
    mutating func failSave(_ token: Int = 0) { _ = marks.take(token) }

    /// The document is as it was saved.
    mutating func clear() { self = ChangeCounter() }
}
