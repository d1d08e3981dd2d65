/// The causes of a replacement of an object's values, passed to ``ManagedObject/awake(fromSnapshotEvents:)``.
public struct SnapshotEvents: OptionSet, Sendable, Hashable {
    /// Core Data's bits.
    public let rawValue: UInt

    /// Creates a set from its raw value.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The object's insertion was undone.
    public static let undoInsertion = SnapshotEvents(rawValue: 1 << 1)
    /// The object's deletion was undone, or its insertion done again.
    public static let undoDeletion = SnapshotEvents(rawValue: 1 << 2)
    /// A change of its values or relationships was undone or done again.
    public static let undoUpdate = SnapshotEvents(rawValue: 1 << 3)
    /// The context was rolled back.
    public static let rollback = SnapshotEvents(rawValue: 1 << 4)
    /// The object was refreshed, or changed by a merge or a child's save.
    public static let refresh = SnapshotEvents(rawValue: 1 << 5)
    /// A merge policy decided between its values and the store's.
    public static let mergePolicy = SnapshotEvents(rawValue: 1 << 6)
}

/// Calls of life-cycle methods. Only objects of subclasses have them; the caller tests the bit, next to others of the same
/// word.
extension ManagedObject {
    /// Notifies an object that its values were read.
    @inline(never)
    final func didArrive() {
        context?.withoutTrackingChanges(of: self) { awakeFromFetch() }
    }

    /// Notifies an object that its values were replaced.
    final func didChange(by events: SnapshotEvents) {
        guard state.contains(.hasHooks), let context else { return }
        context.withoutTrackingChanges(of: self) { awake(fromSnapshotEvents: events) }
    }
}

extension ManagedObjectContext {
    /// Runs a life-cycle method that may set values without making objects dirty: values it sets in the object, or in others
    /// without changes, count as saved ones.
    func withoutTrackingChanges(of object: ManagedObject, _ method: () -> Void) {
        let changed = object.edits?.changed ?? SlotMask()
        let hasCommitted = object.edits?.committed != nil
        let marks = object.state.intersection([.tracked, .inEvent])
        object.state.formUnion([.tracked, .inEvent])
        beginAwakening()
        method()
        let awakened = endAwakening()
        object.state.subtract([.tracked, .inEvent])
        object.state.formUnion(marks)
        if let edits = object.edits {
            edits.changed = changed
            if !hasCommitted { edits.committed = nil }
        }
        for other in awakened {
            other.state.remove(.tracked)
            other.edits?.commit()
        }
    }

    /// Includes the changes of `willSave()` in the save: calls it until no object changes any more.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if that does not terminate.
    func callWillSave() throws {
        guard layout.hasSubclasses else { return }
        var pending = tracked.filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
        if pending.isEmpty { return }
        var round = 0
        var hasChanged = false
        while let first = pending.first {
            round += 1
            guard round <= Self.willSaveLimit else {
                throw QuireError(
                    .invalidState,
                    "willSave() of \(first.objectID.shortDescription) changed objects in each of "
                        + "\(Self.willSaveLimit) calls; set a value only if it differs.",
                    entity: first.resolvedEntity.name, object: first.objectID.uriRepresentation)
            }
            forbiddingSaves { for object in pending where object.isUnsaved { object.willSave() } }
            pending = endSavingRound(&hasChanged)
                .filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
        }
        undoManager?.closeEventGroup()
        if hasChanged { changeHandler?() }
    }

    private static var willSaveLimit: Int { 1000 }

    /// The objects whose `didSave()` is called after the save.
    func objectsToTellOfSave() -> [ManagedObject] {
        guard layout.hasSubclasses else { return [] }
        return tracked.filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
    }

    /// Calls `prepareForDeletion()` of an object and of all in its cascade, before any relationship changes.
    func prepareForDeletion(of object: ManagedObject) {
        let isOutermost = preparedForDeletion.isEmpty
        defer { if isOutermost { preparedForDeletion.removeAll() } }
        var pending = [object]
        while let next = pending.popLast() {
            guard next.state.contains(.live),
                preparedForDeletion.insert(ObjectIdentifier(next)).inserted
            else { continue }
            if next.state.contains(.hasHooks) {
                willChange(next)
                next.prepareForDeletion()
                guard next.state.contains(.live) else { continue }
            }
            for relationship in next.resolvedEntity.relationships
            where relationship.description.deleteRule == .cascade {
                pending += relatedIDs(of: next, relationship).map { self.object(with: $0) }
            }
        }
    }
}

