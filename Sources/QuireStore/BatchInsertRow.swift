package import QuireModel
package import QuireQuery
package import QuireSystem

/// A row of a batch insertion, checked and in the form that a store writes. One serves for all rows of a request.
package struct BatchInsertRow {
    /// The entity of the new objects.
    package let entity: ResolvedEntity
    private let layout: ResolvedModel
    private let store: StoreIdentity
    /// Values by slot: the row's own, and defaults for the rest.
    package private(set) var values: ContiguousArray<AttributeValue>
    /// The slots that the row names.
    package private(set) var given = SlotMask()
    /// Relationships named in the row, with their destinations.
    package private(set) var references:
        [(relationship: ResolvedEntity.Relationship, target: ManagedObjectID)] =
            []

    /// Gets ready for rows of an entity.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it is abstract.
    package init(_ entity: ResolvedEntity, in layout: ResolvedModel, store: StoreIdentity) throws {
        if entity.isAbstract {
            throw QuireError(
                .unsupported,
                "“\(entity.name)” is abstract; insert objects of a sub-entity.",
                entity: entity.name)
        }
        self.entity = entity
        self.layout = layout
        self.store = store
        values = entity.defaultValues
    }

    /// Replaces the current row.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidValue`, `validation` or `unsupported`.
    package mutating func take(_ row: [String: AttributeValue]) throws {
        values = entity.defaultValues
        given = SlotMask()
        references.removeAll(keepingCapacity: true)
        for (key, value) in row {
            switch try entity.requireProperty(key) {
            case .attribute(let slot): try set(value, at: slot)
            case .composite(let slots):
                for element in try entity.elements(of: value, forKey: key, in: slots) {
                    try set(element.value, at: element.slot)
                }
            case .relationship(let index): try set(value, through: entity.relationships[index])
            case .fetched: throw entity.unsettable(key, "is a fetched property")
            }
        }
        for slot in entity.ruledSlots where given.contains(slot.index) {
            try slot.attribute?.validate(values[slot.index], entity: entity.name)
        }
    }

    private mutating func set(_ value: AttributeValue, at index: Int) throws {
        let slot = entity.slots[index]
        try entity.requireSettable(slot)
        values[index] = try slot.coerce(value, in: entity)
        given.insert(index)
    }

    private mutating func set(
        _ value: AttributeValue, through relationship: ResolvedEntity.Relationship
    ) throws {
        let name = relationship.name
        guard let slot = relationship.slot else {
            throw entity.unsettable(
                name, "is to-many: set its inverse, or save objects")
        }
        if relationship.description.isTransient {
            throw entity.unsettable(name, "is transient and not stored")
        }
        var value = value
        switch value {
        case .null:
            if !relationship.description.isOptional { throw required(name) }
        case .objectID(let id):
            if layout.inverse(of: relationship)?.slot != nil {
                throw entity.unsettable(
                    name, "is one-to-one: save objects instead")
            }
            let id = id.current
            let destination = layout.destination(of: relationship)
            guard store.owns(id),
                destination.subtree.contains(id.entityNumber)
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(entity.name).\(name)” must be a saved “\(destination.name)” of the same store, not "
                        + "\(id).",
                    entity: entity.name, property: name, object: id.uriRepresentation)
            }
            references.append((relationship, id))
            value = .objectID(id)
        default:
            throw QuireError(
                .invalidValue,
                "“\(name)” of \(entity.name) is a relationship; \(value) is not an object for it.",
                entity: entity.name, property: name)
        }
        values[slot] = value
        given.insert(slot)
    }

    private func required(_ name: String) -> QuireError {
        QuireError(
            .validation, "“\(entity.name).\(name)” is required but has no object.",
            entity: entity.name, property: name, rule: .required)
    }

    /// The validation error for inserting the row as a new object: required values that are missing. Each given value is
    /// valid.
    package func failureAsNew() -> QuireError? {
        for slot in entity.ruledSlots where !given.contains(slot.index) && slot.isStored {
            if let attribute = slot.attribute {
                do {
                    try attribute.validate(values[slot.index], entity: entity.name)
                } catch {
                    return error as? QuireError
                }
            } else if values[slot.index].isNull {
                return required(slot.name)
            }
        }
        return nil
    }

    // MARK: - Stored objects

    /// Checks that the row's destinations exist.
    ///
    /// - Throws: ``QuireError`` with code `notFound`.
    package func checkReferences(exists: (ManagedObjectID) throws -> Bool) throws {
        for (relationship, target) in references where try !exists(target) {
            throw QuireError(
                .notFound,
                "“\(entity.name).\(relationship.name)” would refer to \(target.shortDescription), which does not exist.",
                entity: entity.name, property: relationship.name, object: target.uriRepresentation)
        }
    }

    /// Sets the values of the stored object that has the row's unique values.
    ///
    /// - Parameter isNull: Whether the object has no value in a slot.
    /// - Returns: Whether the policy sets any.
    /// - Throws: ``QuireError`` with code `constraintConflict` if the object is of another entity: it lacks properties of the
    ///   row's, and would not be found as one.
    package func update(
        _ change: inout ObjectChange, _ policy: MergePolicy.Kind, file: String?,
        isNull: (Int) throws -> Bool
    ) throws -> Bool {
        guard entity.subtree.contains(change.entity.number) else {
            throw QuireError(
                .constraintConflict,
                "\(change.objectID.shortDescription) has the unique values of the row but is not of entity “\(entity.name)”, "
                    + "so the row cannot update it; change the row, or delete the object first.",
                entity: entity.name, object: change.objectID.uriRepresentation, file: file)
        }
        var isSet = false
        // A sub-entity has the same slot indexes.
        for slot in entity.slots where isWritten(slot, policy) {
            if policy == .mergeByPropertyStoreTrump, try !isNull(slot.index) { continue }
            change.values[slot.index] = values[slot.index]
            change.changedSlots.insert(slot.index)
            isSet = true
        }
        return isSet
    }

    private func isWritten(_ slot: ResolvedEntity.Slot, _ policy: MergePolicy.Kind) -> Bool {
        if given.contains(slot.index) { return true }
        return policy == .overwrite && slot.isStored && slot.attribute != nil
            && slot.attribute?.derivationExpression == nil
    }

    /// The error for a row whose unique values belong to two stored objects.
    package func ambiguity(
        _ first: ManagedObjectID, _ second: ManagedObjectID, _ properties: [String], file: String?
    ) -> QuireError {
        QuireError(
            .constraintConflict,
            "\(first.shortDescription) and \(second.shortDescription) each have unique values of the row, so "
                + "the row cannot update either; change the row.",
            entity: entity.name, property: properties.first, object: second.uriRepresentation,
            file: file, relatedObjects: [first.uriRepresentation])
    }
}

extension BatchInsertRequest {
    /// Calls a closure with each row; its errors name the number of the row.
    package func forEachNumberedRow(_ body: ([String: AttributeValue]) throws -> Void) throws {
        var number = 0
        try forEachRow { row in
            number += 1
            do { try body(row) } catch var error as QuireError {
                error.message = "Row \(number): \(error.message)"
                error.subject.position = number
                throw error
            }
        }
    }
}
