public import QuireModel

/// What a save writes: values and identifiers, never objects.
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
    /// Texts to record under keys in the same transaction; `nil` removes one. Documents keep here what must
    /// never be from another save than the rows.
    public var records: [String: String?] = [:]
    /// The number of the child context whose changes these are.
    package var child: UInt32 = 0

    /// An empty set.
    public init() {}

    /// Whether there is nothing to write.
    public var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && records.isEmpty
    }
}

/// A new or changed object.
public struct ObjectChange: Sendable {
    /// The object.
    public var objectID: ManagedObjectID
    /// Its entity.
    public var entity: EntityLayout
    /// The version it had when it was read; 0 for a new object.
    public var version: UInt32
    /// Values by slot. Only those in ``changedSlots`` mean anything.
    public var values: ContiguousArray<AttributeValue>
    /// The slots to write.
    public var changedSlots: SlotMask
    /// Changed to-many relationships.
    public var toManyChanges: [ToManyChange]
    /// What the object was before, as far as it is known without asking the store.
    public var base: ObjectSnapshot?
    /// The same, where it is no row.
    package var savedValues: SavedValues?

    /// Describes a change.
    public init(
        objectID: ManagedObjectID, entity: EntityLayout, version: UInt32,
        values: ContiguousArray<AttributeValue>, changedSlots: SlotMask,
        toManyChanges: [ToManyChange] = [], base: ObjectSnapshot? = nil
    ) {
        self.objectID = objectID
        self.entity = entity
        self.version = version
        self.values = values
        self.changedSlots = changedSlots
        self.toManyChanges = toManyChanges
        self.base = base
    }
}

extension ObjectChange {
    /// The version of what is known of the object before; 0 if that is not the store's, `nil` if nothing is known.
    package var baseVersion: UInt32? { base?.version ?? savedValues.map { _ in 0 } }

    /// Whether the object's own row is written and its version goes up: if a value changed, or the order of
    /// a to-many relationship. An object that merely came into or went out of an unordered to-many
    /// relationship of this one is recorded elsewhere, so that two contexts may add to it without a conflict.
    public var writesRow: Bool {
        !changedSlots.isEmpty || toManyChanges.contains { $0.order != nil }
    }
}

/// What happened to a to-many relationship of one object.
public struct ToManyChange: Sendable, Equatable {
    /// The relationship's position in ``EntityLayout/relationships``.
    public var relationshipIndex: Int
    /// The objects that came in.
    public var added: [ManagedObjectID]
    /// The objects that went out; deleted objects among them.
    public var removed: [ManagedObjectID]
    /// For an ordered relationship, all objects in their new order; `nil` if the added ones come last and
    /// nothing else changed place.
    public var order: [ManagedObjectID]?
    /// The order before, for a context that does not know it; it belongs to the ``ObjectChange/base``.
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
    /// The version it had when it was read, or `nil` if it never was, in which case it goes whatever it is.
    public var version: UInt32?

    /// Describes a deletion.
    public init(objectID: ManagedObjectID, version: UInt32?) {
        self.objectID = objectID
        self.version = version
    }
}
