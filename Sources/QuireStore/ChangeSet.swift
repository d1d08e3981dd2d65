package import Foundation
public import QuireModel
package import QuireQuery
internal import QuireSystem

/// The content of a save: values and identifiers, never objects.
///
/// All identifiers are permanent. Both sides of every changed relationship are in the set: a to-one side
/// among the slots, a to-many side in ``ObjectChange/toManyChanges``.
public struct ChangeSet: Sendable {
    /// New objects. All their slots are in ``ObjectChange/changedSlots``.
    public var inserted: [ObjectChange] = []
    /// Objects with changed values or relationships.
    public var updated: [ObjectChange] = []
    /// Deleted objects.
    public var deleted: [ObjectDeletion] = []
    /// Texts to record under keys in the same transaction; `nil` removes one. Documents keep state here that must be
    /// consistent with the rows.
    public var records: [String: String?] = [:]
    /// The author of the save, for persistent history.
    package var origin = TransactionOrigin()
    /// The number of the child context whose changes these are.
    package var child: UInt32 = 0

    /// An empty set.
    public init() {}

    /// Whether the change set is empty.
    public var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && records.isEmpty
    }
}

/// A new or changed object. A copy shares its contents, until one of the two changes them.
public struct ObjectChange: Sendable {
    @usableFromInline var contents: Contents

    /// Describes a change.
    @inlinable
    public init(
        objectID: ManagedObjectID, entity: ResolvedEntity, version: UInt32,
        values: ContiguousArray<AttributeValue>, changedSlots: SlotMask,
        toManyChanges: [ToManyChange] = [], base: ObjectSnapshot? = nil
    ) {
        contents = Contents(
            objectID, entity, version, values, changedSlots, toManyChanges, base, nil)
    }

    /// The contents for a change of them.
    @inlinable var ownContents: Contents {
        mutating get {
            if !isKnownUniquelyReferenced(&contents) { contents = contents.copy() }
            return contents
        }
    }

    /// The object.
    @inlinable public var objectID: ManagedObjectID {
        _read { yield contents.objectID }
        _modify { yield &ownContents.objectID }
    }
    /// Its entity.
    @inlinable public var entity: ResolvedEntity {
        _read { yield contents.entity }
        _modify { yield &ownContents.entity }
    }
    /// The version it had when it was read; 0 for a new object.
    @inlinable public var version: UInt32 {
        _read { yield contents.version }
        _modify { yield &ownContents.version }
    }
    /// Values by slot. Only those in ``changedSlots`` are meaningful.
    @inlinable public var values: ContiguousArray<AttributeValue> {
        _read { yield contents.values }
        _modify { yield &ownContents.values }
    }
    /// The slots to write.
    @inlinable public var changedSlots: SlotMask {
        _read { yield contents.changedSlots }
        _modify { yield &ownContents.changedSlots }
    }
    /// Changed to-many relationships.
    @inlinable public var toManyChanges: [ToManyChange] {
        _read { yield contents.toManyChanges }
        _modify { yield &ownContents.toManyChanges }
    }
    /// The base snapshot of the object, if known without fetching.
    @inlinable public var base: ObjectSnapshot? {
        _read { yield contents.base }
        _modify { yield &ownContents.base }
    }
    /// The base values, if they are not a row.
    @inlinable package var savedValues: SavedValues? {
        _read { yield contents.savedValues }
        _modify { yield &ownContents.savedValues }
    }
}

extension ObjectChange {
    // Unchecked, because it is only changed while one value has it. Exclusivity is that of the value.
    @usableFromInline final class Contents: @unchecked Sendable {
        @exclusivity(unchecked) @usableFromInline var objectID: ManagedObjectID
        @exclusivity(unchecked) @usableFromInline var entity: ResolvedEntity
        @exclusivity(unchecked) @usableFromInline var version: UInt32
        @exclusivity(unchecked) @usableFromInline var values: ContiguousArray<AttributeValue>
        @exclusivity(unchecked) @usableFromInline var changedSlots: SlotMask
        @exclusivity(unchecked) @usableFromInline var toManyChanges: [ToManyChange]
        @exclusivity(unchecked) @usableFromInline var base: ObjectSnapshot?
        @exclusivity(unchecked) @usableFromInline var savedValues: SavedValues?

        @inlinable init(
            _ objectID: ManagedObjectID, _ entity: ResolvedEntity, _ version: UInt32,
            _ values: ContiguousArray<AttributeValue>, _ changedSlots: SlotMask,
            _ toManyChanges: [ToManyChange], _ base: ObjectSnapshot?, _ savedValues: SavedValues?
        ) {
            self.objectID = objectID
            self.entity = entity
            self.version = version
            self.values = values
            self.changedSlots = changedSlots
            self.toManyChanges = toManyChanges
            self.base = base
            self.savedValues = savedValues
        }

        @usableFromInline func copy() -> Contents {
            Contents(
                objectID, entity, version, values, changedSlots, toManyChanges, base, savedValues)
        }
    }
}

extension ObjectChange {
    /// The version of the base snapshot; 0 if the base is not a stored row, `nil` if there is no base.
    @inlinable package var baseVersion: UInt32? { base?.version ?? savedValues.map { _ in 0 } }

    /// Whether the object's own row is written and its version incremented: if a value changed, or the order of a to-many
    /// relationship. Members added to or removed from an unordered to-many relationship are recorded elsewhere, so two
    /// contexts can add members without a conflict.
    @inlinable public var writesRow: Bool {
        !changedSlots.isEmpty || toManyChanges.contains { $0.order != nil }
    }
}

