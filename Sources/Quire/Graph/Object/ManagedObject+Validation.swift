extension ManagedObject {
    /// Checks the object as a save would if all of it had changed.
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `deleteDenied` for a deleted object.
    public final func validate() throws {
        if isGone { return try validateForDelete() }
        try isNew ? validateForInsert() : throwIfAny(validationFailures(all: true))
    }

    /// What keeps the object from being saved, by the methods of its class, if it has any.
    final func failuresForSaving() -> [QuireError] {
        guard state.contains(.hasHooks) else {
            if isGone { return requireContext().denials(of: self) }
            return isNew
                ? validationFailures(all: true) : isModified ? validationFailures(all: false) : []
        }
        do {
            if isGone {
                try validateForDelete()
            } else if isNew {
                try validateForInsert()
            } else if isModified {
                try validateForUpdate()
            }
            return []
        } catch {
            return failures(from: error)
        }
    }

    final func throwIfAny(_ failures: [QuireError]) throws {
        if failures.isEmpty { return }
        throw QuireError.combining(failures)
    }

    /// What breaks rules: of all properties, or only of the changed ones.
    final func validationFailures(all: Bool) -> [QuireError] {
        var failures: [QuireError] = []
        let asksClass = state.contains(.hasHooks)
        for slot in asksClass ? entity.slots : entity.ruledSlots
        where all || edits?.changed.contains(slot.index) == true {
            // An external value that has not changed need not be read to be checked.
            if slot.isExternalCapable && edits?.own.contains(slot.index) != true { continue }
            do {
                if asksClass {
                    try validateByClass(slot)
                } else {
                    try validate(heldValue(at: slot.index), in: slot)
                }
            } catch {
                failures += self.failures(from: error, property: slot.name)
            }
        }
        for relationship in entity.countedRelationships {
            if all || relationship.toManyIndex.map({ toManyState($0).hasChanges }) == true {
                failures += countFailures(of: relationship)
            }
        }
        return failures
    }

    /// Has the class check a value, and takes over what it makes of it.
    private final func validateByClass(_ slot: EntityLayout.Slot) throws {
        let present = heldValue(at: slot.index)
        var value = present
        try validateValue(&value, forKey: slot.name)
        if value != present { try setPrimitiveValue(value, forKey: slot.name) }
    }

    /// Checks a value for a key against the model, and brings it into the form the attribute keeps.
    final func validateByModel(_ value: inout AttributeValue, forKey key: String) throws {
        let slot: EntityLayout.Slot
        switch try property(key) {
        case .attribute(let index):
            slot = entity.slots[index]
            if !slot.isDerived { value = try slot.coerce(value, in: entity) }
        case .relationship(let index) where entity.relationships[index].slot != nil:
            slot = entity.slots[entity.relationships[index].slot ?? 0]
        default:
            throw QuireError(
                .unknownKey,
                "“\(key)” of \(entity.name) has no single value to validate; validate the object.",
                subject: .init(entity: entity.name, property: key))
        }
        do {
            try validate(value, in: slot)
        } catch {
            throw QuireError.combining(failures(from: error, property: key))
        }
    }

    private final func validate(_ value: AttributeValue, in slot: EntityLayout.Slot) throws {
        if let attribute = slot.attribute {
            try attribute.validate(value, entity: entity.name)
            if !attribute.validationPredicates.isEmpty && !value.isNull {
                try ValidationPredicateTest(object: self, slot: slot, value: value)
                    .check(attribute.validationPredicates)
            }
        } else if let index = slot.relationshipIndex, value.isNull,
            !entity.relationships[index].description.isOptional
        {
            throw failure(.required, "is required but leads to no object", property: slot.name)
        }
    }

    private final func countFailures(of relationship: EntityLayout.Relationship) -> [QuireError] {
        let description = relationship.description
        let count = members(of: relationship).count
        if count == 0 {
            if description.isOptional { return [] }
            return [
                failure(
                    .required, "is required but leads to no object", property: relationship.name)
            ]
        }
        if count < description.minimumCount {
            let text =
                "leads to \(count) objects; at least \(description.minimumCount) are required"
            return [
                failure(.minimumCount, text, property: relationship.name, value: String(count))
            ]
        }
        if description.maximumCount > 0 && count > description.maximumCount {
            let text = "leads to \(count) objects; at most \(description.maximumCount) are allowed"
            return [
                failure(.maximumCount, text, property: relationship.name, value: String(count))
            ]
        }
        return []
    }

    // MARK: Errors

    private final func failure(
        _ rule: QuireError.Rule, _ text: String, property: String, value: String? = nil
    ) -> QuireError {
        QuireError(
            .validation, "“\(property)” of \(objectID.shortDescription) \(text).",
            subject: .init(
                entity: entity.name, property: property, object: objectID.uriRepresentation,
                rule: rule, value: value))
    }

    /// The single failures that an error stands for, each naming the object.
    final func failures(from error: any Error, property: String? = nil) -> [QuireError] {
        guard let error = error as? QuireError else {
            return [
                QuireError(
                    .validation, "\(objectID.shortDescription): \(error)",
                    subject: .init(
                        entity: entity.name, property: property,
                        object: objectID.uriRepresentation, rule: .custom), underlying: error)
            ]
        }
        if !error.failures.isEmpty {
            return error.failures.flatMap { failures(from: $0, property: property) }
        }
        if error.subject.object == objectID.uriRepresentation,
            error.code == .validation || error.code == .deleteDenied
        {
            return [error]
        }
        var failure = error
        failure.message = "\(objectID.shortDescription): \(error.message)"
        failure.subject.entity = error.subject.entity ?? entity.name
        failure.subject.property = error.subject.property ?? property
        failure.subject.object = error.subject.object ?? objectID.uriRepresentation
        failure.subject.rule = error.subject.rule ?? .custom
        if error.code != .validation && error.code != .deleteDenied {
            failure.code = .validation
            failure.underlying = error
        }
        return [failure]
    }
}
