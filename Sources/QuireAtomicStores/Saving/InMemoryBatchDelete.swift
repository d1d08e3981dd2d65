internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Executes a batch deletion: fetches the objects, applies the delete rules, and saves the result as a change set.
struct InMemoryBatchDelete<Storage: BatchStorage> {
    private let request: BatchDeleteRequest
    /// The objects before the request.
    private let storage: Storage
    private var layout: ResolvedModel { storage.layout }
    /// The objects to delete, and whether they are among them.
    private var deleted: [ObjectSnapshot] = []
    private var keys: Set<UInt64> = []
    /// The deletions, and the updates of objects that stay and lose references.
    private var changes = ChangeSet()
    /// The positions of updates by the objects' keys.
    private var positions: [UInt64: Int] = [:]
    /// Remaining objects whose relationship counts have to be checked.
    private var counted: [CountedRelationship] = []

    init(_ request: BatchDeleteRequest, _ storage: Storage) {
        self.request = request
        self.storage = storage
    }

    mutating func run(_ storage: inout Storage) throws -> BatchResult {
        try collect()
        try collectCascades()
        try checkDenials()
        try clearReferences()
        changes.deleted = deleted.map { ObjectDeletion(objectID: $0.objectID, version: nil) }
        let derived = try storage.apply(changes, checkingCounts: counted)
        guard request.resultType == .objectIDs else { return BatchResult(count: deleted.count) }
        let ids = deleted.map(\.objectID).sorted { $0.bits < $1.bits }
        return BatchResult(
            count: deleted.count,
            changes: ObjectIDChanges(updated: changes.updated.map(\.objectID), deleted: ids)
        ).refreshing(derived)
    }

    // MARK: - Which

    private mutating func add(_ row: ObjectSnapshot) {
        if keys.insert(layout.rowKey(row.objectID.bits)).inserted { deleted.append(row) }
    }

    private mutating func collect() throws {
        switch request.selection {
        case .request(let fetch):
            for row in try storage.rows(matching: fetch) { add(row) }
        case .objectIDs(let ids):
            for id in ids {
                guard layout.isStored(id.bits), storage.identity.owns(id) else {
                    throw QuireError.foreign(id, "to be deleted", path: storage.path)
                }
                if let row = try storage.object(id.bits) { add(row) }
            }
        }
    }

    private mutating func collectCascades() throws {
        var position = 0
        while position < deleted.count {
            let row = deleted[position]
            position += 1
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .cascade {
                for target in try storage.related(row.objectID.bits, through: relationship) {
                    add(target)
                }
            }
        }
    }

    // MARK: - Related objects

    /// The maximum number of objects named in an error for a denied deletion.
    private var maximumNamedCount: Int { 100 }

    private func checkDenials() throws {
        for row in deleted {
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .deny {
                let blocking = try remaining(relationship, of: row)
                if blocking.isEmpty { continue }
                throw QuireError(
                    deletionOf: row.objectID, deniedBy: relationship.name,
                    blocking.prefix(maximumNamedCount).map(\.objectID))
            }
        }
    }

    /// The destinations of a deleted object's relationship that are not deleted.
    private func remaining(
        _ relationship: ResolvedEntity.Relationship, of row: ObjectSnapshot
    ) throws -> [ObjectSnapshot] {
        try storage.related(row.objectID.bits, through: relationship)
            .filter { !keys.contains(layout.rowKey($0.objectID.bits)) }
    }

    private mutating func clearReferences() throws {
        for row in deleted {
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .nullify {
                guard let inverse = layout.inverse(of: relationship) else { continue }
                for related in try remaining(relationship, of: row) {
                    if let slot = inverse.slot {
                        try clear(slot, inverse, of: related, leadingTo: row)
                    } else if inverse.hasCountRules {
                        counted.append((related.objectID, inverse))
                    }
                }
            }
        }
    }

    private mutating func clear(
        _ slot: Int, _ inverse: ResolvedEntity.Relationship, of related: ObjectSnapshot,
        leadingTo row: ObjectSnapshot
    ) throws {
        guard case .objectID(let id) = try related.value(at: slot),
            layout.rowKey(id.bits) == layout.rowKey(row.objectID.bits)
        else { return }
        guard inverse.description.isOptional else {
            throw inverse.requiredViolation(of: related.objectID, deleting: row.entity)
        }
        let key = layout.rowKey(related.objectID.bits)
        let position = positions[key] ?? changes.updated.count
        if position == changes.updated.count {
            positions[key] = position
            changes.updated.append(ObjectChange(updating: related))
        }
        changes.updated[position].changedSlots.insert(slot)
    }
}
