internal import OrderedCollections
internal import QuireStore

extension ManagedObject {
    /// The value of an attribute, or the destination's identifier of a to-one relationship.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names neither, or errors of reading the store or the value's
    ///   file.
    public final func attributeValue(forKey key: String) throws -> AttributeValue {
        if isProbe { return try attributeValue(PropertyProbe.value(key, of: self), forKey: key) }
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let slot): return try readValue(at: slot)
        case .composite(let slots):
            var elements: [String: AttributeValue] = [:]
            for slot in slots {
                let path = resolvedEntity.slots[slot].name.dropFirst(key.count + 1).split(
                    separator: ".")
                Self.set(try readValue(at: slot), at: path[...], in: &elements)
            }
            let composite = AttributeValue.composite(elements)
            return composite.hasElements ? composite : .null
        case .relationship(let index):
            guard let slot = resolvedEntity.relationships[index].slot else {
                throw QuireError(
                    .unknownKey,
                    "“\(key)” of \(resolvedEntity.name) is a to-many relationship, not a value; use objects(“\(key)”).",
                    entity: resolvedEntity.name, property: key)
            }
            return objectID(at: slot).map { .objectID($0) } ?? .null
        case .fetched:
            throw QuireError(
                .unsupported,
                "“\(key)” of \(resolvedEntity.name) is a fetched property; use fetchedObjects(“\(key)”).",
                entity: resolvedEntity.name, property: key)
        }
    }

    /// Sets an attribute, or a to-one relationship's destination by its identifier.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names neither, `invalidValue` if the value is of the wrong
    ///   type, or `notFound` if one of the objects does not exist or was deleted.
    public final func setAttributeValue(_ value: AttributeValue, forKey key: String) throws {
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let slot): try setValue(value, at: slot)
        case .composite(let slots):
            for element in try resolvedEntity.elements(of: value, forKey: key, in: slots) {
                try setValue(element.value, at: element.slot)
            }
        case .relationship(let index):
            let relationship = resolvedEntity.relationships[index]
            if hasLeftContext { throw goneError(key) }
            switch value {
            case .null where !relationship.isToMany: try setObject(nil, through: relationship)
            case .objectID(let id) where !relationship.isToMany:
                try setObject(requireContext().existingObject(with: id), through: relationship)
            default:
                throw QuireError(
                    .invalidValue,
                    "“\(key)” of \(resolvedEntity.name) is a relationship; \(value) is not an object for it.",
                    entity: resolvedEntity.name, property: key)
            }
        case .fetched:
            throw QuireError(
                .invalidValue,
                "“\(key)” of \(resolvedEntity.name) is a fetched property and cannot be set.",
                entity: resolvedEntity.name, property: key)
        }
    }

    private static func set(
        _ value: AttributeValue, at path: ArraySlice<Substring>,
        in elements: inout [String: AttributeValue]
    ) {
        guard let first = path.first.map(String.init) else { return }
        if path.count == 1 {
            elements[first] = value
            return
        }
        var inner: [String: AttributeValue] = [:]
        if case .composite(let existing)? = elements[first] { inner = existing }
        set(value, at: path.dropFirst(), in: &inner)
        elements[first] = .composite(inner)
    }
}

// MARK: - Changes

/// Changed properties and their previous values. Only stored properties are included: transient ones make ``hasChanges`` true,
/// but are in none of these. Elements of composite attributes are listed by dotted names. A value stored in a file is returned
/// as ``AttributeValue/external(_:)``, unread.
extension ManagedObject {
    /// Whether a stored value or relationship differs from the saved one.
    ///
    /// Unlike ``hasChanges`` it is false again once the saved value has been set again. For a new object: whether anything
    /// differs from its default values.
    ///
    /// - Complexity: O(*n*) in the object's properties; reads no relationship.
    public final var hasPersistentChangedValues: Bool {
        guard let edits else { return false }
        return resolvedEntity.slots.indices.contains { isChanged($0, edits) }
            || edits.toMany.indices.contains { isChanged(toMany: $0, edits) }
    }

    /// The new values of the properties that differ from the saved ones, by name.
    ///
    /// A property whose saved value has been set again is not included. For a new object: the values that differ from its
    /// default values.
    ///
    /// - Complexity: O(*n*) in the object's properties and the contents of its changed relationships.
    public final func changedValues() -> [String: PropertyValue] {
        guard let edits else { return [:] }
        var changes: [String: PropertyValue] = [:]
        for slot in resolvedEntity.slots where isChanged(slot.index, edits) {
            changes[slot.name] = .value(edits.values[slot.index])
        }
        for index in edits.toMany.indices where isChanged(toMany: index, edits) {
            let relationship = toManyRelationship(index)
            changes[relationship.name] = .objectIDs(members(of: relationship).elements)
        }
        return changes
    }

