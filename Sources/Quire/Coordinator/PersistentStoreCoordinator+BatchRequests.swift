/// Batch requests go to the store. What is kept of its rows is out of date then, whether they succeed or not.
extension PersistentStoreCoordinator {
    func execute(_ request: BatchInsertRequest, onConflict rule: UpsertRule) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        return try store.insert(request, onConflict: rule)
    }

    func execute(_ request: BatchUpdateRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        return try store.update(request)
    }

    func execute(_ request: BatchDeleteRequest) throws -> BatchResult {
        defer { forgetRows(of: nil) }
        return try store.delete(request)
    }
}
