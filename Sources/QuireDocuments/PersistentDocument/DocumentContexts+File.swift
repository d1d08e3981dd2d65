import Quire
internal import QuireStore

// Saving the contexts of a ``PersistentDocument``, whose coordinator has one store.

extension DocumentContexts {
    /// Pushes the changes and runs a closure that writes those of the parent. Changes made meanwhile stay unsaved.
    private func saving(_ write: (QueueConfinedContext) async throws -> Void) async throws {
        try pushChanges()
        let token = takeChangeToken()
        do {
            try await write(parent)
            hasPushedChanges = false
            didSave(token)
        } catch {
            didFailToSave(token)
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

    /// Saves to a new file of the same format, whose store replaces the present one; see ``DocumentFile/continues(_:)``.
    func save(as file: DocumentFile) async throws {
        let old = store
        coordinator.willReplace(old)
        try await saving { [parentChanges] parent in
            try await parent.performWithoutObjects { context in
                parentChanges.beginSave()
                var isMade = false
                do {
                    try context.save(replacing: old) { changes in
                        let made = try file.makeSuccessor(of: old, applying: changes)
                        isMade = true
                        return made
                    }
                } catch {
                    // Another store failed afterwards.
                    if isMade { file.removeUnused() }
                    throw error
                }
                parentChanges.didSave()
            }
        }
        coordinator.didReplace(old, with: store)
        await FileQueue.shared.run { old.closeSaved() }
    }

    /// The unsaved changes, as a save would write them.
    struct Snapshot: Sendable {
        var changes: ChangeSet
        fileprivate var editCount: Int
        fileprivate var parentChangeCount: Int
    }

    /// A snapshot of the unsaved changes, which stay unsaved.
    func takeSnapshot() async throws -> Snapshot {
        try pushChanges()
        let (editCount, parentChangeCount) = (editCount, parentChanges.count)
        return Snapshot(
            changes: try await unsavedChanges(), editCount: editCount,
            parentChangeCount: parentChangeCount)
    }

    /// Whether objects have been changed since a snapshot was taken.
    func hasChanged(since snapshot: Snapshot) -> Bool {
        context.processPendingChanges()
        return editCount != snapshot.editCount || parentChanges.count != snapshot.parentChangeCount
    }
}
