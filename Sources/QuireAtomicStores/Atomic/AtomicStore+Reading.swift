public import QuireModel
public import QuireQuery
public import QuireStore

/// Requests, answered in memory.
extension AtomicStore {
    /// The rows that match a request, in its order, within its limit and offset.
    public func rows(matching request: FetchSpecification) throws -> RowSet {
        let contents = try currentContents()
        let found = try contents.query(request) { try $0.rows($1) }
        return RowSet(found, layout: layout, store: identity)
    }

    /// The number of rows that match a request.
    public func count(matching request: FetchSpecification) throws -> Int {
        try currentContents().query(request) { try $0.count($1) }
    }

    /// The dictionaries of a request, in its order, within its limit and offset.
    public func dictionaries(matching request: FetchSpecification) throws -> FetchedDictionaries {
        let contents = try currentContents()
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        let objects = contents.storedObjects()
        let found = try contents.query(request.forObjects) { try $0.rows($1) }
        return try DictionaryEvaluation(
            query: query, subjects: found.map { StoredObject(snapshot: $0, objects: objects) }
        ).dictionaries()
    }

    /// The row of an object; `nil` if it does not exist.
    public func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        let contents = try currentContents()
        return owns(objectID) ? contents.object(objectID.bits) : nil
    }

    /// The rows of objects, in any order. Missing rows are omitted.
    public func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        let contents = try currentContents()
        var seen: Set<UInt64> = []
        let found = objectIDs.compactMap { id -> ObjectSnapshot? in
            guard owns(id), let row = contents.row(id.bits),
                seen.insert(row.identifierBits).inserted
            else { return nil }
            return contents.snapshot(row)
        }
        return RowSet(found, layout: layout, store: identity)
    }

    /// The rows of a relationship's destination objects, in its order or by primary key.
    public func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let contents = try currentContents()
        let found =
            owns(objectID) ? contents.related(objectID.bits, through: relationship) : []
        return RowSet(found, layout: layout, store: identity)
    }

    /// The members of a to-many relationship for several objects.
    public func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        let contents = try currentContents()
        var result = RelatedObjects()
        var rows: [ObjectSnapshot] = []
        for id in objectIDs where owns(id) {
            for row in contents.related(id.bits, through: relationship) {
                result.append(row.objectID.bits, of: id.bits)
                rows.append(row)
            }
        }
        result.rows = [RowSet(rows, layout: layout, store: identity)]
        return result
    }

    func owns(_ objectID: ManagedObjectID) -> Bool {
        layout.isStored(objectID.bits) && identity.owns(objectID)
    }
}

extension AtomicContents {
    /// The objects as predicates see them.
    func storedObjects() -> StoredObjects {
        StoredObjects(
            layout: layout, row: { object($0.bits) },
            related: { related($0.bits, through: $1) })
    }

    /// Runs a request.
    func query<Result>(
        _ request: FetchSpecification, _ body: (InMemoryFetch, InMemoryFetch.Scan) throws -> Result
    ) throws -> Result {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        return try body(InMemoryFetch(query: query, objects: storedObjects())) { visit in
            try forEachWhile(
                of: query.entity, includingSubentities: query.request.includesSubentities, visit)
        }
    }
}

// MARK: - Batch requests

/// Batch requests, each saved as one change set.
extension AtomicStore {
    /// Inserts the rows of a request, all of them or none.
    public func insert(
        _ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind
    ) throws -> BatchResult {
        try batchTransaction { transaction in
            var batch = try InMemoryBatchInsert(request, policy, transaction)
            return try batch.run(&transaction)
        }
    }

    /// Updates the objects that match a request, atomically.
    public func update(_ request: BatchUpdateRequest) throws -> BatchResult {
        try batchTransaction { try InMemoryBatchUpdate(request: request).run(&$0) }
    }

    /// Deletes the objects that match a request, and those that delete rules cascade to, atomically.
    public func delete(_ request: BatchDeleteRequest) throws -> BatchResult {
        try batchTransaction { transaction in
            var batch = InMemoryBatchDelete(request, transaction)
            return try batch.run(&transaction)
        }
    }
}
