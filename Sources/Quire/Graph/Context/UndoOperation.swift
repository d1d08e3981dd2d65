internal import OrderedCollections

/// The inverse operation of one primitive change of one object. Every primitive change logs its inverse, so undoing a log, last
/// operation first, writes its redo log.
enum UndoOperation {
    /// Restores the value of a slot.
    case value(ManagedObject, slot: Int, value: AttributeValue)
    /// Inserts an object into a to-many relationship, at its position if that is known.
    case insertMember(ManagedObject, toMany: Int, id: ManagedObjectID, index: Int?)
    /// Removes an object from a to-many relationship.
    case removeMember(ManagedObject, toMany: Int, id: ManagedObjectID)
    /// Restores the order of a to-many relationship.
    case order(ManagedObject, toMany: Int, OrderedSet<ManagedObjectID>)
    /// Inserts or deletes an object.
    case life(ManagedObject, isLive: Bool)

    /// The object.
    var object: ManagedObject {
        switch self {
        case .value(let object, _, _), .insertMember(let object, _, _, _),
            .removeMember(let object, _, _), .order(let object, _, _), .life(let object, _):
            object
        }
    }

    /// The same step of another object.
    func of(_ object: ManagedObject) -> UndoOperation {
        switch self {
        case .value(_, let slot, let value): .value(object, slot: slot, value: value)
        case .insertMember(_, let toMany, let id, let index):
            .insertMember(object, toMany: toMany, id: id, index: index)
        case .removeMember(_, let toMany, let id): .removeMember(object, toMany: toMany, id: id)
        case .order(_, let toMany, let order): .order(object, toMany: toMany, order)
        case .life(_, let isLive): .life(object, isLive: isLive)
        }
    }

    /// The snapshot event passed to the object's awakening.
    var snapshotEvent: SnapshotEvents {
        switch self {
        case .life(_, isLive: true): .undoDeletion
        case .life(_, isLive: false): .undoInsertion
        default: .undoUpdate
        }
    }
}

/// The primitive changes. They log for undo and track the object; inverses are maintained by their callers.
extension ManagedObjectContext {
    func insertMember(
        _ id: ManagedObjectID, into object: ManagedObject,
        _ relationship: ResolvedEntity.Relationship,
        at index: Int? = nil
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        // A position means something only among loaded contents.
        if index != nil || mustRead(object, relationship, takingBack: id, byInsertion: true) {
            _ = object.members(of: relationship)
        }
        let edits = object.editsForRelationships()
        // A member that was removed, or is inserted between others, changes the order.
        if index != nil || edits.toMany[toMany].removed.contains(id) {
            object.realizeForOrder(of: relationship)
        }
        object.announceChange(toMany: toMany)
        relationshipObservations?.note(object, toMany: toMany)
        let recordsStep = object.beginsStep(edits)
        let position = index.map { min($0, edits.toMany[toMany].members?.count ?? $0) }
        guard edits.toMany[toMany].insert(id, at: position, ordered: relationship.isOrdered) else {
            return
        }
        if recordsStep { edits.eventSteps.append(.inserted(toMany: toMany, id)) }
        if logsChanges { log(.removeMember(object, toMany: toMany, id: id)) }
        track(object)
    }

    /// Marks a member as added locally after a merge removed it from the stored set.
    func keepMember(
        _ id: ManagedObjectID, in object: ManagedObject, _ relationship: ResolvedEntity.Relationship
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        let edits = object.editsForRelationships()
        if edits.toMany[toMany].isUnsavedMember(id) { return }
        object.realizeForOrder(of: relationship)
        if !object.isUnsaved { object.announceStateChange() }
        _ = object.beginsStep(edits)
        edits.toMany[toMany].keep(id, ordered: relationship.isOrdered)
        track(object)
    }

