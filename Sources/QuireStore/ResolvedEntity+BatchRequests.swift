package import QuireModel
package import QuireQuery
package import QuireSystem

/// Settable properties of batch requests.
extension ResolvedEntity {
    /// Whether a batch request can set an attribute.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if not.
    func requireSettable(_ slot: Slot) throws {
        if slot.attribute?.derivationExpression != nil {
            throw unsettable(slot.name, "is derived and computed by the store")
        }
        if !slot.isStored { throw unsettable(slot.name, "is transient and not stored") }
    }

    package func unsettable(_ key: String, _ reason: String) -> QuireError {
        QuireError(
            .unsupported, "A batch request cannot set “\(name).\(key)”, which \(reason).",
            entity: name, property: key)
    }

    /// The slots that a key sets, with their values.
    fileprivate func assignments(
        of expression: QueryExpression, forKey key: String
    ) throws -> [(Slot, QueryExpression)] {
        let found: [(slot: Int, value: QueryExpression)]
        switch try requireProperty(key) {
        case .attribute(let slot): found = [(slot, expression)]
        case .composite(let slots):
            guard case .constant(let value) = expression else {
                throw unsettable(
                    key,
                    "is a composite attribute, to an expression; use a constant, or specify its elements"
                )
            }
            found = try elements(of: value, forKey: key, in: slots).map {
                ($0.slot, .constant($0.value))
            }
        case .relationship: throw unsettable(key, "is a relationship")
        case .fetched: throw unsettable(key, "is a fetched property")
        }
        return try found.map {
            try requireSettable(slots[$0.slot])
            return (slots[$0.slot], $0.value)
        }
    }
}

extension BatchUpdateRequest {
    /// The entity, and the slots to set with the values in the form that stores compile: constants are of the slot's type,
    /// and valid.
    package func assignments(in layout: ResolvedModel, store: StoreIdentity) throws -> (
        ResolvedEntity, [(slot: ResolvedEntity.Slot, value: QueryExpression)]
    ) {
        let entity = try layout.requireEntity(named: entityName)
        if let (key, type) = unusableTypes.min(by: { $0.key < $1.key }) {
            throw QuireError(
                .invalidValue,
                "A batch update cannot set “\(entity.name).\(key)” to a value of type \(type).",
                entity: entity.name, property: key)
        }
        guard !expressions.isEmpty else {
            throw QuireError(
                .invalidQuery,
                "The batch update of “\(entity.name)” does not specify any properties.",
                entity: entity.name)
        }
        var resolver = PredicateResolver(
            entity: entity, layout: layout, store: store, allowsTransient: false)
        var result: [(slot: ResolvedEntity.Slot, value: QueryExpression)] = []
        for (key, expression) in expressions.sorted(by: { $0.key < $1.key }) {
            for (slot, expression) in try entity.assignments(of: expression, forKey: key) {
                var value = try resolver.batchValue(expression, for: slot)
                if case .constant(let constant) = value {
                    let constant = try slot.coerce(constant, in: entity)
                    try slot.attribute?.validate(constant, entity: entity.name)
                    value = .constant(constant)
                }
                result.append((slot, value))
            }
        }
        return (entity, result)
    }
}

// MARK: - Errors

extension ResolvedEntity.Relationship {
    /// The error of a batch deletion that would clear an object's required reference.
    package func requiredViolation(
        of owner: ManagedObjectID, deleting entity: ResolvedEntity
    ) -> QuireError {
        QuireError(
            .validation,
            "“\(name)” of \(owner.shortDescription) is required, and refers to a “\(entity.name)” that would be deleted; "
                + "delete both, or set it to another object.",
            entity: owner.entityName, property: name, object: owner.uriRepresentation,
            rule: .required)
    }

    /// The rule of a to-many relationship that a number of objects violates.
    ///
    /// An empty relationship is valid if it is optional or has no minimum count, as in Core Data: SwiftData declares every
    /// non-optional array without one.
    package func rule(violatedByCount count: Int) -> QuireError.Rule? {
        if count < description.minimumCount {
            return count > 0 ? .minimumCount : description.isOptional ? nil : .required
        }
        return description.maximumCount > 0 && count > description.maximumCount
            ? .maximumCount : nil
    }

    /// A number of objects and the bound that it violates, for a message.
    package func countText(_ count: Int, violating rule: QuireError.Rule) -> String {
        "\(count) objects; "
            + (rule == .maximumCount
                ? "at most \(description.maximumCount) are allowed"
                : "at least \(description.minimumCount) are required")
    }

    /// ``rule(violatedByCount:)`` as a condition of SQL on a column, which is true for each violation.
    package func countViolationSQL(column: String) -> String {
        var rules: [String] = []
        if description.minimumCount > 0 {
            let isEmptyAllowed = description.isOptional ? "\(column) > 0 AND " : ""
            rules.append("(\(isEmptyAllowed)\(column) < \(description.minimumCount))")
        }
        if description.maximumCount > 0 { rules.append("\(column) > \(description.maximumCount)") }
        return rules.isEmpty ? "0" : rules.joined(separator: " OR ")
    }

    /// The error of a batch request that would leave an object with too few or too many related objects.
    package func countViolation(
        _ rule: QuireError.Rule, of owner: ManagedObjectID, count: Int
    ) -> QuireError {
        let text = "would refer to \(countText(count, violating: rule))"
        return QuireError(
            .validation, "“\(name)” of \(owner.shortDescription) \(text).",
            entity: owner.entityName, property: name, object: owner.uriRepresentation, rule: rule,
            value: String(count))
    }
}

// MARK: - Results

extension BatchResult {
    /// The result with objects that contexts have to read again, if it tells objects.
    package func refreshing(_ objectIDs: [ManagedObjectID]) -> BatchResult {
        if changes.isEmpty { return self }
        let told = Set(changes.inserted + changes.updated + changes.deleted)
        var changes = changes
        changes.refreshed = objectIDs.filter { !told.contains($0) }
        return BatchResult(count: count, changes: changes)
    }
}

// MARK: - Constraints

extension ResolvedEntity {
    /// The slots of a uniqueness constraint, in its order.
    package func slots(ofConstraint properties: [String]) -> [Int] {
        properties.flatMap { name -> [Int] in
            switch self.properties[name] {
            case .attribute(let slot): [slot]
            case .composite(let slots): Array(slots)
            case .relationship(let index): relationships[index].slot.map { [$0] } ?? []
            case .fetched, nil: []
            }
        }
    }

    /// The slots of all uniqueness constraints.
    package var uniqueSlots: [Int] {
        Array(Set(uniquenessConstraints.flatMap { slots(ofConstraint: $0.properties) })).sorted()
    }
}