    /// The values of properties before the present user event changed them, by name.
    ///
    /// For an object inserted by the event, a new object's: its default values and empty relationships.
    public final func changedValuesForCurrentEvent() -> [String: PropertyValue] {
        guard state.contains(.inEvent), let edits else { return [:] }
        let isNew = !state.contains(.wasLive)
        var changes: [String: PropertyValue] = [:]
        for slot in resolvedEntity.slots where slot.isStored && edits.own.contains(slot.index) {
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
        func add(_ slot: ResolvedEntity.Slot) {
            values[slot.name] = .value(isNew ? .null : savedValue(at: slot.index))
        }
        func add(_ relationship: ResolvedEntity.Relationship) {
            values[relationship.name] = .objectIDs(isNew ? [] : savedMembers(of: relationship))
        }
        guard let keys else {
            for slot in resolvedEntity.slots where slot.isStored { add(slot) }
            for index in resolvedEntity.toManyRelationships.indices
            where isNew || toManyState(index).members != nil {
                add(toManyRelationship(index))
            }
            return values
        }
        for key in keys {
            switch try resolvedEntity.requireProperty(key) {
            case .attribute(let slot) where resolvedEntity.slots[slot].isStored:
                add(resolvedEntity.slots[slot])
            case .composite(let slots): for slot in resolvedEntity.slots[slots] { add(slot) }
            case .relationship(let index):
                let relationship = resolvedEntity.relationships[index]
                if let slot = relationship.slot {
                    add(resolvedEntity.slots[slot])
                } else {
                    add(relationship)
                }
            case .attribute, .fetched:
                throw QuireError(
                    .unknownKey,
                    "“\(key)” of \(resolvedEntity.name) is not stored, so it was never saved.",
                    entity: resolvedEntity.name, property: key)
            }
        }
        return values
    }

    // MARK: Comparing

    private final func isChanged(_ slot: Int, _ edits: ObjectEdits) -> Bool {
        guard edits.changed.contains(slot), resolvedEntity.slots[slot].isStored else {
            return false
        }
        guard let saved = savedValueIfKnown(at: slot) else { return true }
        return !edits.values[slot].isSame(as: saved)
    }

    /// The stored slots that a save writes and a merge keeps: attributes whose value differs from the saved one, and to-one
    /// relationships that were set. One that was set back counts, so that a merge keeps it and its inverse.
    final func persistentChanges(_ edits: ObjectEdits) -> SlotMask {
        var changes = edits.changed.subtracting(resolvedEntity.transientSlots)
        if changes.isEmpty { return changes }
        // By index: a copy of each slot's description would cost more than the comparison.
        for index in resolvedEntity.slots.indices
        where changes.contains(index) && resolvedEntity.slots[index].relationshipIndex == nil
            && !isChanged(index, edits)
        {
            changes.remove(index)
        }
        return changes
    }

    private final func isChanged(toMany index: Int, _ edits: ObjectEdits) -> Bool {
        edits.toMany[index].hasChanges && !toManyRelationship(index).description.isTransient
    }

    /// The value a slot had when the object was read or last saved; of a new object, its default value.
    final func savedValue(at slot: Int) -> AttributeValue { savedValueIfKnown(at: slot) ?? .null }

    /// As ``savedValue(at:)``; `nil` if the value has not been read, or cannot be.
    private final func savedValueIfKnown(at slot: Int) -> AttributeValue? {
        if !state.contains(.persisted) && chunk == nil { return resolvedEntity.defaultValues[slot] }
        if let edits {
            if let derived = edits.savedDerived.first(where: { $0.slot == slot }) {
                return derived.value ?? rowValueIfKnown(at: slot)
            }
            if let committed = edits.committed {
                if committed.own.contains(slot) { return committed.values[slot] }
            } else if edits.own.contains(slot) {
                return edits.values[slot]
            }
        }
        return rowValueIfKnown(at: slot)
    }

    /// The value that the object's row has in a slot.
    private final func rowValue(at slot: Int) -> AttributeValue {
        rowValueIfKnown(at: slot) ?? .null
    }

    private final func rowValueIfKnown(at slot: Int) -> AttributeValue? {
        guard let chunk, resolvedEntity.slots[slot].isStored else { return nil }
        do {
            return try PackedRow(chunk: chunk, offset: Int(rowOffset))
                .valueWithoutLoading(
                    of: resolvedEntity.slots[slot], in: resolvedEntity, store: rowIdentity)
        } catch {
            context?.reportFault(error)
            return nil
        }
    }

    private final func savedMembers(
        of relationship: ResolvedEntity.Relationship
    ) -> [ManagedObjectID] {
        guard let index = relationship.toManyIndex else { return [] }
        let members = members(of: relationship)
        let state = toManyState(index)
        if let order = state.committedOrder { return order.elements }
        return (members.elements + state.removed.elements).filter { state.isSaved($0) == true }
    }

    final func toManyRelationship(_ index: Int) -> ResolvedEntity.Relationship {
        resolvedEntity.relationships[resolvedEntity.toManyRelationships[index]]
    }
}

// MARK: - Primitive values

/// Primitive accessors for subclasses' own accessors and life-cycle methods, and the state of faults.
extension ManagedObject {
    /// The value of a property.
    ///
    /// - Throws: As ``value(forKey:)``, to which it is equal: no accessor is called.
    public final func primitiveValue(forKey key: String) throws -> Any? { try value(forKey: key) }

