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
    /// Objects that stay and lose references: which slots.
    private var touched: [UInt64: (row: ObjectSnapshot, slots: Set<Int>)] = [:]
    private var touchedOrder: [UInt64] = []
    /// Remaining objects whose relationship counts have to be checked.
    private var counted: [(owner: ManagedObjectID, relationship: ResolvedEntity.Relationship)] = []

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
        var changes = ChangeSet()
        changes.deleted = deleted.map { ObjectDeletion(objectID: $0.objectID, version: nil) }
        changes.updated = touchedOrder.compactMap { touched[$0] }.map { row, slots in
            var mask = SlotMask()
            for slot in slots { mask.insert(slot) }
            return ObjectChange(
                objectID: row.objectID, entity: row.entity, version: row.version,
                values: ContiguousArray(repeating: .null, count: row.entity.slots.count),
                changedSlots: mask)
        }
        let counted = counted
        let derived = try transaction.apply(changes) { save in
            for (owner, relationship) in counted { try save.checkCount(of: owner, relationship) }
        }
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

    private func isDeleted(_ row: ObjectSnapshot) -> Bool {
        keys.contains(layout.rowKey(row.objectID.bits))
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
                let blocking = contents.related(row.objectID.bits, through: relationship)
                    .filter { !isDeleted($0) }
                if blocking.isEmpty { continue }
                throw QuireError(
                    deletionOf: row.objectID, deniedBy: relationship.name,
                    blocking.prefix(Self.maximumNamedCount).map(\.objectID))
            }
        }
    }

    private mutating func clearReferences() throws {
        for row in deleted {
            let bits = row.objectID.bits
            for relationship in row.entity.relationships
            where relationship.description.deleteRule == .nullify {
                guard let inverse = layout.inverse(of: relationship) else { continue }
                for related in contents.related(bits, through: relationship)
                where !isDeleted(related) {
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
            throw QuireError.required(inverse, of: related.objectID, deleting: row.entity)
        }
        let key = layout.rowKey(related.objectID.bits)
        if touched[key] == nil {
            touched[key] = (related, [])
            touchedOrder.append(key)
        }
        touched[key]?.slots.insert(slot)
    }
}

extension InMemorySavePlan {
    /// Checks the count rules of an object's to-many relationship, if the object exists.
    ///
    /// - Throws: ``QuireError`` with code `validation`.
    mutating func checkCount(
        of owner: ManagedObjectID, _ relationship: ResolvedEntity.Relationship
    ) throws {
        guard try exists(owner.bits) else { return }
        var count = 0
        for member in try members(of: owner.bits, relationship) where try exists(member) {
            count += 1
        }
        if !relationship.allows(count: count) {
            throw relationship.countViolation(of: owner, count: count)
        }
    }
}
