internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Executes a batch deletion: fetches the objects, applies the delete rules, and saves the result as a change set.
struct AtomicBatchDelete {
    private let request: BatchDeleteRequest
    private let contents: AtomicContents
    private let path: String?
    private var layout: ResolvedModel { contents.layout }
    /// The objects to delete, and whether they are among them.
    private var deleted: [ObjectSnapshot] = []
    private var keys: Set<UInt64> = []
    /// The deletions, and the updates of objects that stay and lose references.
    private var changes = ChangeSet()
    /// The positions of updates by the objects' keys.
    private var positions: [UInt64: Int] = [:]
    /// Remaining objects whose relationship counts have to be checked.
    private var counted: [CountedRelationship] = []

    init(_ request: BatchDeleteRequest, _ contents: AtomicContents, path: String?) {
        self.request = request
        self.contents = contents
        self.path = path
    }

    mutating func run(_ transaction: inout AtomicStore.Transaction) throws -> BatchResult {
        try collect()
        try collectCascades()
        try checkDenials()
        try clearReferences()
        changes.deleted = deleted.map { ObjectDeletion(objectID: $0.objectID, version: nil) }
        let derived = try transaction.apply(changes, checkingCounts: counted)
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
            for row in try contents.query(fetch, { try $0.rows($1) }) { add(row) }
        case .objectIDs(let ids):
            for id in ids {
                guard layout.isStored(id.bits), contents.identity.owns(id) else {
                    throw QuireError.foreign(id, "to be deleted", path: path)
                }
                if let row = contents.object(id.bits) { add(row) }
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
                for target in contents.related(row.objectID.bits, through: relationship) {
                    add(target)
                }
            }
        }
    }

    // MARK: - Related objects

    /// The maximum number of objects named in an error for a denied deletion.
    private static let maximumNamedCount = 100

    private func checkDenials() throws {
        for row in deleted {
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .deny {
                let blocking = remaining(relationship, of: row)
                if blocking.isEmpty { continue }
                throw QuireError(
                    deletionOf: row.objectID, deniedBy: relationship.name,
                    blocking.prefix(Self.maximumNamedCount).map(\.objectID))
            }
        }
    }

    /// The destinations of a deleted object's relationship that are not deleted.
    private func remaining(
        _ relationship: ResolvedEntity.Relationship, of row: ObjectSnapshot
    ) -> [ObjectSnapshot] {
        contents.related(row.objectID.bits, through: relationship)
            .filter { !keys.contains(layout.rowKey($0.objectID.bits)) }
    }

    private mutating func clearReferences() throws {
        for row in deleted {
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .nullify {
                guard let inverse = layout.inverse(of: relationship) else { continue }
                for related in remaining(relationship, of: row) {
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
