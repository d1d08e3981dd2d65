internal import QuireModel
internal import QuireQuery
internal import QuireStore
internal import QuireSystem

/// Runs a batch deletion, as a list of steps.
struct SQLiteBatchDelete {
    let store: SQLiteStore
    let request: BatchDeleteRequest

    func run() throws -> BatchResult {
        let seed = try Seed(request, store: store)
        return try SQLiteBatch.run(on: store, origin: request.origin) { batch in
            let run = SQLiteBatchDeletion(batch)
            try run.begin()
            try run.collect(seed)
            try run.collectCascades()
            try run.checkDenials()
            try run.clearReferences()
            try run.deleteRows()
            try run.checkCounts()
            return try run.finish(collectingObjectIDs: request.resultType == .objectIDs)
        }
    }

    /// The validated target of a request.
    enum Seed {
        case query(SQLFragment, rootNumber: Int)
        case objectIDs([ManagedObjectID])

        init(_ request: BatchDeleteRequest, store: SQLiteStore) throws {
            switch request.selection {
            case .request(let fetch):
                if let ids = try store.objectsBeyondSQL(fetch) {
                    self = .objectIDs(Array(ids))
                    return
                }
                let query = try ResolvedQuery(fetch, in: store.layout, store: store.identity)
                let statement = try FetchStatement(
                    query, selecting: .columns("t0.Z_PK AS k, t0.Z_ENT AS e"),
                    schema: store.schema, store: store.identity)
                self = .query(
                    SQLFragment(sql: statement.sql, bindings: statement.bindings),
                    rootNumber: query.entity.rootNumber)
            case .objectIDs(let ids):
                if let other = ids.first(where: { !store.owns($0) }) {
                    throw QuireError.foreign(other, "to be deleted", path: store.storePath)
                }
                self = .objectIDs(ids)
            }
        }
    }
}

/// The steps of a batch deletion.
private final class SQLiteBatchDeletion {
    private let batch: SQLiteBatch
    private let store: SQLiteStore
    private let plan: SQLBatchDeletion
    private let countCheck: SQLiteCountCheck
    private var connection: SQLiteConnection { batch.connection }
    /// The entities with objects to delete.
    private var entities: [ResolvedEntity] = []

    init(_ batch: SQLiteBatch) {
        self.batch = batch
        store = batch.store
        plan = SQLBatchDeletion(schema: batch.store.schema)
        countCheck = SQLiteCountCheck(store: batch.store, connection: batch.connection)
    }

    func begin() throws {
        try connection.execute(SQLBatchDeletion.begin)
        try countCheck.begin()
    }

    // MARK: Collecting

    func collect(_ seed: SQLiteBatchDelete.Seed) throws {
        switch seed {
        case .query(let query, let root): try run(plan.collect(query, rootNumber: root))
        case .objectIDs(let ids):
            for id in ids {
                let entity = store.layout.entity(number: id.entityNumber)
                try connection.run(plan.collectOne(entity).sql, id.primaryKey)
            }
        }
    }

    func collectCascades() throws {
        var known: Set<Int> = []
        var round: Int64 = 0
        while true {
            let found = try self.entities(ofRound: round)
            if found.isEmpty { break }
            known.formUnion(found.map(\.number))
            for entity in found {
                for relationship in entity.relationships
                where relationship.description.deleteRule == .cascade {
                    try plan.cascade(relationship, of: entity).map {
                        try connection.run($0.sql, round)
                    }
                }
            }
            round += 1
        }
        entities = known.sorted().map(store.layout.entity(number:))
    }

    private func entities(ofRound round: Int64) throws -> [ResolvedEntity] {
        try connection.rows(SQLBatchDeletion.entitiesOfRound.sql, round) { row in
            store.schema.modelNumber(ofStoreNumber: row.integer(0)).map {
                store.layout.entity(number: $0)
            }
        }
        .compactMap { $0 }
    }

    // MARK: Related objects

    private func forEachRelationship(
        withRule rule: DeleteRule,
        _ body: (ResolvedEntity.Relationship, ResolvedEntity) throws -> Void
    ) throws {
        for entity in entities {
            for relationship in entity.relationships
            where relationship.description.deleteRule == rule {
                try body(relationship, entity)
            }
        }
    }

    /// The maximum number of blocking objects listed in an error.
    private static let maximumNamedCount = 100

