/// Undo after merges. A log reverts this context's changes on both sides of each relationship; a later merge may have changed a
/// destination or deleted it.
extension ManagedObjectContext {
    /// The present destinations of to-one relationships that a log is about to set.
    func references(setBy operations: [UndoOperation]) -> [(ManagedObject, Int, ManagedObjectID)] {
        operations.compactMap { operation in
            guard case .value(let object, let slot, _) = operation,
                object.resolvedEntity.storages[slot] == .reference,
                let id = object.reference(at: slot)
            else { return nil }
            return (object, slot, id)
        }
    }

    /// Repairs the inverses of relationships that a log has set.
    func repair(
        _ operations: [UndoOperation], previous: [(ManagedObject, Int, ManagedObjectID)]
    ) {
        for (object, slot, old) in previous where object.reference(at: slot) != old {
            guard let inverse = inverse(of: object, slot) else { continue }
            // The old destination may not be in memory; then only its row refers back.
            let held = self.object(with: old)
            leave(object, old, inverse, wasSaved: object.savedReference(at: slot) == old)
            withExtendedLifetime(held) {}
        }
        for operation in operations {
            switch operation {
            case .value(let object, let slot, _):
                guard object.state.contains(.live),
                    object.resolvedEntity.storages[slot] == .reference,
                    let id = object.reference(at: slot)
                else { continue }
                guard let other = present(id) else {
                    object.write(.null, at: slot)
                    continue
                }
                if let inverse = inverse(of: object, slot) {
                    if let back = inverse.slot {
                        pair(other, back, with: object, slot)
                    } else {
                        insertMember(object.objectID, into: other, inverse)
                    }
                }
            case .insertMember(let object, let toMany, let id, _):
                repair(object, toMany, id)
            case .removeMember(let object, let toMany, let id): repair(object, toMany, id)
            case .life(let object, _):
                if object.state.contains(.live) {
                    repair(object)
                    continue
                }
                // A merge may have related an object to it that was deleted and reinserted here.
                if object.state.contains(.persisted) {
                    object.realize()
                    leaveSavedReferences(of: object)
                }
                for (_, inverse, other) in unsavedReferences(to: object) {
                    detach(object, from: other, inverse)
                }
            case .order: break
            }
        }
    }

    /// Sets the inverse of a one-to-one relationship, and clears the reference of a third object to the destination.
    private func pair(
        _ other: ManagedObject, _ back: Int, with object: ManagedObject, _ slot: Int
    ) {
        guard other.state.contains(.live) else { return object.write(.null, at: slot) }
        let present = other.reference(at: back)
        if present == object.objectID { return }
        if let present {
            let third = self.object(with: present)
            if third.reference(at: slot) == other.objectID { third.write(.null, at: slot) }
        }
        other.write(.objectID(object.objectID), at: back)
    }

    /// Sets the inverse in destinations that exist, and removes those that do not.
    private func repair(_ object: ManagedObject) {
        for relationship in object.resolvedEntity.relationships {
            guard let inverse = layout.inverse(of: relationship) else { continue }
            guard let slot = relationship.slot else {
                guard let toMany = relationship.toManyIndex else { continue }
                for id in object.members(of: relationship) { repair(object, toMany, id) }
                continue
            }
            guard let id = object.reference(at: slot) else { continue }
            guard let other = present(id), other.state.contains(.live) else {
                object.write(.null, at: slot)
                continue
            }
            if let back = inverse.slot {
                if let present = other.reference(at: back) {
                    if present != object.objectID { object.write(.null, at: slot) }
                } else {
                    other.write(.objectID(object.objectID), at: back)
                }
            } else {
                insertMember(object.objectID, into: other, inverse)
            }
        }
    }

    /// Makes membership in a to-many relationship agree with the inverse reference.
    private func repair(_ object: ManagedObject, _ toMany: Int, _ id: ManagedObjectID) {
        guard object.state.contains(.live) else { return }
        let id = permanentIDIfAny(for: id)
        let relationship = object.resolvedEntity.relationships[
            object.resolvedEntity.toManyRelationships[toMany]]
        let isThere = object.members(of: relationship).contains(id)
        let inverse = layout.inverse(of: relationship)
        guard let other = present(id) else {
            if isThere { removeMember(id, from: object, relationship) }
            return
        }
        var belongs = isThere
        if let slot = inverse?.slot {
            belongs =
                other.reference(at: slot) == object.objectID && other.state.contains(.live)
        } else if let inverse {
            guard other.state.contains(.live) else { return }
            let leadsBack = other.members(of: inverse).contains(object.objectID)
            if isThere && !leadsBack {
                insertMember(object.objectID, into: other, inverse)
            } else if leadsBack && !isThere {
                removeMember(object.objectID, from: other, inverse)
            }
        }
        if belongs == isThere { return }
        if belongs {
            insertMember(id, into: object, relationship)
        } else {
            removeMember(id, from: object, relationship)
        }
    }

    private func inverse(of object: ManagedObject, _ slot: Int) -> ResolvedEntity.Relationship? {
        object.resolvedEntity.slots[slot].relationshipIndex.flatMap {
            layout.inverse(of: object.resolvedEntity.relationships[$0])
        }
    }

    /// The object of an identifier, if it exists. It may have been deleted elsewhere while not in memory, so its row is read.
    func present(_ id: ManagedObjectID) -> ManagedObject? {
        let object = self.object(with: id)
        if object.state.contains(.persisted) { object.realize() }
        return isGone(id) ? nil : object
    }
}

// MARK: - Groups

/// One undo step: actions, and groups closed within this one, in the order they were registered.
final class UndoGroup {
    private enum Item {
        case action(target: ObjectIdentifier, () -> Void)
        case group(UndoGroup)
    }

    private var items: [Item] = []
    /// The action name shown in menus.
    var name = ""
    /// Whether it changes nothing that is saved.
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

    /// Whether a closed group is the last item of this one.
    var endsWithGroup: Bool {
        if case .group? = items.last { return true }
        return false
    }

    /// Removes the group that was closed last.
    func popGroup() -> UndoGroup? {
        guard case .group(let group)? = items.popLast() else { return nil }
        return group
    }

    /// Undoes everything, last action first.
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
    /// Registers pending changes; called before undo, redo and the end of a group.
    var registerPending: () -> Void
    /// Ends the user event; called before registration is disabled or enabled, so that one event is all of one kind.
    var endEvent: () -> Void
    /// Whether there is anything to register.
    var hasPending: () -> Bool
    /// Whether the context has not been freed.
    var isAlive: () -> Bool
}
