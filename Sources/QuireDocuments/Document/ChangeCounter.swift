import Dispatch
import Quire

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

/// What happened to something that a document does not see itself.
public enum DocumentChange: Sendable, Hashable {
    /// It was changed.
    case done
    /// A change was undone.
    case undone
    /// A change was redone.
    case redone
    /// It is as it was saved.
    case cleared
}

/// Where a document stood when snapshots of it were taken that are being saved, by their tokens.
struct ChangeMarks<Position: Sendable & Equatable>: Sendable, Equatable {
    private var positions: [Int: Position] = [:]

    /// Snapshots that nobody tells the end of are forgotten after so many others; then the document stays unsaved.
    private static var greatestCount: Int { 16 }

    mutating func add(_ token: Int, at position: Position) {
        positions[token] = position
        if positions.count > Self.greatestCount, let oldest = positions.keys.min() {
            positions[oldest] = nil
        }
    }

    /// Where the document stood, if it can get there again by undo and redo.
    mutating func take(_ token: Int) -> Position? { positions.removeValue(forKey: token) }

    /// Some positions cannot be reached any more, or have other names.
    mutating func change(_ body: (Position) -> Position?) {
        positions = positions.compactMapValues(body)
    }

    mutating func removeAll() { positions.removeAll() }
}

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

// MARK: - Changes of the parent

/// Counts what is changed in a document's parent context other than by the document's own context: by background
/// contexts that save to it, and by changing its objects directly.
///
/// It can be read anywhere. What a background context has saved is counted on its own thread, other changes on the parent's
/// queue. A save of the parent covers what was counted before it began.
final class ParentChanges: Sendable {
    private struct State {
        var count = 0
        var savedCount = 0
        /// The count that the save covers which runs, or ran last.
        var countBeingSaved = 0
        var isIgnoring = false
        /// Whether a call of ``changed`` is on its way to the main queue.
        var isAnnounced = false
        var changed: (@MainActor @Sendable () -> Void)?
    }

    private let state = Lock(State())

    /// Whether the parent has such changes that no save has written.
    var hasChanges: Bool { state.withLock { $0.count != $0.savedCount } }

    /// Calls a closure on the main actor, soon after the parent was changed.
    func follow(_ changed: (@MainActor @Sendable () -> Void)?) {
        state.withLock { $0.changed = changed }
    }

    // MARK: On the parent's queue

    /// Begins to count the changes of a context.
    func observe(_ parent: ManagedObjectContext) {
        parent.changeHandler = { [unowned parent, self] in parentDidChange(parent.hasChanges) }
        parent.followTakenChanges { [self] in parentDidChange(true) }
    }

    private func parentDidChange(_ hasChanges: Bool) {
        let isNews = state.withLock { state in
            if state.isIgnoring { return false }
            state.count += 1
            // Otherwise it was rolled back.
            if !hasChanges { state.savedCount = state.count }
            if state.isAnnounced || state.changed == nil { return false }
            state.isAnnounced = true
            return true
        }
        guard isNews else { return }
        DispatchQueue.main.async { MainActor.assumeIsolated { self.announce() } }
    }

    @MainActor
    private func announce() {
        let changed = state.withLock { state in
            state.isAnnounced = false
            return state.changed
        }
        changed?()
    }

    /// Runs a closure whose changes of the parent are the document's own.
    func ignoring(_ parent: ManagedObjectContext, _ body: () throws -> Void) rethrows {
        parent.processPendingChanges()
        state.withLock { $0.isIgnoring = true }
        defer {
            parent.processPendingChanges()
            state.withLock { $0.isIgnoring = false }
        }
        try body()
    }

    /// The parent is about to be saved.
    func beginSave() { state.withLock { $0.countBeingSaved = $0.count } }

    /// The parent was saved.
    func didSave() { state.withLock { $0.savedCount = $0.countBeingSaved } }

    /// The parent was reset.
    func didReset() { state.withLock { $0.savedCount = $0.count } }
}