    /// - Throws: ``QuireError`` with code `deleteDenied` for the first object with a denied deletion.
    func checkDenials() throws {
        try forEachRelationship(withRule: .deny) { relationship, entity in
            guard let query = plan.remaining(relationship, of: entity) else { return }
            let destination = store.layout.destination(of: relationship)
            var object: ManagedObjectID?
            var blocking: [ManagedObjectID] = []
            try connection.withStatement(query.sql) { statement in
                while blocking.count < Self.maximumNamedCount, try statement.step() {
                    let id = objectID(statement.integer(0), of: entity)
                    if let object, object != id { break }
                    object = id
                    blocking.append(
                        objectID(statement.integer(1), statement.integer(2), destination))
                }
            }
            guard let object else { return }
            throw QuireError(deletionOf: object, deniedBy: relationship.name, blocking)
        }
    }

    func clearReferences() throws {
        try forEachRelationship(withRule: .nullify) { relationship, entity in
            if let owners = plan.owners(
                relationship, of: entity, into: SQLFragment(sql: SQLiteCountCheck.table))
            {
                try run(owners)
            }
            guard let clearing = plan.clearing(relationship, of: entity) else { return }
            if let required = clearing.required {
                try checkNone(required, relationship, entity)
            }
            try run(clearing.collect)
            try run(clearing.clear)
        }
        for entity in entities {
            for statement in plan.forget(entity) { try run(statement) }
        }
    }

    private func checkNone(
        _ query: SQLFragment, _ relationship: ResolvedEntity.Relationship, _ entity: ResolvedEntity
    ) throws {
        let destination = store.layout.destination(of: relationship)
        let found = try connection.row(query.sql) {
            objectID($0.integer(0), $0.integer(1), destination)
        }
        guard let found, let inverse = store.layout.inverse(of: relationship) else { return }
        throw inverse.requiredViolation(of: found, deleting: entity)
    }

    // MARK: Rows

    private var rootNumbers: [Int] { Array(Set(entities.map(\.rootNumber))).sorted() }

    func deleteRows() throws {
        for entity in entities {
            let number = store.schema.entity(entity).storeNumber
            try batch.noteFiles(
                of: entity.slots, in: entity,
                where:
                    "Z_PK IN (SELECT Z_PK FROM \(SQLBatchDeletion.deleted) WHERE Z_ENT = \(number))"
            )
            try batch.history?.recordDeletions(
                of: entity,
                where:
                    "Z_PK IN (SELECT Z_PK FROM \(SQLBatchDeletion.deleted.sql) WHERE Z_ENT = \(number))"
            )
        }
        for root in rootNumbers { try run(plan.delete(rootNumber: root)) }
        for root in try touchedRoots() { try run(plan.raiseVersions(rootNumber: root)) }
    }

    private func touchedRoots() throws -> [Int] {
        let query: SQLFragment = "SELECT DISTINCT Z_ROOT FROM \(SQLBatchDeletion.touched)"
        return try connection.rows(query.sql) { Int($0.integer(0)) }
    }

    /// - Throws: ``QuireError`` with code `validation` if a remaining object has fewer destinations than its minimum.
    func checkCounts() throws { try countCheck.finish() }

    func finish(collectingObjectIDs: Bool) throws -> BatchResult {
        let counted: SQLFragment = "SELECT count(*) FROM \(SQLBatchDeletion.deleted)"
        let count = try connection.integer(counted.sql) ?? 0
        var changes = ObjectIDChanges()
        if collectingObjectIDs || batch.history != nil {
            for entity in entities {
                let query: SQLFragment =
                    "SELECT Z_PK FROM \(SQLBatchDeletion.deleted) WHERE Z_ENT = \(store.schema.entity(entity).storeNumber) ORDER BY Z_PK"
                changes.deleted += try connection.rows(query.sql) {
                    objectID($0.integer(0), of: entity)
                }
            }
            for root in try touchedRoots() {
                let entity = store.layout.entity(number: root)
                changes.updated += try connection.rows(plan.touchedObjects(rootNumber: root).sql) {
                    objectID($0.integer(0), $0.integer(1), entity)
                }
            }
        }
        for id in changes.updated { try batch.history?.recordUpdate(of: id, slots: nil) }
        if !collectingObjectIDs { changes = ObjectIDChanges() }
        try connection.execute(SQLBatchDeletion.end)
        return BatchResult(count: Int(count), changes: changes)
    }

    // MARK: Parts

    private func run(_ statement: SQLFragment) throws {
        try connection.run(statement.sql, statement.bindings)
    }

    private func objectID(_ key: Int64, of entity: ResolvedEntity) -> ManagedObjectID {
        ManagedObjectID(entityNumber: entity.number, primaryKey: key, store: store.identity)
    }

    private func objectID(
        _ key: Int64, _ storeNumber: Int64, _ entity: ResolvedEntity
    ) -> ManagedObjectID {
        ManagedObjectID(
            entityNumber: store.schema.modelNumber(ofStoreNumber: storeNumber) ?? entity.number,
            primaryKey: key, store: store.identity)
    }
}

