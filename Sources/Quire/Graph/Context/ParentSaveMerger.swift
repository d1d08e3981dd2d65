internal import Dispatch

/// Takes notice of saves to a context's source, and has the context merge them on its queue.
///
/// They wait until the queue gets to it, or until the context saves, which merges them first: so a context that merges
/// automatically is never in conflict with a save that had ended before its own began.
///
/// It is `@unchecked Sendable` because its context is only asked for on that queue.
final class ParentSaveMerger: SaveObserver, @unchecked Sendable {
    private let queue: DispatchQueue
    private weak var context: ManagedObjectContext?
    private let pending = Lock(Pending())

    private struct Pending {
        var saves: [(changes: ObjectIDChanges, isByRows: Bool)] = []
        /// Saves that are being merged: the context and its children have not taken notice of them yet.
        var mergeCount = 0

        mutating func beginMerge() -> (changes: ObjectIDChanges, isByRows: Bool)? {
            if saves.isEmpty { return nil }
            mergeCount += 1
            return saves.removeFirst()
        }
    }

    init(_ context: ManagedObjectContext) {
        queue = context.queueMarker.queue
        self.context = context
    }

    func sourceDidSave(_ changes: ObjectIDChanges, isByRows: Bool, areKnown: Bool) {
        if areKnown { return }
        pending.withLock { $0.saves.append((changes, isByRows)) }
        queue.async { [weak self] in
            self?.mergePending()
            self?.context?.resumeBufferingIfUnused()
        }
    }

    /// Whether every save is merged; on any thread.
    var isEmpty: Bool { pending.withLock { $0.saves.isEmpty && $0.mergeCount == 0 } }

    /// Merges what waits, in the order in which it was saved. Call it on the context's queue.
    func mergePending() {
        while let next = pending.withLock({ $0.beginMerge() }) {
            context?.merge(next.changes, isByRows: next.isByRows)
            pending.withLock { $0.mergeCount -= 1 }
        }
    }
}

extension ManagedObjectContext {
    /// Whether the context merges by itself what others save to its store or parent, and what the parent saves
    /// itself. False for a new context.
    ///
    /// It does so at a later turn of its own queue, or when it saves before that, as ``mergeChanges(from:)`` does. So a
    /// context over the store follows the other contexts over the same coordinator, and a child follows its siblings
    /// and its parent; and what they saved before this context saves is in no conflict with that.
    public var automaticallyMergesChangesFromParent: Bool {
        get { parentSaveMerger != nil }
        set {
            checkQueue()
            if newValue == (parentSaveMerger != nil) { return }
            if let parentSaveMerger {
                source.saveObservers.remove(parentSaveMerger)
                self.parentSaveMerger = nil
                writeBehindBuffer.withState { $0.parentSaveMerger = nil }
            } else {
                let merge = ParentSaveMerger(self)
                parentSaveMerger = merge
                writeBehindBuffer.withState { $0.parentSaveMerger = merge }
                source.saveObservers.add(merge)
            }
        }
    }

    /// Merges what others have saved by now, if the context merges automatically; its parents do so before, from the
    /// topmost down.
    package func mergePendingSaves() {
        checkQueue()
        guard let parentSaveMerger else { return }
        parent?.mergePendingSaves()
        parentSaveMerger.mergePending()
    }
}
