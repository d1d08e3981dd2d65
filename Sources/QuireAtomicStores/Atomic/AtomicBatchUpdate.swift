import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Runs a batch update: finds the objects, computes the new values, and saves them as a change set.
struct AtomicBatchUpdate {
    let request: BatchUpdateRequest
    let layout: ResolvedModel
    let identity: StoreIdentity

    func run(_ transaction: inout AtomicStore.Transaction) throws -> BatchResult {
        let entity = try layout.requireEntity(named: request.entityName)
        let assignments = try assignments(of: entity)
        let contents = transaction.contents
        let objects = contents.storedObjects()
        let found = try contents.query(request.objects) { try $0.rows($1) }
        var changes = ChangeSet()
        for row in found {
            let evaluator = PredicateEvaluator(
                subject: StoredObject(snapshot: row, objects: objects))
            var change = ObjectChange(
                objectID: row.objectID, entity: row.entity, version: row.version,
                values: ContiguousArray(repeating: .null, count: row.entity.slots.count),
                changedSlots: SlotMask())
            for (slot, expression, constant) in assignments {
                change.values[slot.index] =
                    try constant ?? computed(evaluator.value(of: expression), slot, entity, row)
                change.changedSlots.insert(slot.index)
            }
            changes.updated.append(change)
        }
        let derived = try transaction.apply(changes)
        let ids = request.resultType == .objectIDs ? found.map(\.objectID) : []
        return BatchResult(
            count: found.count, changes: ObjectIDChanges(updated: ids)
        ).refreshing(derived)
    }

    private typealias Assignment = (
        slot: ResolvedEntity.Slot, expression: QueryExpression, constant: AttributeValue?
    )

    private func assignments(of entity: ResolvedEntity) throws -> [Assignment] {
        try request.requireProperties()
        var resolver = PredicateResolver(
            entity: entity, layout: layout, store: identity, allowsTransient: false)
        var result: [Assignment] = []
        for (key, expression) in request.propertiesToUpdate.sorted(by: { $0.key < $1.key }) {
            for (slot, expression) in try entity.assignments(of: expression, forKey: key) {
                let expression = try resolver.batchValue(expression, for: slot)
                var constant: AttributeValue?
                if case .constant(let value) = expression {
                    let value = try slot.coerce(value, in: entity)
                    try slot.attribute?.validate(value, entity: entity.name)
                    constant = try value.loaded()
                }
                result.append((slot, expression, constant))
            }
        }
        return result
    }

    // MARK: - Computed values

    /// Validates a computed value before it is written.
    private func computed(
        _ value: AttributeValue, _ slot: ResolvedEntity.Slot, _ entity: ResolvedEntity,
        _ row: ObjectSnapshot
    ) throws -> AttributeValue {
        do {
            guard let value = kept(value, slot.storage),
                case let kept = try slot.coerce(value, in: entity), kept == value
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(entity.name).\(slot.name)” cannot be set to “\(value)”, which was computed for it and is not of its "
                        + "type.", subject: .init(entity: entity.name, property: slot.name))
            }
            try slot.attribute?.validate(kept, entity: entity.name)
            return kept
        } catch var error as QuireError {
            error.message += " The object is \(row.objectID.shortDescription)."
            error.subject.object = row.objectID.uriRepresentation
            throw error
        }
    }

    /// A computed value converted to the type of a slot; `nil` if it cannot be.
    private func kept(
        _ value: AttributeValue, _ storage: ResolvedEntity.Slot.Storage
    ) -> AttributeValue? {
        if case .decimal = value, storage == .decimal { return value }
        switch (storage, value.stored) {
        case (_, .null): return .null
        case (.integer, .integer(let number)): return .integer(number)
        case (.integer, .double(let number)): return Int64(exactly: number).map { .integer($0) }
        case (.boolean, .integer(let number)) where number == 0 || number == 1:
            return .boolean(number == 1)
        case (.double, .integer(let number)): return .double(Double(number))
        case (.double, .double(let number)): return .double(number)
        case (.date, .integer(let number)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(number)))
        case (.date, .double(let number)):
            return .date(Date(timeIntervalSinceReferenceDate: number))
        case (.decimal, .integer(let number)): return .decimal(Decimal(number))
        case (.decimal, .double(let number)):
            return Decimal(string: number.description, locale: Locale(identifier: "en_US_POSIX"))
                .map { .decimal($0) }
        case (.string, .string), (.binary, .binary): return value.stored
        case (.uri, .string(let text)): return URL(string: text).map { .uri($0) }
        case (.uuid, .binary(let bytes)) where bytes.count == 16:
            return .uuid(bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
        default: return nil
        }
    }
}
