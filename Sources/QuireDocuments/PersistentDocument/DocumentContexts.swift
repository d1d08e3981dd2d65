import Foundation
import Logging
import Quire

/// The store of an open ``PersistentDocument``, its contexts, and what of them is unsaved.
///
/// The context on the main queue is edited. A save hands its changes to a parent on a queue of its own, which writes them to
/// the store meanwhile; what fails to be written stays in the parent, as unsaved changes of the document.
@MainActor
final class DocumentContexts {
    private(set) var store: any PersistentStore
    let coordinator: PersistentStoreCoordinator
    let context: ManagedObjectContext
    /// Called after every change.
    var changed: () -> Void = {}

    private let parent: PrivateQueueContext
    /// Changes of the parent that the context did not make through a save of the document.
    private let parentChanges = ParentChanges()
    /// Whether the context has pushed changes to the parent that no save has written.
    private var hasPushedChanges = false
    private var objectCounter = ChangeCounter(at: 0)
    private var lastToken = 0
    /// The number of user events that have changed objects.
    private var editCount = 0

    init(_ store: any PersistentStore) {
        self.store = store
        coordinator = PersistentStoreCoordinator(store: store)
        parent = PrivateQueueContext(coordinator: coordinator)
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

    /// Whether anything differs from the last save.
    var hasUnsavedChanges: Bool {
        objectChanges.hasChanges || parentChanges.hasChanges || context.hasUnregisteredChanges
    }

    /// Whether a save might write anything: also when undo has led back to what was saved, which the context may not know.
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

    /// Hands the context's changes to the parent.
    private func pushChanges() throws {
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

    /// Pushes the changes and runs a closure that writes what the parent has. What is changed meanwhile stays unsaved.
    private func saving<Result>(
        _ write: (PrivateQueueContext) async throws -> Result
    ) async throws -> Result {
        try pushChanges()
        lastToken += 1
        let token = lastToken
        objectChanges.beginSave(token)
        do {
            let result = try await write(parent)
            hasPushedChanges = false
            objectChanges.finishSave(token)
            return result
        } catch {
            objectChanges.failSave(token)
            throw error
        }
    }

    /// Saves to the store, with the context's merge policy.
    func save() async throws {
        let policy = context.mergePolicy
        try await saving { [parentChanges] parent in
            try await parent.performWithoutObjects { context in
                context.mergePolicy = policy
                parentChanges.beginSave()
                try context.save()
                parentChanges.didSave()
            }
        }
    }

    /// Saves to a new file, and goes on with the store of that; see ``DocumentFile/continues(_:)``.
    func save(as file: DocumentFile) async throws {
        let old = store
        store = try await saving { [parentChanges] parent in
            try await parent.performWithoutObjects { context in
                var new = old
                parentChanges.beginSave()
                try context.save(replacing: old) { changes in
                    let made = try file.makeSuccessor(of: old, applying: changes)
                    new = made.store
                    return made
                }
                parentChanges.didSave()
                return new
            }
        }
        await FileQueue.shared.run { old.closeSaved() }
    }

    /// The unsaved changes, as a save would write them.
    struct Snapshot: Sendable {
        var changes: ChangeSet
        fileprivate var editCount: Int
    }

    /// A snapshot of the unsaved changes, which stay unsaved.
    func takeSnapshot() async throws -> Snapshot {
        try pushChanges()
        let editCount = editCount
        let changes = try await parent.performWithoutObjects { context in
            try context.withUnsavedChanges { $0 }
        }
        return Snapshot(changes: changes, editCount: editCount)
    }

    /// Whether objects have been changed since a snapshot was taken.
    func hasChanged(since snapshot: Snapshot) -> Bool {
        context.processPendingChanges()
        return editCount != snapshot.editCount
    }

    // MARK: - Reverting and closing

    /// Drops unsaved changes. The store is read anew.
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
    /// throws from here on.
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

extension PersistentStore {
    /// Closes the store after everything has been saved. Failures are logged: what was saved is on disk.
    func closeSaved() {
        do { try close() } catch {
            Logger(label: "quire.document").warning(
                "“\(path ?? "")” was closed, but its files could not be tidied up: \(error)")
        }
    }
}
