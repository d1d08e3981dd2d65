public import QuireQuery

/// Batch requests, each saved as one change set.
extension AtomicStore {
    /// Inserts the rows of a request, all of them or none.
    public func insert(
        _ request: BatchInsertRequest, onConflict rule: UpsertRule
    ) throws -> BatchResult {
        try batchTransaction { transaction in
            var batch = try AtomicBatchInsert(request, rule, transaction) { [self] in
                try nextPrimaryKey()
            }
            return try batch.run(&transaction)
        }
    }

    /// Updates the objects that a request finds, all of them or none.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        try batchTransaction {
            try AtomicBatchUpdate(request: request, layout: layout, identity: identity).run(&$0)
        }
    }

    /// Deletes the objects that a request finds, and what delete rules take along, all of them or none.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        try batchTransaction { transaction in
            var batch = AtomicBatchDelete(request, transaction.contents, path: path)
            return try batch.run(&transaction)
        }
    }
}
