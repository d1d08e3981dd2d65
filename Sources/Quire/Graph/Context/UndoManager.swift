public import Foundation
internal import Synchronization

/// Stacks of undo and redo actions, in groups: Foundation's `UndoManager`, which Linux lacks.
///
/// All actions registered during a user event are one group, which one ``undo()`` reverts. Groups opened with
/// ``beginUndoGrouping()`` nest; a group that spans several events is still undone as one. Used on the queue of its context or
/// document.
///
/// ```swift
/// undoManager.beginUndoGrouping()
/// undoManager.setActionName("Rename")
/// book["title"] = "Emma"
/// undoManager.endUndoGrouping()
/// print(undoManager.undoMenuItemTitle)            // Undo Rename
/// ```
///
/// It posts notifications, such as ``didUndoChangeNotification``, with itself as the object.
public final class UndoManager {
    private var undoStack: [UndoGroup] = []
    private var redoStack: [UndoGroup] = []
    private var openGroups: [UndoGroup] = []
    private var eventGroupIsOpen = false
    /// Whether the user event ended while groups were open inside its group, which is closed when they are.
    private var eventHasEnded = false
    private var disabledCount = 0
    /// The position when nothing more can be undone.
    private var floor = UndoManager.newPosition()
    /// The position while a non-empty group is open.
    private var openPosition = UndoManager.newPosition()
    /// The contexts that register changes.
    var clients: [ObjectIdentifier: UndoClient] = [:]
    /// Called when ``position`` may have changed.
    package var didChange: (() -> Void)?

    /// Creates an undo manager with empty stacks.
    public init() {}

    /// Adds a context, and removes released ones.
    func addClient(_ context: ObjectIdentifier, _ client: UndoClient) {
        clients = clients.filter { $0.value.isAlive() }
        clients[context] = client
    }

    // MARK: State

    /// The maximum number of groups; the oldest are removed. 0 for no maximum.
    public var levelsOfUndo = 0 {
        didSet { discardOldGroups() }
    }
    /// Whether a group is opened for actions registered outside any group.
    public var groupsByEvent = true
    /// Whether an undo is running.
    public private(set) var isUndoing = false
    /// Whether a redo is running.
    public private(set) var isRedoing = false
    /// Whether changes are registered.
    public var isUndoRegistrationEnabled: Bool { disabledCount == 0 }
    /// The number of open groups, including the user event's.
    public var groupingLevel: Int { openGroups.count }
    /// Whether an action can be undone.
    public var canUndo: Bool {
        !undoStack.isEmpty || openGroups.contains { !$0.isEmpty } || hasPending
    }
    /// Whether an action can be redone.
    public var canRedo: Bool { !redoStack.isEmpty && !hasPending }
    /// The number of groups that can be undone, without open ones.
    public var undoCount: Int { undoStack.count }
    /// The number of groups that can be redone.
    public var redoCount: Int { redoStack.count }

    /// Identifies the present state: equal positions are equal states, as far as all changes were registered. Each change in an
    /// open group gets a new position.
    package var position: UInt64 {
        guard hasOpenChanges, let outermost = openGroups.first else { return closedPosition }
        return outermost.isDiscardable ? closedPosition : openPosition
    }

    private var hasOpenChanges: Bool { openGroups.contains { !$0.isEmpty } }

    private var closedPosition: UInt64 { undoStack.last?.position ?? floor }

    private static let positions = Atomic<UInt64>(0)

    private static func newPosition() -> UInt64 {
        positions.wrappingAdd(1, ordering: .relaxed).newValue
    }

    // MARK: Registering

    /// Stops registration until ``enableUndoRegistration()``; calls nest.
    public func disableUndoRegistration() {
        if disabledCount == 0 { for client in clients.values { client.endEvent() } }
        disabledCount += 1
    }

    /// Ends a ``disableUndoRegistration()``.
    public func enableUndoRegistration() {
        precondition(
            disabledCount > 0,
            "enableUndoRegistration() was called without disableUndoRegistration().")
        if disabledCount == 1 { for client in clients.values { client.endEvent() } }
        disabledCount -= 1
    }