    /// Sets an attribute so that it is saved, without undo and without notifying observers; ``willSave()`` is not called again
    /// for it.
    ///
    /// Within ``awakeFromInsert()`` it thus sets an initial value. In a custom accessor, call `willChangeValue(forKey:)`
    /// before it, which makes it an ordinary change.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no attribute, or `invalidValue` if the value is of the
    ///   wrong type. Relationships are rejected, because their inverse would not be maintained.
    public final func setPrimitiveValue(_ value: Any?, forKey key: String) throws {
        guard case .attribute(let index) = try resolvedEntity.requireProperty(key) else {
            throw QuireError(
                .unknownKey,
                "“\(key)” of \(resolvedEntity.name) is not a single attribute and has no primitive value to set.",
                entity: resolvedEntity.name, property: key)
        }
        let value = try resolvedEntity.slots[index].coerce(
            attributeValue(value, forKey: key), in: resolvedEntity)
        if hasLeftContext { throw goneError(key) }
        let context = requireContext()
        try context.requireChangeable(self)
        editsForWriting()
            .write(value, at: index, remembersCommitted: state.contains(.persisted))
        context.trackSilently(self)
    }

    /// Call before an accessor reads a primitive value: reads the object if it is a fault. With `nil`, it does only this.
    public final func willAccessValue(forKey key: String?) {
        context?.checkQueue(of: self)
        realize()
    }

    /// Call after an accessor has read a primitive value. Does nothing; it exists for code that calls both.
    public final func didAccessValue(forKey key: String?) {}

    /// Called before an accessor sets a primitive value: registers undo and notifies observers.
    ///
    /// Traps if the key names no property.
    public final func willChangeValue(
        forKey key: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        if hasLeftContext { return }
        let context = requireContext()
        let property: ResolvedEntity.Property
        do { property = try resolvedEntity.requireProperty(key) } catch {
            fatalError("\(error)", file: file, line: line)
        }
        do { try context.requireChangeable(self) } catch { return context.reportFault(error) }
        switch property {
        case .attribute(let slot): willChange(slot, in: context)
        case .composite(let slots): for slot in slots { willChange(slot, in: context) }
        case .relationship, .fetched: break
        }
    }

    /// Call after an accessor has set a primitive value. Does nothing; it exists for code that calls both.
    public final func didChangeValue(forKey key: String) {}

    private final func willChange(_ slot: Int, in context: ManagedObjectContext) {
        if context.logsChanges {
            context.log(.value(self, slot: slot, value: valueWithoutLoading(at: slot)))
        }
        announceChange(at: slot, to: nil)
        let edits = editsForWriting()
        if !state.contains(.inEvent) { edits.beginEvent() }
        context.track(self)
    }

    // MARK: Faults

    /// 0 if the object's values have been read, otherwise nonzero.
    public final var faultingState: UInt { isFault ? 1 : 0 }

    /// Whether a relationship has not been read: the contents of a to-many relationship, or the destination of a to-one
    /// relationship. Reads nothing.
    ///
    /// Traps if the key names no relationship.
    public final func hasFault(
        forRelationshipNamed key: String, file: StaticString = #fileID, line: UInt = #line
    ) -> Bool {
        let relationship = anyRelationship(key, file, line)
        if let index = relationship.toManyIndex {
            return state.contains(.persisted) && toManyState(index).members == nil
        }
        if isFault && edits == nil { return true }
        guard let slot = relationship.slot, let id = objectID(at: slot) else { return false }
        return context?.registeredObject(for: id)?.isFault ?? true
    }

    /// The identifiers of a relationship's destinations, without instantiating objects: at most one if it is to-one, else as in
    /// `objectIDs(_:)`.
    ///
    /// Traps if the key names no relationship.
    public final func objectIDs(
        forRelationshipNamed key: String, file: StaticString = #fileID, line: UInt = #line
    ) -> [ManagedObjectID] {
        let relationship = anyRelationship(key, file, line)
        guard let slot = relationship.slot else { return notedMembers(of: relationship).elements }
        return objectID(at: slot).map { [$0] } ?? []
    }

    private final func anyRelationship(
        _ key: String, _ file: StaticString, _ line: UInt
    ) -> ResolvedEntity.Relationship {
        guard let relationship = resolvedEntity.relationship(named: key) else {
            fatalError(
                "\(resolvedEntity.name) has no relationship “\(key)”.", file: file, line: line)
        }
        return relationship
    }
}

// MARK: - Values of properties

/// The value of a property, as in ``ManagedObject/changedValues()``.
public enum PropertyValue: Sendable, Hashable {
    /// The value of an attribute, or the destination's identifier of a to-one relationship.
    case value(AttributeValue)
    /// The identifiers in a to-many relationship, in its order if it is ordered.
    case objectIDs([ManagedObjectID])
}
