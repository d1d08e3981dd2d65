import Dispatch
import Quire

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