    /// Registers an undo action; a redo action during an undo.
    ///
    /// The target is not retained; if it was released the action is skipped. Changes of objects made before are undone after it.
    public func registerUndo<Target: AnyObject>(
        withTarget target: Target, handler: @escaping (Target) -> Void
    ) {
        guard isUndoRegistrationEnabled else { return }
        registerPending()
        register(target, handler)
    }

    /// Registers an action of a client, or one that comes after all pending changes. In the last step, it is a consequence of
    /// that step, and without one it is not undone; what can be redone stays so.
    func register<Target: AnyObject>(
        _ target: Target, inLastStep: Bool = false, _ handler: @escaping (Target) -> Void
    ) {
        guard isUndoRegistrationEnabled else { return }
        let action = { [weak target] in
            if let target { handler(target) }
        }
        if inLastStep {
            let last = openGroups.last { !$0.isEmpty } ?? undoStack.last
            last?.add(target: ObjectIdentifier(target), action)
            return
        }
        if openGroups.isEmpty {
            precondition(
                groupsByEvent,
                "registerUndo was called outside a group while groupsByEvent is false; call beginUndoGrouping() first."
            )
            openEventGroup()
        }
        openGroups[openGroups.count - 1].add(target: ObjectIdentifier(target), action)
        openPosition = Self.newPosition()
        if !isUndoing && !isRedoing { redoStack.removeAll() }
    }

    /// Clears both stacks, and discards the actions of open groups and of the present user event.
    public func removeAllActions() {
        registerPending()
        floor = position
        undoStack.removeAll()
        redoStack.removeAll()
        for group in openGroups { group.removeAll() }
        didChange?()
    }

    /// Removes the actions registered with a target, and groups left empty.
    ///
    /// - Complexity: O(*n*) in registered actions.
    public func removeAllActions(withTarget target: AnyObject) {
        registerPending()
        let target = ObjectIdentifier(target)
        let groups = undoStack + redoStack + openGroups
        // No short-circuit: the target's actions are removed from every group.
        let removed = groups.filter { $0.remove(target) }
        guard !removed.isEmpty else { return }
        let present = position
        undoStack.removeAll(where: \.isEmpty)
        redoStack.removeAll(where: \.isEmpty)
        // The states that undo and redo restore from here on differ from those before.
        floor = Self.newPosition()
        for group in undoStack + redoStack { group.position = Self.newPosition() }
        // Undoing the open groups no longer restores what they have lost.
        let closed = hasOpenChanges ? Self.newPosition() : present
        if let last = undoStack.last { last.position = closed } else { floor = closed }
        didChange?()
    }

    // MARK: Groups

    /// Opens a group. Groups nest; ``undo()`` reverts the outermost one.
    public func beginUndoGrouping() {
        if groupsByEvent && openGroups.isEmpty && !isUndoing && !isRedoing { openEventGroup() }
        if !openGroups.isEmpty {
            // Changes made so far belong to the enclosing group.
            registerPending()
            post(Self.checkpointNotification)
        }
        openGroup()
    }

    /// Closes the group opened last. Closing the outermost one also ends the step, if the user event in which it was opened has
    /// ended: later changes are another step.
    public func endUndoGrouping() {
        registerPending()
        precondition(
            openGroups.count > (eventGroupIsOpen ? 1 : 0),
            "endUndoGrouping() was called without beginUndoGrouping().")
        post(Self.checkpointNotification)
        closeGroup()
        if eventHasEnded { closeEventGroup() }
    }

    /// Closes the group of the user event, if one is open, once no other is inside it.
    func closeEventGroup() {
        guard eventGroupIsOpen, !isUndoing, !isRedoing else { return }
        eventHasEnded = openGroups.count > 1
        if eventHasEnded { return }
        eventGroupIsOpen = false
        closeGroup()
    }

    private func openEventGroup() {
        eventGroupIsOpen = true
        openGroup()
    }

    private func openGroup() {
        openGroups.append(UndoGroup())
        post(Self.didOpenUndoGroupNotification)
    }

    private func closeGroup() {
        guard let group = openGroups.last else { return }
        post(
            Self.willCloseUndoGroupNotification,
            [Self.groupIsDiscardableKey: group.isDiscardable])
        openGroups.removeLast()
        if !group.isEmpty { keep(group) }
        post(Self.didCloseUndoGroupNotification)
        if openGroups.isEmpty { didChange?() }
    }

