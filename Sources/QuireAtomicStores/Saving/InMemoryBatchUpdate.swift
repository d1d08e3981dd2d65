internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// Runs a batch update: finds the objects, computes the new values, and saves them as a change set.
struct InMemoryBatchUpdate {
    let request: BatchUpdateRequest

    func run(_ storage: inout some BatchStorage) throws -> BatchResult {
        let (entity, assignments) = try request.assignments(
            in: storage.layout, store: storage.identity)
        var constants = ContiguousArray<AttributeValue>(repeating: .null, count: entity.slots.count)
        for case (let slot, .constant(let value)) in assignments {
            constants[slot.index] = try value.loaded()
        }
        let objects = storage.storedObjects()
        let found = try storage.rows(matching: request.objects)
        var changes = ChangeSet()
        for row in found {
            let evaluator = PredicateEvaluator(
                subject: StoredObject(snapshot: row, objects: objects))
            var change = ObjectChange(updating: row)
            for (slot, expression) in assignments {
                change.changedSlots.insert(slot.index)
                if case .constant = expression {
                    change.values[slot.index] = constants[slot.index]
                } else {
                    change.values[slot.index] = try slot.checked(
                        computed: evaluator.value(of: expression), in: entity, of: row.objectID)
                }
            }
            changes.updated.append(change)
        }
        let derived = try storage.apply(changes, checkingCounts: [])
        let ids = request.resultType == .objectIDs ? found.map(\.objectID) : []
        return BatchResult(
            count: found.count, changes: ObjectIDChanges(updated: ids)
        ).refreshing(derived)
    }
}