// MARK: - References

/// Maintains the references of batch-inserted rows: checks that destinations exist, appends new objects to ordered inverses,
/// and checks the inverses' count constraints.
final class SQLiteBatchReferences {
    /// A relationship whose inverse is ordered or has count constraints.
    private struct Kept {
        let slot: Int
        let column: String
        let orderColumn: String?
        /// The inverse, if it has count constraints.
        let counted: ResolvedEntity.Relationship?
    }

    private struct Place: Hashable {
        let slot: Int
        let owner: Int64
    }

    private let batch: SQLiteBatch
    private let entity: ResolvedEntity
    private let kept: [Kept]
    private let countCheck: SQLiteCountCheck
    /// Objects known to exist.
    private var known: Set<UInt64> = []
    /// The last order keys of inverses that rows were added to.
    private var lastKeys: [Place: Int64] = [:]

    /// The maximum number of entries in each.
    private static let maximumCount = 10_000

    init(_ entity: ResolvedEntity, _ batch: SQLiteBatch) throws {
        self.batch = batch
        self.entity = entity
        let store = batch.store
        let place = store.schema.entity(entity)
        kept = entity.relationships.compactMap { relationship in
            guard let slot = relationship.slot, let column = place.columns[slot],
                let inverse = store.layout.inverse(of: relationship)
            else { return nil }
            let counted = inverse.hasCountRules ? inverse : nil
            if column.orderColumn == nil && counted == nil { return nil }
            return Kept(
                slot: slot, column: SQLName.quoted(column.name),
                orderColumn: column.orderColumn.map(SQLName.quoted), counted: counted)
        }
        countCheck = SQLiteCountCheck(store: store, connection: batch.connection)
        if needsOldTargets { try countCheck.begin() }
    }

    /// Whether an object's previous destinations matter.
    var needsOldTargets: Bool { kept.contains { $0.counted != nil } }

    /// Checks that a row's destinations exist.
    ///
    /// - Throws: ``QuireError`` with code `notFound`.
    func check(_ row: BatchInsertRow) throws {
        try row.checkReferences { target in
            if known.contains(target.bits) { return true }
            let place = batch.store.schema.entity(number: target.entityNumber)
            let found = try batch.connection.integer(
                "SELECT Z_ENT FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?",
                target.primaryKey)
            guard let found, place.subtreeStoreNumbers.contains(Int(found)) else { return false }
            if known.count >= Self.maximumCount { known.removeAll(keepingCapacity: true) }
            known.insert(target.bits)
            return true
        }
    }

    /// Records the destinations that a stored object will no longer refer to.
    func willLeave(_ present: ObjectSnapshot, _ change: ObjectChange) throws {
        for kept in kept where change.changedSlots.contains(kept.slot) {
            guard let counted = kept.counted,
                case .objectID(let owner) = try present.value(at: kept.slot)
            else { continue }
            try countCheck.note(owner, counted)
        }
    }

    /// Gives a written object its order keys in the inverses.
    func didWrite(
        _ change: ObjectChange,
        _ references: [(relationship: ResolvedEntity.Relationship, target: ManagedObjectID)]
    ) throws {
        if kept.isEmpty || references.isEmpty { return }
        for kept in kept where change.changedSlots.contains(kept.slot) {
            guard
                let reference = references.first(where: { $0.relationship.slot == kept.slot })
            else { continue }
            if let counted = kept.counted { try countCheck.note(reference.target, counted) }
            if let order = kept.orderColumn {
                try append(change.objectID, to: reference.target, kept, order)
            }
        }
    }

    /// Appends an object without order key to the order.
    private func append(
        _ objectID: ManagedObjectID, to owner: ManagedObjectID, _ kept: Kept, _ order: String
    ) throws {
        let table = SQLName.quoted(batch.store.schema.entity(entity).tableName)
        let place = Place(slot: kept.slot, owner: owner.primaryKey)
        let last =
            try lastKeys[place]
            ?? batch.connection.integer(
                "SELECT max(\(order)) FROM \(table) WHERE \(kept.column) = ?", owner.primaryKey)
        let key = SQLOrderKeys.appending(1, after: last)[0]
        try batch.connection.run(
            "UPDATE \(table) SET \(order) = ?1 WHERE Z_PK = ?2 AND \(order) IS NULL",
            key, objectID.primaryKey)
        if lastKeys.count >= Self.maximumCount { lastKeys.removeAll(keepingCapacity: true) }
        lastKeys[place] = key
    }

    /// Checks the count constraints of the destinations.
    func finish() throws {
        if needsOldTargets { try countCheck.finish() }
    }
}
