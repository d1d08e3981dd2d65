internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Runs a batch insertion.
struct SQLiteBatchInsert {
    let store: SQLiteStore
    let request: BatchInsertRequest
    let rule: UpsertRule

    func run() throws -> BatchResult {
        let entity = try store.layout.requireEntity(named: request.entityName)
        let row = try BatchRow(entity, in: store.layout, store: store.identity)
        return try SQLiteBatch.run(on: store) { batch in
            let writer = try SQLiteBatchRowWriter(
                batch, row, rule: rule, collectsObjectIDs: request.resultType == .objectIDs)
            var number = 0
            try request.forEachRow { values in
                number += 1
                do { try writer.write(values) } catch { throw described(error, row: number) }
            }
            return try writer.finish()
        }
    }

    /// Adds the row's number to what is wrong with the row.
    private func described(_ error: any Error, row number: Int) -> any Error {
        let described: QuireError?
        if let failure = error as? SQLiteFailure {
            described =
                failure.code == SQLiteFailure.uniqueConstraint
                ? failure.error(path: store.storePath, schema: store.schema) : nil
        } else {
            described = error as? QuireError
        }
        guard var described else { return error }
        described.message = "Row \(number): \(described.message)"
        described.subject.position = number
        return described
    }
}
