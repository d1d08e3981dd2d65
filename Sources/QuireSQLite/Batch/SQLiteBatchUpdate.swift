internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Runs a batch update.
struct SQLiteBatchUpdate {
    let store: SQLiteStore
    let request: BatchUpdateRequest

    func run() throws -> BatchResult {
        var request = request
        if let ids = try store.objectsBeyondSQL(request.objects) {
            request.predicate = .comparison(
                QueryComparison(
                    .evaluatedObject, .in, .collection(ids.map { .constant(.objectID($0)) })))
        }
        let plan = try SQLBatchUpdate(request, schema: store.schema, store: store.identity)
        if store.options.refusesInexactDecimals {
            for case (let slot, .decimal(let number)) in plan.constants {
                try SQLiteDecimal.checkIsExact(number, for: slot, of: plan.entity)
            }
        }
        return try SQLiteBatch.run(on: store, origin: request.origin) { batch in
            try check(plan, batch.connection)
            try batch.noteFiles(of: plan.slots, in: plan.entity, where: "Z_PK IN (\(plan.keys))")
            return try update(plan, batch)
        }
    }

    private func update(_ plan: SQLBatchUpdate, _ batch: SQLiteBatch) throws -> BatchResult {
        let connection = batch.connection
        guard request.resultType == .objectIDs || batch.history != nil else {
            try connection.run(plan.update.sql, plan.update.bindings)
            return BatchResult(count: connection.changeCount)
        }
        let sql = plan.update.sql + " RETURNING Z_PK, Z_ENT"
        let updated = try connection.rows(sql, plan.update.bindings) { objectID(in: $0, plan) }
        var slots = SlotMask()
        for slot in plan.slots { slots.insert(slot.index) }
        for id in updated { try batch.history?.recordUpdate(of: id, slots: slots) }
        return BatchResult(
            count: updated.count,
            changes: ObjectIDChanges(updated: request.resultType == .objectIDs ? updated : []))
    }

    private func objectID(in statement: SQLiteStatement, _ plan: SQLBatchUpdate) -> ManagedObjectID
    {
        ManagedObjectID(
            entityNumber: store.schema.modelNumber(ofStoreNumber: statement.integer(1))
                ?? plan.entity.number, primaryKey: statement.integer(0), store: store.identity)
    }

    // MARK: - Computed values

    /// Validates computed values before they are written.
    private func check(_ plan: SQLBatchUpdate, _ connection: SQLiteConnection) throws {
        guard let check = plan.check else { return }
        try connection.forEachRow(check.sql, check.bindings) { row in
            for (index, slot) in plan.computed.enumerated() {
                _ = try slot.checked(
                    computed: row.value(Int32(index + 2)), in: plan.entity,
                    of: objectID(in: row, plan))
            }
        }
    }
}