extension ObjectChange {
    /// Describes an update of a stored object that changes nothing yet.
    package init(updating row: ObjectSnapshot) {
        self.init(
            objectID: row.objectID, entity: row.entity, version: row.version,
            values: ContiguousArray(repeating: .null, count: row.entity.slots.count),
            changedSlots: SlotMask())
    }
}

/// A change of a to-many relationship of one object.
public struct ToManyChange: Sendable, Equatable {
    /// The relationship's position in ``ResolvedEntity/relationships``.
    public var relationshipIndex: Int
    /// The added objects.
    public var added: [ManagedObjectID]
    /// The removed objects, including deleted ones.
    public var removed: [ManagedObjectID]
    /// For an ordered relationship, all members in their new order; `nil` if added members are appended and the rest keep
    /// their order.
    public var order: [ManagedObjectID]?
    /// The order in the ``ObjectChange/base``, for contexts that have not read it.
    package var previousOrder: [ManagedObjectID]?

    /// Describes a change.
    public init(
        relationshipIndex: Int, added: [ManagedObjectID], removed: [ManagedObjectID],
        order: [ManagedObjectID]? = nil
    ) {
        self.relationshipIndex = relationshipIndex
        self.added = added
        self.removed = removed
        self.order = order
    }
}

/// A deleted object.
public struct ObjectDeletion: Sendable {
    /// The object.
    public var objectID: ManagedObjectID
    /// The version when it was read; `nil` if it was not read; then it is deleted without an optimistic lock.
    public var version: UInt32?

    /// Describes a deletion.
    public init(objectID: ManagedObjectID, version: UInt32?) {
        self.objectID = objectID
        self.version = version
    }
}

// MARK: - External data

extension ChangeSet {
    /// A copy for a store without external data: with inline values.
    package func loadingExternalData(for store: any PersistentStore) throws -> ChangeSet {
        if store.capabilities.contains(.externalData) { return self }
        var changes = self
        for index in changes.inserted.indices { try changes.inserted[index].loadExternalData() }
        for index in changes.updated.indices { try changes.updated[index].loadExternalData() }
        return changes
    }
}

extension ObjectChange {
    fileprivate mutating func loadExternalData() throws {
        for slot in entity.slots where slot.isExternalCapable {
            if case .external(let data) = values[slot.index] {
                values[slot.index] = .binary(try data.data())
            }
        }
    }
}

// MARK: - Saved values

/// Base values of a change that are not a stored row: the context has saved the object to its parent since it was read.
@usableFromInline
package struct SavedValues: Sendable {
    /// The row as it was read.
    @usableFromInline package let row: ObjectSnapshot?
    /// Values by slot. Only those in `own` are valid; the rest come from the row.
    @usableFromInline package let values: ContiguousArray<AttributeValue>
    @usableFromInline package let own: SlotMask

    @inlinable
    package init(row: ObjectSnapshot?, values: ContiguousArray<AttributeValue>, own: SlotMask) {
        self.row = row
        self.values = values
        self.own = own
    }

    /// The value of a slot; external data is not loaded.
    package func value(at slot: Int) throws -> AttributeValue {
        own.contains(slot) ? values[slot] : try row?.valueWithoutLoading(at: slot) ?? .null
    }

    /// A row with the values. Its version is 0: the store's is not known.
    package func packed(as change: ObjectChange, layout: ResolvedModel, store: StoreIdentity)
        -> ObjectSnapshot?
    {
        var builder = RowSetBuilder(
            layout: layout, store: store, externalData: UnsavedExternalData(), expectedRows: 1)
        builder.beginRow(change.objectID.bits, entity: change.entity, version: 0)
        for slot in change.entity.slots where slot.isStored {
            // A value that does not fit a row was never saved.
            try? builder.setWithoutLoading(value(at: slot.index), at: slot)
        }
        builder.endRow()
        return builder.finish().first
    }
}

extension RowSetBuilder {
    /// Sets a value of a row that stays in memory: large values are referenced, not copied.
    package mutating func setWithoutLoading(_ value: AttributeValue, at slot: ResolvedEntity.Slot)
        throws
    {
        if case .binary(let data) = value, slot.isExternalCapable,
            data.count > ExternalDataTag.maximumInlineSize
        {
            try set(.external(ExternalData(data)), at: slot)
        } else {
            try set(value, at: slot)
        }
    }
}

// MARK: - Unsaved external data

/// External data of rows that a context builds in memory, in place of a store's files. Retains the values that these rows
/// refer to, saved and unsaved.
package final class UnsavedExternalData: ExternalDataReading {
    private let values = Lock<[String: ExternalData]>([:])

    package init() {}

    /// Retains a value.
    ///
    /// - Returns: The tagged reference to store in the row.
    func hold(_ value: ExternalData) -> Data {
        let name = UUID().uuidString
        values.withLock { $0[name] = value }
        return ExternalDataTag.reference(toFileNamed: name)
    }

    package func data(named name: String) throws -> Data { try externalData(named: name).data() }

    package func externalData(named name: String) throws -> ExternalData {
        guard let value = values.withLock({ $0[name] }) else {
            throw QuireError(.invalidFormat, "The row has no external value named “\(name)”.")
        }
        return value
    }
}
