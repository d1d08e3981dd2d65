internal import OrderedCollections

/// What has changed, and from what. Of stored properties only: transient ones make ``hasChanges`` true, but are
/// not in any of these. Elements of composite attributes count by their dotted names. A value that is kept in a file is
/// given as ``AttributeValue/external(_:)``, unread.
extension ManagedObject {
    /// Whether a stored value or relationship differs from what was saved.
    ///
    /// Unlike ``hasChanges`` it is false again once a value was set back by hand. Of a new object it says whether
    /// anything differs from its default values.
    ///
    /// - Complexity: O(*n*) in the object's properties; reads no relationship.
    public final var hasPersistentChangedValues: Bool {
        guard let edits else { return false }
        return entity.slots.contains { isChanged($0, edits) }
            || edits.toMany.indices.contains { isChanged(toMany: $0, edits) }
    }

    /// The new values of the properties that differ from what was saved, by name.
    ///
    /// A value that was set back by hand is not among them. Of a new object they are those that differ from its
    /// default values.
    ///
    /// - Complexity: O(*n*) in the object's properties and the contents of its changed relationships.
    public final func changedValues() -> [String: PropertyValue] {
        guard let edits else { return [:] }
        var changes: [String: PropertyValue] = [:]
        for slot in entity.slots where isChanged(slot, edits) {
            changes[slot.name] = .value(edits.values[slot.index])
        }
        for index in edits.toMany.indices where isChanged(toMany: index, edits) {
            let relationship = toManyRelationship(index)
            changes[relationship.name] = .objectIDs(members(of: relationship).elements)
        }
        return changes
    }

    /// The values that properties had before the present user event changed them, by name.
    ///
    /// Of an object that the event has made, those of a new object: its default values and no other objects.
    public final func changedValuesForCurrentEvent() -> [String: PropertyValue] {
        guard state.contains(.inEvent), let edits else { return [:] }
        let isNew = !state.contains(.wasLive)
        var changes: [String: PropertyValue] = [:]
        for slot in entity.slots where slot.isStored && edits.own.contains(slot.index) {
            let before: AttributeValue
            if !isNew, let base = edits.eventBase {
                before =
                    base.own.contains(slot.index)
                    ? base.values[slot.index] : rowValue(at: slot.index)
            } else {
                before = savedValue(at: slot.index)
            }
            if !before.isSame(as: edits.values[slot.index]) { changes[slot.name] = .value(before) }
        }
        for index in edits.toMany.indices {
            let relationship = toManyRelationship(index)
            if relationship.description.isTransient { continue }
            if isNew {
                if edits.toMany[index].hasChanges { changes[relationship.name] = .objectIDs([]) }
            } else if edits.eventSteps.contains(where: { $0.toMany == index }) {
                let now = members(of: relationship)
                var before = edits.eventSteps.contents(of: index, before: now)
                if let order = edits.toMany[index].committedOrder,
                    edits.eventSteps.includesRemovalFromFault(of: index)
                {
                    before = OrderedSet(order.filter(before.contains)).union(before)
                }
                if before != now { changes[relationship.name] = .objectIDs(before.elements) }
            }
        }
        return changes
    }

    /// The values that properties had when the object was read or last saved, by name. A new object has none:
    /// they are missing, and its relationships empty.
    ///
    /// - Parameter keys: The names of stored attributes and relationships. `nil` for all, but of to-many
    ///   relationships only those that have been read.
    /// - Throws: ``QuireError`` with code `unknownKey` if a key names neither.
    public final func committedValues(forKeys keys: [String]?) throws -> [String: PropertyValue] {
        realize()
        var values: [String: PropertyValue] = [:]
        let isNew = !state.contains(.persisted)
        func add(_ slot: EntityLayout.Slot) {
            values[slot.name] = .value(isNew ? .null : savedValue(at: slot.index))
        }
        func add(_ relationship: EntityLayout.Relationship) {
            values[relationship.name] = .objectIDs(isNew ? [] : savedMembers(of: relationship))
        }
        guard let keys else {
            for slot in entity.slots where slot.isStored { add(slot) }
            for index in entity.toManyRelationships.indices
            where isNew || toManyState(index).members != nil {
                add(toManyRelationship(index))
            }
            return values
        }
        for key in keys {
            switch try property(key) {
            case .attribute(let slot) where entity.slots[slot].isStored: add(entity.slots[slot])
            case .composite(let slots): for slot in entity.slots[slots] { add(slot) }
            case .relationship(let index):
                let relationship = entity.relationships[index]
                if let slot = relationship.slot {
                    add(entity.slots[slot])
                } else {
                    add(relationship)
                }
            case .attribute, .fetched:
                throw QuireError(
                    .unknownKey, "“\(key)” of \(entity.name) is not stored, so it was never saved.",
                    subject: .init(entity: entity.name, property: key))
            }
        }
        return values
    }

    // MARK: Comparing

    private final func isChanged(_ slot: EntityLayout.Slot, _ edits: ObjectEdits) -> Bool {
        slot.isStored && edits.changed.contains(slot.index)
            && !edits.values[slot.index].isSame(as: savedValue(at: slot.index))
    }

    private final func isChanged(toMany index: Int, _ edits: ObjectEdits) -> Bool {
        edits.toMany[index].hasChanges && !toManyRelationship(index).description.isTransient
    }

    /// The value a slot had when the object was read or last saved; of a new object, its default value.
    final func savedValue(at slot: Int) -> AttributeValue {
        if !state.contains(.persisted) && chunk == nil { return entity.defaultValues[slot] }
        if let edits {
            if let derived = edits.savedDerived.first(where: { $0.slot == slot }) {
                return derived.value ?? rowValue(at: slot)
            }
            if let committed = edits.committed {
                if committed.own.contains(slot) { return committed.values[slot] }
            } else if edits.own.contains(slot) {
                return edits.values[slot]
            }
        }
        return rowValue(at: slot)
    }

    /// The value that the object's row has in a slot.
    private final func rowValue(at slot: Int) -> AttributeValue {
        guard let chunk, entity.slots[slot].isStored else { return .null }
        do {
            return try PackedRow(chunk: chunk, offset: Int(rowOffset))
                .heldValue(of: entity.slots[slot], in: entity, store: rowIdentity)
        } catch {
            context?.reportFault(error)
            return .null
        }
    }

    private final func savedMembers(
        of relationship: EntityLayout.Relationship
    ) -> [ManagedObjectID] {
        guard let index = relationship.toManyIndex else { return [] }
        let members = members(of: relationship)
        let state = toManyState(index)
        if let order = state.committedOrder { return order.elements }
        return (members.elements + state.removed.elements).filter { state.isSaved($0) == true }
    }

    final func toManyRelationship(_ index: Int) -> EntityLayout.Relationship {
        entity.relationships[entity.toManyRelationships[index]]
    }
}
