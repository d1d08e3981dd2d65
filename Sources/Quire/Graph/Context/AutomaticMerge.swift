internal import Dispatch

/// Takes word of saves to a context's queue, where the context merges them.
///
/// It is `@unchecked Sendable` because its context is only asked for on that queue.
final class AutomaticMerge: SaveListener, @unchecked Sendable {
    private let queue: DispatchQueue
    private weak var context: ManagedObjectContext?

    init(_ context: ManagedObjectContext) {
        queue = context.queueMarker.queue
        self.context = context
    }

    func sourceDidSave(_ changes: ObjectIDChanges, isByRows: Bool) {
        queue.async { [weak self] in self?.context?.merge(changes, isByRows: isByRows) }
    }
}

extension ManagedObjectContext {
    /// Whether the context merges by itself what others save to its store or parent, and what the parent saves
    /// itself. False for a new context.
    ///
    /// It does so at a later turn of its own queue, as ``mergeChanges(from:)`` does. So a context over the store follows
    /// the other contexts over the same coordinator, and a child follows its siblings and its parent.
    public var automaticallyMergesChangesFromParent: Bool {
        get { automaticMerge != nil }
        set {
            checkQueue()
            if newValue == (automaticMerge != nil) { return }
            if let automaticMerge {
                source.saveListeners.remove(automaticMerge)
                self.automaticMerge = nil
            } else {
                let merge = AutomaticMerge(self)
                automaticMerge = merge
                source.saveListeners.add(merge)
            }
        }
    }
}