    private func keep(_ group: UndoGroup) {
        if let outer = openGroups.last {
            outer.add(group)
            if outer.name.isEmpty { outer.name = group.name }
        } else if isUndoing {
            redoStack.append(group)
        } else {
            if !isRedoing {
                group.position = group.isDiscardable ? closedPosition : openPosition
            }
            undoStack.append(group)
            discardOldGroups()
        }
    }

    private func discardOldGroups() {
        guard levelsOfUndo > 0 else { return }
        let surplus = max(0, undoStack.count - levelsOfUndo)
        if surplus > 0 { floor = undoStack[surplus - 1].position }
        undoStack.removeFirst(surplus)
        redoStack.removeFirst(max(0, redoStack.count - levelsOfUndo))
    }

    // MARK: Undo and redo

    /// Undoes the last group of changes, if any.
    ///
    /// An open outermost group is closed first. If others are open inside it, all are closed, and reopened
    /// afterwards so their owners can end them; changes made then are another step.
    public func undo() {
        outsideGroups(for: "undo()") {
            guard let group = undoStack.popLast() else { return }
            let notifications = (Self.willUndoChangeNotification, Self.didUndoChangeNotification)
            perform(group, \.isUndoing, notifications)
        }
    }

    /// Redoes the last undone group, if any. It handles open groups as ``undo()`` does.
    public func redo() {
        outsideGroups(for: "redo()") {
            guard let group = redoStack.popLast() else { return }
            let notifications = (Self.willRedoChangeNotification, Self.didRedoChangeNotification)
            perform(group, \.isRedoing, notifications)
        }
    }

    /// Undoes the last group closed within the open one; same as ``undo()`` if none is open.
    ///
    /// Traps if actions have been registered since that group was closed.
    public func undoNestedGroup() {
        registerPending()
        guard let open = openGroups.last,
            !(eventGroupIsOpen && openGroups.count == 1 && open.isEmpty)
        else { return undo() }
        precondition(
            open.endsWithGroup,
            "undoNestedGroup() was called after an action was registered outside the last closed group."
        )
        guard let group = open.popGroup() else { return }
        // The inverse actions go to the redo stack, not into the open groups.
        let (outer, outerIsEvent) = (openGroups, eventGroupIsOpen)
        (openGroups, eventGroupIsOpen) = ([], false)
        group.position = Self.newPosition()
        let notifications = (Self.willUndoChangeNotification, Self.didUndoChangeNotification)
        perform(group, \.isUndoing, notifications)
        (openGroups, eventGroupIsOpen) = (outer, outerIsEvent)
        openPosition = Self.newPosition()
        didChange?()
    }

    private func outsideGroups(for method: String, _ body: () -> Void) {
        precondition(
            !isUndoing && !isRedoing, "\(method) was called during undo or redo.")
        registerPending()
        post(Self.checkpointNotification)
        let groups = openGroups.count > 1 ? openGroups : []
        let isOfEvent = eventGroupIsOpen && !groups.isEmpty
        eventGroupIsOpen = false
        while !openGroups.isEmpty { closeGroup() }
        body()
        if groups.isEmpty { return }
        eventGroupIsOpen = isOfEvent
        for group in groups {
            openGroup()
            openGroups.last?.name = group.name
            openGroups.last?.isDiscardable = group.isDiscardable
        }
    }

    private func perform(
        _ group: UndoGroup, _ flag: ReferenceWritableKeyPath<UndoManager, Bool>,
        _ notifications: (will: Notification.Name, did: Notification.Name)
    ) {
        post(notifications.will)
        self[keyPath: flag] = true
        let reverse = UndoGroup()
        reverse.name = group.name
        reverse.isDiscardable = group.isDiscardable
        reverse.position = group.position
        openGroups.append(reverse)
        post(Self.didOpenUndoGroupNotification)
        group.perform()
        registerPending()
        closeGroup()
        self[keyPath: flag] = false
        post(notifications.did)
        didChange?()
    }

    // MARK: Names

