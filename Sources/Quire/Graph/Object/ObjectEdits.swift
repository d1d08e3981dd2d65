internal import QuireStore

/// The values held by a new, changed or saved object beside its row, and the contents of its to-many relationships. An object
/// that was only read has none.
final class ObjectEdits {
    /// Values by slot. Only those in `own` are valid.
    @exclusivity(unchecked) var values: ContiguousArray<AttributeValue>
    /// The slots whose value is in `values` rather than in the object's row.
    @exclusivity(unchecked) var own: SlotMask
    /// The slots changed since the last save.
    @exclusivity(unchecked) var changed = SlotMask()
    /// `values` and `own` as of the last save, while there are changes.
    @exclusivity(unchecked) var committed: (values: ContiguousArray<AttributeValue>, own: SlotMask)?
    /// `values` and `own` as of the beginning of the user event, if there were changes before it. Like
    /// `eventSteps` of the last event in which the object changed.
    @exclusivity(unchecked) var eventBase: (values: ContiguousArray<AttributeValue>, own: SlotMask)?
    /// The user event's changes of to-many relationships, of an object that it has not inserted.
    @exclusivity(unchecked) var eventSteps: [RelationshipEdit] = []
    /// The saved values of derived slots that computed ones override; `nil` for the row's value.
    @exclusivity(unchecked) var savedDerived: [(slot: Int, value: AttributeValue?)] = []
    /// The number of the child that has seen all values as they are here, because it has saved them; 0 for none.
    @exclusivity(unchecked) var child: UInt32 = 0
    /// The child's change that the edits were adopted from, until they are saved.
    @exclusivity(unchecked) private(set) var adopted: ObjectChange?
    /// By position among the to-many relationships. Empty until the first access.
    @exclusivity(unchecked) var toMany: ContiguousArray<ToManyState> = []

    /// The edits of an object with a row.
    init(slotCount: Int) {
        values = ContiguousArray(repeating: .null, count: slotCount)
        own = SlotMask()
    }

    /// The edits of a new object.
    init(defaultValuesOf entity: ResolvedEntity) {
        // Sharing the defaults would only have the first change copy them.
        values = ContiguousArray(repeating: .null, count: entity.storages.count)
        for slot in entity.defaultSlots { values[slot] = entity.defaultValues[slot] }
        own = SlotMask(first: values.count)
    }

    /// The edits of an object with a row, as another context has them: of its attributes only.
    init(adopting change: ObjectChange) {
        values = change.values
        own = change.changedSlots
        changed = change.changedSlots
        committed = (change.values, SlotMask())
        adopted = change
    }

    /// Whether the edits are still those of the change they were adopted from. As this retains the values, a write copies them.
    func areThose(of change: ObjectChange) -> Bool {
        values.withUnsafeBufferPointer { $0.baseAddress }
            == change.values.withUnsafeBufferPointer { $0.baseAddress }
            && changed == change.changedSlots && own == changed && toMany.isEmpty
    }

    var hasChanges: Bool { !changed.isEmpty || toMany.contains { $0.hasChanges } }

    /// Sets a slot and keeps the saved values.
    @inline(__always)
    func write(_ value: AttributeValue, at slot: Int, remembersCommitted: Bool) {
        if remembersCommitted && committed == nil { rememberCommitted() }
        values[slot] = value
        own.insert(slot)
        changed.insert(slot)
        child = 0
    }

    private func rememberCommitted() {
        if !savedDerived.isEmpty { dropComputedValues() }
        committed = (values, own)
    }

    /// Call before the first change of a user event.
    @inline(__always)
    func beginEvent() {
        eventBase = changed.isEmpty ? nil : (values, own)
        if !eventSteps.isEmpty { eventSteps = [] }
    }

    /// Makes the present state the saved one.
    func commit() {
        changed = SlotMask()
        committed = nil
        adopted = nil
        eventBase = nil
        eventSteps = []
        // Computed values may be older than the save; the stored ones are read.
        if !savedDerived.isEmpty { dropComputedValues() }
        for index in toMany.indices { toMany[index].commit() }
    }

    /// Restores the saved state.
    func rollBack() {
        if let committed { (values, own) = committed }
        dropComputedValues()
        child = 0
        changed = SlotMask()
        committed = nil
        adopted = nil
        eventBase = nil
        eventSteps = []
        for index in toMany.indices { toMany[index].rollBack() }
    }

    /// Replaces identifiers of any kind in slots that may hold some, and in to-many relationships.
    func replaceEveryID(in slots: [Int], _ replacement: (ManagedObjectID) -> ManagedObjectID) {
        for slot in slots {
            if case .objectID(let id) = values[slot] { values[slot] = .objectID(replacement(id)) }
        }
        for index in toMany.indices { toMany[index].replaceEveryID(replacement) }
    }

    /// Replaces temporary identifiers in slots that may hold some, and in to-many relationships.
    func replaceIDs(in slots: [Int], _ replacement: (ManagedObjectID) -> ManagedObjectID) {
        for slot in slots {
            if case .objectID(let id) = values[slot], id.isTemporaryID {
                values[slot] = .objectID(replacement(id))
            }
        }
        for index in toMany.indices { toMany[index].replaceIDs(replacement) }
    }
}
