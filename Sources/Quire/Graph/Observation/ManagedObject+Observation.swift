public import Observation

/// Swift's Observation: `withObservationTracking` and `Observations` follow the properties that their closure
/// reads; see ``ManagedObjectContext/isObservable``.
extension ManagedObject: Observable {
    /// The subscript that stands for a property in key paths; see ``ObservedProperty``.
    subscript(observed number: Int) -> Void { () }

    /// Notes that a property is read. For the first line of everything that reads one.
    @inline(__always)
    final func noteAccess(_ property: @autoclosure () -> ObservedProperty) {
        if state.contains(.observable) { recordAccess(property()) }
    }

    @inline(never)
    private final func recordAccess(_ property: ObservedProperty) {
        context?.observation?.access(self, property)
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
        if observation.isObserved(self, .slot(slot)), currentValue(at: slot) != value {
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

    /// Tells those who follow properties what changes when the object takes another row, which its own values
    /// go before. `nil` if that is not known yet, because it becomes a fault.
    final func announceRefresh(to row: ObjectSnapshot?) {
        guard state.contains(.observed), let observation = context?.observation else { return }
        guard let row, row.entity === entity, let old = snapshot else {
            return observation.announceAll(self)
        }
        for slot in entity.slots.indices where edits?.own.contains(slot) != true {
            guard observation.isObserved(self, .slot(slot)) else { continue }
            if (try? old.value(at: slot)) != (try? row.value(at: slot)) {
                observation.announce(self, .slot(slot))
            }
        }
    }

    /// The value of a slot, without being noted as read; missing if it is not there or cannot be read.
    private final func currentValue(at slot: Int) -> AttributeValue {
        let isObservable = state.contains(.observable)
        state.remove(.observable)
        defer { if isObservable { state.insert(.observable) } }
        return value(at: slot)
    }
}