    func removeMember(
        _ id: ManagedObjectID, from object: ManagedObject,
        _ relationship: ResolvedEntity.Relationship
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        let edits = object.editsForRelationships()
        // Undo has to know the position.
        if relationship.isOrdered && logsChanges
            || mustRead(object, relationship, takingBack: id, byInsertion: false)
        {
            _ = object.members(of: relationship)
        }
        object.announceChange(toMany: toMany)
        relationshipObservations?.note(object, toMany: toMany)
        let recordsStep = object.beginsStep(edits)
        guard let (index, _) = edits.toMany[toMany].remove(id, ordered: relationship.isOrdered)
        else {
            return
        }
        if recordsStep { edits.eventSteps.append(.removed(toMany: toMany, id, index: index)) }
        if logsChanges {
            log(.insertMember(object, toMany: toMany, id: id, index: index))
        }
        track(object)
    }

    /// Whether the contents of a to-many relationship must be read before an insertion reverts a removal, or vice versa: for
    /// the position in an ordered relationship, or because another context may have saved the same change, so that the two do
    /// not cancel out.
    private func mustRead(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        takingBack id: ManagedObjectID, byInsertion isInsertion: Bool
    ) -> Bool {
        guard let toMany = relationship.toManyIndex, let edits = object.edits,
            !edits.toMany.isEmpty, edits.toMany[toMany].members == nil,
            (isInsertion ? edits.toMany[toMany].removed : edits.toMany[toMany].added).contains(id)
        else { return false }
        if relationship.isOrdered { return true }
        guard let inverse = layout.inverse(of: relationship), let other = identityMap.find(id.bits)
        else { return true }
        var isSaved: Bool?
        if !object.state.contains(.persisted) || !other.state.contains(.persisted) {
            isSaved = false
        } else if let slot = inverse.slot {
            if other.state.contains(.realized) {
                isSaved = other.savedReference(at: slot) == object.objectID
            }
        } else if let index = inverse.toManyIndex {
            isSaved = other.toManyState(index).isSaved(object.objectID)
        }
        return isSaved != isInsertion
    }

    func reorder(
        _ object: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        _ order: OrderedSet<ManagedObjectID>
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        let present = object.members(of: relationship)
        guard present != order, present.count == order.count else { return }
        object.realizeForOrder(of: relationship)
        let edits = object.editsForRelationships()
        if object.beginsStep(edits), !edits.eventSteps.endsWithReordering(of: toMany) {
            edits.eventSteps.append(.reordered(toMany: toMany, from: present))
        }
        object.announceChange(toMany: toMany)
        relationshipObservations?.note(object, toMany: toMany)
        edits.toMany[toMany].reorder(order, ordered: relationship.isOrdered)
        if logsChanges { log(.order(object, toMany: toMany, present)) }
        track(object)
    }

    func setLive(_ isLive: Bool, _ object: ManagedObject) {
        guard object.state.contains(.live) != isLive else { return }
        object.announceLifeChange()
        if isLive {
            object.state.insert(.live)
            object.state.remove(.discarded)
            if !object.state.contains(.persisted) {
                if object.objectID.isTemporaryID { hasTemporaryIDs = true }
                reinsert(object)
            }
        } else {
            object.state.remove(.live)
            if !object.state.contains(.persisted) && layout.hasRelationshipsWithoutInverse {
                deletedUnsaved.append(object)
            }
        }
        if logsChanges { log(.life(object, isLive: !isLive)) }
        track(object, wasLive: !isLive)
    }

    /// Marks an object whose saved deletion is undone as new, with all its values.
    private func reinsert(_ object: ManagedObject) {
        guard let edits = object.edits else { return }
        for index in edits.toMany.indices {
            let members = edits.toMany[index].members ?? []
            edits.toMany[index] = ToManyState(members: members, added: members)
        }
    }

