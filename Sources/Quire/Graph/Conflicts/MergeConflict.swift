internal import OrderedCollections

/// An optimistic-lock failure: an object of a save that was changed or deleted elsewhere since the context read it.
public struct MergeConflict: Sendable {
    /// The object.
    public let objectID: ManagedObjectID
    /// The base version; 0 if the context has not read the object.
    public let oldVersionNumber: UInt32
    /// The present version in the store; 0 if the object was deleted there.
    public let newVersionNumber: UInt32
    /// The object as it would be saved; `nil` if it was deleted here.
    public let objectSnapshot: ConflictSnapshot?
    /// The object as the context has last read or saved it; `nil` if it has not read it.
    public let cachedSnapshot: ConflictSnapshot?
    /// The present values in the store, or the parent context; `nil` if the object was deleted there.
    public let persistedSnapshot: ConflictSnapshot?
    /// The properties changed here. Elements of composite attributes have dotted names.
    public let changedProperties: Set<String>
    /// The properties changed in the store. An ordered relationship is included if both sides have changed it.
    public let propertiesChangedInStore: Set<String>
    /// The conflict as the store has found it.
    let found: ObjectConflict

    /// The error of a save under ``MergePolicy/error``.
    public var error: QuireError {
        let both = changedProperties.intersection(propertiesChangedInStore)
        return found.error(
            properties: (both.isEmpty ? propertiesChangedInStore : both).sorted(), file: nil)
    }
}

/// The values of an object at some time.
public struct ConflictSnapshot: Sendable, Equatable {
    /// Attributes and to-one relationships by name; elements of composite attributes by dotted names.
    public let values: [String: AttributeValue]
    /// The objects of ordered relationships whose order was changed here, by name.
    public let orderedObjectIDs: [String: [ManagedObjectID]]

    /// The value of an attribute, or the destination's identifier of a to-one relationship.
    public subscript(name: String) -> AttributeValue? { values[name] }
}

/// A violation of a uniqueness constraint: objects that share its values.
public struct ConstraintConflict: Sendable {
    /// The entity that declares the constraint.
    public let entityName: String
    /// The properties whose values, taken together, must be unique.
    public let constraint: [String]
    /// The values, in the order of the properties.
    public let constraintValues: [AttributeValue]
    /// The stored object that has the values; `nil` if the conflict is among the objects to be saved.
    public let databaseObjectID: ManagedObjectID?
    /// That object as the store has it.
    public let databaseSnapshot: ConflictSnapshot?
    /// The objects that were to be saved with the values.
    public let conflictingObjectIDs: [ManagedObjectID]
    /// These objects as they would be saved, in the same order.
    public let conflictingSnapshots: [ConflictSnapshot]
    /// The conflict as the store has found it.
    let found: ConstraintViolation

    /// The error of a save under ``MergePolicy/error``.
    public var error: QuireError { QuireError.combining(found.errors(file: nil)) }
}

/// All conflicts of a failed save; the underlying error of the save's error.
struct ConflictDetails: Error {
    let mergeConflicts: [MergeConflict]
    let constraintConflicts: [ConstraintConflict]
}

extension QuireError {
    /// The conflicts that kept a context from saving, if this is the error of its save.
    public var mergeConflicts: [MergeConflict] {
        (underlying as? ConflictDetails)?.mergeConflicts ?? []
    }

    /// The broken uniqueness constraints that kept a context from saving, if this is the error of its save.
    public var constraintConflicts: [ConstraintConflict] {
        (underlying as? ConflictDetails)?.constraintConflicts ?? []
    }
}

// MARK: - Decisions

/// A merge resolution with property names resolved to slots.
struct ResolvedConflict {
    let objectID: ManagedObjectID
    let change: ObjectConflict.Change
    /// The stored row at the last attempt; `nil` if it was deleted.
    let current: ObjectSnapshot?
    let fate: MergeResolution.Fate
    /// The slots that are saved as they are here.
    let slots: SlotMask
    /// The positions of the relationships whose order is saved as it is here.
    let orders: Set<Int>
    /// Values that are neither the context's nor the store's.
    let values: [Int: AttributeValue]
}

