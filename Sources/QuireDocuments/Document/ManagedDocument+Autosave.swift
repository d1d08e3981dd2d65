import Quire

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
        guard machine.isOpen, !isReadOnly, let open = openDocument,
            open.hasUnsavedChanges || open.draftInStore != nil
        else {
            autosaveSchedule.isClean()
            return autosaveTimer.cancel()
        }
        autosaveSchedule.isUnsaved(at: .now)
        guard !machine.isSaveExpected, !documentState.contains(.inConflict),
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
        // The error is kept in lastSaveError, and the state says that there is one.
        submit(.autosave) { _ in }
    }
}