    /// Applies the inverse operations of a log.
    func restore(_ log: UndoLog) {
        let counted = log.counts.differences(to: log.operations)
        let operations = log.operations.map { registered($0.adding(counted)) }
        let previous = undoRequiresInverseRepair ? references(setBy: operations) : []
        for operation in operations.reversed() where isRestorable(operation) { restore(operation) }
        if undoRequiresInverseRepair { repair(operations, previous: previous) }
        let deleted = operations.deletedObjectIDs
        for operation in operations { dropGoneObject(of: operation, ifNotIn: deleted) }
        if layout.hasSubclasses { awakeObjects(restoredBy: operations) }
        processPendingChanges()
    }

    /// The operation with its object replaced by the fault that has superseded it, if there is one; see
    /// ``replaceDiscarded(_:)``. If the operation reinserts the object, the replacement gets the deleted one's contents.
    private func registered(_ operation: UndoOperation) -> UndoOperation {
        let object = operation.object
        guard object.context == nil, object.state.contains(.discarded) else { return operation }
        guard let present = identityMap.find(object.objectID.bits) else {
            object.context = self
            object.state.formUnion(stateOfObjects)
            register(object, for: object.objectID.bits)
            return operation
        }
        if case .life(_, isLive: true) = operation {
            present.realize()
            if !present.state.contains(.live) || present.isInaccessible {
                present.takeContents(of: object)
            }
        }
        return operation.of(present)
    }

    private func awakeObjects(restoredBy operations: [UndoOperation]) {
        var events: OrderedDictionary<ManagedObjectID, SnapshotEvents> = [:]
        for operation in operations.reversed() where operation.object.context === self {
            events[operation.object.objectID, default: []].formUnion(operation.snapshotEvent)
        }
        for (id, events) in events { identityMap.find(id.bits)?.didChange(by: events) }
    }

    /// Whether an operation can be applied: not if the object has left the context by a reset or rollback, nor if its row was
    /// deleted since it was refreshed.
    private func isRestorable(_ operation: UndoOperation) -> Bool {
        let object = operation.object
        guard object.context === self else { return false }
        if case .life = operation { return true }
        if object.state.contains(.persisted) { object.realize() }
        return !object.isInaccessible
    }

    /// Removes an object that an operation has put into a relationship, if it was deleted in the store, by another context, or
    /// here while registration was disabled.
    ///
    /// - Parameter deleted: The objects that the same log deletes.
    private func dropGoneObject(
        of operation: UndoOperation, ifNotIn deleted: Set<ManagedObjectID>
    ) {
        guard isRestorable(operation) else { return }
        switch operation {
        case .value(let object, let slot, _):
            guard let id = identifier(in: object, slot),
                let index = object.resolvedEntity.slots[slot].relationshipIndex
            else { return }
            let relationship = object.resolvedEntity.relationships[index]
            if isMissing(id, from: relationship, of: object, ifNotIn: deleted) {
                object.write(.null, at: slot)
            }
        case .insertMember(let object, let toMany, let id, _):
            let id = permanentIDIfAny(for: id)
            let relationship = relationship(object, toMany)
            if isMissing(id, from: relationship, of: object, ifNotIn: deleted) {
                removeMember(id, from: object, relationship)
            }
        case .life(let object, isLive: true):
            if !object.state.contains(.persisted) { dropOneSidedReferences(of: object) }
        default: break
        }
    }

    /// Clears one-way references of a reinserted object to deleted objects. A new object must not be saved with a dangling
    /// foreign key.
    private func dropOneSidedReferences(of object: ManagedObject) {
        guard layout.hasRelationshipsWithoutInverse else { return }
        for relationship in object.resolvedEntity.relationships
        where layout.inverse(of: relationship) == nil {
            if let slot = relationship.slot {
                if let id = object.reference(at: slot), present(id) == nil {
                    object.write(.null, at: slot)
                }
            } else {
                for id in object.members(of: relationship) where present(id) == nil {
                    removeMember(id, from: object, relationship)
                }
            }
        }
    }

    private func identifier(in object: ManagedObject, _ slot: Int) -> ManagedObjectID? {
        guard object.resolvedEntity.storages[slot] == .reference else { return nil }
        return object.reference(at: slot)
    }

