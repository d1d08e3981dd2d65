internal import OrderedCollections

/// What a parent does about changes of a child that do not fit what has happened in the parent meanwhile.
///
/// Properties changed on both sides become what the child says. Objects that the parent has deleted, or that it has
/// newly connected with what the child deletes, are conflicts: the child's save is as if the parent were a store.
extension ManagedObjectContext {
    /// Checks the changes of a child before they are taken over. Looks at objects that are here only.
    ///
    /// - Throws: ``QuireError`` with ``SaveConflicts``.
    func checkChanges(ofChild changes: ChangeSet) throws {
        checkQueue()
        if !identityMap.isEmpty { try ChildChangeCheck(context: self, changes: changes).run() }
    }

    /// Before a child's change sets a to-one relationship that has come to lead elsewhere here than the child knows:
    /// leaves the object there, whose relationship the child does not change.
    func leaveOtherPartner(of object: ManagedObject, _ slot: Int, before new: AttributeValue) {
        guard object.entity.storages[slot] == .reference,
            let index = object.entity.slots[slot].relationshipIndex,
            let inverse = layout.inverse(of: object.entity.relationships[index]),
            let edits = object.edits, edits.changed.contains(slot),
            case .objectID(let old) = edits.values[slot], .objectID(old) != new
        else { return }
        detach(object, from: self.object(with: old), inverse)
    }
}

private struct ChildChangeCheck {
    let context: ManagedObjectContext
    let changes: ChangeSet
    private let deleted: Set<UInt64>
    private let inserted: Set<UInt64>

    init(context: ManagedObjectContext, changes: ChangeSet) {
        self.context = context
        self.changes = changes
        deleted = Set(changes.deleted.map(\.objectID.bits))
        inserted = Set(changes.inserted.map(\.objectID.bits))
    }

    func run() throws {
        var conflicts = SaveConflicts()
        var seen: Set<UInt64> = []
        func add(_ id: ManagedObjectID, _ change: ObjectConflict.Change) throws {
            guard seen.insert(id.bits).inserted else { return }
            conflicts.objects.append(
                ObjectConflict(objectID: id, change: change, current: try context.row(for: id)))
        }
        for change in changes.updated where isGone(change.objectID) {
            try add(change.objectID, .update)
        }
        for change in changes.updated {
            for id in references(of: change) where isGone(id) { try add(id, .reference) }
        }
        for change in changes.inserted {
            for id in references(of: change) where isGone(id) { try add(id, .reference) }
        }
        for deletion in changes.deleted where isNewlyReferenced(deletion.objectID) {
            try add(deletion.objectID, .deletion)
        }
        if !conflicts.isEmpty { throw conflicts.error(file: nil) }
    }

    /// Whether an object was deleted here, and the child does not know.
    private func isGone(_ id: ManagedObjectID) -> Bool {
        guard let object = context.identityMap.find(id.bits) else { return false }
        return !object.state.contains(.live) && !inserted.contains(id.bits)
            && !deleted.contains(id.bits)
    }

    private func references(of change: ObjectChange) -> [ManagedObjectID] {
        var result: [ManagedObjectID] = []
        for slot in change.entity.identifierSlots where change.changedSlots.contains(slot) {
            if change.entity.storages[slot] == .reference,
                case .objectID(let id) = change.values[slot]
            {
                result.append(id)
            }
        }
        for toMany in change.toManyChanges { result += toMany.added }
        return result
    }

    /// Whether something refers to an object by a change made here that the child does not know.
    private func isNewlyReferenced(_ id: ManagedObjectID) -> Bool {
        guard let object = context.identityMap.find(id.bits), object.state.contains(.live),
            let edits = object.edits, edits.hasChanges
        else { return false }
        return object.entity.relationships.contains { relationship in
            guard relationship.description.deleteRule != .noAction,
                let slot = context.layout.inverse(of: relationship)?.slot
            else { return false }
            var partners: [ManagedObjectID] = []
            if let index = relationship.toManyIndex {
                partners = object.toManyState(index).added.elements
            } else if let own = relationship.slot, edits.changed.contains(own) {
                partners = object.objectID(at: own).map { [$0] } ?? []
            }
            return partners.contains { partner in
                guard !deleted.contains(partner.bits),
                    let other = context.identityMap.find(partner.bits),
                    other.state.contains(.live), other.objectID(at: slot) == id
                else { return false }
                return !changes.updated.contains {
                    $0.objectID == partner && $0.changedSlots.contains(slot)
                }
            }
        }
    }
}
