internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Executes a batch insertion: turns its rows into a change set, with updates of stored objects where the policy
/// requires it.
struct InMemoryBatchInsert<Storage: BatchStorage> {
    private let request: BatchInsertRequest
    private let policy: MergePolicy.Kind
    /// The objects before the request.
    private let storage: Storage
    private let entity: ResolvedEntity
    private var row: BatchInsertRow
    private var changes: [ObjectChange] = []
    /// The positions of changes by the objects' keys.
    private var positions: [UInt64: Int] = [:]
    /// The changed objects by unique key; `nil` for a key that a stored object has given up.
    private var holders: [UniqueKey: UInt64?] = [:]
    private var counted: [CountedRelationship] = []
    private var count = 0

    private var layout: ResolvedModel { storage.layout }
    private var path: String? { storage.path }

    init(
        _ request: BatchInsertRequest, _ policy: MergePolicy.Kind, _ storage: Storage
    ) throws {
        self.request = request
        self.policy = policy
        self.storage = storage
        entity = try storage.layout.requireEntity(named: request.entityName)
        row = try BatchInsertRow(entity, in: storage.layout, store: storage.identity)
    }

    mutating func run(_ storage: inout Storage) throws -> BatchResult {
        try request.forEachNumberedRow { try write($0) }
        var set = ChangeSet()
        set.inserted = changes.filter { $0.version == 0 }
        set.updated = changes.filter { $0.version != 0 }
        let derived = try storage.apply(set, checkingCounts: counted)
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
        try row.checkReferences { try storage.object($0.bits) != nil }
        let failure = row.failureAsNew()
        guard let (holder, properties) = try holder() else {
            if let failure { throw failure }
            return try insert()
        }
        guard policy != .error else {
            throw QuireError.notUnique(properties, of: entity.name, file: path)
        }
        if policy == .overwrite, let failure { throw failure }
        try update(holder)
    }

    private mutating func insert() throws {
        let id = ManagedObjectID(
            entityNumber: entity.number, primaryKey: try storage.nextPrimaryKey(of: entity),
            store: storage.identity)
        add(
            ObjectChange(
                objectID: id, entity: entity, version: 0, values: row.values,
                changedSlots: SlotMask(first: entity.slots.count)))
    }

    private mutating func update(_ bits: UInt64) throws {
        if policy == .rollback { return }
        let before: ObjectChange
        if let position = positions[layout.rowKey(bits)] {
            before = changes[position]
        } else {
            guard let present = try storage.savedRow(bits) else { return }
            var change = ObjectChange(updating: present)
            for slot in present.entity.slots.indices {
                change.values[slot] = try present.value(at: slot)
            }
            before = change
        }
        var change = before
        guard try row.update(&change, policy, file: path, isNull: { before.values[$0].isNull })
        else { return }
        for key in keys(of: before) { holders.updateValue(nil, forKey: key) }
        noteOwners(of: before)
        add(change)
    }

    /// Adds a change, or replaces that of its object.
    private mutating func add(_ change: ObjectChange) {
        let key = layout.rowKey(change.objectID.bits)
        if let position = positions[key] {
            changes[position] = change
        } else {
            positions[key] = changes.count
            changes.append(change)
        }
        for key in keys(of: change) { holders[key] = change.objectID.bits }
        noteOwners(of: change)
        count += 1
    }

    // MARK: - Uniqueness and counts

    private func keys(of change: ObjectChange) -> [UniqueKey] {
        keys(change.entity, change.values)
    }

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
            guard let holder = try holders[key] ?? storage.savedHolders(of: key).first else {
                continue
            }
            if let found, layout.rowKey(found.bits) != layout.rowKey(holder) {
                let ids = [found.bits, holder].map {
                    ManagedObjectID(bits: $0, store: storage.identity)
                }
                throw row.ambiguity(ids[0], ids[1], key.properties, file: path)
            }
            found = found ?? (holder, key.properties)
        }
        return found
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