    /// Whether an object is gone, or its deletion, which waits for the save, has cleared such relationships to it. A deleted
    /// object keeps its own.
    private func isMissing(
        _ id: ManagedObjectID, from relationship: ResolvedEntity.Relationship,
        of owner: ManagedObject, ifNotIn deleted: Set<ManagedObjectID>
    ) -> Bool {
        if isGone(id) { return true }
        guard owner.state.contains(.live), !deleted.contains(id),
            let object = identityMap.find(id.bits), !object.state.contains(.live),
            let inverse = layout.inverse(of: relationship)
        else { return false }
        return inverse.description.deleteRule != .noAction
    }

    /// Whether an object's deletion is saved, or its row does not exist.
    func isGone(_ id: ManagedObjectID) -> Bool {
        guard let object = identityMap.find(id.bits) else { return false }
        return object.isInaccessible || object.state.isDisjoint(with: [.live, .persisted])
    }

    private func restore(_ operation: UndoOperation) {
        switch operation {
        case .value(let object, let slot, let value):
            if case .objectID(let id) = value {
                object.write(.objectID(permanentIDIfAny(for: id)), at: slot)
            } else {
                object.write(value, at: slot)
            }
            object.forgetChangeIfCommitted(at: slot)
        case .insertMember(let object, let toMany, let id, let index):
            insertMember(
                permanentIDIfAny(for: id), into: object, relationship(object, toMany), at: index)
        case .removeMember(let object, let toMany, let id):
            removeMember(permanentIDIfAny(for: id), from: object, relationship(object, toMany))
        case .order(let object, let toMany, let order):
            let relationship = relationship(object, toMany)
            let present = object.members(of: relationship)
            // Members added or removed by other contexts since are kept so.
            let order = OrderedSet(order.map(permanentIDIfAny(for:)).filter(present.contains))
            reorder(object, relationship, order.union(present))
        case .life(let object, let isLive):
            setLive(isLive, object)
        }
    }

    private func relationship(
        _ object: ManagedObject, _ toMany: Int
    ) -> ResolvedEntity.Relationship {
        object.resolvedEntity.relationships[object.resolvedEntity.toManyRelationships[toMany]]
    }

    /// The permanent identifier of an ID recorded in an undo log.
    func permanentIDIfAny(for id: ManagedObjectID) -> ManagedObjectID {
        var id = id
        while id.isTemporaryID, let next = undoIdentifiers[id.bits] { id = objectID(bits: next) }
        return id
    }
}

extension [UndoOperation] {
    /// The objects that the operations delete.
    fileprivate var deletedObjectIDs: Set<ManagedObjectID> {
        var ids: Set<ManagedObjectID> = []
        for case .life(let object, isLive: false) in self { ids.insert(object.objectID) }
        return ids
    }
}

extension ManagedObject {
    /// Whether a change of a to-many relationship is kept for ``changedValuesForCurrentEvent()``. It is not for objects
    /// inserted by the event, which may get any number of members.
    @inline(__always)
    fileprivate final func beginsStep(_ edits: ObjectEdits) -> Bool {
        if state.contains(.inEvent) { return state.contains(.wasLive) }
        edits.beginEvent()
        return true
    }

    /// Moves in the values and relationships of another instance with the same identifier.
    fileprivate final func takeContents(of other: ManagedObject) {
        guard other.chunk != nil || other.edits != nil else { return }
        (chunk, rowOffset, version) = (other.chunk, other.rowOffset, other.version)
        edits = other.edits
        (other.chunk, other.edits) = (nil, nil)
        state.insert(.realized)
        state.subtract([.live, .persisted, .inaccessible])
    }

    /// Clears the changed flag of a slot if an undo restored the saved value.
    final func forgetChangeIfCommitted(at slot: Int) {
        guard let edits, edits.committed != nil, edits.changed.contains(slot) else { return }
        if savedValue(at: slot).isSame(as: edits.values[slot]) { edits.changed.remove(slot) }
    }
}
