internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Executes a batch insertion: turns its rows into a change set, with updates of stored objects where the policy
/// requires it.
struct AtomicBatchInsert {
    private let request: BatchInsertRequest
    private let policy: MergePolicy.Kind
    private let contents: AtomicContents
    private let index: AtomicUniqueIndex
    private let path: String?
    private let nextKey: () throws -> Int64
    private let entity: ResolvedEntity
    private var row: BatchInsertRow
    private var changes: [ObjectChange] = []
    /// The positions of changes by the objects' keys.
    private var positions: [UInt64: Int] = [:]
    /// The changed objects by unique key.
    private var holders: [UniqueKey: UInt64] = [:]
    private var givenUp: Set<UniqueKey> = []
    private var counted: [(owner: ManagedObjectID, relationship: ResolvedEntity.Relationship)] = []
    private var count = 0

    private var layout: ResolvedModel { contents.layout }

    init(
        _ request: BatchInsertRequest, _ policy: MergePolicy.Kind,
        _ transaction: AtomicStore.Transaction,
        nextKey: @escaping () throws -> Int64
    ) throws {
        self.request = request
        self.policy = policy
        self.nextKey = nextKey
        contents = transaction.contents
        index = transaction.index
        path = transaction.path
        entity = try contents.layout.requireEntity(named: request.entityName)
        row = try BatchInsertRow(entity, in: contents.layout, store: contents.identity)
    }

    mutating func run(_ transaction: inout AtomicStore.Transaction) throws -> BatchResult {
        var number = 0
        try request.forEachRow { values in
            number += 1
            do { try write(values) } catch var error as QuireError {
                error.message = "Row \(number): \(error.message)"
                error.subject.position = number
                throw error
            }
        }
        var set = ChangeSet()
        for change in changes {
            if change.version == 0 {
                set.inserted.append(change)
            } else {
                set.updated.append(change)
            }
        }
        let counted = counted
        let derived = try transaction.apply(set) { save in
            for (owner, relationship) in counted { try save.checkCount(of: owner, relationship) }
        }
        guard request.resultType == .objectIDs else { return BatchResult(count: count) }
        return BatchResult(
            count: count,
            changes: ObjectIDChanges(
                inserted: set.inserted.map(\.objectID),
                updated: set.updated.map(\.objectID).sorted { $0.bits < $1.bits })
        ).refreshing(derived)
    }

    // MARK: - Rows

    private mutating func write(_ values: [String: AttributeValue]) throws {
        try row.take(values)
        for (relationship, target) in row.references where contents.object(target.bits) == nil {
            throw row.notFound(target, relationship)
        }
        let failure = row.failureAsNew()
        if let (holder, properties) = try holder() {
            guard policy != .error else {
                throw QuireError.notUnique(properties, of: entity.name, file: path)
            }
            if policy == .overwrite, let failure { throw failure }
            return try update(holder)
        }
        if let failure { throw failure }
        try insert()
    }

    private mutating func insert() throws {
        let id = ManagedObjectID(
            entityNumber: entity.number, primaryKey: try nextKey(), store: contents.identity)
        positions[layout.rowKey(id.bits)] = changes.count
        changes.append(
            ObjectChange(
                objectID: id, entity: entity, version: 0, values: row.values,
                changedSlots: SlotMask(first: entity.slots.count)))
        try note(changes.count - 1)
        count += 1
    }

    private mutating func update(_ bits: UInt64) throws {
        if policy == .rollback { return }
        let key = layout.rowKey(bits)
        let position: Int
        if let known = positions[key] {
            position = known
        } else {
            guard let present = contents.row(bits).map(contents.snapshot) else { return }
            guard entity.subtree.contains(present.entity.number) else {
                throw row.entityError(holder: present.objectID, file: path)
            }
            position = changes.count
            var values: ContiguousArray<AttributeValue> = []
            for slot in present.entity.slots { values.append(try present.value(at: slot.index)) }
            changes.append(
                ObjectChange(
                    objectID: present.objectID, entity: present.entity, version: present.version,
                    values: values, changedSlots: SlotMask()))
            positions[key] = position
        }
        let target = changes[position].entity
        var written = SlotMask()
        for slot in entity.slots where isWritten(slot) {
            if policy == .mergeByPropertyStoreTrump, !changes[position].values[slot.index].isNull {
                continue
            }
            written.insert(slot.index)
        }
        if written.isEmpty { return }
        try forget(position)
        for slot in target.slots where written.contains(slot.index) {
            changes[position].values[slot.index] = row.values[slot.index]
        }
        changes[position].changedSlots.formUnion(written)
        try note(position)
        count += 1
    }

    private func isWritten(_ slot: ResolvedEntity.Slot) -> Bool {
        if row.given.contains(slot.index) { return true }
        return policy == .overwrite && slot.isStored && slot.attribute != nil
            && slot.attribute?.derivationExpression == nil
    }

    // MARK: - Uniqueness and counts

    private func keys(_ entity: ResolvedEntity, _ values: ContiguousArray<AttributeValue>)
        -> [UniqueKey]
    {
        entity.uniquenessConstraints.compactMap { owner, properties in
            UniqueKey(
                owner: owner, properties: properties,
                values: entity.slots(ofConstraint: properties).map { values[$0] })
        }
    }

    /// The object that has the row's unique values; `nil` if they are free.
    private func holder() throws -> (bits: UInt64, properties: [String])? {
        var found: (bits: UInt64, properties: [String])?
        for key in keys(entity, row.values) {
            let stored = givenUp.contains(key) ? nil : index.holders(of: key).first
            guard let holder = holders[key] ?? stored else { continue }
            if let other = found, layout.rowKey(other.bits) != layout.rowKey(holder) {
                let ids = [other.bits, holder].map {
                    ManagedObjectID(bits: $0, store: contents.identity)
                }
                throw row.heldTwice(ids[0], ids[1], key.properties, file: path)
            }
            found = found ?? (holder, key.properties)
        }
        return found
    }

    /// Removes the unique keys of an object before it changes.
    private mutating func forget(_ position: Int) throws {
        let change = changes[position]
        for key in keys(change.entity, change.values) {
            holders[key] = nil
            givenUp.insert(key)
        }
        noteOwners(of: change)
    }

    /// Records the current unique keys of an object.
    private mutating func note(_ position: Int) throws {
        let change = changes[position]
        for key in keys(change.entity, change.values) { holders[key] = change.objectID.bits }
        noteOwners(of: change)
    }

    private mutating func noteOwners(of change: ObjectChange) {
        for relationship in change.entity.relationships {
            guard let slot = relationship.slot, case .objectID(let owner) = change.values[slot],
                let inverse = layout.inverse(of: relationship), inverse.hasCountRules
            else { continue }
            counted.append((owner, inverse))
        }
    }
}
