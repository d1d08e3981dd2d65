/// The rows that the objects of one child's save would have. They are packed when somebody asks for them, by whoever is first.
final class PendingRows: Sendable {
    private let changes: [ObjectChange]
    private let layout: ModelLayout
    private let store: StoreIdentity
    private let packed = Lock<RowSet?>(nil)

    /// - Parameter changes: New objects, and updates with what was seen of the objects before.
    init(_ changes: [ObjectChange], layout: ModelLayout, store: StoreIdentity) {
        self.changes = changes
        self.layout = layout
        self.store = store
    }

    func entity(of objectID: ManagedObjectID) -> EntityLayout {
        layout.entity(number: objectID.entityNumber)
    }

    /// The rows, at the positions of the changes.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a row would be larger than rows can be.
    func rows() throws -> RowSet {
        try packed.withLock { packed in
            if let packed { return packed }
            let rows = try pack()
            packed = rows
            return rows
        }
    }

    private func pack() throws -> RowSet {
        var builder = RowSetBuilder(
            layout: layout, store: store, externalData: HeldExternalData(),
            expectedRows: changes.count)
        builder.reserveCapacity(changes.count)
        for change in changes {
            // With the parent's save the object will be of another version.
            builder.beginRow(change.objectID.bits, entity: change.entity, version: 0)
            for slot in change.entity.slots where slot.isStored {
                let value =
                    change.changedSlots.contains(slot.index)
                    ? change.values[slot.index]
                    : try change.base?.heldValue(at: slot.index)
                        ?? change.savedValues?.value(at: slot.index)
                if let value { try builder.setHeld(value, at: slot) }
            }
            builder.endRow()
        }
        return builder.finish()
    }
}
