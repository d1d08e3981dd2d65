internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Looks, within a save, for references that would lead nowhere: because others have deleted what the change set
/// refers to, or now refer to what it deletes. Runs after the rows are written.
struct SQLiteReferenceCheck {
    let store: SQLiteStore
    let connection: SQLiteConnection
    let changes: ChangeSet

    func conflicts() throws -> [(id: ManagedObjectID, change: ObjectConflict.Change)] {
        try missingTargets() + newlyReferenced()
    }

    // MARK: - What is referred to

    private func missingTargets() throws -> [(id: ManagedObjectID, change: ObjectConflict.Change)] {
        var targets = Targets(
            minimumCapacity: changes.inserted.count + changes.deleted.count)
        changes.inserted.forEachInPlace { targets.exclude($0.pointee.objectID) }
        // What the change set itself leaves leading nowhere, by a rule of the model, it may.
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

    /// Collects identifiers, each once.
    private struct Targets: ~Copyable {
        private(set) var order: [ManagedObjectID] = []
        private var seen: IdentifierTable
        private var last: UInt64 = 0

        init(minimumCapacity: Int) { seen = IdentifierTable(minimumCapacity: minimumCapacity) }

        /// Has an identifier left out. Call it before any is added.
        mutating func exclude(_ id: ManagedObjectID) { seen.set(0, for: id.bits) }

        mutating func add(_ id: ManagedObjectID) {
            // Objects of one owner mostly come together.
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
            throw QuireError(
                .invalidValue,
                "\(id.shortDescription) is to be referred to, but is no object of “\(store.storePath)”.",
                subject: .init(object: id.uriRepresentation, file: store.storePath))
        }
        let table = store.schema.entity(number: id.entityNumber).tableName
        return try connection.integer(
            "SELECT 1 FROM \(SQLName.quoted(table)) WHERE Z_PK = ?", id.primaryKey) != nil
    }

    // MARK: - What refers to deleted objects

    private func newlyReferenced() throws -> [(id: ManagedObjectID, change: ObjectConflict.Change)]
    {
        var queries: [Int: [String]] = [:]
        var result: [(id: ManagedObjectID, change: ObjectConflict.Change)] = []
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

    /// One for each to-one relationship that leads to an entity and that its deletion clears or forbids.
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
