package import QuireModel
public import QuireQuery
public import QuireStore
internal import QuireSystem

/// Writes the rows of a batch insertion, one by one.
///
/// A row is inserted; if it violates a uniqueness constraint, the stored object with the values is updated according to the
/// policy. That object is looked up first where an insertion cannot be tried: if the row has large values, which would
/// be written to files, or lacks required values of a new object.
final class SQLiteBatchRowWriter {
    private let batch: SQLiteBatch
    private let store: SQLiteStore
    private let policy: MergePolicy.Kind
    private let entity: ResolvedEntity
    private let uniqueRows: SQLiteUniqueRows
    private let references: SQLiteBatchReferences
    private let hasExternalData: Bool
    private let collectsObjectIDs: Bool
    private let allSlots: SlotMask
    private var row: BatchInsertRow
    private var change: ObjectChange
    /// A primary key reserved for a row that was not inserted.
    private var unusedKey: Int64?
    private var maximumKey: Int64
    private var count = 0
    private var inserted: ContiguousArray<UInt64> = []
    private var updated: Set<UInt64> = []

    init(
        _ batch: SQLiteBatch, _ row: BatchInsertRow, policy: MergePolicy.Kind,
        collectsObjectIDs: Bool
    ) throws {
        self.batch = batch
        self.row = row
        self.policy = policy
        self.collectsObjectIDs = collectsObjectIDs
        store = batch.store
        entity = row.entity
        uniqueRows = SQLiteUniqueRows(entity, store: store, connection: batch.connection)
        references = try SQLiteBatchReferences(entity, batch)
        hasExternalData =
            store.hasExternalData && entity.slots.contains(where: \.isExternalCapable)
        allSlots = SlotMask(first: entity.slots.count)
        maximumKey = try store.recordPrimaryKeys(root: entity.rootNumber, batch.connection)
        change = ObjectChange(
            objectID: ManagedObjectID(
                entityNumber: entity.number, primaryKey: 0, store: store.identity),
            entity: entity, version: 0, values: row.values, changedSlots: allSlots)
    }

    /// Writes a row.
    ///
    /// - Returns: The new object; `nil` if none was inserted.
    func write(_ values: [String: AttributeValue]) throws -> ManagedObjectID? {
        try row.take(values)
        try references.check(row)
        let failure = row.failureAsNew()
        let upserts = policy != .error && !uniqueRows.isEmpty
        if upserts, hasExternalData || failure != nil, let holder = try uniqueRows.holder(of: row) {
            if policy == .overwrite, let failure { throw failure }
            try update(holder)
            return nil
        }
        if let failure { throw failure }
        do {
            try insert()
        } catch let failure as SQLiteFailure where failure.code == SQLiteFailure.uniqueConstraint {
            batch.rows.discardBindings()
            guard upserts, let holder = try uniqueRows.holder(of: row) else {
                throw failure.error(path: store.storePath, schema: store.schema)
            }
            try update(holder)
            return nil
        }
        return change.objectID
    }

    /// Ends the request.
    func finish() throws -> BatchResult {
        try references.finish()
        batch.maximumKeys[entity.rootNumber] = maximumKey
        func identifiers(_ bits: some Sequence<UInt64>) -> [ManagedObjectID] {
            bits.map { ManagedObjectID(bits: $0, store: store.identity) }
        }
        return BatchResult(
            count: count,
            changes: ObjectIDChanges(
                inserted: identifiers(inserted),
                updated: identifiers(updated.subtracting(inserted).sorted())))
    }

    private func insert() throws {
        let key = try unusedKey ?? store.nextPrimaryKey(root: entity.rootNumber)
        unusedKey = key
        change.objectID = ManagedObjectID(
            entityNumber: entity.number, primaryKey: key, store: store.identity)
        change.entity = entity
        change.version = 0
        change.values = row.values
        change.changedSlots = allSlots
        if hasExternalData { try batch.rows.files.write(change) }
        try withUnsafePointer(to: &change) { try batch.rows.insert($0) }
        unusedKey = nil
        maximumKey = max(maximumKey, key)
        try references.didWrite(change, row.references)
        count += 1
        try batch.history?.recordInsertion(of: change.objectID)
        if collectsObjectIDs { inserted.append(change.objectID.bits) }
    }

    private func update(_ holder: SQLiteUniqueRows.Holder) throws {
        if policy == .rollback { return }
        let target = store.layout.entity(number: holder.objectID.entityNumber)
        let present =
            policy == .mergeByPropertyStoreTrump || references.needsOldTargets
            ? try SQLiteConflictReader(store: store, connection: batch.connection)
                .row(of: holder.objectID) : nil
        change.objectID = holder.objectID
        change.entity = target
        change.version = holder.version
        change.values = ContiguousArray(repeating: .null, count: target.slots.count)
        change.changedSlots = SlotMask()
        let isSet = try row.update(&change, policy, file: store.storePath) {
            try present?.valueWithoutLoading(at: $0).isNull != false
        }
        if !isSet { return }
        if hasExternalData { try batch.rows.files.write(change) }
        if let present { try references.willLeave(present, change) }
        try withUnsafePointer(to: &change) { try batch.rows.update($0) }
        try references.didWrite(change, row.references)
        count += 1
        try batch.history?.recordUpdate(of: change.objectID, slots: change.changedSlots)
        if collectsObjectIDs { updated.insert(holder.objectID.bits) }
    }

}

// MARK: - Insertion

extension SQLiteStore {
    /// Inserts the rows that a closure passes on, in one transaction; none if it throws.
    ///
    /// - Parameter body: Gets a function that inserts a row and returns the new object, or `nil` if it changed a stored one.
    package func insertRows(
        ofEntityNamed name: String, origin: TransactionOrigin,
        onConflict policy: MergePolicy.Kind = .error, collectsObjectIDs: Bool = false,
        _ body: ((_ row: [String: AttributeValue]) throws -> ManagedObjectID?) throws -> Void
    ) throws -> BatchResult {
        let row = try BatchInsertRow(
            layout.requireEntity(named: name), in: layout, store: identity)
        return try SQLiteBatch.run(on: self, origin: origin) { batch in
            let writer = try SQLiteBatchRowWriter(
                batch, row, policy: policy, collectsObjectIDs: collectsObjectIDs)
            try body(writer.write)
            return try writer.finish()
        }
    }

    /// Inserts the rows of a request in one transaction.
    public func insert(
        _ request: BatchInsertRequest, onConflict policy: MergePolicy.Kind
    ) throws -> BatchResult {
        try insertRows(
            ofEntityNamed: request.entityName, origin: request.origin, onConflict: policy,
            collectsObjectIDs: request.resultType == .objectIDs
        ) { insert in
            try request.forEachNumberedRow { _ = try insert($0) }
        }
    }
}
