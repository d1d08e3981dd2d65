/// Keeps what takes changes back, in groups, and does it: Foundation's `UndoManager`, which Linux lacks.
///
/// Everything registered during a user event is one group, which one ``undo()`` takes back. Used on the queue
/// of the context or document it belongs to.
public final class UndoManager {
    private final class Group {
        var actions: [() -> Void] = []
        var name = ""
    }

    private var undoStack: [Group] = []
    private var redoStack: [Group] = []
    private var openGroups: [Group] = []
    private var eventGroupIsOpen = false
    private var disabledCount = 0
    /// Called before undo, redo and the end of the user event's group, so that what was changed but not
    /// registered yet is.
    var endEvent: (() -> Void)?
    /// Called when a group closed, and after undo and redo.
    package var didChange: ((Change) -> Void)?

    /// What happened to the undo manager's groups.
    package enum Change: Sendable { case closedGroup, undone, redone }

    /// Makes an undo manager with nothing to undo.
    public init() {}

    /// The greatest number of groups to keep; the oldest go. 0 for no bound.
    public var levelsOfUndo = 0 {
        didSet { discardOldGroups() }
    }
    /// Whether a group is opened for what is registered outside any.
    public var groupsByEvent = true
    /// Whether a change is being taken back now.
    public private(set) var isUndoing = false
    /// Whether a change is being done again now.
    public private(set) var isRedoing = false
    /// Whether changes are registered.
    public var isUndoRegistrationEnabled: Bool { disabledCount == 0 }
    /// The number of groups that are open.
    public var groupingLevel: Int { openGroups.count }
    /// Whether there is anything to undo.
    public var canUndo: Bool {
        !undoStack.isEmpty || openGroups.contains { !$0.actions.isEmpty }
    }
    /// Whether there is anything to redo.
    public var canRedo: Bool { !redoStack.isEmpty }
    /// The name of what ``undo()`` would take back.
    public var undoActionName: String { undoStack.last?.name ?? "" }
    /// The name of what ``redo()`` would do again.
    public var redoActionName: String { redoStack.last?.name ?? "" }

    /// Names what the present group does, for a menu.
    public func setActionName(_ name: String) {
        (openGroups.first ?? undoStack.last)?.name = name
    }

    /// Stops registration until ``enableUndoRegistration()``; calls nest.
    public func disableUndoRegistration() {
        endEvent?()
        disabledCount += 1
    }

    /// Ends what ``disableUndoRegistration()`` began.
    public func enableUndoRegistration() {
        precondition(
            disabledCount > 0,
            "enableUndoRegistration() was called without disableUndoRegistration().")
        endEvent?()
        disabledCount -= 1
    }

    /// Opens a group. Groups nest; the outermost is what one ``undo()`` takes back.
    public func beginUndoGrouping() {
        if groupsByEvent && openGroups.isEmpty && !isUndoing && !isRedoing { openEventGroup() }
        openGroups.append(Group())
    }

    /// Closes the group opened last.
    public func endUndoGrouping() {
        endEvent?()
        precondition(
            openGroups.count > (eventGroupIsOpen ? 1 : 0),
            "endUndoGrouping() was called without beginUndoGrouping().")
        closeGroup()
    }

    /// Registers what takes a change back. While undoing it is what does it again.
    ///
    /// The target is not retained; if it has gone the action is skipped.
    public func registerUndo<Target: AnyObject>(
        withTarget target: Target, handler: @escaping (Target) -> Void
    ) {
        guard isUndoRegistrationEnabled else { return }
        if openGroups.isEmpty {
            precondition(
                groupsByEvent,
                "registerUndo was called outside a group while groupsByEvent is false.")
            openEventGroup()
        }
        openGroups[openGroups.count - 1].actions.append { [weak target] in
            if let target { handler(target) }
        }
        if !isUndoing && !isRedoing { redoStack.removeAll() }
    }

    /// Takes back the last group of changes, or does nothing if there is none.
    public func undo() {
        endEvent?()
        closeEventGroup()
        precondition(openGroups.isEmpty, "undo() was called inside a group; end it first.")
        guard let group = undoStack.popLast() else { return }
        isUndoing = true
        perform(group)
        isUndoing = false
        didChange?(.undone)
    }

    /// Does the last group that was undone again, or nothing if there is none.
    public func redo() {
        endEvent?()
        closeEventGroup()
        precondition(openGroups.isEmpty, "redo() was called inside a group; end it first.")
        guard let group = redoStack.popLast() else { return }
        isRedoing = true
        perform(group)
        isRedoing = false
        didChange?(.redone)
    }

    /// Forgets everything that could be undone or redone.
    public func removeAllActions() {
        undoStack.removeAll()
        redoStack.removeAll()
        for group in openGroups { group.actions.removeAll() }
    }

    /// Closes the group of the user event, if one is open and no other is inside it.
    func closeEventGroup() {
        guard eventGroupIsOpen, openGroups.count == 1, !isUndoing, !isRedoing else { return }
        eventGroupIsOpen = false
        closeGroup()
    }

    private func openEventGroup() {
        eventGroupIsOpen = true
        openGroups.append(Group())
    }

    private func perform(_ group: Group) {
        let reverse = Group()
        reverse.name = group.name
        openGroups.append(reverse)
        for action in group.actions.reversed() { action() }
        closeGroup()
    }

    private func closeGroup() {
        guard let group = openGroups.popLast(), !group.actions.isEmpty else { return }
        if let outer = openGroups.last {
            outer.actions += group.actions
            if outer.name.isEmpty { outer.name = group.name }
        } else if isUndoing {
            redoStack.append(group)
        } else {
            undoStack.append(group)
            discardOldGroups()
            if !isRedoing { didChange?(.closedGroup) }
        }
    }

    private func discardOldGroups() {
        guard levelsOfUndo > 0 else { return }
        undoStack.removeFirst(max(0, undoStack.count - levelsOfUndo))
        redoStack.removeFirst(max(0, redoStack.count - levelsOfUndo))
    }
}

@available(*, unavailable, message: "An UndoManager is used on its context's queue.")
extension UndoManager: Sendable {}