extension ManagedObjectContext {
    func decision(
        about conflict: MergeConflict, _ resolution: MergeResolution
    ) throws -> ResolvedConflict {
        let entity = layout.entity(number: conflict.objectID.entityNumber)
        var slots = SlotMask()
        var orders: Set<Int> = []
        for name in resolution.properties {
            if let slot = entity.slot(named: name) {
                slots.insert(slot)
            } else if let relationship = entity.relationship(named: name) {
                orders.insert(relationship.index)
            } else if case .composite(let elements)? = entity.properties[name] {
                for slot in elements { slots.insert(slot) }
            } else {
                throw unknown(name, entity)
            }
        }
        var values: [Int: AttributeValue] = [:]
        for (name, value) in resolution.values {
            guard let slot = entity.slot(named: name), entity.slots[slot].attribute != nil else {
                throw unknown(name, entity)
            }
            values[slot] = try entity.slots[slot].coerce(value, in: entity)
        }
        return ResolvedConflict(
            objectID: conflict.objectID, change: conflict.found.change,
            current: conflict.found.current, fate: resolution.fate, slots: slots, orders: orders,
            values: values)
    }

    private func unknown(_ name: String, _ entity: ResolvedEntity) -> QuireError {
        QuireError(
            .unknownKey,
            "The merge policy decides about “\(name)” of \(entity.name), which has no such property "
                + "or none whose value can be set so.",
            subject: .init(entity: entity.name, property: name))
    }

    // MARK: - Attributes only

    /// Whether only attribute values are in conflict: then no other objects are affected.
    func canMergeInPlace(_ decision: ResolvedConflict) -> Bool {
        let object = object(with: decision.objectID)
        guard decision.change == .update, decision.fate != .delete, let row = decision.current,
            row.entity === object.entity,
            object.state.isSuperset(of: [.live, .persisted, .realized]),
            !object.isInaccessible, let edits = object.edits
        else { return false }
        if edits.toMany.contains(where: { $0.needsOrder }) { return false }
        if decision.fate == .discard && edits.toMany.contains(where: \.hasChanges) { return false }
        return object.entity.slots.allSatisfy { slot in
            slot.storage != .reference || !slot.isStored
                || (try? row.value(at: slot.index)) == object.savedValue(at: slot.index)
                    && (!edits.changed.contains(slot.index)
                        || decision.fate == .keep && decision.slots.contains(slot.index))
        }
    }

    /// Adopts the store's row and keeps changes as resolved.
    func mergeInPlace(_ decision: ResolvedConflict) {
        let object = object(with: decision.objectID)
        guard let row = decision.current, let edits = object.edits else { return }
        object.announceMerge(decision, onto: row)
        let before = edits.values
        let own = edits.own
        let changed = edits.changed
        let present = object.entity.slots.map { slot in
            decision.slots.contains(slot.index) ? object.valueWithoutLoading(at: slot.index) : .null
        }
        for slot in object.entity.slots where slot.isStored {
            edits.own.remove(slot.index)
            edits.changed.remove(slot.index)
        }
        edits.committed = nil
        edits.child = 0
        object.state.remove(.savedHere)
        object.chunk = row.chunk
        object.rowOffset = UInt32(truncatingIfNeeded: row.offset)
        object.version = row.version
        for slot in object.entity.slots {
            let value: AttributeValue
            if let given = decision.values[slot.index] {
                value = given
            } else if decision.fate == .keep && decision.slots.contains(slot.index) && slot.isStored
            {
                value = present[slot.index]
            } else {
                continue
            }
            if !value.isSame(as: object.valueWithoutLoading(at: slot.index)) {
                edits.write(value, at: slot.index, remembersCommitted: true)
            }
        }
        // Transient values never conflict.
        for slot in object.entity.slots where !slot.isStored && own.contains(slot.index) {
            edits.values[slot.index] = before[slot.index]
            if changed.contains(slot.index) && decision.fate == .discard {
                edits.changed.remove(slot.index)
            }
        }
    }
}

extension OrderedSet<ManagedObjectID> {
    /// The same objects, ordered like `order`; each other object follows the one that precedes it here.
    func arranged(like order: some Sequence<ManagedObjectID>) -> OrderedSet<ManagedObjectID> {
        let wanted = OrderedSet(order).intersection(self)
        var followers: [ManagedObjectID?: [ManagedObjectID]] = [:]
        var previous: ManagedObjectID?
        for id in self {
            if wanted.contains(id) {
                previous = id
            } else {
                followers[previous, default: []].append(id)
            }
        }
        var result = OrderedSet(followers[nil] ?? [])
        for id in wanted {
            result.append(id)
            for follower in followers[id] ?? [] { result.append(follower) }
        }
        return result
    }
}
