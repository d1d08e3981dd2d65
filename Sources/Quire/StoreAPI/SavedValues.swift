/// What an object was before a change, where that is no row: its context has saved it to a parent since it was read.
struct SavedValues: Sendable {
    /// What was read.
    let row: ObjectSnapshot?
    /// Values by slot. Only those in `own` mean anything; the others are the row's.
    let values: ContiguousArray<AttributeValue>
    let own: SlotMask

    /// The value of a slot; one that is in a file is not read.
    func value(at slot: Int) throws -> AttributeValue {
        own.contains(slot) ? values[slot] : try row?.heldValue(at: slot) ?? .null
    }

    /// A row with the values. Its version is 0: the store's is not known.
    func packed(as change: ObjectChange, layout: ModelLayout, store: StoreIdentity)
        -> ObjectSnapshot?
    {
        var builder = RowSetBuilder(
            layout: layout, store: store, externalData: HeldExternalData(), expectedRows: 1)
        builder.beginRow(change.objectID.bits, entity: change.entity, version: 0)
        for slot in change.entity.slots where slot.isStored {
            // A value that a row cannot hold is none that was saved.
            try? builder.setHeld(value(at: slot.index), at: slot)
        }
        builder.endRow()
        return builder.finish().first
    }
}

extension RowSetBuilder {
    /// Sets a value of a row that goes no further than memory: large ones are held, not copied.
    mutating func setHeld(_ value: AttributeValue, at slot: EntityLayout.Slot) throws {
        if case .binary(let data) = value, slot.isExternalCapable,
            data.count > ExternalDataTag.greatestInlineSize
        {
            try set(.external(ExternalData(data)), at: slot)
        } else {
            try set(value, at: slot)
        }
    }
}
