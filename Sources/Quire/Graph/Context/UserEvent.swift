internal import Dispatch

/// The changes of a context since the last user event ended, which become one undo step.
///
/// Invariants
/// ==========
///
/// - An object is in ``objects`` exactly while its state is `inEvent`.
/// - The log has the inverse of every change, in the order of the changes, while undo registration is enabled.
struct UserEvent {
    /// The inverse operations.
    private(set) var log: [UndoOperation] = []
    /// The length of ``log`` at which overwritten operations are removed from it.
    private var logLimit = UserEvent.minimumLogLimit
    private static let minimumLogLimit = 1024
    /// The changed objects, in the order of their first change.
    var objects: ContiguousArray<ManagedObject> = []
    /// Whether the changes are logged for undo.
    var isLogged = false
    /// Whether undo can revert the last event.
    var wasUndoable = false
    var isEnding = false
    /// Whether a block that ends the event is enqueued.
    var endIsScheduled = false

    @inline(__always)
    mutating func log(_ operation: UndoOperation) {
        log.append(operation)
        if log.count >= logLimit { compactLog() }
    }

    /// Bounds the memory of a long event by the number of changed objects.
    @inline(never)
    private mutating func compactLog() {
        if log.count > 8 * objects.count { log.dropOverwritten() }
        logLimit = max(Self.minimumLogLimit, 2 * log.count)
    }

    mutating func clearLog() {
        log = []
        logLimit = Self.minimumLogLimit
    }
}

extension ManagedObjectContext {
    /// Whether undo can revert the last user event.
    package var lastEventIsUndoable: Bool { event.wasUndoable }

    func log(_ operation: UndoOperation) { event.log(operation) }

    func beginEvent() {
        event.isLogged = logsChanges
        // A block on a private queue ends the event itself, unless it is doing so now.
        guard concurrencyType == .mainQueue || event.isEnding, !event.endIsScheduled else { return }
        event.endIsScheduled = true
        let reference = WeakContext(context: self)
        queueMarker.async { reference.context?.endScheduledEvent() }
    }

    private func endScheduledEvent() {
        event.endIsScheduled = false
        processPendingChanges()
    }

    /// Sends a context to its own queue.
    private struct WeakContext: @unchecked Sendable {
        // Only dereferenced on the context's queue.
        weak var context: ManagedObjectContext?
    }

    /// Ends the user event: its changes become one undo step.
    ///
    /// Called automatically at the next turn of the main queue, at the end of a `perform` block, and before a save, an undo and
    /// a redo.
    public func processPendingChanges() {
        checkQueue()
        registerPendingChanges()
        undoManager?.closeEventGroup()
        endEvent()
    }

    func endEvent() {
        guard !event.objects.isEmpty, !event.isEnding else { return }
        event.isEnding = true
        defer { event.isEnding = false }
        event.wasUndoable = event.isLogged
        let changes = takeEventChanges()
        announceDerivedValues(after: changes)
        didEndEvent(changes)
        changeHandler?()
    }

    /// Returns the changes of the user event and begins the next one.
    func takeEventChanges() -> EventChanges {
        var changes = EventChanges()
        for object in event.objects {
            switch (object.state.contains(.wasLive), object.state.contains(.live)) {
            case (true, true): changes.updated.append(object)
            case (false, true): changes.inserted.append(object)
            case (true, false): changes.deleted.append(object)
            case (false, false): break
            }
            object.state.subtract([.inEvent, .wasLive])
            if object.state.contains(.observed) && !object.isUnsaved {
                object.announceStateChange()
            }
        }
        event.objects.removeAll()
        return changes
    }

    /// Registers the changes of a round of `willSave()` in the last undo step, and returns the objects.
    func endSavingRound(_ hasChanged: inout Bool) -> [ManagedObject] {
        registerPendingChanges(inLastStep: true)
        guard !event.objects.isEmpty else { return [] }
        hasChanged = true
        event.wasUndoable = event.isLogged
        let objects = Array(event.objects)
        let changes = takeEventChanges()
        if !event.isEnding {
            event.isEnding = true
            defer { event.isEnding = false }
            didEndEvent(changes)
        }
        return objects
    }

    func registerPendingChanges(inLastStep: Bool = false) {
        dropReferencesToDeletedUnsaved()
        guard !event.log.isEmpty else { return }
        let log = UndoLog(event.log, number: undoIdentifiers.addLog(), context: self)
        event.clearLog()
        undoManager?.register(self, inLastStep: inLastStep) { $0.restore(log) }
    }

    /// Undoes the last user event, if the context has an undo manager.
    public func undo() {
        checkQueue()
        undoManager?.undo()
    }

    /// Redoes the last undone event, if any.
    public func redo() {
        checkQueue()
        undoManager?.redo()
    }

    /// Whether the present user event has made changes that the undo manager does not have yet, or that it is not to have.
    package var hasUnregisteredChanges: Bool {
        checkQueue()
        return !event.log.isEmpty || !pendingRecords.isEmpty
            || !event.isLogged && event.objects.contains(where: \.isUnsaved)
    }
}
