package import QuireModel

/// What an object was before a change, where that is no row: its context has saved it to a parent since it was read.
package struct SavedValues: Sendable {
    /// What was read.
    package let row: ObjectSnapshot?
    /// Values by slot. Only those in `own` mean anything; the others are the row's.
    package let values: ContiguousArray<AttributeValue>
    package let own: SlotMask

    package init(row: ObjectSnapshot?, values: ContiguousArray<AttributeValue>, own: SlotMask) {
        self.row = row
        self.values = values
        self.own = own
    }

    /// The value of a slot; one that is in a file is not read.
    package func value(at slot: Int) throws -> AttributeValue {
        own.contains(slot) ? values[slot] : try row?.heldValue(at: slot) ?? .null
    }

    /// A row with the values. Its version is 0: the store's is not known.
    package func packed(as change: ObjectChange, layout: ModelLayout, store: StoreIdentity)
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
    package mutating func setHeld(_ value: AttributeValue, at slot: EntityLayout.Slot) throws {
        if case .binary(let data) = value, slot.isExternalCapable,
            data.count > ExternalDataTag.greatestInlineSize
        {
            try set(.external(ExternalData(data)), at: slot)
        } else {
            try set(value, at: slot)
        }
    }
}
