import Foundation
internal import QuireModel
internal import QuireStore

/// What the triggers of derived attributes tell a connection during a save, and ask it. Used as its connection is.
final class SQLiteDerivedLog {
    /// A row by its `Z_ENT` and primary key.
    struct Row: Hashable {
        let entity: Int64
        let key: Int64
    }

    private var rows: Set<Row> = []
    /// The time of the save.
    private var date: Date?

    /// The time that `now()` stands for, in seconds since the year 2001: the same throughout a save.
    var now: Double { (date ?? Date()).timeIntervalSinceReferenceDate }

    /// Begins a save.
    func begin() {
        rows = []
        date = Date()
    }

    /// Notes that a derived value of a row was set.
    func note(entity: Int64, key: Int64) { rows.insert(Row(entity: entity, key: key)) }

    /// Ends a save, and gives the objects whose derived values it has set and that are none of its changes.
    func end(besides changes: ChangeSet, schema: SQLSchema, store: StoreIdentity)
        -> [ManagedObjectID]
    {
        date = nil
        if rows.isEmpty { return [] }
        var saved = Set<UInt64>(minimumCapacity: changes.inserted.count + changes.updated.count)
        changes.inserted.forEachInPlace { saved.insert($0.pointee.objectID.bits) }
        changes.updated.forEachInPlace { saved.insert($0.pointee.objectID.bits) }
        for deletion in changes.deleted { saved.insert(deletion.objectID.bits) }
        var found: [ManagedObjectID] = []
        for row in rows {
            guard let number = schema.modelNumber(ofStoreNumber: row.entity), row.key > 0,
                row.key <= ManagedObjectID.greatestPrimaryKey
            else { continue }
            let id = ManagedObjectID(entityNumber: number, primaryKey: row.key, store: store)
            if !saved.contains(id.bits) { found.append(id) }
        }
        rows = []
        return found.sorted { $0.bits < $1.bits }
    }
}
