internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Finds, within a save, dangling references: to rows that other writers have deleted, or from rows of other writers to those
/// that the change set deletes. Runs after the rows are written.
struct SQLiteReferenceCheck {
    let store: SQLiteStore
    let connection: SQLiteConnection
    let changes: ChangeSet

    func conflicts() throws -> [(id: ManagedObjectID, change: MergeConflict.Change)] {
        try missingTargets() + newlyReferenced()
    }

    // MARK: - Referenced objects

    private func missingTargets() throws -> [(id: ManagedObjectID, change: MergeConflict.Change)] {
        var targets = Targets(
            minimumCapacity: changes.inserted.count + changes.deleted.count)
        changes.inserted.forEachInPlace { targets.exclude($0.pointee.objectID) }
        // References that the change set itself leaves dangling by a delete rule are allowed.
        for deletion in changes.deleted { targets.exclude(deletion.objectID) }
        changes.inserted.forEachInPlace { targets.addReferences(of: $0) }
        changes.updated.forEachInPlace {
            targets.addReferences(of: $0)
            if !$0.pointee.writesRow { targets.add($0.pointee.objectID) }
        }
        let missing = try targets.order.filter { try !exists($0) }
        if missing.isEmpty { return [] }
        let updated = Set(changes.updated.map(\.objectID))
        return missing.map { ($0, updated.contains($0) ? .update : .reference) }
    }

    /// Collects unique identifiers.
    private struct Targets: ~Copyable {
        private(set) var order: [ManagedObjectID] = []
        private var seen: IdentifierTable
        private var last: UInt64 = 0

        init(minimumCapacity: Int) { seen = IdentifierTable(minimumCapacity: minimumCapacity) }

        /// Excludes an identifier. Must be called before any is added.
        mutating func exclude(_ id: ManagedObjectID) { seen.set(0, for: id.bits) }

        mutating func add(_ id: ManagedObjectID) {
            // Objects of one owner are mostly adjacent.
            if id.bits == last { return }
            last = id.bits
            if seen.set(0, for: id.bits) == nil { order.append(id) }
        }

        mutating func addReferences(of change: UnsafePointer<ObjectChange>) {
            let entity = change.pointee.entity
            for slot in entity.identifierSlots where change.pointee.changedSlots.contains(slot) {
                if entity.storages[slot] == .reference, entity.slots[slot].isStored,
                    case .objectID(let id) = change.pointee.values[slot]
                {
                    add(id)
                }
            }
            for toMany in change.pointee.toManyChanges { for id in toMany.added { add(id) } }
        }
    }

    private func exists(_ id: ManagedObjectID) throws -> Bool {
        guard store.identity.owns(id) else {
            throw QuireError.foreign(id, "to be referred to", path: store.storePath)
        }
        let table = store.schema.entity(number: id.entityNumber).tableName
        return try connection.integer(
            "SELECT 1 FROM \(SQLName.quoted(table)) WHERE Z_PK = ?", id.primaryKey) != nil
    }

    // MARK: - References to deleted objects

    private func newlyReferenced() throws -> [(id: ManagedObjectID, change: MergeConflict.Change)] {
        var queries: [Int: [String]] = [:]
        var result: [(id: ManagedObjectID, change: MergeConflict.Change)] = []
        for deletion in changes.deleted {
            let number = deletion.objectID.entityNumber
            let entityQueries = queries[number] ?? self.queries(forEntity: number)
            queries[number] = entityQueries
            for sql in entityQueries
            where try connection.integer(sql, deletion.objectID.primaryKey) != nil {
                result.append((deletion.objectID, .deletion))
                break
            }
        }
        return result
    }

    /// One query for each to-one relationship to an entity that its deletion nullifies or denies.
    private func queries(forEntity number: Int) -> [String] {
        let entity = store.layout.entity(number: number)
        return entity.relationships.compactMap { relationship in
            guard relationship.description.deleteRule != .noAction,
                let slot = store.layout.inverse(of: relationship)?.slot
            else { return nil }
            let place = store.schema.entity(number: relationship.destinationNumber)
            guard let column = place.columns[slot] else { return nil }
            return "SELECT 1 FROM \(SQLName.quoted(place.tableName)) "
                + "WHERE \(SQLName.quoted(column.name)) = ? LIMIT 1"
        }
    }
}
