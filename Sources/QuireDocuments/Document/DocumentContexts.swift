import Quire
internal import QuireStore

/// The contexts of an open document, and their unsaved changes.
///
/// The context on the main queue is edited. A save pushes its changes to a parent on a private queue, which writes them to the
/// store while editing continues; changes that could not be written remain in the parent, as unsaved changes of the document.
@MainActor
final class DocumentContexts {
    let coordinator: PersistentStoreCoordinator
    let parent: QueueConfinedContext
    let context: ManagedObjectContext
    /// Called after every change.
    var changed: () -> Void = {}
    /// Changes of the parent that the context did not make.
    let parentChanges = ParentChanges()
    /// Whether the context has pushed changes to the parent that no save has written.
    var hasPushedChanges = false
    /// The number of user events that have changed objects.
    private(set) var editCount = 0
    private var objectCounter = ChangeCounter(at: 0)
    private var lastToken = 0

    init(_ coordinator: PersistentStoreCoordinator) {
        self.coordinator = coordinator
        parent = QueueConfinedContext(coordinator: coordinator)
        parent.performAndWait { [parentChanges] parent in
            parent.isWriteBehindParent = true
            parent.automaticallyMergesChangesFromParent = true
            parentChanges.observe(parent)
        }
        context = ManagedObjectContext.mainQueue(parent: parent)
        context.isObservable = true
        context.automaticallyMergesChangesFromParent = true
        context.changeHandler = { [weak self] in self?.contextDidChange() }
        parentChanges.follow { [weak self] in self?.changed() }
        observe(UndoManager())
    }

    // MARK: - Changes

    /// Whether an object differs from the last save.
    var hasUnsavedChanges: Bool {
        objectChanges.hasChanges || parentChanges.hasChanges || context.hasUnregisteredChanges
    }

    /// Whether a save might write objects, also after undoing all changes, which the context may not detect.
    var mayHaveUnsavedChanges: Bool {
        hasUnsavedChanges || hasPushedChanges || context.hasChanges
    }

    /// Replaces the undo manager.
    func observe(_ undoManager: UndoManager?) {
        objectCounter = objectChanges
        context.undoManager?.didChange = nil
        context.undoManager = undoManager
        undoManager?.didChange = { [weak self] in self?.undoManagerDidChange() }
        objectCounter.rename(to: position)
    }

    /// Changes of the context's objects, at the undo manager's present position.
    private var objectChanges: ChangeCounter {
        get {
            var counter = objectCounter
            counter.move(to: position)
            return counter
        }
        set { objectCounter = newValue }
    }

    private var position: UInt64 { context.undoManager?.position ?? 0 }

    private var isUndoing: Bool {
        context.undoManager.map { $0.isUndoing || $0.isRedoing } ?? false
    }

    /// Undo and redo are reported once, when the undo manager has finished.
    private func undoManagerDidChange() {
        if !isUndoing { changed() }
    }

    private func contextDidChange() {
        editCount += 1
        if isUndoing { return }
        if !context.lastEventIsUndoable {
            if !context.hasChanges && !hasPushedChanges {
                objectChanges = ChangeCounter(at: position)  // It was rolled back.
            } else {
                objectChanges.countIrreversibleChange()
            }
        }
        changed()
    }

    // MARK: - Saving

    /// Pushes the context's changes to the parent.
    func pushChanges() throws {
        context.processPendingChanges()
        let pushes = context.hasChanges
        try context.save(evenIfUnchanged: false) { [parent, parentChanges] changes in
            try parent.save(changes, isNoted: false) { parent in
                try parentChanges.ignoring(parent) { try parent.apply(changes) }
            }
            return []
        }
        if pushes { hasPushedChanges = true }
    }

    /// The document's own store, in its package or its file; others may have been added to the coordinator after it.
    var store: any PersistentStore { coordinator.persistentStores[0] }

    /// The changes of the document's own store that the parent has not saved.
    func unsavedChanges() async throws -> ChangeSet {
        let store = store
        return try await parent.performWithoutObjects { try $0.unsavedChanges(of: store) }
    }

    /// A token of the objects' present state, for ``didSave(_:)`` or ``didFailToSave(_:)``.
    func takeChangeToken() -> ChangeCounter.Token {
        lastToken += 1
        context.processPendingChanges()
        objectChanges.beginSave(lastToken)
        return lastToken
    }

    /// Makes the state of a token the saved one.
    func didSave(_ token: ChangeCounter.Token) { objectChanges.finishSave(token) }

    /// Drops a token whose state was not saved.
    func didFailToSave(_ token: ChangeCounter.Token) { objectChanges.failSave(token) }

    // MARK: - Background contexts

    /// A context on a private queue, whose saves go to the parent.
    func newBackgroundContext() -> QueueConfinedContext {
        let context = QueueConfinedContext(parent: parent)
        context.performAndWait { $0.automaticallyMergesChangesFromParent = true }
        return context
    }

    /// Blocks saves of background contexts to the parent, so that none is lost by closing.
    ///
    /// - Parameters:
    ///   - discardingChanges: Whether to block them even if the parent has unsaved changes.
    ///   - error: The error of such a save.
    /// - Returns: Whether they are blocked.
    func blockChildSaves(discardingChanges: Bool, _ error: QuireError) async -> Bool {
        await parent.perform { parent in
            if parent.hasChanges && !discardingChanges { return false }
            parent.saveBlock = error
            return true
        }
    }

    /// Permits saves of background contexts again.
    func unblockChildSaves() async { await parent.perform { $0.saveBlock = nil } }

    // MARK: - Reverting and closing

    /// Drops unsaved changes. Objects are read from the store again.
    func reset() async {
        await parent.perform { [parentChanges] parent in
            parent.reset()
            parentChanges.didReset()
        }
        context.reset()
        hasPushedChanges = false
        objectChanges = ChangeCounter(at: position)
    }

    /// Releases the objects: those that are still referenced belong to no context afterwards. Inserting objects and saving
    /// throws the error from here on.
    func detach(_ error: QuireError) {
        parentChanges.follow(nil)
        parent.performAndWait { $0.saveBlock = error }
        context.saveBlock = error
        context.automaticallyMergesChangesFromParent = false
        context.changeHandler = nil
        context.undoManager?.didChange = nil
        context.reset()
        context.undoManager = nil
    }
}
