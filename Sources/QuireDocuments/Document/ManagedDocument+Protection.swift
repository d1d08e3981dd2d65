import Quire

// What becomes of an open document of class `complete` when its domain is locked: it saves itself while the grace period lasts.
// From then on fetching, reading and saving throw, with code `protectedDataUnavailable`, until the domain is unlocked: objects,
// context and undo are the same, and what was not saved is unsaved.

extension ManagedDocument: ProtectedDataResponder {
    /// Whether what is on disk can be read and written now.
    @MainActor var isDataAvailable: Bool {
        openDocument?.package.store.protection?.isAvailable ?? true
    }

    /// Saves what is unsaved, unless the document never saves itself. What cannot be saved in time stays unsaved.
    @MainActor package func protectedDataWillBecomeUnavailable() async {
        guard fileProtection == .complete, !isReadOnly, autosavePolicy.isEnabled,
            hasUnsavedChanges
        else { return }
        do { try await autosave() } catch {
            logFailedAutosave(of: path, error as? QuireError)
        }
    }

    /// Sees to it that what could not be saved is saved.
    @MainActor package func protectedDataDidBecomeAvailable() async { scheduleAutosave() }
}
