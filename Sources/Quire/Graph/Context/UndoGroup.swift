/// What one undo takes back: actions, and groups closed within this one, in the order they were registered.
final class UndoGroup {
    private enum Item {
        case action(target: ObjectIdentifier, () -> Void)
        case group(UndoGroup)
    }

    private var items: [Item] = []
    /// What a menu calls it.
    var name = ""
    /// Whether it changes nothing that is to be saved.
    var isDiscardable = false
    /// The undo manager's position once the group is done.
    var position: UInt64 = 0

    var isEmpty: Bool { items.isEmpty }

    func add(target: ObjectIdentifier, _ action: @escaping () -> Void) {
        items.append(.action(target: target, action))
    }

    func add(_ group: UndoGroup) { items.append(.group(group)) }

    func removeAll() { items.removeAll() }

    /// Removes the actions of a target. Returns whether there were any.
    func remove(_ target: ObjectIdentifier) -> Bool {
        let count = items.count
        var isChanged = false
        items.removeAll { item in
            switch item {
            case .action(let other, _): return other == target
            case .group(let group):
                if group.remove(target) { isChanged = true }
                return group.isEmpty
            }
        }
        return isChanged || items.count != count
    }

    /// Whether nothing was registered since a group was closed within this one.
    var endsWithGroup: Bool {
        if case .group? = items.last { return true }
        return false
    }

    /// Takes out the group that was closed last.
    func popGroup() -> UndoGroup? {
        guard case .group(let group)? = items.popLast() else { return nil }
        return group
    }

    /// Takes everything back, last first.
    func perform() {
        for item in items.reversed() {
            switch item {
            case .action(_, let action): action()
            case .group(let group): group.perform()
            }
        }
    }
}

/// A context that registers changes at the end of its user events.
struct UndoClient {
    /// Registers what was changed but not registered yet; called before undo, redo and the end of a group.
    var registerPending: () -> Void
    /// Ends the user event; called before registration is disabled or enabled, so that one event is all of one kind.
    var endEvent: () -> Void
    /// Whether there is anything to register.
    var hasPending: () -> Bool
    /// Whether the context has not been freed.
    var isAlive: () -> Bool
}
