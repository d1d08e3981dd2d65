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
        var targets = Targets()
        for change in changes.inserted { targets.addReferences(of: change) }
        for change in changes.updated {
            targets.addReferences(of: change)
            if !change.writesRow { targets.add(change.objectID) }
        }
        if targets.order.isEmpty { return [] }
        var known = Set<UInt64>(minimumCapacity: changes.inserted.count + changes.deleted.count)
        for change in changes.inserted { known.insert(change.objectID.bits) }
        // What the change set itself leaves leading nowhere, by a rule of the model, it may.
        for deletion in changes.deleted { known.insert(deletion.objectID.bits) }
        let missing = try targets.order.filter { try !known.contains($0.bits) && !exists($0) }
        if missing.isEmpty { return [] }
        let updated = Set(changes.updated.map(\.objectID))
        return missing.map { ($0, updated.contains($0) ? .update : .reference) }
    }

    /// Collects identifiers, each once.
    private struct Targets {
        var order: [ManagedObjectID] = []
        private var seen: Set<UInt64> = []
        private var last: UInt64 = 0

        mutating func add(_ id: ManagedObjectID) {
            // Objects of one owner mostly come together.
            if id.bits == last { return }
            last = id.bits
            if seen.insert(id.bits).inserted { order.append(id) }
        }

        mutating func addReferences(of change: borrowing ObjectChange) {
            for slot in change.entity.identifierSlots where change.changedSlots.contains(slot) {
                if change.entity.storages[slot] == .reference, change.entity.slots[slot].isStored,
                    case .objectID(let id) = change.values[slot]
                {
                    add(id)
                }
            }
            for toMany in change.toManyChanges { for id in toMany.added { add(id) } }
        }
    }

    private func exists(_ id: ManagedObjectID) throws -> Bool {
        guard !id.isTemporary, id.store === store.identity || id.store.uuid == store.identity.uuid
        else {
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