    /// The action name of the next undo.
    public var undoActionName: String {
        openGroups.first { !$0.isEmpty && !$0.name.isEmpty }?.name ?? undoStack.last?.name ?? ""
    }
    /// The action name of the next redo.
    public var redoActionName: String { redoStack.last?.name ?? "" }
    /// The menu title for ``undo()``: “Undo Rename”.
    public var undoMenuItemTitle: String { undoMenuTitle(forUndoActionName: undoActionName) }
    /// The menu title for ``redo()``: “Redo Rename”.
    public var redoMenuItemTitle: String { redoMenuTitle(forUndoActionName: redoActionName) }

    /// The menu title for undoing a named action.
    public func undoMenuTitle(forUndoActionName name: String) -> String {
        name.isEmpty ? "Undo" : "Undo \(name)"
    }

    /// The menu title for redoing a named action.
    public func redoMenuTitle(forUndoActionName name: String) -> String {
        name.isEmpty ? "Redo" : "Redo \(name)"
    }

    /// Sets the action name of the present group, for a menu; outside any, of the last group.
    public func setActionName(_ name: String) { presentGroup?.name = name }

    /// Marks the actions of the present group as changes that need not be saved, such as a selection; the document does
    /// not become dirty.
    public func setActionIsDiscardable(_ isDiscardable: Bool) {
        registerPending()
        guard let group = presentGroup, group.isDiscardable != isDiscardable else { return }
        group.isDiscardable = isDiscardable
        guard openGroups.isEmpty else { return }
        group.position =
            isDiscardable
            ? undoStack.dropLast().last?.position ?? floor : Self.newPosition()
        didChange?()
    }

    /// Whether the next undo is discardable.
    public var undoActionIsDiscardable: Bool { undoStack.last?.isDiscardable ?? false }
    /// Whether the next redo is discardable.
    public var redoActionIsDiscardable: Bool { redoStack.last?.isDiscardable ?? false }

    private var hasPending: Bool { clients.values.contains { $0.hasPending() } }

    private func registerPending() {
        for client in clients.values { client.registerPending() }
    }

    private var presentGroup: UndoGroup? {
        if openGroups.isEmpty { registerPending() }
        return openGroups.first ?? undoStack.last
    }

    private func post(_ name: Notification.Name, _ userInfo: [AnyHashable: Any]? = nil) {
        NotificationCenter.default.post(name: name, object: self, userInfo: userInfo)
    }
}

@available(*, unavailable, message: "Use an UndoManager only on its context's queue.")
extension UndoManager: Sendable {}

// MARK: - Notifications

/// Notifications posted by an undo manager, with itself as the object, on its queue. The names are Foundation's.
extension UndoManager {
    /// A group is about to be opened or closed within another, or an undo or redo to begin: observers register pending changes
    /// now.
    public static let checkpointNotification =
        Notification.Name("NSUndoManagerCheckpointNotification")
    /// A group was opened.
    public static let didOpenUndoGroupNotification =
        Notification.Name("NSUndoManagerDidOpenUndoGroupNotification")
    /// A group is about to be closed. ``groupIsDiscardableKey`` indicates whether it is discardable.
    public static let willCloseUndoGroupNotification =
        Notification.Name("NSUndoManagerWillCloseUndoGroupNotification")
    /// A group was closed.
    public static let didCloseUndoGroupNotification =
        Notification.Name("NSUndoManagerDidCloseUndoGroupNotification")
    /// A group is about to be undone.
    public static let willUndoChangeNotification =
        Notification.Name("NSUndoManagerWillUndoChangeNotification")
    /// A group was undone.
    public static let didUndoChangeNotification =
        Notification.Name("NSUndoManagerDidUndoChangeNotification")
    /// A group is about to be redone.
    public static let willRedoChangeNotification =
        Notification.Name("NSUndoManagerWillRedoChangeNotification")
    /// A group was redone.
    public static let didRedoChangeNotification =
        Notification.Name("NSUndoManagerDidRedoChangeNotification")
    /// The key under which ``willCloseUndoGroupNotification`` has a Boolean.
    public static let groupIsDiscardableKey = "NSUndoManagerGroupIsDiscardableKey"
}
