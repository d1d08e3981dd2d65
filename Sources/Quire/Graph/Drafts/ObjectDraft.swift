internal import QuireStore

/// Unsaved changes of contexts, as a value that survives the process: new, changed and deleted objects, valid or not.
///
/// Entities and properties are stored by name, saved objects by identifier, so a draft can be applied to a store that has
/// been reopened, saved elsewhere, or migrated meanwhile; see ``ManagedObjectContext/apply(_:)-(ObjectDraft)``. Transient and
/// derived values are not included.
///
/// ```swift
/// let bytes = context.makeDraft().encoded()
/// …
/// let omissions = try context.apply(ObjectDraft(decoding: bytes))
/// ```
public struct ObjectDraft: Sendable, Hashable {
    /// An object, either one that was never saved or one of a store.
    enum Reference: Sendable, Hashable {
        /// A new one, by its index among all new objects of the draft.
        case new(Int)
        /// A saved one. The store is `nil` if it was the only one.
        case saved(entity: String, key: Int64, store: String?)
    }

    /// The value of a property.
    enum Value: Sendable, Hashable {
        case attribute(AttributeValue)
        case object(Reference)
    }

    /// The change of a to-many relationship; as ``ToManyChange``.
    struct Members: Sendable, Hashable {
        var name: String
        var added: [Reference] = []
        var removed: [Reference] = []
        var order: [Reference]?

        /// Whether there is no change left: the members added or removed were never saved, and are deleted.
        var isEmpty: Bool { added.isEmpty && removed.isEmpty && order == nil }
    }

    /// A new or changed object.
    struct Change: Sendable, Hashable {
        /// The object; a new one's entity is ``entity``.
        var object: Reference
        var entity: String
        /// The version of the row that was changed; 0 if it is not known, or there was none.
        var version: UInt32 = 0
        var values: [Property] = []
        var members: [Members] = []
    }

    /// A value under its name.
    struct Property: Sendable, Hashable {
        var name: String
        var value: Value
    }

    /// A deleted object.
    struct Deletion: Sendable, Hashable {
        var object: Reference
        /// The version of the row; 0 if it is not known.
        var version: UInt32
    }

    /// The unsaved changes of one context.
    struct Layer: Sendable, Hashable {
        var inserted: [Change] = []
        var updated: [Change] = []
        var deleted: [Deletion] = []

        var isEmpty: Bool { inserted.isEmpty && updated.isEmpty && deleted.isEmpty }
    }

    /// By context, a parent before its child.
    var layers: [Layer] = []

    /// A draft without changes.
    public init() {}

    /// Whether the draft contains no changes.
    public var isEmpty: Bool { layers.isEmpty }
    /// The number of new objects.
    public var insertedCount: Int { layers.reduce(0) { $0 + $1.inserted.count } }
    /// The number of saved objects with changes. One that was changed in a context and in its parent counts twice.
    public var updatedCount: Int { layers.reduce(0) { $0 + $1.updated.count } }
    /// The number of deleted objects.
    public var deletedCount: Int { layers.reduce(0) { $0 + $1.deleted.count } }
}

extension ObjectDraft.Reference: Comparable {
    static func < (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.new(let left), .new(let right)): left < right
        case (.new, .saved): true
        case (.saved, .new): false
        case (.saved(let entity, let key, let store), .saved(let entity2, let key2, let store2)):
            (store ?? "", entity, key) < (store2 ?? "", entity2, key2)
        }
    }
}

// MARK: - Making

extension ObjectDraft {
    /// Creates a draft of the unsaved changes of contexts, a parent's before its child's. The order in which saved objects were
    /// changed is irrelevant.
    ///
    /// - Complexity: O(*n* log *n*) in the changes. May be called on any queue.
    package init(_ changes: [ChangeSet]) {
        var names = ReferenceNames()
        for changes in changes {
            names.add(changes.inserted)
            var layer = Layer()
            layer.inserted = changes.inserted.map { Self.change($0, isNew: true, names) }
            layer.updated = changes.updated.map { Self.change($0, isNew: false, names) }
                .filter { !$0.values.isEmpty || !$0.members.isEmpty }
                .sorted { $0.object < $1.object }
            layer.deleted = changes.deleted.compactMap { deletion in
                names[deletion.objectID].map {
                    Deletion(object: $0, version: deletion.version ?? 0)
                }
            }.sorted { $0.object < $1.object }
            if !layer.isEmpty { layers.append(layer) }
        }
    }

    private static func change(
        _ change: ObjectChange, isNew: Bool, _ names: ReferenceNames
    ) -> Change {
        var result = Change(
            object: names[change.objectID] ?? .new(0), entity: change.entity.name,
            version: isNew ? 0 : change.version)
        for slot in change.entity.slots
        where slot.isStored && !slot.isDerived && change.changedSlots.contains(slot.index) {
            let value = change.values[slot.index]
            if isNew && value.isNull && change.entity.defaultValues[slot.index].isNull { continue }
            switch value {
            case .objectID(let id):
                let value = names[id].map(Value.object) ?? .attribute(.null)
                result.values.append(Property(name: slot.name, value: value))
            default: result.values.append(Property(name: slot.name, value: .attribute(value)))
            }
        }
        for toMany in change.toManyChanges {
            var members = Members(
                name: change.entity.relationships[toMany.relationshipIndex].name,
                added: toMany.added.compactMap { names[$0] },
                removed: toMany.removed.compactMap { names[$0] },
                order: toMany.order.map { $0.compactMap { names[$0] } })
            // A new object has only the members that are added, so it needs no order beside them.
            if isNew, let order = members.order, order.count == members.added.count {
                members.added = order
                members.order = nil
            }
            if !members.isEmpty { result.members.append(members) }
        }
        return result
    }

    /// Finds the references for identifiers.
    private struct ReferenceNames {
        private var numbers: [ManagedObjectID: Int] = [:]
        private var count = 0

        mutating func add(_ inserted: [ObjectChange]) {
            for change in inserted {
                numbers[change.objectID] = count
                count += 1
            }
        }

        /// `nil` for objects neither new here nor saved.
        subscript(id: ManagedObjectID) -> Reference? {
            if let number = numbers[id] { return .new(number) }
            if id.isTemporaryID { return nil }
            return .saved(
                entity: id.entityName, key: id.primaryKey,
                store: id.store.isAlone ? nil : id.storeUUID)
        }
    }
}
