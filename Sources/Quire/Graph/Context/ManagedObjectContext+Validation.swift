extension ManagedObjectContext {
    /// Checks what a save would write against the model.
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `deleteDenied` if only deletions are at fault. Each
    ///   failure names the object and the property.
    func validatePendingChanges() throws {
        var failures: [QuireError] = []
        for object in tracked {
            if !object.entity.hasRules && object.state.contains(.live) { continue }
            if object.isDeleted {
                failures += denials(of: object)
            } else if object.isInserted {
                failures += object.validationFailures(all: true)
            } else if object.isUpdated {
                failures += object.validationFailures(all: false)
            }
        }
        if failures.isEmpty { return }
        var error = QuireError.combining(failures)
        if failures.contains(where: { $0.code == .validation }) { error.code = .validation }
        throw error
    }
}

extension ManagedObject {
    /// Checks the object against its model, as a save does.
    ///
    /// - Throws: ``QuireError`` with code `validation`, naming the property and the rule.
    public final func validate() throws {
        let failures = validationFailures(all: true)
        if !failures.isEmpty { throw QuireError.combining(failures) }
    }

    /// What breaks the model's rules: of all properties, or only of the changed ones.
    final func validationFailures(all: Bool) -> [QuireError] {
        var failures: [QuireError] = []
        guard let edits else { return failures }
        for slot in entity.ruledSlots where all || edits.changed.contains(slot.index) {
            if let attribute = slot.attribute {
                // An external value that has not changed need not be read to be checked.
                if slot.isExternalCapable && !edits.own.contains(slot.index) { continue }
                do {
                    try attribute.validate(value(at: slot.index), entity: entity.name)
                } catch {
                    failures.append(failure(error, property: slot.name))
                }
            } else if let index = slot.relationshipIndex {
                let description = entity.relationships[index].description
                if !description.isOptional && objectID(at: slot.index) == nil {
                    failures.append(
                        failure("is required but leads to no object", property: slot.name))
                }
            }
        }
        for relationship in entity.countedRelationships {
            if all || relationship.toManyIndex.map({ toManyState($0).hasChanges }) == true {
                failures += countFailures(of: relationship)
            }
        }
        return failures
    }

    private func countFailures(of relationship: EntityLayout.Relationship) -> [QuireError] {
        let description = relationship.description
        let count = members(of: relationship).count
        if count == 0 {
            return description.isOptional
                ? [] : [failure("is required but leads to no object", property: relationship.name)]
        }
        if count < description.minimumCount {
            let rule =
                "leads to \(count) objects; at least \(description.minimumCount) are required"
            return [failure(rule, property: relationship.name)]
        }
        if description.maximumCount > 0 && count > description.maximumCount {
            let rule = "leads to \(count) objects; at most \(description.maximumCount) are allowed"
            return [failure(rule, property: relationship.name)]
        }
        return []
    }

    private func failure(_ rule: String, property: String) -> QuireError {
        QuireError(
            .validation, "“\(property)” of \(objectID.shortDescription) \(rule).",
            subject: .init(
                entity: entity.name, property: property, object: objectID.uriRepresentation))
    }

    private func failure(_ error: any Error, property: String) -> QuireError {
        let cause = (error as? QuireError)?.message ?? "\(error)"
        return QuireError(
            .validation, "\(objectID.shortDescription): \(cause)",
            subject: .init(
                entity: entity.name, property: property, object: objectID.uriRepresentation),
            underlying: error)
    }
}