// MARK: - Validation

extension ManagedObject {
    /// Validates the object as a save would if all its properties had changed.
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `deleteDenied` for a deleted object.
    public final func validate() throws {
        if isGone { return try validateForDelete() }
        try throwIfAny(invalidValueFailures)
        try isNew ? validateForInsert() : throwIfAny(validationFailures(all: true))
    }

    /// The object's validation failures for a save, by its class's methods, if it has any.
    final func failuresForSaving() -> [QuireError] {
        let invalid = invalidValueFailures
        if !invalid.isEmpty { return invalid }
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

    /// Changed values that their attributes cannot hold, which accessors that cannot throw have set.
    private final var invalidValueFailures: [QuireError] {
        guard context?.mayHoldInvalidValues == true, state.contains(.live), let edits else {
            return []
        }
        return resolvedEntity.slots.flatMap { slot -> [QuireError] in
            guard slot.relationshipIndex == nil, !slot.isDerived,
                edits.changed.contains(slot.index)
            else { return [] }
            do {
                _ = try slot.coerce(edits.values[slot.index], in: resolvedEntity)
                return []
            } catch {
                return failures(from: error, property: slot.name)
            }
        }
    }

    final func throwIfAny(_ failures: [QuireError]) throws {
        if failures.isEmpty { return }
        throw QuireError.combining(failures)
    }

    /// The rule violations of all properties, or only of the changed ones.
    final func validationFailures(all: Bool) -> [QuireError] {
        var failures: [QuireError] = []
        let asksClass = state.contains(.hasHooks)
        for slot in asksClass ? resolvedEntity.slots : resolvedEntity.ruledSlots
        where all || edits?.changed.contains(slot.index) == true {
            // An external value that has not changed need not be read to be checked.
            if slot.isExternalCapable && edits?.own.contains(slot.index) != true { continue }
            do {
                if asksClass {
                    try validateByClass(slot)
                } else {
                    try validate(valueWithoutLoading(at: slot.index), in: slot)
                }
            } catch {
                failures += self.failures(from: error, property: slot.name)
            }
        }
        for relationship in resolvedEntity.countedRelationships {
            if all || relationship.toManyIndex.map({ toManyState($0).hasChanges }) == true {
                failures += countFailures(of: relationship)
            }
        }
        return failures
    }

    /// Calls the class's validation of a value, and adopts its replacement.
    private final func validateByClass(_ slot: ResolvedEntity.Slot) throws {
        let present = valueWithoutLoading(at: slot.index)
        var value = present
        try validateValue(&value, forKey: slot.name)
        if value != present { try setPrimitiveValue(value, forKey: slot.name) }
    }

    /// Checks a value for a key against the model, and brings it into the form the attribute keeps.
    final func validateByModel(_ value: inout AttributeValue, forKey key: String) throws {
        let slot: ResolvedEntity.Slot
        switch try resolvedEntity.requireProperty(key) {
        case .attribute(let index):
            slot = resolvedEntity.slots[index]
            if !slot.isDerived { value = try slot.coerce(value, in: resolvedEntity) }
        case .relationship(let index) where resolvedEntity.relationships[index].slot != nil:
            slot = resolvedEntity.slots[resolvedEntity.relationships[index].slot ?? 0]
        default:
            throw QuireError(
                .unknownKey,
                "“\(key)” of \(resolvedEntity.name) has no single value to validate; validate the object.",
                entity: resolvedEntity.name, property: key)
        }
        do {
            try validate(value, in: slot)
        } catch {
            throw QuireError.combining(failures(from: error, property: key))
        }
    }

    private final func validate(_ value: AttributeValue, in slot: ResolvedEntity.Slot) throws {
        if let attribute = slot.attribute {
            try attribute.validate(value, entity: resolvedEntity.name)
            if !attribute.validationPredicates.isEmpty && !value.isNull {
                try ValidationPredicateTest(object: self, slot: slot, value: value)
                    .check(attribute.validationPredicates)
            }
        } else if let index = slot.relationshipIndex, value.isNull,
            !resolvedEntity.relationships[index].description.isOptional
        {
            throw failure(.required, "is required but has no object", property: slot.name)
        }
    }

    private final func countFailures(of relationship: ResolvedEntity.Relationship) -> [QuireError] {
        let count = members(of: relationship).count
        guard let rule = relationship.rule(violatedByCount: count) else { return [] }
        return [
            failure(
                rule, "refers to \(relationship.countText(count, violating: rule))",
                property: relationship.name, value: rule == .required ? nil : String(count))
        ]
    }

    // MARK: Errors

    private final func failure(
        _ rule: QuireError.Rule, _ text: String, property: String, value: String? = nil
    ) -> QuireError {
        QuireError(
            .validation, "“\(property)” of \(objectID.shortDescription) \(text).",
            entity: resolvedEntity.name, property: property, object: objectID.uriRepresentation,
            rule: rule, value: value)
    }

    /// The single failures combined in an error, each naming the object.
    final func failures(from error: any Error, property: String? = nil) -> [QuireError] {
        guard let error = error as? QuireError else {
            return [
                QuireError(
                    .validation, "\(objectID.shortDescription): \(error)",
                    entity: resolvedEntity.name, property: property,
                    object: objectID.uriRepresentation, rule: .custom,
                    underlying: error)
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
        failure.subject.entity = error.subject.entity ?? resolvedEntity.name
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

// MARK: - Predicates

/// Evaluates the validation predicates of an attribute on a new value. Represents the object, with that value under the
/// attribute's key.
struct ValidationPredicateTest: QuerySubject {
    let object: ManagedObject
    let slot: ResolvedEntity.Slot
    let value: AttributeValue

    var objectID: ManagedObjectID { object.objectID }
    var resolvedEntity: ResolvedEntity { object.resolvedEntity }
    var queryLayout: ResolvedModel { object.queryLayout }

    func queryValue(forKey key: String) throws -> QueryValue {
        key == slot.name ? .value(value) : try object.queryValue(forKey: key)
    }

    /// - Throws: ``QuireError`` with code `validation` at the first predicate that the value does not satisfy, or
    ///   `invalidModel` if one cannot be read.
    func check(_ predicates: [ValidationPredicate]) throws {
        for predicate in predicates where try !isSatisfied(predicate) {
            let text =
                predicate.message ?? "does not satisfy “\(predicate.format)”"
            throw QuireError(
                .validation,
                "“\(slot.name)” of \(objectID.shortDescription) is \(value.display): it \(text).",
                entity: resolvedEntity.name, property: slot.name,
                object: objectID.uriRepresentation, rule: .predicate, value: value.display)
        }
    }

    private func isSatisfied(_ predicate: ValidationPredicate) throws -> Bool {
        do {
            var request = FetchSpecification(resolvedEntity.name)
            request.predicate = replaced(in: try QueryPredicate(format: predicate.format))
            return try ResolvedQuery(request, in: queryLayout, allowsTransient: true).matches(self)
        } catch let error as QuireError {
            throw QuireError(
                .invalidModel,
                "The validation predicate “\(predicate.format)” of “\(resolvedEntity.name).\(slot.name)” "
                    + "cannot be tested: \(error.message)",
                entity: resolvedEntity.name, property: slot.name, underlying: error)
        }
    }

    // MARK: SELF is the value

    private func replaced(in predicate: QueryPredicate) -> QueryPredicate {
        predicate.mappingExpressions(replaced)
    }

    private func replaced(in expression: QueryExpression) -> QueryExpression {
        switch expression {
        case .evaluatedObject: return .key(slot.name)
        case .keyPath(let keys) where keys == ["length"] || keys == ["SELF", "length"]:
            guard case .string(let text) = value, resolvedEntity.properties["length"] == nil else {
                return expression
            }
            return .constant(.integer(Int64(text.utf16.count)))
        default: return expression.mappingParts(replaced, replaced)
        }
    }
}
