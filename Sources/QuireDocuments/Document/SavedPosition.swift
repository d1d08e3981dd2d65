/// Knows whether a document's objects are as they were saved, also after undo and redo.
///
/// The undo manager stands at a position, and equal positions are equal states. The document is clean at the one it
/// was saved at. A save covers the position at which it took its snapshot, not the one at which it ended: that is what
/// the mark is for. What was changed without the undo manager's knowledge makes every position another state.
struct SavedPosition: Sendable, Equatable {
    /// Where the document is as it was saved, if one can get there by undo and redo.
    private var saved: UInt64?
    /// Where the running save took its snapshot.
    private var marked: UInt64?

    /// The document is as it was saved.
    init(at position: UInt64) { saved = position }

    /// Whether the document is as it was saved. At no position, because a group is open, it is not.
    func isClean(at position: UInt64?) -> Bool { position != nil && position == saved }

    /// Something was changed that undo cannot take back: only a save makes the document clean again.
    mutating func changeForGood() {
        saved = nil
        marked = nil
    }

    /// A save takes its snapshot.
    mutating func beginSave(at position: UInt64?) { marked = position }

    /// The save succeeded: the document is clean where the snapshot was taken, if one can still get there.
    mutating func finishSave() {
        saved = marked
        marked = nil
    }

    /// The save failed: nothing is different.
    mutating func failSave() { marked = nil }

    /// Another undo manager has taken the place of the one that stood at a position.
    mutating func move(from old: UInt64?, to new: UInt64?) {
        if old == nil || old != saved { saved = nil } else { saved = new }
        if old == nil || old != marked { marked = nil } else { marked = new }
    }
}
