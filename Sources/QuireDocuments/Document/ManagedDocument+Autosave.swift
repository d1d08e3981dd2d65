import Logging
import Quire

/// Logs that a save failed which nobody waits for. Other failures are thrown, and left to the caller to report.
@MainActor
func logFailedAutosave(of path: String, _ error: QuireError?) {
    guard let error else { return }
    Logger(label: "quire.document").error("“\(path)” could not be saved: \(error.message)")
}

extension ManagedDocument {
    func autosavePolicyDidChange() {
        autosaveTimer.cancel()
        scheduleAutosave()
    }

    /// Called after each change.
    func documentDidChange() {
        autosaveSchedule.didChange(at: .now)
        scheduleAutosave()
    }

    /// Sees to it that what is unsaved will be saved when it is due.
    func scheduleAutosave() {
        guard machine.isOpen, !isReadOnly, openDocument?.needsSave == true else {
            autosaveSchedule.isClean()
            return autosaveTimer.cancel()
        }
        autosaveSchedule.isUnsaved(at: .now)
        guard !machine.isSaveExpected, !documentState.contains(.inConflict), isDataAvailable,
            let due = autosaveSchedule.due(autosavePolicy)
        else {
            return autosaveTimer.cancel()
        }
        // If more is changed until it fires, it is found not to be due yet, and set again.
        autosaveTimer.schedule(at: due)
    }

    func autosaveTimerFired() {
        guard let due = autosaveSchedule.due(autosavePolicy) else { return }
        if due > .now { return autosaveTimer.schedule(at: due) }
        submit(.autosave) { [path] in logFailedAutosave(of: path, $0) }
    }
}

// MARK: - Locking of protected data

// An open document of class `complete` autosaves when its domain is about to be locked. While it is locked, fetching, firing
// faults, reading and saving throw `protectedDataUnavailable`; objects, context, undo and unsaved changes are kept.

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
