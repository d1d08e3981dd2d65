/// Knows whether a document's objects are as they were saved, also after undo and redo.
///
/// The undo manager stands at a position, and equal positions are equal states. The document is clean at the one it
/// was saved at. A save covers the position at which it took its snapshot, not the one at which it ended: that is what
/// the mark is for. What was changed without the undo manager's knowledge makes every position another state.
struct SavedPosition: Sendable, Equatable {
    /// Where the document is as it was saved, if one can get there by undo and redo.
    private var saved: UInt64?
    /// Where running saves took their snapshots.
    private var marks = ChangeMarks<UInt64>()

    /// The document is as it was saved.
    init(at position: UInt64) { saved = position }

    /// Whether the document is as it was saved.
    func isClean(at position: UInt64) -> Bool { position == saved }

    /// Something was changed that undo cannot take back: only a save makes the document clean again.
    mutating func changeForGood() {
        saved = nil
        marks.removeAll()
    }

    /// A save takes its snapshot.
    mutating func beginSave(_ token: Int, at position: UInt64) {
        marks.add(token, at: position)
    }

    /// The save succeeded: the document is clean where the snapshot was taken, if one can still get there.
    mutating func finishSave(_ token: Int) { saved = marks.take(token) }

    /// The save failed: nothing is different.
    mutating func failSave(_ token: Int) { _ = marks.take(token) }

    /// Another undo manager has taken the place of the one that stood at a position.
    mutating func move(from old: UInt64, to new: UInt64) {
        saved = old == saved ? new : nil
        marks.change { $0 == old ? new : nil }
    }
}
