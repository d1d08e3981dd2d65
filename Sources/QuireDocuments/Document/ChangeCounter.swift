import Dispatch
import Quire

/// Tracks whether a state differs from the saved one, also after undo and redo.
///
/// The counter has a position, which identifies the present state. Positions are either counted here, one further with each
/// change and one back with each undo, or those of an undo manager, by ``move(to:)``.
///
/// Invariants
/// ==========
///
/// - Equal positions that are reachable by undo and redo are equal states.
/// - `saved` is the position of the saved state, or `nil` if undo and redo cannot reach it; then only a save makes the
///   state clean.
/// - A save covers the position at its snapshot, not at its end: `marks` has that position by the save's token, as long as
///   undo and redo can reach it.
/// - There are at most 16 marks. The oldest is dropped for a new one; finishing its save then leaves the state unsaved.
struct ChangeCounter: Sendable, Equatable {
    /// A save that has taken its snapshot.
    typealias Token = Int

    private var position: UInt64
    private var saved: UInt64?
    private var marks: [Token: UInt64] = [:]

    private static var maximumMarkCount: Int { 16 }

    /// A saved state at a position. Counted ones begin in the middle, because undo may reach states before the first.
    init(at position: UInt64 = 1 << 63) { (self.position, saved) = (position, position) }

    /// Whether the present state differs from the saved one.
    var hasChanges: Bool { position != saved }

    // MARK: Changes

    mutating func count(_ change: DocumentChange) {
        switch change {
        case .done:
            // A change after undo clears the redo stack, and makes the positions ahead unreachable.
            if let saved, saved > position { self.saved = nil }
            marks = marks.filter { $0.value <= position }
            position += 1
        case .undone: position -= 1
        case .redone: position += 1
        case .cleared: self = ChangeCounter()
        }
    }

    /// Counts a change that undo cannot revert.
    mutating func countIrreversibleChange() {
        saved = nil
        marks.removeAll()
    }

    /// Marks the present state as saved; running saves are not affected.
    mutating func discardChanges() { saved = position }

    /// Adopts the position of the undo manager.
    mutating func move(to position: UInt64) { self.position = position }

    /// Adopts the position of another undo manager, which cannot reach states of the previous one.
    mutating func rename(to position: UInt64) {
        saved = hasChanges ? nil : position
        marks = marks.filter { $0.value == self.position }.mapValues { _ in position }
        self.position = position
    }

    // MARK: Saves

    /// Marks the present position as the snapshot of a save.
    mutating func beginSave(_ token: Token = 0) {
        marks[token] = position
        if marks.count > Self.maximumMarkCount, let oldest = marks.keys.min() {
            marks[oldest] = nil
        }
    }

    /// Makes the state of a snapshot the saved one.
    mutating func finishSave(_ token: Token = 0) { saved = marks.removeValue(forKey: token) }

    /// Drops the mark of a save that failed; nothing else changes.
    mutating func failSave(_ token: Token = 0) { marks[token] = nil }
}

/// A change outside of the data that the document tracks.
public enum DocumentChange: Sendable, Hashable {
    /// A change was made.
    case done
    /// A change was undone.
    case undone
    /// A change was redone.
    case redone
    /// The document has the saved state.
    case cleared
}

// MARK: - Changes of the parent

/// Tracks changes of a document's parent context that the document's own context did not make: saves of background
/// contexts, and direct changes of the parent's objects.
///
/// Readable on any thread. Saves of background contexts are counted on their own threads, other changes on the parent's
/// queue. A save of the parent covers the changes counted before it began.
final class ParentChanges: Sendable {
    private struct State {
        var counter = ChangeCounter()
        var count = 0
        var isIgnoring = false
        /// Whether a notification is on its way to the main queue.
        var isAnnounced = false
        var changed: (@MainActor @Sendable () -> Void)?
    }

    private let state = Lock(State())

    /// Whether the parent has such changes that no save has written.
    var hasChanges: Bool { state.withLock { $0.counter.hasChanges } }

    /// The number of such changes so far.
    var count: Int { state.withLock(\.count) }

    /// Sets the handler that is called on the main actor soon after a change of the parent.
    func follow(_ changed: (@MainActor @Sendable () -> Void)?) {
        state.withLock { $0.changed = changed }
    }

    // MARK: On the parent's queue

    /// Starts counting the changes of a context.
    func observe(_ parent: ManagedObjectContext) {
        parent.changeHandler = { [unowned parent, self] in parentDidChange(parent.hasChanges) }
        parent.followTakenChanges { [self] in parentDidChange(true) }
    }

    private func parentDidChange(_ hasChanges: Bool) {
        let announces = state.withLock { state in
            if state.isIgnoring { return false }
            state.counter.count(.done)
            state.count += 1
            // Without changes it was rolled back.
            if !hasChanges { state.counter.discardChanges() }
            if state.isAnnounced || state.changed == nil { return false }
            state.isAnnounced = true
            return true
        }
        guard announces else { return }
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

    /// Call before a save of the parent.
    func beginSave() { state.withLock { $0.counter.beginSave() } }

    /// Call after a save of the parent.
    func didSave() { state.withLock { $0.counter.finishSave() } }

    /// Call after a reset of the parent.
    func didReset() { state.withLock { $0.counter.discardChanges() } }
}
