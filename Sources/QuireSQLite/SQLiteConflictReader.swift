internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// Reads, within a failing save, the rows that it conflicts with.
struct SQLiteConflictReader {
    let store: SQLiteStore
    let connection: SQLiteConnection

    /// The row of an object, or `nil` if it has been deleted.
    func row(of id: ManagedObjectID) throws -> ObjectSnapshot? {
        let entity = store.layout.entity(number: id.entityNumber)
        let root = store.layout.entity(number: entity.rootNumber)
        let selection = store.selection(of: root)
        var builder = RowSetBuilder(
            layout: store.layout, store: store.identity, externalData: store.externalData)
        let reader = SQLiteRowReader(
            connection: connection, selection: selection, store: store)
        let table = SQLName.quoted(store.schema.entity(root).tableName)
        try connection.withStatement("SELECT \(selection.list) FROM \(table) t0 WHERE t0.Z_PK = ?")
        {
            try $0.bind(id.primaryKey, at: 1)
            try reader.readAll($0, into: &builder)
        }
        guard let row = builder.finish().first, entity.subtree.contains(row.entity.number) else {
            return nil
        }
        return row
    }

    // MARK: - Uniqueness

    private struct Key: Hashable {
        let owner: Int
        let properties: [String]
        let values: [AttributeValue]
    }

    /// The constraints violated by refused rows, with the conflicting objects.
    func violations(
        of refused: [ObjectChange], among changes: ChangeSet
    ) throws -> [ConstraintConflict] {
        let saved = Set((changes.inserted + changes.updated).map(\.objectID))
        var order: [Key] = []
        var found: [Key: ConstraintConflict] = [:]
        for change in refused {
            var row: ObjectSnapshot?
            if change.version > 0 { row = try self.row(of: change.objectID) }
            for (owner, properties) in change.entity.uniquenessConstraints {
                let slots = change.entity.slots(ofConstraint: properties)
                let values = try slots.map { slot in
                    try change.changedSlots.contains(slot)
                        ? change.values[slot] : row?.value(at: slot) ?? .null
                }
                guard !values.isEmpty, !values.contains(.null) else { continue }
                let key = Key(owner: owner, properties: properties, values: values.map(\.stored))
                if found[key] != nil {
                    found[key]?.conflictingObjectIDs.append(change.objectID)
                    continue
                }
                guard let holder = try holder(of: key, slots, change) else { continue }
                order.append(key)
                let isSaved = saved.contains(holder)
                found[key] = try ConstraintConflict(
                    entityName: store.layout.entity(number: owner).name, constraint: properties,
                    constraintValues: values, current: isSaved ? nil : self.row(of: holder),
                    conflictingObjectIDs: (isSaved ? [holder] : []) + [change.objectID])
            }
        }
        return order.compactMap { found[$0] }
    }

    /// The object that already has the values.
    private func holder(
        of key: Key, _ slots: [Int], _ change: ObjectChange
    ) throws -> ManagedObjectID? {
        let place = store.schema.entity(change.entity)
        let columns = slots.compactMap { place.columns[$0]?.name }
        guard columns.count == slots.count else { return nil }
        let condition = columns.map { "\(SQLName.quoted($0)) = ?" }.joined(separator: " AND ")
        return try connection.row(
            "SELECT Z_PK, Z_ENT FROM \(SQLName.quoted(place.tableName)) WHERE \(condition) AND Z_PK <> ?",
            key.values + [.integer(change.objectID.primaryKey)]
        ) { row in
            store.schema.modelNumber(ofStoreNumber: row.integer(1)).map {
                ManagedObjectID(
                    entityNumber: $0, primaryKey: row.integer(0), store: store.identity)
            }
        }
    }
}
