/// Observes saves to a context's source, and merges them on the context's queue.
///
/// They are pending until the queue runs the merge, or until the context saves, which merges them first: so a context that
/// merges automatically never conflicts with a save that had ended before its own began.
///
/// It is `@unchecked Sendable` because its context is only accessed on that queue.
final class ParentSaveMerger: SaveObserver, @unchecked Sendable {
    private let marker: QueueMarker
    private weak var context: ManagedObjectContext?
    private let pending = Lock(Pending())

    private struct Pending {
        var saves: [(changes: ObjectIDChanges?, isByRows: Bool)] = []
        /// Saves being merged: the context and its children have not applied them yet.
        var mergeCount = 0

        /// Takes the first saves that can be merged as one. A save cannot if it brings back an object that one of them deleted.
        mutating func beginMerge() -> ArraySlice<(changes: ObjectIDChanges?, isByRows: Bool)> {
            guard let first = saves.first else { return [] }
            var deleted: Set<ManagedObjectID> = []
            let end = saves.firstIndex { save in
                guard let changes = save.changes, save.isByRows == first.isByRows,
                    deleted.isEmpty || !changes.contains(where: deleted.contains)
                else { return true }
                deleted.formUnion(changes.deleted)
                return false
            }
            let taken = saves.prefix(max(end ?? saves.count, 1))
            mergeCount += 1
            saves.removeFirst(taken.count)
            return taken
        }
    }

    init(_ context: ManagedObjectContext) {
        marker = context.queueMarker
        self.context = context
    }

    func sourceDidSave(_ changes: ObjectIDChanges?, isByRows: Bool, areKnown: Bool) {
        if areKnown { return }
        pending.withLock { $0.saves.append((changes, isByRows)) }
        marker.async { [weak self] in
            self?.mergePending()
            self?.context?.resumeBufferingIfUnused()
        }
    }

    /// Whether every save is merged; on any thread.
    var isEmpty: Bool { pending.withLock { $0.saves.isEmpty && $0.mergeCount == 0 } }

    /// Merges pending saves in commit order, successive ones as one. Call it on the context's queue.
    func mergePending() {
        while case let saves = pending.withLock({ $0.beginMerge() }), let first = saves.first {
            if first.changes == nil {
                context?.mergeUnknownChanges()
            } else {
                let changes = ObjectIDChanges(successive: saves.compactMap(\.changes))
                context?.merge(changes, isByRows: first.isByRows)
            }
            pending.withLock { $0.mergeCount -= 1 }
        }
    }
}

extension ManagedObjectContext {
    /// Whether the context automatically merges saves of other contexts to its store or parent, and the parent's own. False for
    /// a new context.
    ///
    /// Merges run at a later turn of its queue, or before its next save, as by ``mergeChanges(from:)``; the saves pending by then
    /// are merged as one. So a context over the store follows the other contexts of the coordinator, and a child follows its
    /// siblings and its parent; saves that precede a save of this context do not conflict with it.
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

    /// Merges pending saves of other contexts, if the context merges automatically; its parents merge before, from the topmost
    /// down.
    package func mergePendingSaves() {
        checkQueue()
        guard let parentSaveMerger else { return }
        parent?.mergePendingSaves()
        parentSaveMerger.mergePending()
    }
}
