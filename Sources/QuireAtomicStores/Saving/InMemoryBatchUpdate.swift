internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// Runs a batch update: finds the objects, computes the new values, and saves them as a change set.
struct AtomicBatchUpdate {
    let request: BatchUpdateRequest
    let layout: ResolvedModel
    let identity: StoreIdentity

    func run(_ transaction: inout AtomicStore.Transaction) throws -> BatchResult {
        let (entity, assignments) = try request.assignments(in: layout, store: identity)
        var constants = ContiguousArray<AttributeValue>(repeating: .null, count: entity.slots.count)
        for case (let slot, .constant(let value)) in assignments {
            constants[slot.index] = try value.loaded()
        }
        let contents = transaction.contents
        let objects = contents.storedObjects()
        let found = try contents.query(request.objects) { try $0.rows($1) }
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
        let derived = try transaction.apply(changes)
        let ids = request.resultType == .objectIDs ? found.map(\.objectID) : []
        return BatchResult(
            count: found.count, changes: ObjectIDChanges(updated: ids)
        ).refreshing(derived)
    }
}
