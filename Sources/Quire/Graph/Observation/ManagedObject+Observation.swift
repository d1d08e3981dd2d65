public import Observation
internal import OrderedCollections

/// Swift's Observation: `withObservationTracking` and `Observations` follow the properties that their closure
/// reads; see ``ManagedObjectContext/isObservable``.
extension ManagedObject: Observable {
    /// The subscript that stands for a property in key paths; see ``ObservedProperty``.
    subscript(observed number: Int) -> Void { () }

    /// Call before a public operation reads a property: checks the queue, if queues are checked, has it noted
    /// that the property is read, if anybody may want to know, and brings it up to date if it is derived.
    @inline(__always)
    final func noteAccess(_ property: @autoclosure () -> ObservedProperty) {
        if state.intersection([.unguarded, .observable, .derives]) != .unguarded {
            recordAccess(property())
        }
    }

    @inline(never)
    private final func recordAccess(_ property: ObservedProperty) {
        willRead()
        if state.contains(.observable) { context?.observation?.access(self, property) }
        if state.contains(.derives), let slot = property.slot, entity.derivedSlots.contains(slot) {
            updateDerivedValue(at: slot)
        }
    }

    /// Tells those who follow a slot that it is about to change, to `value` if that is known. For everything that
    /// changes one, before.
    @inline(__always)
    final func announceChange(at slot: Int, to value: AttributeValue?) {
        if state.contains(.observed) { announceObservedChange(at: slot, to: value) }
    }

    @inline(never)
    private final func announceObservedChange(at slot: Int, to value: AttributeValue?) {
        guard let observation = context?.observation else { return }
        if !isUnsaved { observation.announce(self, .state) }
        if observation.isObserved(self, .slot(slot)), heldValue(at: slot) != value {
            observation.announce(self, .slot(slot))
        }
    }

    /// Tells those who follow a to-many relationship that it is about to change.
    @inline(__always)
    final func announceChange(toMany index: Int) {
        if state.contains(.observed) { announceObservedChange(toMany: index) }
    }

    @inline(never)
    private final func announceObservedChange(toMany index: Int) {
        guard let observation = context?.observation else { return }
        if !isUnsaved { observation.announce(self, .state) }
        observation.announce(self, .toMany(index))
    }

    /// Tells those who follow whether the object is inserted, updated or deleted that this is about to change,
    /// or has just.
    final func announceStateChange() {
        if state.contains(.observed) { context?.observation?.announce(self, .state) }
    }

    /// Tells those who follow any property that the object comes or goes.
    final func announceLifeChange() {
        if state.contains(.observed) { context?.observation?.announceAll(self) }
    }

    /// Tells those who follow changed properties that they go back to what was saved.
    final func announceRollback() {
        guard state.contains(.observed), let observation = context?.observation else { return }
        guard state.contains(.persisted) && state.contains(.live) else {
            return observation.announceAll(self)
        }
        observation.announce(self, .state)
        guard let edits else { return }
        for slot in edits.values.indices where edits.changed.contains(slot) {
            observation.announce(self, .slot(slot))
        }
        for (index, toMany) in edits.toMany.enumerated() where toMany.hasChanges {
            observation.announce(self, .toMany(index))
        }
    }

    /// Tells those who follow properties what changes when the object takes another row, which its changed values
    /// go before. `nil` if that is not known yet, because it becomes a fault.
    final func announceRefresh(to row: ObjectSnapshot?) {
        guard state.contains(.observed), let observation = context?.observation else { return }
        guard let row else { return observation.announceAll(self) }
        // Whoever followed the values was told when it became a fault.
        guard state.contains(.realized) else { return }
        for slot in entity.slots where slot.isStored && edits?.changed.contains(slot.index) != true
        {
            guard observation.isObserved(self, .slot(slot.index)) else { continue }
            if (try? row.heldValue(at: slot.index)) != heldValue(at: slot.index) {
                observation.announce(self, .slot(slot.index))
            }
        }
    }

    /// Tells those who follow attributes what changes when a decision about a conflict is carried out.
    final func announceMerge(_ decision: ConflictDecision, onto row: ObjectSnapshot) {
        guard state.contains(.observed) else { return }
        announceStateChange()
        for slot in entity.slots where slot.isStored {
            if let value = decision.values[slot.index] {
                announceChange(at: slot.index, to: value)
            } else if decision.fate != .keep || !decision.slots.contains(slot.index) {
                announceChange(at: slot.index, to: try? row.heldValue(at: slot.index))
            }
        }
    }

    /// Runs a closure that makes the contents of a to-many relationship others, and tells those who follow it if
    /// they are others then.
    final func announceRefresh(toMany index: Int, _ body: () -> Void) {
        guard state.contains(.observed), let observation = context?.observation,
            observation.isObserved(self, .toMany(index)), let old = toManyState(index).members
        else { return body() }
        body()
        let relationship = entity.relationships[entity.toManyRelationships[index]]
        let new = members(of: relationship)
        // In a relationship without order, only which objects there are counts.
        let isSame =
            relationship.isOrdered ? new == old : new.count == old.count && new.isSubset(of: old)
        if !isSame { observation.announce(self, .toMany(index)) }
    }
}
